//! One reading of one job: V + S + 3 calls, and a few more when a run is met for the first time.

use std::collections::BTreeMap;

use futures::future::join_all;
use weir_flink::decode::{self, Checkpoints, CheckpointsConfig, JobDetail, MetricValue, VertexDetail};
use weir_flink::{FlinkError, VertexId};

use crate::calls::Calls;

/// What is to be read of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadPlan {
    /// Flink's job id.
    pub(crate) id: String,
    /// Names to ask each source for.
    pub(crate) sources: BTreeMap<VertexId, SourceNames>,
    /// Whether to list the names of all sources again.
    pub(crate) list_names: bool,
    /// Whether to read what rarely changes: checkpoint configuration, the job's own configuration.
    pub(crate) configuration: bool,
    /// Whether to read the requirements.
    pub(crate) requirements: bool,
}

/// What a listing of a source's metrics told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SourceNames {
    /// Metrics that tell how many records wait; none if the connector has none.
    pub(crate) pending: Vec<String>,
    /// Splits that metrics mention.
    pub(crate) splits: Option<u32>,
    /// Whether the vertex had metrics at all; after a start it takes a moment until it has.
    pub(crate) ready: bool,
}

/// Records that wait in front of a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pending {
    /// So many.
    Records(f64),
    /// The source does not tell, or could not be asked.
    Unknown,
    /// A name that was listed is no longer known: the names must be listed again.
    NamesChanged,
}

/// What was read. What could not be read is absent.
#[derive(Debug, Default)]
pub(crate) struct JobReading {
    /// The job and its graph.
    pub(crate) detail: JobDetail,
    /// Its vertices, those that could be read.
    pub(crate) vertices: BTreeMap<VertexId, VertexDetail>,
    /// Records that wait in front of each source.
    pub(crate) pending: BTreeMap<VertexId, Pending>,
    /// Names that were listed.
    pub(crate) listed: BTreeMap<VertexId, SourceNames>,
    /// Checkpoints: unknown, or none are taken, or these.
    pub(crate) checkpoints: Option<Option<Checkpoints>>,
    /// Restarts since the submission.
    pub(crate) restarts: Option<u64>,
    /// Rescales among them.
    pub(crate) rescales: Option<u64>,
    /// How checkpoints are configured; unknown unless asked for.
    pub(crate) checkpoints_config: Option<Option<CheckpointsConfig>>,
    /// Another autoscaler that the job is configured for; unknown unless asked for.
    pub(crate) rival: Option<Option<String>>,
    /// Digest of the requirements; unknown unless asked for.
    pub(crate) requirements: Option<String>,
    /// What could not be read though the job itself could.
    pub(crate) failures: Vec<FlinkError>,
}

/// Metrics of a job that are asked for.
const JOB_METRICS: [&str; 2] = ["numRestarts", "numRescales"];

/// Reads a job.
pub(crate) async fn read_job(calls: &Calls<'_>, plan: &ReadPlan) -> Result<JobReading, FlinkError> {
    let detail = calls.ask(calls.client.job(&plan.id)).await?;
    let vertices = join_all(detail.vertices.iter().map(|vertex| calls.ask(calls.client.vertex(&plan.id, &vertex.id))));
    let sources = join_all(detail.sources.iter().map(|source| read_source(calls, plan, source)));
    let checkpoints = calls.ask_for_some(calls.client.checkpoints(&plan.id));
    let metrics = calls.ask(calls.client.job_metrics(&plan.id, &JOB_METRICS));
    let (vertices, sources, checkpoints, metrics) = futures::join!(vertices, sources, checkpoints, metrics);
    let mut reading = JobReading::default();
    for vertex in vertices {
        if let Some(vertex) = reading.kept(vertex) {
            reading.vertices.insert(vertex.id.clone(), vertex);
        }
    }
    for (source, (listed, pending)) in detail.sources.iter().zip(sources) {
        if let Some(names) = listed.and_then(|listed| reading.kept(listed)) {
            reading.listed.insert(source.clone(), names);
        }
        let pending = reading.kept(pending).unwrap_or(Pending::Unknown);
        reading.pending.insert(source.clone(), pending);
    }
    reading.checkpoints = reading.kept(checkpoints);
    let metrics = reading.kept(metrics).unwrap_or_default();
    reading.restarts = count(&metrics, JOB_METRICS[0]);
    reading.rescales = count(&metrics, JOB_METRICS[1]);
    reading.detail = detail;
    read_configuration(calls, plan, &mut reading).await;
    Ok(reading)
}

impl JobReading {
    fn kept<T>(&mut self, answer: Result<T, FlinkError>) -> Option<T> {
        answer.map_err(|error| self.failures.push(error)).ok()
    }
}

type Listed = Option<Result<SourceNames, FlinkError>>;

/// Asks a source how much waits in front of it, after listing its names if that is due.
async fn read_source(calls: &Calls<'_>, plan: &ReadPlan, source: &str) -> (Listed, Result<Pending, FlinkError>) {
    let known = plan.sources.get(source).filter(|_| !plan.list_names);
    let listed = match known {
        Some(_) => None,
        None => Some(list_names(calls, plan, source).await),
    };
    let names = match (&listed, known) {
        (Some(Ok(names)), _) | (None, Some(names)) => names,
        _ => return (listed, Ok(Pending::Unknown)),
    };
    let pending = if names.pending.is_empty() {
        Ok(Pending::Unknown)
    } else {
        read_pending(calls, plan, source, &names.pending).await
    };
    (listed, pending)
}

async fn list_names(calls: &Calls<'_>, plan: &ReadPlan, source: &str) -> Result<SourceNames, FlinkError> {
    let names = calls.ask(calls.client.vertex_metric_names(&plan.id, source)).await?;
    Ok(SourceNames {
        pending: decode::pending_records_names(&names).into_iter().map(str::to_owned).collect(),
        splits: decode::split_count(&names).map(weir_schemas::num::count_u32),
        ready: names.iter().any(|name| name == "numRecordsOut"),
    })
}

async fn read_pending(
    calls: &Calls<'_>,
    plan: &ReadPlan,
    source: &str,
    names: &[String],
) -> Result<Pending, FlinkError> {
    let asked: Vec<&str> = names.iter().map(String::as_str).collect();
    let sums = calls.ask(calls.client.vertex_metric_sums(&plan.id, source, &asked)).await?;
    // One name that is gone makes the whole answer empty.
    let Some(found) = asked.iter().map(|name| sums.iter().find(|sum| sum.name == *name)).collect::<Option<Vec<_>>>()
    else {
        return Ok(Pending::NamesChanged);
    };
    let total: Option<f64> = found.into_iter().map(|sum| sum.sum.filter(|sum| *sum >= 0.0)).sum();
    Ok(total.map_or(Pending::Unknown, Pending::Records))
}

async fn read_configuration(calls: &Calls<'_>, plan: &ReadPlan, reading: &mut JobReading) {
    if plan.configuration {
        let config = calls.ask_for_some(calls.client.checkpoints_config(&plan.id)).await;
        reading.checkpoints_config = reading.kept(config);
        let config = calls.ask(calls.client.job_config(&plan.id)).await;
        reading.rival = reading.kept(config).map(|config| config.rival());
    }
    if plan.requirements {
        reading.requirements = match calls.ask(calls.client.requirements(&plan.id)).await {
            Ok(requirements) => Some(requirements.digest()),
            // The scheduler has none, and never will in this run.
            Err(FlinkError::WrongScheduler { .. }) => Some(String::new()),
            Err(error) => reading.kept(Err(error)),
        };
    }
}

fn count(metrics: &[MetricValue], name: &str) -> Option<u64> {
    let value = metrics.iter().find(|metric| metric.name == name)?.number()?;
    u64::try_from(weir_schemas::num::round_i64(value)).ok()
}
