//! What is simulated: clusters, jobs, vertices, edges, sources.

mod check;
mod job;
mod load;
mod version;

use serde::{Deserialize, Serialize};

pub use check::SpecError;
pub(crate) use check::{check_cluster, check_job};
pub use job::{EdgeSpec, JobSpec, Ship, SourceKind, SourceSpec, VertexKind, VertexSpec};
pub use load::LoadTrace;
pub(crate) use load::{Load, of_split};
pub use version::{FlinkVersion, Scheduler};

/// One session cluster. Times are in milliseconds; the defaults are Flink's own where Flink has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterSpec {
    /// Version of Flink.
    pub version: FlinkVersion,
    /// Scheduler of all jobs.
    pub scheduler: Scheduler,
    /// `TaskManager`s at the start.
    pub task_managers: usize,
    /// Slots of each `TaskManager`.
    pub slots_per_task_manager: usize,
    /// `metrics.fetcher.update-interval`.
    pub metrics_refresh_ms: i64,
    /// Time from the call that starts a fetch until its values are in the store.
    pub metrics_fetch_ms: i64,
    /// `web.refresh-interval`: how long the structure of a job is served from the cache.
    pub web_refresh_ms: i64,
    /// `executing.cooldown-after-rescaling`, before 2.0 `scaling-interval.min`.
    pub cooldown_ms: i64,
    /// `executing.resource-stabilization-timeout`.
    pub executing_stabilization_ms: i64,
    /// `submission.resource-stabilization-timeout`.
    pub submission_stabilization_ms: i64,
    /// `submission.resource-wait-timeout`.
    pub resource_wait_ms: i64,
    /// `rescale-trigger.max-delay`; none: three checkpoint intervals, or zero without checkpoints.
    pub max_delay_ms: Option<i64>,
    /// Time from the stop of all tasks until all run again, tiny state.
    pub restart_ms: i64,
    /// Delay of the restart strategy before a failed job starts again.
    pub restart_delay_ms: i64,
    /// Time until the loss of a killed `TaskManager` is noticed.
    pub loss_notice_ms: i64,
    /// How long slots that a job no longer needs stay allocated to it.
    pub slot_idle_ms: i64,
    /// How long a change of requirements is "in progress", so that another one gets 409.
    pub requirements_update_ms: i64,
    /// Step of the integration.
    pub step_ms: i64,
    /// Seed of everything random.
    pub seed: u64,
    /// Jobs, in the order of their submission.
    pub jobs: Vec<JobSpec>,
}

impl Default for ClusterSpec {
    fn default() -> Self {
        Self {
            version: FlinkVersion::V2_3,
            scheduler: Scheduler::Adaptive,
            task_managers: 2,
            slots_per_task_manager: 8,
            metrics_refresh_ms: 10_000,
            metrics_fetch_ms: 80,
            web_refresh_ms: 3_000,
            cooldown_ms: 30_000,
            executing_stabilization_ms: 60_000,
            submission_stabilization_ms: 10_000,
            resource_wait_ms: 300_000,
            max_delay_ms: None,
            restart_ms: 1_000,
            restart_delay_ms: 1_000,
            loss_notice_ms: 12_000,
            slot_idle_ms: 70_000,
            requirements_update_ms: 5,
            step_ms: 20,
            seed: 1,
            jobs: Vec::new(),
        }
    }
}
