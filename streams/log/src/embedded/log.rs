//! The embedded log, opened to write.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::context::{Context, blocking};
use super::meta::{LOCK_FILE, Meta, check_vacant};
use super::options::EmbeddedOptions;
use super::partition::Partition;
use super::reader::{Arrivals, EmbeddedReader};
use super::recovery::{RecoveryReport, recover};
use super::segment::partition_dir;
use super::storage::{Disk, Storage};
use super::writer::EmbeddedWriter;
use crate::{
    BoxFuture, Distance, Incarnation, Log, LogError, LogInfo, LogReader, LogStats, LogWriter, PARTITION_HASH, Position,
};

/// A log in a directory of the local file system. It needs no server, and only one process writes to it.
///
/// Each partition is a directory of segment files. Appends that wait at the same time are written and made durable
/// together. What cannot be made durable is not acknowledged.
pub struct EmbeddedLog {
    core: Arc<Core>,
    recovery: Vec<RecoveryReport>,
}

/// What the log and its writers share. The lock is given back when the last of them is gone.
pub(crate) struct Core {
    context: Arc<Context>,
    partitions: Vec<Arc<Partition>>,
    _lock: Box<dyn Send + Sync>,
}

impl Drop for Core {
    fn drop(&mut self) {
        // An append whose caller gave up may still be being written. The lock must not be given back before it is done.
        for partition in &self.partitions {
            partition.close();
        }
    }
}

impl EmbeddedLog {
    /// Opens the log in a directory to write, and makes it if there is none. `now_ms` is noted as the time of its creation.
    ///
    /// What a crash left half-written is cut off; [`EmbeddedLog::recovery`] says how much that was.
    ///
    /// # Errors
    /// Refuses options that contradict each other or the log, directories that hold something else, logs of newer
    /// versions, and logs that somebody else writes to. Fails when the storage fails.
    pub async fn open(dir: impl Into<PathBuf>, options: EmbeddedOptions, now_ms: i64) -> Result<Self, LogError> {
        let dir = dir.into();
        let name = dir.display().to_string();
        blocking(&name, move || Self::open_on(Arc::new(Disk), &dir, options, now_ms)).await
    }

    /// What was found in each partition when the log was opened.
    #[must_use]
    pub fn recovery(&self) -> &[RecoveryReport] {
        &self.recovery
    }

    #[cfg(test)]
    pub(super) fn partition_for_tests(&self, partition: usize) -> &Arc<Partition> {
        &self.core.partitions[partition]
    }

    pub(crate) fn open_on(
        storage: Arc<dyn Storage>,
        dir: &Path,
        options: EmbeddedOptions,
        now_ms: i64,
    ) -> Result<Self, LogError> {
        options.check()?;
        let (lock, meta) = claim(storage.as_ref(), dir, &options, now_ms)?;
        let info = describe(dir, &meta);
        check_shape(&info, &options)?;
        let context = Arc::new(Context::new(storage, info, options));
        let mut partitions = Vec::new();
        let mut recovery = Vec::new();
        for number in 0..context.info.partitions {
            let recovered = recover(&context, dir, number)?;
            recovery.push(recovered.report.clone());
            let dir = partition_dir(dir, number);
            partitions.push(Arc::new(Partition::new(Arc::clone(&context), number, dir, recovered)));
        }
        Ok(Self { core: Arc::new(Core { context, partitions, _lock: lock }), recovery })
    }
}

type Lock = Box<dyn Send + Sync>;

/// Takes the lock, and makes the log if there is none.
fn claim(storage: &dyn Storage, dir: &Path, options: &EmbeddedOptions, now_ms: i64) -> Result<(Lock, Meta), LogError> {
    storage.create_dir(dir).map_err(|error| LogError::io("create", dir, error))?;
    // A directory of somebody else's is not to get a lock file.
    if Meta::load(storage, dir)?.is_none() {
        check_vacant(storage, dir)?;
    }
    let path = dir.join(LOCK_FILE);
    let lock = storage.lock(&path).map_err(|error| LogError::io("lock", &path, error))?;
    let Some(lock) = lock else { return Err(LogError::Locked { lock: path }) };
    if let Some(meta) = Meta::load(storage, dir)? {
        return Ok((lock, meta));
    }
    // The description comes last: a log that has one has all its directories.
    for partition in 0..options.partitions {
        let path = partition_dir(dir, partition);
        storage.create_dir(&path).map_err(|error| LogError::io("create", &path, error))?;
    }
    for dir in dir.parent().filter(|parent| !parent.as_os_str().is_empty()).into_iter().chain([dir]) {
        storage.sync_dir(dir).map_err(|error| LogError::io("sync", dir, error))?;
    }
    let meta = Meta::new(Incarnation::generate(now_ms), options.partitions, PARTITION_HASH, now_ms);
    meta.store(storage, dir)?;
    tracing::info!(log = %dir.display(), incarnation = %meta.incarnation, partitions = meta.partitions, "log made");
    Ok((lock, meta))
}

/// What a log is, from what its directory says.
pub(crate) fn describe(dir: &Path, meta: &Meta) -> LogInfo {
    LogInfo {
        name: dir.display().to_string(),
        incarnation: meta.incarnation,
        partitions: meta.partitions,
        hash: meta.hash.clone(),
    }
}

fn check_shape(info: &LogInfo, options: &EmbeddedOptions) -> Result<(), LogError> {
    let log = info.name.clone();
    if info.partitions != options.partitions {
        return Err(LogError::PartitionCount { log, wanted: options.partitions, found: info.partitions });
    }
    check_hash(info)
}

/// Refuses a log whose keys lie elsewhere than this program would look for them.
pub(crate) fn check_hash(info: &LogInfo) -> Result<(), LogError> {
    if info.hash == PARTITION_HASH {
        return Ok(());
    }
    let (wanted, found) = (PARTITION_HASH.to_owned(), info.hash.clone());
    Err(LogError::PartitionHash { log: info.name.clone(), wanted, found })
}

impl Core {
    fn partition(&self, partition: u32) -> Result<&Arc<Partition>, LogError> {
        self.context.info.check_partition(partition)?;
        let found = usize::try_from(partition).ok().and_then(|at| self.partitions.get(at));
        found.ok_or_else(|| self.context.closed())
    }

    /// Old records first; then, if that is still too much, the oldest segments of all partitions.
    fn retain(&self, now_ms: i64) -> Result<u64, LogError> {
        let options = &self.context.options;
        let mut freed = 0;
        for partition in &self.partitions {
            freed += partition.retain_since(now_ms.saturating_sub(options.retain_age_ms))?;
        }
        let mut total: u64 = self.partitions.iter().map(|partition| partition.index().bytes()).sum();
        while total > options.retain_bytes {
            let dated = self.partitions.iter().filter_map(|partition| Some((partition.oldest_closed_ms()?, partition)));
            let Some((_, oldest)) = dated.min_by_key(|(newest_ms, _)| *newest_ms) else { break };
            let removed = oldest.give_up_oldest()?;
            freed += removed;
            total = total.saturating_sub(removed);
        }
        Ok(freed)
    }
}

impl Log for EmbeddedLog {
    fn info(&self) -> &LogInfo {
        &self.core.context.info
    }

    fn writer<'a>(&'a self, partition: u32, producer: &'a str) -> BoxFuture<'a, Result<Box<dyn LogWriter>, LogError>> {
        Box::pin(async move {
            let partition = Arc::clone(self.core.partition(partition)?);
            let writer = EmbeddedWriter::new(Arc::clone(&self.core), partition, producer);
            Ok(Box::new(writer) as Box<dyn LogWriter>)
        })
    }

    fn reader(&self, partition: u32, from: Position) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        Box::pin(async move {
            let partition = Arc::clone(self.core.partition(partition)?);
            let arrivals = Arrivals::Told(partition.news.subscribe());
            Ok(Box::new(EmbeddedReader::new(partition, from, arrivals)) as Box<dyn LogReader>)
        })
    }

    fn head(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        Box::pin(async move { Ok(Position::from_raw(self.core.partition(partition)?.index().head())) })
    }

    fn tail(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        Box::pin(async move { Ok(Position::from_raw(self.core.partition(partition)?.index().tail())) })
    }

    fn truncate_before(&self, partition: u32, before: Position) -> BoxFuture<'_, Result<Position, LogError>> {
        Box::pin(async move {
            let core = Arc::clone(&self.core);
            let partition = Arc::clone(self.core.partition(partition)?);
            let head = move || {
                let _open = core;
                partition.truncate(before.to_raw())?;
                let head = partition.index().head();
                Ok(Position::from_raw(head))
            };
            blocking(&self.info().name, head).await
        })
    }

    fn retain(&self, now_ms: i64) -> BoxFuture<'_, Result<u64, LogError>> {
        Box::pin(async move {
            let core = Arc::clone(&self.core);
            blocking(&self.info().name, move || core.retain(now_ms)).await
        })
    }

    fn distance(&self, partition: u32, from: Position, to: Position) -> Result<Distance, LogError> {
        self.core.partition(partition)?;
        Ok(byte_distance(from, to))
    }

    fn stats(&self) -> LogStats {
        self.core.context.counters.snapshot()
    }
}

/// Positions of the embedded log count bytes.
pub(crate) fn byte_distance(from: Position, to: Position) -> Distance {
    Distance { bytes: Some(to.to_raw().saturating_sub(from.to_raw())), records: None }
}
