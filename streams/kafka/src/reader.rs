//! Reading.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use tokio::time::{Instant, timeout_at};
use weir_streams::{BoxFuture, LogError, LogReader, Position, Record};

use crate::core::Core;
use crate::health::{Listener, is_gone};
use crate::options::length;
use crate::record::{is_hidden, time_of};
use crate::server::{Bounds, at, is_misplaced, pause};
use crate::stats::add;

/// Payload after which a read ends although more would be there.
const READ_BYTES: usize = 4 * 1024 * 1024;
/// Before the reader places itself again after it was thrown out.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct KafkaReader {
    core: Arc<Core>,
    partition: u32,
    number: i32,
    position: u64,
    consumer: Option<StreamConsumer<Listener>>,
    /// Whether the client reads from our position on.
    placed: bool,
    /// Suspicions that were looked into before the last placing.
    suspicions: u64,
    /// A gap that was looked into: the server has nothing in between.
    known_gap: Option<u64>,
}

/// What a look into the client's queue gave.
enum Taken {
    Records(Vec<Record>),
    /// Only what is not to be seen: the birth, or one that lost the race.
    Hidden,
    /// The time is over.
    Nothing,
    /// The client has to be placed again.
    Misplaced,
}

impl KafkaReader {
    pub fn new(core: Arc<Core>, partition: u32, number: i32, from: Position) -> Self {
        let position = from.to_raw();
        let suspicions = core.server.health().suspicions();
        Self { core, partition, number, position, consumer: None, placed: false, suspicions, known_gap: None }
    }

    async fn read_some(&mut self, max_records: usize, wait: Duration) -> Result<Vec<Record>, LogError> {
        if max_records == 0 {
            return Ok(Vec::new());
        }
        let deadline = Instant::now() + wait;
        loop {
            self.core.check_lost()?;
            let suspicions = self.core.server.health().suspicions();
            if self.suspicions != suspicions {
                // What the client holds may be of another topic by now.
                self.core.check_life().await?;
                self.suspicions = suspicions;
            }
            self.place().await?;
            let patience = if wait.is_zero() { self.patience().await? } else { Some(deadline) };
            let Some(until) = patience else { return Ok(Vec::new()) };
            match self.take(max_records, until).await? {
                Taken::Records(records) => return Ok(records),
                // It may have been the last: whether there is more is asked before that is waited for.
                Taken::Hidden => {}
                Taken::Nothing => return self.come_back_empty(wait).await,
                Taken::Misplaced => {
                    self.placed = false;
                    pause(PAUSE).await;
                }
            }
        }
    }

    /// Makes the client read from our position on, if there is something or will be.
    async fn place(&mut self) -> Result<(), LogError> {
        if self.placed {
            return Ok(());
        }
        self.core.check_life().await?;
        self.check_position(self.core.bounds(self.partition).await?)?;
        let failed = |error: KafkaError| {
            let options = &self.core.server.options;
            let action = format!("read topic {}", options.topic);
            self.core.server.health().explain(&action, &error, options.request_timeout())
        };
        if self.consumer.is_none() {
            self.consumer = Some(self.core.server.consumer().map_err(failed)?);
        }
        if let Some(consumer) = &self.consumer {
            let place = at(&self.core.info.name, self.number, self.position).map_err(failed)?;
            consumer.assign(&place).map_err(failed)?;
        }
        self.placed = true;
        Ok(())
    }

    fn check_position(&self, bounds: Bounds) -> Result<(), LogError> {
        let (partition, wanted) = (self.partition, Position::from_raw(self.position));
        let (head, tail) = (Position::from_raw(bounds.low), Position::from_raw(bounds.high));
        let lost = self.core.distance(partition, wanted, head);
        // Only the birth may lie between a position and the head without being missed.
        if wanted < head && lost.records != Some(0) {
            return Err(LogError::Truncated { partition, wanted, head, lost });
        }
        if wanted > tail {
            return Err(LogError::BeyondTail { partition, wanted, tail });
        }
        Ok(())
    }

    /// How long to wait for what is there already; not at all, if there is nothing.
    async fn patience(&mut self) -> Result<Option<Instant>, LogError> {
        let bounds = self.core.bounds(self.partition).await?;
        self.check_position(bounds)?;
        let last = self.position >= bounds.high || (self.position + 1 == bounds.high && bounds.low == bounds.high);
        Ok((!last).then(|| Instant::now() + self.core.server.options.request_timeout()))
    }

    /// Records that the client has, or gets until then.
    async fn take(&mut self, max_records: usize, until: Instant) -> Result<Taken, LogError> {
        let Some(consumer) = &self.consumer else { return Ok(Taken::Misplaced) };
        let mut taken = Collector { records: Vec::new(), bytes: 0, position: self.position, gap: None };
        let began = self.position;
        let mut misplaced = false;
        while taken.records.len() < max_records && taken.bytes < READ_BYTES {
            // Once there is something, only what is at hand is added, so that nothing taken can be dropped.
            let received = if taken.records.is_empty() {
                timeout_at(until, consumer.recv()).await.ok()
            } else {
                consumer.recv().now_or_never()
            };
            match received {
                None => break,
                Some(Ok(message)) => {
                    if !taken.add(&message, self.known_gap) {
                        misplaced = true;
                        break;
                    }
                    self.position = taken.position;
                    if taken.records.is_empty() && self.position > began {
                        return Ok(Taken::Hidden);
                    }
                }
                Some(Err(error)) if is_misplaced(&error) || is_gone(&error) => {
                    misplaced = true;
                    break;
                }
                // The client goes on by itself; if it does not get far, that is found out at the end of the wait.
                Some(Err(_)) => {}
            }
        }
        self.placed &= !misplaced;
        self.known_gap = taken.gap.or(self.known_gap);
        if taken.records.is_empty() {
            return Ok(if misplaced { Taken::Misplaced } else { Taken::Nothing });
        }
        let known = self.core.server.known();
        known.saw(self.partition, self.position);
        add(&known.counters.records_read, length(taken.records.len()));
        Ok(Taken::Records(taken.records))
    }

    /// Nothing came. That is fine, if the server is there to say so.
    async fn come_back_empty(&self, wait: Duration) -> Result<Vec<Record>, LogError> {
        let server = &self.core.server;
        if wait.is_zero() {
            let action = format!("read partition {} of topic {}", self.partition, self.core.info.name);
            return Err(server.health().late(&action, server.options.request_timeout()));
        }
        if server.health().current().is_some() {
            self.core.bounds(self.partition).await?;
        }
        Ok(Vec::new())
    }
}

/// What one read brings together.
struct Collector {
    records: Vec<Record>,
    bytes: usize,
    position: u64,
    gap: Option<u64>,
}

impl Collector {
    /// Adds what a message holds. Not, if it shows a gap that nobody has looked into yet.
    fn add(&mut self, message: &BorrowedMessage<'_>, known_gap: Option<u64>) -> bool {
        let Ok(offset) = u64::try_from(message.offset()) else { return true };
        if offset < self.position {
            return true;
        }
        if offset > self.position && known_gap != Some(offset) {
            self.gap = Some(offset);
            return false;
        }
        self.position = offset + 1;
        if is_hidden(message) {
            return true;
        }
        let payload = message.payload().unwrap_or_default().to_vec();
        self.bytes += payload.len();
        let next = Position::from_raw(self.position);
        self.records.push(Record { payload, next, appended_at_ms: time_of(message) });
        true
    }
}

impl LogReader for KafkaReader {
    fn read(&mut self, max_records: usize, wait: Duration) -> BoxFuture<'_, Result<Vec<Record>, LogError>> {
        Box::pin(self.read_some(max_records, wait))
    }

    fn seek(&mut self, to: Position) {
        self.position = to.to_raw();
        self.placed = false;
    }

    fn position(&self) -> Position {
        Position::from_raw(self.position)
    }
}

impl Drop for KafkaReader {
    fn drop(&mut self) {
        // Closing waits for the client's threads.
        if let Some(consumer) = self.consumer.take() {
            crate::server::discard(consumer);
        }
    }
}
