//! The client library of Kafka, as its documentation uses it.

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use weir_streams::BoxFuture;

use crate::{PATIENCE, Subject};

const TOPIC: &str = "bare";

pub struct Bare {
    config: ClientConfig,
    producer: FutureProducer,
    appended: i64,
    read: i64,
}

impl Bare {
    pub async fn new(brokers: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers);
        let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
        let topic = NewTopic::new(TOPIC, 1, TopicReplication::Fixed(1));
        admin.create_topics([&topic], &AdminOptions::new()).await.unwrap()[0].as_ref().unwrap();
        let producer = config
            .clone()
            .set("acks", "all")
            .set("enable.idempotence", "true")
            // As in the log: batches as large as brokers take by default, and no longer wait than it takes to fill them.
            .set("batch.size", "1048576")
            .set("linger.ms", "1")
            // Or it would refuse large batches.
            .set("queue.buffering.max.messages", "10000000")
            .create()
            .unwrap();
        Self { config, producer, appended: 0, read: 0 }
    }
}

impl Subject for Bare {
    fn append<'a>(&'a mut self, batch: &'a [&'a [u8]]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let send = |payload: &&'a [u8]| {
                let record = FutureRecord::to(TOPIC).partition(0).key(&[0; 12]).payload(*payload);
                self.producer.send_result(record).map_err(|(why, _)| why).unwrap()
            };
            let deliveries: Vec<_> = batch.iter().map(send).collect();
            for delivery in deliveries {
                delivery.await.unwrap().map_err(|(why, _)| why).unwrap();
                self.appended += 1;
            }
        })
    }

    fn read(&mut self) -> BoxFuture<'_, ()> {
        let mut config = self.config.clone();
        config.set("group.id", "bare").set("enable.auto.commit", "false");
        let consumer: BaseConsumer = config.create().unwrap();
        let mut place = TopicPartitionList::new();
        place.add_partition_offset(TOPIC, 0, Offset::Offset(self.read)).unwrap();
        consumer.assign(&place).unwrap();
        while self.read < self.appended {
            let message = consumer.poll(PATIENCE).expect("a record").unwrap();
            assert!(message.payload_len() > 0);
            self.read = message.offset() + 1;
        }
        Box::pin(std::future::ready(()))
    }
}
