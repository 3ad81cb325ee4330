//! The load offered to a source over time.

use serde::{Deserialize, Serialize};

use crate::num::{real, real_ms, whole};

/// Offered load as a step function: rates that hold from a second after the job's start to the next step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LoadTrace {
    steps: Vec<(f64, f64)>,
}

impl LoadTrace {
    /// `rate` records a second for ever.
    #[must_use]
    pub fn constant(rate: f64) -> Self {
        Self::steps([(0.0, rate)])
    }

    /// Pairs of second and rate. Nothing is offered before the first pair.
    #[must_use]
    pub fn steps(steps: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut steps: Vec<_> = steps.into_iter().collect();
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { steps }
    }

    /// From `from` to `to` records a second over `seconds`, then constant.
    #[must_use]
    pub fn ramp(from: f64, to: f64, seconds: u32) -> Self {
        let length = f64::from(seconds.max(1));
        Self::steps((0..=seconds).map(|s| (f64::from(s), from + (to - from) * f64::from(s) / length)))
    }

    /// A wave around `mean`, in steps of a sixtieth of its period, for `periods` periods.
    #[must_use]
    pub fn sine(mean: f64, amplitude: f64, period_seconds: f64, periods: u32) -> Self {
        Self::steps((0..periods.saturating_mul(60)).map(|n| {
            let turns = f64::from(n) / 60.0;
            (turns * period_seconds, (mean + amplitude * (turns * std::f64::consts::TAU).sin()).max(0.0))
        }))
    }

    /// The same pattern again and again, each time `period_seconds` later.
    #[must_use]
    pub fn repeated(&self, period_seconds: f64, times: u32) -> Self {
        Self::steps((0..times).flat_map(|n| self.steps.iter().map(move |s| (s.0 + f64::from(n) * period_seconds, s.1))))
    }

    /// The steps, earliest first.
    #[must_use]
    pub fn as_steps(&self) -> &[(f64, f64)] {
        &self.steps
    }
}

impl Default for LoadTrace {
    fn default() -> Self {
        Self::constant(0.0)
    }
}

/// A trace being played: the exact integral of the offered rate.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// Steps still to come, latest first: epoch milliseconds and rate.
    to_come: Vec<(f64, f64)>,
    rate: f64,
    since_ms: f64,
    total_then: f64,
}

impl Load {
    /// Plays `trace` from `start_ms`.
    pub(crate) fn new(trace: &LoadTrace, start_ms: i64) -> Self {
        let start = real_ms(start_ms);
        let to_come = trace.steps.iter().rev().map(|step| (start + step.0 * 1000.0, step.1)).collect();
        Self { to_come, rate: 0.0, since_ms: start, total_then: 0.0 }
    }

    /// Records offered up to `now_ms`. Time must not go back.
    pub(crate) fn produced(&mut self, now_ms: i64) -> f64 {
        let now = real_ms(now_ms);
        while let Some(&(at, rate)) = self.to_come.last() {
            if at > now {
                break;
            }
            self.to_come.pop();
            self.change(at.max(self.since_ms), rate);
        }
        self.total_then + self.rate * (now - self.since_ms) / 1000.0
    }

    /// Offers `rate` from `now_ms` on; what the trace held for later is dropped.
    pub(crate) fn set_rate(&mut self, now_ms: i64, rate: f64) {
        self.produced(now_ms);
        self.to_come.clear();
        self.change(real_ms(now_ms), rate.max(0.0));
    }

    /// The rate offered now.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    fn change(&mut self, at: f64, rate: f64) {
        self.total_then += self.rate * (at - self.since_ms) / 1000.0;
        self.since_ms = at;
        self.rate = rate;
    }
}

/// Whole records of one of `count` equal splits when `total` have been produced.
pub(crate) fn of_split(total: f64, count: u64) -> u64 {
    // A hair above, so that 800 * 0.25 in floating point is 200 and not 199.
    whole(total / real(count.max(1)) + 1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_integral_is_exact_across_steps_and_changes() {
        let mut load = Load::new(&LoadTrace::steps([(0.0, 800.0), (10.0, 1600.0)]), 1_000);
        assert!((load.produced(11_000) - 8_000.0).abs() < 1e-9);
        assert!((load.produced(12_000) - 9_600.0).abs() < 1e-9);
        load.set_rate(13_000, 10.0);
        assert!((load.produced(23_000) - 11_300.0).abs() < 1e-9);
        assert!((load.rate() - 10.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_is_offered_before_the_first_step() {
        let mut load = Load::new(&LoadTrace::steps([(5.0, 100.0)]), 0);
        assert!(load.produced(5_000).abs() < 1e-12);
        assert!((load.produced(6_000) - 100.0).abs() < 1e-9);
    }
}
