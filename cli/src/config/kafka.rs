//! The options of a log on Kafka.

use weir_kafka::{KafkaOptions, KafkaSasl, KafkaTls, SaslMechanism};

use super::{Kafka, Mechanism};

impl Kafka {
    /// The options of one log. `create`: whether it is made where there is none.
    #[must_use]
    pub fn options(&self, log: &str, create: bool) -> KafkaOptions {
        let mechanism = |mechanism| match mechanism {
            Mechanism::Plain => SaslMechanism::Plain,
            Mechanism::ScramSha256 => SaslMechanism::ScramSha256,
            Mechanism::ScramSha512 => SaslMechanism::ScramSha512,
        };
        KafkaOptions {
            brokers: self.brokers.clone(),
            topic: format!("{}-{log}", self.prefix),
            partitions: self.partitions,
            create,
            replication_factor: self.replication_factor,
            max_record_bytes: self.max_record_bytes,
            retain_bytes: self.retain_bytes,
            retain_ms: self.retain_age_ms,
            queue_bytes: self.queue_bytes,
            delivery_timeout_ms: self.delivery_timeout_ms,
            request_timeout_ms: self.request_timeout_ms,
            tls: self.tls.as_ref().map(|tls| KafkaTls {
                ca: tls.ca_file.clone(),
                cert: tls.cert_file.clone(),
                key: tls.key_file.clone(),
            }),
            sasl: self.sasl.as_ref().map(|sasl| KafkaSasl {
                mechanism: mechanism(sasl.mechanism),
                user: sasl.user.clone(),
                password: sasl.password.clone(),
            }),
        }
    }
}
