//! The model against the vectors of the reference implementation, the published trajectories, and its promises as properties.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its input should stop there")]

use proptest::prelude::*;
use weir_sizing::{Because, JobGraph, Measured, SourceTarget, size, subtasks};

fn chain() -> JobGraph {
    JobGraph::new(&["source", "op1", "op2"], &[("source", "op1"), ("op1", "op2")]).unwrap()
}

fn source() -> Measured {
    Measured { capacity_per_subtask: None, edge_ratios: vec![] }
}

fn measured(capacity: f64, ratios: &[f64]) -> Measured {
    Measured { capacity_per_subtask: Some(capacity), edge_ratios: ratios.iter().copied().map(Some).collect() }
}

/// A source that is to be sized for exactly what arrives, as in the paper.
fn arrives(rate: f64) -> Option<SourceTarget> {
    Some(SourceTarget { arrival: rate, needed: rate })
}

fn whole(graph: &JobGraph, rates: &[Measured], sources: &[Option<SourceTarget>]) -> Vec<Result<u32, Because>> {
    size(graph, rates, sources).into_iter().map(|size| size.exact.map(|exact| subtasks(exact, 1, 0.0))).collect()
}

/// (source rate, op1 true processing / output rate, op2 true processing rate) -> subtasks of op1 and op2; the last pair is what
/// two sources with the same rate need.
#[test]
fn reference_vectors() {
    let table = [
        ((100.0, 50.0, 400.0, 100.0), (2, 8), (4, 16)),
        ((200.0, 40.0, 700.0, 99.0), (5, 36), (10, 71)),
        ((200.0, 10.0, 700.0, 201.0), (20, 70), (40, 140)),
    ];
    for ((rate, op1_in, op1_out, op2_in), (op1, op2), (op1_twice, op2_twice)) in table {
        let one = [source(), measured(op1_in, &[1.0]), measured(op2_in, &[op1_out / op1_in])];
        assert_eq!(
            whole(&chain(), &one, &[arrives(rate), None, None]),
            [Err(Because::IsSource), Ok(op1), Ok(op2)],
            "source {rate}"
        );
        let graph =
            JobGraph::new(&["s1", "s2", "op1", "op2"], &[("s1", "op1"), ("s2", "op1"), ("op1", "op2")]).unwrap();
        let two = [source(), source(), measured(op1_in, &[1.0, 1.0]), measured(op2_in, &[op1_out / op1_in])];
        let sizes = whole(&graph, &two, &[arrives(rate), arrives(rate), None, None]);
        assert_eq!(sizes[2..], [Ok(op1_twice), Ok(op2_twice)], "two sources of {rate}");
    }
}

/// The paper's word count on Heron: 1 M sentences a minute, 100 k a FlatMap instance, 20 words a sentence, 1 M words a Count
/// instance. Dhalion needs six steps and ends at 22/30.
#[test]
fn the_published_word_count_takes_one_step_to_10_and_20() {
    let rates = [source(), measured(100e3 / 60.0, &[1.0]), measured(1e6 / 60.0, &[20.0])];
    let sizes = whole(&chain(), &rates, &[arrives(1e6 / 60.0), None, None]);
    assert_eq!(sizes[1..], [Ok(10), Ok(20)]);
}

/// Two joined inputs, auctions and persons (the rates of the paper's Nexmark query 3 on Flink), each with its own filter.
#[test]
fn two_inputs_add_up() {
    let graph = JobGraph::new(
        &["auctions", "persons", "filter", "join"],
        &[("auctions", "filter"), ("filter", "join"), ("persons", "join")],
    )
    .unwrap();
    let rates = [source(), source(), measured(125e3, &[1.0]), measured(20e3, &[0.2, 1.0])];
    let sizes = whole(&graph, &rates, &[arrives(500e3), arrives(100e3), None, None]);
    assert_eq!(sizes[2..], [Ok(4), Ok(10)]);
}

/// A router that sends 30 % one way and 70 % the other: one ratio for each edge, or both ways would be sized for everything.
#[test]
fn a_fan_out_is_not_counted_twice() {
    let graph = JobGraph::new(
        &["source", "router", "few", "many"],
        &[("source", "router"), ("router", "few"), ("router", "many")],
    )
    .unwrap();
    let rates = [source(), measured(500.0, &[1.0]), measured(100.0, &[0.3]), measured(100.0, &[0.7])];
    let sizes = whole(&graph, &rates, &[arrives(1000.0), None, None, None]);
    assert_eq!(sizes[1..], [Ok(2), Ok(3), Ok(7)]);
}

#[test]
fn a_vertex_that_cannot_be_measured_spoils_only_what_lies_downstream() {
    let graph = JobGraph::new(
        &["source", "parse", "idle", "enrich", "sink"],
        &[("source", "parse"), ("parse", "idle"), ("source", "enrich"), ("idle", "sink"), ("enrich", "sink")],
    )
    .unwrap();
    let idle = Measured { capacity_per_subtask: None, edge_ratios: vec![None] };
    let rates = [source(), measured(50.0, &[1.0]), idle, measured(25.0, &[1.0]), measured(100.0, &[1.0, 1.0])];
    let sizes = whole(&graph, &rates, &[arrives(100.0), None, None, None, None]);
    let expected =
        [Err(Because::IsSource), Ok(2), Err(Because::UnknownUpstream(1)), Ok(4), Err(Because::UnknownUpstream(1))];
    assert_eq!(sizes, expected);
}

#[test]
fn a_job_to_which_nothing_arrives_needs_one_subtask_each() {
    let unknown = Measured { capacity_per_subtask: None, edge_ratios: vec![None] };
    let sizes = whole(&chain(), &[source(), unknown.clone(), unknown], &[arrives(0.0), None, None]);
    assert_eq!(sizes[1..], [Ok(1), Ok(1)]);
}

/// (exact need, runs now) -> runs next, with a dead band of 3 %.
#[test]
fn the_dead_band() {
    let table = [
        ((9.14, 5), 10),           // growth goes all the way
        ((10.000_000_001, 1), 10), // rounding error does not cost a subtask
        ((5.1, 5), 5),             // 2 % over: no reason to grow
        ((5.2, 5), 6),             // 4 % over is
        ((4.9, 6), 6),             // at 5 it would have 2 % left: no reason to shrink
        ((4.8, 6), 5),             // 4 % left is one
        ((0.0, 4), 1),             // never to nothing
    ];
    for ((exact, current), expected) in table {
        assert_eq!(subtasks(exact, current, 0.03), expected, "{exact} at {current}");
    }
}

proptest! {
    /// If capacity is linear, the answer does not depend on where it was measured: applying it changes nothing more.
    #[test]
    fn settles_in_one_step(exact in 0.0..1e5f64, from in 1u32..100_000, tolerance in 0.0..0.2f64) {
        let first = subtasks(exact, from, tolerance);
        prop_assert_eq!(subtasks(exact, first, tolerance), first);
    }

    /// What it gives carries the load within the tolerance, and one subtask less would not when it grew.
    #[test]
    fn neither_starves_nor_wastes(exact in 0.01..1e5f64, from in 1u32..100_000, tolerance in 0.0..0.2f64) {
        let given = subtasks(exact, from, tolerance);
        prop_assert!(exact <= f64::from(given) * (1.0 + tolerance) * (1.0 + 1e-6));
        if given > from {
            prop_assert!(f64::from(given - 1) < exact);
        }
    }

    /// More load never means fewer subtasks.
    #[test]
    fn is_monotone_in_load(rate in 1.0..1e6f64, more in 1.0..10.0f64, capacity in 1.0..1e4f64, from in 1u32..1000) {
        let at = |load| {
            let rates = [source(), measured(capacity, &[1.0]), measured(capacity, &[3.0])];
            let exact = size(&chain(), &rates, &[arrives(load), None, None])[2].exact.clone().unwrap();
            subtasks(exact, from, 0.03)
        };
        prop_assert!(at(rate) <= at(rate * more));
    }

    /// A plan that names vertices in any order is sized alike.
    #[test]
    fn the_order_of_the_plan_does_not_matter(rate in 1.0..1e6f64, capacity in 1.0..1e4f64) {
        let turned = JobGraph::new(&["op2", "source", "op1"], &[("op1", "op2"), ("source", "op1")]).unwrap();
        let rates = [source(), measured(capacity, &[1.0]), measured(capacity, &[2.0])];
        prop_assert_eq!(whole(&turned, &rates, &[arrives(rate), None, None]), whole(&chain(), &rates, &[arrives(rate), None, None]));
    }
}
