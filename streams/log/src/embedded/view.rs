//! The embedded log, looked at without writing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::context::{Context, blocking};
use super::log::{byte_distance, check_hash, describe};
use super::meta::Meta;
use super::options::EmbeddedOptions;
use super::partition::locked;
use super::reader::{Arrivals, EmbeddedReader, Extent, Span};
use super::segment::{Cursor, Scan, end_of_file, list_segments, partition_dir, segment_path};
use super::storage::{Access, Disk, Storage};
use crate::{BoxFuture, Distance, Log, LogError, LogInfo, LogReader, LogStats, LogWriter, Position};

/// A log that somebody else may be writing to, opened to look at. It takes no lock and changes nothing.
///
/// It sees records as soon as they are written, which is a moment before they are durable: after a crash of the machine, the
/// last ones that it saw may never have been acknowledged. State that is to be kept is built from an [`crate::EmbeddedLog`].
pub struct EmbeddedLogView {
    context: Arc<Context>,
    partitions: Vec<Arc<ViewedPartition>>,
}

struct ViewedPartition {
    context: Arc<Context>,
    number: u32,
    dir: PathBuf,
    /// The newest segment, and how far it was found to be readable.
    verified: Mutex<Option<(u64, u64)>>,
}

impl EmbeddedLogView {
    /// Opens the log in a directory. New records are looked for every `poll`.
    ///
    /// # Errors
    /// Fails if there is no log, if it is not one of ours or of a newer version, and when the storage fails.
    pub async fn open(dir: impl Into<PathBuf>, poll: Duration) -> Result<Self, LogError> {
        let dir = dir.into();
        let name = dir.display().to_string();
        blocking(&name, move || Self::open_on(Arc::new(Disk), dir, poll)).await
    }

    fn open_on(storage: Arc<dyn Storage>, dir: PathBuf, poll: Duration) -> Result<Self, LogError> {
        let Some(meta) = Meta::load(storage.as_ref(), &dir)? else { return Err(LogError::NotFound { dir }) };
        let info = describe(&dir, &meta);
        check_hash(&info)?;
        let poll_ms = u64::try_from(poll.as_millis()).unwrap_or(u64::MAX).max(1);
        let options = EmbeddedOptions { partitions: info.partitions, poll_ms, ..EmbeddedOptions::default() };
        let context = Arc::new(Context::new(storage, info, options));
        let partition = |number| {
            let (context, dir) = (Arc::clone(&context), partition_dir(&dir, number));
            Arc::new(ViewedPartition { context, number, dir, verified: Mutex::default() })
        };
        let partitions = (0..context.info.partitions).map(partition).collect();
        Ok(Self { context, partitions })
    }

    fn partition(&self, partition: u32) -> Result<&Arc<ViewedPartition>, LogError> {
        self.context.info.check_partition(partition)?;
        let found = usize::try_from(partition).ok().and_then(|at| self.partitions.get(at));
        found.ok_or_else(|| self.context.closed())
    }

    fn read_only<T: Send + 'static>(&self) -> BoxFuture<'_, Result<T, LogError>> {
        let error = LogError::ReadOnly { log: self.context.info.name.clone() };
        Box::pin(std::future::ready(Err(error)))
    }
}

impl ViewedPartition {
    fn bases(&self) -> Result<Vec<u64>, LogError> {
        list_segments(self.context.storage.as_ref(), &self.dir)
    }

    fn head(&self) -> Result<u64, LogError> {
        Ok(self.bases()?.first().copied().unwrap_or(0))
    }

    /// The end of the last readable record. What was found readable once is not read again.
    fn tail(&self) -> Result<u64, LogError> {
        let Some(base) = self.bases()?.last().copied() else { return Ok(0) };
        let mut verified = locked(&self.verified);
        let path = segment_path(&self.dir, base);
        let mut cursor = Cursor::open(self.context.storage.as_ref(), path.clone(), base, self.context.salt)
            .map_err(|error| LogError::io("open", &path, error))?;
        let end = cursor.file_end()?;
        let from = verified.filter(|(segment, found)| *segment == base && *found <= end).map_or(base, |(_, end)| end);
        let end = Scan::of(&mut cursor, from, end)?.end;
        *verified = Some((base, end));
        Ok(end)
    }
}

impl Extent for ViewedPartition {
    fn context(&self) -> &Context {
        &self.context
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn locate(&self, position: u64) -> Result<Option<Span>, LogError> {
        let bases = self.bases()?;
        let (partition, wanted) = (self.number, Position::from_raw(position));
        let after = bases.partition_point(|base| *base <= position);
        let Some(base) = after.checked_sub(1).and_then(|at| bases.get(at)).copied() else {
            let Some(head) = bases.first().copied() else { return Ok(None) };
            let lost = Distance { bytes: Some(head - position), records: None };
            return Err(LogError::Truncated { partition, wanted, head: Position::from_raw(head), lost });
        };
        let path = segment_path(&self.dir, base);
        if let Some(end) = bases.get(after).copied() {
            return Ok(Some(Span { path, base, end, newest: false, proven: false }));
        }
        let length = self.context.storage.open(&path, Access::Read).and_then(|mut file| file.length());
        let end = end_of_file(base, length.map_err(|error| LogError::io("open", &path, error))?);
        if position > end {
            return Err(LogError::BeyondTail { partition, wanted, tail: Position::from_raw(end) });
        }
        Ok(Some(Span { path, base, end, newest: true, proven: false }))
    }
}

impl Log for EmbeddedLogView {
    fn info(&self) -> &LogInfo {
        &self.context.info
    }

    fn writer<'a>(
        &'a self,
        _partition: u32,
        _producer: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn LogWriter>, LogError>> {
        self.read_only()
    }

    fn reader(&self, partition: u32, from: Position) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        Box::pin(async move {
            let partition = Arc::clone(self.partition(partition)?);
            let arrivals = Arrivals::Looked(Duration::from_millis(self.context.options.poll_ms));
            Ok(Box::new(EmbeddedReader::new(partition, from, arrivals)) as Box<dyn LogReader>)
        })
    }

    fn head(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        Box::pin(async move {
            let partition = Arc::clone(self.partition(partition)?);
            blocking(&self.info().name, move || partition.head().map(Position::from_raw)).await
        })
    }

    fn tail(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        Box::pin(async move {
            let partition = Arc::clone(self.partition(partition)?);
            blocking(&self.info().name, move || partition.tail().map(Position::from_raw)).await
        })
    }

    fn truncate_before(&self, _partition: u32, _before: Position) -> BoxFuture<'_, Result<Position, LogError>> {
        self.read_only()
    }

    fn retain(&self, _now_ms: i64) -> BoxFuture<'_, Result<u64, LogError>> {
        self.read_only()
    }

    fn distance(&self, partition: u32, from: Position, to: Position) -> Result<Distance, LogError> {
        self.partition(partition)?;
        Ok(byte_distance(from, to))
    }

    fn stats(&self) -> LogStats {
        self.context.counters.snapshot()
    }
}
