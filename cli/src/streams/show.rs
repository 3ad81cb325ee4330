//! A record as JSON, for people and scripts.

use serde_json::{Value, json};
use weir_schemas::records::record::Body;
use weir_schemas::records::{MetricBatch, Record as MetricRecord};
use weir_schemas::wire;
use weir_streams::Record;

/// A record of a log. Of batches the outline is shown: which vertices, how wide; not every counter.
pub(super) fn line(is_metrics: bool, record: &Record) -> Value {
    let (position, at_ms, bytes) = (record.next.to_raw(), record.appended_at_ms, record.payload.len());
    let mut line = json!({ "position": position, "at_ms": at_ms, "bytes": bytes });
    let (key, value) = if is_metrics {
        match wire::decode(&record.payload) {
            Ok(record) => ("record", metric(record)),
            Err(why) => ("undecodable", why.to_string().into()),
        }
    } else {
        match serde_json::from_slice(&record.payload) {
            Ok(event) => ("event", event),
            Err(why) => ("undecodable", why.to_string().into()),
        }
    };
    line[key] = value;
    line
}

fn metric(record: MetricRecord) -> Value {
    let MetricRecord { producer, sequence, time_ms, job, body } = record;
    let mut shown = json!({ "producer": producer, "sequence": sequence, "time_ms": time_ms, "job": job });
    let (key, value) = match body {
        Some(Body::Metrics(batch)) => ("metrics", outline(&batch)),
        Some(Body::Silence(it)) => {
            let value =
                json!({ "round": it.round, "reason": it.reason, "detail": it.detail, "period_ms": it.period_ms });
            ("silence", value)
        }
        Some(Body::OutcomeJson(bytes)) => ("outcome", parsed(&bytes)),
        Some(Body::ControlJson(bytes)) => ("control", parsed(&bytes)),
        None => ("unknown", Value::Null),
    };
    shown[key] = value;
    shown
}

fn outline(batch: &MetricBatch) -> Value {
    let subtasks = |vertex: &weir_schemas::records::Vertex| vertex.subtasks.as_ref().map(|it| it.index.len());
    let vertices: Vec<Value> = batch
        .vertices
        .iter()
        .map(|vertex| json!({ "name": vertex.name, "parallelism": vertex.parallelism, "subtasks": subtasks(vertex) }))
        .collect();
    json!({
        "run_id": batch.run_id, "round": batch.round, "part": batch.part, "parts": batch.parts,
        "job_state": batch.job_state, "period_ms": batch.period_ms, "fetched_at_ms": batch.fetched_at_ms,
        "session": batch.session, "vertices": vertices,
    })
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
}
