//! Questions to the server, each with a time-out.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::admin::AdminClient;
use rdkafka::consumer::{BaseConsumer, Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::Offset;
use tokio::time::Instant;
use weir_streams::LogError;

use crate::KafkaOptions;
use crate::health::{Health, Listener, is_denied, is_gone, is_of_group};
use crate::producer::{Known, Place, Producers, SendError};

/// The first time that one attempt is given. Later ones get more, so that slow servers can answer as well.
const FIRST_ATTEMPT: Duration = Duration::from_secs(1);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// A topic as the brokers describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Topic {
    pub partitions: u32,
    /// Whether every partition has a leader.
    pub ready: bool,
}

/// Where a partition begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub low: u64,
    pub high: u64,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The topic or the partition is not there.
    pub gone: bool,
    pub error: LogError,
}

impl From<Failure> for LogError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        Self { gone: false, error }
    }
}

/// The server, as one log uses it.
pub(crate) struct Server {
    pub options: KafkaOptions,
    pub producers: Producers,
}

impl Server {
    pub fn connect(options: &KafkaOptions) -> Result<Self, LogError> {
        options.check()?;
        let producers = Producers::new(options).map_err(|error| {
            let health = Health::new(&options.brokers);
            health.explain(&format!("open log {}", options.topic), &error, options.request_timeout())
        })?;
        Ok(Self { options: options.clone(), producers })
    }

    pub fn known(&self) -> &Arc<Known> {
        &self.producers.known
    }

    pub fn health(&self) -> &Arc<Health> {
        &self.producers.known.health
    }

    /// Puts a question that blocks, again and again until there is an answer or the time is over.
    pub async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        action: String,
        question: impl Fn(&Self, Duration) -> KafkaResult<T> + Send + Sync + 'static,
    ) -> Result<T, Failure> {
        let timeout = self.options.request_timeout();
        let (deadline, question) = (Instant::now() + timeout, Arc::new(question));
        let mut attempt = FIRST_ATTEMPT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).min(attempt);
            let (server, asked) = (Arc::clone(self), Arc::clone(&question));
            let answer = tokio::task::spawn_blocking(move || asked(&server, left)).await;
            let error = match answer {
                Ok(Ok(answer)) => {
                    self.health().good();
                    return Ok(answer);
                }
                Ok(Err(error)) => error,
                // The runtime ends.
                Err(_) => return Err(LogError::Closed { log: self.options.topic.clone() }.into()),
            };
            let failure = Failure { gone: is_gone(&error), error: self.health().explain(&action, &error, timeout) };
            let passing = matches!(failure.error, LogError::Unreachable { .. } | LogError::TimedOut { .. });
            if Instant::now() + PAUSE >= deadline || !(passing || is_passing(&error)) {
                return Err(failure);
            }
            attempt *= 2;
            pause(PAUSE).await;
        }
    }

    /// What the brokers say of a topic; nothing if there is none.
    pub async fn describe(self: &Arc<Self>, topic: &str) -> Result<Option<Topic>, LogError> {
        let name = topic.to_owned();
        let action = format!("look for topic {topic}");
        Ok(self.ask(action, move |server, timeout| server.topic(&name, timeout)).await?)
    }

    fn topic(&self, name: &str, timeout: Duration) -> KafkaResult<Option<Topic>> {
        let metadata = self.producers.current()?.client()?.fetch_metadata(Some(name), timeout)?;
        let Some(topic) = metadata.topics().iter().find(|topic| topic.name() == name) else { return Ok(None) };
        let partitions = u32::try_from(topic.partitions().len()).unwrap_or(u32::MAX);
        let ready = partitions > 0 && topic.partitions().iter().all(|partition| partition.leader() >= 0);
        match topic.error().map(Code::from) {
            None => Ok(Some(Topic { partitions, ready })),
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => Ok(None),
            Some(Code::LeaderNotAvailable) => Ok(Some(Topic { partitions, ready: false })),
            Some(code) => Err(KafkaError::MetadataFetch(code)),
        }
    }

    /// Where a partition begins and ends.
    pub async fn bounds(self: &Arc<Self>, topic: &str, partition: i32) -> Result<Bounds, Failure> {
        let name = topic.to_owned();
        let action = format!("look for the ends of partition {partition} of topic {topic}");
        self.ask(action, move |server, timeout| {
            let (low, high) = server.producers.current()?.client()?.fetch_watermarks(&name, partition, timeout)?;
            let offset = |offset: i64| u64::try_from(offset).map_err(|_| KafkaError::OffsetFetch(Code::NoOffset));
            Ok(Bounds { low: offset(low)?, high: offset(high)? })
        })
        .await
    }

    /// Reads partition 0 of a topic from one offset to another, until `take` has found what it looks for.
    pub async fn scan<T: Send + 'static>(
        self: &Arc<Self>,
        topic: &str,
        span: Bounds,
        take: impl Fn(&BorrowedMessage<'_>, &mut Vec<T>) -> bool + Send + Sync + 'static,
    ) -> Result<Vec<T>, Failure> {
        let name = topic.to_owned();
        let action = format!("read topic {topic}");
        self.ask(action, move |server, timeout| server.scan_blocking(&name, span, timeout, &take)).await
    }

    fn scan_blocking<T>(
        &self,
        topic: &str,
        span: Bounds,
        timeout: Duration,
        take: &dyn Fn(&BorrowedMessage<'_>, &mut Vec<T>) -> bool,
    ) -> KafkaResult<Vec<T>> {
        let listener = Listener(Arc::clone(self.health()));
        let consumer: BaseConsumer<Listener> = self.options.consumer_client().create_with_context(listener)?;
        consumer.assign(&at(topic, 0, span.low)?)?;
        let deadline = Instant::now() + timeout;
        let (mut found, mut next) = (Vec::new(), span.low);
        let mut last_error = None;
        while next < span.high {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(last_error.unwrap_or(KafkaError::MessageConsumption(Code::OperationTimedOut)));
            }
            match consumer.poll(left) {
                Some(Ok(message)) => {
                    next = u64::try_from(message.offset()).unwrap_or(next).saturating_add(1);
                    if take(&message, &mut found) {
                        break;
                    }
                }
                Some(Err(error)) if is_misplaced(&error) || is_gone(&error) || is_denied(&error) => return Err(error),
                // The client goes on by itself; if it does not get far, this may be why.
                Some(Err(error)) if !is_of_group(&error) => last_error = Some(error),
                Some(Err(_)) | None => {}
            }
        }
        Ok(found)
    }

    /// A reader of one partition, standing nowhere yet.
    pub fn consumer(&self) -> KafkaResult<StreamConsumer<Listener>> {
        self.options.consumer_client().create_with_context(Listener(Arc::clone(self.health())))
    }

    /// A client for changes. To be dropped by [`discard`].
    pub fn admin(&self) -> KafkaResult<AdminClient<Listener>> {
        self.options.admin_client().create_with_context(Listener(Arc::clone(self.health())))
    }

    /// Appends one record that is no payload.
    pub async fn note(&self, topic: &str, key: &[u8], value: &[u8]) -> Result<(), LogError> {
        let sent = self.producers.send(Place { topic, partition: 0, counted: false }, key, &[value]).await;
        sent.map_err(|error| self.explain_send(topic, &error).error)
    }

    /// What a failed sending means.
    pub fn explain_send(&self, topic: &str, error: &SendError) -> Failure {
        let action = format!("append to topic {topic}");
        let waited = self.options.delivery_timeout();
        match error {
            SendError::Failed(error) => {
                Failure { gone: is_gone(error), error: self.health().explain(&action, error, waited) }
            }
            SendError::Late => self.health().late(&action, waited).into(),
        }
    }
}

/// A place in a partition, as clients want it.
pub(crate) fn at(topic: &str, partition: i32, offset: u64) -> KafkaResult<TopicPartitionList> {
    let mut places = TopicPartitionList::new();
    let offset = Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
    places.add_partition_offset(topic, partition, offset)?;
    Ok(places)
}

/// Drops what waits for threads of its own, elsewhere.
pub(crate) fn discard<T: Send + 'static>(client: T) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn_blocking(|| drop(client));
    }
}

/// Whether the reader stands where there is nothing.
pub(crate) fn is_misplaced(error: &KafkaError) -> bool {
    matches!(error.rdkafka_error_code(), Some(Code::AutoOffsetReset | Code::OffsetOutOfRange))
}

/// Whether the cluster is only about to sort itself out.
fn is_passing(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::NotLeaderForPartition
                | Code::ReplicaNotAvailable
                | Code::FencedLeaderEpoch
                | Code::UnknownLeaderEpoch
                | Code::OffsetNotAvailable
                | Code::NoOffset
                | Code::KafkaStorageError
                | Code::NotController
        )
    )
}

/// The pause between two questions to a server.
pub(crate) async fn pause(length: Duration) {
    #[expect(clippy::disallowed_methods, reason = "what is waited for is a real server, in real time")]
    tokio::time::sleep(length).await;
}
