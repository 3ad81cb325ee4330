//! What people say enters the metrics stream as records, so that a replay hears it at the same place.

use weir_engine::Shard;
use weir_schemas::control::{ControlState, PolicyBook};
use weir_schemas::identity::JobKey;
use weir_schemas::records::Record;
use weir_schemas::records::record::Body;
use weir_schemas::wire;
use weir_store::Controls;

use crate::AnalyzerError;

/// What applies to a job now.
pub fn applies(book: &PolicyBook, said: &Controls, job: &JobKey) -> ControlState {
    let of_job = said.jobs.get(job);
    let mode = of_job.and_then(|control| control.mode);
    book.control(job, mode, of_job.is_some_and(|control| control.paused), said.frozen)
}

/// The jobs of which the state has not heard yet what applies to them.
pub fn news(shard: &Shard, book: &PolicyBook, said: &Controls) -> Vec<(JobKey, ControlState)> {
    let missing = |(job, state): (&JobKey, &weir_engine::JobState)| {
        let control = applies(book, said, job);
        (state.control.as_ref() != Some(&control)).then(|| (job.clone(), control))
    };
    shard.jobs.iter().filter_map(missing).collect()
}

/// The record that says it.
pub fn record(
    producer: &str,
    sequence: u64,
    now_ms: i64,
    job: &JobKey,
    control: &ControlState,
) -> Result<Vec<u8>, AnalyzerError> {
    let encode = |why: String| AnalyzerError::Encode { what: "a control record", why };
    let json = serde_json::to_vec(control).map_err(|why| encode(why.to_string()))?;
    let record = Record {
        producer: producer.into(),
        sequence,
        time_ms: now_ms,
        job: job.to_string(),
        body: Some(Body::ControlJson(json)),
    };
    wire::encode(&record).map_err(|why| encode(why.to_string()))
}
