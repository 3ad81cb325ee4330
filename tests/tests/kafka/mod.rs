//! What the tests on a broker share, and the contract.

pub mod failures;
pub mod lives;
pub mod outages;
pub mod secure;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use tokio::time::Instant;
use weir_kafka::{KafkaLog, KafkaOptions};
use weir_log_contract::{Abilities, LogFactory, Setup, Site, check_all};
use weir_streams::{BoxFuture, Log, LogReader, Record};
use weir_tests::{KafkaBroker, wait_until};

/// The time of records whose time does not matter: long ago, so that a server that judged by it would give them up.
pub const NOW_MS: i64 = 1_700_000_000_000;
/// Longer than anything takes that is expected to happen, on a machine that is busy with something else.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The broker, as one test sees it.
pub struct Rig<'a> {
    pub broker: &'a mut KafkaBroker,
    prefix: String,
    topics: AtomicUsize,
}

impl<'a> Rig<'a> {
    pub fn new(broker: &'a mut KafkaBroker, prefix: String) -> Self {
        Self { broker, prefix, topics: AtomicUsize::new(0) }
    }

    /// Options for a topic that nobody used before.
    pub fn options(&self) -> KafkaOptions {
        let number = self.topics.fetch_add(1, Ordering::Relaxed);
        KafkaOptions {
            brokers: self.broker.address().to_owned(),
            topic: format!("{}-{number}", self.prefix),
            partitions: 2,
            replication_factor: Some(1),
            ..KafkaOptions::default()
        }
    }

    pub fn admin(&self) -> Admin {
        Admin::new(self.broker.address())
    }
}

/// What an administrator does by hand.
pub struct Admin {
    client: AdminClient<DefaultClientContext>,
    producer: FutureProducer,
}

impl Admin {
    pub fn new(brokers: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers);
        Self { client: config.create().unwrap(), producer: config.create().unwrap() }
    }

    fn options() -> AdminOptions {
        AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE))
    }

    pub async fn make(&self, topic: &str, partitions: i32) {
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        self.client.create_topics([&new], &Self::options()).await.unwrap().pop().unwrap().unwrap();
    }

    /// Deletes a topic, and waits until it is gone.
    pub async fn delete(&self, topic: &str) {
        self.client.delete_topics(&[topic], &Self::options()).await.unwrap().pop().unwrap().unwrap();
        wait_until("the end of a topic", PATIENCE, async || (!self.topics().contains(&topic.to_owned())).then_some(()))
            .await;
    }

    pub fn topics(&self) -> Vec<String> {
        let metadata = self.producer.client().fetch_metadata(None, PATIENCE).unwrap();
        metadata.topics().iter().map(|topic| topic.name().to_owned()).collect()
    }

    pub async fn put(&self, topic: &str, key: &str, payload: &str) {
        let record = FutureRecord::to(topic).partition(0).key(key).payload(payload);
        self.producer.send(record, PATIENCE).await.unwrap();
    }

    pub fn bounds(&self, topic: &str) -> (i64, i64) {
        self.producer.client().fetch_watermarks(topic, 0, PATIENCE).unwrap()
    }

    pub async fn setting(&self, topic: &str, name: &str) -> Option<String> {
        let topic = rdkafka::admin::ResourceSpecifier::Topic(topic);
        let found = self.client.describe_configs([&topic], &Self::options()).await.unwrap().pop().unwrap().unwrap();
        found.get(name)?.value.clone()
    }
}

/// Opens a log. A broker that stood still for some seconds counts as gone for a moment, and makes no topics.
pub async fn open(options: &KafkaOptions) -> KafkaLog {
    let end = Instant::now() + PATIENCE;
    loop {
        match KafkaLog::open(options.clone(), NOW_MS).await {
            Ok(log) => return log,
            // Shown if the test fails.
            Err(error) if error.is_retryable() && Instant::now() < end => println!("{error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

pub async fn append(log: &KafkaLog, partition: u32, payloads: &[&[u8]]) {
    log.writer(partition, "test").await.unwrap().append_batch(payloads, NOW_MS).await.unwrap();
}

pub async fn reader_at_head(log: &KafkaLog, partition: u32) -> Box<dyn LogReader> {
    let head = log.head(partition).await.unwrap();
    log.reader(partition, head).await.unwrap()
}

/// Everything that a partition holds.
pub async fn read_all(log: &KafkaLog, partition: u32) -> Vec<Record> {
    let tail = log.tail(partition).await.unwrap();
    let mut reader = reader_at_head(log, partition).await;
    let mut records = Vec::new();
    while reader.position() < tail {
        let more = reader.read(10_000, PATIENCE).await.unwrap();
        assert!(!more.is_empty(), "nothing came at {} of {tail}", reader.position());
        records.extend(more);
    }
    records
}

pub async fn payloads(log: &KafkaLog, partition: u32) -> Vec<String> {
    let records = read_all(log, partition).await;
    records.into_iter().map(|record| String::from_utf8(record.payload).unwrap()).collect()
}

pub async fn contract(rig: &mut Rig<'_>) {
    let options = rig.options();
    check_all(&Factory { broker: rig.broker, options, sites: AtomicUsize::new(0) }).await;
}

struct Factory<'a> {
    broker: &'a KafkaBroker,
    options: KafkaOptions,
    sites: AtomicUsize,
}

struct Topic {
    options: KafkaOptions,
}

impl LogFactory for Factory<'_> {
    fn abilities(&self) -> Abilities {
        Abilities { reopens: true, remakes: true, retains: false, stalls: true }
    }

    fn site<'a>(&'a self, setup: &'a Setup) -> BoxFuture<'a, Box<dyn Site>> {
        let number = self.sites.fetch_add(1, Ordering::Relaxed);
        let timeout_ms = u64::try_from(setup.timeout.as_millis()).unwrap();
        let options = KafkaOptions {
            topic: format!("{}-{number}", self.options.topic),
            partitions: setup.partitions,
            max_record_bytes: setup.max_record_bytes,
            retain_bytes: setup.retain_bytes,
            retain_ms: setup.retain_age_ms.unsigned_abs(),
            delivery_timeout_ms: timeout_ms,
            request_timeout_ms: timeout_ms,
            ..self.options.clone()
        };
        Box::pin(std::future::ready(Box::new(Topic { options }) as Box<dyn Site>))
    }

    fn stall(&self) {
        self.broker.pause();
    }

    fn go_on(&self) {
        self.broker.resume();
    }
}

impl Site for Topic {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Log>> {
        Box::pin(async { Arc::new(open(&self.options).await) as Arc<dyn Log> })
    }

    fn remake(&self) -> BoxFuture<'_, ()> {
        let (brokers, topic, runtime) =
            (self.options.brokers.clone(), self.options.topic.clone(), tokio::runtime::Handle::current());
        let delete = move || runtime.block_on(async { Admin::new(&brokers).delete(&topic).await });
        Box::pin(async { tokio::task::spawn_blocking(delete).await.unwrap() })
    }
}
