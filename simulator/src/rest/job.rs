//! One job: its structure, counters and plan.

use serde_json::{Map, Value, json};

use super::io::Io;
use super::{Answer, Query};
use crate::model::{Cluster, JobStatus, JobView, TaskState, VertexView};
use crate::num::wide;
use crate::rng::hex_id;
use crate::spec::{FlinkVersion, Ship};

const TIMESTAMPS: [JobStatus; 6] = [
    JobStatus::Initializing,
    JobStatus::Created,
    JobStatus::Running,
    JobStatus::Failed,
    JobStatus::Canceled,
    JobStatus::Finished,
];

impl Cluster {
    pub(super) fn job_detail(&self, now_ms: i64, view: &JobView) -> Value {
        let spec = &view.spec;
        let vertices: Vec<Value> =
            (0..view.vertices.len()).map(|vertex| self.vertex_summary(now_ms, view, vertex)).collect();
        let states = TaskState::WORDS
            .map(|word| (word, view.vertices.iter().filter(|vertex| vertex.state.as_str() == word).count()));
        let mut detail = json!({
            "jid": spec.id,
            "name": spec.name,
            "isStoppable": false,
            "state": view.status.as_str(),
            "start-time": view.started_ms,
            "end-time": view.ended_ms.unwrap_or(-1),
            "duration": view.ended_ms.unwrap_or(now_ms) - view.started_ms,
            "maxParallelism": -1,
            "now": now_ms,
            "timestamps": timestamps(view),
            "vertices": vertices,
            "status-counts": Map::from_iter(states.map(|(word, count)| (word.to_owned(), count.into()))),
            "plan": self.job_plan(view),
        });
        let version = self.spec.version;
        if version >= FlinkVersion::V1_20 {
            detail["job-type"] = "STREAMING".into();
        }
        if version >= FlinkVersion::V2_0 {
            detail["pending-operators"] = 0.into();
        }
        if version >= FlinkVersion::V2_3 {
            detail["application-id"] = spec.id.clone().into();
            detail["schedulerType"] = self.scheduler_type().into();
        }
        detail
    }

    fn vertex_summary(&self, now_ms: i64, view: &JobView, vertex: usize) -> Value {
        let (spec, seen) = (&view.spec.vertices[vertex], &view.vertices[vertex]);
        let count = |word: &str| if seen.state.as_str() == word { wide(seen.subtasks.len()) } else { 0 };
        let tasks = TaskState::WORDS.map(|word| (word.to_owned(), Value::from(count(word))));
        let (started, ended, duration) = times(now_ms, seen);
        let mut summary = json!({
            "id": spec.id,
            "name": spec.name,
            "maxParallelism": spec.max_parallelism,
            "parallelism": seen.parallelism,
            "status": seen.state.as_str(),
            "start-time": started,
            "end-time": ended,
            "duration": duration,
            "tasks": Map::from_iter(tasks),
            "metrics": Io::sum(&self.ios(view, vertex)).json(),
        });
        if self.spec.version >= FlinkVersion::V1_20 {
            summary["slotSharingGroupId"] = hex_id(&format!("group {}", view.spec.id)).into();
        }
        summary
    }

    pub(super) fn job_plan(&self, view: &JobView) -> Value {
        let spec = &view.spec;
        let node = |(vertex, seen): (usize, &VertexView)| {
            let inputs = spec.edges.iter().zip(&view.ends).filter(|(_, (_, to))| *to == vertex);
            let inputs: Vec<Value> = inputs
                .enumerate()
                .map(|(number, (edge, (from, _)))| {
                    let ship = match edge.ship {
                        Ship::Forward => "FORWARD",
                        Ship::Hash { .. } => "HASH",
                        Ship::Rebalance => "REBALANCE",
                    };
                    let id = &spec.vertices[*from].id;
                    json!({ "num": number, "id": id, "ship_strategy": ship, "exchange": "pipelined_bounded" })
                })
                .collect();
            let mut node = json!({
                "id": spec.vertices[vertex].id,
                "parallelism": seen.parallelism,
                "operator": "",
                "operator_strategy": "",
                "description": format!("{}<br/>", spec.vertices[vertex].name.replace(" -> ", "<br/>+- ")),
                "optimizer_properties": {},
            });
            if !inputs.is_empty() {
                node["inputs"] = inputs.into();
            }
            node
        };
        let nodes: Vec<Value> = view.vertices.iter().enumerate().map(node).collect();
        json!({ "jid": spec.id, "name": spec.name, "type": "STREAMING", "nodes": nodes })
    }

    pub(super) fn job_config(&self, view: &JobView) -> Value {
        let mut config = json!({
            "restart-strategy": "Cluster level default restart strategy",
            "job-parallelism": 1,
            "object-reuse-mode": false,
            "user-config": {},
        });
        if self.spec.version < FlinkVersion::V2_0 {
            config["execution-mode"] = "PIPELINED".into();
        }
        json!({ "jid": view.spec.id, "name": view.spec.name, "execution-config": config })
    }

    pub(super) fn job_exceptions(&self, view: &JobView) -> Value {
        let entries: Vec<Value> = view
            .failure
            .iter()
            .map(|(at, why)| {
                let class = why.split(':').next().unwrap_or(why);
                json!({
                    "exceptionName": class,
                    "stacktrace": format!("{why}\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"),
                    "timestamp": at,
                    "failureLabels": {},
                    "concurrentExceptions": [],
                })
            })
            .collect();
        let mut exceptions = json!({ "exceptionHistory": { "entries": entries, "truncated": false } });
        if self.spec.version < FlinkVersion::V2_0 {
            exceptions["root-exception"] = Value::Null;
            exceptions["timestamp"] = Value::Null;
            exceptions["all-exceptions"] = json!([]);
            exceptions["truncated"] = false.into();
        }
        exceptions
    }

    pub(super) fn cancel(&mut self, id: &str, query: &Query) -> Answer {
        let mode = query.get("mode").map_or("cancel", String::as_str);
        if mode != "cancel" {
            return Err(super::errors::refused(
                503,
                "The termination mode \"stop\" has been removed. For an alternative, see \"jobs/:jobid/stop\".",
            ));
        }
        self.cancel_job(id).map(|()| json!({})).map_err(|_| super::errors::job_not_found(id))
    }
}

fn timestamps(view: &JobView) -> Value {
    let mut stamps = Map::new();
    for word in ["SUSPENDED", "RECONCILING", "FAILING", "RESTARTING"] {
        stamps.insert(word.into(), 0.into());
    }
    for status in TIMESTAMPS {
        stamps.insert(status.as_str().into(), view.entered_ms.get(&status).copied().unwrap_or(0).into());
    }
    // A job that restarts is a graph that is being cancelled.
    let cancelling = view.entered_ms.get(&JobStatus::Restarting).filter(|_| view.status == JobStatus::Restarting);
    stamps.insert("CANCELLING".into(), cancelling.copied().unwrap_or(0).into());
    stamps.into()
}

/// Start, end and duration of a vertex, -1 where there is none.
pub(super) fn times(now_ms: i64, vertex: &VertexView) -> (i64, i64, i64) {
    let Some(started) = vertex.started_ms else { return (-1, -1, -1) };
    (started, vertex.ended_ms.unwrap_or(-1), vertex.ended_ms.unwrap_or(now_ms) - started)
}
