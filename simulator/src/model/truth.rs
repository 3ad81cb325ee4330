//! What really happened, for tests, scores and pictures. No metric delays or rounds it.

use serde::Serialize;

use super::job::{Cause, Job};
use super::source::Source;
use crate::spec::JobSpec;

/// The truth about a cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Truth {
    /// Time of the observation.
    pub now_ms: i64,
    /// Slots of all registered `TaskManager`s.
    pub slots: usize,
    /// Slots that nobody holds.
    pub free_slots: usize,
    /// All jobs that were submitted, in that order.
    pub jobs: Vec<JobTruth>,
}

/// The truth about a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobTruth {
    /// Flink's job id.
    pub id: String,
    /// Name of the job.
    pub name: String,
    /// State, in Flink's words.
    pub status: &'static str,
    /// Whether all tasks run.
    pub running: bool,
    /// Records offered to all sources.
    pub produced: u64,
    /// Records read by all sources, each once.
    pub consumed: u64,
    /// Records offered and not read; with `consumed` they make up `produced`.
    pub backlog: u64,
    /// Records between two vertices.
    pub in_flight: u64,
    /// Records that were in flight at a restart, and were read again.
    pub lost_in_flight: u64,
    /// Records read more than once.
    pub replayed: u64,
    /// Restarts of all causes.
    pub restarts: u64,
    /// Restarts that the job chose: changes of parallelism.
    pub rescales: u64,
    /// Slots in use now.
    pub slots: usize,
    /// Slots in use times milliseconds: the bill.
    pub slot_ms: i64,
    /// Time without running tasks since the first start.
    pub down_ms: i64,
    /// Vertices, in the order of the specification.
    pub vertices: Vec<VertexTruth>,
    /// Edges of the running attempt, in the order of the specification; empty while no task runs.
    pub edges: Vec<EdgeTruth>,
    /// All restarts.
    pub history: Vec<RescaleRecord>,
}

/// The truth about an edge of the running attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EdgeTruth {
    /// Records that entered its queues.
    pub received: u64,
    /// Records that still wait in its queues.
    pub queued: u64,
}

/// The truth about a vertex.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VertexTruth {
    /// Flink's vertex id.
    pub id: String,
    /// Name of the vertex.
    pub name: String,
    /// Parallelism of the current or last attempt.
    pub parallelism: u32,
    /// Records taken in all, each counted once whatever was replayed.
    pub effective_in: u64,
    /// Counters of each subtask of the running attempt.
    pub subtasks: Vec<SubtaskTruth>,
}

/// The truth about a subtask of the running attempt.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SubtaskTruth {
    /// Attempt number.
    pub attempt: u32,
    /// Records taken.
    pub records_in: u64,
    /// Records emitted.
    pub records_out: u64,
    /// Records waiting in front of it, in its queues or splits.
    pub waiting: u64,
    /// Time spent on records.
    pub busy_ms: f64,
    /// Time spent waiting for records.
    pub idle_ms: f64,
    /// Time spent waiting for room in the output.
    pub back_pressured_ms: f64,
}

/// One restart of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RescaleRecord {
    /// Why.
    pub cause: Cause,
    /// When the tasks stopped.
    pub at_ms: i64,
    /// When all tasks ran again.
    pub running_at_ms: Option<i64>,
    /// Parallelism before, by vertex.
    pub from: Vec<u32>,
    /// Parallelism after, by vertex; empty until the tasks run.
    pub to: Vec<u32>,
    /// Records read again because of it.
    pub replayed: u64,
}

impl RescaleRecord {
    /// Whether the parallelism changed.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.from != self.to
    }
}

impl JobTruth {
    /// Parallelism by vertex, in the order of the specification.
    #[must_use]
    pub fn parallelism(&self) -> Vec<u32> {
        self.vertices.iter().map(|vertex| vertex.parallelism).collect()
    }
}

/// Names of the vertices of `spec`, in its order.
#[must_use]
pub fn vertex_names(spec: &JobSpec) -> Vec<&str> {
    spec.vertices.iter().map(|vertex| vertex.name.as_str()).collect()
}

impl Job {
    /// The truth about this job.
    pub(crate) fn truth(&self) -> JobTruth {
        let sources = || self.all_sources();
        JobTruth {
            id: self.spec.id.clone(),
            name: self.spec.name.clone(),
            status: self.status.as_str(),
            running: self.runs(),
            produced: sources().map(Source::produced).sum(),
            consumed: sources().map(Source::consumed).sum(),
            backlog: sources().map(Source::backlog).sum(),
            in_flight: self.in_flight(),
            lost_in_flight: self.lost(),
            replayed: sources().map(Source::replayed).sum(),
            restarts: self.restarts,
            rescales: self.rescales,
            slots: self.slots.len(),
            slot_ms: self.slot_ms(),
            down_ms: self.down_ms(),
            vertices: (0..self.spec.vertices.len()).map(|vertex| self.vertex_truth(vertex)).collect(),
            edges: self.edges().into_iter().map(|(received, queued)| EdgeTruth { received, queued }).collect(),
            history: self.history().to_vec(),
        }
    }

    fn vertex_truth(&self, vertex: usize) -> VertexTruth {
        let spec = &self.spec.vertices[vertex];
        let subtasks =
            self.samples(vertex).into_iter().filter(|sample| !sample.initializing).map(|sample| SubtaskTruth {
                attempt: sample.attempt,
                records_in: sample.counters.records_in,
                records_out: sample.counters.records_out,
                waiting: sample.waiting,
                busy_ms: sample.counters.busy_ms,
                idle_ms: sample.counters.idle_ms,
                back_pressured_ms: sample.counters.back_pressured_ms,
            });
        VertexTruth {
            id: spec.id.clone(),
            name: spec.name.clone(),
            parallelism: crate::num::small(self.width(vertex)),
            effective_in: self.effective_in(vertex),
            subtasks: subtasks.collect(),
        }
    }
}
