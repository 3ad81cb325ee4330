//! Waiting for conditions.

use std::time::Duration;

use tokio::time::Instant;

/// Time between two looks.
const POLL: Duration = Duration::from_millis(150);

/// What `condition` gives once it gives something. It is asked every 150 ms, and at least once.
///
/// # Panics
/// If `deadline` passes before; `what` says what was waited for.
pub async fn wait_until<T>(what: &str, deadline: Duration, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + deadline;
    loop {
        if let Some(found) = condition().await {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come within {} s", deadline.as_secs_f64());
        pause().await;
    }
}

/// The pause between two looks at something real.
pub(crate) async fn pause() {
    #[expect(clippy::disallowed_methods, reason = "the one place where tests wait for real time, between two looks")]
    tokio::time::sleep(POLL).await;
}
