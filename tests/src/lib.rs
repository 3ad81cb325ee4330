//! What tests on real servers have in common.
//!
//! - [`FlinkCluster`]: a real Flink, started by `dev/flink`, and gone when it is dropped;
//! - [`PostgresServer`]: a real PostgreSQL, started by `dev/postgres`, and gone when it is dropped;
//! - [`KafkaBroker`]: a real Kafka broker, started by `dev/kafka`, which can be killed and paused;
//! - [`PravegaServer`]: a real Pravega, started by `dev/pravega`, likewise;
//! - [`Authority`]: certificates for them and for whoever talks to them;
//! - [`Installation`]: a Weir whose services are processes of their own;
//! - [`Unserved`]: an address at which nobody answers;
//! - [`wait_until`]: waits for a condition;
//! - [`World`]: a Flink under test, real ([`RealFlink`]) or simulated ([`SimulatedFlink`]), so that one test runs on both.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should stop there"
)]

mod certificates;
mod cluster;
mod installation;
mod job;
mod kafka;
mod kafka_rights;
mod postgres;
mod pravega;
mod resident;
pub mod scenario;
mod unserved;
mod wait;
mod weir;
mod world;

pub use certificates::{Authority, Identity};
pub use cluster::{FlinkCluster, FlinkOptions, Scheduler, Signal};
pub use installation::{Installation, RecordName, Service};
pub use job::{FlinkJob, Load};
pub use kafka::KafkaBroker;
pub use kafka_rights::KafkaRight;
pub use postgres::PostgresServer;
pub use pravega::{Management, Memory, PravegaSecurity, PravegaServer};
pub use resident::resident_bytes;
pub use unserved::Unserved;
pub use wait::wait_until;
pub use weir::Weir;
pub use world::{BoxFuture, RealFlink, Shape, SimulatedFlink, World, until};

/// Versions of Flink that tests run on: those in `WEIR_FLINK_VERSIONS`, separated by spaces, else the oldest and the newest.
#[must_use]
pub fn flink_versions() -> Vec<String> {
    let asked = std::env::var("WEIR_FLINK_VERSIONS").unwrap_or_default();
    let asked = if asked.trim().is_empty() { "1.18.1 2.3.0".to_owned() } else { asked };
    asked.split_whitespace().map(str::to_owned).collect()
}
