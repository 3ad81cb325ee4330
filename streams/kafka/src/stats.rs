//! What the log did, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_streams::LogStats;

/// The counters behind a [`LogStats`]. What only the server knows stays zero there.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub records_appended: AtomicU64,
    pub bytes_appended: AtomicU64,
    pub records_read: AtomicU64,
    pub appends_refused: AtomicU64,
    pub appends_failed: AtomicU64,
    pub producers_rebuilt: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Counters {
    pub fn snapshot(&self) -> LogStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LogStats {
            records_appended: get(&self.records_appended),
            bytes_appended: get(&self.bytes_appended),
            records_read: get(&self.records_read),
            appends_refused: get(&self.appends_refused),
            appends_failed: get(&self.appends_failed),
            ..LogStats::default()
        }
    }
}
