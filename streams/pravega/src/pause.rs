//! Pauses between attempts.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use tokio::time::Instant;
use weir_runtime::Backoff;

use crate::options::Timeouts;

/// When something that failed may be tried again. Pauses double, and are drawn between half and all of their length, so that
/// what failed together does not come back together.
#[derive(Debug)]
pub(crate) struct Pause {
    backoff: Backoff,
    until: Option<Instant>,
}

impl Pause {
    pub fn new(timeouts: &Timeouts) -> Self {
        let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self { backoff: Backoff::new(ms(timeouts.first_pause), ms(timeouts.longest_pause)), until: None }
    }

    pub fn failed(&mut self) {
        let longest = u64::try_from(self.backoff.failed()).unwrap_or(0);
        let half = longest / 2;
        let drawn = RandomState::new().hash_one(longest) % (half + 1);
        self.until = Some(Instant::now() + Duration::from_millis(half + drawn));
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
