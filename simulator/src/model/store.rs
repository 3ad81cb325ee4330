//! The REST server's metric store and its lazy fetcher.
//!
//! A call starts a fetch only if the last one began longer than the refresh interval ago, and is answered from what the store
//! held before. So the first answer after a quiet time is as old as that time.

use std::collections::BTreeMap;

use super::job::Sample;

/// What the store holds of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobMetrics {
    /// Subtasks of each vertex, in the order of the specification.
    pub(crate) vertices: Vec<Vec<Sample>>,
    /// Metrics of the job itself: name and value.
    pub(crate) job: BTreeMap<&'static str, String>,
}

/// What the store holds: everything as of the last fetch that arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) jobs: BTreeMap<String, JobMetrics>,
    pub(crate) task_managers: BTreeMap<String, BTreeMap<&'static str, String>>,
    pub(crate) job_manager: BTreeMap<&'static str, String>,
}

/// The store and its fetcher.
#[derive(Debug, Clone, Default)]
pub(crate) struct MetricStore {
    pub(crate) snapshot: Snapshot,
    started_ms: Option<i64>,
    arrives_ms: Option<i64>,
}

impl MetricStore {
    /// A call that reads metrics came at `now_ms`: starts a fetch if it is time for one.
    pub(crate) fn prime(&mut self, now_ms: i64, refresh_ms: i64, fetch_ms: i64) {
        let due = self.started_ms.is_none_or(|started| now_ms - started > refresh_ms);
        if due && self.arrives_ms.is_none() {
            self.started_ms = Some(now_ms);
            self.arrives_ms = Some(now_ms + fetch_ms);
        }
    }

    /// Whether a fetch arrives at `now_ms`; the caller then fills the snapshot.
    pub(crate) fn arrives(&mut self, now_ms: i64) -> bool {
        let arrived = self.arrives_ms.is_some_and(|at| at <= now_ms);
        if arrived {
            self.arrives_ms = None;
        }
        arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_begins_only_when_the_last_is_older_than_the_interval() {
        let mut store = MetricStore::default();
        store.prime(1_000, 10_000, 80);
        assert!(!store.arrives(1_060));
        assert!(store.arrives(1_080));
        store.prime(11_000, 10_000, 80);
        assert!(!store.arrives(20_000), "exactly the interval is not yet older than it");
        store.prime(11_001, 10_000, 80);
        assert!(store.arrives(11_081));
    }
}
