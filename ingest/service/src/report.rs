//! What a round did.

use std::collections::BTreeMap;

/// What a round did, for logs and tests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoundReport {
    /// Its number.
    pub round: u64,
    /// Jobs that are watched after it.
    pub watched: usize,
    /// Jobs that were due.
    pub due: usize,
    /// Jobs of which a batch was made.
    pub read: usize,
    /// Readings that were not used, or that failed.
    pub refused: Vec<Refusal>,
    /// Records that say that nothing came.
    pub silences: usize,
    /// Calls about the cluster.
    pub cluster_calls: u32,
    /// Calls about each job, by its key; those of a reading that did not end in time are not among them.
    pub job_calls: BTreeMap<String, u32>,
    /// Records that the sink took.
    pub written: usize,
    /// Records that were given up since the start, because the sink did not take them.
    pub dropped: u64,
    /// Why the cluster itself could not be read.
    pub failure: Option<String>,
    /// Time from the beginning of this round to the next one, in milliseconds.
    pub next_ms: i64,
}

/// A reading that was not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The job's key.
    pub job: String,
    /// A stable word: gone, unreachable, undecodable, timeout, mixed.
    pub reason: &'static str,
    /// One sentence.
    pub detail: String,
}
