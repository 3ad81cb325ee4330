//! How long to wait after failures. Pure: the caller sleeps, and says who it is.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Delays that double between two bounds, in milliseconds. Each is drawn between half and all of its length, so that what failed
/// together does not come back together.
#[derive(Debug, Clone)]
pub struct Backoff {
    first_ms: i64,
    longest_ms: i64,
    failures: u32,
    seed: u64,
}

impl Backoff {
    /// Starts with no failure seen. The same `seed` gives the same delays: those who may fail together are to have different ones,
    /// see [`seed_of`].
    #[must_use]
    pub fn new(first_ms: i64, longest_ms: i64, seed: u64) -> Self {
        Self { first_ms, longest_ms, failures: 0, seed }
    }

    /// Counts a failure and says how long to wait before the next try, in milliseconds.
    pub fn failed(&mut self) -> i64 {
        let doubled = self.first_ms.saturating_mul(2_i64.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        let longest_ms = doubled.min(self.longest_ms);
        let half = u64::try_from(longest_ms / 2).unwrap_or(0);
        longest_ms - i64::try_from(hash((self.seed, self.failures)) % (half + 1)).unwrap_or(0)
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

/// A seed for whoever has this name, which is to be its own among those who may fail together.
#[must_use]
pub fn seed_of(name: &str) -> u64 {
    hash(name)
}

/// The same for the same value, in every process.
fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(seed: u64) -> Vec<i64> {
        let mut backoff = Backoff::new(1_000, 5_000, seed);
        (0..5).map(|_| backoff.failed()).collect()
    }

    #[test]
    fn delays_double_up_to_the_longest_and_start_over_after_success() {
        for seed in 0..100 {
            let mut backoff = Backoff::new(1_000, 5_000, seed);
            for longest_ms in [1_000, 2_000, 4_000, 5_000, 5_000] {
                let delay_ms = backoff.failed();
                assert!((longest_ms / 2..=longest_ms).contains(&delay_ms), "{delay_ms} of {longest_ms}");
            }
            backoff.succeeded();
            assert_eq!(backoff.failures(), 0);
            assert!(backoff.failed() <= 1_000);
        }
    }

    #[test]
    fn those_who_fail_together_come_back_one_by_one_and_each_as_it_did_before() {
        let (a, b) = (seed_of("analyzer-a-1"), seed_of("analyzer-b-1"));
        assert_eq!(delays(a), delays(a));
        assert!(delays(a).iter().zip(delays(b)).all(|(a, b)| *a != b), "{:?} {:?}", delays(a), delays(b));
    }

    #[test]
    fn delays_lie_anywhere_between_half_and_all() {
        let firsts: Vec<i64> = (0..1_000).map(|number| delays(seed_of(&format!("process-{number}")))[0]).collect();
        let early = firsts.iter().filter(|delay_ms| **delay_ms < 750).count();
        assert!((400..600).contains(&early), "{early} of 1000 in the first half");
    }

    #[test]
    fn endless_failure_does_not_overflow() {
        let mut backoff = Backoff::new(1_000, 60_000, 7);
        for _ in 0..10_000 {
            assert!(backoff.failed() <= 60_000);
        }
    }
}
