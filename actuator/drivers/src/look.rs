//! One observation out of many answers. Pure.

use std::collections::BTreeMap;

use weir_flink::FlinkError;
use weir_flink::decode::{self, JobDetail, JobState, JobVertex, VertexDetail};
use weir_governor::{
    Bounds, Observation, ObserveError, Requirements, Scheduler, SeenCheckpoints, SeenSource, SeenVertex,
};
use weir_schemas::identity::RunId;

use crate::driver::Look;

/// What is known of a cluster for longer than a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusterView {
    pub version: String,
    pub scheduler: Option<decode::Scheduler>,
    pub rival: Option<String>,
}

/// What is known of a run for longer than a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobView {
    pub rival: Option<String>,
    pub checkpoints: Option<decode::CheckpointsConfig>,
}

/// The answers that make up a look.
pub(crate) struct Parts {
    pub at_ms: i64,
    pub cluster: ClusterView,
    pub detail: JobDetail,
    pub checkpoints: Option<decode::Checkpoints>,
    pub job: JobView,
    pub requirements: Result<decode::Requirements, FlinkError>,
    pub overview: decode::Overview,
    pub jobs: Vec<decode::JobSummary>,
    pub sources: BTreeMap<String, SeenSource>,
}

/// Puts the answers together.
pub(crate) fn observation(look: Look<'_>, parts: Parts) -> Result<Observation, ObserveError> {
    let Parts { at_ms, cluster, detail, checkpoints, job, requirements, overview, jobs, sources } = parts;
    let Some(start_ms) = detail.start_ms else {
        return Err(ObserveError::Unreachable(format!("Flink does not tell when job {} started", look.run.id)));
    };
    let summary = jobs.iter().find(|job| job.id == look.run.id);
    let all_tasks_run = summary.and_then(|summary| all_tasks_run(summary, &detail));
    // The list of jobs is fresh, the detail may be as old as Flink's page.
    let job_state =
        summary.map(|summary| &summary.state).filter(|state| !state.is_empty()).unwrap_or(&detail.state).clone();
    let scheduler = scheduler(&detail, &cluster, &requirements);
    let requirements = requirements.ok();
    Ok(Observation {
        at_ms,
        run: RunId { id: look.run.id.clone(), start_ms },
        vertices: detail.vertices.iter().map(|vertex| (vertex.id.clone(), seen_vertex(vertex))).collect(),
        requirements_digest: requirements.as_ref().map(decode::Requirements::digest).unwrap_or_default(),
        requirements: requirements.map(held),
        scheduler,
        rival: job.rival.or(cluster.rival),
        same_name: same_name(look, &jobs),
        flink_version: cluster.version,
        checkpoints: seen_checkpoints(checkpoints, job.checkpoints),
        sources,
        slots_free: overview.slots_available,
        all_tasks_run,
        job_state,
    })
}

/// Counters of a source; `None` unless every subtask tells its own.
pub(crate) fn source(vertex: &VertexDetail, pending: Option<f64>) -> Option<SeenSource> {
    let mut records_out = 0.0;
    let mut attempts = Vec::with_capacity(vertex.subtasks.len());
    for subtask in &vertex.subtasks {
        records_out += subtask.metrics.records_out?;
        // The attempt's number starts over when the job gets another parallelism; its start does not repeat.
        attempts.push(format!("{}:{}@{}", subtask.index, subtask.attempt?, subtask.start_ms.unwrap_or(0)));
    }
    if attempts.is_empty() { None } else { Some(SeenSource { records_out, attempts: attempts.join(","), pending }) }
}

fn seen_vertex(vertex: &JobVertex) -> SeenVertex {
    let count = |state: &str| vertex.tasks.get(state).copied().unwrap_or(0);
    SeenVertex {
        name: vertex.name.clone(),
        parallelism: vertex.parallelism.unwrap_or(0),
        running: count("RUNNING").saturating_add(count("FINISHED")),
        initializing: count("INITIALIZING"),
        max_parallelism: vertex.max_parallelism.unwrap_or(0),
    }
}

/// Whether all tasks run, by the list of jobs; those that have finished are known from the detail alone.
fn all_tasks_run(summary: &decode::JobSummary, detail: &JobDetail) -> Option<bool> {
    let finished: u32 = detail.vertices.iter().filter_map(|vertex| vertex.tasks.get("FINISHED")).sum();
    let (running, total) = (summary.tasks_running?, summary.tasks_total?);
    Some(total > 0 && running.saturating_add(finished) >= total)
}

/// Requirements with both bounds of every vertex; what is unset counts as the least.
fn held(requirements: decode::Requirements) -> Requirements {
    let bounds = |bounds: decode::Bounds| Bounds { lower: bounds.lower.unwrap_or(1), upper: bounds.upper.unwrap_or(0) };
    requirements.0.into_iter().map(|(vertex, read)| (vertex, bounds(read))).collect()
}

fn scheduler(
    detail: &JobDetail,
    cluster: &ClusterView,
    requirements: &Result<decode::Requirements, FlinkError>,
) -> Scheduler {
    // Reactive mode is the adaptive scheduler as well, as far as the job tells.
    if cluster.scheduler == Some(decode::Scheduler::Reactive) {
        return Scheduler::Reactive;
    }
    if matches!(requirements, Err(FlinkError::WrongScheduler { .. })) {
        return Scheduler::Default;
    }
    let told = detail.scheduler.as_deref().and_then(decode::Scheduler::of).or(cluster.scheduler);
    match told {
        Some(decode::Scheduler::Adaptive) => Scheduler::Adaptive,
        Some(decode::Scheduler::Reactive) => Scheduler::Reactive,
        // A job that has requirements has a scheduler that honours them, whatever the configuration says.
        Some(decode::Scheduler::Default) if requirements.is_err() => Scheduler::Default,
        Some(decode::Scheduler::Default) | None if requirements.is_ok() => Scheduler::Adaptive,
        Some(decode::Scheduler::Default) | None => Scheduler::Unknown,
    }
}

fn same_name(look: Look<'_>, jobs: &[decode::JobSummary]) -> u32 {
    let alike = jobs.iter().filter(|job| job.name == look.job.name && JobState::of(&job.state) != JobState::Ended);
    weir_schemas::num::count_u32(alike.count())
}

fn seen_checkpoints(read: Option<decode::Checkpoints>, config: Option<decode::CheckpointsConfig>) -> SeenCheckpoints {
    let Some(read) = read else { return SeenCheckpoints::default() };
    let latest = read.latest_completed.as_ref();
    SeenCheckpoints {
        enabled: true,
        interval_ms: config.and_then(|config| config.interval_ms).and_then(|interval| i64::try_from(interval).ok()),
        completed: read.completed.unwrap_or(0),
        latest_id: latest.and_then(|latest| latest.id),
        latest_duration_ms: latest.and_then(|latest| latest.duration_ms),
        in_progress: read.in_progress.unwrap_or(0) > 0,
        restored: read.latest_restored.is_some() || read.restored.unwrap_or(0) > 0,
    }
}
