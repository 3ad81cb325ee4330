//! The logs as Weir uses them.

use std::path::Path;

use weir_kafka::{KafkaLog, KafkaOptions};
use weir_pravega::{PravegaLog, PravegaOptions};
use weir_streams::{BoxFuture, EmbeddedLog, EmbeddedOptions, Log, LogWriter, Position};

use crate::{PATIENCE, Subject};

/// Records of one read.
const READ: usize = 1_000;

/// A log with one partition, and its defaults otherwise.
pub struct Ours {
    log: Box<dyn Log>,
    writer: Box<dyn LogWriter>,
    read_to: Position,
}

impl Ours {
    pub async fn embedded(folder: &Path) -> Self {
        let options = EmbeddedOptions { partitions: 1, ..EmbeddedOptions::default() };
        Self::new(EmbeddedLog::open(folder.join("log"), options, 0).await.unwrap()).await
    }

    pub async fn kafka(brokers: &str) -> Self {
        let options = KafkaOptions {
            brokers: brokers.to_owned(),
            topic: "weir".to_owned(),
            partitions: 1,
            replication_factor: Some(1),
            ..KafkaOptions::default()
        };
        Self::new(KafkaLog::open(options, 0).await.unwrap()).await
    }

    pub async fn pravega(controller: &str) -> Self {
        let options = PravegaOptions { controller: controller.to_owned(), partitions: 1, ..PravegaOptions::default() };
        Self::new(PravegaLog::open(options, 0).await.unwrap()).await
    }

    async fn new(log: impl Log + 'static) -> Self {
        let writer = log.writer(0, "bench").await.unwrap();
        let read_to = log.tail(0).await.unwrap();
        Self { log: Box::new(log), writer, read_to }
    }
}

impl Subject for Ours {
    fn append<'a>(&'a mut self, batch: &'a [&'a [u8]]) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.writer.append_batch(batch, 0).await.unwrap() })
    }

    fn read(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let tail = self.log.tail(0).await.unwrap();
            let mut reader = self.log.reader(0, self.read_to).await.unwrap();
            while reader.position() < tail {
                assert!(!reader.read(READ, PATIENCE).await.unwrap().is_empty(), "nothing came");
            }
            self.read_to = tail;
        })
    }
}
