//! Counters of subtasks as the detail endpoints show them.

use serde_json::{Value, json};

use crate::model::flow::Counters;
use crate::model::{Cluster, JobView, SubtaskView};
use crate::num::{real, whole, wide};
use crate::spec::{FlinkVersion, SourceKind, VertexKind};

/// Counters of a subtask, or of several.
#[derive(Debug, Clone, Copy)]
pub(super) struct Io {
    read_bytes: u64,
    write_bytes: u64,
    read: u64,
    write: u64,
    back_pressured: u64,
    idle: u64,
    /// NaN where Flink says so.
    busy: f64,
    /// Whether the store had the attempt.
    complete: bool,
}

impl Io {
    const NOTHING: Self = Self {
        read_bytes: 0,
        write_bytes: 0,
        read: 0,
        write: 0,
        back_pressured: 0,
        idle: 0,
        busy: 0.0,
        complete: false,
    };

    pub(super) fn json(&self) -> Value {
        let busy = if self.busy.is_nan() { json!("NaN") } else { json!(self.busy) };
        json!({
            "read-bytes": self.read_bytes,
            "read-bytes-complete": self.complete,
            "write-bytes": self.write_bytes,
            "write-bytes-complete": self.complete,
            "read-records": self.read,
            "read-records-complete": self.complete,
            "write-records": self.write,
            "write-records-complete": self.complete,
            "accumulated-backpressured-time": self.back_pressured,
            "accumulated-idle-time": self.idle,
            "accumulated-busy-time": busy,
        })
    }

    pub(super) fn sum(parts: &[Self]) -> Self {
        let empty = Self { complete: true, ..Self::NOTHING };
        parts.iter().fold(empty, |sum, part| Self {
            read_bytes: sum.read_bytes + part.read_bytes,
            write_bytes: sum.write_bytes + part.write_bytes,
            read: sum.read + part.read,
            write: sum.write + part.write,
            back_pressured: sum.back_pressured + part.back_pressured,
            idle: sum.idle + part.idle,
            busy: sum.busy + part.busy,
            complete: sum.complete && part.complete,
        })
    }

    /// Each metric with its distribution over `parts`.
    pub(super) fn distributions(parts: &[Self]) -> Value {
        let of = |value: fn(&Self) -> u64| distribution(parts.iter().map(value).collect());
        json!({
            "read-bytes": of(|io| io.read_bytes),
            "write-bytes": of(|io| io.write_bytes),
            "read-records": of(|io| io.read),
            "write-records": of(|io| io.write),
            "accumulated-backpressured-time": of(|io| io.back_pressured),
            "accumulated-idle-time": of(|io| io.idle),
            "accumulated-busy-time": of(|io| whole(io.busy)),
        })
    }
}

/// What Flink's summaries say of `values`.
pub(super) fn distribution(mut values: Vec<u64>) -> Value {
    values.sort_unstable();
    let at = |share: f64| {
        let place = whole((real(wide(values.len())) * share).ceil()).saturating_sub(1);
        values.get(crate::num::narrow(place)).copied().unwrap_or(0)
    };
    let sum: u64 = values.iter().sum();
    json!({
        "min": values.first().copied().unwrap_or(0),
        "max": values.last().copied().unwrap_or(0),
        "avg": sum / wide(values.len()).max(1),
        "sum": sum,
        "median": at(0.5),
        "p25": at(0.25),
        "p75": at(0.75),
        "p95": at(0.95),
    })
}

impl Cluster {
    /// Counters of each subtask of vertex `vertex`: from the archive if its task has ended, else from the metric store,
    /// which may not have the attempt yet.
    pub(super) fn ios(&self, view: &JobView, vertex: usize) -> Vec<Io> {
        let stored = self.store.snapshot.jobs.get(&view.spec.id).and_then(|metrics| metrics.vertices.get(vertex));
        let of = |(index, subtask): (usize, &SubtaskView)| match subtask.archived {
            Some(counters) => self.io(view, vertex, counters, false),
            None => {
                let sample = stored.and_then(|samples| samples.get(index));
                let same = sample.filter(|sample| sample.attempt == subtask.attempt);
                same.map_or(Io::NOTHING, |sample| self.io(view, vertex, sample.counters, sample.initializing))
            }
        };
        view.vertices[vertex].subtasks.iter().enumerate().map(of).collect()
    }

    fn io(&self, view: &JobView, vertex: usize, counters: Counters, initializing: bool) -> Io {
        let spec = &view.spec.vertices[vertex];
        let kind = match &spec.kind {
            VertexKind::Source(source) => Some(source.kind),
            VertexKind::Operator => None,
        };
        let legacy = kind == Some(SourceKind::Legacy);
        let read = shown_records_in(self.spec.version, kind, counters.records_in);
        Io {
            read_bytes: if kind.is_some() { 0 } else { read * input_record_bytes(view, vertex) },
            write_bytes: counters.records_out * spec.record_bytes,
            read,
            write: counters.records_out,
            back_pressured: whole(counters.back_pressured_ms),
            idle: if legacy { 0 } else { whole(counters.idle_ms) },
            busy: if legacy || initializing { f64::NAN } else { counters.busy_ms.floor() },
            complete: true,
        }
    }
}

/// Records in as a task counts them: sources count nothing before 2.0, and generators and legacy sources never do.
pub(super) fn shown_records_in(version: FlinkVersion, source: Option<SourceKind>, records: u64) -> u64 {
    match source {
        None => records,
        Some(SourceKind::Queue | SourceKind::QueueWithoutLag) if version >= FlinkVersion::V2_0 => records,
        Some(_) => 0,
    }
}

/// Bytes of a record that vertex `vertex` reads.
pub(super) fn input_record_bytes(view: &JobView, vertex: usize) -> u64 {
    let input = view.ends.iter().find(|(_, to)| *to == vertex);
    input.map_or(0, |(from, _)| view.spec.vertices[*from].record_bytes)
}
