//! What flows along each edge. Flink counts records for each vertex, not for each edge.

use crate::graph::JobGraph;

/// Records (or records a second) along every edge: `result[v][i]` belongs to the edge from `graph.inputs(v)[i]` to `v`.
///
/// `taken_in[v]` and `handed_out[v]` are the totals of vertex `v` where known. In this order:
///
/// 1. an edge from a producer that feeds nobody else carries what the producer handed out. What its consumer took in differs by
///    what the buffers between the two gained or lost, which after a restart is a second's worth of records and more;
/// 2. a vertex with one input got all it took in from there;
/// 3. an edge carries what its consumer took in less what the consumer's other inputs handed out, if each of those feeds nobody
///    else;
/// 4. else all that the producer handed out, which is too much where it feeds several consumers different records.
///
/// `None` where none of these is known.
#[must_use]
pub fn edge_rates(graph: &JobGraph, taken_in: &[Option<f64>], handed_out: &[Option<f64>]) -> Vec<Vec<Option<f64>>> {
    let at = |values: &[Option<f64>], vertex: usize| values.get(vertex).copied().flatten();
    let edge = |vertex: usize, input: usize| {
        if let Some(own) = at(handed_out, input).filter(|_| graph.fan_out(input) == 1) {
            return Some(own);
        }
        let others = graph.inputs(vertex).iter().copied().filter(|&other| other != input);
        let from_elsewhere = others
            .map(|other| at(handed_out, other).filter(|_| graph.fan_out(other) == 1))
            .try_fold(0.0, |sum, rate| Some(sum + rate?));
        let rest = at(taken_in, vertex).zip(from_elsewhere).map(|(all, elsewhere)| (all - elsewhere).max(0.0));
        rest.or_else(|| at(handed_out, input))
    };
    (0..graph.len()).map(|vertex| graph.inputs(vertex).iter().map(|&input| edge(vertex, input)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_in_its_turn() {
        // a feeds x and y (fan-out, routed), b feeds y only.
        let graph = JobGraph::new(&["a", "b", "x", "y"], &[("a", "x"), ("a", "y"), ("b", "y")]).unwrap();
        let taken_in = [None, None, Some(30.0), Some(90.0)];
        let handed_out = [Some(100.0), Some(20.0), None, None];
        let rates = edge_rates(&graph, &taken_in, &handed_out);
        // Rule 1 for b, rule 2 for x, and rule 3 gives 90 - 20 to a.
        assert_eq!((&rates[2], &rates[3]), (&vec![Some(30.0)], &vec![Some(70.0), Some(20.0)]));
    }

    #[test]
    fn the_last_resort_is_the_producers_total() {
        let graph = JobGraph::new(&["a", "x", "y"], &[("a", "x"), ("a", "y")]).unwrap();
        let rates = edge_rates(&graph, &[None, None, None], &[Some(10.0), None, None]);
        assert_eq!(rates, [vec![], vec![Some(10.0)], vec![Some(10.0)]]);
        assert_eq!(edge_rates(&graph, &[], &[])[1], [None]);
    }
}
