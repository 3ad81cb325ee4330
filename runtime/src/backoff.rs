//! How long to wait after failures. Pure: the caller sleeps.

/// Doubling delays between two bounds, in milliseconds.
#[derive(Debug, Clone)]
pub struct Backoff {
    first_ms: i64,
    longest_ms: i64,
    failures: u32,
}

impl Backoff {
    /// Starts with no failure seen.
    #[must_use]
    pub fn new(first_ms: i64, longest_ms: i64) -> Self {
        Self { first_ms, longest_ms, failures: 0 }
    }

    /// Counts a failure and says how long to wait before the next try, in milliseconds.
    pub fn failed(&mut self) -> i64 {
        let doubled = self.first_ms.saturating_mul(2_i64.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        doubled.min(self.longest_ms)
    }

    /// Forgets all failures.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_start_over_after_success() {
        let mut backoff = Backoff::new(1_000, 5_000);
        let delays: Vec<i64> = (0..4).map(|_| backoff.failed()).collect();
        assert_eq!(delays, [1_000, 2_000, 4_000, 5_000]);
        backoff.succeeded();
        assert_eq!((backoff.failures(), backoff.failed()), (0, 1_000));
    }

    #[test]
    fn endless_failure_does_not_overflow() {
        let mut backoff = Backoff::new(1_000, 60_000);
        for _ in 0..10_000 {
            assert!(backoff.failed() <= 60_000);
        }
    }
}
