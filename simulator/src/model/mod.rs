//! The model: what a cluster does, step by step, without any clock of its own.

mod channel;
pub(crate) mod checkpoint;
mod cluster;
pub(crate) mod flow;
mod graph;
mod job;
mod measure;
mod meters;
mod pool;
mod source;
mod store;
mod truth;

pub use cluster::{Cluster, HookError};
pub(crate) use graph::Graph;
pub(crate) use job::{Bounds, Job, JobView, Sample, SubtaskView, TaskState, VertexView};
pub use job::{Cause, JobStatus};
pub(crate) use measure::{MANAGED_BYTES, NETWORK_BYTES};
pub(crate) use pool::TaskManager;
pub(crate) use store::JobMetrics;
pub use truth::{EdgeTruth, JobTruth, RescaleRecord, SubtaskTruth, Truth, VertexTruth, vertex_names};
