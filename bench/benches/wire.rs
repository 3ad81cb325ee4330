//! A metric batch on its way into the metrics stream and out of it: protobuf and zstd.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot build its input should stop there")]

use std::hint::black_box;

use criterion::Throughput;
use weir_bench::SyntheticJob;
use weir_schemas::wire;

const VERTICES: u32 = 20;
const PARALLELISM: u32 = 100;

fn main() {
    let mut criterion = weir_bench::criterion();
    let record = SyntheticJob::new(VERTICES, PARALLELISM, 0.68).next_round();
    let bytes = wire::encode(&record).unwrap();
    assert_eq!(wire::decode(&bytes).unwrap(), record);
    let subtasks = VERTICES * PARALLELISM;
    let each = f64::from(u32::try_from(bytes.len()).unwrap()) / f64::from(subtasks);
    println!("a batch of {VERTICES} x {PARALLELISM} subtasks: {} bytes, {each:.1} for each subtask", bytes.len());

    let mut group = criterion.benchmark_group("wire");
    group.throughput(Throughput::Elements(subtasks.into()));
    group.bench_function("encode 20 x 100", |bencher| bencher.iter(|| wire::encode(black_box(&record)).unwrap()));
    group.bench_function("decode 20 x 100", |bencher| bencher.iter(|| wire::decode(black_box(&bytes)).unwrap()));
    group.finish();
    criterion.final_summary();
}
