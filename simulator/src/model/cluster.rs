//! One simulated session cluster: time, jobs, `TaskManager`s, and the hooks of tests and demos.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use super::graph::Graph;
use super::job::{Job, JobStatus, JobView, World};
use super::pool::Pool;
use super::store::MetricStore;
use super::truth::Truth;
use crate::rng::Rng;
use crate::spec::{ClusterSpec, JobSpec, SpecError, check_cluster, check_job};

/// One simulated session cluster. Its state follows from its specification, the times and the calls: nothing else.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub(crate) spec: ClusterSpec,
    now_ms: i64,
    pub(crate) started_ms: i64,
    pub(crate) pool: Pool,
    pub(crate) jobs: Vec<Job>,
    pub(crate) store: MetricStore,
    /// Structures of jobs as the REST server last took them.
    pub(crate) views: BTreeMap<String, Arc<JobView>>,
    pub(crate) rng: Rng,
    /// Requests for checkpoints of jobs that cannot take any: why they failed.
    pub(crate) refused: BTreeMap<String, String>,
    /// Busy time and moment of each `TaskManager` at the last fetch.
    pub(super) busy_before: BTreeMap<String, (i64, f64)>,
    slots_changed: bool,
    dead: bool,
}

/// Why a hook did nothing.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum HookError {
    /// No job of that name or id was submitted and is not over.
    #[error("no live job is named {0:?}; truth() lists the jobs")]
    UnknownJob(String),
    /// The job has no source of that name or id.
    #[error("job {job:?} has no source {name:?}")]
    UnknownSource {
        /// Name of the job.
        job: String,
        /// Name of the source.
        name: String,
    },
    /// No such `TaskManager` is alive.
    #[error("no living TaskManager has the id {0:?}")]
    UnknownTaskManager(String),
    /// The job cannot be submitted.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

impl Cluster {
    /// A cluster that starts at `start_ms`.
    ///
    /// # Errors
    /// Refuses specifications that cannot be simulated; see [`SpecError`].
    pub fn new(spec: ClusterSpec, start_ms: i64) -> Result<Self, SpecError> {
        check_cluster(&spec)?;
        let mut pool = Pool::default();
        for _ in 0..spec.task_managers {
            pool.add(spec.slots_per_task_manager, start_ms);
        }
        let mut jobs = Vec::new();
        for job in &spec.jobs {
            jobs.push(Job::new(job.clone(), Graph::new(job)?, &spec, start_ms));
        }
        Ok(Self {
            rng: Rng::new(spec.seed),
            now_ms: start_ms,
            started_ms: start_ms,
            pool,
            jobs,
            store: MetricStore::default(),
            views: BTreeMap::new(),
            refused: BTreeMap::new(),
            busy_before: BTreeMap::new(),
            slots_changed: false,
            dead: false,
            spec,
        })
    }

    /// The specification that the cluster was made from.
    #[must_use]
    pub fn spec(&self) -> &ClusterSpec {
        &self.spec
    }

    /// Time of the last whole step.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Whether the `JobManager` has died: nothing answers any more.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Lets time pass up to `now_ms`, in whole steps. Earlier times than the current one change nothing.
    pub fn advance_to(&mut self, now_ms: i64) {
        while self.now_ms + self.spec.step_ms <= now_ms {
            self.step();
        }
    }

    fn step(&mut self) {
        self.now_ms += self.spec.step_ms;
        let now_ms = self.now_ms;
        if self.dead {
            self.jobs.iter_mut().for_each(|job| job.produce(now_ms));
            return;
        }
        self.slots_changed |= self.pool.tick(now_ms);
        for number in 0..self.jobs.len() {
            let completed = self.jobs[number].checkpoints.completed;
            self.with_world(number, |job, world| job.step(now_ms, world));
            let job = &self.jobs[number];
            let unset = job.bounds.iter().any(|bounds| bounds.upper < 0);
            self.dead |=
                unset && job.checkpoints.completed > completed && self.spec.version.dies_of_unset_upper_bound();
        }
        self.slots_changed = false;
        if self.store.arrives(now_ms) {
            self.measure(now_ms);
        }
    }

    fn with_world(&mut self, number: usize, act: impl FnOnce(&mut Job, &mut World<'_>)) {
        let Self { spec, pool, rng, jobs, slots_changed, .. } = self;
        act(&mut jobs[number], &mut World { spec, pool, rng, number, slots_changed: *slots_changed });
    }

    /// Number of the newest live job named or numbered `job`, else of the newest at all.
    pub(crate) fn find(&self, job: &str) -> Option<usize> {
        let named = |index: &usize| self.jobs[*index].spec.id == job || self.jobs[*index].spec.name == job;
        let live = |index: &usize| !self.jobs[*index].status.is_terminal();
        let newest = || (0..self.jobs.len()).rev().filter(named);
        newest().find(live).or_else(|| newest().next())
    }

    fn live(&self, job: &str) -> Result<usize, HookError> {
        let found = self.find(job).filter(|&index| !self.jobs[index].status.is_terminal());
        found.ok_or_else(|| HookError::UnknownJob(job.into()))
    }

    /// Offers `records_per_second` to `source` of `job` from now on; what its trace held for later is dropped.
    ///
    /// # Errors
    /// Refuses jobs and sources that do not exist.
    pub fn set_rate(&mut self, job: &str, source: &str, records_per_second: f64) -> Result<(), HookError> {
        let number = self.live(job)?;
        let now_ms = self.now_ms;
        let unknown = || HookError::UnknownSource { job: job.into(), name: source.into() };
        let found = self.jobs[number].source(source).ok_or_else(unknown)?;
        found.load().set_rate(now_ms, records_per_second);
        Ok(())
    }

    /// Fails one task of `job`: all of it starts again from the last checkpoint.
    ///
    /// # Errors
    /// Refuses jobs that do not exist or are over.
    pub fn fail_task(&mut self, job: &str) -> Result<(), HookError> {
        self.on_job(job, |job, now_ms, world| job.fail_over("java.lang.RuntimeException: injected", now_ms, world))
    }

    /// Fails `job` for good.
    ///
    /// # Errors
    /// Refuses jobs that do not exist or are over.
    pub fn fail_job(&mut self, job: &str) -> Result<(), HookError> {
        self.on_job(job, |job, now_ms, world| job.fail("java.lang.RuntimeException: injected", now_ms, world))
    }

    /// Cancels `job`.
    ///
    /// # Errors
    /// Refuses jobs that do not exist or are over.
    pub fn cancel_job(&mut self, job: &str) -> Result<(), HookError> {
        self.on_job(job, |job, now_ms, world| job.end(JobStatus::Canceled, now_ms, world))
    }

    /// Lets `job` end by itself.
    ///
    /// # Errors
    /// Refuses jobs that do not exist or are over.
    pub fn finish_job(&mut self, job: &str) -> Result<(), HookError> {
        self.on_job(job, |job, now_ms, world| job.end(JobStatus::Finished, now_ms, world))
    }

    fn on_job(&mut self, job: &str, act: impl FnOnce(&mut Job, i64, &mut World<'_>)) -> Result<(), HookError> {
        let number = self.live(job)?;
        let now_ms = self.now_ms;
        self.with_world(number, |job, world| act(job, now_ms, world));
        Ok(())
    }

    /// Submits one more job, after its `submit_after_ms` from now.
    ///
    /// # Errors
    /// Refuses specifications that cannot be simulated, and ids that were used before.
    pub fn submit(&mut self, spec: JobSpec) -> Result<(), HookError> {
        check_job(&spec)?;
        if self.jobs.iter().any(|job| job.spec.id == spec.id) {
            return Err(SpecError::Duplicate { job: spec.name, what: format!("job id {}", spec.id) }.into());
        }
        let graph = Graph::new(&spec)?;
        self.jobs.push(Job::new(spec, graph, &self.spec, self.now_ms));
        Ok(())
    }

    /// Submits a job that is over once more under a new id: it continues from its newest checkpoint or savepoint, at its
    /// graph's own parallelism and with its graph's own requirements. Returns the new id.
    ///
    /// # Errors
    /// Refuses jobs that do not exist or are not over yet.
    pub fn resubmit(&mut self, job: &str) -> Result<String, HookError> {
        let over = self.find(job).filter(|&index| self.jobs[index].status.is_terminal());
        let number = over.ok_or_else(|| HookError::UnknownJob(job.into()))?;
        let before = self.jobs[number].clone();
        let id = self.rng.hex_id();
        let spec = JobSpec { id: id.clone(), submit_after_ms: 0, ..before.spec.clone() };
        self.submit(spec)?;
        if let Some(again) = self.jobs.last_mut() {
            again.resume_from(&before);
        }
        Ok(id)
    }

    /// Adds a `TaskManager`; its id.
    pub fn add_task_manager(&mut self) -> String {
        self.slots_changed = true;
        self.pool.add(self.spec.slots_per_task_manager, self.now_ms)
    }

    /// Stops a `TaskManager` in good order: the `JobManager` knows at once.
    ///
    /// # Errors
    /// Refuses ids of which no living `TaskManager` exists.
    pub fn remove_task_manager(&mut self, id: &str) -> Result<(), HookError> {
        self.stop_task_manager(id, 0)
    }

    /// Kills a `TaskManager`: its slots are believed to exist until its loss is noticed.
    ///
    /// # Errors
    /// Refuses ids of which no living `TaskManager` exists.
    pub fn kill_task_manager(&mut self, id: &str) -> Result<(), HookError> {
        self.stop_task_manager(id, self.spec.loss_notice_ms)
    }

    fn stop_task_manager(&mut self, id: &str, notice_ms: i64) -> Result<(), HookError> {
        let stopped = self.pool.stop(id, self.now_ms + notice_ms);
        if stopped { Ok(()) } else { Err(HookError::UnknownTaskManager(id.into())) }
    }

    /// Ids of the registered `TaskManager`s.
    #[must_use]
    pub fn task_managers(&self) -> Vec<String> {
        self.pool.registered().map(|(_, member)| member.id.clone()).collect()
    }

    /// What really happened up to the last whole step.
    #[must_use]
    pub fn truth(&self) -> Truth {
        Truth {
            now_ms: self.now_ms,
            slots: self.pool.total(),
            free_slots: self.pool.free(),
            jobs: self.jobs.iter().filter(|job| job.is_known()).map(Job::truth).collect(),
        }
    }
}
