//! Reading.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use tokio::time::{Instant, timeout_at};
use weir_streams::{BoxFuture, Counters, LogError, LogReader, Position, Record};

use crate::core::{CHECK_EVERY, Core};
use crate::health::{Listener, is_denied, is_gone, is_of_group};
use crate::options::length;
use crate::record::{is_hidden, time_of};
use crate::server::{Bounds, at, discard, is_misplaced, pause};

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
    /// When something came last.
    heard: Instant,
    /// A gap that was looked into: the server has nothing in between.
    known_gap: Option<u64>,
    /// What the client said last, if nothing has come since.
    trouble: Option<KafkaError>,
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
        let (consumer, placed, known_gap, trouble) = (None, false, None, None);
        Self { core, partition, number, position, consumer, placed, heard: Instant::now(), known_gap, trouble }
    }

    async fn read_some(&mut self, max_records: usize, wait: Duration) -> Result<Vec<Record>, LogError> {
        if max_records == 0 {
            return Ok(Vec::new());
        }
        let deadline = Instant::now() + wait;
        loop {
            // What the client holds may be of another topic by now.
            self.core.check_life().await?;
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
        self.check_position(self.core.bounds(self.partition).await?)?;
        let consumer = match self.consumer.take() {
            Some(consumer) => consumer,
            None => self.core.server.consumer().map_err(|error| self.explain(&error))?,
        };
        let place = at(&self.core.info.name, self.number, self.position);
        let assigned = place.and_then(|place| consumer.assign(&place));
        self.consumer = Some(consumer);
        assigned.map_err(|error| self.explain(&error))?;
        self.placed = true;
        self.trouble = None;
        Ok(())
    }

    fn action(&self) -> String {
        format!("read partition {} of topic {}", self.partition, self.core.info.name)
    }

    fn explain(&self, error: &KafkaError) -> LogError {
        let server = &self.core.server;
        server.health().explain(&self.action(), error, server.options.request_timeout())
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
        let (mut stop, began) = (None, self.position);
        while stop.is_none() && taken.records.len() < max_records && taken.bytes < READ_BYTES {
            // Once there is something, only what is at hand is added, so that nothing taken can be dropped.
            let received = if taken.records.is_empty() {
                timeout_at(until, consumer.recv()).await.ok()
            } else {
                consumer.recv().now_or_never()
            };
            match received {
                None => break,
                Some(Ok(_)) if in_doubt(&mut self.heard, &self.core) => stop = Some(Ok(Taken::Misplaced)),
                Some(Ok(message)) if taken.add(&message, self.known_gap) => {
                    self.position = taken.position;
                    stop = (taken.records.is_empty() && self.position > began).then_some(Ok(Taken::Hidden));
                }
                Some(Ok(_)) => stop = Some(Ok(Taken::Misplaced)),
                Some(Err(error)) if is_misplaced(&error) || is_gone(&error) => stop = Some(Ok(Taken::Misplaced)),
                Some(Err(error)) if is_denied(&error) => stop = Some(Err(error)),
                // The client goes on by itself; if it does not get far, that is found out at the end of the wait.
                Some(Err(error)) if !is_of_group(&error) => self.trouble = Some(error),
                Some(Err(_)) => {}
            }
        }
        self.hand_out(taken, stop)
    }

    /// What was taken, and what follows from why nothing more was.
    fn hand_out(&mut self, taken: Collector, stop: Option<Result<Taken, KafkaError>>) -> Result<Taken, LogError> {
        self.placed &= matches!(stop, None | Some(Ok(Taken::Hidden)));
        self.known_gap = taken.gap.or(self.known_gap);
        if matches!(stop, Some(Err(_))) {
            // A client says it once; the next one says it again.
            self.consumer.take().into_iter().for_each(discard);
            Counters::add(&self.core.server.known().counters.readers_recreated, 1);
        }
        if taken.records.is_empty() {
            return stop.unwrap_or(Ok(Taken::Nothing)).map_err(|error| self.explain(&error));
        }
        self.trouble = None;
        let known = self.core.server.known();
        known.saw(self.partition, self.position);
        Counters::add(&known.counters.records_read, length(taken.records.len()));
        Ok(Taken::Records(taken.records))
    }

    /// Nothing came. That is fine, if the server is there to say so.
    async fn come_back_empty(&mut self, wait: Duration) -> Result<Vec<Record>, LogError> {
        match self.trouble.take() {
            Some(error) if self.patience().await?.is_some() => {
                let why = self.explain(&error);
                self.trouble = Some(error);
                return Err(why);
            }
            None if wait.is_zero() => {
                let server = &self.core.server;
                return Err(server.health().late(&self.action(), server.options.request_timeout()));
            }
            _ => {}
        }
        if self.core.server.health().current().is_some() {
            self.core.bounds(self.partition).await?;
        }
        Ok(Vec::new())
    }
}

/// Whether another log may have taken the place of this one while nothing came. Then that is looked into before anything is read, and
/// what is ours comes again.
fn in_doubt(heard: &mut Instant, core: &Core) -> bool {
    let doubt = heard.elapsed() > CHECK_EVERY;
    *heard = Instant::now();
    if doubt {
        core.server.health().suspect();
    }
    doubt
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
            discard(consumer);
        }
    }
}
