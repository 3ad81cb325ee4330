//! Flink's versions, and what of their behaviour differs.

use serde::{Deserialize, Serialize};

/// A version of Flink that the model can speak for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FlinkVersion {
    /// 1.18.1: first with resource requirements, no cool-down.
    #[serde(rename = "1.18.1")]
    V1_18,
    /// 1.20.3: scaling intervals.
    #[serde(rename = "1.20.3")]
    V1_20,
    /// 2.0.1: a rescale waits for a checkpoint.
    #[serde(rename = "2.0.1")]
    V2_0,
    /// 2.3.0: rescale history.
    #[serde(rename = "2.3.0")]
    V2_3,
}

impl FlinkVersion {
    /// All versions, oldest first.
    pub const ALL: [Self; 4] = [Self::V1_18, Self::V1_20, Self::V2_0, Self::V2_3];

    /// The version as Flink prints it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1_18 => "1.18.1",
            Self::V1_20 => "1.20.3",
            Self::V2_0 => "2.0.1",
            Self::V2_3 => "2.3.0",
        }
    }

    /// The version named `text`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }

    /// Whether a change of requirements waits for the next completed checkpoint.
    #[must_use]
    pub fn rescale_waits_for_checkpoint(self) -> bool {
        self >= Self::V2_0
    }

    /// Whether a cool-down follows each rescale (FLIP-322).
    #[must_use]
    pub fn has_cooldown(self) -> bool {
        self >= Self::V1_20
    }

    /// Whether the job has the metric `numRescales`.
    #[must_use]
    pub fn has_num_rescales(self) -> bool {
        self >= Self::V2_0
    }

    /// Whether an upper bound of -1 is accepted, after which the `JobManager` dies.
    pub(crate) fn dies_of_unset_upper_bound(self) -> bool {
        self >= Self::V2_3
    }
}

/// Who decides a job's parallelism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduler {
    /// `jobmanager.scheduler: adaptive`.
    Adaptive,
    /// The default scheduler: the graph's parallelism, and nothing else.
    Default,
    /// `scheduler-mode: reactive`: all slots.
    Reactive,
}
