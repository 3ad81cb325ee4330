//! Against a real Flink, whose address stands in `WEIR_FLINK_URL`: `cargo test -p weir-ingest --test real -- --ignored`.
//!
//! It must run the load job of `dev/flink` (source, flatmap, count) without being rescaled meanwhile, with a refresh of 1 s.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its input should stop there")]

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use weir_flink::{FlinkClient, HttpApi, HttpOptions};
use weir_ingest::{ClusterSpec, Collector, Options, Producer, RecordSink, RoundReport, SinkError, first_contact};
use weir_runtime::{Clock, RealClock};
use weir_schemas::records::record::Body;
use weir_schemas::records::{MetricBatch, Record};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<MetricBatch>>>);

impl RecordSink for Kept {
    fn write<'a>(&'a mut self, records: Vec<Record>) -> BoxFuture<'a, Result<(), SinkError>> {
        let batches = records.into_iter().filter_map(|record| match record.body {
            Some(Body::Metrics(batch)) => Some(batch),
            _ => None,
        });
        self.0.lock().unwrap().extend(batches);
        Box::pin(async { Ok(()) })
    }
}

/// Records a second that the subtasks of a vertex handed out between two batches, and their busy share.
fn rates(before: &MetricBatch, after: &MetricBatch, vertex: usize) -> Option<(f64, f64)> {
    let seconds = weir_schemas::num::float_signed(after.monotonic_ms - before.monotonic_ms) / 1_000.0;
    let sum = |batch: &MetricBatch, busy: bool| -> Option<f64> {
        let subtasks = batch.vertices.get(vertex)?.subtasks.as_ref()?;
        let column = if busy { &subtasks.busy_ms } else { &subtasks.records_out };
        column.as_ref()?.unpack(subtasks.index.len()).into_iter().sum()
    };
    let count = weir_schemas::num::float_len(after.vertices[vertex].subtasks.as_ref()?.index.len());
    let records = (sum(after, false)? - sum(before, false)?) / seconds;
    Some((records, (sum(after, true)? - sum(before, true)?) / seconds / 1_000.0 / count))
}

#[tokio::test]
#[ignore = "needs a real Flink, see the head of the file"]
async fn a_real_cluster_is_read_as_it_is() {
    let url = std::env::var("WEIR_FLINK_URL").unwrap();
    let api = Arc::new(HttpApi::new(&HttpOptions { url, ..HttpOptions::default() }).unwrap());
    let contact = first_contact(FlinkClient::new(api.as_ref())).await;
    eprintln!("{contact}");
    assert!(contact.problems.is_empty() && contact.jobs.len() == 1);
    let (clock, kept) = (Arc::new(RealClock::new()), Kept::default());
    let producer = Producer { name: "test".into(), next_sequence: 0, session: "test".into() };
    let spec = ClusterSpec::new("real", api);
    let mut collector = Collector::new(spec, Options::default(), clock.clone(), Box::new(kept.clone()), producer);
    let mut reports: Vec<RoundReport> = Vec::new();
    while reports.len() < 25 {
        let began_ms = clock.monotonic_ms();
        let report = collector.round().await;
        clock.sleep_ms(began_ms + report.next_ms - clock.monotonic_ms()).await;
        reports.push(report);
    }
    let refused: Vec<_> = reports.iter().flat_map(|report| &report.refused).collect();
    let calls: Vec<u32> = reports.iter().flat_map(|report| report.job_calls.values().copied()).collect();
    eprintln!("calls a round {calls:?}, refused {refused:?}");
    let batches = kept.0.lock().unwrap().clone();
    for pair in batches.windows(2) {
        let shown: Vec<_> = (0..3).map(|vertex| rates(&pair[0], &pair[1], vertex)).collect();
        eprintln!("{} {:?} pending {:?}", pair[1].round, shown, pair[1].vertices[0].pending_records);
    }
    assert!(refused.len() <= 2, "{refused:?}");
    assert!(calls[1..].iter().filter(|&&calls| calls == 7).count() > 20, "{calls:?}");
    let (first, last) = (&batches[batches.len() - 12], &batches[batches.len() - 1]);
    let (source, _) = rates(first, last, 0).unwrap();
    let (flatmap, busy) = rates(first, last, 1).unwrap();
    assert!((flatmap - 2.0 * source).abs() < 0.05 * flatmap, "two words a line: {source} {flatmap}");
    assert!((0.0..=1.05).contains(&busy), "{busy}");
    let head = &last.vertices[0];
    assert!(head.is_source && head.pending_records.is_some());
    assert!(last.task_managers.iter().all(|manager| manager.cpu_load.is_some() && manager.gc_time_ms.is_some()));
}
