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
mod tls;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::Notify;
use weir_store::{Address, BoxFuture, OpenOptions, Store, WriteHook};
use weir_tests::PostgresServer;

/// A server for the tests that leave it alone.
static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

/// What comes at all comes within this time, also on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Limits that a test can wait for, and that a connection can be made within.
fn impatient() -> OpenOptions {
    OpenOptions {
        lock_wait: Duration::from_millis(500),
        answer_wait: Duration::from_secs(5),
        idle_wait: Duration::from_secs(2),
        ..OpenOptions::default()
    }
}

async fn open(url: &str, options: &OpenOptions) -> Store {
    Store::open_at(&Address::parse(url).unwrap(), options).await.unwrap()
}

/// Holds a write up before it is committed.
#[derive(Clone, Default)]
struct Gate {
    reached: Arc<Notify>,
    go: Arc<Notify>,
}

impl Gate {
    /// Waits for a write.
    async fn reached(&self) {
        tokio::time::timeout(SOON, self.reached.notified()).await.expect("a write that gets as far as its commit");
    }
}

impl WriteHook for Gate {
    fn within(&self, _what: &'static str) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.reached.notify_one();
            self.go.notified().await;
        })
    }
}
