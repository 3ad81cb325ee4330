//! Order and neighbourhood of a job's vertices.

use crate::spec::{JobSpec, SpecError, VertexKind};

/// Indices of a job's vertices and edges, and a topological order.
#[derive(Debug, Clone)]
pub(crate) struct Graph {
    /// Vertices so that every edge leads to a later one.
    pub(crate) order: Vec<usize>,
    /// Edges into each vertex.
    pub(crate) inputs: Vec<Vec<usize>>,
    /// Edges out of each vertex.
    pub(crate) outputs: Vec<Vec<usize>>,
    /// Both ends of each edge.
    pub(crate) ends: Vec<(usize, usize)>,
}

impl Graph {
    /// Resolves the names of the edges and sorts the vertices.
    pub(crate) fn new(job: &JobSpec) -> Result<Self, SpecError> {
        let refuse = |what: String| SpecError::Graph { job: job.name.clone(), what };
        let index = |name: &str| {
            let found = job.vertices.iter().position(|v| v.name == name);
            found.ok_or_else(|| refuse(format!("an edge names the vertex {name:?}, which it does not have")))
        };
        let count = job.vertices.len();
        let mut graph = Self {
            order: Vec::new(),
            inputs: vec![Vec::new(); count],
            outputs: vec![Vec::new(); count],
            ends: Vec::new(),
        };
        for (number, edge) in job.edges.iter().enumerate() {
            let (from, to) = (index(&edge.from)?, index(&edge.to)?);
            graph.outputs[from].push(number);
            graph.inputs[to].push(number);
            graph.ends.push((from, to));
        }
        for (number, vertex) in job.vertices.iter().enumerate() {
            let is_source = matches!(vertex.kind, VertexKind::Source(_));
            if is_source != graph.inputs[number].is_empty() {
                return Err(refuse(format!(
                    "{}: a source has no input, and an operator has at least one",
                    vertex.name
                )));
            }
        }
        graph.sort().map_err(|vertex| refuse(format!("a cycle leads through {}", job.vertices[vertex].name)))?;
        Ok(graph)
    }

    /// Fills the order; the first vertex that cannot be placed on a cycle.
    fn sort(&mut self) -> Result<(), usize> {
        let count = self.inputs.len();
        while self.order.len() < count {
            let placed = |vertex: &usize| self.order.contains(vertex);
            let ready =
                |vertex: &usize| !placed(vertex) && self.inputs[*vertex].iter().all(|&edge| placed(&self.ends[edge].0));
            match (0..count).find(ready) {
                Some(vertex) => self.order.push(vertex),
                None => return Err((0..count).find(|vertex| !placed(vertex)).unwrap_or(0)),
            }
        }
        Ok(())
    }
}
