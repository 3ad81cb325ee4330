//! From a reading to the records that carry it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use weir_flink::VertexId;
use weir_flink::decode::{JobDetail, JobVertex, Subtask, VertexDetail};
use weir_schemas::num;
use weir_schemas::records::{Checkpoints, ClusterFacts, Column, Edge, MetricBatch, Subtasks, TaskManager, Vertex};

use crate::read::{JobReading, Pending, SourceNames};

/// Version of the layout of batches.
const SCHEMA: u32 = 1;
/// Longest name of a vertex that is carried, in characters; generated ones may hold whole queries.
const LONGEST_NAME: usize = 500;

/// What a batch says beside what was read of the job.
pub(crate) struct Surroundings<'a> {
    pub(crate) batch_id: String,
    pub(crate) round: u64,
    pub(crate) session: &'a str,
    pub(crate) run_start_ms: i64,
    pub(crate) period_ms: i64,
    pub(crate) refresh_ms: i64,
    pub(crate) fetched_at_ms: i64,
    pub(crate) monotonic_ms: i64,
    pub(crate) same_name: u32,
    pub(crate) cluster: ClusterFacts,
    pub(crate) task_managers: &'a [TaskManager],
    pub(crate) sources: &'a BTreeMap<VertexId, SourceNames>,
    pub(crate) checkpoint_interval_ms: Option<u64>,
    /// Subtasks whose counters are old.
    pub(crate) stale: &'a BTreeSet<(VertexId, u32)>,
    pub(crate) part_bytes: usize,
}

/// The batch, in as many parts as its size asks for.
pub(crate) fn batch(reading: &JobReading, around: &Surroundings<'_>) -> Vec<MetricBatch> {
    let mut head = empty(reading, around);
    head.edges = edges(&reading.detail);
    head.checkpoints = checkpoints(reading, around);
    head.cluster = Some(around.cluster.clone());
    head.task_managers = around.task_managers.to_vec();
    let mut parts = vec![head];
    let mut size = parts[0].encoded_len();
    for vertex in &reading.detail.vertices {
        let vertex = self::vertex(vertex, reading, around);
        let more = vertex.encoded_len();
        if size + more > around.part_bytes && parts.last().is_some_and(|part| !part.vertices.is_empty()) {
            parts.push(empty(reading, around));
            size = parts.last().map_or(0, Message::encoded_len);
        }
        size += more;
        if let Some(part) = parts.last_mut() {
            part.vertices.push(vertex);
        }
    }
    let count = num::count_u32(parts.len());
    for (part, number) in parts.iter_mut().zip(0..) {
        (part.part, part.parts) = (number, count);
    }
    parts
}

fn empty(reading: &JobReading, around: &Surroundings<'_>) -> MetricBatch {
    MetricBatch {
        schema: SCHEMA,
        batch_id: around.batch_id.clone(),
        round: around.round,
        run_id: reading.detail.id.clone(),
        run_start_ms: around.run_start_ms,
        job_state: reading.detail.state.clone(),
        period_ms: small(around.period_ms),
        refresh_ms: small(around.refresh_ms),
        fetched_at_ms: around.fetched_at_ms,
        monotonic_ms: around.monotonic_ms,
        session: around.session.to_owned(),
        restarts: reading.restarts,
        rescales: reading.rescales,
        same_name: around.same_name,
        ..MetricBatch::default()
    }
}

fn edges(detail: &JobDetail) -> Vec<Edge> {
    let known = |id: &String| detail.vertices.iter().any(|vertex| vertex.id == *id);
    let edges = detail.edges.iter().filter(|edge| known(&edge.from) && known(&edge.to));
    edges
        .map(|edge| Edge { from: edge.from.clone(), to: edge.to.clone(), ship_strategy: edge.ship_strategy.clone() })
        .collect()
}

fn checkpoints(reading: &JobReading, around: &Surroundings<'_>) -> Option<Checkpoints> {
    let Some(read) = reading.checkpoints.as_ref()? else { return Some(Checkpoints::default()) };
    let latest = read.latest_completed.as_ref();
    Some(Checkpoints {
        enabled: around.checkpoint_interval_ms.is_some(),
        interval_ms: around.checkpoint_interval_ms,
        completed: read.completed.unwrap_or(0),
        failed: read.failed.unwrap_or(0),
        latest_trigger_ms: latest.and_then(|latest| latest.trigger_ms),
        latest_duration_ms: latest.and_then(|latest| u64::try_from(latest.duration_ms?).ok()),
        latest_state_bytes: latest.and_then(|latest| latest.state_bytes),
        in_progress: read.in_progress.is_some_and(|count| count > 0),
        restored_ms: read.latest_restored.as_ref().and_then(|restored| restored.at_ms),
    })
}

fn vertex(summary: &JobVertex, reading: &JobReading, around: &Surroundings<'_>) -> Vertex {
    let detail = reading.vertices.get(&summary.id);
    let is_source = reading.detail.sources.contains(&summary.id);
    let count = detail.map_or(0, |detail| num::count_u32(detail.subtasks.len()));
    let pending = match reading.pending.get(&summary.id) {
        Some(Pending::Records(records)) => Some(*records),
        _ => None,
    };
    Vertex {
        id: summary.id.clone(),
        name: summary.name.chars().take(LONGEST_NAME).collect(),
        parallelism: detail.and_then(|detail| detail.parallelism).or(summary.parallelism).unwrap_or(count),
        max_parallelism: summary.max_parallelism.or(detail.and_then(|detail| detail.max_parallelism)).unwrap_or(0),
        state: summary.status.clone(),
        is_source,
        source_is_chained: is_source && is_chain(&summary.name),
        slot_sharing_group: summary.slot_sharing_group.clone().unwrap_or_default(),
        subtasks: detail.map(|detail| subtasks(detail, is_source, around)),
        pending_records: pending,
        splits: around.sources.get(&summary.id).and_then(|names| names.splits),
    }
}

/// Whether a vertex's name shows more than one operator, as in `Source: orders -> parse`.
fn is_chain(name: &str) -> bool {
    name.contains(" -> ")
}

fn subtasks(detail: &VertexDetail, is_source: bool, around: &Surroundings<'_>) -> Subtasks {
    let all = &detail.subtasks;
    let column = |value: fn(&Subtask) -> Option<f64>| {
        // Counters without their attempt cannot be compared with anything, and old ones would pass for new ones.
        let usable = |subtask: &Subtask| {
            subtask.attempt.is_some() && !around.stale.contains(&(detail.id.clone(), subtask.index))
        };
        Column::pack(all.iter().map(|subtask| value(subtask).filter(|_| usable(subtask))))
    };
    let counts_in = !is_source || counts_records_in(all);
    Subtasks {
        index: all.iter().map(|subtask| subtask.index).collect(),
        attempt: all.iter().map(|subtask| subtask.attempt.unwrap_or(0)).collect(),
        running: all.iter().map(Subtask::running).collect(),
        records_in: Some(if counts_in { column(|subtask| subtask.metrics.records_in) } else { column(|_| None) }),
        records_out: Some(column(|subtask| subtask.metrics.records_out)),
        busy_ms: Some(column(|subtask| subtask.metrics.busy_ms)),
        idle_ms: Some(column(|subtask| subtask.metrics.idle_ms)),
        backpressured_ms: Some(column(|subtask| subtask.metrics.backpressured_ms)),
        task_manager: all.iter().map(|subtask| place(subtask, around.task_managers)).collect(),
    }
}

/// Some versions and connectors count nothing in at a source: 0 in with something out stands for unknown.
fn counts_records_in(subtasks: &[Subtask]) -> bool {
    let nothing_in = |subtask: &Subtask| subtask.metrics.records_in.is_some_and(|records| records <= 0.0);
    let something_out = |subtask: &Subtask| subtask.metrics.records_out.is_some_and(|records| records > 0.0);
    !subtasks.iter().any(|subtask| nothing_in(subtask) && something_out(subtask))
}

/// Index of a subtask's TaskManager, plus one; 0: unknown.
fn place(subtask: &Subtask, task_managers: &[TaskManager]) -> u32 {
    let id = subtask.task_manager.as_deref();
    task_managers.iter().position(|manager| Some(manager.id.as_str()) == id).map_or(0, |at| num::count_u32(at + 1))
}

fn small(milliseconds: i64) -> u32 {
    u32::try_from(milliseconds.max(0)).unwrap_or(u32::MAX)
}
