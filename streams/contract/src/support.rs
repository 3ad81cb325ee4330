//! What a log under test has to bring, and what the checks share.

use std::sync::Arc;
use std::time::Duration;

use weir_streams::{BoxFuture, Log, LogReader, LogWriter, Position, Record};

/// How a log is to be made for a check. Small numbers, so that a check need not write much to reach the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Partitions.
    pub partitions: u32,
    /// The largest record that has to be taken, and the smallest limit above which records have to be refused.
    pub max_record_bytes: usize,
    /// Storage is given back in pieces of about this size. Logs that have no such setting may give it back in smaller ones.
    pub segment_bytes: u64,
    /// Bytes that retention keeps.
    pub retain_bytes: u64,
    /// Age up to which retention keeps records, in milliseconds.
    pub retain_age_ms: i64,
    /// How long a server may take for an answer or an acknowledgement. Logs without a server take no notice.
    pub timeout: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            partitions: 3,
            max_record_bytes: 64 * 1024,
            segment_bytes: 1024,
            retain_bytes: 1024 * 1024 * 1024,
            retain_age_ms: 24 * 60 * 60 * 1000,
            timeout: Duration::from_secs(15),
        }
    }
}

/// What a log can be asked for, beyond appending and reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Records outlive the process.
    pub reopens: bool,
    /// A log can be deleted and made anew under the same name.
    pub remakes: bool,
    /// Retention is applied when it is asked for, rather than by a server in its own time.
    pub retains: bool,
    /// It has a server that can be made to hang.
    pub stalls: bool,
}

/// Makes logs to be tested.
pub trait LogFactory: Send + Sync {
    /// What may be asked for.
    fn abilities(&self) -> Abilities;

    /// A place for a log of its own, which nobody used before.
    fn site<'a>(&'a self, setup: &'a Setup) -> BoxFuture<'a, Box<dyn Site>>;

    /// Makes the server hang: connections stay, answers do not come. Only asked of those that can.
    fn stall(&self) {}

    /// Lets the server go on.
    fn go_on(&self) {}
}

/// The place of one log.
pub trait Site: Send + Sync {
    /// Opens the log that is there, or makes it. An earlier handle has been dropped.
    fn open(&self) -> BoxFuture<'_, Arc<dyn Log>>;

    /// Deletes the log. The next opening makes another one under the same name.
    fn remake(&self) -> BoxFuture<'_, ()>;
}

/// Longer than anything takes that is expected to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The time of records whose time does not matter.
pub(crate) const NOW_MS: i64 = 1_700_000_000_000;

/// A log with the default setup, and its place, which has to live as long.
pub(crate) async fn fresh(factory: &dyn LogFactory) -> (Box<dyn Site>, Arc<dyn Log>) {
    fresh_with(factory, &Setup::default()).await
}

pub(crate) async fn fresh_with(factory: &dyn LogFactory, setup: &Setup) -> (Box<dyn Site>, Arc<dyn Log>) {
    let site = factory.site(setup).await;
    let log = site.open().await;
    (site, log)
}

pub(crate) async fn writer(log: &dyn Log, partition: u32) -> Box<dyn LogWriter> {
    log.writer(partition, "contract").await.expect("a writer")
}

pub(crate) async fn reader(log: &dyn Log, partition: u32, from: Position) -> Box<dyn LogReader> {
    log.reader(partition, from).await.expect("a reader")
}

pub(crate) async fn head(log: &dyn Log, partition: u32) -> Position {
    log.head(partition).await.expect("a head")
}

pub(crate) async fn tail(log: &dyn Log, partition: u32) -> Position {
    log.tail(partition).await.expect("a tail")
}

/// Payloads that differ in content and length.
pub(crate) fn payload(number: usize) -> Vec<u8> {
    format!("record {number} {}", "x".repeat(number * 7 % 90)).into_bytes()
}

/// Appends numbered payloads one by one.
pub(crate) async fn append_numbered(log: &dyn Log, partition: u32, numbers: std::ops::Range<usize>) {
    let mut writer = writer(log, partition).await;
    for number in numbers {
        writer.append(&payload(number), NOW_MS).await.expect("an acknowledgement");
    }
}

/// Reads from a position to the end.
pub(crate) async fn read_to_end(log: &dyn Log, partition: u32, from: Position) -> Vec<Record> {
    let tail = tail(log, partition).await;
    let mut reader = reader(log, partition, from).await;
    let mut records = Vec::new();
    while reader.position() < tail {
        let more = reader.read(7, PATIENCE).await.expect("records");
        assert!(!more.is_empty(), "nothing came within {PATIENCE:?} at {} of {tail}", reader.position());
        assert!(more.len() <= 7, "more records than asked for");
        records.extend(more);
    }
    assert_eq!(reader.position(), tail, "reading ends where the log ends");
    records
}

/// Reads everything that the partition holds, as payloads.
pub(crate) async fn payloads(log: &dyn Log, partition: u32) -> Vec<Vec<u8>> {
    let head = head(log, partition).await;
    read_to_end(log, partition, head).await.into_iter().map(|record| record.payload).collect()
}

pub(crate) fn numbered(numbers: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    numbers.map(payload).collect()
}
