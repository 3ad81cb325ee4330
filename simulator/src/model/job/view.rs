//! What Flink shows of a job: its structure as of one moment, and the metrics of its subtasks.

use std::collections::BTreeMap;

use super::super::checkpoint::Checkpoints;
use super::super::flow::Counters;
use super::super::meters::Rates;
use super::super::source::Source;
use super::{Job, JobStatus, Phase};
use crate::spec::{JobSpec, SourceKind};

/// State of a task, in Flink's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskState {
    Created,
    Deploying,
    Initializing,
    Running,
    Finished,
    Canceled,
    Failed,
}

impl TaskState {
    /// All states that Flink counts.
    pub(crate) const WORDS: [&'static str; 10] = [
        "CREATED",
        "SCHEDULED",
        "DEPLOYING",
        "INITIALIZING",
        "RUNNING",
        "FINISHED",
        "CANCELING",
        "CANCELED",
        "FAILED",
        "RECONCILING",
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Deploying => "DEPLOYING",
            Self::Initializing => "INITIALIZING",
            Self::Running => "RUNNING",
            Self::Finished => "FINISHED",
            Self::Canceled => "CANCELED",
            Self::Failed => "FAILED",
        }
    }
}

/// A job as the cache of the REST server holds it.
#[derive(Debug, Clone)]
pub(crate) struct JobView {
    pub(crate) taken_ms: i64,
    pub(crate) spec: JobSpec,
    /// Ends of each edge, as indices of vertices.
    pub(crate) ends: Vec<(usize, usize)>,
    pub(crate) status: JobStatus,
    pub(crate) started_ms: i64,
    pub(crate) ended_ms: Option<i64>,
    pub(crate) entered_ms: BTreeMap<JobStatus, i64>,
    pub(crate) vertices: Vec<VertexView>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) failure: Option<(i64, String)>,
}

/// A vertex as of one moment.
#[derive(Debug, Clone)]
pub(crate) struct VertexView {
    pub(crate) parallelism: usize,
    pub(crate) state: TaskState,
    pub(crate) started_ms: Option<i64>,
    pub(crate) ended_ms: Option<i64>,
    /// Empty while the job waits for slots.
    pub(crate) subtasks: Vec<SubtaskView>,
}

/// A subtask as of one moment.
#[derive(Debug, Clone)]
pub(crate) struct SubtaskView {
    pub(crate) attempt: u32,
    /// Number of its `TaskManager` in the pool.
    pub(crate) member: Option<usize>,
    pub(crate) running_ms: Option<i64>,
    /// Counters of a task that has ended; those of a running one are in the metric store.
    pub(crate) archived: Option<Counters>,
}

/// What the metric fetcher takes of one subtask.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) attempt: u32,
    pub(crate) counters: Counters,
    pub(crate) rates: Rates,
    /// Records in its queues, or in its splits.
    pub(crate) waiting: u64,
    pub(crate) in_pool: f64,
    pub(crate) out_pool: f64,
    pub(crate) source: Option<SourceKind>,
    /// Whether the task has registered its metrics but not begun: its busy time is NaN then.
    pub(crate) initializing: bool,
}

impl Job {
    /// The job's structure as of `now_ms`.
    pub(crate) fn view(&self, now_ms: i64) -> JobView {
        let ended_ms = self.status.is_terminal().then(|| self.entered_ms.get(&self.status).copied()).flatten();
        JobView {
            taken_ms: now_ms,
            spec: self.spec.clone(),
            ends: self.graph.ends.clone(),
            status: self.status,
            started_ms: self.entered_ms.get(&JobStatus::Initializing).copied().unwrap_or(self.submit_ms),
            ended_ms,
            entered_ms: self.entered_ms.clone(),
            vertices: (0..self.spec.vertices.len()).map(|vertex| self.vertex_view(vertex, ended_ms)).collect(),
            checkpoints: self.checkpoints.clone(),
            failure: self.failure.clone(),
        }
    }

    fn vertex_view(&self, vertex: usize, ended_ms: Option<i64>) -> VertexView {
        let state = self.task_state();
        if state == TaskState::Created {
            // Between two attempts Flink shows the graph as it was submitted.
            let parallelism = crate::num::narrow(u64::from(self.spec.vertices[vertex].parallelism));
            return VertexView { parallelism, state, started_ms: None, ended_ms: None, subtasks: Vec::new() };
        }
        let subtasks = self.attempts[vertex].iter().enumerate().map(|(subtask, &attempt)| SubtaskView {
            attempt,
            member: self.placed.get(subtask).copied(),
            running_ms: self.running_ms.filter(|&at| state != TaskState::Initializing && at >= self.deployed_ms),
            archived: self.flow.is_none().then(|| self.last_counters[vertex].get(subtask).copied()).flatten(),
        });
        let ended_ms = match state {
            TaskState::Canceled if ended_ms.is_none() => self.entered_ms.get(&JobStatus::Restarting).copied(),
            _ => ended_ms,
        };
        VertexView {
            parallelism: self.width(vertex),
            state,
            started_ms: Some(self.deployed_ms),
            ended_ms,
            subtasks: subtasks.collect(),
        }
    }

    fn task_state(&self) -> TaskState {
        match self.phase {
            Phase::Unsubmitted | Phase::Waiting { .. } => TaskState::Created,
            Phase::Restarting { .. } => TaskState::Canceled,
            Phase::Deploying { .. } if self.initializes() => TaskState::Initializing,
            Phase::Deploying { .. } => TaskState::Deploying,
            Phase::Running => TaskState::Running,
            Phase::Ended => match self.status {
                JobStatus::Finished => TaskState::Finished,
                JobStatus::Failed => TaskState::Failed,
                _ => TaskState::Canceled,
            },
        }
    }

    /// Metrics of the subtasks of vertex `vertex`; none while no task runs.
    pub(crate) fn samples(&self, vertex: usize) -> Vec<Sample> {
        let kind = self.sources[vertex].as_ref().map(Source::kind);
        let Some(flow) = &self.flow else { return self.initializing_samples(vertex, kind) };
        let sample = |(subtask, counters)| {
            let (in_pool, out_pool) = flow.pool_usage(vertex, subtask);
            let source = self.sources[vertex].as_ref();
            Sample {
                attempt: self.attempts[vertex].get(subtask).copied().unwrap_or(0),
                counters,
                rates: self.meters.rates(vertex, subtask),
                waiting: source.map_or_else(|| flow.queued(vertex, subtask), |s| s.waiting(subtask)),
                in_pool,
                out_pool,
                source: kind,
                initializing: false,
            }
        };
        flow.counters(vertex).enumerate().map(sample).collect()
    }

    fn initializing_samples(&self, vertex: usize, source: Option<SourceKind>) -> Vec<Sample> {
        if !self.initializes() {
            return Vec::new();
        }
        let sample = |&attempt| Sample {
            attempt,
            counters: Counters::default(),
            rates: Rates { busy: 1000.0, ..Rates::default() },
            waiting: 0,
            in_pool: 0.0,
            out_pool: 0.0,
            source,
            initializing: true,
        };
        self.attempts[vertex].iter().map(sample).collect()
    }

    /// Whether the tasks are there but have not begun: the second half of a deployment.
    fn initializes(&self) -> bool {
        matches!(self.phase, Phase::Deploying { since_ms, until_ms } if self.stepped_ms >= since_ms.midpoint(until_ms))
    }

    /// Whether all tasks run.
    pub(crate) fn runs(&self) -> bool {
        self.phase == Phase::Running
    }

    /// When the current attempt began to run.
    pub(crate) fn running_since(&self) -> Option<i64> {
        self.running_ms.filter(|_| self.runs())
    }

    /// When the job last entered `status`.
    pub(crate) fn entered(&self, status: JobStatus) -> Option<i64> {
        self.entered_ms.get(&status).copied()
    }

    pub(crate) fn all_sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().flatten()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn slot_ms(&self) -> i64 {
        self.slot_ms
    }

    pub(crate) fn down_ms(&self) -> i64 {
        self.down_ms
    }
}
