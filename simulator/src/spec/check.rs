//! What makes a specification impossible to simulate.

use std::collections::BTreeSet;

use thiserror::Error;

use super::{ClusterSpec, JobSpec, VertexKind, VertexSpec};

/// Why a specification cannot be simulated.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SpecError {
    /// The step or a size of the cluster is out of range.
    #[error("cluster: {0}")]
    Cluster(&'static str),
    /// An id is not what Flink's REST API takes.
    #[error("job {job}: the id {id:?} must be 32 lower-case hex digits; see weir_simulator::hex_id")]
    Id {
        /// Name of the job.
        job: String,
        /// The id in question.
        id: String,
    },
    /// Two jobs or two vertices share an id or a name.
    #[error("job {job}: {what} is listed twice")]
    Duplicate {
        /// Name of the job.
        job: String,
        /// What is repeated.
        what: String,
    },
    /// An edge names a vertex that the job does not have, or the edges make a cycle.
    #[error("job {job}: {what}")]
    Graph {
        /// Name of the job.
        job: String,
        /// What is wrong.
        what: String,
    },
    /// A number of a vertex is out of range.
    #[error("job {job}, vertex {vertex}: {what}")]
    Vertex {
        /// Name of the job.
        job: String,
        /// Name of the vertex.
        vertex: String,
        /// What is wrong.
        what: &'static str,
    },
}

pub(crate) fn check_cluster(spec: &ClusterSpec) -> Result<(), SpecError> {
    if !(1..=1_000).contains(&spec.step_ms) {
        return Err(SpecError::Cluster("step_ms must lie between 1 and 1000"));
    }
    if spec.slots_per_task_manager == 0 {
        return Err(SpecError::Cluster("slots_per_task_manager must be at least 1"));
    }
    let mut ids = BTreeSet::new();
    for job in &spec.jobs {
        if !ids.insert(&job.id) {
            return Err(SpecError::Duplicate { job: job.name.clone(), what: format!("job id {}", job.id) });
        }
        check_job(job)?;
    }
    Ok(())
}

pub(crate) fn check_job(job: &JobSpec) -> Result<(), SpecError> {
    let mut seen = BTreeSet::new();
    for id in std::iter::once(&job.id).chain(job.vertices.iter().map(|v| &v.id)) {
        if id.len() != 32 || !id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return Err(SpecError::Id { job: job.name.clone(), id: id.clone() });
        }
    }
    for vertex in &job.vertices {
        if !seen.insert(&vertex.id) || !seen.insert(&vertex.name) {
            return Err(SpecError::Duplicate { job: job.name.clone(), what: format!("vertex {}", vertex.name) });
        }
        check_vertex(vertex).map_err(|what| SpecError::Vertex {
            job: job.name.clone(),
            vertex: vertex.name.clone(),
            what,
        })?;
    }
    if job.vertices.is_empty() {
        return Err(SpecError::Graph { job: job.name.clone(), what: "it has no vertex".into() });
    }
    crate::model::Graph::new(job).map(|_| ())
}

fn check_vertex(vertex: &VertexSpec) -> Result<(), &'static str> {
    let positive = |number: Option<f64>| number.is_none_or(|n| n.is_finite() && n > 0.0);
    let share = |number: f64| number > 0.0 && number <= 1.0;
    if !positive(vertex.capacity) || !positive(vertex.external_limit) {
        return Err("capacity and external_limit must be positive numbers, or absent for no limit");
    }
    if !vertex.selectivity.is_finite() || vertex.selectivity < 0.0 {
        return Err("selectivity must be a number from 0");
    }
    if !share(vertex.busy_share) || !share(vertex.cold_share) {
        return Err("busy_share and cold_share must lie above 0, and be at most 1");
    }
    if vertex.parallelism == 0 || vertex.parallelism > vertex.max_parallelism {
        return Err("parallelism must lie between 1 and max_parallelism");
    }
    match &vertex.kind {
        VertexKind::Source(source) if source.splits == 0 => Err("a source needs at least one split"),
        _ => Ok(()),
    }
}
