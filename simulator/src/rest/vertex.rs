//! One vertex: its subtasks.

use serde_json::{Value, json};

use super::errors::{bad_path_parameter, vertex_not_found};
use super::io::{Io, distribution};
use super::path::is_id;
use super::{Answer, Query};
use crate::model::{Cluster, JobView, TaskState, VertexView};
use crate::num::whole;
use crate::spec::FlinkVersion;

/// States that a task passes before it runs, and how long each takes.
const START: [(&str, i64); 3] = [("CREATED", 20), ("SCHEDULED", 20), ("DEPLOYING", 200)];

impl Cluster {
    pub(super) fn about_vertex(
        &mut self,
        now_ms: i64,
        id: &str,
        vertex: &str,
        rest: &[&str],
        query: &Query,
    ) -> Option<Answer> {
        if !matches!(rest, [] | ["metrics" | "backpressure" | "jm-operator-metrics"] | ["subtasks", "metrics"]) {
            return None;
        }
        if !is_id(vertex) {
            return Some(Err(bad_path_parameter("vertexid", vertex)));
        }
        self.prime(now_ms);
        match rest {
            ["metrics"] => return Some(Ok(self.raw_subtask_metrics(id, vertex, query))),
            ["subtasks", "metrics"] => return Some(Ok(self.aggregated_subtask_metrics(id, vertex, query))),
            ["jm-operator-metrics"] => return Some(Ok(json!([]))),
            _ => {}
        }
        let view = match self.view(now_ms, id) {
            Ok(view) => view,
            Err(response) => return Some(Err(response)),
        };
        let Some(index) = view.spec.vertices.iter().position(|v| v.id == vertex) else {
            return Some(Err(vertex_not_found(vertex)));
        };
        Some(Ok(match rest {
            [] => self.vertex_detail(now_ms, &view, index),
            _ => self.vertex_back_pressure(now_ms, id, &view, index),
        }))
    }

    fn vertex_detail(&self, now_ms: i64, view: &JobView, vertex: usize) -> Value {
        let (spec, seen) = (&view.spec.vertices[vertex], &view.vertices[vertex]);
        let ios = self.ios(view, vertex);
        let durations = status_durations(now_ms, seen);
        let subtasks: Vec<Value> =
            (0..seen.subtasks.len()).map(|subtask| self.subtask(now_ms, seen, subtask, &ios, &durations)).collect();
        let mut by_state = serde_json::Map::new();
        for (word, ms) in &durations {
            by_state.insert((*word).into(), distribution(vec![*ms; seen.subtasks.len()]));
        }
        json!({
            "id": spec.id,
            "name": spec.name,
            "parallelism": seen.parallelism,
            "maxParallelism": spec.max_parallelism,
            "now": now_ms,
            "subtasks": subtasks,
            "aggregated": { "metrics": Io::distributions(&ios), "status-duration": by_state },
        })
    }

    fn subtask(
        &self,
        now_ms: i64,
        seen: &VertexView,
        subtask: usize,
        ios: &[Io],
        durations: &[(&'static str, u64)],
    ) -> Value {
        let (started, ended, duration) = super::job::times(now_ms, seen);
        let member = seen.subtasks[subtask].member;
        let manager = member.map_or("(unassigned)", |member| self.pool.members[member].id.as_str());
        let mut value = json!({
            "subtask": subtask,
            "status": seen.state.as_str(),
            "attempt": seen.subtasks[subtask].attempt,
            "start-time": started,
            "end-time": ended,
            "duration": duration,
            "metrics": ios[subtask].json(),
            "taskmanager-id": manager,
            "status-duration": serde_json::Map::from_iter(durations.iter().map(|(w, ms)| ((*w).to_owned(), (*ms).into()))),
            "start_time": started,
        });
        let host = if member.is_some() { "127.0.0.1" } else { "(unassigned)" };
        if self.spec.version < FlinkVersion::V2_0 {
            value["host"] = host.into();
        }
        if self.spec.version >= FlinkVersion::V1_20 {
            value["endpoint"] = member.map_or_else(|| host.into(), |m| format!("{host}:{}", data_port(m))).into();
        }
        value
    }

    fn vertex_back_pressure(&self, now_ms: i64, id: &str, view: &JobView, vertex: usize) -> Value {
        let stored = self.store.snapshot.jobs.get(id).and_then(|metrics| metrics.vertices.get(vertex));
        let width = view.vertices[vertex].subtasks.len();
        let rows: Vec<(f64, Value)> = stored
            .into_iter()
            .flatten()
            .take(width)
            .enumerate()
            .map(|(subtask, sample)| {
                let ratio = sample.rates.back_pressured / 1000.0;
                let row = json!({
                    "subtask": subtask,
                    "backpressureLevel": level(ratio),
                    "ratio": ratio,
                    "idleRatio": sample.rates.idle / 1000.0,
                    "busyRatio": sample.rates.busy / 1000.0,
                    "backpressure-level": level(ratio),
                });
                (ratio, row)
            })
            .collect();
        if rows.is_empty() {
            return json!({ "status": "deprecated", "backpressureLevel": null, "end-timestamp": null, "subtasks": null });
        }
        let worst = rows.iter().map(|(ratio, _)| *ratio).fold(0.0, f64::max);
        let subtasks: Vec<Value> = rows.into_iter().map(|(_, row)| row).collect();
        json!({
            "status": "ok",
            "backpressureLevel": level(worst),
            "end-timestamp": now_ms,
            "subtasks": subtasks,
            "backpressure-level": level(worst),
        })
    }
}

fn level(ratio: f64) -> &'static str {
    match whole(ratio * 1000.0) {
        0..=100 => "ok",
        101..=500 => "low",
        _ => "high",
    }
}

/// Data port of member `member` of the pool.
pub(super) fn data_port(member: usize) -> u64 {
    40_000 + crate::num::wide(member)
}

/// Time that the tasks of a vertex spent in each state.
fn status_durations(now_ms: i64, seen: &VertexView) -> Vec<(&'static str, u64)> {
    let Some(started) = seen.started_ms else { return Vec::new() };
    let ended = seen.ended_ms.unwrap_or(now_ms);
    let running = seen.subtasks.first().and_then(|subtask| subtask.running_ms);
    let mut left = running.unwrap_or(ended).saturating_sub(started);
    let mut durations = Vec::new();
    for (word, most) in START {
        let spent = left.min(most);
        left -= spent;
        durations.push((word, u64::try_from(spent).unwrap_or(0)));
    }
    durations.push(("INITIALIZING", u64::try_from(left).unwrap_or(0)));
    let ran = running.map_or(0, |running| ended - running);
    if seen.state != TaskState::Deploying {
        durations.push(("RUNNING", u64::try_from(ran.max(0)).unwrap_or(0)));
    }
    durations
}
