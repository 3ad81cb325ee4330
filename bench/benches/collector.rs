//! The collector's share: decoding of Flink's recorded answers.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot build its input should stop there")]

use std::fs;
use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput};
use serde_json::Value;
use weir_flink::decode;

fn main() {
    let mut criterion = weir_bench::criterion();
    let (one, many) = (vertex(1), vertex(500));
    assert_eq!(decode::vertex(&many).unwrap().subtasks.len(), 500);
    answer(&mut criterion, "overview", &compact(&recorded("overview")), |body| decode::overview(body).unwrap());
    answer(&mut criterion, "job", &compact(&recorded("job")), |body| decode::job(body).unwrap());
    answer(&mut criterion, "vertex of 1 subtask", &one, |body| decode::vertex(body).unwrap());
    answer(&mut criterion, "vertex of 500 subtasks", &many, |body| decode::vertex(body).unwrap());
    // To compare with: the same bytes as a tree of JSON, which nothing has been looked up in.
    answer(&mut criterion, "vertex of 500 subtasks, JSON only", &many, |body| {
        serde_json::from_slice::<Value>(body).unwrap()
    });
    criterion.final_summary();
}

fn answer<T>(criterion: &mut Criterion, name: &str, body: &[u8], decode: impl Fn(&[u8]) -> T) {
    println!("{name}: {} bytes", body.len());
    let mut group = criterion.benchmark_group("collector");
    group.throughput(Throughput::Bytes(body.len().try_into().unwrap()));
    group.bench_function(name, |bencher| bencher.iter(|| decode(black_box(body))));
    group.finish();
}

fn recorded(name: &str) -> Value {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ingest/flink/fixtures/2.3.0");
    serde_json::from_slice(&fs::read(fixtures.join(format!("{name}.json"))).unwrap()).unwrap()
}

/// As Flink sends it: the recorded files are indented for people.
fn compact(answer: &Value) -> Vec<u8> {
    serde_json::to_vec(answer).unwrap()
}

/// The recorded answer for a vertex, its first subtask repeated.
fn vertex(subtasks: u32) -> Vec<u8> {
    let mut answer = recorded("vertex-flatmap");
    let first = answer["subtasks"][0].clone();
    let numbered = (0..subtasks).map(|index| {
        let mut subtask = first.clone();
        subtask["subtask"] = index.into();
        subtask
    });
    answer["subtasks"] = numbered.collect();
    answer["parallelism"] = subtasks.into();
    compact(&answer)
}
