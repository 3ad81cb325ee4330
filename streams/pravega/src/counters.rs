//! What a log on Pravega did, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_streams::LogStats;

/// What the client of Pravega had to be helped with since the log was opened. All of it is to be zero on a good day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientStats {
    /// Writers that were made anew after a failure.
    pub writers_recreated: u64,
    /// Readers that were made anew after a failure.
    pub readers_recreated: u64,
    /// Panics of the client that ended a call, a writer or a reader, and nothing else.
    pub panics_contained: u64,
    /// Bytes that readers found truncated before they had read them.
    pub gap_bytes: u64,
    /// Appends that were not acknowledged in time.
    pub acknowledgements_timed_out: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub records_appended: AtomicU64,
    pub bytes_appended: AtomicU64,
    pub records_read: AtomicU64,
    pub corrupt_bytes: AtomicU64,
    pub appends_refused: AtomicU64,
    pub appends_failed: AtomicU64,
    pub bytes_removed: AtomicU64,
    pub writers_recreated: AtomicU64,
    pub readers_recreated: AtomicU64,
    pub panics_contained: AtomicU64,
    pub gap_bytes: AtomicU64,
    pub acknowledgements_timed_out: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    pub fn log(&self) -> LogStats {
        LogStats {
            records_appended: get(&self.records_appended),
            bytes_appended: get(&self.bytes_appended),
            records_read: get(&self.records_read),
            corrupt_bytes: get(&self.corrupt_bytes),
            appends_refused: get(&self.appends_refused),
            appends_failed: get(&self.appends_failed),
            bytes_removed: get(&self.bytes_removed),
            ..LogStats::default()
        }
    }

    pub fn client(&self) -> ClientStats {
        ClientStats {
            writers_recreated: get(&self.writers_recreated),
            readers_recreated: get(&self.readers_recreated),
            panics_contained: get(&self.panics_contained),
            gap_bytes: get(&self.gap_bytes),
            acknowledgements_timed_out: get(&self.acknowledgements_timed_out),
        }
    }
}
