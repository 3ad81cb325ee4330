//! What is right for a job, what becomes of it, and why.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::identity::{JobKey, RunId};
use crate::report::Report;

/// Version of the decision's layout.
pub const DECISION_SCHEMA: u32 = 1;

/// What is right for a job at one moment. *Hold* is a decision too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Version of this layout.
    pub schema: u32,
    /// See [`decision_id`].
    pub id: String,
    /// The job.
    pub job: JobKey,
    /// The run that was judged.
    pub run: RunId,
    /// Time of the record that it was decided on, in milliseconds since 1970.
    pub decided_at_ms: i64,
    /// Epoch of the analyzer that decided. Decisions of older epochs are refused.
    pub epoch: u64,
    /// Digest of the policy that it was decided under.
    pub policy: String,
    /// What is right.
    pub verdict: Verdict,
    /// What becomes of it.
    pub disposition: Disposition,
    /// Why.
    pub report: Report,
    /// The whole decision in one sentence that can be pasted into a chat.
    pub sentence: String,
}

/// What is right for a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Leave it as it is.
    Hold {
        /// A stable word, such as `right_size`.
        because: String,
    },
    /// Change the parallelism of vertices.
    Rescale(Plan),
    /// Something is wrong that more subtasks cannot mend.
    CannotHelp {
        /// A stable word, such as `source_not_sized`.
        cause: String,
    },
}

impl Verdict {
    /// A stable word for the verdict and its reason: a new row is written only when it changes.
    #[must_use]
    pub fn word(&self) -> String {
        match self {
            Self::Hold { because } => format!("hold: {because}"),
            Self::Rescale(plan) => format!("rescale: {}", plan.arrows()),
            Self::CannotHelp { cause } => format!("cannot help: {cause}"),
        }
    }

    /// The plan, if it is to rescale.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        if let Self::Rescale(plan) = self { Some(plan) } else { None }
    }
}

/// What a rescale changes, and the state that it was made for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Rises for each plan of a job, so that A → B → A are three plans.
    pub number: u64,
    /// The state of the job that it was made for. A plan whose parent is gone is refused.
    pub parent: Parent,
    /// Every vertex of the job, in topological order, with its size before and after.
    pub vertices: Vec<PlannedVertex>,
    /// Whether it grows a vertex, or only shrinks.
    pub direction: Direction,
    /// Whether fewer subtasks than needed were planned, for lack of slots.
    #[serde(default)]
    pub short_of_slots: bool,
    /// Expected length of the stop, in milliseconds.
    pub expected_stop_ms: i64,
    /// Records a second that all sources together read before.
    pub throughput_per_second: f64,
    /// Records that waited at the sources before, where known.
    pub backlog: Option<f64>,
}

/// The state of a job that a plan was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The run.
    pub run: RunId,
    /// Parallelism of every vertex, by vertex id.
    pub parallelism: BTreeMap<String, u32>,
    /// Digest of the requirements that the JobManager held, as the collector saw them; empty: none or unknown.
    #[serde(default)]
    pub requirements: String,
}

/// A vertex in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedVertex {
    /// Vertex id.
    pub id: String,
    /// Vertex name.
    pub name: String,
    /// Subtasks before.
    pub from: u32,
    /// Subtasks after.
    pub to: u32,
}

/// Whether a plan grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// At least one vertex grows.
    Grow,
    /// No vertex grows.
    Shrink,
}

impl Plan {
    /// The vertices that change, as `flatmap 1 -> 3, count 1 -> 5`.
    #[must_use]
    pub fn arrows(&self) -> String {
        let changed = self.vertices.iter().filter(|vertex| vertex.from != vertex.to);
        changed.map(|vertex| format!("{} {} -> {}", vertex.name, vertex.from, vertex.to)).collect::<Vec<_>>().join(", ")
    }

    /// Target parallelism by vertex id.
    #[must_use]
    pub fn target(&self) -> BTreeMap<String, u32> {
        self.vertices.iter().map(|vertex| (vertex.id.clone(), vertex.to)).collect()
    }
}

/// What becomes of a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "disposition", rename_all = "snake_case")]
pub enum Disposition {
    /// There is nothing to do.
    Nothing,
    /// It is carried out.
    Act,
    /// It is told, and left to people.
    Recommend,
    /// It is carried out once a person approves.
    AwaitsApproval,
    /// It would be right, but something stands against it for now.
    Withheld {
        /// The gate, a stable word.
        gate: String,
    },
}

impl fmt::Display for Disposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing to do"),
            Self::Act => f.write_str("acting"),
            Self::Recommend => f.write_str("recommended"),
            Self::AwaitsApproval => f.write_str("awaits approval"),
            Self::Withheld { gate } => write!(f, "withheld: {}", gate.replace('_', " ")),
        }
    }
}

/// The id of a decision: a digest of the job, its run, the log's incarnation, the position of the record that it was decided
/// on, and the policy. A replay gives the same id.
#[must_use]
pub fn decision_id(job: &JobKey, run: &RunId, incarnation: &str, position: u64, policy: &str) -> String {
    digest(&[&job.to_string(), &run.to_string(), incarnation, &position.to_string(), policy])
}

/// How old a command may be when it is started, in milliseconds: what it was computed from is outdated then.
pub const EXPIRES_AFTER_MS: i64 = 600_000;
/// How long a command waits for a person, in milliseconds. Its parent is checked again when it is started.
pub const APPROVAL_EXPIRES_AFTER_MS: i64 = 86_400_000;

/// The id of the command that carries a plan out: a digest of the job, the plan's number and its target.
#[must_use]
pub fn command_id(job: &JobKey, plan: &Plan) -> String {
    let target: Vec<String> = plan.target().iter().map(|(vertex, to)| format!("{vertex}={to}")).collect();
    digest(&[&job.to_string(), &plan.number.to_string(), &target.join(",")])
}

/// 128 bits over the parts, each closed by a byte that no part contains, as 32 hexadecimal digits.
fn digest(parts: &[&str]) -> String {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(part.as_bytes());
        bytes.push(0xff);
    }
    format!("{:032x}", xxh3_128(&bytes))
}
