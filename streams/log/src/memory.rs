//! A log in memory, for tests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::stats::Counters;
use crate::{
    BoxFuture, Distance, Incarnation, Log, LogError, LogInfo, LogReader, LogStats, LogWriter, PARTITION_HASH, Position,
    Record,
};

/// How a [`MemoryLog`] is made.
#[derive(Debug, Clone)]
pub struct MemoryOptions {
    /// The name of the log.
    pub name: String,
    /// Its incarnation; drawn at random if not given.
    pub incarnation: Option<Incarnation>,
    /// How many partitions it has.
    pub partitions: u32,
    /// The largest record that it takes.
    pub max_record_bytes: usize,
    /// Bytes that retention keeps, over all partitions.
    pub retain_bytes: u64,
    /// Age up to which retention keeps records, in milliseconds.
    pub retain_age_ms: i64,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            name: "memory".to_owned(),
            incarnation: None,
            partitions: 4,
            max_record_bytes: 1024 * 1024 - 16,
            retain_bytes: 1024 * 1024 * 1024,
            retain_age_ms: 24 * 60 * 60 * 1000,
        }
    }
}

/// A log that lives as long as its handles. It counts records, where the embedded log counts bytes, so that code which
/// calculates with positions is found out.
#[derive(Clone)]
pub struct MemoryLog {
    shared: Arc<Shared>,
}

struct Shared {
    info: LogInfo,
    options: MemoryOptions,
    partitions: Vec<Partition>,
    counters: Counters,
}

struct Partition {
    kept: Mutex<Kept>,
    tail: watch::Sender<u64>,
}

#[derive(Default)]
struct Kept {
    head: u64,
    records: VecDeque<(Arc<[u8]>, i64)>,
}

impl Kept {
    fn tail(&self) -> u64 {
        self.head.saturating_add(count(self.records.len()))
    }

    fn drop_first(&mut self) -> u64 {
        let Some((payload, _)) = self.records.pop_front() else { return 0 };
        self.head += 1;
        count(payload.len())
    }

    fn distance(&self, from: u64, to: u64) -> Distance {
        let to = to.max(from);
        let bytes = self
            .records
            .iter()
            .zip(self.head..)
            .filter(|(_, at)| (from..to).contains(at))
            .map(|((payload, _), _)| count(payload.len()))
            .sum();
        Distance { bytes: (from >= self.head).then_some(bytes), records: Some(to - from) }
    }
}

impl Partition {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl MemoryLog {
    /// A new, empty log.
    #[must_use]
    pub fn new(options: MemoryOptions) -> Self {
        let info = LogInfo {
            name: options.name.clone(),
            incarnation: options.incarnation.unwrap_or_else(|| Incarnation::generate(0)),
            partitions: options.partitions,
            hash: PARTITION_HASH.to_owned(),
        };
        let partition = |_| Partition { kept: Mutex::default(), tail: watch::Sender::new(0) };
        let partitions = (0..options.partitions).map(partition).collect();
        Self { shared: Arc::new(Shared { info, options, partitions, counters: Counters::default() }) }
    }
}

impl Shared {
    fn partition(&self, partition: u32) -> Result<&Partition, LogError> {
        self.info.check_partition(partition)?;
        let found = usize::try_from(partition).ok().and_then(|at| self.partitions.get(at));
        found.ok_or_else(|| LogError::NoSuchPartition {
            log: self.info.name.clone(),
            partition,
            partitions: self.info.partitions,
        })
    }

    fn append(&self, partition: u32, payloads: &[&[u8]], now_ms: i64) -> Result<(), LogError> {
        if let Some(large) = payloads.iter().find(|payload| payload.len() > self.options.max_record_bytes) {
            Counters::add(&self.counters.appends_refused, 1);
            return Err(LogError::RecordTooLarge {
                log: self.info.name.clone(),
                bytes: count(large.len()),
                limit: count(self.options.max_record_bytes),
            });
        }
        let place = self.partition(partition)?;
        let mut kept = place.kept();
        for payload in payloads {
            kept.records.push_back((Arc::from(*payload), now_ms));
            Counters::add(&self.counters.records_appended, 1);
            Counters::add(&self.counters.bytes_appended, count(payload.len()));
        }
        place.tail.send_replace(kept.tail());
        Ok(())
    }

    fn read(&self, partition: u32, from: u64, max_records: usize) -> Result<Vec<Record>, LogError> {
        let kept = self.partition(partition)?.kept();
        let wanted = Position::from_raw(from);
        if from > kept.tail() {
            return Err(LogError::BeyondTail { partition, wanted, tail: Position::from_raw(kept.tail()) });
        }
        let Some(skip) = from.checked_sub(kept.head) else {
            let lost = kept.distance(from, kept.head);
            return Err(LogError::Truncated { partition, wanted, head: Position::from_raw(kept.head), lost });
        };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let records: Vec<Record> = kept
            .records
            .iter()
            .zip(kept.head.saturating_add(1)..)
            .skip(skip)
            .take(max_records)
            .map(|((payload, appended_at_ms), next)| Record {
                payload: payload.to_vec(),
                next: Position::from_raw(next),
                appended_at_ms: *appended_at_ms,
            })
            .collect();
        Counters::add(&self.counters.records_read, count(records.len()));
        Ok(records)
    }

    fn truncate(&self, partition: u32, before: Position) -> Result<Position, LogError> {
        let mut kept = self.partition(partition)?.kept();
        while kept.head < before.to_raw() && !kept.records.is_empty() {
            Counters::add(&self.counters.bytes_removed, kept.drop_first());
        }
        Ok(Position::from_raw(kept.head))
    }

    fn retain(&self, now_ms: i64) -> u64 {
        let oldest_kept_ms = now_ms.saturating_sub(self.options.retain_age_ms);
        let mut removed = 0;
        for partition in &self.partitions {
            let mut kept = partition.kept();
            while kept.records.front().is_some_and(|(_, appended_at_ms)| *appended_at_ms < oldest_kept_ms) {
                removed += kept.drop_first();
            }
        }
        let size_of = |kept: &Kept| -> u64 { kept.records.iter().map(|(payload, _)| count(payload.len())).sum() };
        let mut total: u64 = self.partitions.iter().map(|partition| size_of(&partition.kept())).sum();
        while total > self.options.retain_bytes {
            let front = |partition: &&Partition| partition.kept().records.front().map_or(i64::MAX, |(_, at)| *at);
            let Some(oldest) = self.partitions.iter().min_by_key(front) else { break };
            let freed = oldest.kept().drop_first();
            if freed == 0 && front(&oldest) == i64::MAX {
                break;
            }
            removed += freed;
            total = total.saturating_sub(freed);
        }
        Counters::add(&self.counters.bytes_removed, removed);
        removed
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl Log for MemoryLog {
    fn info(&self) -> &LogInfo {
        &self.shared.info
    }

    fn writer<'a>(&'a self, partition: u32, _producer: &'a str) -> BoxFuture<'a, Result<Box<dyn LogWriter>, LogError>> {
        let writer = MemoryWriter { shared: Arc::clone(&self.shared), partition };
        let checked = self.shared.info.check_partition(partition);
        ready(checked.map(|()| Box::new(writer) as Box<dyn LogWriter>))
    }

    fn reader(&self, partition: u32, from: Position) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        let made = self.shared.partition(partition).map(|place| {
            let shared = Arc::clone(&self.shared);
            Box::new(MemoryReader { shared, partition, position: from, tail: place.tail.subscribe() })
                as Box<dyn LogReader>
        });
        ready(made)
    }

    fn head(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        ready(self.shared.partition(partition).map(|place| Position::from_raw(place.kept().head)))
    }

    fn tail(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        ready(self.shared.partition(partition).map(|place| Position::from_raw(place.kept().tail())))
    }

    fn truncate_before(&self, partition: u32, before: Position) -> BoxFuture<'_, Result<Position, LogError>> {
        ready(self.shared.truncate(partition, before))
    }

    fn retain(&self, now_ms: i64) -> BoxFuture<'_, Result<u64, LogError>> {
        ready(Ok(self.shared.retain(now_ms)))
    }

    fn distance(&self, partition: u32, from: Position, to: Position) -> Result<Distance, LogError> {
        Ok(self.shared.partition(partition)?.kept().distance(from.to_raw(), to.to_raw()))
    }

    fn stats(&self) -> LogStats {
        self.shared.counters.snapshot()
    }
}

struct MemoryWriter {
    shared: Arc<Shared>,
    partition: u32,
}

impl LogWriter for MemoryWriter {
    fn append<'a>(&'a mut self, payload: &'a [u8], now_ms: i64) -> BoxFuture<'a, Result<(), LogError>> {
        ready(self.shared.append(self.partition, &[payload], now_ms))
    }

    fn append_batch<'a>(&'a mut self, payloads: &'a [&'a [u8]], now_ms: i64) -> BoxFuture<'a, Result<(), LogError>> {
        ready(self.shared.append(self.partition, payloads, now_ms))
    }
}

struct MemoryReader {
    shared: Arc<Shared>,
    partition: u32,
    position: Position,
    tail: watch::Receiver<u64>,
}

impl MemoryReader {
    fn attempt(&mut self, max_records: usize) -> Result<Vec<Record>, LogError> {
        let records = self.shared.read(self.partition, self.position.to_raw(), max_records)?;
        if let Some(last) = records.last() {
            self.position = last.next;
        }
        Ok(records)
    }

    async fn read_some(&mut self, max_records: usize) -> Result<Vec<Record>, LogError> {
        loop {
            self.tail.borrow_and_update();
            let records = self.attempt(max_records)?;
            if !records.is_empty() || self.tail.changed().await.is_err() {
                return Ok(records);
            }
        }
    }
}

impl LogReader for MemoryReader {
    fn read(&mut self, max_records: usize, wait: Duration) -> BoxFuture<'_, Result<Vec<Record>, LogError>> {
        if wait.is_zero() || max_records == 0 {
            return ready(self.attempt(max_records));
        }
        Box::pin(async move {
            let read = tokio::time::timeout(wait, self.read_some(max_records)).await;
            read.unwrap_or_else(|_| Ok(Vec::new()))
        })
    }

    fn seek(&mut self, to: Position) {
        self.position = to;
    }

    fn position(&self) -> Position {
        self.position
    }
}
