//! Reading the jobs that are due, all from one fetch of the cluster's metrics.

use std::collections::BTreeSet;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use metrics::counter;
use weir_flink::decode::{JobState, Scheduler, VertexDetail};
use weir_flink::{CallError, FlinkClient, FlinkError, VertexId};
use weir_runtime::{telemetry, within};
use weir_schemas::identity::RunId;
use weir_schemas::records::record::Body;
use weir_schemas::records::{ClusterFacts, TaskManager};

use super::Collector;
use crate::batch::{Surroundings, batch};
use crate::calls::{Calls, silence_reason};
use crate::cluster::{read_metrics, task_manager};
use crate::read::{JobReading, ReadPlan, read_job};
use crate::report::{Refusal, RoundReport};
use crate::watched::Judgement;

/// The fetch that a round reads from.
struct Fetched {
    /// By the wall clock, in milliseconds since 1970.
    at_ms: i64,
    /// By the monotonic clock.
    monotonic_ms: i64,
    /// Whether it is the first one. Somebody may have had a fetch just before, ourselves at first contact even, and then this one
    /// is older than it seems: nothing that needs its time can be learnt from it.
    first: bool,
    task_managers: Vec<TaskManager>,
}

/// A refresh is never taken to be shorter than this, in milliseconds: within less, no job could be read.
const SHORTEST_FETCH_MS: i64 = 1_000;
/// Records of jobs that were read do not wait longer than this for the others, in milliseconds.
const FLUSH_AFTER_MS: i64 = 250;

/// Being calm never makes the time between two readings longer than this, in milliseconds: a step of load has to be noticed soon.
const LONGEST_CALM_MS: i64 = 5_000;

impl Collector {
    /// Makes Flink fetch its metrics, then reads all jobs that are due.
    pub(super) async fn read_due(&mut self, calls: &Calls<'_>, report: &mut RoundReport) -> Result<(), FlinkError> {
        let now_ms = self.clock.monotonic_ms();
        let requirements_exist = !matches!(self.facts.scheduler, Some(Scheduler::Default | Scheduler::Reactive));
        let due: Vec<(RunId, ReadPlan)> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.due_tick <= self.tick)
            .map(|(run, job)| (run.clone(), job.plan(now_ms, requirements_exist, &self.options)))
            .collect();
        report.due = due.len();
        if due.is_empty() {
            return Ok(());
        }
        let fetched = self.fetch(calls).await?;
        self.read_all(due, &fetched, report).await;
        Ok(())
    }

    /// Makes Flink fetch its metrics and waits until it has them; meanwhile reads the TaskManagers.
    async fn fetch(&mut self, calls: &Calls<'_>) -> Result<Fetched, FlinkError> {
        let asked_ms = self.clock.monotonic_ms();
        self.in_time("/taskmanagers/metrics", calls.ask(calls.client.prime())).await?;
        let monotonic_ms = self.clock.monotonic_ms();
        let at_ms = self.clock.now_ms() - (monotonic_ms - asked_ms) / 2;
        let listed = self.in_time("/taskmanagers", calls.ask(calls.client.task_managers())).await;
        let mut task_managers: Vec<TaskManager> = match listed {
            Ok(listed) => listed.into_iter().map(task_manager).collect(),
            // The jobs may be read all the same; their TaskManagers are unknown in this round.
            Err(error) => {
                self.problem(silence_reason(&error));
                Vec::new()
            }
        };
        task_managers.sort_by(|a, b| a.id.cmp(&b.id));
        self.clock.sleep_ms(monotonic_ms + self.options.settle_ms - self.clock.monotonic_ms()).await;
        let most = self.options.task_managers_a_round;
        let deadline_ms = self.options.call_deadline_ms.min(self.fetch_lasts_ms() / 4);
        let read = read_metrics(calls, &mut task_managers, self.turn, most);
        if within(self.clock.as_ref(), deadline_ms, read).await.is_err() {
            self.problem("timeout");
        }
        self.turn = if task_managers.is_empty() { 0 } else { (self.turn + most) % task_managers.len() };
        let first = !std::mem::replace(&mut self.fetched_before, true);
        Ok(Fetched { at_ms, monotonic_ms, first, task_managers })
    }

    /// For how long all readings come from the same fetch, in milliseconds.
    fn fetch_lasts_ms(&self) -> i64 {
        self.facts.refresh_ms.max(SHORTEST_FETCH_MS)
    }

    /// Reads jobs at the same time, until the fetch is out of date. None waits for another.
    async fn read_all(&mut self, due: Vec<(RunId, ReadPlan)>, fetched: &Fetched, report: &mut RoundReport) {
        let (api, name, permits) = (self.spec.api.clone(), self.spec.name.clone(), self.permits.clone());
        let mut reading: FuturesUnordered<_> = due
            .iter()
            .map(|(run, plan)| {
                let calls = Calls::new(FlinkClient::new(api.as_ref()), &name, &permits);
                async move {
                    let read = read_job(&calls, plan).await;
                    (run, read, calls.made())
                }
            })
            .collect();
        let mut open: BTreeSet<&RunId> = due.iter().map(|(run, _)| run).collect();
        let until_ms = fetched.monotonic_ms + self.fetch_lasts_ms();
        loop {
            let left_ms = until_ms - self.clock.monotonic_ms();
            match within(self.clock.as_ref(), left_ms.min(FLUSH_AFTER_MS), reading.next()).await {
                Ok(Some((run, read, calls))) => {
                    open.remove(run);
                    self.finish(run, read, calls, fetched, report);
                }
                Ok(None) => break,
                Err(_) if left_ms <= FLUSH_AFTER_MS => break,
                Err(_) => self.flush(report).await,
            }
        }
        drop(reading);
        let lasted_ms = self.clock.monotonic_ms() - fetched.monotonic_ms;
        for run in open {
            let path = format!("/jobs/{}", run.id);
            let late = FlinkError::Call { path, source: CallError::Timeout(lasted_ms) };
            self.finish(run, Err(late), 0, fetched, report);
        }
    }

    /// Takes what came of one job.
    fn finish(
        &mut self,
        run: &RunId,
        read: Result<JobReading, FlinkError>,
        calls: u32,
        fetched: &Fetched,
        report: &mut RoundReport,
    ) {
        let Some(key) = self.jobs.get(run).map(|job| job.key.clone()) else { return };
        if calls > 0 {
            *report.job_calls.entry(key.clone()).or_default() += calls;
        }
        match read {
            // It ended after the list was read: the next list says so.
            Ok(reading) if JobState::of(&reading.detail.state) == JobState::Ended => self.due_next(run),
            Ok(reading) => self.use_reading(run, &key, reading, fetched, report),
            Err(error) => self.reading_failed(run, &key, &error, report),
        }
    }

    fn due_next(&mut self, run: &RunId) {
        if let Some(job) = self.jobs.get_mut(run) {
            job.due_tick = self.tick + 1;
        }
    }

    fn use_reading(
        &mut self,
        run: &RunId,
        key: &str,
        mut reading: JobReading,
        fetched: &Fetched,
        report: &mut RoundReport,
    ) {
        for failure in std::mem::take(&mut reading.failures) {
            self.problem(silence_reason(&failure));
            tracing::debug!(job = key, %failure, "a part of the job cannot be read");
        }
        let (now_ms, quick_ms, tick) = (self.clock.monotonic_ms(), self.quick_ms(), self.tick);
        let Some(job) = self.jobs.get_mut(run) else { return };
        let mut stale = match job.judge(&reading) {
            Judgement::Use(stale) => stale,
            Judgement::Refuse(detail) => {
                job.due_tick = tick + 1;
                self.problem("mixed");
                self.refuse(key, "mixed", detail, quick_ms, report);
                return;
            }
        };
        if fetched.first {
            stale = every_subtask(&reading);
        }
        let absorbed = job.absorb(&mut reading, fetched.monotonic_ms, now_ms, &self.options);
        // Only what came counts: a job that hangs must not slow the others down.
        self.took_ms = now_ms - fetched.monotonic_ms - self.options.settle_ms;
        job.once.succeeded(key);
        job.backoff.succeeded();
        job.told_gone = false;
        let half_as_often_ms = quick_ms.saturating_mul(2);
        let slows = absorbed.calm && half_as_often_ms <= LONGEST_CALM_MS;
        let (ticks, period_ms) = if slows { (2, half_as_often_ms) } else { (1, quick_ms) };
        job.due_tick = tick + ticks;
        let mut around = self.surroundings(run, fetched, &stale, period_ms);
        around.fetched_at_ms -= absorbed.delay_ms;
        around.monotonic_ms -= absorbed.delay_ms;
        let parts = batch(&reading, &around);
        report.read += 1;
        counter!(telemetry::BATCHES, "cluster" => self.spec.name.clone()).increment(1);
        for part in parts {
            self.push(key.to_owned(), Body::Metrics(part));
        }
    }

    fn surroundings<'a>(
        &'a self,
        run: &'a RunId,
        fetched: &'a Fetched,
        stale: &'a BTreeSet<(VertexId, u32)>,
        period_ms: i64,
    ) -> Surroundings<'a> {
        let job = &self.jobs[run];
        let slots = |of: fn(&TaskManager) -> u32| fetched.task_managers.iter().map(of).fold(0, u32::saturating_add);
        let rival = job.rival.as_ref().or(self.facts.rival.as_ref());
        Surroundings {
            batch_id: format!("{}/{}/{}", self.producer.session, self.round, run.id),
            round: self.round,
            session: &self.producer.session,
            run_start_ms: run.start_ms,
            period_ms,
            refresh_ms: self.facts.refresh_ms,
            fetched_at_ms: fetched.at_ms,
            monotonic_ms: fetched.monotonic_ms,
            same_name: self.same_name(&job.key),
            cluster: ClusterFacts {
                flink_version: self.facts.version.clone(),
                scheduler: self.facts.scheduler.map_or_else(String::new, |scheduler| scheduler.as_str().to_owned()),
                slots_total: slots(|manager| manager.slots),
                slots_free: slots(|manager| manager.slots_free),
                rival: rival.cloned().unwrap_or_default(),
                jobs_running: self.jobs_running,
                requirements: job.requirements.clone().unwrap_or_default(),
            },
            task_managers: &fetched.task_managers,
            sources: &job.sources,
            checkpoint_interval_ms: job.checkpoint_interval_ms,
            stale,
            part_bytes: self.options.part_bytes,
        }
    }

    /// Nothing came of a job: it is silent, and read again later and later.
    fn reading_failed(&mut self, run: &RunId, key: &str, error: &FlinkError, report: &mut RoundReport) {
        let reason = silence_reason(error);
        let Some(job) = self.jobs.get_mut(run) else { return };
        job.once.failed(key, error.code(), &format!("the job cannot be read: {error}"));
        let pause_ms = job.backoff.failed();
        job.fell_silent();
        job.told_gone = reason == "gone";
        let ticks = self.ticks_of(pause_ms);
        if let Some(job) = self.jobs.get_mut(run) {
            job.due_tick = self.tick + ticks;
        }
        let period_ms = self.quick_ms().saturating_mul(i64::try_from(ticks).unwrap_or(i64::MAX));
        self.refuse(key, reason, error.to_string(), period_ms, report);
    }

    fn refuse(&mut self, key: &str, reason: &'static str, detail: String, period_ms: i64, report: &mut RoundReport) {
        self.silence(key, reason, detail.clone(), period_ms, report);
        report.refused.push(Refusal { job: key.to_owned(), reason, detail });
    }

    fn problem(&self, reason: &'static str) {
        counter!(telemetry::INPUT_PROBLEMS, "cluster" => self.spec.name.clone(), "reason" => reason).increment(1);
    }
}

fn every_subtask(reading: &JobReading) -> BTreeSet<(VertexId, u32)> {
    let subtasks = |(id, vertex): (&VertexId, &VertexDetail)| {
        vertex.subtasks.iter().map(|subtask| (id.clone(), subtask.index)).collect::<Vec<_>>()
    };
    reading.vertices.iter().flat_map(subtasks).collect()
}
