//! A handle that appends to a partition of the embedded log.

use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::debug;

use super::commit::Request;
use super::frame::{self, FRAME_HEADER};
use super::log::Core;
use super::partition::Partition;
use super::storage::length_of;
use crate::stats::Counters;
use crate::{BoxFuture, LogError, LogWriter};

/// Bytes of a batch that are committed at once. Larger batches are committed piece by piece, in order.
const PIECE_BYTES: usize = 4 * 1024 * 1024;

/// A handle that appends to a partition. It keeps the log open, and with it the lock.
pub(crate) struct EmbeddedWriter {
    _open: Arc<Core>,
    partition: Arc<Partition>,
    producer: String,
}

impl EmbeddedWriter {
    pub fn new(core: Arc<Core>, partition: Arc<Partition>, producer: &str) -> Self {
        debug!(log = %partition.context.info.name, partition = partition.number, producer, "writer opened");
        Self { _open: core, partition, producer: producer.to_owned() }
    }

    /// Refuses a batch before any of it is written.
    fn check(&self, payloads: &[&[u8]]) -> Result<(), LogError> {
        let limit = self.partition.context.options.max_record_bytes;
        let Some(large) = payloads.iter().find(|payload| payload.len() > limit) else { return Ok(()) };
        let context = &self.partition.context;
        Counters::add(&context.counters.appends_refused, 1);
        debug!(log = %context.info.name, producer = self.producer, bytes = large.len(), "record refused");
        let log = context.info.name.clone();
        Err(LogError::RecordTooLarge { log, bytes: length_of(large.len()), limit: length_of(limit) })
    }

    async fn append_all(&self, mut payloads: &[&[u8]], now_ms: i64) -> Result<(), LogError> {
        self.check(payloads)?;
        let most = PIECE_BYTES.min(usize::try_from(self.partition.context.options.queue_bytes).unwrap_or(PIECE_BYTES));
        while !payloads.is_empty() {
            let (records, bytes) = piece(payloads, most);
            let (now, later) = payloads.split_at(records);
            self.commit(now, bytes, now_ms).await?;
            payloads = later;
        }
        Ok(())
    }

    async fn commit(&self, payloads: &[&[u8]], bytes: usize, now_ms: i64) -> Result<(), LogError> {
        let closed = || self.partition.context.closed();
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.partition.space).acquire_many_owned(permits).await.map_err(|_| closed())?;
        let mut frames = Vec::with_capacity(bytes);
        for payload in payloads {
            frame::encode(&mut frames, payload, now_ms);
        }
        let (done, outcome) = oneshot::channel();
        let records = length_of(payloads.len());
        self.partition.submit(Request { frames, records, appended_at_ms: now_ms, done, room });
        outcome.await.unwrap_or_else(|_| Err(closed()))
    }
}

/// How many of the first payloads, at least one, fit into so many bytes, and how many bytes they take.
fn piece(payloads: &[&[u8]], most: usize) -> (usize, usize) {
    let mut total = 0;
    for (at, payload) in payloads.iter().enumerate() {
        let with_this = total + payload.len() + FRAME_HEADER;
        if at > 0 && with_this > most {
            return (at, total);
        }
        total = with_this;
    }
    (payloads.len(), total)
}

impl LogWriter for EmbeddedWriter {
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
    fn batches_are_cut_into_pieces_that_fit() {
        let payloads: [&[u8]; 3] = [&[0; 10], &[0; 20], &[0; 30]];
        assert_eq!(piece(&payloads, 62), (2, 62));
        assert_eq!(piece(&payloads, 61), (1, 26));
        assert_eq!(piece(&payloads, 1), (1, 26));
        assert_eq!(piece(&payloads, 1_000), (3, 108));
    }
}
