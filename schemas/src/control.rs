//! What people have said about a job: its mode, its policy, whether it is paused or everything frozen.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::identity::JobKey;
use crate::policy::{Policy, fits};

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

/// Which policy, and which mode to begin with, a job has: what the configuration says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicyBook {
    /// For jobs that no entry fits.
    pub default: PolicyEntry,
    /// Entries in the order of the configuration; the first that fits counts.
    pub entries: Vec<PolicyEntry>,
}

/// The policy of the jobs that fit a pattern.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicyEntry {
    /// Pattern over the job's key (`cluster/namespace/name`) or its name alone; `*` stands for any text.
    pub jobs: String,
    /// Mode that these jobs begin in; what people say of a job later counts more.
    pub mode: Mode,
    /// Their policy.
    pub policy: Policy,
    /// Tags of the instances that should work for these jobs.
    pub tags: BTreeSet<String>,
}

impl PolicyBook {
    /// The entry for a job.
    #[must_use]
    pub fn entry(&self, job: &JobKey) -> &PolicyEntry {
        let key = job.to_string();
        let fit = |entry: &&PolicyEntry| fits(&entry.jobs, &key) || fits(&entry.jobs, &job.name);
        self.entries.iter().find(fit).unwrap_or(&self.default)
    }

    /// Whether any job asks for tags.
    #[must_use]
    pub fn asks_for_tags(&self) -> bool {
        self.entries.iter().chain([&self.default]).any(|entry| !entry.tags.is_empty())
    }

    /// What applies to a job: what people have said of it, over what the configuration says.
    #[must_use]
    pub fn control(&self, job: &JobKey, said_mode: Option<Mode>, paused: bool, frozen: bool) -> ControlState {
        let entry = self.entry(job);
        ControlState { mode: said_mode.unwrap_or(entry.mode), paused, frozen, policy: entry.policy.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_that_fits_counts_and_people_count_more() {
        let entry = |jobs: &str, mode| PolicyEntry {
            jobs: jobs.into(),
            mode,
            policy: Policy::default(),
            tags: BTreeSet::new(),
        };
        let book = PolicyBook {
            default: PolicyEntry::default(),
            entries: vec![entry("prod/*", Mode::Approve), entry("orders*", Mode::Auto)],
        };
        let mode = |cluster, name| book.entry(&JobKey::new(cluster, name)).mode;
        assert_eq!(mode("prod", "orders"), Mode::Approve);
        assert_eq!(mode("test", "orders-eu"), Mode::Auto);
        assert_eq!(mode("test", "clicks"), Mode::Recommend);
        let said = book.control(&JobKey::new("prod", "orders"), Some(Mode::Observe), true, false);
        assert_eq!((said.mode, said.paused), (Mode::Observe, true));
    }
}
