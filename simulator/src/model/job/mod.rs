//! One job: its life, its requirements, its running attempt.

mod attempt;
mod rescale;
mod view;

use std::collections::BTreeMap;

use super::checkpoint::Checkpoints;
use super::flow::Flow;
use super::graph::Graph;
use super::meters::Meters;
use super::pool::Pool;
use super::source::Source;
use super::truth::RescaleRecord;
use crate::rng::Rng;
use crate::spec::{ClusterSpec, JobSpec, VertexKind};

pub(crate) use rescale::Bounds;
pub use rescale::Cause;
pub(crate) use view::{JobView, Sample, SubtaskView, TaskState, VertexView};

/// State of a job, in Flink's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobStatus {
    /// Submitted, not yet scheduled.
    Initializing,
    /// Waiting for resources.
    Created,
    /// Running, or about to.
    Running,
    /// About to start again.
    Restarting,
    /// Failed for good.
    Failed,
    /// Cancelled.
    Canceled,
    /// Ended by itself or by a stop.
    Finished,
}

impl JobStatus {
    /// The word that Flink uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "INITIALIZING",
            Self::Created => "CREATED",
            Self::Running => "RUNNING",
            Self::Restarting => "RESTARTING",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
            Self::Finished => "FINISHED",
        }
    }

    /// Whether the job is over.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Failed | Self::Canceled | Self::Finished)
    }
}

/// What the job is doing, in more detail than its status.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Phase {
    Unsubmitted,
    /// The tasks stopped; the next attempt is prepared at that time. `direct`: without waiting for better resources.
    Restarting {
        until_ms: i64,
        direct: bool,
    },
    Waiting {
        since_ms: i64,
        direct: bool,
    },
    Deploying {
        since_ms: i64,
        until_ms: i64,
    },
    Running,
    Ended,
}

/// What a job needs from its cluster for one step.
pub(crate) struct World<'a> {
    pub(crate) spec: &'a ClusterSpec,
    pub(crate) pool: &'a mut Pool,
    pub(crate) rng: &'a mut Rng,
    /// The job's number in the cluster.
    pub(crate) number: usize,
    /// Whether slots came or went in this step.
    pub(crate) slots_changed: bool,
}

/// One job.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) spec: JobSpec,
    graph: Graph,
    submit_ms: i64,
    /// End of the last step.
    stepped_ms: i64,
    pub(crate) status: JobStatus,
    entered_ms: BTreeMap<JobStatus, i64>,
    phase: Phase,
    pub(crate) bounds: Vec<Bounds>,
    pub(crate) bounds_changed_ms: Option<i64>,
    change: Option<rescale::Change>,
    look_again: bool,
    cooldown_until_ms: i64,
    /// Parallelism of the current or last attempt.
    parallelism: Vec<u32>,
    flow: Option<Flow>,
    meters: Meters,
    sources: Vec<Option<Source>>,
    /// Attempt number of each subtask, and the one that it gets next.
    attempts: Vec<Vec<u32>>,
    next_attempts: Vec<Vec<u32>>,
    deployed_ms: i64,
    running_ms: Option<i64>,
    first_running_ms: Option<(i64, i64)>,
    /// Slots in use, as numbers of members of the pool.
    pub(crate) slots: Vec<usize>,
    /// Where the subtasks of the current or last attempt were placed.
    placed: Vec<usize>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) restarts: u64,
    pub(crate) rescales: u64,
    pub(crate) failure: Option<(i64, String)>,
    history: Vec<RescaleRecord>,
    /// Records that each vertex had taken, each once, when this attempt began.
    base: Vec<u64>,
    lost: u64,
    slot_ms: i64,
    down_ms: i64,
    last_counters: Vec<Vec<super::flow::Counters>>,
}

impl Job {
    pub(crate) fn new(spec: JobSpec, graph: Graph, cluster: &ClusterSpec, start_ms: i64) -> Self {
        let submit_ms = start_ms + spec.submit_after_ms;
        let sources = spec.vertices.iter().map(|vertex| match &vertex.kind {
            VertexKind::Source(source) => Some(Source::new(source, submit_ms)),
            VertexKind::Operator => None,
        });
        let count = spec.vertices.len();
        Self {
            submit_ms,
            stepped_ms: start_ms,
            status: JobStatus::Initializing,
            entered_ms: BTreeMap::new(),
            phase: Phase::Unsubmitted,
            bounds: spec.vertices.iter().map(|vertex| Bounds::initial(vertex, cluster.scheduler)).collect(),
            bounds_changed_ms: None,
            change: None,
            look_again: false,
            cooldown_until_ms: i64::MIN,
            parallelism: spec.vertices.iter().map(|vertex| vertex.parallelism).collect(),
            flow: None,
            meters: Meters::new(start_ms),
            sources: sources.collect(),
            attempts: vec![Vec::new(); count],
            next_attempts: vec![Vec::new(); count],
            deployed_ms: 0,
            running_ms: None,
            first_running_ms: None,
            slots: Vec::new(),
            placed: Vec::new(),
            checkpoints: Checkpoints::new(spec.checkpoint_interval_ms, spec.checkpoint_ms, spec.state_bytes),
            restarts: 0,
            rescales: 0,
            failure: None,
            history: Vec::new(),
            base: vec![0; count],
            lost: 0,
            slot_ms: 0,
            down_ms: 0,
            last_counters: vec![Vec::new(); count],
            graph,
            spec,
        }
    }

    /// Continues where `before` left off: its outside systems, and its newest checkpoint or savepoint.
    pub(crate) fn resume_from(&mut self, before: &Self) {
        self.sources.clone_from(&before.sources);
        self.base.clone_from(&before.base);
        self.checkpoints.latest.completed.clone_from(&before.checkpoints.latest.completed);
        self.checkpoints.latest.savepoint.clone_from(&before.checkpoints.latest.savepoint);
    }

    /// Whether Flink knows the job yet.
    pub(crate) fn is_known(&self) -> bool {
        self.phase != Phase::Unsubmitted
    }

    /// Lets one step pass that ends at `now_ms`.
    pub(crate) fn step(&mut self, now_ms: i64, world: &mut World<'_>) {
        if self.phase == Phase::Ended || (self.phase == Phase::Unsubmitted && now_ms < self.submit_ms) {
            return;
        }
        self.stepped_ms = now_ms;
        self.produce(now_ms);
        self.look_again |= world.slots_changed;
        match self.phase {
            Phase::Unsubmitted => self.submit(now_ms),
            Phase::Restarting { until_ms, direct } if now_ms >= until_ms => {
                self.enter(JobStatus::Created, now_ms);
                self.phase = Phase::Waiting { since_ms: now_ms, direct };
            }
            Phase::Waiting { since_ms, direct } => self.wait_for_slots(now_ms, since_ms, direct, world),
            Phase::Deploying { until_ms, .. } => self.deploy(now_ms, until_ms, world),
            Phase::Running => self.run(now_ms, world),
            Phase::Restarting { .. } | Phase::Ended => {}
        }
        let step = world.spec.step_ms;
        if self.phase != Phase::Running && self.running_ms.is_some() {
            self.down_ms += step;
        }
        self.slot_ms += step.saturating_mul(crate::num::signed(crate::num::wide(self.slots.len())));
    }

    /// Brings the outside systems up to `now_ms`.
    pub(crate) fn produce(&mut self, now_ms: i64) {
        for source in self.sources.iter_mut().flatten() {
            source.produce(now_ms);
        }
    }

    /// The outside system of source `name`, by name or id.
    pub(crate) fn source(&mut self, name: &str) -> Option<&mut Source> {
        let index = self.spec.vertices.iter().position(|v| v.name == name || v.id == name)?;
        self.sources[index].as_mut()
    }

    fn submit(&mut self, now_ms: i64) {
        self.enter(JobStatus::Initializing, now_ms);
        self.enter(JobStatus::Created, now_ms);
        self.phase = Phase::Waiting { since_ms: now_ms, direct: false };
    }

    fn enter(&mut self, status: JobStatus, now_ms: i64) {
        self.status = status;
        self.entered_ms.insert(status, now_ms);
    }

    /// Ends the job for good.
    pub(crate) fn end(&mut self, status: JobStatus, now_ms: i64, world: &mut World<'_>) {
        if self.status.is_terminal() {
            return;
        }
        self.end_attempt(now_ms, "The job is over.", world);
        world.pool.release(world.number);
        self.slots.clear();
        self.change = None;
        self.enter(status, now_ms);
        self.phase = Phase::Ended;
    }

    /// Fails the job for good because of `why`.
    pub(crate) fn fail(&mut self, why: &str, now_ms: i64, world: &mut World<'_>) {
        self.failure = Some((now_ms, why.into()));
        self.end(JobStatus::Failed, now_ms, world);
    }

    /// Records that vertex `vertex` has taken in all, as if there had been no restart.
    pub(crate) fn effective_in(&self, vertex: usize) -> u64 {
        let running: u64 = self.flow.iter().flat_map(|flow| flow.counters(vertex)).map(|c| c.records_in).sum();
        self.base[vertex] + running
    }

    /// Records that entered the queues of each edge in the running attempt, and those that still wait there.
    pub(crate) fn edges(&self) -> Vec<(u64, u64)> {
        let Some(flow) = &self.flow else { return Vec::new() };
        (0..self.spec.edges.len()).map(|edge| flow.edge(edge)).collect()
    }
}
