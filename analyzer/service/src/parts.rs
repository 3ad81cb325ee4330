//! What the analyzer is put together from.

use std::sync::Arc;

use serde::Deserialize;
use weir_outbox::Logs;
use weir_runtime::{Clock, Pulse};
use weir_schemas::control::PolicyBook;
use weir_store::Store;

/// The analyzer's section of the configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Longest time between commits of state while nothing is to be told, in milliseconds.
    pub commit_every_ms: i64,
    /// How long to wait before looking again when nothing has come, in milliseconds.
    pub poll_ms: i64,
    /// Records that are read from a partition at once.
    pub batch_records: usize,
}

impl Options {
    /// Everything that is wrong with the options, one sentence each; empty when they are sound.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, value) in [("commit_every_ms", self.commit_every_ms), ("poll_ms", self.poll_ms)] {
            if value < 1 {
                found.push(format!("{name} = {value} must be at least 1"));
            }
        }
        if self.batch_records == 0 {
            found.push("batch_records = 0 must be at least 1".into());
        }
        found
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { commit_every_ms: 5_000, poll_ms: 100, batch_records: 256 }
    }
}

/// What the analyzer is put together from.
pub struct Parts {
    /// The control database.
    pub store: Store,
    /// The logs.
    pub logs: Logs,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Policies and modes of the configuration.
    pub book: PolicyBook,
    /// Names this process and no other, also none after a restart.
    pub owner: String,
    /// Tags that this instance carries.
    pub tags: Vec<String>,
    /// Where it says how it is.
    pub pulse: Pulse,
}
