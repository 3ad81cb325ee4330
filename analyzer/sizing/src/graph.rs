//! The job graph: vertices in topological order, edges between them.

use std::collections::BTreeMap;

use thiserror::Error;

/// A job graph whose vertices are stored so that every edge leads to a later vertex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobGraph {
    ids: Vec<String>,
    inputs: Vec<Vec<usize>>,
}

/// Why a plan is not a job graph that can be sized.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum GraphError {
    /// An edge names a vertex that the plan does not list.
    #[error("edge {from} -> {to} names a vertex that is not in the plan")]
    UnknownVertex {
        /// Upstream end of the edge.
        from: String,
        /// Downstream end of the edge.
        to: String,
    },
    /// The plan has a cycle; iterations have no order in which rates could be propagated.
    #[error("the plan has a cycle through {0}; jobs with iterations are not sized")]
    Cycle(String),
    /// Two vertices share an id.
    #[error("vertex {0} is listed twice")]
    Duplicate(String),
}

impl JobGraph {
    /// Sorts `vertices` topologically along `edges` (upstream, downstream). Vertices that no edge orders keep their order.
    /// An edge that is listed twice counts once.
    ///
    /// # Errors
    /// Refuses unknown, repeated and cyclic vertices; see [`GraphError`].
    pub fn new(vertices: &[&str], edges: &[(&str, &str)]) -> Result<Self, GraphError> {
        let mut inputs_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for &vertex in vertices {
            if inputs_of.insert(vertex, Vec::new()).is_some() {
                return Err(GraphError::Duplicate(vertex.into()));
            }
        }
        for &(from, to) in edges {
            let unknown = || GraphError::UnknownVertex { from: from.into(), to: to.into() };
            if !inputs_of.contains_key(from) {
                return Err(unknown());
            }
            let inputs = inputs_of.get_mut(to).ok_or_else(unknown)?;
            if !inputs.contains(&from) {
                inputs.push(from);
            }
        }
        Self::in_topological_order(vertices, &inputs_of)
    }

    /// Takes, again and again, the first vertex in plan order whose inputs have all been taken.
    fn in_topological_order(vertices: &[&str], inputs_of: &BTreeMap<&str, Vec<&str>>) -> Result<Self, GraphError> {
        let mut waiting: Vec<&str> = vertices.to_vec();
        let mut position: BTreeMap<&str, usize> = BTreeMap::new();
        let mut graph = Self { ids: Vec::new(), inputs: Vec::new() };
        while let Some(&first) = waiting.first() {
            let ready = waiting.iter().position(|v| inputs_of[v].iter().all(|input| position.contains_key(input)));
            let vertex = waiting.remove(ready.ok_or_else(|| GraphError::Cycle(first.into()))?);
            position.insert(vertex, graph.ids.len());
            graph.ids.push(vertex.into());
            graph.inputs.push(inputs_of[vertex].iter().map(|input| position[input]).collect());
        }
        Ok(graph)
    }

    /// Number of vertices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether the graph has no vertex.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Id of vertex `index`.
    #[must_use]
    pub fn id(&self, index: usize) -> &str {
        &self.ids[index]
    }

    /// Vertices that feed vertex `index`; each is smaller than `index`.
    #[must_use]
    pub fn inputs(&self, index: usize) -> &[usize] {
        &self.inputs[index]
    }

    /// How many vertices vertex `index` feeds.
    #[must_use]
    pub fn fan_out(&self, index: usize) -> usize {
        self.inputs.iter().filter(|inputs| inputs.contains(&index)).count()
    }

    /// Whether vertex `index` has no input.
    #[must_use]
    pub fn is_source(&self, index: usize) -> bool {
        self.inputs[index].is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertices_come_after_their_inputs_whatever_the_plan_order() {
        let graph = JobGraph::new(&["sink", "map", "source"], &[("source", "map"), ("map", "sink")]).unwrap();
        let order: Vec<&str> = (0..graph.len()).map(|index| graph.id(index)).collect();
        assert_eq!(order, ["source", "map", "sink"]);
        assert_eq!((graph.inputs(2), graph.fan_out(0), graph.fan_out(2)), (&[1][..], 1, 0));
    }

    #[test]
    fn a_cycle_is_refused_by_name() {
        let cyclic = JobGraph::new(&["source", "a", "b"], &[("source", "a"), ("a", "b"), ("b", "a")]);
        assert_eq!(cyclic, Err(GraphError::Cycle("a".into())));
    }

    #[test]
    fn an_edge_to_nowhere_and_a_vertex_listed_twice_are_refused() {
        let dangling = JobGraph::new(&["source"], &[("source", "map")]);
        assert_eq!(dangling, Err(GraphError::UnknownVertex { from: "source".into(), to: "map".into() }));
        assert_eq!(JobGraph::new(&["a", "a"], &[]), Err(GraphError::Duplicate("a".into())));
    }

    #[test]
    fn parallel_edges_between_two_vertices_are_one() {
        let graph = JobGraph::new(&["a", "b"], &[("a", "b"), ("a", "b")]).unwrap();
        assert_eq!(graph.inputs(1), [0]);
    }
}
