//! Appends, each of which waits until its batch is durable: the embedded log, and beside it what bounds it from both sides,
//! the same bytes written and synced without any log, and a log in memory.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot build its input should stop there")]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, BenchmarkId, SamplingMode, Throughput};
use tokio::runtime::Runtime;
use weir_streams::{EmbeddedLog, EmbeddedOptions, Log, MemoryLog, MemoryOptions};

/// Where the raw file begins anew, as the log does with a new segment.
const SEGMENT_BYTES: u64 = 64 << 20;
/// What the logs keep, or a long measurement would fill disk and memory.
const RETAIN_BYTES: u64 = 2 * SEGMENT_BYTES;

fn main() {
    let mut criterion = weir_bench::criterion();
    let runtime = Runtime::new().unwrap();
    for record_bytes in [200, 1_000] {
        for records in [1, 500, 5_000] {
            let mut group = criterion.benchmark_group(format!("append {record_bytes} B"));
            group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(records));
            let payload = payload(record_bytes);
            let batch = vec![payload.as_slice(); records.try_into().unwrap()];
            let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let options = EmbeddedOptions {
                partitions: 1,
                segment_bytes: SEGMENT_BYTES,
                retain_bytes: RETAIN_BYTES,
                ..EmbeddedOptions::default()
            };
            let embedded = runtime.block_on(EmbeddedLog::open(dir.path().join("log"), options, 0)).unwrap();
            let memory = MemoryLog::new(MemoryOptions { retain_bytes: RETAIN_BYTES, ..MemoryOptions::default() });
            appends(&mut group, &runtime, "embedded", &embedded, &batch);
            appends(&mut group, &runtime, "memory", &memory, &batch);
            raw(&mut group, &File::create(dir.path().join("raw")).unwrap(), &batch);
            group.finish();
        }
    }
    criterion.final_summary();
}

fn appends(group: &mut BenchmarkGroup<WallTime>, runtime: &Runtime, name: &str, log: &dyn Log, batch: &[&[u8]]) {
    let mut writer = runtime.block_on(log.writer(0, "bench")).unwrap();
    group.bench_function(BenchmarkId::new(name, batch.len()), |bencher| {
        // Retention is not measured.
        let retain = || runtime.block_on(log.retain(0)).unwrap();
        let append = |_| runtime.block_on(writer.append_batch(batch, 0)).unwrap();
        bencher.iter_batched(retain, append, BatchSize::SmallInput);
    });
}

/// The least that a durable append can cost here: one write and one fdatasync.
fn raw(group: &mut BenchmarkGroup<WallTime>, mut file: &File, batch: &[&[u8]]) {
    let bytes = batch.concat();
    group.bench_function(BenchmarkId::new("write and fdatasync", batch.len()), |bencher| {
        bencher.iter(|| {
            if file.stream_position().unwrap() >= SEGMENT_BYTES {
                file.set_len(0).unwrap();
                file.seek(SeekFrom::Start(0)).unwrap();
            }
            file.write_all(&bytes).unwrap();
            file.sync_data().unwrap();
        });
    });
}

fn payload(bytes: usize) -> Vec<u8> {
    (0..=u8::MAX).cycle().take(bytes).collect()
}
