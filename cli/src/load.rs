//! The load that a scenario offers, for telling when it changes.

use weir_simulator::{JobSpec, VertexKind};

/// Records a second that all sources of a job are offered at a second of the scenario.
#[must_use]
pub fn offered_per_second(job: &JobSpec, second: f64) -> f64 {
    let traces = job.vertices.iter().filter_map(|vertex| match &vertex.kind {
        VertexKind::Source(source) => Some(source.load.as_steps()),
        VertexKind::Operator => None,
    });
    traces.filter_map(|steps| steps.iter().rev().find(|(from, _)| *from <= second)).map(|(_, rate)| rate).sum()
}
