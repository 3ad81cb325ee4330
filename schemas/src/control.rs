//! What people have said about a job: its mode, its policy, whether it is paused or everything frozen.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::policy::Policy;

/// How far Weir may go with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Watch and judge; recommend nothing.
    Observe,
    /// Say what would be done. New jobs start here.
    #[default]
    Recommend,
    /// Prepare actions that a person approves.
    Approve,
    /// Act.
    Auto,
}

/// Not a mode.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not a mode: use observe, recommend, approve or auto")]
pub struct ModeError(String);

impl Mode {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Recommend => "recommend",
            Self::Approve => "approve",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        [Self::Observe, Self::Recommend, Self::Approve, Self::Auto]
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| ModeError(text.into()))
    }
}

/// Everything that people have said which applies to one job, as it enters the metrics stream.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ControlState {
    /// How far Weir may go.
    pub mode: Mode,
    /// The job is paused: judged, never acted on.
    #[serde(default)]
    pub paused: bool,
    /// Everything is frozen: no job is acted on.
    #[serde(default)]
    pub frozen: bool,
    /// The job's policy.
    pub policy: Policy,
}
