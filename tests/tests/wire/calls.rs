//! Every call that the client can make.

use std::collections::BTreeMap;

use weir_flink::decode::JobDetail;
use weir_flink::{FlinkApi, FlinkClient, FlinkError};

/// What calls are about.
pub struct Subject {
    pub detail: JobDetail,
    pub vertex: String,
    pub task_manager: String,
}

impl Subject {
    /// Requirements that nothing is wrong with.
    pub fn bounds(&self) -> BTreeMap<String, (u32, u32)> {
        self.detail.vertices.iter().map(|vertex| (vertex.id.clone(), (1, 2))).collect()
    }
}

/// A call of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Version,
    Overview,
    Jobs,
    Job,
    Vertex,
    MetricNames,
    MetricSums,
    JobMetrics,
    Checkpoints,
    CheckpointsConfig,
    JobConfig,
    TaskManagers,
    TaskManager,
    TaskManagerMetrics,
    Prime,
    Config,
    Requirements,
    Timers,
    CheckpointStatus,
    Trigger,
    Put,
}

/// All of them.
pub const CALLS: [Call; 21] = [
    Call::Version,
    Call::Overview,
    Call::Jobs,
    Call::Job,
    Call::Vertex,
    Call::MetricNames,
    Call::MetricSums,
    Call::JobMetrics,
    Call::Checkpoints,
    Call::CheckpointsConfig,
    Call::JobConfig,
    Call::TaskManagers,
    Call::TaskManager,
    Call::TaskManagerMetrics,
    Call::Prime,
    Call::Config,
    Call::Requirements,
    Call::Timers,
    Call::CheckpointStatus,
    Call::Trigger,
    Call::Put,
];

impl Call {
    /// Makes the call and forgets what it answers.
    pub async fn on(self, api: &dyn FlinkApi, subject: &Subject) -> Result<(), FlinkError> {
        let client = FlinkClient::new(api);
        let (job, vertex, task_manager) =
            (subject.detail.id.as_str(), subject.vertex.as_str(), subject.task_manager.as_str());
        match self {
            Self::Version => client.supported_version().await.map(drop),
            Self::Overview => client.overview().await.map(drop),
            Self::Jobs => client.jobs().await.map(drop),
            Self::Job => client.job(job).await.map(drop),
            Self::Vertex => client.vertex(job, vertex).await.map(drop),
            Self::MetricNames => client.vertex_metric_names(job, vertex).await.map(drop),
            Self::MetricSums => client.vertex_metric_sums(job, vertex, &["numRecordsIn"]).await.map(drop),
            Self::JobMetrics => client.job_metrics(job, &["numRestarts"]).await.map(drop),
            Self::Checkpoints => client.checkpoints(job).await.map(drop),
            Self::CheckpointsConfig => client.checkpoints_config(job).await.map(drop),
            Self::JobConfig => client.job_config(job).await.map(drop),
            Self::TaskManagers => client.task_managers().await.map(drop),
            Self::TaskManager => client.task_manager(task_manager).await.map(drop),
            Self::TaskManagerMetrics => client.task_manager_metrics(task_manager, &["x"]).await.map(drop),
            Self::Prime => client.prime().await.map(drop),
            Self::Config => client.job_manager_config().await.map(drop),
            Self::Requirements => client.requirements(job).await.map(drop),
            Self::Timers => client.rescale_timers(job).await.map(drop),
            Self::CheckpointStatus => client.checkpoint_status(job, &"a".repeat(32)).await.map(drop),
            Self::Trigger => client.trigger_checkpoint(job, None).await.map(drop),
            Self::Put => client.put_requirements(&subject.detail, &subject.bounds()).await,
        }
    }
}
