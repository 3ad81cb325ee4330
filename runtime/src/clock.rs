//! The time, as services learn it.

use std::time::Duration;

use futures::future::{BoxFuture, Either, select};
use thiserror::Error;

/// The only way in which a service learns the time or waits.
pub trait Clock: Send + Sync {
    /// Wall-clock time, in milliseconds since 1970. It may jump.
    fn now_ms(&self) -> i64;

    /// Milliseconds since some moment of this process. It never goes back.
    fn monotonic_ms(&self) -> i64;

    /// Waits for `duration_ms` milliseconds; not at all if that is not positive. Dropping the future is harmless.
    fn sleep_ms(&self, duration_ms: i64) -> BoxFuture<'_, ()>;
}

/// The machine's clock.
#[derive(Debug)]
pub struct RealClock {
    started: tokio::time::Instant,
}

impl RealClock {
    /// Starts its monotonic time at zero.
    #[must_use]
    pub fn new() -> Self {
        Self { started: tokio::time::Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now_ms(&self) -> i64 {
        #[expect(clippy::disallowed_methods, reason = "this is the clock that everything else is to use")]
        let now = std::time::SystemTime::now();
        let since_1970 = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn sleep_ms(&self, duration_ms: i64) -> BoxFuture<'_, ()> {
        #[expect(clippy::disallowed_methods, reason = "this is the clock that everything else is to use")]
        Box::pin(tokio::time::sleep(Duration::from_millis(u64::try_from(duration_ms).unwrap_or(0))))
    }
}

/// Something was not done in time.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("not done within {0} ms")]
pub struct Elapsed(pub i64);

/// Runs `work`, and drops it once `deadline_ms` milliseconds have passed on `clock`.
///
/// # Errors
/// [`Elapsed`] if it was not done by then.
pub async fn within<T>(clock: &dyn Clock, deadline_ms: i64, work: impl Future<Output = T>) -> Result<T, Elapsed> {
    let work = std::pin::pin!(work);
    // The work is polled first, so that what is ready at once never makes a virtual clock believe that its user sleeps.
    match select(work, clock.sleep_ms(deadline_ms)).await {
        Either::Left((done, _)) => Ok(done),
        Either::Right(((), _)) => Err(Elapsed(deadline_ms)),
    }
}
