//! `/jobs/:id/vertices/:id`: a vertex with its subtasks.

use serde::Deserialize;

use super::lenient::{List, Loose, Number, Object, document};
use super::{DecodeError, Decoded, Problems};

/// Counters of a vertex or a subtask since its attempt began. What Flink has not fetched is absent, not zero.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct IoMetrics {
    /// Records taken in.
    pub records_in: Option<f64>,
    /// Records handed out.
    pub records_out: Option<f64>,
    /// Bytes taken in.
    pub bytes_in: Option<f64>,
    /// Bytes handed out.
    pub bytes_out: Option<f64>,
    /// Time spent working, in milliseconds. Absent for sources of the old interface, which do not know.
    pub busy_ms: Option<f64>,
    /// Time spent waiting for input, in milliseconds.
    pub idle_ms: Option<f64>,
    /// Time spent waiting for output, in milliseconds.
    pub backpressured_ms: Option<f64>,
}

/// A subtask, as its newest attempt is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Subtask {
    /// Its index.
    pub index: u32,
    /// Number of the attempt. Counters of different attempts cannot be subtracted.
    pub attempt: Option<u32>,
    /// State as Flink names it; empty: unknown.
    pub status: String,
    /// Resource id of the TaskManager that it runs on.
    pub task_manager: Option<String>,
    /// When the attempt began, by the JobManager's clock, in milliseconds since 1970.
    pub start_ms: Option<i64>,
    /// Its counters.
    pub metrics: IoMetrics,
}

impl Subtask {
    /// Whether it runs.
    #[must_use]
    pub fn running(&self) -> bool {
        self.status == "RUNNING"
    }
}

/// A vertex with its subtasks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VertexDetail {
    /// Flink's id.
    pub id: String,
    /// Name of the operator chain.
    pub name: String,
    /// Subtasks that it has.
    pub parallelism: Option<u32>,
    /// Number of key groups.
    pub max_parallelism: Option<u32>,
    /// The JobManager's time, in milliseconds since 1970.
    pub now_ms: Option<i64>,
    /// Its subtasks, by index.
    pub subtasks: Vec<Subtask>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct RawIoMetrics {
    read_bytes: Loose<Number>,
    read_bytes_complete: Loose<bool>,
    write_bytes: Loose<Number>,
    write_bytes_complete: Loose<bool>,
    read_records: Loose<Number>,
    read_records_complete: Loose<bool>,
    write_records: Loose<Number>,
    write_records_complete: Loose<bool>,
    accumulated_busy_time: Loose<Number>,
    accumulated_idle_time: Loose<Number>,
    accumulated_backpressured_time: Loose<Number>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct RawSubtask {
    subtask: Loose<Number>,
    attempt: Loose<Number>,
    status: Loose<String>,
    taskmanager_id: Loose<String>,
    start_time: Loose<Number>,
    metrics: Loose<Object<RawIoMetrics>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawVertexDetail {
    id: Loose<String>,
    name: Loose<String>,
    parallelism: Loose<Number>,
    #[serde(rename = "maxParallelism")]
    max_parallelism: Loose<Number>,
    now: Loose<Number>,
    subtasks: Loose<List<Object<RawSubtask>>>,
}

/// Reads `/jobs/:id/vertices/:id`.
///
/// # Errors
/// If it is no JSON object.
pub fn vertex(body: &[u8]) -> Result<Decoded<VertexDetail>, DecodeError> {
    let raw: RawVertexDetail = document::<Object<_>>(body, "a vertex")?.0;
    let mut problems = Problems::default();
    let id = raw.id.take("id", &mut problems).unwrap_or_default();
    problems.enter(format!("vertex {id}"));
    let mut subtasks: Vec<Subtask> = Vec::new();
    for Object(subtask) in raw.subtasks.items("subtasks", &mut problems) {
        problems.enter(format!("vertex {id}"));
        subtasks.extend(self::subtask(subtask, &id, &mut problems));
    }
    // Two entries for one subtask contradict each other: neither is believed.
    subtasks.sort_by_key(|subtask| subtask.index);
    let mut doubled: Vec<u32> =
        subtasks.windows(2).filter(|pair| pair[0].index == pair[1].index).map(|pair| pair[0].index).collect();
    doubled.dedup();
    if !doubled.is_empty() {
        problems.note("subtask listed twice");
        subtasks.retain(|subtask| !doubled.contains(&subtask.index));
    }
    let value = VertexDetail {
        id,
        name: raw.name.take("name", &mut problems).unwrap_or_default(),
        parallelism: raw.parallelism.small("parallelism", &mut problems),
        max_parallelism: raw.max_parallelism.small("maxParallelism", &mut problems),
        now_ms: raw.now.millis("now", &mut problems),
        subtasks,
    };
    Ok(Decoded { value, problems })
}

/// A subtask. Without an index it is nobody's, and dropped.
fn subtask(raw: RawSubtask, vertex: &str, problems: &mut Problems) -> Option<Subtask> {
    let Some(index) = raw.subtask.small("subtask", problems) else {
        problems.note("subtask without an index");
        return None;
    };
    problems.enter(format!("vertex {vertex} subtask {index}"));
    let task_manager = raw.taskmanager_id.take("taskmanager-id", problems);
    Some(Subtask {
        index,
        attempt: raw.attempt.small("attempt", problems),
        status: raw.status.take("status", problems).unwrap_or_default(),
        task_manager: task_manager.filter(|id| !id.is_empty() && id != "(unassigned)"),
        start_ms: raw.start_time.millis("start-time", problems),
        metrics: io_metrics(raw.metrics, problems),
    })
}

/// Counters. Flink writes 0 for what it has not fetched, and says so beside it.
pub(super) fn io_metrics(raw: Loose<Object<RawIoMetrics>>, problems: &mut Problems) -> IoMetrics {
    let Some(raw) = raw.object("metrics", problems) else { return IoMetrics::default() };
    let mut known = |flag: Loose<bool>| flag.take("-complete", problems).unwrap_or(true);
    let (bytes_in, bytes_out) = (known(raw.read_bytes_complete), known(raw.write_bytes_complete));
    let (records_in, records_out) = (known(raw.read_records_complete), known(raw.write_records_complete));
    // Times have no such mark. They are fetched together with the records, and are 0 where those are missing.
    let times = records_in || records_out;
    let mut counter =
        |known: bool, value: Loose<Number>, name: &str| if known { value.counter(name, problems) } else { None };
    IoMetrics {
        records_in: counter(records_in, raw.read_records, "read-records"),
        records_out: counter(records_out, raw.write_records, "write-records"),
        bytes_in: counter(bytes_in, raw.read_bytes, "read-bytes"),
        bytes_out: counter(bytes_out, raw.write_bytes, "write-bytes"),
        busy_ms: counter(times, raw.accumulated_busy_time, "accumulated-busy-time"),
        idle_ms: counter(times, raw.accumulated_idle_time, "accumulated-idle-time"),
        backpressured_ms: counter(times, raw.accumulated_backpressured_time, "accumulated-backpressured-time"),
    }
}
