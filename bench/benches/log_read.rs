//! Reads of a log that holds 5000 records, from its head to its tail, in calls of one size. The files are in the page cache.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot build its input should stop there")]

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, SamplingMode, Throughput};
use tokio::runtime::Runtime;
use weir_streams::{EmbeddedLog, EmbeddedOptions, Log, LogError, MemoryLog, MemoryOptions, Position};

const RECORDS: usize = 5_000;

fn main() {
    let mut criterion = weir_bench::criterion();
    let runtime = Runtime::new().unwrap();
    for record_bytes in [200, 1_000] {
        let mut group = criterion.benchmark_group(format!("read {record_bytes} B"));
        group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(RECORDS.try_into().unwrap()));
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let open = EmbeddedLog::open(dir.path().join("log"), EmbeddedOptions::default(), 0);
        let embedded = runtime.block_on(open).unwrap();
        let memory = MemoryLog::new(MemoryOptions::default());
        let logs: [(&str, &dyn Log); 2] = [("embedded", &embedded), ("memory", &memory)];
        for (name, log) in logs {
            runtime.block_on(fill(log, record_bytes)).unwrap();
            for in_a_call in [1, 500, RECORDS] {
                reads(&mut group, &runtime, (name, log), in_a_call);
            }
        }
        group.finish();
    }
    criterion.final_summary();
}

async fn fill(log: &dyn Log, record_bytes: usize) -> Result<(), LogError> {
    let payload = vec![7; record_bytes];
    let batch = vec![payload.as_slice(); RECORDS];
    log.writer(0, "bench").await?.append_batch(&batch, 0).await
}

fn reads(group: &mut BenchmarkGroup<WallTime>, runtime: &Runtime, (name, log): (&str, &dyn Log), in_a_call: usize) {
    let head = runtime.block_on(log.head(0)).unwrap();
    assert_eq!(runtime.block_on(read_all(log, head, in_a_call)).unwrap(), RECORDS);
    group.bench_function(BenchmarkId::new(name, in_a_call), |bencher| {
        bencher.iter(|| runtime.block_on(read_all(log, head, in_a_call)).unwrap());
    });
}

async fn read_all(log: &dyn Log, from: Position, in_a_call: usize) -> Result<usize, LogError> {
    let mut reader = log.reader(0, from).await?;
    let mut read = 0;
    while read < RECORDS {
        read += reader.read(in_a_call, Duration::ZERO).await?.len();
    }
    Ok(read)
}
