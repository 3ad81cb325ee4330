//! Group commit: all appends of a partition that wait are written at once, made durable at once, and then acknowledged.
//!
//! Whoever appends puts its frames into the queue. If nobody works the queue off, a blocking task is started that does so
//! until it is empty; there is no thread that waits. While one group is being made durable, the next one gathers.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tracing::error;

use super::frame;
use super::partition::{Active, News, Partition, locked};
use super::segment::file_offset;
use super::storage::{length_of, write_all_at};
use crate::LogError;
use crate::stats::Counters;

/// Bytes that are written at once, if as many wait. More would make the first of them wait longer for nothing.
const GROUP_BYTES: u64 = 8 * 1024 * 1024;

/// Frames that wait to be written.
pub(crate) struct Request {
    /// Encoded, but not yet sealed.
    pub frames: Vec<u8>,
    pub records: u64,
    pub appended_at_ms: i64,
    pub done: oneshot::Sender<Result<(), LogError>>,
    /// Room in the queue, given back when the request is dropped.
    pub room: OwnedSemaphorePermit,
}

/// Requests in the order in which they will be written.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Request>,
    /// Whether a task works them off.
    worked_off: bool,
}

impl Queue {
    pub fn is_worked_off(&self) -> bool {
        self.worked_off
    }
}

/// Makes sure that a task that ends in any way does not leave requests waiting for it.
struct Shift {
    partition: Arc<Partition>,
    over: bool,
}

impl Drop for Shift {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // Never started, since the runtime is shutting down, or panicked. The requests are dropped and their appends fail.
        let mut queue = locked(&self.partition.queue);
        queue.waiting.clear();
        queue.worked_off = false;
        self.partition.idle.notify_all();
    }
}

impl Partition {
    /// Puts frames into the queue, and sees to it that somebody works it off.
    pub fn submit(self: &Arc<Self>, request: Request) {
        let mut queue = locked(&self.queue);
        queue.waiting.push_back(request);
        if queue.worked_off {
            return;
        }
        queue.worked_off = true;
        drop(queue);
        let mut shift = Shift { partition: Arc::clone(self), over: false };
        tokio::task::spawn_blocking(move || {
            while let Some(group) = shift.next_group() {
                shift.partition.finish(group);
            }
        });
    }

    /// Writes a group and tells everybody in it how that went.
    fn finish(&self, mut group: Vec<Request>) {
        let outcome = self.commit(&mut group);
        let counters = &self.context.counters;
        if let Err(error) = &outcome {
            let (log, partition) = (&self.context.info.name, self.number);
            error!(%log, partition, appends = group.len(), %error, "appends failed");
            Counters::add(&counters.appends_failed, length_of(group.len()));
        }
        for request in group {
            drop(request.room);
            // Nobody may be waiting any more; then nobody is told.
            let _ = request.done.send(outcome.clone());
        }
    }

    fn commit(&self, group: &mut [Request]) -> Result<(), LogError> {
        let mut active = self.active();
        active.check(self.number)?;
        let times = || group.iter().map(|request| request.appended_at_ms);
        let (oldest_ms, newest_ms) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        if self.is_roll_due(newest_ms) {
            self.roll(&mut active)?;
        }
        let records = group.iter().map(|request| request.records).sum();
        let mut bytes = Vec::new();
        for request in group {
            if bytes.is_empty() {
                bytes = std::mem::take(&mut request.frames);
            } else {
                bytes.extend_from_slice(&request.frames);
            }
        }
        let (base, from) = {
            let index = self.index();
            (index.newest().base, index.tail())
        };
        frame::seal(&mut bytes, from, self.context.salt);
        self.write(&mut active, file_offset(base, from), &bytes)?;

        let tail = from + length_of(bytes.len());
        self.index().advance(tail, oldest_ms, newest_ms);
        self.news.send_replace(News { tail, closed: false });
        let counters = &self.context.counters;
        Counters::add(&counters.syncs, 1);
        Counters::add(&counters.records_appended, records);
        Counters::add(&counters.bytes_appended, length_of(bytes.len()));
        Ok(())
    }

    fn is_roll_due(&self, now_ms: i64) -> bool {
        let options = &self.context.options;
        let index = self.index();
        let newest = index.newest();
        let bytes = index.tail() - newest.base;
        let age_ms = newest.oldest_ms.map_or(0, |oldest_ms| now_ms.saturating_sub(oldest_ms));
        bytes > 0 && (bytes >= options.roll_bytes() || age_ms >= options.segment_age_ms)
    }

    /// Writes bytes and makes them durable, or cuts off again whatever got written.
    fn write(&self, active: &mut Active, offset: u64, bytes: &[u8]) -> Result<(), LogError> {
        let Active { file, path, poisoned } = &mut *active;
        let written = write_all_at(file.as_mut(), offset, bytes).map_err(|error| LogError::io("write", path, error));
        let Err(error) = written.and_then(|()| {
            file.sync().map_err(|error| {
                // The system may have thrown the data away and say "synced" next time. Only the disk knows what is on it.
                *poisoned = Some(error.to_string());
                LogError::io("sync", path, error)
            })
        }) else {
            return Ok(());
        };
        if let Err(cut) = file.set_length(offset) {
            *poisoned = Some(format!("{error}; and then the unfinished write could not be cut off: {cut}"));
        }
        active.check(self.number)?;
        Err(error)
    }
}

impl Shift {
    /// What to write next; nothing, and the shift is over, when nothing waits.
    fn next_group(&mut self) -> Option<Vec<Request>> {
        let room = self.partition.room_in_segment();
        let mut queue = locked(&self.partition.queue);
        let mut group = Vec::new();
        let mut bytes = 0;
        while bytes < room.min(GROUP_BYTES) {
            let Some(request) = queue.waiting.pop_front() else { break };
            bytes += length_of(request.frames.len());
            group.push(request);
        }
        if group.is_empty() {
            queue.worked_off = false;
            self.over = true;
            self.partition.idle.notify_all();
            return None;
        }
        Some(group)
    }
}

impl Partition {
    /// Bytes that wait to be written.
    #[cfg(test)]
    pub fn queued_bytes(&self) -> u64 {
        locked(&self.queue).waiting.iter().map(|request| length_of(request.frames.len())).sum()
    }

    /// Bytes until the segment is full, or those of the next one if it is.
    fn room_in_segment(&self) -> u64 {
        let most = self.context.options.roll_bytes();
        let index = self.index();
        let left = most.saturating_sub(index.tail() - index.newest().base);
        if left == 0 { most } else { left }
    }
}
