//! What the analyzer computes for a job each round: folding the round into the state, and deciding on it.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot build its input should stop there")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput};
use weir_bench::SyntheticJob;
use weir_engine::{Context, Folded, Judged, Shard};
use weir_schemas::control::{ControlState, Mode};
use weir_schemas::decision::Verdict;
use weir_schemas::records::Record;
use weir_schemas::records::record::Body;

const VERTICES: u32 = 20;
const PARALLELISM: u32 = 50;
/// Rounds after which the state has reached its size: as many as its windows hold.
const WARM: u32 = 300;

fn main() {
    let mut criterion = weir_bench::criterion();
    // 68 % busy is right for a policy that asks for 70 %; 90 % is too small, and gets a plan each round.
    rounds(&mut criterion, "round, hold", 0.68, |verdict| matches!(verdict, Verdict::Hold { .. }));
    rounds(&mut criterion, "round, plan", 0.9, |verdict| verdict.plan().is_some());
    state(&mut criterion, &warm(0.68).0);
    criterion.final_summary();
}

/// A shard that has watched the job for some minutes.
fn warm(busy: f64) -> (Shard, SyntheticJob) {
    let mut job = SyntheticJob::new(VERTICES, PARALLELISM, busy);
    let mut shard = Shard::default();
    // It recommends, so that a plan does not put it in the state of waiting for an outcome.
    let control = ControlState { mode: Mode::Recommend, ..ControlState::default() };
    let body = Body::ControlJson(serde_json::to_vec(&control).unwrap());
    let told = Record { producer: "control".into(), sequence: 1, job: SyntheticJob::key().into(), ..Record::default() };
    shard.fold(Record { body: Some(body), ..told });
    for _ in 0..WARM {
        round(&mut shard, job.next_round());
    }
    (shard, job)
}

fn round(shard: &mut Shard, record: Record) -> Judged {
    let context = Context { now_ms: record.time_ms, incarnation: "bench".into(), position: record.sequence, epoch: 1 };
    let Folded::Judge(key) = shard.fold(record) else { unreachable!("every round is whole") };
    shard.jobs.get_mut(&key).unwrap().decide(&key, &context).unwrap()
}

fn rounds(criterion: &mut Criterion, name: &str, busy: f64, expected: impl Fn(&Verdict) -> bool) {
    let (mut shard, mut job) = warm(busy);
    let judged = round(&mut shard, job.next_round());
    println!("{name}: {}", judged.decision.sentence);
    assert!(expected(&judged.decision.verdict), "another path would be measured: {:?}", judged.decision.verdict);
    let mut group = criterion.benchmark_group("engine");
    group.throughput(Throughput::Elements((VERTICES * PARALLELISM).into()));
    group.bench_function(name, |bencher| {
        bencher.iter_batched(|| job.next_round(), |record| round(&mut shard, record), BatchSize::SmallInput);
    });
    group.finish();
}

/// The state as it is committed with its position, and as it is taken up again.
fn state(criterion: &mut Criterion, shard: &Shard) {
    let bytes = shard.to_bytes().unwrap();
    println!("state of a job of {VERTICES} x {PARALLELISM} subtasks: {} bytes", bytes.len());
    let mut group = criterion.benchmark_group("engine");
    group.throughput(Throughput::Bytes(bytes.len().try_into().unwrap()));
    group.bench_function("state to bytes", |bencher| bencher.iter(|| black_box(shard).to_bytes().unwrap()));
    group.bench_function("state from bytes", |bencher| bencher.iter(|| Shard::from_bytes(black_box(&bytes)).unwrap()));
    group.finish();
}
