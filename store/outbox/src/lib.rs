//! Publishes what a commit left in the outbox: in order, at least once, each row recognisable when it comes twice.
//!
//! A commit writes what follows from it into the outbox, in its own transaction. [`Publisher::publish`] appends the rows to their
//! logs and removes them after the append was acknowledged. A crash in between appends a row again; readers recognise it by the
//! producer (the outbox's owner) and the sequence (the row's), or by the id of its event.
//!
//! [`Logs`] are the two logs of an installation; [`after_gap`] says where reading them goes on when something is missing.

mod gap;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use metrics::{Gauge, counter, gauge};
use thiserror::Error;
use tracing::error;
use weir_runtime::{Clock, telemetry};
use weir_schemas::records::Record;
use weir_schemas::records::record::Body;
use weir_schemas::wire::{self, WireError};
use weir_store::{OutboxRow, OutboxWrite, Store, StoreError};
use weir_streams::{Log, LogError, LogWriter, partition_of};

pub use gap::after_gap;

/// Name of the log that carries what the analyzer's state depends on.
pub const METRICS: &str = "metrics";
/// Name of the log that carries what is published: decisions and outcomes, as CloudEvents.
pub const EVENTS: &str = "events";
/// Rows that are read from the outbox at once.
const AT_ONCE: u32 = 256;

/// The logs of an installation.
#[derive(Clone)]
pub struct Logs {
    /// What the analyzer's state depends on.
    pub metrics: Arc<dyn Log>,
    /// What is published.
    pub events: Arc<dyn Log>,
}

impl Logs {
    /// A row for the log of events. `event` is a CloudEvent as JSON.
    #[must_use]
    pub fn event(&self, owner: &str, job: &str, event: Vec<u8>) -> OutboxWrite {
        let partition = partition_of(job, self.events.info().partitions);
        OutboxWrite { owner: owner.into(), log: EVENTS.into(), partition, key: job.into(), payload: event }
    }

    /// A row for the log of metrics that tells the analyzer of an outcome. `outcome` is an outcome as JSON.
    #[must_use]
    pub fn outcome(&self, owner: &str, job: &str, outcome: Vec<u8>) -> OutboxWrite {
        let partition = partition_of(job, self.metrics.info().partitions);
        OutboxWrite { owner: owner.into(), log: METRICS.into(), partition, key: job.into(), payload: outcome }
    }
}

/// Why something was not published. It stays in the outbox.
#[derive(Debug, Error)]
pub enum PublishError {
    /// The outbox cannot be read or cleared.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A log does not take the row.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The row cannot be written as a record.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Publishes the rows of one owner.
pub struct Publisher {
    store: Store,
    owner: String,
    logs: Logs,
    writers: BTreeMap<(String, u32), Box<dyn LogWriter>>,
}

/// A row, and what is to be appended for it.
struct Waiting<'a> {
    row: &'a OutboxRow,
    bytes: Vec<u8>,
}

impl PublishError {
    /// Whether the log has to be opened again.
    #[must_use]
    pub fn needs_reopening(&self) -> bool {
        matches!(self, Self::Log(why) if why.needs_reopening())
    }
}

/// A row that its log will never take.
struct Refused<'a> {
    row: &'a OutboxRow,
    bytes: usize,
    limit: u64,
    code: &'static str,
}

impl Refused<'_> {
    fn tell(&self) {
        let Self { row, bytes, limit, code } = self;
        error!(job = row.key, log = row.log, bytes, limit, code, "too large to be published; only the database has it");
        counter!(telemetry::OUTBOX_REFUSED, "log" => row.log.clone()).increment(1);
    }
}

impl Publisher {
    /// Publishes what `owner` leaves in the outbox of `store`.
    #[must_use]
    pub fn new(store: Store, owner: impl Into<String>, logs: Logs) -> Self {
        Self { store, owner: owner.into(), logs, writers: BTreeMap::new() }
    }

    /// Publishes everything that waits, and says how much it was. Begins nothing after `until_ms` of the monotonic clock: whoever
    /// has stalled past its lease must not publish what another publishes now.
    ///
    /// # Errors
    /// The first failure; what waits is tried again by the next call.
    pub async fn publish(&mut self, clock: &dyn Clock, until_ms: i64) -> Result<u64, PublishError> {
        let now_ms = clock.now_ms();
        let (mut done, mut counted) = (0, None);
        loop {
            let rows = self.store.outbox(&self.owner, AT_ONCE).await?;
            let read = u64::try_from(rows.len()).unwrap_or(u64::MAX);
            if read >= u64::from(AT_ONCE) && counted.is_none() {
                // There may be many more. They are counted once: it takes longer the more there are.
                counted = Some(done + self.store.outbox_len(&self.owner).await?);
            }
            let waiting = counted.map_or(read, |all| all.saturating_sub(done).max(read));
            self.shown().set(weir_schemas::num::float(waiting));
            let Some(last) = rows.last().map(|row| row.sequence) else { return Ok(done) };
            // The rows of a partition go out together, in their order; nothing depends on the order between partitions.
            let mut partitions: BTreeMap<(String, u32), Vec<Waiting<'_>>> = BTreeMap::new();
            for row in &rows {
                let bytes = self.bytes(row, now_ms)?;
                partitions.entry((row.log.clone(), row.partition)).or_default().push(Waiting { row, bytes });
            }
            let mut refused = Vec::new();
            for (to, waiting) in partitions {
                if clock.monotonic_ms() >= until_ms {
                    return Ok(done);
                }
                refused.extend(self.append_what_fits(&to, waiting, now_ms).await?);
            }
            self.store.published(&self.owner, last).await?;
            // Not before: whatever fails until here is done again.
            refused.iter().for_each(Refused::tell);
            done += read;
        }
    }

    fn shown(&self) -> Gauge {
        gauge!(telemetry::OUTBOX, "owner" => self.owner.clone())
    }

    /// Appends rows, and says which were left out since their log will never take them: they would hold all behind them up for
    /// ever, and what they say of a decision or an outcome is in the database as well.
    async fn append_what_fits<'a>(
        &mut self,
        to: &(String, u32),
        waiting: Vec<Waiting<'a>>,
        now_ms: i64,
    ) -> Result<Vec<Refused<'a>>, PublishError> {
        let (why, limit) = match self.append(to, &waiting, now_ms).await {
            Err(PublishError::Log(why @ LogError::RecordTooLarge { limit, .. })) => (why, limit),
            done => return done.map(|()| Vec::new()),
        };
        let fits = |it: &Waiting<'_>| u64::try_from(it.bytes.len()).is_ok_and(|bytes| bytes <= limit);
        let (fit, large): (Vec<_>, Vec<_>) = waiting.into_iter().partition(fits);
        if large.is_empty() {
            return Err(why.into());
        }
        self.append(to, &fit, now_ms).await?;
        let refused = |it: Waiting<'a>| Refused { row: it.row, bytes: it.bytes.len(), limit, code: why.code() };
        Ok(large.into_iter().map(refused).collect())
    }

    async fn append(&mut self, to: &(String, u32), waiting: &[Waiting<'_>], now_ms: i64) -> Result<(), PublishError> {
        if waiting.is_empty() {
            return Ok(());
        }
        let name = to.0.clone();
        let writer = match self.writers.entry(to.clone()) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(slot) => {
                let log = if name == METRICS { &self.logs.metrics } else { &self.logs.events };
                slot.insert(log.writer(to.1, &self.owner).await?)
            }
        };
        let payloads: Vec<&[u8]> = waiting.iter().map(|it| it.bytes.as_slice()).collect();
        if let Err(why) = writer.append_batch(&payloads, now_ms).await {
            // Whatever is wrong with this writer, the next try begins with a new one.
            self.writers.remove(to);
            return Err(why.into());
        }
        counter!(telemetry::LOG_APPENDS, "log" => name).increment(u64::try_from(payloads.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn bytes(&self, row: &OutboxRow, now_ms: i64) -> Result<Vec<u8>, WireError> {
        if row.log == METRICS { wire::encode(&self.record(row, now_ms)) } else { Ok(row.payload.clone()) }
    }

    /// The record that tells of an outcome.
    fn record(&self, row: &OutboxRow, now_ms: i64) -> Record {
        Record {
            producer: self.owner.clone(),
            sequence: u64::try_from(row.sequence).unwrap_or(0),
            time_ms: now_ms,
            job: row.key.clone(),
            body: Some(Body::OutcomeJson(row.payload.clone())),
        }
    }
}

impl Drop for Publisher {
    /// Whoever publishes for the owner now shows what waits: a sum over all processes counts each row once.
    fn drop(&mut self) {
        self.shown().set(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weir_store::Commit;
    use weir_streams::{MemoryLog, MemoryOptions, Position};

    async fn read(log: &Arc<dyn Log>, partition: u32) -> Vec<Vec<u8>> {
        let mut reader = log.reader(partition, Position::from_raw(0)).await.unwrap();
        reader.read(100, Duration::ZERO).await.unwrap().into_iter().map(|record| record.payload).collect()
    }

    /// A folder with a database, and logs of two partitions that take up to 100 bytes a record.
    async fn place() -> (tempfile::TempDir, Store, Logs) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join(Store::FILE)).await.unwrap();
        let options = MemoryOptions { partitions: 2, max_record_bytes: 100, ..MemoryOptions::default() };
        let log = || Arc::new(MemoryLog::new(options.clone())) as Arc<dyn Log>;
        (folder, store, Logs { metrics: log(), events: log() })
    }

    /// Leaves rows in the outbox.
    async fn commit(store: &Store, outbox: Vec<OutboxWrite>) {
        let commit = Commit {
            shard: "s".into(),
            epoch: 1,
            format: 1,
            state: Vec::new(),
            positions: String::new(),
            decided_through: String::new(),
            decisions: Vec::new(),
            outbox,
            now_ms: 1,
        };
        store.commit(&commit).await.unwrap();
    }

    #[tokio::test]
    async fn rows_reach_their_logs_once_and_in_order() {
        let (_folder, store, logs) = place().await;
        let outbox = vec![
            logs.event("analyzer", "c/n/j", b"first".to_vec()),
            logs.event("analyzer", "c/n/j", b"second".to_vec()),
            logs.outcome("analyzer", "c/n/j", b"{}".to_vec()),
        ];
        let (events_at, metrics_at) = (outbox[0].partition, outbox[2].partition);
        commit(&store, outbox).await;
        let clock = weir_runtime::RealClock::new();
        let mut publisher = Publisher::new(store, "analyzer", logs.clone());
        assert_eq!(publisher.publish(&clock, clock.monotonic_ms()).await.unwrap(), 0, "the lease is over");
        assert_eq!(publisher.publish(&clock, i64::MAX).await.unwrap(), 3);
        assert_eq!(publisher.publish(&clock, i64::MAX).await.unwrap(), 0);
        assert_eq!(read(&logs.events, events_at).await, [b"first".to_vec(), b"second".to_vec()]);
        let told = wire::decode(&read(&logs.metrics, metrics_at).await[0]).unwrap();
        assert_eq!((told.producer.as_str(), told.body), ("analyzer", Some(Body::OutcomeJson(b"{}".to_vec()))));
    }

    /// A clock that goes on by one with each look.
    struct Ticking(std::sync::atomic::AtomicI64);

    impl Clock for Ticking {
        fn now_ms(&self) -> i64 {
            0
        }

        fn monotonic_ms(&self) -> i64 {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
        }

        fn sleep_ms(&self, _duration_ms: i64) -> weir_streams::BoxFuture<'_, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn a_row_that_its_log_never_takes_holds_no_other_one_up() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let _here = metrics::set_default_local_recorder(&recorder);
        let (_folder, store, logs) = place().await;
        let event = |bytes: &[u8]| logs.event("analyzer", "c/n/j", bytes.to_vec());
        let rows = vec![
            event(b"before"),
            event(&[7; 101]),
            event(b"after"),
            logs.outcome("analyzer", "c/n/j", (0..=255).collect()),
        ];
        let (events_at, metrics_at) = (rows[0].partition, rows[3].partition);
        commit(&store, rows).await;
        let clock = Ticking(0.into());
        let mut publisher = Publisher::new(store.clone(), "analyzer", logs.clone());
        // The first time the lease ends after the first of the two logs: all of it is done again.
        assert_eq!(publisher.publish(&clock, 1).await.unwrap(), 0);
        assert_eq!(publisher.publish(&clock, i64::MAX).await.unwrap(), 4);
        assert_eq!(store.outbox_len("analyzer").await.unwrap(), 0);
        let events = read(&logs.events, events_at).await;
        assert_eq!(events, [&b"before"[..], b"after", b"before", b"after"].map(<[u8]>::to_vec));
        assert!(read(&logs.metrics, metrics_at).await.is_empty());
        let page = recorder.handle().render();
        for log in ["events", "metrics"] {
            assert!(page.contains(&format!("weir_outbox_refused_total{{log=\"{log}\"}} 1\n")), "{page}");
        }
    }

    #[tokio::test]
    async fn what_waits_is_shown_until_somebody_else_may_publish_it() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let _here = metrics::set_default_local_recorder(&recorder);
        let are_shown = |rows: u32| {
            recorder.handle().render().contains(&format!("weir_outbox_records{{owner=\"analyzer\"}} {rows}\n"))
        };
        let (_folder, store, logs) = place().await;
        commit(&store, vec![logs.event("analyzer", "c/n/j", b"event".to_vec()); 300]).await;
        let clock = weir_runtime::RealClock::new();
        let mut publisher = Publisher::new(store.clone(), "analyzer", logs.clone());
        assert_eq!(publisher.publish(&clock, clock.monotonic_ms()).await.unwrap(), 0, "the lease is over");
        assert!(are_shown(300), "also those that are not read at once");
        assert_eq!(publisher.publish(&clock, i64::MAX).await.unwrap(), 300);
        assert!(are_shown(0));
        commit(&store, vec![logs.event("analyzer", "c/n/j", b"last".to_vec())]).await;
        assert_eq!(publisher.publish(&clock, clock.monotonic_ms()).await.unwrap(), 0, "the lease is over");
        assert!(are_shown(1));
        drop(publisher);
        assert!(are_shown(0));
    }
}
