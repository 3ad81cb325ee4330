//! The log on a Kafka topic.
//!
//! [`KafkaLog`] keeps the promises of [`weir_streams::Log`]: appends are acknowledged by all replicas in sync, positions are
//! offsets and are kept by us, never by a consumer group, and a topic that was deleted and made anew is noticed, also while
//! it is open. Retention is the server's.
//!
//! TLS and SASL (`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`) are built in.

mod birth;
mod core;
mod health;
mod log;
mod options;
mod producer;
mod reader;
mod record;
mod server;
mod topic;
mod writer;

pub use log::KafkaLog;
pub use options::{KafkaOptions, KafkaSasl, KafkaTls, SaslMechanism};
