//! Checkpoints, savepoints, stops: statistics, requests, and where those stand.

use serde_json::{Map, Value, json};

use super::Answer;
use super::errors::{refused, refused_because};
use super::path::is_id;
use crate::model::checkpoint::{End, Kind, Progress, Record};
use crate::model::{Cluster, JobView};
use crate::num::{real, wide};

/// What Flink gives for "no periodic checkpoints".
const NEVER_MS: i64 = i64::MAX;

impl Cluster {
    pub(super) fn about_checkpoints(&mut self, now_ms: i64, id: &str, rest: &[&str]) -> Option<Answer> {
        match rest {
            [] => Some(self.view(now_ms, id).map(|view| statistics(now_ms, &view))),
            ["config"] => Some(self.view(now_ms, id).map(|view| config(&view))),
            [key] => Some(self.checkpoint_status(id, key)),
            _ => None,
        }
    }

    /// Takes a request for a checkpoint, a savepoint or a stop, and gives its key.
    pub(super) fn trigger(&mut self, now_ms: i64, id: &str, what: &str, body: &str) -> Answer {
        let text = if body.trim().is_empty() { "{}" } else { body };
        let options: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            let cause =
                format!("org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonParseException: {error}");
            refused_because(400, "Request did not match expected format TriggerRequestBody.", &[&cause])
        })?;
        let given = options.get("triggerId").and_then(Value::as_str).filter(|key| is_id(key)).map(str::to_owned);
        let key = given.unwrap_or_else(|| self.rng.hex_id());
        let directory = ["target-directory", "targetDirectory"].iter().find_map(|name| options.get(*name)?.as_str());
        let directory = directory.unwrap_or("file:/savepoints").to_owned();
        let stop = what == "stop" || options.get("cancel-job").and_then(Value::as_bool).unwrap_or(false);
        let kind = if what == "checkpoints" { Kind::Checkpoint } else { Kind::Savepoint { directory, stop } };
        match self.jobs.iter_mut().find(|job| job.spec.id == id && job.is_known() && !job.status.is_terminal()) {
            Some(job) => {
                let running = job.runs();
                job.checkpoints.request(kind, key.clone());
                if !running {
                    job.checkpoints.stop(now_ms, "Not all required tasks are currently running.");
                }
            }
            None => {
                let why = super::errors::no_such_job(id);
                self.refused.insert(format!("{id}/{key}"), why);
            }
        }
        Ok(json!({ "request-id": key }))
    }

    fn checkpoint_status(&self, id: &str, key: &str) -> Answer {
        let found = self.progress(id, key).filter(|(kind, _)| kind.as_ref().is_none_or(|k| *k == Kind::Checkpoint));
        let missing = || refused(404, &format!("There is no checkpoint operation with triggerId={key} for job {id}."));
        let (_, progress) = found.ok_or_else(missing)?;
        Ok(operation(&progress, |number, _| json!({ "checkpointId": number, "failureCause": null }), "failureCause"))
    }

    pub(super) fn savepoint_status(&self, id: &str, key: &str) -> Answer {
        let found = self.progress(id, key).filter(|(kind, _)| kind.as_ref().is_none_or(|k| *k != Kind::Checkpoint));
        let missing = || refused(404, &format!("There is no savepoint operation with triggerId={key} for job {id}."));
        let (_, progress) = found.ok_or_else(missing)?;
        Ok(operation(&progress, |_, path| json!({ "location": path }), "failure-cause"))
    }

    fn progress(&self, id: &str, key: &str) -> Option<(Option<Kind>, Progress)> {
        if let Some(why) = self.refused.get(&format!("{id}/{key}")) {
            return Some((None, Progress::Failed(why.clone())));
        }
        let job = self.jobs.iter().find(|job| job.spec.id == id)?;
        job.checkpoints.progress(key).map(|(kind, progress)| (Some(kind.clone()), progress.clone()))
    }
}

fn operation(progress: &Progress, done: impl FnOnce(u64, &str) -> Value, failed: &str) -> Value {
    let (state, operation) = match progress {
        Progress::Waiting => ("IN_PROGRESS", Value::Null),
        Progress::Completed(number, path) => {
            let mut value = done(*number, path);
            if let Some(map) = value.as_object_mut() {
                map.retain(|_, value| !value.is_null());
            }
            ("COMPLETED", value)
        }
        Progress::Failed(why) => {
            let class = "java.util.concurrent.CompletionException";
            let exception = "org.apache.flink.runtime.checkpoint.CheckpointException";
            let trace = format!("{class}: {exception}: {why}\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n");
            let cause = json!({ "class": class, "stack-trace": trace, "serialized-throwable": "" });
            ("COMPLETED", Value::Object(Map::from_iter([(failed.to_owned(), cause)])))
        }
    };
    json!({ "status": { "id": state }, "operation": operation })
}

fn statistics(now_ms: i64, view: &JobView) -> Value {
    let checkpoints = &view.checkpoints;
    let open = checkpoints.in_progress();
    let in_progress = u64::from(open.is_some());
    let history = open.into_iter().chain(&checkpoints.history);
    let history: Vec<Value> = history.map(|record| entry(now_ms, &view.spec.id, record)).collect();
    json!({
        "counts": {
            "restored": checkpoints.restores,
            "total": checkpoints.completed + checkpoints.failed + in_progress,
            "in_progress": in_progress,
            "completed": checkpoints.completed,
            "failed": checkpoints.failed,
        },
        "summary": summaries(view),
        "latest": latest(now_ms, view),
        "history": history,
    })
}

fn latest(now_ms: i64, view: &JobView) -> Value {
    let (id, latest) = (&view.spec.id, &view.checkpoints.latest);
    let newest = |record: &Option<Record>| record.as_ref().map_or(Value::Null, |record| entry(now_ms, id, record));
    let restored = latest.restored.as_ref().map_or(Value::Null, |restored| {
        json!({
            "id": restored.record.id,
            "restore_timestamp": restored.at_ms,
            "is_savepoint": restored.record.kind != Kind::Checkpoint,
            "external_path": external_path(id, &restored.record),
        })
    });
    json!({
        "completed": newest(&latest.completed),
        "savepoint": newest(&latest.savepoint),
        "failed": newest(&latest.failed),
        "restored": restored,
    })
}

fn summaries(view: &JobView) -> Value {
    let ended: Vec<&Record> = view.checkpoints.history.iter().filter(|record| record.end == End::Completed).collect();
    let of = |value: fn(&Record) -> u64| summary(ended.iter().map(|record| value(record)).collect());
    json!({
        "checkpointed_size": of(|record| record.bytes),
        "state_size": of(|record| record.bytes),
        "end_to_end_duration": of(|record| u64::try_from(record.ended_ms - record.triggered_ms).unwrap_or(0)),
        "alignment_buffered": unused_summary(),
        "processed_data": of(|_| 0),
        "persisted_data": of(|_| 0),
    })
}

fn summary(mut values: Vec<u64>) -> Value {
    values.sort_unstable();
    let count = wide(values.len());
    let quantile = |share: f64| {
        let place = crate::num::whole((real(count) * share).ceil()).saturating_sub(1);
        values.get(crate::num::narrow(place)).map_or_else(|| json!("NaN"), |value| json!(real(*value)))
    };
    json!({
        "min": values.first().copied().unwrap_or(0),
        "max": values.last().copied().unwrap_or(0),
        "avg": values.iter().sum::<u64>() / count.max(1),
        "p50": quantile(0.5),
        "p90": quantile(0.9),
        "p95": quantile(0.95),
        "p99": quantile(0.99),
        "p999": quantile(0.999),
    })
}

/// Flink no longer measures this, and gives zeros.
fn unused_summary() -> Value {
    json!({ "min": 0, "max": 0, "avg": 0, "p50": 0.0, "p90": 0.0, "p95": 0.0, "p99": 0.0, "p999": 0.0 })
}

fn entry(now_ms: i64, job: &str, record: &Record) -> Value {
    let savepoint = record.kind != Kind::Checkpoint;
    let (class, status) = match record.end {
        End::Open => ("in_progress", "IN_PROGRESS"),
        End::Completed => ("completed", "COMPLETED"),
        End::Failed(_) => ("failed", "FAILED"),
    };
    let complete = record.end == End::Completed;
    let ended_ms = if record.end == End::Open { now_ms } else { record.ended_ms };
    let acknowledged = if complete { record.subtasks } else { 0 };
    let bytes = if complete { record.bytes } else { 0 };
    let value = json!({
        "className": class,
        "id": record.id,
        "status": status,
        "is_savepoint": savepoint,
        "savepointFormat": if savepoint { json!("CANONICAL") } else { Value::Null },
        "trigger_timestamp": record.triggered_ms,
        "latest_ack_timestamp": ended_ms,
        "checkpointed_size": bytes,
        "state_size": bytes,
        "end_to_end_duration": ended_ms - record.triggered_ms,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": record.subtasks,
        "num_acknowledged_subtasks": acknowledged,
        "checkpoint_type": if savepoint { "SAVEPOINT" } else { "CHECKPOINT" },
        "tasks": {},
    });
    with_end(value, job, record)
}

/// Adds what only ended checkpoints have.
fn with_end(mut value: Value, job: &str, record: &Record) -> Value {
    match &record.end {
        End::Open => {}
        End::Completed => {
            value["external_path"] = external_path(job, record).into();
            value["discarded"] = false.into();
        }
        End::Failed(why) => {
            value["failure_timestamp"] = record.ended_ms.into();
            value["failure_message"] = why.clone().into();
        }
    }
    value
}

fn external_path(job: &str, record: &Record) -> String {
    match record.kind {
        Kind::Checkpoint => record.path.replacen("/checkpoints/", &format!("/checkpoints/{job}/"), 1),
        Kind::Savepoint { .. } => record.path.clone(),
    }
}

fn config(view: &JobView) -> Value {
    let interval = view.spec.checkpoint_interval_ms;
    json!({
        "mode": if interval.is_some() { "exactly_once" } else { "at_least_once" },
        "interval": interval.unwrap_or(NEVER_MS),
        "timeout": 600_000,
        "min_pause": 0,
        "max_concurrent": 1,
        "externalization": { "enabled": false, "delete_on_cancellation": true },
        "state_backend": "HashMapStateBackend",
        "checkpoint_storage": "FileSystemCheckpointStorage",
        "unaligned_checkpoints": false,
        "tolerable_failed_checkpoints": 0,
        "aligned_checkpoint_timeout": 0,
        "checkpoints_after_tasks_finish": true,
        "state_changelog_enabled": false,
        "changelog_periodic_materialization_interval": 600_000,
        "changelog_storage": "memory",
    })
}
