//! A handle that appends.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use weir_streams::{BoxFuture, Counters, LogError, LogWriter};

use crate::frame::{OVERHEAD, count, envelope};
use crate::lane::{Job, Lane};
use crate::shared::Shared;

/// Bytes of a batch that are handed over together, and counted against the bound together.
const CHUNK_BYTES: usize = 256 * 1024;
/// Events of a batch that are handed over together. The client sends no more in one piece.
const CHUNK_EVENTS: usize = 500;
/// What an event takes in memory beside its bytes.
const EVENT_MEMORY: usize = 512;

pub(crate) struct PravegaWriter {
    shared: Arc<Shared>,
    partition: u32,
    lane: Lane,
}

impl PravegaWriter {
    pub fn new(shared: Arc<Shared>, partition: u32) -> Result<Self, LogError> {
        let lane = Lane::of(&shared, partition)?;
        Ok(Self { shared, partition, lane })
    }

    async fn append_all(&mut self, payloads: &[&[u8]], now_ms: i64) -> Result<(), LogError> {
        if let Err(refusal) = self.check_sizes(payloads).and_then(|()| self.shared.check_alive()) {
            Counters::add(&self.shared.link.counters.appends_refused, 1);
            return Err(refusal);
        }
        let appended = self.append_in_chunks(payloads, now_ms).await;
        if appended.is_err() {
            Counters::add(&self.shared.link.counters.appends_failed, 1);
        }
        appended
    }

    async fn append_in_chunks(&mut self, payloads: &[&[u8]], now_ms: i64) -> Result<(), LogError> {
        // The task of a lane ends only by a fault of ours; the next append gets a new one.
        self.lane = Lane::of(&self.shared, self.partition)?;
        let generation = self.lane.generation();
        let mut waiting = Vec::new();
        let mut rest = payloads;
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(chunk_length(rest));
            rest = after;
            waiting.push(self.hand_over(chunk, now_ms, generation).await?);
        }
        for done in waiting {
            done.await.map_err(|_| self.ended())??;
        }
        Ok(())
    }

    fn check_sizes(&self, payloads: &[&[u8]]) -> Result<(), LogError> {
        let limit = self.shared.max_record_bytes;
        let Some(large) = payloads.iter().find(|payload| payload.len() > limit) else { return Ok(()) };
        Err(LogError::RecordTooLarge {
            log: self.shared.info.name.clone(),
            bytes: count(large.len()),
            limit: count(limit),
        })
    }

    /// Waits until there is room, and gives a chunk to the lane.
    async fn hand_over(
        &self,
        chunk: &[&[u8]],
        now_ms: i64,
        generation: u64,
    ) -> Result<oneshot::Receiver<Result<(), LogError>>, LogError> {
        let patience = self.shared.link.timeouts.acknowledgement;
        let permit = tokio::time::timeout(patience, self.room(chunk));
        let permit = permit.await.map_err(|_| self.late(patience))?.map_err(|_| self.ended())?;
        let events: Vec<Vec<u8>> = chunk.iter().map(|payload| envelope(self.shared.seal, now_ms, payload)).collect();
        let bytes = chunk.iter().map(|payload| count(payload.len() + OVERHEAD)).sum();
        let (done, outcome) = oneshot::channel();
        let deadline = Instant::now() + patience;
        let job = Job { generation, events, bytes, deadline, done, permit };
        self.lane.send(job).map_err(|()| self.ended())?;
        Ok(outcome)
    }

    async fn room(&self, chunk: &[&[u8]]) -> Result<tokio::sync::OwnedSemaphorePermit, tokio::sync::AcquireError> {
        let memory: usize = chunk.iter().map(|payload| payload.len() + EVENT_MEMORY).sum();
        // One record may be larger than the bound, and then goes alone.
        let share = u32::try_from(memory.min(self.shared.max_waiting_bytes)).unwrap_or(u32::MAX);
        Arc::clone(&self.lane.budget).acquire_many_owned(share).await
    }

    fn late(&self, waited: Duration) -> LogError {
        self.shared.link.timed_out(&format!("append to partition {}", self.partition), waited)
    }

    fn ended(&self) -> LogError {
        self.shared.link.unreachable(&format!("append to partition {}", self.partition), "the writer's task has ended")
    }
}

/// How many of the payloads, at least one, make up a chunk.
fn chunk_length(payloads: &[&[u8]]) -> usize {
    let mut bytes = 0;
    let fits = |payload: &&&[u8]| {
        bytes += payload.len();
        bytes <= CHUNK_BYTES
    };
    payloads.iter().take(CHUNK_EVENTS).take_while(fits).count().max(1)
}

impl LogWriter for PravegaWriter {
    fn append<'a>(&'a mut self, payload: &'a [u8], now_ms: i64) -> BoxFuture<'a, Result<(), LogError>> {
        Box::pin(async move { self.append_all(&[payload], now_ms).await })
    }

    fn append_batch<'a>(&'a mut self, payloads: &'a [&'a [u8]], now_ms: i64) -> BoxFuture<'a, Result<(), LogError>> {
        Box::pin(self.append_all(payloads, now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_handed_over_in_chunks() {
        let small: Vec<&[u8]> = vec![b"x"; 1200];
        assert_eq!(chunk_length(&small), CHUNK_EVENTS);
        assert_eq!(chunk_length(&small[..3]), 3);
        let large = vec![0; CHUNK_BYTES];
        assert_eq!(chunk_length(&[b"x", &large, b"y"]), 1);
        assert_eq!(chunk_length(&[&large[..], b"y"]), 1);
        let huge = vec![0; CHUNK_BYTES * 2];
        assert_eq!(chunk_length(&[&huge[..], b"y"]), 1);
    }
}
