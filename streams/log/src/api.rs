//! What every log can do.

use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Distance, Incarnation, LogError, LogStats, Position, StoredPosition};

/// A boxed future, so that the traits below can be used through `dyn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a log is. Recorded with the log when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogInfo {
    /// Its name, for messages and metrics.
    pub name: String,
    /// Which life of the log this is.
    pub incarnation: Incarnation,
    /// How many partitions it has, numbered from 0. Never changes.
    pub partitions: u32,
    /// The name of the rule that spreads keys over partitions; see [`crate::PARTITION_HASH`].
    pub hash: String,
}

impl LogInfo {
    /// A position of this log, to be stored beside the state that it produced.
    #[must_use]
    pub fn stored(&self, partition: u32, position: Position) -> StoredPosition {
        StoredPosition { incarnation: self.incarnation, partition, position }
    }

    /// The position that was stored.
    ///
    /// # Errors
    /// Refuses positions of another incarnation and of partitions that do not exist.
    pub fn resume(&self, stored: &StoredPosition) -> Result<Position, LogError> {
        self.check_partition(stored.partition)?;
        if stored.incarnation != self.incarnation {
            return Err(LogError::OtherIncarnation {
                log: self.name.clone(),
                stored: stored.incarnation,
                current: self.incarnation,
            });
        }
        Ok(stored.position)
    }

    /// Refuses partitions that do not exist.
    pub(crate) fn check_partition(&self, partition: u32) -> Result<(), LogError> {
        if partition < self.partitions {
            return Ok(());
        }
        Err(LogError::NoSuchPartition { log: self.name.clone(), partition, partitions: self.partitions })
    }
}

/// A record as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What was appended.
    pub payload: Vec<u8>,
    /// The position after this record: where to go on once it has been dealt with.
    pub next: Position,
    /// The time that the writer gave, in milliseconds since 1970.
    pub appended_at_ms: i64,
}

/// A log: numbered partitions of records, each in the order of its appends.
///
/// Handles are cheap and independent of each other. Dropping the log closes it once its writers are gone as well.
/// All futures need a tokio runtime.
pub trait Log: Send + Sync {
    /// What this log is.
    fn info(&self) -> &LogInfo;

    /// A handle that appends to one partition. `producer` names who writes, for messages and for servers that tell
    /// producers apart. Several handles may write to one partition at once.
    ///
    /// # Errors
    /// Fails for partitions that do not exist and for logs that are opened for reading only.
    fn writer<'a>(&'a self, partition: u32, producer: &'a str) -> BoxFuture<'a, Result<Box<dyn LogWriter>, LogError>>;

    /// A handle that reads one partition from a position on. Whether the position is still there, [`LogReader::read`] says.
    ///
    /// # Errors
    /// Fails for partitions that do not exist.
    fn reader(&self, partition: u32, from: Position) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>>;

    /// Where the oldest record of the partition begins.
    ///
    /// # Errors
    /// Fails for partitions that do not exist, and when the storage cannot be asked.
    fn head(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>>;

    /// Where the next record of the partition will begin. Everything acknowledged lies before it.
    ///
    /// # Errors
    /// Fails for partitions that do not exist, and when the storage cannot be asked.
    fn tail(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>>;

    /// Gives up records before a position, as far as that frees storage, and says where the log begins then. What lies at
    /// the position and after it stays. A position after the end counts as the end.
    ///
    /// # Errors
    /// Fails for partitions that do not exist, for logs opened for reading only, and when the storage fails.
    fn truncate_before(&self, partition: u32, before: Position) -> BoxFuture<'_, Result<Position, LogError>>;

    /// Gives up what is older or more than the log was told to keep, and says how many bytes that freed. To be called
    /// now and then. Logs whose server does this itself free nothing here.
    ///
    /// # Errors
    /// Fails for logs opened for reading only, and when the storage fails.
    fn retain(&self, now_ms: i64) -> BoxFuture<'_, Result<u64, LogError>>;

    /// How much lies from one position to a later one, in bytes and records, where the log knows. Nothing lies between
    /// positions in the wrong order.
    ///
    /// # Errors
    /// Fails for partitions that do not exist.
    fn distance(&self, partition: u32, from: Position, to: Position) -> Result<Distance, LogError>;

    /// What the log did since it was opened.
    fn stats(&self) -> LogStats;
}

/// Appends to one partition.
pub trait LogWriter: Send {
    /// Appends one record; `Ok` means that it is durable. `now_ms` is kept with it, for retention and for readers.
    ///
    /// Waits while too much is under way already. If the future is dropped, or fails other than by a refusal, the record
    /// may or may not be stored.
    ///
    /// # Errors
    /// Refuses records that are too large; fails when the storage fails.
    fn append<'a>(&'a mut self, payload: &'a [u8], now_ms: i64) -> BoxFuture<'a, Result<(), LogError>>;

    /// Appends records in order; `Ok` means that all are durable. After a failure, any number of the first ones may be
    /// stored. Nothing is stored if one of them is too large.
    ///
    /// # Errors
    /// As for [`LogWriter::append`].
    fn append_batch<'a>(&'a mut self, payloads: &'a [&'a [u8]], now_ms: i64) -> BoxFuture<'a, Result<(), LogError>>;
}

/// Reads one partition.
pub trait LogReader: Send {
    /// The next records, at most `max_records`, fewer if they are large. Waits up to `wait` for the first one when all
    /// is read, and gives an empty list when none came. With no wait, no timer is used.
    ///
    /// The future may be dropped at any time: no record is skipped.
    ///
    /// # Errors
    /// [`LogError::Truncated`] and [`LogError::Corrupt`] say what is lost and where to [`LogReader::seek`] to go on; until
    /// then they are repeated. [`LogError::BeyondTail`] means that the position is not one of this log. Other errors are
    /// the storage's.
    fn read(&mut self, max_records: usize, wait: Duration) -> BoxFuture<'_, Result<Vec<Record>, LogError>>;

    /// Goes on somewhere else.
    fn seek(&mut self, to: Position);

    /// Where the next read begins.
    fn position(&self) -> Position;
}
