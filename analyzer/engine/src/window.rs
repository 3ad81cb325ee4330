//! Windows over intervals: they count time, not samples.

use weir_schemas::num::float_signed;
use weir_schemas::policy::Policy;

use crate::interval::Interval;

/// Successive intervals, added up.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    pub from_ms: i64,
    pub to_ms: i64,
    pub seconds: f64,
    pub rounds: u32,
    pub vertices: Vec<Totals>,
}

/// What a vertex did in a window. A value is unknown if it is for any of the intervals.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    pub records_in: Option<f64>,
    pub records_out: Option<f64>,
    pub busy_ms: Option<f64>,
    pub busiest_ms: Option<f64>,
    pub backpressured_ms: Option<f64>,
    pub pending: Option<(f64, f64)>,
    pub subtasks: u32,
}

/// Two successive windows of the same length; `older` ends where `newer` begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Halves {
    pub newer: Window,
    pub older: Window,
}

/// Rounds never come at exact distances: a window that is this much too short is long enough.
const LENGTH_SLACK: f64 = 0.85;
/// How far back capacity and ratios are measured, in milliseconds.
pub const CAPACITY_MS: i64 = 60_000;
/// Half-windows are doubled this often until they agree.
const DOUBLINGS: u32 = 3;

impl Window {
    /// Adds intervals up; they must be successive and of the same executions. `None` for none.
    pub fn over<'a>(intervals: impl IntoIterator<Item = &'a Interval>) -> Option<Self> {
        let mut intervals = intervals.into_iter();
        let mut window = Self::of(intervals.next()?);
        for interval in intervals {
            let next = Self::of(interval);
            window.to_ms = next.to_ms;
            window.seconds += next.seconds;
            window.rounds += 1;
            for (sum, more) in window.vertices.iter_mut().zip(next.vertices) {
                sum.add(&more);
            }
        }
        Some(window)
    }

    /// Adds up what is known of each vertex: intervals in which `known` does not hold of it are left out of its totals. So a
    /// counter that came late, or was missed once, costs an interval and not the window. Times are those of each vertex's own
    /// intervals.
    pub fn over_known<'a>(
        intervals: impl IntoIterator<Item = &'a Interval>,
        known: impl Fn(&Totals) -> bool,
    ) -> Option<Vec<(Totals, f64)>> {
        let mut sums: Option<Vec<(Totals, f64)>> = None;
        for window in intervals.into_iter().map(Self::of) {
            let blank = || vec![(Totals::default(), 0.0); window.vertices.len()];
            for ((sum, seconds), more) in sums.get_or_insert_with(blank).iter_mut().zip(&window.vertices) {
                if !known(more) {
                    continue;
                }
                if *seconds > 0.0 {
                    sum.add(more);
                } else {
                    *sum = *more;
                }
                *seconds += window.seconds;
            }
        }
        sums
    }

    fn of(interval: &Interval) -> Self {
        let totals = interval.vertices.iter().map(|change| Totals {
            records_in: change.records_in,
            records_out: change.records_out,
            busy_ms: change.busy_ms,
            busiest_ms: change.busiest_ms,
            backpressured_ms: change.backpressured_ms,
            pending: change.pending,
            subtasks: change.subtasks,
        });
        Self {
            from_ms: interval.from_ms,
            to_ms: interval.to_ms,
            seconds: float_signed(interval.length_ms) / 1000.0,
            rounds: 1,
            vertices: totals.collect(),
        }
    }

    /// Share of their time that the subtasks of `vertex` spent on what `spent` tells, 0 to 1.
    pub fn share(&self, vertex: usize, spent: fn(&Totals) -> Option<f64>) -> Option<f64> {
        let totals = self.vertices.get(vertex)?;
        totals.share(spent(totals)?, self.seconds)
    }
}

impl Totals {
    /// Share of the time of all subtasks in `seconds` that `spent_ms` is, 0 to 1.
    pub fn share(&self, spent_ms: f64, seconds: f64) -> Option<f64> {
        let share = spent_ms / (f64::from(self.subtasks) * seconds * 1000.0);
        share.is_finite().then(|| share.clamp(0.0, 1.0))
    }

    fn add(&mut self, more: &Self) {
        let plus = |sum: Option<f64>, more: Option<f64>| sum.zip(more).map(|(a, b)| a + b);
        self.records_in = plus(self.records_in, more.records_in);
        self.records_out = plus(self.records_out, more.records_out);
        self.busy_ms = plus(self.busy_ms, more.busy_ms);
        self.busiest_ms = plus(self.busiest_ms, more.busiest_ms);
        self.backpressured_ms = plus(self.backpressured_ms, more.backpressured_ms);
        self.pending = self.pending.zip(more.pending).map(|((start, _), (_, end))| (start, end));
    }
}

/// Length of a half-window, in milliseconds: some refreshes of Flink's metrics, but not longer than the policy allows, unless one
/// refresh is.
pub fn half_window_ms(policy: &Policy, refresh_ms: i64) -> i64 {
    let refreshes = refresh_ms.saturating_mul(i64::from(policy.half_window_refreshes));
    refreshes.min(policy.half_window_longest_ms.max(refresh_ms)).max(1)
}

/// How far back anybody looks, in milliseconds: for the longest pair of half-windows, or for what capacity is measured over.
pub fn looked_at_ms(policy: &Policy, refresh_ms: i64) -> i64 {
    let longest_pair = half_window_ms(policy, refresh_ms).saturating_mul(2 << DOUBLINGS);
    // Rounds never come at exact distances.
    longest_pair.max(CAPACITY_MS).saturating_add(2 * refresh_ms)
}

/// The newest pairs of half-windows, the shortest first: a load that does not agree over a short pair may be noise, and agree
/// over a longer one, while a step never agrees with what was before it.
pub fn pairs(intervals: &[Interval], half_ms: i64) -> impl Iterator<Item = Halves> {
    (0..=DOUBLINGS).map_while(move |doubling| halves(intervals, half_ms.saturating_mul(1 << doubling)))
}

fn halves(intervals: &[Interval], half_ms: i64) -> Option<Halves> {
    let newer_from = intervals.len().checked_sub(reaching_back(intervals, half_ms)?)?;
    let (rest, newer) = intervals.split_at(newer_from);
    let older_from = rest.len().checked_sub(reaching_back(rest, half_ms)?)?;
    Some(Halves { newer: Window::over(newer)?, older: Window::over(&rest[older_from..])? })
}

/// How many of the newest intervals it takes to cover `length_ms`.
fn reaching_back(intervals: &[Interval], length_ms: i64) -> Option<usize> {
    let enough = float_signed(length_ms) * LENGTH_SLACK;
    let mut covered = 0;
    let taken = intervals.iter().rev().position(|interval| {
        covered += interval.length_ms;
        float_signed(covered) >= enough
    })?;
    Some(taken + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Change;

    fn interval(at_s: i64, seconds: i64, records: f64) -> Interval {
        let change = Change { records_out: Some(records), subtasks: 1, ..Change::default() };
        Interval {
            from_ms: at_s * 1000,
            to_ms: (at_s + seconds) * 1000,
            length_ms: seconds * 1000,
            vertices: vec![change],
            catching_up: false,
        }
    }

    #[test]
    fn windows_count_time_and_not_samples() {
        let uneven = [interval(0, 2, 1.0), interval(2, 3, 2.0), interval(5, 1, 3.0), interval(6, 2, 4.0)];
        let first = pairs(&uneven, 3000).next().unwrap();
        assert_eq!(
            (first.newer.from_ms, first.newer.seconds, first.newer.vertices[0].records_out),
            (5000, 3.0, Some(7.0))
        );
        assert_eq!((first.older.from_ms, first.older.rounds), (2000, 1));
        assert_eq!(pairs(&uneven, 3000).count(), 1, "there is no time for twice the length");
    }

    #[test]
    fn a_value_that_is_missing_once_is_unknown_for_the_window() {
        let mut gap = interval(3, 3, 1.0);
        gap.vertices[0].records_out = None;
        assert_eq!(Window::over(&[interval(0, 3, 1.0), gap]).unwrap().vertices[0].records_out, None);
    }

    #[test]
    fn a_value_that_is_missing_once_costs_its_interval_alone() {
        let mut gap = interval(3, 3, 1.0);
        gap.vertices[0].records_out = None;
        let known = Window::over_known(&[interval(0, 3, 1.0), gap, interval(6, 2, 4.0)], |it| it.records_out.is_some())
            .unwrap();
        assert_eq!((known[0].0.records_out, known[0].1), (Some(5.0), 5.0));
    }

    #[test]
    fn half_windows_follow_the_refresh_up_to_a_limit() {
        let lengths: Vec<i64> =
            [1_000, 3_000, 10_000, 30_000].map(|refresh| half_window_ms(&Policy::default(), refresh)).into();
        assert_eq!(lengths, [3_000, 9_000, 10_000, 30_000]);
    }
}
