//! DS2: one pass over a graph, and the steps before it.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot build its input should stop there")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use weir_sizing::{JobGraph, Measured, SourceTarget, edge_rates, size};

/// Vertices of a layer in the wide graph.
const WIDTH: usize = 5;

fn main() {
    let mut criterion = weir_bench::criterion();
    for vertices in [20, 200] {
        let ids: Vec<String> = (0..vertices).map(|vertex| format!("{vertex:032x}")).collect();
        let chain: Vec<(&str, &str)> = ids.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
        graph(&mut criterion, "chain", &ids, &chain);
        graph(&mut criterion, "layers", &ids, &layers(&ids));
    }
    criterion.final_summary();
}

/// Each vertex is fed by two of the layer before it; the first layer are sources.
fn layers(ids: &[String]) -> Vec<(&str, &str)> {
    let inputs = |vertex: usize| {
        let layer = vertex / WIDTH * WIDTH - WIDTH;
        [layer + vertex % WIDTH, layer + (vertex + 1) % WIDTH]
    };
    let edges = |vertex: usize| inputs(vertex).map(|input| (ids[input].as_str(), ids[vertex].as_str()));
    (WIDTH..ids.len()).flat_map(edges).collect()
}

fn graph(criterion: &mut Criterion, shape: &str, ids: &[String], edges: &[(&str, &str)]) {
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let graph = JobGraph::new(&ids, edges).unwrap();
    let measured: Vec<Measured> = (0..graph.len())
        .map(|vertex| Measured {
            capacity_per_subtask: Some(500.0),
            // Records neither vanish nor multiply on the whole, or 40 layers would overflow any count.
            edge_ratios: graph.inputs(vertex).iter().map(|_| Some(1.0 / f64::from(inputs(&graph, vertex)))).collect(),
        })
        .collect();
    let arrives = SourceTarget { arrival: 10_000.0, needed: 14_000.0 };
    let sources: Vec<Option<SourceTarget>> =
        (0..graph.len()).map(|vertex| graph.is_source(vertex).then_some(arrives)).collect();
    let totals = vec![Some(10_000.0); graph.len()];
    let sized = size(&graph, &measured, &sources);
    assert!((0..graph.len()).all(|vertex| graph.is_source(vertex) || sized[vertex].exact.is_ok()));

    let name = |step: &str| BenchmarkId::new(format!("{step}, {shape}"), graph.len());
    let mut group = criterion.benchmark_group("sizing");
    group.bench_function(name("order"), |bencher| bencher.iter(|| JobGraph::new(black_box(&ids), edges).unwrap()));
    group
        .bench_function(name("edge rates"), |bencher| bencher.iter(|| edge_rates(black_box(&graph), &totals, &totals)));
    group.bench_function(name("size"), |bencher| bencher.iter(|| size(black_box(&graph), &measured, &sources)));
    group.finish();
}

fn inputs(graph: &JobGraph, vertex: usize) -> u32 {
    graph.inputs(vertex).len().try_into().unwrap()
}
