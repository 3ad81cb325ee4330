//! What a log did, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a log did since it was opened by this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogStats {
    /// Records that were acknowledged.
    pub records_appended: u64,
    /// Bytes that were acknowledged, the log's own overhead included.
    pub bytes_appended: u64,
    /// Times that data was forced to the storage. Fewer than appends when these are committed in groups.
    pub syncs: u64,
    /// Records handed to readers.
    pub records_read: u64,
    /// Bytes cut off because a write had not been finished when the process or the machine went down.
    pub torn_bytes: u64,
    /// Bytes that could not be read because the stored data is damaged.
    pub corrupt_bytes: u64,
    /// Appends refused before anything was written: too large, wrong partition, log closed or stopped.
    pub appends_refused: u64,
    /// Appends that failed in the storage.
    pub appends_failed: u64,
    /// Times that a server did not acknowledge an append in time. Each has failed one append or several.
    pub acknowledgements_timed_out: u64,
    /// Bytes given back by truncation and retention.
    pub bytes_removed: u64,
    /// Times that what appends to a server had failed for good and was made anew.
    pub writers_recreated: u64,
    /// Times that what reads from a server had failed for good and was made anew.
    pub readers_recreated: u64,
    /// Panics of a server's client that ended a call, a writer or a reader, and nothing else.
    pub panics_contained: u64,
}

/// The counters behind a [`LogStats`], for whoever writes a log.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "they are explained at `LogStats`")]
pub struct Counters {
    pub records_appended: AtomicU64,
    pub bytes_appended: AtomicU64,
    pub syncs: AtomicU64,
    pub records_read: AtomicU64,
    pub torn_bytes: AtomicU64,
    pub corrupt_bytes: AtomicU64,
    pub appends_refused: AtomicU64,
    pub appends_failed: AtomicU64,
    pub acknowledgements_timed_out: AtomicU64,
    pub bytes_removed: AtomicU64,
    pub writers_recreated: AtomicU64,
    pub readers_recreated: AtomicU64,
    pub panics_contained: AtomicU64,
}

impl Counters {
    /// Counts.
    pub fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    /// What was counted until now.
    #[must_use]
    pub fn snapshot(&self) -> LogStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LogStats {
            records_appended: get(&self.records_appended),
            bytes_appended: get(&self.bytes_appended),
            syncs: get(&self.syncs),
            records_read: get(&self.records_read),
            torn_bytes: get(&self.torn_bytes),
            corrupt_bytes: get(&self.corrupt_bytes),
            appends_refused: get(&self.appends_refused),
            appends_failed: get(&self.appends_failed),
            acknowledgements_timed_out: get(&self.acknowledgements_timed_out),
            bytes_removed: get(&self.bytes_removed),
            writers_recreated: get(&self.writers_recreated),
            readers_recreated: get(&self.readers_recreated),
            panics_contained: get(&self.panics_contained),
        }
    }
}
