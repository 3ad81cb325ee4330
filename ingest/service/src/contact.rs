//! The first look at a cluster: what it is, and what stands in the way.

use std::collections::BTreeMap;
use std::fmt;

use weir_flink::decode::{JobState, JobSummary, Scheduler};
use weir_flink::{FlinkClient, FlinkError, Version};
use weir_schemas::num::short_time;

/// What a first look at a cluster found. Printed, it is a few plain lines.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FirstContact {
    /// Flink's version, as it names itself; empty: unknown.
    pub version: String,
    /// Scheduler of the cluster; nothing: unknown.
    pub scheduler: Option<Scheduler>,
    /// How often Flink refreshes its metrics, in milliseconds.
    pub refresh_ms: Option<i64>,
    /// How long Flink caches what it says of jobs, in milliseconds.
    pub web_refresh_ms: Option<i64>,
    /// Slots of all TaskManagers.
    pub slots_total: Option<u32>,
    /// Slots that nobody uses.
    pub slots_free: Option<u32>,
    /// TaskManagers.
    pub task_managers: Option<u32>,
    /// Jobs that have not ended.
    pub jobs: Vec<JobContact>,
    /// What stands in the way, one sentence each, with what to do.
    pub problems: Vec<String>,
}

/// A job at first sight.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobContact {
    /// Its name.
    pub name: String,
    /// Flink's id of this run.
    pub id: String,
    /// State as Flink names it.
    pub state: String,
    /// Whether it takes checkpoints; nothing: unknown.
    pub checkpoints: Option<bool>,
    /// Time between two, in milliseconds.
    pub checkpoint_interval_ms: Option<u64>,
    /// When the latest completed one was triggered, in milliseconds since 1970.
    pub last_checkpoint_ms: Option<i64>,
    /// Jobs of the same name, this one included.
    pub same_name: usize,
    /// Another autoscaler that it is configured for.
    pub rival: Option<String>,
}

/// Below this, numbers are fresh enough for reactions within seconds, in milliseconds.
const PROMPT_REFRESH_MS: i64 = 2_000;

/// Looks at a cluster once. It never fails: what could not be learnt is among the problems.
pub async fn first_contact(client: FlinkClient<'_>) -> FirstContact {
    let mut found = FirstContact::default();
    match client.web_config().await {
        Ok(config) => {
            found.version.clone_from(&config.version_text);
            found.web_refresh_ms = config.refresh_interval_ms;
            if !config.version.is_some_and(Version::supported) {
                found.problems.push(FlinkError::UnsupportedVersion(config.version_text.clone()).to_string());
            }
        }
        Err(error) => {
            // Nothing else would be answered any better.
            found.problems.push(error.to_string());
            return found;
        }
    }
    let rival = look_at_configuration(client, &mut found).await;
    match client.overview().await {
        Ok(overview) => {
            found.slots_total = overview.slots_total;
            found.slots_free = overview.slots_available;
            found.task_managers = overview.task_managers;
        }
        Err(error) => found.problems.push(error.to_string()),
    }
    match client.jobs().await {
        Ok(jobs) => look_at_jobs(client, &jobs, rival.as_deref(), &mut found).await,
        Err(error) => found.problems.push(error.to_string()),
    }
    found.judge();
    found
}

async fn look_at_configuration(client: FlinkClient<'_>, found: &mut FirstContact) -> Option<String> {
    match client.job_manager_config().await {
        Ok(config) => {
            found.scheduler = config.scheduler();
            found.refresh_ms = Some(config.fetch_interval_ms());
            found.web_refresh_ms = config.web_refresh_interval_ms().or(found.web_refresh_ms);
            config.rival()
        }
        Err(error) => {
            found.problems.push(format!("the JobManager's configuration is unknown: {error}"));
            None
        }
    }
}

async fn look_at_jobs(client: FlinkClient<'_>, jobs: &[JobSummary], rival: Option<&str>, found: &mut FirstContact) {
    let alive: Vec<&JobSummary> = jobs.iter().filter(|job| JobState::of(&job.state) != JobState::Ended).collect();
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for job in &alive {
        *names.entry(&job.name).or_default() += 1;
    }
    for job in alive {
        let mut contact = look_at_job(client, job).await;
        contact.same_name = names.get(job.name.as_str()).copied().unwrap_or(1);
        contact.rival = contact.rival.or_else(|| rival.map(str::to_owned));
        found.jobs.push(contact);
    }
}

async fn look_at_job(client: FlinkClient<'_>, job: &JobSummary) -> JobContact {
    let mut contact = JobContact {
        name: job.name.clone(),
        id: job.id.clone(),
        state: job.state.clone(),
        same_name: 1,
        ..JobContact::default()
    };
    if let Ok(config) = client.checkpoints_config(&job.id).await {
        contact.checkpoint_interval_ms = config.and_then(|config| config.interval_ms);
        contact.checkpoints = Some(contact.checkpoint_interval_ms.is_some());
    }
    if let Ok(Some(checkpoints)) = client.checkpoints(&job.id).await {
        contact.last_checkpoint_ms = checkpoints.latest_completed.as_ref().and_then(|latest| latest.trigger_ms);
    }
    if let Ok(config) = client.job_config(&job.id).await {
        contact.rival = config.rival();
    }
    contact
}

impl FirstContact {
    /// Finds what stands in the way.
    fn judge(&mut self) {
        match self.scheduler {
            Some(Scheduler::Default) => self.problems.push(
                "the default scheduler cannot change parallelism in place: jobs are watched and advised on, not changed; \
                 set jobmanager.scheduler: adaptive and resubmit them"
                    .into(),
            ),
            Some(Scheduler::Reactive) => self.problems.push(
                "reactive mode gives jobs all slots there are: parallelism follows the TaskManagers and is not set".into(),
            ),
            Some(Scheduler::Adaptive) | None => {}
        }
        if let Some(refresh_ms) = self.refresh_ms.filter(|&refresh_ms| refresh_ms > PROMPT_REFRESH_MS) {
            self.problems.push(format!(
                "metrics are refreshed every {}: set metrics.fetcher.update-interval: 1000 for answers within seconds",
                short_time(refresh_ms)
            ));
        }
        let mut found = Vec::new();
        for job in &self.jobs {
            found.extend(job.problems());
        }
        found.sort();
        found.dedup();
        self.problems.append(&mut found);
    }

    /// The owner of the jobs' parallelism, in words.
    fn owner(&self) -> String {
        let mut rivals: Vec<&str> = self.jobs.iter().filter_map(|job| job.rival.as_deref()).collect();
        rivals.sort_unstable();
        rivals.dedup();
        if rivals.is_empty() { "nobody else seen".into() } else { rivals.join(", ") }
    }
}

impl JobContact {
    fn problems(&self) -> Vec<String> {
        let name = &self.name;
        let mut found = Vec::new();
        if self.checkpoints == Some(false) {
            found.push(format!(
                "job {name} takes no checkpoints: a change would lose its state, so it is never changed; set \
                 execution.checkpointing.interval"
            ));
        } else if self.checkpoints.is_none() {
            found.push(format!("whether job {name} takes checkpoints is unknown; it is looked at again"));
        }
        if self.same_name > 1 {
            found.push(format!(
                "{} jobs run under the name {name}: they are watched, never changed; give them names of their own",
                self.same_name
            ));
        }
        if let Some(rival) = &self.rival {
            found.push(format!("{rival} is set for job {name}: switch one of the two off before Weir acts on it"));
        }
        found
    }
}

impl fmt::Display for FirstContact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = || "unknown".to_owned();
        let time = |time: Option<i64>| time.map_or_else(unknown, short_time);
        let number = |number: Option<u32>| number.map_or_else(unknown, |number| number.to_string());
        if self.version.is_empty() {
            // Nothing is known of a cluster that does not answer, and nothing is claimed.
            return self.problems.iter().try_for_each(|problem| writeln!(f, "problem      {problem}"));
        }
        writeln!(f, "Flink        {}", self.version)?;
        writeln!(f, "scheduler    {}", self.scheduler.map_or_else(unknown, |scheduler| scheduler.to_string()))?;
        writeln!(f, "refresh      metrics every {}", time(self.refresh_ms))?;
        writeln!(
            f,
            "slots        {} of {} free on {} TaskManagers",
            number(self.slots_free),
            number(self.slots_total),
            number(self.task_managers)
        )?;
        writeln!(f, "owner        {}", self.owner())?;
        for job in &self.jobs {
            let checkpoints = match (job.checkpoints, job.checkpoint_interval_ms) {
                (Some(true), Some(ms)) => format!("every {}", short_time(i64::try_from(ms).unwrap_or(i64::MAX))),
                (Some(_), _) => "none".into(),
                (None, _) => unknown(),
            };
            let latest = if job.last_checkpoint_ms.is_some() { "" } else { ", none completed yet" };
            writeln!(f, "job          {} {}, checkpoints {checkpoints}{latest}", job.name, job.state)?;
        }
        for problem in &self.problems {
            writeln!(f, "problem      {problem}")?;
        }
        Ok(())
    }
}
