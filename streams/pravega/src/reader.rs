//! A handle that reads.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use weir_streams::{BoxFuture, Counters, Distance, LogError, LogReader, Position, Record};

use crate::feed::{Ended, Feed};
use crate::frame::{Damage, Frame, Frames, count};
use crate::pause::Pause;
use crate::shared::{Bounds, Shared};

/// Payload bytes after which a read is enough.
const ENOUGH: usize = 4 * 1024 * 1024;

/// A look at head and tail that is under way.
struct Looking {
    /// Where the reader stood when it began: what it finds says nothing about what has been read since.
    position: u64,
    began: Instant,
    task: JoinHandle<Result<Bounds, LogError>>,
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) struct PravegaReader {
    shared: Arc<Shared>,
    partition: u32,
    frames: Frames,
    feed: Option<Feed>,
    feeds_made: u64,
    pause: Pause,
    /// Kept when a read is dropped, so that dropped reads do not pile them up.
    looking: Option<Looking>,
    /// What the last look found, if it still says something about where this reader stands.
    seen: Option<(Bounds, Instant)>,
    /// The position at which a loss was counted last: it is told until somebody seeks, and counted once.
    counted: Option<u64>,
}

impl PravegaReader {
    pub fn new(shared: Arc<Shared>, partition: u32, from: Position) -> Self {
        let frames = Frames::new(Some(shared.seal), from.to_raw());
        let pause = Pause::new(&shared.link.timeouts);
        Self { shared, partition, frames, feed: None, feeds_made: 0, pause, looking: None, seen: None, counted: None }
    }

    async fn read_some(&mut self, max_records: usize, wait: Duration) -> Result<Vec<Record>, LogError> {
        self.shared.check_alive()?;
        if max_records == 0 {
            return Ok(Vec::new());
        }
        let begun = Instant::now();
        let end = begun + wait;
        loop {
            let records = self.parse(max_records).await?;
            if !records.is_empty() {
                return Ok(records);
            }
            let (bounds, at) = self.look().await?;
            self.check_not_stuck(bounds)?;
            let more_is_there = self.frames.end() < bounds.tail;
            let until = match (more_is_there, wait.is_zero()) {
                (false, true) if at >= begun => return Ok(Vec::new()),
                (false, true) => {
                    self.seen = None;
                    continue;
                }
                // What is there is read even by those who do not want to wait for what is not.
                (true, true) => begun + self.shared.link.timeouts.call,
                (_, false) => end,
            };
            let next_look = at + self.shared.link.timeouts.quiet;
            if let Ok(arrived) = timeout_at(until.min(next_look), self.receive()).await {
                arrived?;
            } else if until <= next_look {
                return self.nothing_came(more_is_there && wait.is_zero());
            }
        }
    }

    fn nothing_came(&self, promised: bool) -> Result<Vec<Record>, LogError> {
        if promised {
            return Err(self.shared.link.timed_out(&self.action(), self.shared.link.timeouts.call));
        }
        Ok(Vec::new())
    }

    /// Takes records out of what has arrived. Damage is told once the records before it have been given out.
    async fn parse(&mut self, max_records: usize) -> Result<Vec<Record>, LogError> {
        let mut records = Vec::new();
        let mut bytes = 0;
        while records.len() < max_records && bytes < ENOUGH {
            match self.frames.next() {
                Some(Ok(Frame { appended_at_ms, payload, next })) => {
                    bytes += payload.len();
                    records.push(Record { payload, next: Position::from_raw(next), appended_at_ms });
                }
                Some(Err(damage)) if records.is_empty() => return Err(self.damage(damage).await),
                _ => break,
            }
        }
        Counters::add(&self.shared.link.counters.records_read, count(records.len()));
        Ok(records)
    }

    async fn damage(&mut self, damage: Damage) -> LogError {
        let (at, resume) = match damage {
            Damage::Unreadable { at, resume } => (at, resume),
            Damage::ForeignSeal { at, resume } => match self.shared.confirm(Duration::ZERO).await {
                Ok(()) => (at, resume),
                Err(error) => return error,
            },
            Damage::Newer { version } => {
                return LogError::NewerFormat { path: self.path(), found: version.into(), known: 1 };
            }
        };
        self.corrupt(at, resume)
    }

    fn corrupt(&mut self, at: u64, resume: u64) -> LogError {
        let lost_bytes = resume.saturating_sub(at);
        if self.counts_at(at) {
            Counters::add(&self.shared.link.counters.corrupt_bytes, lost_bytes);
        }
        LogError::Corrupt {
            path: self.path(),
            partition: self.partition,
            position: Position::from_raw(at),
            lost_bytes,
            resume: Position::from_raw(resume),
        }
    }

    /// Whether a loss at a position is to be counted, which it is once.
    fn counts_at(&mut self, at: u64) -> bool {
        self.counted.replace(at) != Some(at)
    }

    /// Events are appended whole. If all of them have arrived and no record comes of it, the length of one is wrong.
    fn check_not_stuck(&mut self, bounds: Bounds) -> Result<(), LogError> {
        let at = self.frames.offset();
        if at < bounds.tail && bounds.tail <= self.frames.end() {
            let resume = self.frames.beyond_stuck();
            return Err(self.corrupt(at, resume));
        }
        Ok(())
    }

    /// Where the partition begins and ends, asked anew if the last answer is old. Refuses a position that lies outside.
    async fn look(&mut self) -> Result<(Bounds, Instant), LogError> {
        let quiet = self.shared.link.timeouts.quiet;
        let (bounds, at) = match self.seen {
            Some((bounds, at)) if at.elapsed() < quiet => (bounds, at),
            _ => {
                let (position, at, bounds) = self.finish_look().await?;
                if position > bounds.tail {
                    return Err(self.beyond_tail(bounds.tail));
                }
                self.seen = Some((bounds, at));
                (bounds, at)
            }
        };
        let wanted = Position::from_raw(self.frames.offset());
        if wanted.to_raw() < bounds.head {
            return Err(self.truncated(wanted, bounds.head));
        }
        Ok((bounds, at))
    }

    async fn finish_look(&mut self) -> Result<(u64, Instant, Bounds), LogError> {
        let looking = match &mut self.looking {
            Some(looking) => looking,
            none => {
                let (shared, partition) = (Arc::clone(&self.shared), self.partition);
                let task = tokio::spawn(async move {
                    let bounds = shared.bounds(partition).await?;
                    shared.confirm(shared.link.timeouts.quiet).await?;
                    Ok(bounds)
                });
                none.insert(Looking { position: self.frames.offset(), began: Instant::now(), task })
            }
        };
        let (position, began, ended) = (looking.position, looking.began, (&mut looking.task).await);
        self.looking = None;
        let bounds = ended.map_err(|ended| self.shared.link.task_fault(&self.action(), ended))??;
        Ok((position, began, bounds))
    }

    fn beyond_tail(&mut self, tail: u64) -> LogError {
        self.leave();
        let wanted = Position::from_raw(self.frames.offset());
        LogError::BeyondTail { partition: self.partition, wanted, tail: Position::from_raw(tail) }
    }

    fn truncated(&mut self, wanted: Position, head: u64) -> LogError {
        let bytes = head.saturating_sub(wanted.to_raw());
        self.leave();
        LogError::Truncated {
            partition: self.partition,
            wanted,
            head: Position::from_raw(head),
            lost: Distance { bytes: Some(bytes), records: None },
        }
    }

    /// Stops reading and forgets what was seen; the position stays.
    fn leave(&mut self) {
        self.feed = None;
        self.seen = None;
        self.frames = Frames::new(Some(self.shared.seal), self.frames.offset());
    }

    /// Takes in what comes next. Nothing is lost if this future is dropped.
    async fn receive(&mut self) -> Result<(), LogError> {
        let action = self.action();
        let feed = match &mut self.feed {
            Some(feed) => feed,
            none => {
                self.pause.over().await;
                let place = self.shared.partition(self.partition)?;
                if self.feeds_made > 0 && self.pause.is_on() {
                    Counters::add(&self.shared.link.counters.readers_recreated, 1);
                }
                self.feeds_made += 1;
                none.insert(Feed::start(&self.shared.client, place.stream.clone(), place.segment, self.frames.end()))
            }
        };
        match feed.next(&self.shared.link, &action).await {
            Ok(bytes) => {
                self.pause.succeeded();
                self.frames.push(&bytes);
                Ok(())
            }
            Err(Ended::Truncated) => {
                // The next look says how much is gone.
                self.feed = None;
                self.seen = None;
                Ok(())
            }
            Err(Ended::Failed(error)) => {
                self.feed = None;
                self.seen = None;
                self.pause.failed();
                tracing::warn!(log = %self.shared.info.name, partition = self.partition, "a reader is made anew: {error}");
                let place = self.shared.partition(self.partition)?;
                Err(self.shared.note(&place.missing, error))
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.shared.partition(self.partition).map(|place| place.stream.to_string()).unwrap_or_default().into()
    }

    fn action(&self) -> String {
        format!("read partition {}", self.partition)
    }
}

impl LogReader for PravegaReader {
    fn read(&mut self, max_records: usize, wait: Duration) -> BoxFuture<'_, Result<Vec<Record>, LogError>> {
        Box::pin(self.read_some(max_records, wait))
    }

    fn seek(&mut self, to: Position) {
        let to = to.to_raw();
        self.counted = None;
        if self.feed.is_some() && self.frames.skip_to(to) {
            return;
        }
        self.feed = None;
        self.seen = None;
        self.looking = None;
        self.frames = Frames::new(Some(self.shared.seal), to);
    }

    fn position(&self) -> Position {
        Position::from_raw(self.frames.offset())
    }
}
