//! What was seen of a job at one moment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_schemas::identity::RunId;

/// Fewest and most subtasks of a vertex, as Flink's requirements hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Fewest subtasks that the job may run with.
    pub lower: u32,
    /// Most subtasks, which Flink provides where there are slots.
    pub upper: u32,
}

/// Bounds of every vertex of a job, by vertex id.
pub type Requirements = BTreeMap<String, Bounds>;

/// Bounds that ask for a parallelism: at most that, and less rather than nothing.
#[must_use]
pub fn targets(target: &BTreeMap<String, u32>) -> Requirements {
    target.iter().map(|(vertex, &upper)| (vertex.clone(), Bounds { lower: 1, upper: upper.max(1) })).collect()
}

/// The upper bounds alone.
#[must_use]
pub fn uppers(requirements: &Requirements) -> BTreeMap<String, u32> {
    requirements.iter().map(|(vertex, bounds)| (vertex.clone(), bounds.upper)).collect()
}

/// What was seen of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The run that was seen under the job id.
    pub run: RunId,
    /// State of the job as Flink names it.
    pub job_state: String,
    /// Every vertex, by id. Only to be believed while the job and all subtasks are RUNNING: in between Flink shows the
    /// parallelism of the graph.
    pub vertices: BTreeMap<String, SeenVertex>,
    /// Requirements that the JobManager holds; `None`: they could not be read.
    pub requirements: Option<Requirements>,
    /// Digest of the requirements, made as in [`weir_schemas::decision::Parent`]; empty: none or unknown.
    pub requirements_digest: String,
    /// Who decides the parallelism.
    pub scheduler: Scheduler,
    /// Another autoscaler that the configuration names.
    pub rival: Option<String>,
    /// Running jobs of this name, this one included.
    pub same_name: u32,
    /// Version as Flink names it, such as `2.3.0`.
    pub flink_version: String,
    /// What is known of checkpoints.
    pub checkpoints: SeenCheckpoints,
    /// Counters of every source, by vertex id.
    pub sources: BTreeMap<String, SeenSource>,
    /// Slots of the cluster that nobody uses, where known.
    pub slots_free: Option<u32>,
    /// Whether all tasks run, by a fresh answer; `None`: unknown. What is known of vertices may be some seconds old.
    pub all_tasks_run: Option<bool>,
}

/// What was seen of a vertex.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenVertex {
    /// Its name.
    pub name: String,
    /// Subtasks that it has.
    pub parallelism: u32,
    /// Subtasks that run, or have finished their work.
    pub running: u32,
    /// Subtasks that restore their state.
    pub initializing: u32,
    /// Most subtasks that its key groups allow; 0: unknown.
    pub max_parallelism: u32,
}

/// Who decides a job's parallelism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduler {
    /// The adaptive scheduler, by requirements.
    Adaptive,
    /// The default scheduler: nobody, once it is submitted.
    Default,
    /// Reactive mode: all slots are taken.
    Reactive,
    /// It could not be told.
    Unknown,
}

/// What was seen of a job's checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SeenCheckpoints {
    /// Whether checkpoints are configured.
    pub enabled: bool,
    /// Interval, in milliseconds.
    pub interval_ms: Option<i64>,
    /// Completed since the run began.
    pub completed: u64,
    /// Number of the latest completed one.
    pub latest_id: Option<u64>,
    /// How long the latest completed one took, in milliseconds.
    pub latest_duration_ms: Option<i64>,
    /// Whether one is in progress.
    pub in_progress: bool,
    /// Whether the run was restored from a checkpoint or savepoint.
    pub restored: bool,
}

/// Counters of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeenSource {
    /// Records that its subtasks handed out since their attempts began, added.
    pub records_out: f64,
    /// Which subtasks and attempts the counters belong to: sums of different ones cannot be subtracted.
    pub attempts: String,
    /// Records that wait outside, where the connector tells.
    pub pending: Option<f64>,
}

/// Why nothing was seen.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum ObserveError {
    /// Flink answers, and knows no such job.
    #[error("Flink knows no such job: {0}")]
    Gone(String),
    /// No answer, or none that makes sense; it may come later.
    #[error("Flink cannot be asked: {0}")]
    Unreachable(String),
}

impl SeenVertex {
    /// Whether all its subtasks run.
    #[must_use]
    pub fn all_running(&self) -> bool {
        self.parallelism > 0 && self.running >= self.parallelism
    }
}

impl SeenCheckpoints {
    /// Rises with each completed checkpoint: the number of the latest one, else how many there were.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.latest_id.map_or(self.completed, |id| id.max(self.completed))
    }
}

impl Observation {
    /// Whether the run can never come back.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.job_state.as_str(), "FINISHED" | "CANCELED" | "CANCELLING" | "FAILED")
    }

    /// Whether the job and all its tasks run now, whatever their number.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.job_state == "RUNNING" && self.all_tasks_run.unwrap_or_else(|| self.all_vertices_run())
    }

    /// Whether the job and all subtasks of all vertices run, so that what is shown can be believed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_live() && self.all_vertices_run()
    }

    fn all_vertices_run(&self) -> bool {
        !self.vertices.is_empty() && self.vertices.values().all(SeenVertex::all_running)
    }

    /// Parallelism of every vertex.
    #[must_use]
    pub fn parallelism(&self) -> BTreeMap<String, u32> {
        self.vertices.iter().map(|(id, vertex)| (id.clone(), vertex.parallelism)).collect()
    }

    /// Upper bounds that the JobManager holds, where known.
    #[must_use]
    pub fn upper_bounds(&self) -> Option<BTreeMap<String, u32>> {
        self.requirements.as_ref().map(uppers)
    }

    /// Whether the vertices are other ones than those of `parallelism`. Nothing is concluded while the job is not
    /// settled.
    #[must_use]
    pub fn is_other_graph(&self, parallelism: &BTreeMap<String, u32>) -> bool {
        self.is_settled() && !self.vertices.keys().eq(parallelism.keys())
    }

    /// Major and minor version, where the version is one.
    #[must_use]
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut parts = self.flink_version.split(['.', '-']).map(str::parse);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
            _ => None,
        }
    }

    /// Whether a change of requirements waits for a completed checkpoint (from Flink 2.0 on). Before, it restarts the
    /// job at once, and everything since the last checkpoint is read again. An unknown version counts as a new one.
    #[must_use]
    pub fn rescale_waits_for_checkpoint(&self) -> bool {
        self.version().is_none_or(|version| version >= (2, 0))
    }

    /// Records that wait at all sources, where each of them tells.
    #[must_use]
    pub fn backlog(&self) -> Option<f64> {
        if self.sources.is_empty() { None } else { self.sources.values().map(|source| source.pending).sum() }
    }
}
