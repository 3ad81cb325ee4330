//! How many subtasks each vertex needs, computed for the whole graph in one step.
//!
//! The way through the crate is the way of the data:
//!
//! 1. [`JobGraph`]: the job graph, checked and in topological order;
//! 2. [`edge_rates`]: what flows along each edge, which Flink does not count;
//! 3. [`needed_rate`]: what a source has to be sized for, backlog and stops included;
//! 4. [`size`]: one pass from the sources to the sinks gives each vertex its target rate and its subtasks
//!    (DS2, equations 7 and 8).
//!
//! DS2 is Kalavri et al., *Three steps is all you need*, OSDI 2018; equation numbers are that paper's.
//!
//! Everything here is a function of its arguments. There is no clock, no I/O and no state.

mod demand;
mod edges;
mod graph;
mod size;

pub use demand::{Basis, Needed, needed_rate};
pub use edges::edge_rates;
pub use graph::{GraphError, JobGraph};
pub use size::{Because, Measured, SourceTarget, VertexSize, size, subtasks};
