//! A handle that reads a partition of the embedded log.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::context::Context;
use super::partition::News;
use super::scanner::{Batch, Scanner};
use crate::{BoxFuture, LogError, LogReader, Position, Record};

/// The segment that holds a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub path: PathBuf,
    /// Where it begins.
    pub base: u64,
    /// Where it ends.
    pub end: u64,
    /// Whether it is the newest one, so that more may come.
    pub newest: bool,
    /// Whether everything before the end is known to be durable. If not, what cannot be read may still be being written.
    pub proven: bool,
}

/// A partition to read from.
pub(crate) trait Extent: Send + Sync {
    fn context(&self) -> &Context;

    fn number(&self) -> u32;

    /// The segment that holds the record at a position, or would hold it; none if the partition has not been begun.
    fn locate(&self, position: u64) -> Result<Option<Span>, LogError>;
}

/// How a reader learns that there is more.
pub(crate) enum Arrivals {
    /// From the writer, in the same process.
    Told(watch::Receiver<News>),
    /// By looking again after a while.
    Looked(Duration),
}

/// Reading happens in a blocking task. It outlives a read that is dropped, and the next read takes what it found; so nothing
/// is lost, and a reader whose patience is shorter than a disk access gets there all the same.
struct Running {
    task: JoinHandle<(Scanner, Batch)>,
    from: Position,
}

/// A handle that reads a partition.
pub(crate) struct EmbeddedReader {
    partition: Arc<dyn Extent>,
    position: Position,
    arrivals: Arrivals,
    scanner: Option<Scanner>,
    running: Option<Running>,
    ready: VecDeque<Record>,
}

impl EmbeddedReader {
    pub fn new(partition: Arc<dyn Extent>, from: Position, arrivals: Arrivals) -> Self {
        Self { partition, position: from, arrivals, scanner: None, running: None, ready: VecDeque::new() }
    }

    /// Whether everything that there is has been read. Only a writer in the same process can tell without looking.
    fn is_at_end(&mut self) -> Result<bool, LogError> {
        let Arrivals::Told(news) = &mut self.arrivals else { return Ok(false) };
        let news = *news.borrow_and_update();
        if self.running.is_some() || !self.ready.is_empty() || news.tail != self.position.to_raw() {
            return Ok(false);
        }
        if news.closed { Err(self.partition.context().closed()) } else { Ok(true) }
    }

    /// Reads what there is, without waiting for more.
    async fn attempt(&mut self, max_records: usize) -> Result<Vec<Record>, LogError> {
        if max_records == 0 || self.is_at_end()? {
            return Ok(Vec::new());
        }
        while self.ready.is_empty() {
            let begun_earlier = self.running.is_some();
            let running = self.running.get_or_insert_with(|| {
                let scanner = self.scanner.take().unwrap_or_else(|| Scanner::new(Arc::clone(&self.partition)));
                let from = self.position;
                Running { task: tokio::task::spawn_blocking(move || scanner.read(from, max_records)), from }
            });
            let finished = (&mut running.task).await;
            let from = running.from;
            self.running = None;
            let Ok((scanner, batch)) = finished else { return Err(self.partition.context().closed()) };
            self.scanner = Some(scanner);
            let stale = from != self.position || (begun_earlier && batch.records.is_empty());
            if stale {
                continue;
            }
            if batch.records.is_empty() {
                return batch.failure.map_or(Ok(Vec::new()), Err);
            }
            self.ready.extend(batch.records);
        }
        let records: Vec<Record> = self.ready.drain(..max_records.min(self.ready.len())).collect();
        if let Some(last) = records.last() {
            self.position = last.next;
        }
        self.partition.context().count_read(records.len());
        Ok(records)
    }

    async fn read_some(&mut self, max_records: usize) -> Result<Vec<Record>, LogError> {
        loop {
            let records = self.attempt(max_records).await?;
            if !records.is_empty() {
                return Ok(records);
            }
            self.more().await?;
        }
    }

    /// Waits until there may be more.
    async fn more(&mut self) -> Result<(), LogError> {
        match &mut self.arrivals {
            Arrivals::Told(news) => news.changed().await.map_err(|_| self.partition.context().closed()),
            Arrivals::Looked(period) => {
                let _ = timeout(*period, std::future::pending::<()>()).await;
                Ok(())
            }
        }
    }
}

impl LogReader for EmbeddedReader {
    fn read(&mut self, max_records: usize, wait: Duration) -> BoxFuture<'_, Result<Vec<Record>, LogError>> {
        Box::pin(async move {
            if wait.is_zero() || max_records == 0 {
                return self.attempt(max_records).await;
            }
            timeout(wait, self.read_some(max_records)).await.unwrap_or_else(|_| Ok(Vec::new()))
        })
    }

    fn seek(&mut self, to: Position) {
        self.position = to;
        self.ready.clear();
    }

    fn position(&self) -> Position {
        self.position
    }
}
