//! A partition that this process writes to.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, watch};

use super::commit::Queue;
use super::context::Context;
use super::index::{Index, Segment};
use super::reader::{Extent, Span};
use super::recovery::Recovered;
use super::segment::{create_segment, segment_path};
use super::storage::{StorageFile, memory_length};
use crate::stats::Counters;
use crate::{Distance, LogError, Position};

/// A partition that this process writes to.
pub(crate) struct Partition {
    pub context: Arc<Context>,
    pub number: u32,
    dir: PathBuf,
    index: Mutex<Index>,
    /// Held while something is written. Taken before `index`, never after it.
    active: Mutex<Active>,
    /// Tells readers how far they can go.
    pub news: watch::Sender<News>,
    pub queue: Mutex<Queue>,
    /// Signalled when the queue has nobody to work it off any more.
    pub idle: Condvar,
    /// Bytes that may still be put into the queue.
    pub space: Arc<Semaphore>,
}

/// What readers wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct News {
    /// The end of what is durable.
    pub tail: u64,
    /// Whether the log was closed, so that nothing more will come.
    pub closed: bool,
}

/// The segment file that is written to.
pub(crate) struct Active {
    pub file: Box<dyn StorageFile>,
    pub path: PathBuf,
    /// Why nothing may be acknowledged any more.
    pub poisoned: Option<String>,
}

/// Locks, whether or not another thread panicked meanwhile: what is behind our locks is consistent between statements.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Active {
    /// Refuses to go on after a failure that left open what is durable.
    pub fn check(&self, partition: u32) -> Result<(), LogError> {
        match &self.poisoned {
            Some(cause) => Err(LogError::Poisoned { partition, cause: cause.clone() }),
            None => Ok(()),
        }
    }
}

impl Partition {
    pub fn new(context: Arc<Context>, number: u32, dir: PathBuf, recovered: Recovered) -> Self {
        let Recovered { index, file, path, .. } = recovered;
        let news = watch::Sender::new(News { tail: index.tail(), closed: false });
        let queue_bytes = memory_length(u64::from(context.options.queue_bytes));
        Self {
            context,
            number,
            dir,
            index: Mutex::new(index),
            active: Mutex::new(Active { file, path, poisoned: None }),
            news,
            queue: Mutex::default(),
            idle: Condvar::new(),
            space: Arc::new(Semaphore::new(queue_bytes)),
        }
    }

    pub fn index(&self) -> MutexGuard<'_, Index> {
        locked(&self.index)
    }

    pub fn active(&self) -> MutexGuard<'_, Active> {
        locked(&self.active)
    }

    /// Waits until nothing is being written, and tells the readers that nothing more will come.
    pub fn close(&self) {
        let mut queue = locked(&self.queue);
        while queue.is_worked_off() {
            queue = self.idle.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        self.news.send_modify(|news| news.closed = true);
    }

    /// Closes the segment that is written to, and begins another one. The caller has made sure that it is not empty.
    pub fn roll(&self, active: &mut Active) -> Result<(), LogError> {
        let base = self.index().tail();
        let storage = self.context.storage.as_ref();
        match create_segment(storage, &self.dir, self.context.info.incarnation, self.number, base) {
            Ok(file) => {
                active.file = file;
                active.path = segment_path(&self.dir, base);
                self.index().rolled();
                Counters::add(&self.context.counters.syncs, 1);
                Ok(())
            }
            Err(error) => {
                // A leftover would be in the way of the next try, and of whatever the old segment still takes.
                let path = segment_path(&self.dir, base);
                let removed = storage.remove(&path).or_else(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                });
                let unsure = matches!(&error, LogError::Io { action: "sync", .. }) || removed.is_err();
                if unsure {
                    active.poisoned = Some(error.to_string());
                }
                active.check(self.number)?;
                Err(error)
            }
        }
    }

    /// Gives up whole segments before a position, and says how many bytes that freed.
    pub fn truncate(&self, before: u64) -> Result<u64, LogError> {
        let mut active = self.active();
        let tail = self.index().tail();
        let is_before = |_: &Segment, end: u64| end <= before.min(tail);
        let freed = self.remove_closed(is_before)?;
        // What is written to goes last: beginning another segment takes space, which the disk may have only now.
        let newest = self.index().newest();
        if before < tail || newest.base == tail || active.poisoned.is_some() {
            return Ok(freed);
        }
        self.roll(&mut active)?;
        Ok(freed + self.remove_closed(is_before)?)
    }

    /// Gives up segments whose records all are too old, the one that is written to included.
    pub fn retain_since(&self, oldest_kept_ms: i64) -> Result<u64, LogError> {
        let mut active = self.active();
        let is_old = |segment: &Segment, _: u64| segment.newest_ms.is_some_and(|newest_ms| newest_ms < oldest_kept_ms);
        let freed = self.remove_closed(is_old)?;
        let newest = self.index().newest();
        if !is_old(&newest, newest.base) || active.poisoned.is_some() {
            return Ok(freed);
        }
        self.roll(&mut active)?;
        Ok(freed + self.remove_closed(is_old)?)
    }

    /// Deletes the oldest segments as long as they are to go; never the one that is written to.
    fn remove_closed(&self, is_to_go: impl Fn(&Segment, u64) -> bool) -> Result<u64, LogError> {
        let mut freed = 0;
        while self.index().oldest_closed().is_some_and(|(segment, end)| is_to_go(&segment, end)) {
            freed += self.remove_oldest()?;
        }
        Ok(freed)
    }

    /// Deletes the oldest segment. The index forgets it first, so that readers are told that it is gone.
    fn remove_oldest(&self) -> Result<u64, LogError> {
        let Some((segment, end)) = self.index().oldest_closed() else { return Ok(0) };
        self.index().drop_oldest();
        let path = segment_path(&self.dir, segment.base);
        let storage = self.context.storage.as_ref();
        storage.remove(&path).map_err(|error| LogError::io("delete", &path, error))?;
        storage.sync_dir(&self.dir).map_err(|error| LogError::io("sync", &self.dir, error))?;
        let freed = end - segment.base;
        Counters::add(&self.context.counters.bytes_removed, freed);
        Ok(freed)
    }

    /// The time of the oldest segment that can be given up.
    pub fn oldest_closed_ms(&self) -> Option<i64> {
        self.index().oldest_closed().map(|(segment, _)| segment.newest_ms.unwrap_or(i64::MIN))
    }

    /// Gives up the oldest segment, if it is not the one that is written to.
    pub fn give_up_oldest(&self) -> Result<u64, LogError> {
        let _writing_waits = self.active();
        self.remove_oldest()
    }
}

impl Extent for Partition {
    fn context(&self) -> &Context {
        &self.context
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn locate(&self, position: u64) -> Result<Option<Span>, LogError> {
        let index = self.index();
        let (partition, wanted) = (self.number, Position::from_raw(position));
        if position > index.tail() {
            return Err(LogError::BeyondTail { partition, wanted, tail: Position::from_raw(index.tail()) });
        }
        let Some((segment, end, newest)) = index.find(position) else {
            let head = index.head();
            let lost = Distance { bytes: Some(head.saturating_sub(position)), records: None };
            return Err(LogError::Truncated { partition, wanted, head: Position::from_raw(head), lost });
        };
        let path = segment_path(&self.dir, segment.base);
        Ok(Some(Span { path, base: segment.base, end, newest, proven: true }))
    }
}
