//! Whether a job is calm, so that it may be read less often. Pure.

use std::collections::VecDeque;

/// What is looked at: a job is calm while none of it moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pulse {
    /// When, by the monotonic clock, in milliseconds.
    pub(crate) at_ms: i64,
    /// Records that all sources have handed out, where known.
    pub(crate) source_records: Option<f64>,
    /// Records that wait in front of all sources, where known.
    pub(crate) pending: Option<f64>,
}

/// The pulses of the last minute or so.
#[derive(Debug, Default)]
pub(crate) struct Calm {
    pulses: VecDeque<Pulse>,
}

/// Rates and backlogs within this share of their mean count as the same.
const SAME: f64 = 0.05;

impl Calm {
    /// Something changed: the job has to prove its calm anew.
    pub(crate) fn disturb(&mut self) {
        self.pulses.clear();
    }

    /// Takes a pulse and says whether the job has been calm for `calm_after_ms` milliseconds.
    pub(crate) fn feel(&mut self, pulse: Pulse, calm_after_ms: i64) -> bool {
        self.pulses.push_back(pulse);
        // The oldest pulse that is kept lies at the beginning of the time that is looked at, or before it.
        while self.pulses.get(1).is_some_and(|second| pulse.at_ms - second.at_ms >= calm_after_ms) {
            self.pulses.pop_front();
        }
        let long_enough = self.pulses.front().is_some_and(|first| pulse.at_ms - first.at_ms >= calm_after_ms);
        long_enough && self.is_steady()
    }

    fn is_steady(&self) -> bool {
        let pairs = self.pulses.iter().zip(self.pulses.iter().skip(1));
        let rates: Option<Vec<f64>> = pairs.map(|(a, b)| rate(a, b)).collect();
        // A source that does not say what it does is never known to be calm.
        let Some(rates) = rates else { return false };
        let mean_rate = mean(&rates);
        // A record more or less a second is nothing.
        if !within(&rates, mean_rate, (mean_rate * SAME).max(1.0)) {
            return false;
        }
        let pending: Option<Vec<f64>> = self.pulses.iter().map(|pulse| pulse.pending).collect();
        pending.is_none_or(|pending| {
            let mean_pending = mean(&pending);
            // What comes in within a second waits in any job.
            within(&pending, mean_pending, (mean_pending * SAME).max(mean_rate).max(1.0))
        })
    }
}

/// Records a second between two pulses.
fn rate(before: &Pulse, after: &Pulse) -> Option<f64> {
    let seconds = weir_schemas::num::float_signed(after.at_ms - before.at_ms) / 1000.0;
    let records = after.source_records? - before.source_records?;
    (seconds > 0.0 && records >= 0.0).then(|| records / seconds)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / weir_schemas::num::float_len(values.len().max(1))
}

fn within(values: &[f64], centre: f64, distance: f64) -> bool {
    values.iter().all(|value| (value - centre).abs() <= distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feels a pulse a second for `seconds`, at `rate(second)` records a second and `pending(second)` waiting.
    fn run(seconds: u32, rate: impl Fn(u32) -> f64, pending: impl Fn(u32) -> Option<f64>) -> Vec<bool> {
        let (mut calm, mut records) = (Calm::default(), 0.0);
        let mut felt = Vec::new();
        for second in 0..seconds {
            records += rate(second);
            let pulse =
                Pulse { at_ms: i64::from(second) * 1_000, source_records: Some(records), pending: pending(second) };
            felt.push(calm.feel(pulse, 60_000));
        }
        felt
    }

    fn first_calm(felt: &[bool]) -> Option<usize> {
        felt.iter().position(|&calm| calm)
    }

    #[test]
    fn a_minute_without_change_is_calm() {
        let wobbly = |second: u32| if second.is_multiple_of(2) { 980.0 } else { 1_020.0 };
        let felt = run(80, wobbly, |second| Some(if second.is_multiple_of(3) { 0.0 } else { 900.0 }));
        assert_eq!(first_calm(&felt), Some(60));
        assert!(felt[60..].iter().all(|&calm| calm));
    }

    #[test]
    fn a_step_ends_the_calm_at_once_and_for_a_minute() {
        let felt = run(200, |second| if second < 100 { 1_000.0 } else { 1_200.0 }, |_| Some(0.0));
        assert!(felt[99] && !felt[100]);
        assert_eq!(first_calm(&felt[100..]), Some(59));
    }

    #[test]
    fn a_backlog_that_grows_is_not_calm() {
        let felt = run(120, |_| 1_000.0, |second| Some(f64::from(second) * 100.0));
        assert_eq!(first_calm(&felt), None);
    }

    #[test]
    fn what_is_unknown_is_not_calm_but_a_source_without_lag_may_be() {
        assert_eq!(first_calm(&run(80, |_| f64::NAN, |_| Some(0.0))), None);
        assert_eq!(first_calm(&run(80, |_| 1_000.0, |_| None)), Some(60));
    }

    #[test]
    fn a_disturbed_job_has_to_prove_its_calm_anew() {
        let mut calm = Calm::default();
        let pulse = |at_ms: i64| Pulse { at_ms, source_records: Some(0.0), pending: Some(0.0) };
        assert!(!calm.feel(pulse(0), 60_000) && calm.feel(pulse(60_000), 60_000));
        calm.disturb();
        assert!(!calm.feel(pulse(61_000), 60_000));
    }
}
