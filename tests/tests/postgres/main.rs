//! The control database on PostgreSQL, where it differs from a file: writers side by side, and a server that comes and goes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should stop there"
)]

mod opening;
mod outages;
mod races;

use std::sync::LazyLock;
use std::time::Duration;

use weir_store::{Address, OpenOptions, Store};
use weir_tests::PostgresServer;

/// A server for the tests that leave it alone.
static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

/// Limits that a test can wait for.
fn impatient() -> OpenOptions {
    OpenOptions {
        lock_wait: Duration::from_millis(500),
        answer_wait: Duration::from_millis(500),
        idle_wait: Duration::from_millis(500),
        ..OpenOptions::default()
    }
}

async fn open(url: &str, options: &OpenOptions) -> Store {
    Store::open_at(&Address::parse(url).unwrap(), options).await.unwrap()
}
