//! What was needed of late. A shrink goes no lower than the most that was needed in the quiet period (as HPA's stabilisation
//! window does).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// What was needed since the data were last incomplete.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NeededOfLate {
    /// Since when it is known without a gap, in milliseconds since 1970.
    since_ms: Option<i64>,
    /// When the need changed, and to what, for each vertex; the last entry holds until now.
    changes: VecDeque<(i64, Vec<u32>)>,
}

impl NeededOfLate {
    /// Forgets everything: the data were incomplete, or the job restarted.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Takes in what is needed at `now_ms`, and forgets what ended more than `period_ms` before.
    pub fn learn(&mut self, now_ms: i64, needed: &[u32], period_ms: i64) {
        self.since_ms.get_or_insert(now_ms);
        if self.changes.back().is_none_or(|(_, last)| last != needed) {
            self.changes.push_back((now_ms, needed.to_vec()));
        }
        while self.changes.get(1).is_some_and(|(began, _)| *began <= now_ms - period_ms) {
            self.changes.pop_front();
        }
    }

    /// The most that was needed of each vertex within the period.
    pub fn most(&self) -> Vec<u32> {
        self.most_since(0)
    }

    /// The same over the changes from `index` on.
    fn most_since(&self, index: usize) -> Vec<u32> {
        let mut entries = self.changes.range(index.min(self.changes.len())..).map(|(_, needed)| needed);
        let first = entries.next().cloned().unwrap_or_default();
        entries.fold(first, |most, needed| most.iter().zip(needed).map(|(a, b)| *a.max(b)).collect())
    }

    /// When less than `current` of some vertex will have been enough for `period_ms`, if the need stays as it is, in milliseconds
    /// since 1970. `None` if all of it is needed now.
    pub fn quiet_at_ms(&self, current: &[u32], period_ms: i64) -> Option<i64> {
        let leaves_room = |most: &[u32]| most.iter().zip(current).any(|(most, runs)| most < runs);
        let index = (0..self.changes.len()).find(|&index| leaves_room(&self.most_since(index)))?;
        let since = if index == 0 { self.since_ms? } else { self.changes.get(index)?.0 };
        Some(since.saturating_add(period_ms))
    }

    /// When a shrink is due: once the period is quiet. While the need is still much lower than the most of the period, by a quarter
    /// of what runs, it is waited for that to pass, so that one restart does instead of two.
    pub fn due_at_ms(&self, current: &[u32], period_ms: i64) -> Option<i64> {
        let quiet_at_ms = self.quiet_at_ms(current, period_ms)?;
        let (began_ms, latest) = self.changes.back()?;
        let sum = |sizes: &[u32]| sizes.iter().map(|&size| u64::from(size)).sum::<u64>();
        let still_to_fall = sum(&self.most()).saturating_sub(sum(latest));
        let falls = still_to_fall.saturating_mul(4) >= sum(current) && still_to_fall > 0;
        Some(if falls { quiet_at_ms.max(began_ms.saturating_add(period_ms)) } else { quiet_at_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shrink_keeps_what_was_needed_within_the_period() {
        let mut needed = NeededOfLate::default();
        needed.learn(0, &[5, 10], 60_000);
        needed.learn(10_000, &[2, 4], 60_000);
        needed.learn(40_000, &[2, 3], 60_000);
        assert_eq!(needed.most(), [5, 10]);
        assert_eq!(needed.quiet_at_ms(&[5, 10], 60_000), Some(70_000));
        needed.learn(70_000, &[2, 3], 60_000);
        assert_eq!(needed.most(), [2, 4], "the 4 still lies within the period");
        needed.learn(100_000, &[2, 3], 60_000);
        assert_eq!(needed.most(), [2, 3]);
    }

    /// Each vertex alone left room at some time, but never one of them all the time.
    #[test]
    fn a_need_that_wanders_from_vertex_to_vertex_is_not_quiet() {
        let mut needed = NeededOfLate::default();
        needed.learn(0, &[5, 3], 60_000);
        needed.learn(30_000, &[2, 10], 60_000);
        needed.learn(50_000, &[2, 3], 60_000);
        assert_eq!(needed.quiet_at_ms(&[5, 10], 60_000), Some(90_000));
        needed.learn(90_000, &[2, 3], 60_000);
        assert_eq!(needed.most(), [2, 10]);
    }

    #[test]
    fn a_need_that_has_just_fallen_far_is_waited_for() {
        let mut needed = NeededOfLate::default();
        needed.learn(0, &[5, 9], 20_000);
        needed.learn(100_000, &[2, 3], 20_000);
        assert_eq!((needed.most(), needed.due_at_ms(&[5, 10], 20_000)), (vec![5, 9], Some(120_000)));
        needed.learn(120_000, &[2, 3], 20_000);
        assert_eq!(needed.most(), [2, 3]);
        assert!(needed.due_at_ms(&[5, 10], 20_000) <= Some(120_000));
    }

    #[test]
    fn a_need_that_falls_little_by_little_is_not() {
        let mut needed = NeededOfLate::default();
        needed.learn(0, &[5, 9], 20_000);
        needed.learn(100_000, &[5, 8], 20_000);
        assert_eq!(needed.due_at_ms(&[5, 10], 20_000), Some(20_000));
    }

    #[test]
    fn a_gap_starts_the_period_anew() {
        let mut needed = NeededOfLate::default();
        needed.learn(0, &[2], 60_000);
        needed.forget();
        assert_eq!((needed.most(), needed.quiet_at_ms(&[3], 60_000)), (vec![], None));
        needed.learn(30_000, &[2], 60_000);
        assert_eq!(needed.quiet_at_ms(&[3], 60_000), Some(90_000));
    }
}
