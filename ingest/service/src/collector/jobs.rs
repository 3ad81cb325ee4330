//! Which jobs are watched.

use std::collections::{BTreeMap, BTreeSet};

use weir_flink::decode::{JobState, JobSummary};
use weir_runtime::Backoff;
use weir_schemas::identity::{JobKey, RunId};

use super::Collector;
use crate::report::RoundReport;
use crate::watched::Watched;

impl Collector {
    /// Takes the list of jobs: new ones are watched from now on, ended and vanished ones are told of and forgotten.
    pub(super) fn settle(&mut self, listed: Vec<JobSummary>, report: &mut RoundReport) {
        let listed: BTreeMap<RunId, JobSummary> = listed
            .into_iter()
            .filter(|job| !job.name.is_empty() && self.spec.watches(&job.name))
            .map(|job| (RunId { id: job.id.clone(), start_ms: job.start_ms.unwrap_or(0) }, job))
            .collect();
        let alive = |job: &&JobSummary| JobState::of(&job.state) != JobState::Ended;
        let names: BTreeSet<&str> = listed.values().filter(alive).map(|job| job.name.as_str()).collect();
        let left: Vec<RunId> =
            self.jobs.keys().filter(|run| !listed.get(*run).as_ref().is_some_and(alive)).cloned().collect();
        for run in left {
            let Some(job) = self.jobs.remove(&run) else { continue };
            let ended = listed.get(&run);
            // Another submission of the job goes on: the job has not ended, only this run of it.
            let goes_on = names.iter().any(|name| JobKey::new(&self.spec.name, name).to_string() == job.key);
            if !goes_on && !job.told_gone {
                let (reason, detail) = match ended {
                    Some(ended) => ("finished", format!("the job ended as {}", ended.state)),
                    None => ("gone", "the JobManager does not list the job any more".to_owned()),
                };
                self.silence(&job.key, reason, detail, 0, report);
            }
        }
        let first_pause_ms = self.quick_ms();
        for (run, job) in listed.iter().filter(|(_, job)| alive(job)) {
            if !self.jobs.contains_key(run) {
                let key = JobKey::new(&self.spec.name, &job.name);
                let backoff =
                    Backoff::new(first_pause_ms, self.options.longest_pause_ms, self.producer.seed(&job.name));
                let watched = Watched::new(&key, run.clone(), self.tick, backoff);
                self.jobs.insert(run.clone(), watched);
            }
        }
        let running = listed.values().filter(|job| JobState::of(&job.state) == JobState::Running).count();
        self.jobs_running = weir_schemas::num::count_u32(running);
    }

    /// Jobs that run under the name of this one, itself included.
    pub(super) fn same_name(&self, key: &str) -> u32 {
        weir_schemas::num::count_u32(self.jobs.values().filter(|job| job.key == key).count())
    }
}
