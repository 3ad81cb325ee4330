//! Sending records, and starting over when the client gives up for good.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::client::Client;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use tracing::warn;
use weir_streams::Counters;

use crate::KafkaOptions;
use crate::health::{Health, client_line, heard};
use crate::options::length;
use crate::record::KEY_BYTES;

/// What a record costs in memory beside its payload.
const RECORD_COST: usize = 128;
/// What it costs in a request beside its payload, at most: its key, and what the client reckons with for lengths and the like.
const WIRE_COST: usize = KEY_BYTES + 36;
/// Bytes of a batch that are under way at a time, small enough for one request. The idempotent client begins no request while
/// five records of the partition are in flight (it means five requests), and if it has more to send it spins until the answer.
const REQUEST_BYTES: usize = 1024 * 1024;
/// Bytes of a batch that are handed to the client together. A thread is busy with that for a fraction of a millisecond.
const CHUNK_BYTES: usize = 64 * 1024;

/// What is known of the log's state, by all of its clients.
pub(crate) struct Known {
    pub health: Arc<Health>,
    pub counters: Counters,
    /// For each partition, where the next record may begin at the earliest.
    tails: Vec<AtomicU64>,
    lost: OnceLock<String>,
    space: Semaphore,
    topic: String,
}

impl Known {
    pub fn new(options: &KafkaOptions) -> Self {
        let space = usize::try_from(options.queue_bytes).unwrap_or(Semaphore::MAX_PERMITS);
        Self {
            health: Arc::new(Health::new(&options.brokers)),
            counters: Counters::default(),
            tails: (0..options.partitions).map(|_| AtomicU64::new(0)).collect(),
            lost: OnceLock::new(),
            space: Semaphore::new(space.min(Semaphore::MAX_PERMITS)),
            topic: options.topic.clone(),
        }
    }

    pub fn lost(&self) -> Option<&String> {
        self.lost.get()
    }

    /// From now on, nothing of this log is used any more.
    pub fn lose(&self, problem: String) {
        warn!(log = self.topic, problem, "log lost");
        // The first finding stays.
        let _known_already = self.lost.set(problem).is_err();
    }

    /// Where a partition ended when we last heard of it.
    pub fn tail(&self, partition: u32) -> u64 {
        self.tail_of(partition).map_or(0, |tail| tail.load(Ordering::Acquire))
    }

    /// A record that ends at `next` was seen.
    pub fn saw(&self, partition: u32, next: u64) {
        if let Some(tail) = self.tail_of(partition) {
            tail.fetch_max(next, Ordering::AcqRel);
        }
    }

    fn tail_of(&self, partition: u32) -> Option<&AtomicU64> {
        self.tails.get(usize::try_from(partition).ok()?)
    }
}

/// Records that are sent together.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Records under way, and one for the sender while it is at it.
    left: AtomicUsize,
    failed: AtomicBool,
    failure: Mutex<Option<KafkaError>>,
    changed: Notify,
    counted: bool,
}

/// How a batch went wrong.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The client or the server said so.
    Failed(KafkaError),
    /// No record was acknowledged for too long. They may be yet.
    Late,
}

impl SendError {
    /// Whether the acknowledgement took too long, by the client's clock or by ours.
    pub fn is_late(&self) -> bool {
        match self {
            Self::Late => true,
            Self::Failed(error) => error.rdkafka_error_code() == Some(Code::MessageTimedOut),
        }
    }
}

impl Batch {
    fn new(counted: bool) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(1),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            changed: Notify::new(),
            counted,
        })
    }

    fn fail(&self, error: KafkaError) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    fn failure(&self) -> Option<KafkaError> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn done(&self, records: usize) {
        if self.left.fetch_sub(records, Ordering::AcqRel) == records {
            self.changed.notify_one();
        }
    }

    async fn finished(&self, patience: Duration) -> Result<(), SendError> {
        let mut left = self.left.load(Ordering::Acquire);
        while left > 0 {
            let woken = timeout(patience, self.changed.notified()).await.is_ok();
            let now = self.left.load(Ordering::Acquire);
            if !woken && now == left {
                return Err(SendError::Late);
            }
            left = now;
        }
        self.failure().map_or(Ok(()), |error| Err(SendError::Failed(error)))
    }
}

/// What a producer calls back.
pub(crate) struct Reports {
    known: Arc<Known>,
    dead: AtomicBool,
    /// For each partition, where the last record that this client had stored ends.
    stored: Vec<AtomicU64>,
}

impl Reports {
    fn note(&self, code: Option<Code>) {
        if matches!(code, Some(Code::Fatal | Code::GaplessGuarantee)) {
            self.dead.store(true, Ordering::Release);
        }
    }

    /// A record was stored at `offset`: after all that this client had stored before, or it is another topic by now.
    fn stored(&self, partition: i32, offset: i64) {
        let (Ok(partition), Ok(offset)) = (u32::try_from(partition), u64::try_from(offset)) else { return };
        let Some(stored) = usize::try_from(partition).ok().and_then(|at| self.stored.get(at)) else { return };
        let next = offset.saturating_add(1);
        let before = stored.fetch_max(next, Ordering::AcqRel);
        if next <= before {
            self.known.lose(format!("partition {partition} went back from {before} to {offset}"));
        }
        self.known.saw(partition, next);
    }
}

impl ClientContext for Reports {
    fn error(&self, error: KafkaError, reason: &str) {
        self.note(error.rdkafka_error_code());
        heard(&self.known.health, &error, reason);
    }

    fn log(&self, _: RDKafkaLogLevel, facility: &str, line: &str) {
        client_line(facility, line);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Arc<Batch>;

    fn delivery(&self, result: &DeliveryResult<'_>, batch: Arc<Batch>) {
        let (message, error) = match result {
            Ok(message) => (message, None),
            Err((error, message)) => (message, Some(error)),
        };
        let bytes = message.payload_len();
        self.known.space.add_permits(cost(bytes));
        if let Some(error) = error {
            self.note(error.rdkafka_error_code());
            self.known.health.suspect();
            batch.fail(error.clone());
        } else if batch.counted {
            Counters::add(&self.known.counters.records_appended, 1);
            Counters::add(&self.known.counters.bytes_appended, length(bytes + KEY_BYTES));
            self.stored(message.partition(), message.offset());
            self.known.health.good();
        }
        batch.done(1);
    }
}

/// One client, until it fails for good.
pub(crate) struct Generation {
    producer: Option<ThreadedProducer<Reports>>,
}

impl Generation {
    pub fn client(&self) -> KafkaResult<&Client<Reports>> {
        self.producer.as_ref().map(Producer::client).ok_or(KafkaError::Canceled)
    }

    fn is_dead(&self) -> bool {
        self.client().is_ok_and(|client| client.context().dead.load(Ordering::Acquire))
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        let producer = self.producer.take();
        // It waits for a thread, and for what the client has open.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(|| drop(producer));
        }
    }
}

/// The client that sends, and the next one once it has failed for good.
pub(crate) struct Producers {
    config: rdkafka::ClientConfig,
    patience: Duration,
    /// Room for which a batch waits at a time.
    chunk_bytes: usize,
    pub known: Arc<Known>,
    current: Mutex<Arc<Generation>>,
}

impl Producers {
    pub fn new(options: &KafkaOptions) -> KafkaResult<Self> {
        let (config, known) = (options.producer_client(), Arc::new(Known::new(options)));
        let current = Mutex::new(generation(&config, &known)?);
        // Of a small queue, everybody gets a share.
        let chunk_bytes = CHUNK_BYTES.min(known.space.available_permits() / 8);
        Ok(Self { config, patience: options.delivery_timeout(), chunk_bytes, known, current })
    }

    /// The client that is good at present.
    pub fn current(&self) -> KafkaResult<Arc<Generation>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_dead() {
            *current = generation(&self.config, &self.known)?;
            Counters::add(&self.known.counters.writers_recreated, 1);
            warn!(log = self.known.topic, "Kafka producer failed for good and was made anew");
        }
        Ok(Arc::clone(&current))
    }

    /// Sends payloads in order and waits until all are acknowledged.
    pub async fn send(&self, to: Place<'_>, key: &[u8], payloads: &[&[u8]]) -> Result<(), SendError> {
        let mut rest = payloads;
        while !rest.is_empty() {
            let (request, after) = rest.split_at(fitting(rest, REQUEST_BYTES, WIRE_COST));
            rest = after;
            self.send_request(to, key, request).await?;
        }
        Ok(())
    }

    /// Sends payloads that the client can put into one request, and waits until all are acknowledged.
    async fn send_request(&self, to: Place<'_>, key: &[u8], payloads: &[&[u8]]) -> Result<(), SendError> {
        let generation = self.current().map_err(SendError::Failed)?;
        let Some(producer) = &generation.producer else { return Err(SendError::Failed(KafkaError::Canceled)) };
        let batch = Batch::new(to.counted);
        let mut rest = payloads;
        // What was sent after a failure would be stored without what failed.
        while !rest.is_empty() && !batch.failed.load(Ordering::Acquire) {
            let (chunk, after) = rest.split_at(fitting(rest, self.chunk_bytes, RECORD_COST));
            rest = after;
            self.reserve(cost_of(chunk)).await?;
            self.enqueue(producer, to, key, chunk, &batch);
            if !rest.is_empty() {
                // A large batch must not keep a thread of the runtime to itself.
                tokio::task::yield_now().await;
            }
        }
        batch.done(1);
        batch.finished(self.patience).await
    }

    /// Hands a chunk to the client, up to the first failure. Nothing may interrupt it, or room would not be given back.
    fn enqueue(
        &self,
        producer: &ThreadedProducer<Reports>,
        to: Place<'_>,
        key: &[u8],
        chunk: &[&[u8]],
        batch: &Arc<Batch>,
    ) {
        batch.left.fetch_add(chunk.len(), Ordering::AcqRel);
        for (at, payload) in chunk.iter().enumerate() {
            let failed_before = batch.failed.load(Ordering::Acquire);
            let record = BaseRecord::with_opaque_to(to.topic, Arc::clone(batch));
            let sent = if failed_before {
                Err(KafkaError::Canceled)
            } else {
                producer.send(record.partition(to.partition).key(key).payload(*payload)).map_err(|(error, _)| error)
            };
            let Err(error) = sent else { continue };
            producer.client().context().note(error.rdkafka_error_code());
            batch.fail(error);
            self.known.space.add_permits(cost_of(&chunk[at..]));
            batch.done(chunk.len() - at);
            return;
        }
    }

    /// Waits for room. It is given back when the record is acknowledged or has failed, whatever becomes of its sender.
    async fn reserve(&self, bytes: usize) -> Result<(), SendError> {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Ok(room) = self.known.space.try_acquire_many(permits) {
            room.forget();
            return Ok(());
        }
        let room = timeout(self.patience, self.known.space.acquire_many(permits)).await;
        match room {
            Ok(Ok(room)) => room.forget(),
            Ok(Err(_closed)) => return Err(SendError::Failed(KafkaError::Canceled)),
            Err(_elapsed) => return Err(SendError::Late),
        }
        Ok(())
    }
}

/// Where records are sent to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub topic: &'a str,
    pub partition: i32,
    /// Whether these are payloads.
    pub counted: bool,
}

/// How many of the payloads, at least one, stay within a limit if each costs something beside its bytes.
fn fitting(payloads: &[&[u8]], limit: usize, beside: usize) -> usize {
    let mut bytes = 0;
    let fits = |payload: &&&[u8]| {
        bytes += payload.len() + beside;
        bytes <= limit
    };
    payloads.iter().take_while(fits).count().max(1)
}

fn cost_of(payloads: &[&[u8]]) -> usize {
    payloads.iter().map(|payload| cost(payload.len())).sum()
}

fn cost(payload_bytes: usize) -> usize {
    payload_bytes + RECORD_COST
}

fn generation(config: &rdkafka::ClientConfig, known: &Arc<Known>) -> KafkaResult<Arc<Generation>> {
    let stored = known.tails.iter().map(|_| AtomicU64::new(0)).collect();
    let reports = Reports { known: Arc::clone(known), dead: AtomicBool::new(false), stored };
    let producer = config.create_with_context(reports)?;
    Ok(Arc::new(Generation { producer: Some(producer) }))
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
    use tokio::runtime::Runtime;

    use super::*;
    use crate::record::key_of;

    const PLACE: Place<'static> = Place { topic: "weir-metrics", partition: 1, counted: true };

    fn producers(cluster: &MockCluster<'_, impl ClientContext>, change: fn(&mut KafkaOptions)) -> Producers {
        cluster.create_topic(PLACE.topic, 2, 1).unwrap();
        let mut options = KafkaOptions { brokers: cluster.bootstrap_servers(), ..KafkaOptions::default() };
        change(&mut options);
        Producers::new(&options).unwrap()
    }

    fn stored(producers: &Producers) -> u64 {
        let generation = producers.current().unwrap();
        let (_, high) = generation.client().unwrap().fetch_watermarks(PLACE.topic, 1, Duration::from_secs(60)).unwrap();
        u64::try_from(high).unwrap()
    }

    /// The server refuses a batch for good. What was sent after it must not be stored without it, and the next append finds
    /// a client that works.
    #[test]
    fn a_producer_that_failed_for_good_is_made_anew() {
        let cluster = MockCluster::new(1).unwrap();
        let producers = producers(&cluster, |_| {});
        let payloads: Vec<&[u8]> = vec![&[7; 100_000]; 40];
        Runtime::new().unwrap().block_on(async {
            producers.send(PLACE, &key_of(1), &payloads).await.unwrap();
            cluster.request_errors(
                RDKafkaApiKey::Produce,
                &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED],
            );
            let failed = producers.send(PLACE, &key_of(2), &payloads).await.unwrap_err();
            assert!(matches!(failed, SendError::Failed(_)), "{failed:?}");
            assert_eq!(producers.known.space.available_permits(), 32 * 1024 * 1024, "all room is given back");
            assert_eq!(stored(&producers), 40, "nothing follows what was refused");
            producers.send(PLACE, &key_of(3), &payloads).await.unwrap();
        });
        assert_eq!(stored(&producers), 80);
        let counters = &producers.known.counters;
        assert_eq!(counters.writers_recreated.load(Ordering::Relaxed), 1);
        assert_eq!(counters.snapshot().records_appended, 80);
        assert_eq!(producers.known.lost(), None);
    }

    #[test]
    fn batches_are_handed_over_in_chunks() {
        let small: Vec<&[u8]> = vec![&[7; 372]; 100];
        assert_eq!(fitting(&small, 5_000, 128), 10);
        assert_eq!(fitting(&small[..3], 5_000, 128), 3);
        let large = vec![7; 4_873];
        assert_eq!(fitting(&[&large, b"y"], 5_000, 128), 1);
        assert_eq!(fitting(&[b"x", &large], 5_000, 128), 1);
    }

    /// Whatever becomes of who sends, the queue keeps its bound, and what is in it is stored in order once that is possible.
    #[test]
    fn a_full_queue_makes_appends_wait() {
        let cluster = MockCluster::new(1).unwrap();
        let producers = producers(&cluster, |options| {
            (options.queue_bytes, options.max_record_bytes, options.delivery_timeout_ms) = (1_000_000, 500_000, 300);
        });
        let payloads: Vec<&[u8]> = vec![&[7; 100_000]; 40];
        cluster.partition_leader(PLACE.topic, 1, None).unwrap();
        Runtime::new().unwrap().block_on(async {
            for _ in 0..3 {
                let late = producers.send(PLACE, &key_of(1), &payloads).await.unwrap_err();
                assert!(matches!(late, SendError::Late), "{late:?}");
                assert!(producers.known.space.available_permits() < cost(100_000));
            }
            cluster.partition_leader(PLACE.topic, 1, Some(1)).unwrap();
            let mut attempts = 1;
            while producers.send(PLACE, &key_of(1), &payloads[..1]).await.is_err() {
                attempts += 1;
                assert!(attempts < 1_000, "nothing is ever stored");
            }
            // What came too late is in the queue all the same.
            assert!((10..=9 + attempts).contains(&stored(&producers)), "{} of {attempts}", stored(&producers));
        });
        assert_eq!(producers.known.space.available_permits(), 1_000_000);
    }
}
