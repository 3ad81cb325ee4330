//! The log itself.

use std::sync::Arc;

use rdkafka::admin::AdminOptions;
use rdkafka::error::KafkaError;
use tracing::info;
use weir_streams::{BoxFuture, Distance, Log, LogError, LogInfo, LogReader, LogStats, LogWriter, Position};

use crate::core::Core;
use crate::reader::KafkaReader;
use crate::server::{Server, at, discard};
use crate::writer::KafkaWriter;
use crate::{KafkaOptions, birth, topic};

/// A log on a Kafka topic.
///
/// Its positions are offsets. In partition 0 one record is not a payload but the birth of the log; readers do not see it.
#[derive(Clone)]
pub struct KafkaLog {
    core: Arc<Core>,
}

impl KafkaLog {
    /// Opens the log, or makes it. Processes that do so at the same time get the same log.
    ///
    /// Nothing runs for longer than the time-outs of the options. It needs a tokio runtime, as everything here.
    ///
    /// # Errors
    /// Refuses settings that cannot be followed, topics that are not ours ([`LogError::Occupied`]), logs with another number
    /// of partitions or another hash, and fails when the server does not answer, or not as it should.
    pub async fn open(options: KafkaOptions, now_ms: i64) -> Result<Self, LogError> {
        let server = tokio::task::spawn_blocking(move || Server::connect(&options)).await;
        let closed = |_| LogError::Closed { log: "on Kafka".to_owned() };
        let server = Arc::new(server.map_err(closed)??);
        let partitions = topic::ensure(&server).await?;
        let life = birth::settle(&server, partitions, now_ms).await?;
        if server.options.create {
            topic::settle_settings(&server).await?;
        }
        let info = LogInfo {
            name: server.options.topic.clone(),
            incarnation: life.incarnation,
            partitions: life.partitions,
            hash: life.hash.clone(),
        };
        let brokers = &server.options.brokers;
        info!(log = info.name, brokers, incarnation = %info.incarnation, partitions, "log opened");
        Ok(Self { core: Arc::new(Core::new(server, info, life)) })
    }

    async fn truncate(&self, partition: u32, before: Position) -> Result<Position, LogError> {
        let number = self.core.check_partition(partition)?;
        self.core.check_life().await?;
        let bounds = self.core.bounds(partition).await?;
        let cut = before.to_raw().min(bounds.high);
        if cut <= bounds.low {
            return Ok(Position::from_raw(bounds.low));
        }
        let server = &self.core.server;
        let timeout = server.options.request_timeout();
        let action = format!("truncate partition {partition} of topic {}", self.core.info.name);
        let explain = |error: KafkaError| server.health().explain(&action, &error, timeout);
        let places = at(&self.core.info.name, number, cut).map_err(explain)?;
        let admin = server.admin().map_err(explain)?;
        let cut_off = admin.delete_records(&places, &AdminOptions::new().request_timeout(Some(timeout))).await;
        discard(admin);
        for place in cut_off.map_err(explain)?.elements() {
            place.error().map_err(explain)?;
        }
        Ok(Position::from_raw(self.core.bounds(partition).await?.low))
    }
}

impl Log for KafkaLog {
    fn info(&self) -> &LogInfo {
        &self.core.info
    }

    fn writer<'a>(&'a self, partition: u32, producer: &'a str) -> BoxFuture<'a, Result<Box<dyn LogWriter>, LogError>> {
        let made = self
            .core
            .check_partition(partition)
            .map(|number| Box::new(KafkaWriter::new(Arc::clone(&self.core), number, producer)) as Box<dyn LogWriter>);
        Box::pin(std::future::ready(made))
    }

    fn reader(&self, partition: u32, from: Position) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        let made = self.core.check_partition(partition).map(|number| {
            Box::new(KafkaReader::new(Arc::clone(&self.core), partition, number, from)) as Box<dyn LogReader>
        });
        Box::pin(std::future::ready(made))
    }

    fn head(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        Box::pin(async move { Ok(Position::from_raw(self.core.bounds(partition).await?.low)) })
    }

    fn tail(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        Box::pin(async move { Ok(Position::from_raw(self.core.bounds(partition).await?.high)) })
    }

    fn truncate_before(&self, partition: u32, before: Position) -> BoxFuture<'_, Result<Position, LogError>> {
        Box::pin(self.truncate(partition, before))
    }

    /// The server does it.
    fn retain(&self, _now_ms: i64) -> BoxFuture<'_, Result<u64, LogError>> {
        Box::pin(std::future::ready(self.core.check_lost().map(|()| 0)))
    }

    fn distance(&self, partition: u32, from: Position, to: Position) -> Result<Distance, LogError> {
        self.core.check_partition(partition)?;
        Ok(self.core.distance(partition, from, to))
    }

    fn stats(&self) -> LogStats {
        self.core.server.known().counters.snapshot()
    }
}
