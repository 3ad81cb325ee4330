//! What became of a command.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::identity::{JobKey, RunId};

/// What became of a command. It is written as a record on the job's partition, so that the analyzer's state knows of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The command, see [`crate::decision::command_id`].
    pub command: String,
    /// The decision that it came from; empty for a command that a person gave.
    #[serde(default)]
    pub decision: String,
    /// The job.
    pub job: JobKey,
    /// The run that it was for.
    pub run: RunId,
    /// When it came to this, in milliseconds since 1970.
    pub at_ms: i64,
    /// What it came to.
    pub result: OutcomeResult,
    /// Parallelism before, by vertex id.
    pub before: BTreeMap<String, u32>,
    /// Parallelism that was asked for, by vertex id.
    pub target: BTreeMap<String, u32>,
    /// Parallelism that runs now, by vertex id; empty when unknown.
    #[serde(default)]
    pub after: BTreeMap<String, u32>,
    /// How long the job did not run, in milliseconds, where it was seen.
    pub stop_ms: Option<i64>,
    /// How long the stop was expected to be, in milliseconds.
    pub expected_stop_ms: i64,
    /// Whether fewer subtasks than asked for could be placed.
    #[serde(default)]
    pub short_of_slots: bool,
    /// One sentence that can be pasted into a chat.
    pub sentence: String,
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum OutcomeResult {
    /// It is claimed and under way.
    Started,
    /// It awaits a person's approval.
    AwaitsApproval,
    /// The job runs at the target, and its throughput is what it was, or better.
    Verified,
    /// It did not work, and the last good state runs again.
    RolledBack {
        /// A stable word.
        why: String,
    },
    /// It did not work, and neither did going back: a person has to look.
    Failed {
        /// A stable word.
        why: String,
    },
    /// It was never started.
    Refused {
        /// A stable word, such as `parent_gone`.
        why: String,
    },
}

impl OutcomeResult {
    /// Whether nothing more will come of the command.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Started | Self::AwaitsApproval)
    }

    /// A stable word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::AwaitsApproval => "awaits_approval",
            Self::Verified => "verified",
            Self::RolledBack { .. } => "rolled_back",
            Self::Failed { .. } => "failed",
            Self::Refused { .. } => "refused",
        }
    }
}
