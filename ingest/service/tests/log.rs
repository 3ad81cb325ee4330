//! The collector's records on a log.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its input should stop there")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::Sim;
use tokio_util::sync::CancellationToken;
use weir_ingest::{ClusterSpec, Collector, LogSink, Options, Producer, RecordSink};
use weir_schemas::records::Record;
use weir_schemas::wire;
use weir_streams::{Log, MemoryLog, MemoryOptions, partition_of};

async fn read(log: &dyn Log, partition: u32) -> Vec<Record> {
    let head = log.head(partition).await.unwrap();
    let mut reader = log.reader(partition, head).await.unwrap();
    let read = reader.read(10_000, Duration::ZERO).await.unwrap();
    read.iter().map(|record| wire::decode(&record.payload).unwrap()).collect()
}

#[tokio::test]
async fn each_jobs_records_lie_in_its_partition_in_their_order() {
    let jobs: Vec<_> = ["a", "b", "c", "d"].into_iter().map(Sim::job).collect();
    let sim = Sim::of_jobs(jobs);
    let log: Arc<dyn Log> = Arc::new(MemoryLog::new(MemoryOptions::default()));
    let clock = sim.clock.join();
    let sink = LogSink::new(Arc::clone(&log), Arc::clone(&clock), "ingest-1");
    let producer = Producer { name: "ingest-1".into(), next_sequence: 1, session: "s".into() };
    let spec = ClusterSpec::new("prod", Arc::new(sim.clone()));
    let stop = CancellationToken::new();
    let collector = Collector::new(spec, Options::default(), clock, Box::new(sink), producer);
    let running = tokio::spawn(collector.run(stop.clone()));
    sim.clock.run_until(1_015_000, None).await;
    stop.cancel();
    running.await.unwrap();
    let mut all = 0;
    for partition in 0..4 {
        let records = read(log.as_ref(), partition).await;
        assert!(records.iter().all(|record| partition_of(&record.job, 4) == partition));
        assert!(records.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
        all += records.len();
    }
    assert!(all >= 4 * 12, "{all}");
}

#[tokio::test]
async fn a_record_that_is_too_large_is_refused_for_good() {
    let sim = Sim::of_jobs(Vec::new());
    let options = MemoryOptions { max_record_bytes: 64, ..MemoryOptions::default() };
    let log: Arc<dyn Log> = Arc::new(MemoryLog::new(options));
    let mut sink = LogSink::new(log, sim.clock.join(), "ingest-1");
    let job: String = (0..500).map(|number| char::from_u32(0x4e00 + number * 7).unwrap()).collect();
    let refused = sink.write(&[Record { job, ..Record::default() }]).await.unwrap_err();
    assert!(!refused.retryable && refused.why.starts_with("WR0211"), "{refused:?}");
    sink.write(&[Record { job: "a/b/c".into(), ..Record::default() }]).await.unwrap();
}
