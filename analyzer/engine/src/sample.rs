//! One round of a job, decoded from its parts: absolute counters, and the facts beside them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_schemas::identity::RunId;
use weir_schemas::records::{self, MetricBatch};
use weir_sizing::JobGraph;

/// One sampling round of one run, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The run.
    pub run: RunId,
    /// Facts beside the counters.
    pub facts: Facts,
    /// Vertices in topological order.
    pub vertices: Vec<VertexSample>,
    /// Edges, as indices into `vertices`: the inputs of each.
    pub inputs: Vec<Vec<usize>>,
}

/// What a round says of a job beside the counters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Facts {
    pub round: u64,
    pub session: String,
    pub fetched_at_ms: i64,
    pub monotonic_ms: i64,
    pub period_ms: i64,
    pub refresh_ms: i64,
    pub job_state: String,
    pub same_name: u32,
    pub checkpointing: bool,
    pub checkpoints_completed: u64,
    pub scheduler: String,
    pub rival: String,
    pub requirements: String,
    pub slots_total: u32,
    pub slots_free: u32,
    pub jobs_running: u32,
}

/// A vertex in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VertexSample {
    pub id: String,
    pub name: String,
    pub parallelism: u32,
    pub max_parallelism: u32,
    pub running: bool,
    pub is_source: bool,
    pub is_chained: bool,
    pub group: String,
    pub pending: Option<f64>,
    /// By index of the subtask.
    pub subtasks: BTreeMap<u32, Counters>,
}

/// Counters of one subtask since its attempt began.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Counters {
    pub attempt: u32,
    pub records_in: Option<f64>,
    pub records_out: Option<f64>,
    pub busy_ms: Option<f64>,
    pub idle_ms: Option<f64>,
    pub backpressured_ms: Option<f64>,
}

impl Sample {
    /// Puts the parts of a round together.
    ///
    /// # Errors
    /// Says why the parts are not a round that can be used: a graph that is none, a part without its head.
    pub fn from_parts(parts: &[MetricBatch]) -> Result<Self, String> {
        let head = parts.iter().find(|part| part.part == 0).ok_or("the first part of the round is missing")?;
        let vertices: Vec<&records::Vertex> = parts.iter().flat_map(|part| &part.vertices).collect();
        let ids: Vec<&str> = vertices.iter().map(|vertex| vertex.id.as_str()).collect();
        let edges: Vec<(&str, &str)> = head.edges.iter().map(|e| (e.from.as_str(), e.to.as_str())).collect();
        let graph = JobGraph::new(&ids, &edges).map_err(|why| why.to_string())?;
        let by_id: BTreeMap<&str, &records::Vertex> = ids.into_iter().zip(vertices).collect();
        let ordered = (0..graph.len()).filter_map(|index| by_id.get(graph.id(index)));
        Ok(Self {
            run: RunId { id: head.run_id.clone(), start_ms: head.run_start_ms },
            facts: Facts::of(head),
            vertices: ordered.map(|vertex| VertexSample::of(vertex)).collect(),
            inputs: (0..graph.len()).map(|index| graph.inputs(index).to_vec()).collect(),
        })
    }

    /// Whether every subtask of every vertex runs.
    pub fn all_running(&self) -> bool {
        self.facts.job_state == "RUNNING" && !self.vertices.is_empty() && self.vertices.iter().all(|v| v.running)
    }

    /// Whether `other` shows the same executions: same vertices, parallelism and attempts, so that counters can be subtracted.
    pub fn same_executions(&self, other: &Self) -> bool {
        let attempts = |vertex: &VertexSample| -> Vec<(u32, u32)> {
            vertex.subtasks.iter().map(|(index, counters)| (*index, counters.attempt)).collect()
        };
        self.run == other.run
            && self.vertices.len() == other.vertices.len()
            && self.vertices.iter().zip(&other.vertices).all(|(mine, theirs)| {
                mine.id == theirs.id && mine.parallelism == theirs.parallelism && attempts(mine) == attempts(theirs)
            })
    }

    /// Parallelism of every vertex, in order.
    pub fn parallelism(&self) -> Vec<u32> {
        self.vertices.iter().map(|vertex| vertex.parallelism).collect()
    }

    /// The graph of the vertices.
    pub fn graph(&self) -> Option<JobGraph> {
        let ids: Vec<&str> = self.vertices.iter().map(|vertex| vertex.id.as_str()).collect();
        let edges: Vec<(&str, &str)> = self
            .inputs
            .iter()
            .enumerate()
            .flat_map(|(to, inputs)| inputs.iter().map(move |&from| (from, to)))
            .filter_map(|(from, to)| Some((*ids.get(from)?, *ids.get(to)?)))
            .collect();
        JobGraph::new(&ids, &edges).ok()
    }
}

impl Facts {
    fn of(head: &MetricBatch) -> Self {
        let cluster = head.cluster.clone().unwrap_or_default();
        let checkpoints = head.checkpoints.unwrap_or_default();
        Self {
            round: head.round,
            session: head.session.clone(),
            fetched_at_ms: head.fetched_at_ms,
            monotonic_ms: head.monotonic_ms,
            period_ms: i64::from(head.period_ms),
            refresh_ms: i64::from(head.refresh_ms),
            job_state: head.job_state.clone(),
            same_name: head.same_name,
            checkpointing: checkpoints.enabled,
            checkpoints_completed: checkpoints.completed,
            scheduler: cluster.scheduler,
            rival: cluster.rival,
            requirements: cluster.requirements,
            slots_total: cluster.slots_total,
            slots_free: cluster.slots_free,
            jobs_running: cluster.jobs_running,
        }
    }
}

impl VertexSample {
    fn of(vertex: &records::Vertex) -> Self {
        let subtasks = vertex.subtasks.clone().unwrap_or_default();
        let count = subtasks.index.len();
        let running = subtasks.running.len() == count && subtasks.running.iter().all(|&running| running);
        Self {
            id: vertex.id.clone(),
            name: vertex.name.clone(),
            parallelism: vertex.parallelism,
            max_parallelism: vertex.max_parallelism,
            running: running && u32::try_from(count) == Ok(vertex.parallelism) && count > 0,
            is_source: vertex.is_source,
            is_chained: vertex.source_is_chained,
            group: vertex.slot_sharing_group.clone(),
            pending: vertex.pending_records.filter(|pending| pending.is_finite() && *pending >= 0.0),
            subtasks: columns(&subtasks, count),
        }
    }
}

/// Turns the columns into one entry for each subtask. Values that are no numbers, or negative, are unknown.
fn columns(subtasks: &records::Subtasks, count: usize) -> BTreeMap<u32, Counters> {
    let column = |column: &Option<records::Column>| {
        let values = column.as_ref().map_or_else(|| vec![None; count], |column| column.unpack(count));
        values.into_iter().map(|value| value.filter(|v| v.is_finite() && *v >= 0.0)).collect::<Vec<_>>()
    };
    let records_in = column(&subtasks.records_in);
    let records_out = column(&subtasks.records_out);
    let busy = column(&subtasks.busy_ms);
    let idle = column(&subtasks.idle_ms);
    let backpressured = column(&subtasks.backpressured_ms);
    let entry = |entry: usize, index: u32| {
        let attempt = subtasks.attempt.get(entry).copied().unwrap_or(0);
        let counters = Counters {
            attempt,
            records_in: records_in[entry],
            records_out: records_out[entry],
            busy_ms: busy[entry],
            idle_ms: idle[entry],
            backpressured_ms: backpressured[entry],
        };
        (index, counters)
    };
    subtasks.index.iter().enumerate().map(|(at, &index)| entry(at, index)).collect()
}
