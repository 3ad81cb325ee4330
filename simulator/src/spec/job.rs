//! A job: its vertices, edges and sources.

use serde::{Deserialize, Serialize};

use super::LoadTrace;
use crate::rng::hex_id;

/// A job to be submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Flink's job id, 32 hex digits.
    pub id: String,
    /// Name of the job.
    pub name: String,
    /// When it is submitted, after the cluster's start.
    #[serde(default)]
    pub submit_after_ms: i64,
    /// `execution.checkpointing.interval`; none: no checkpoints.
    #[serde(default)]
    pub checkpoint_interval_ms: Option<i64>,
    /// Shortest time that a checkpoint takes, once its barriers have passed.
    #[serde(default = "default_checkpoint_ms")]
    pub checkpoint_ms: i64,
    /// Size of a completed checkpoint.
    #[serde(default)]
    pub state_bytes: u64,
    /// Vertices, in any order.
    pub vertices: Vec<VertexSpec>,
    /// Edges between vertices.
    #[serde(default)]
    pub edges: Vec<EdgeSpec>,
}

fn default_checkpoint_ms() -> i64 {
    40
}

impl JobSpec {
    /// A job without vertices; its id follows from its name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            id: hex_id(&format!("job {name}")),
            name: name.into(),
            submit_after_ms: 0,
            checkpoint_interval_ms: Some(10_000),
            checkpoint_ms: default_checkpoint_ms(),
            state_bytes: 20_000,
            vertices: Vec::new(),
            edges: Vec::new(),
        }
    }

    /// Adds a vertex.
    #[must_use]
    pub fn vertex(mut self, vertex: VertexSpec) -> Self {
        self.vertices.push(vertex);
        self
    }

    /// Adds an edge.
    #[must_use]
    pub fn edge(mut self, edge: EdgeSpec) -> Self {
        self.edges.push(edge);
        self
    }

    /// Sets the checkpoint interval.
    #[must_use]
    pub fn checkpoints_every_ms(mut self, interval_ms: i64) -> Self {
        self.checkpoint_interval_ms = Some(interval_ms);
        self
    }
}

/// A vertex: a chain of operators that Flink runs as one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VertexSpec {
    /// Flink's vertex id, 32 hex digits.
    pub id: String,
    /// Name, as in the plan.
    pub name: String,
    /// Source or operator.
    pub kind: VertexKind,
    /// Records a second that one subtask can take; none: free.
    #[serde(default)]
    pub capacity: Option<f64>,
    /// Records out for each record in.
    #[serde(default = "one")]
    pub selectivity: f64,
    /// The graph's own parallelism.
    #[serde(default = "one_subtask")]
    pub parallelism: u32,
    /// Max parallelism, which is also the number of key groups.
    #[serde(default = "default_max_parallelism")]
    pub max_parallelism: u32,
    /// Share of the time spent on records that Flink counts as busy; the rest shows as idle (asynchronous calls).
    #[serde(default = "one")]
    pub busy_share: f64,
    /// Records a second that an outside system takes from all subtasks together; waiting for it counts as busy.
    #[serde(default)]
    pub external_limit: Option<f64>,
    /// How long a fresh subtask is slower.
    #[serde(default)]
    pub warm_up_ms: i64,
    /// Share of the capacity at the start of the warm-up.
    #[serde(default = "one")]
    pub cold_share: f64,
    /// Bytes of one record that it emits.
    #[serde(default = "default_record_bytes")]
    pub record_bytes: u64,
}

fn one() -> f64 {
    1.0
}

fn one_subtask() -> u32 {
    1
}

fn default_max_parallelism() -> u32 {
    128
}

fn default_record_bytes() -> u64 {
    100
}

/// What feeds a vertex.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VertexKind {
    /// An outside system.
    Source(SourceSpec),
    /// Other vertices.
    Operator,
}

/// The outside system that a source reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// What Flink knows of it.
    pub kind: SourceKind,
    /// Splits (partitions); more subtasks than that are idle.
    pub splits: usize,
    /// Offered load.
    #[serde(default)]
    pub load: LoadTrace,
}

/// What Flink's metrics tell about a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// A queue with `pendingRecords`, as Kafka has.
    Queue,
    /// A queue without a lag metric.
    QueueWithoutLag,
    /// `DataGeneratorSource`: counts nothing in, and what is not taken in time was never there.
    Generator,
    /// A queue read by a `SourceFunction`: busy time is NaN.
    Legacy,
}

impl VertexSpec {
    /// A free operator; its id follows from its name.
    #[must_use]
    pub fn operator(name: &str) -> Self {
        Self {
            id: hex_id(name),
            name: name.into(),
            kind: VertexKind::Operator,
            capacity: None,
            selectivity: 1.0,
            parallelism: 1,
            max_parallelism: default_max_parallelism(),
            busy_share: 1.0,
            external_limit: None,
            warm_up_ms: 0,
            cold_share: 1.0,
            record_bytes: default_record_bytes(),
        }
    }

    /// A free source over a queue of `splits` splits with `pendingRecords`.
    #[must_use]
    pub fn source(name: &str, splits: usize, load: LoadTrace) -> Self {
        let kind = VertexKind::Source(SourceSpec { kind: SourceKind::Queue, splits, load });
        Self { kind, ..Self::operator(name) }
    }

    /// Sets what Flink knows of the source; operators stay as they are.
    #[must_use]
    pub fn source_kind(mut self, wanted: SourceKind) -> Self {
        if let VertexKind::Source(source) = &mut self.kind {
            source.kind = wanted;
        }
        self
    }

    /// Sets records a second of one subtask.
    #[must_use]
    pub fn capacity(mut self, records_per_second: f64) -> Self {
        self.capacity = Some(records_per_second);
        self
    }

    /// Sets records out for each record in.
    #[must_use]
    pub fn selectivity(mut self, ratio: f64) -> Self {
        self.selectivity = ratio;
        self
    }

    /// Sets the graph's own parallelism.
    #[must_use]
    pub fn parallelism(mut self, subtasks: u32) -> Self {
        self.parallelism = subtasks;
        self
    }

    /// Sets max parallelism.
    #[must_use]
    pub fn max_parallelism(mut self, key_groups: u32) -> Self {
        self.max_parallelism = key_groups;
        self
    }

    /// Sets the limit of an outside system.
    #[must_use]
    pub fn external_limit(mut self, records_per_second: f64) -> Self {
        self.external_limit = Some(records_per_second);
        self
    }
}

/// An edge between two vertices, named by their names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeSpec {
    /// Upstream vertex.
    pub from: String,
    /// Downstream vertex.
    pub to: String,
    /// How records are spread.
    pub ship: Ship,
    /// Share of the upstream vertex's output that takes this edge; all of it goes to each edge by default.
    #[serde(default = "one")]
    pub share: f64,
    /// Records that one channel holds.
    #[serde(default = "default_channel_records")]
    pub channel_records: u64,
    /// Records that each downstream subtask holds besides its channels.
    #[serde(default = "default_floating_records")]
    pub floating_records: u64,
}

fn default_channel_records() -> u64 {
    80
}

fn default_floating_records() -> u64 {
    320
}

/// How records are spread over downstream subtasks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ship {
    /// Subtask `i` to subtask `i`; spread evenly when the parallelisms differ.
    Forward,
    /// By key, over key groups.
    Hash {
        /// Share of the records that carry one single key, 0 without a hot key.
        hot_share: f64,
    },
    /// In turn.
    Rebalance,
}

impl EdgeSpec {
    /// An edge that carries all output.
    #[must_use]
    pub fn new(from: &str, to: &str, ship: Ship) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            ship,
            share: 1.0,
            channel_records: default_channel_records(),
            floating_records: default_floating_records(),
        }
    }

    /// An edge by key without a hot key.
    #[must_use]
    pub fn hash(from: &str, to: &str) -> Self {
        Self::new(from, to, Ship::Hash { hot_share: 0.0 })
    }

    /// An edge in turn.
    #[must_use]
    pub fn rebalance(from: &str, to: &str) -> Self {
        Self::new(from, to, Ship::Rebalance)
    }

    /// Sets the share of the output that takes this edge.
    #[must_use]
    pub fn share(mut self, share: f64) -> Self {
        self.share = share;
        self
    }

    /// Sets the buffers of one channel and of one subtask.
    #[must_use]
    pub fn buffers(mut self, channel_records: u64, floating_records: u64) -> Self {
        self.channel_records = channel_records;
        self.floating_records = floating_records;
        self
    }
}
