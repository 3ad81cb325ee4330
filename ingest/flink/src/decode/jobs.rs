//! `/jobs/overview`, `/jobs/:id` and `/jobs/:id/config`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::config::rival_in;
use super::lenient::{Entries, List, Loose, Number, Object, Written, document};
use super::vertex::{RawIoMetrics, io_metrics};
use super::{DecodeError, Decoded, IoMetrics, Problems};

/// What a job's state means to whoever watches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It runs.
    Running,
    /// It is on its way to running: created, initialising, restarting, reconciling.
    Coming,
    /// It is being ended: cancelling, failing, suspended.
    Leaving,
    /// It has ended for good: finished, cancelled, failed.
    Ended,
}

impl JobState {
    /// Reads the state as Flink names it. An unknown state is one on the way to something.
    #[must_use]
    pub fn of(state: &str) -> Self {
        match state {
            "RUNNING" => Self::Running,
            "CANCELLING" | "FAILING" | "SUSPENDED" => Self::Leaving,
            "FINISHED" | "CANCELED" | "FAILED" => Self::Ended,
            _ => Self::Coming,
        }
    }
}

/// A line of the jobs' overview.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobSummary {
    /// Flink's job id.
    pub id: String,
    /// The name that it was submitted with.
    pub name: String,
    /// State as Flink names it; empty: unknown.
    pub state: String,
    /// When it started, by the JobManager's clock, in milliseconds since 1970.
    pub start_ms: Option<i64>,
    /// When it ended.
    pub end_ms: Option<i64>,
    /// Scheduler that runs it, where told.
    pub scheduler: Option<String>,
    /// `STREAMING` or `BATCH`, where told.
    pub job_type: Option<String>,
    /// Tasks that it has.
    pub tasks_total: Option<u32>,
    /// Tasks that run.
    pub tasks_running: Option<u32>,
}

/// A vertex in a job's detail.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobVertex {
    /// Flink's id.
    pub id: String,
    /// Name of the operator chain.
    pub name: String,
    /// Subtasks that it has.
    pub parallelism: Option<u32>,
    /// Number of key groups.
    pub max_parallelism: Option<u32>,
    /// State as Flink names it; empty: unknown.
    pub status: String,
    /// Slot-sharing group, where told.
    pub slot_sharing_group: Option<String>,
    /// Subtasks in each state.
    pub tasks: BTreeMap<String, u32>,
    /// Counters, summed over its subtasks.
    pub metrics: IoMetrics,
}

impl JobVertex {
    /// Whether it and all its subtasks run, as far as told.
    #[must_use]
    pub fn all_running(&self) -> bool {
        let running = self.tasks.get("RUNNING").copied();
        self.status == "RUNNING" && self.parallelism.is_some() && running == self.parallelism
    }
}

/// An edge of the job graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Vertex id of the upstream end.
    pub from: String,
    /// Vertex id of the downstream end.
    pub to: String,
    /// How records are spread, as Flink names it; empty: unknown.
    pub ship_strategy: String,
}

/// A job with its graph.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobDetail {
    /// Flink's job id.
    pub id: String,
    /// The name that it was submitted with.
    pub name: String,
    /// State as Flink names it; empty: unknown.
    pub state: String,
    /// Scheduler that runs it, where told (Flink 2.0 on).
    pub scheduler: Option<String>,
    /// When it started, by the JobManager's clock, in milliseconds since 1970.
    pub start_ms: Option<i64>,
    /// When it ended.
    pub end_ms: Option<i64>,
    /// The JobManager's time.
    pub now_ms: Option<i64>,
    /// When it came into each state last, where it has.
    pub timestamps: BTreeMap<String, i64>,
    /// Its vertices, in the order of the graph.
    pub vertices: Vec<JobVertex>,
    /// Its edges, in the order of the plan.
    pub edges: Vec<Edge>,
    /// Ids of the vertices that the plan shows without inputs.
    pub sources: Vec<String>,
}

impl JobDetail {
    /// Whether it and all its subtasks run. During a switch Flink shows parallelisms that nothing runs at.
    #[must_use]
    pub fn all_running(&self) -> bool {
        self.state == "RUNNING" && !self.vertices.is_empty() && self.vertices.iter().all(JobVertex::all_running)
    }

    /// The vertex of an id.
    #[must_use]
    pub fn vertex(&self, id: &str) -> Option<&JobVertex> {
        self.vertices.iter().find(|vertex| vertex.id == id)
    }
}

/// A job's own configuration, as far as Flink tells it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobConfig {
    /// Default parallelism of the job.
    pub parallelism: Option<i64>,
    /// Restart strategy, in Flink's words.
    pub restart_strategy: Option<String>,
    /// What the program set as its global parameters.
    pub user_config: BTreeMap<String, String>,
}

impl JobConfig {
    /// Another autoscaler that the job itself is configured for, in words.
    #[must_use]
    pub fn rival(&self) -> Option<String> {
        rival_in(&self.user_config)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawJobs {
    jobs: Loose<List<Object<RawSummary>>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct RawSummary {
    jid: Loose<String>,
    name: Loose<String>,
    state: Loose<String>,
    start_time: Loose<Number>,
    end_time: Loose<Number>,
    #[serde(rename = "schedulerType")]
    scheduler: Loose<String>,
    #[serde(rename = "jobType")]
    job_type: Loose<String>,
    tasks: Loose<Object<RawTasks>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawTasks {
    total: Loose<Number>,
    running: Loose<Number>,
}

/// Reads `/jobs/overview`. Jobs without an id are dropped and counted.
///
/// # Errors
/// If it is no JSON object.
pub fn jobs(body: &[u8]) -> Result<Decoded<Vec<JobSummary>>, DecodeError> {
    let raw: RawJobs = document::<Object<_>>(body, "a list of jobs")?.0;
    let mut problems = Problems::default();
    if matches!(raw.jobs, Loose::Absent) {
        return Err(DecodeError::Shape { expected: "a list of jobs", received: super::excerpt(body) });
    }
    let mut value = Vec::new();
    for Object(job) in raw.jobs.items("jobs", &mut problems) {
        problems.enter("");
        let Some(id) = job.jid.take("jid", &mut problems).filter(|id| !id.is_empty()) else {
            problems.note("job without an id");
            continue;
        };
        problems.enter(format!("job {id}"));
        let tasks = job.tasks.object("tasks", &mut problems).unwrap_or_default();
        value.push(JobSummary {
            id,
            name: job.name.take("name", &mut problems).unwrap_or_default(),
            state: job.state.take("state", &mut problems).unwrap_or_default(),
            start_ms: job.start_time.millis("start-time", &mut problems),
            end_ms: job.end_time.millis("end-time", &mut problems),
            scheduler: job.scheduler.take("schedulerType", &mut problems),
            job_type: job.job_type.take("jobType", &mut problems),
            tasks_total: tasks.total.small("total", &mut problems),
            tasks_running: tasks.running.small("running", &mut problems),
        });
    }
    Ok(Decoded { value, problems })
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct RawJob {
    jid: Loose<String>,
    name: Loose<String>,
    state: Loose<String>,
    #[serde(rename = "schedulerType")]
    scheduler: Loose<String>,
    start_time: Loose<Number>,
    end_time: Loose<Number>,
    now: Loose<Number>,
    timestamps: Loose<Entries<Number>>,
    vertices: Loose<List<Object<RawVertex>>>,
    plan: Loose<Object<RawPlan>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawVertex {
    id: Loose<String>,
    name: Loose<String>,
    parallelism: Loose<Number>,
    #[serde(rename = "maxParallelism")]
    max_parallelism: Loose<Number>,
    status: Loose<String>,
    #[serde(rename = "slotSharingGroupId")]
    slot_sharing_group: Loose<String>,
    tasks: Loose<Entries<Number>>,
    metrics: Loose<Object<RawIoMetrics>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawPlan {
    nodes: Loose<List<Object<RawNode>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawNode {
    id: Loose<String>,
    inputs: Loose<List<Object<RawInput>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawInput {
    id: Loose<String>,
    ship_strategy: Loose<String>,
}

/// Reads `/jobs/:id`. Vertices without an id are dropped and counted.
///
/// # Errors
/// If it is no JSON object.
pub fn job(body: &[u8]) -> Result<Decoded<JobDetail>, DecodeError> {
    let raw: RawJob = document::<Object<_>>(body, "a job")?.0;
    let mut problems = Problems::default();
    let mut value = JobDetail {
        id: raw.jid.take("jid", &mut problems).unwrap_or_default(),
        name: raw.name.take("name", &mut problems).unwrap_or_default(),
        state: raw.state.take("state", &mut problems).unwrap_or_default(),
        scheduler: raw.scheduler.take("schedulerType", &mut problems),
        start_ms: raw.start_time.millis("start-time", &mut problems),
        end_ms: raw.end_time.millis("end-time", &mut problems),
        now_ms: raw.now.millis("now", &mut problems),
        ..JobDetail::default()
    };
    for (state, at) in raw.timestamps.entries("timestamps", &mut problems) {
        // A state that the job was never in has the time 0.
        let at = Loose::Value(at).millis("timestamps", &mut problems).filter(|&at| at > 0);
        value.timestamps.extend(at.map(|at| (state, at)));
    }
    for Object(vertex) in raw.vertices.items("vertices", &mut problems) {
        value.vertices.extend(job_vertex(vertex, &mut problems));
    }
    problems.enter("plan");
    let plan = raw.plan.object("plan", &mut problems).unwrap_or_default();
    for Object(node) in plan.nodes.items("nodes", &mut problems) {
        plan_node(node, &mut value, &mut problems);
    }
    Ok(Decoded { value, problems })
}

fn job_vertex(raw: RawVertex, problems: &mut Problems) -> Option<JobVertex> {
    problems.enter("vertices");
    let Some(id) = raw.id.take("id", problems).filter(|id| !id.is_empty()) else {
        problems.note("vertex without an id");
        return None;
    };
    problems.enter(format!("vertex {id}"));
    let mut tasks = BTreeMap::new();
    for (state, count) in raw.tasks.entries("tasks", problems) {
        tasks.extend(Loose::Value(count).small("tasks", problems).map(|count| (state, count)));
    }
    Some(JobVertex {
        id,
        name: raw.name.take("name", problems).unwrap_or_default(),
        parallelism: raw.parallelism.small("parallelism", problems),
        max_parallelism: raw.max_parallelism.small("maxParallelism", problems),
        status: raw.status.take("status", problems).unwrap_or_default(),
        slot_sharing_group: raw.slot_sharing_group.take("slotSharingGroupId", problems),
        tasks,
        metrics: io_metrics(raw.metrics, problems),
    })
}

/// Takes the edges of a node, or its being a source. A node whose inputs cannot be read is neither.
fn plan_node(raw: RawNode, job: &mut JobDetail, problems: &mut Problems) {
    let Some(to) = raw.id.take("id", problems).filter(|id| !id.is_empty()) else {
        problems.note("plan node without an id");
        return;
    };
    let readable = !matches!(raw.inputs, Loose::Bad);
    let inputs = raw.inputs.items("inputs", problems);
    if inputs.is_empty() && readable {
        job.sources.push(to);
        return;
    }
    for Object(input) in inputs {
        match input.id.take("id", problems) {
            Some(from) => {
                let ship_strategy = input.ship_strategy.take("ship_strategy", problems).unwrap_or_default();
                job.edges.push(Edge { from, to: to.clone(), ship_strategy });
            }
            None => problems.note("input without an id"),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct RawJobConfig {
    execution_config: Loose<Object<RawExecution>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct RawExecution {
    job_parallelism: Loose<Number>,
    restart_strategy: Loose<String>,
    user_config: Loose<Entries<Written>>,
}

/// Reads `/jobs/:id/config`.
///
/// # Errors
/// If it is no JSON object.
pub fn job_config(body: &[u8]) -> Result<Decoded<JobConfig>, DecodeError> {
    let raw: RawJobConfig = document::<Object<_>>(body, "a job's configuration")?.0;
    let mut problems = Problems::default();
    let raw = raw.execution_config.object("execution-config", &mut problems).unwrap_or_default();
    let user_config = raw.user_config.entries("user-config", &mut problems);
    let value = JobConfig {
        parallelism: raw.job_parallelism.float("job-parallelism", &mut problems).map(weir_schemas::num::round_i64),
        restart_strategy: raw.restart_strategy.take("restart-strategy", &mut problems),
        user_config: user_config.into_iter().map(|(key, value)| (key, value.0)).collect(),
    };
    Ok(Decoded { value, problems })
}
