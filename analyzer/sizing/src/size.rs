//! One pass over the graph: target rates and subtasks, with their reasons.

use crate::graph::JobGraph;

/// Relative slack under which a ratio counts as the whole number that it was meant to be.
const ROUNDING: f64 = 1e-9;

/// What was measured of a vertex.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Records a second that one subtask can process (equation 5 divided by the parallelism).
    pub capacity_per_subtask: Option<f64>,
    /// For each input of the vertex, in the graph's order: records on that edge for each record that the upstream vertex takes
    /// in, or, if that is a source, for each record that arrives (equations 6 over 5, kept apart for each edge).
    pub edge_ratios: Vec<Option<f64>>,
}

/// What a source has to put through.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SourceTarget {
    /// Records a second that arrive.
    pub arrival: f64,
    /// Records a second that there must be capacity for; see [`crate::needed_rate`].
    pub needed: f64,
}

/// The answer for one vertex and everything it rests on.
#[must_use]
#[derive(Debug, Clone, PartialEq)]
pub struct VertexSize {
    /// Subtasks that it needs, as a fraction before the ceiling, or why that cannot be said.
    pub exact: Result<f64, Because>,
    /// Records a second that will arrive once everything upstream is sized right (the sum in equation 7, at the arrival rate).
    pub target_rate: Option<f64>,
}

/// Why nothing can be said of a vertex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Because {
    /// Sources are not sized by the model: their rate is its input.
    IsSource,
    /// What arrives at this source is not known.
    ArrivalUnknown,
    /// It did no work in this window, so that its capacity is not known.
    NotMeasured,
    /// What the vertex of this index sends here is not known.
    UnknownUpstream(usize),
}

/// Sizes every vertex of `graph` in one pass (equations 7 and 8, with a ratio for each edge in place of one selectivity for
/// each vertex, so that a fan-out is not counted twice).
///
/// `sources[v]` is the target of source `v`, and is ignored for other vertices. A vertex that was not measured spoils only what
/// lies downstream of it. The ceiling is not applied here, see [`subtasks`].
pub fn size(graph: &JobGraph, measured: &[Measured], sources: &[Option<SourceTarget>]) -> Vec<VertexSize> {
    let mut arriving: Vec<Result<SourceTarget, Because>> = Vec::with_capacity(graph.len());
    for vertex in 0..graph.len() {
        arriving.push(if graph.is_source(vertex) {
            sources.get(vertex).copied().flatten().ok_or(Because::ArrivalUnknown)
        } else {
            sum_of_inputs(graph, measured, &arriving, vertex)
        });
    }
    let capacity = |vertex: usize| measured.get(vertex).and_then(|it: &Measured| it.capacity_per_subtask);
    arriving
        .into_iter()
        .enumerate()
        .map(|(vertex, arriving)| VertexSize {
            target_rate: arriving.as_ref().ok().map(|target| target.arrival),
            exact: arriving.and_then(|target| match capacity(vertex) {
                _ if graph.is_source(vertex) => Err(Because::IsSource),
                Some(capacity) if capacity > 0.0 => Ok(target.needed / capacity),
                // Nothing will arrive: one subtask does it, whatever its capacity.
                _ if target.needed <= 0.0 => Ok(0.0),
                _ => Err(Because::NotMeasured),
            }),
        })
        .collect()
}

/// Target input of a vertex: what each upstream vertex takes in, times the ratio of the edge, added.
fn sum_of_inputs(
    graph: &JobGraph,
    measured: &[Measured],
    arriving: &[Result<SourceTarget, Because>],
    vertex: usize,
) -> Result<SourceTarget, Because> {
    let mut sum = SourceTarget { arrival: 0.0, needed: 0.0 };
    for (edge, &input) in graph.inputs(vertex).iter().enumerate() {
        let upstream = arriving[input].clone().map_err(|because| match because {
            Because::UnknownUpstream(origin) => Because::UnknownUpstream(origin),
            _ => Because::UnknownUpstream(input),
        })?;
        let ratio = measured.get(vertex).and_then(|it| it.edge_ratios.get(edge).copied().flatten());
        let ratio = match ratio {
            Some(ratio) => ratio,
            None if upstream.needed <= 0.0 => 0.0,
            None => return Err(Because::UnknownUpstream(input)),
        };
        sum.arrival += upstream.arrival * ratio;
        sum.needed += upstream.needed * ratio;
    }
    Ok(sum)
}

/// Whole subtasks for an exact need (the ceiling in equation 7), at least one, with a dead band around what runs now.
///
/// A need of less than `tolerance` over `current` is no reason to grow, and one that would leave less than `tolerance` is no
/// reason to shrink: without the band a load near a whole number would cost a restart at each breath. A ratio within rounding
/// error of a whole number is that number.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range of u32 first")]
pub fn subtasks(exact: f64, current: u32, tolerance: f64) -> u32 {
    let whole = |need: f64| (need * (1.0 - ROUNDING)).ceil().clamp(1.0, f64::from(u32::MAX)) as u32;
    let needed = whole(exact);
    if needed > current {
        if exact <= f64::from(current) * (1.0 + tolerance) { current } else { needed }
    } else {
        whole(exact * (1.0 + tolerance)).min(current)
    }
}
