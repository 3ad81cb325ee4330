//! Pauses between attempts.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use tokio::time::Instant;
use weir_runtime::Backoff;

use crate::options::Timeouts;

/// A seed that nobody else has: there are many of these in a process, and none has a name.
pub(crate) fn any_seed() -> u64 {
    RandomState::new().hash_one(())
}

/// When something that failed may be tried again.
#[derive(Debug)]
pub(crate) struct Pause {
    backoff: Backoff,
    until: Option<Instant>,
}

impl Pause {
    pub fn new(timeouts: &Timeouts) -> Self {
        let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self { backoff: Backoff::new(ms(timeouts.first_pause), ms(timeouts.longest_pause), any_seed()), until: None }
    }

    pub fn failed(&mut self) {
        let pause_ms = u64::try_from(self.backoff.failed()).unwrap_or(0);
        self.until = Some(Instant::now() + Duration::from_millis(pause_ms));
    }

    pub fn succeeded(&mut self) {
        self.backoff.succeeded();
        self.until = None;
    }

    /// Whether the last attempt failed.
    pub fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Waits until it may be tried. Nothing is lost if this future is dropped.
    pub async fn over(&self) {
        if let Some(until) = self.until {
            // `timeout_at` over nothing is a sleep until then, and does not wait at all when that has passed.
            let _elapsed = tokio::time::timeout_at(until, std::future::pending::<()>()).await;
        }
    }
}
