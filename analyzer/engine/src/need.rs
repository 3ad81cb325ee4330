//! What every vertex needs, before limits.

use weir_schemas::policy::Policy;
use weir_schemas::report::{Sizing, VertexSizing};
use weir_sizing::{Because, JobGraph, Measured, SourceTarget, VertexSize, edge_rates, size, subtasks};

use crate::interval::Interval;
use crate::sample::Sample;
use crate::window::{CAPACITY_MS, Totals, Window};

/// A vertex that worked less than this share of the time tells nothing of its capacity.
const LEAST_BUSY: f64 = 0.01;
/// Nor does one that took in fewer records.
const LEAST_RECORDS: f64 = 20.0;

/// Sizes every vertex for the targets of the sources. `recent` is the window in which the load was measured, and says how busy
/// each vertex is now; capacities and ratios are measured over a longer time.
pub fn of_every_vertex(
    sample: &Sample,
    intervals: &[Interval],
    recent: &Window,
    targets: &[Option<SourceTarget>],
    running_since_ms: i64,
    policy: &Policy,
) -> Option<Sizing> {
    let graph = sample.graph()?;
    let newest_ms = intervals.last()?.to_ms;
    let late = || intervals.iter().filter(|interval| interval.from_ms >= newest_ms - CAPACITY_MS);
    let is_warm = |interval: &&Interval| {
        !interval.catching_up && interval.from_ms >= running_since_ms.saturating_add(policy.warm_up_ms)
    };
    // Ratios do not depend on warmth. They compare vertices, so that all of them have to be known over the same intervals.
    let everything = Interval::everything_told(late())?;
    let flows = Window::over(late().filter(|interval| interval.tells_as_much_as(&everything)))?;
    let works = |totals: &Totals| totals.records_in.is_some() && totals.busy_ms.is_some();
    let warm = Window::over_known(late().filter(is_warm), works).unwrap_or_default();
    let capacities: Vec<Option<f64>> = (0..graph.len()).map(|vertex| capacity(warm.get(vertex)?)).collect();
    let ratios = edge_ratios(&graph, &flows);
    let measured: Vec<Measured> = capacities
        .iter()
        .zip(ratios)
        .map(|(&capacity_per_subtask, edge_ratios)| Measured { capacity_per_subtask, edge_ratios })
        .collect();
    let sizes = size(&graph, &measured, targets);
    let vertices = sizes.iter().enumerate().map(|(index, size)| {
        let handed_out = flows.vertices[index].records_out;
        let taken_in = flows.vertices[index].records_in.filter(|taken_in| *taken_in > 0.0);
        VertexSizing {
            selectivity: handed_out.zip(taken_in).map(|(out, taken_in)| out / taken_in),
            busy: recent.share(index, |totals| totals.busy_ms),
            capacity_per_subtask: capacities[index],
            ..verdict_on(sample, index, size, policy)
        }
    });
    Some(Sizing { utilisation: policy.utilisation, vertices: vertices.collect() })
}

/// For each vertex and each of its inputs: records on the edge for each that the upstream vertex takes in. A source's arrivals are
/// counted as it hands them out.
fn edge_ratios(graph: &JobGraph, flows: &Window) -> Vec<Vec<Option<f64>>> {
    let taken_in: Vec<Option<f64>> = flows.vertices.iter().map(|totals| totals.records_in).collect();
    let handed_out: Vec<Option<f64>> = flows.vertices.iter().map(|totals| totals.records_out).collect();
    let edges = edge_rates(graph, &taken_in, &handed_out);
    let base = |vertex: usize| {
        let count = if graph.is_source(vertex) { handed_out[vertex].or(taken_in[vertex]) } else { taken_in[vertex] };
        count.filter(|count| *count > 0.0)
    };
    let of = |vertex: usize| {
        let edges = edges[vertex].iter().zip(graph.inputs(vertex));
        edges.map(|(edge, &input)| edge.zip(base(input)).map(|(edge, base)| edge / base)).collect()
    };
    (0..graph.len()).map(of).collect()
}

/// Records a second that one subtask can process: records in over busy time (equation 1), over all subtasks together, so that
/// each counts as much as it worked. Equation 5 takes the mean over subtasks instead, which is the same where they are alike, and
/// lets a nearly idle one with two records outweigh the rest where they are not.
fn capacity((totals, seconds): &(Totals, f64)) -> Option<f64> {
    let (records, busy_ms) = (totals.records_in?, totals.busy_ms?);
    let busy_share = totals.share(busy_ms, *seconds)?;
    (busy_share >= LEAST_BUSY && records >= LEAST_RECORDS).then(|| records / (busy_ms / 1000.0))
}

fn verdict_on(sample: &Sample, index: usize, size: &VertexSize, policy: &Policy) -> VertexSizing {
    let vertex = &sample.vertices[index];
    let held = match &size.exact {
        Ok(_) => None,
        Err(Because::IsSource) if vertex.is_chained => Some(
            "SourceNotSized: the source also processes, and how fast it could read is not measured yet".to_string(),
        ),
        Err(Because::IsSource) => Some("a source reads what arrives; it is not sized".into()),
        Err(Because::ArrivalUnknown) => Some("what arrives is not known".into()),
        Err(Because::NotMeasured) => Some("it did too little work to tell what it can do".into()),
        Err(Because::UnknownUpstream(input)) => {
            Some(format!("what {} sends is not known", sample.vertices.get(*input).map_or("its input", |v| &v.name)))
        }
    };
    let exact = size.exact.as_ref().ok().copied().filter(|exact| exact.is_finite());
    VertexSizing {
        vertex: vertex.id.clone(),
        name: vertex.name.clone(),
        current: vertex.parallelism,
        target_rate: size.target_rate,
        capacity_per_subtask: None,
        selectivity: None,
        busy: None,
        exact,
        needed: exact.map(|exact| subtasks(exact, vertex.parallelism, policy.tolerance)),
        held,
    }
}
