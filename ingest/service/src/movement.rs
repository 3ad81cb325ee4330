//! Whether all values of a reading come from one fetch. Pure.
//!
//! Busy, idle and back-pressured time of a subtask add up to its age at the moment of the fetch. So they move with every fetch,
//! also where no record flows, and tell readings of different fetches apart. They also tell when the fetch was: Flink ignores our
//! wish for one if somebody else, a person before Flink's page, has had one within the same refresh.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_flink::VertexId;
use weir_flink::decode::{IoMetrics, VertexDetail};
use weir_schemas::num;

/// Ages of all subtasks in the last reading, with their attempts.
#[derive(Debug, Default)]
pub(crate) struct Movement {
    ages: BTreeMap<(VertexId, u32), (u32, f64)>,
    /// When the last fetch was asked for.
    asked_ms: i64,
    /// How much older the last readings were than the moment at which they were asked for, up to a constant.
    delays: VecDeque<f64>,
}

/// Readings whose delays are compared. Some fetch among them was ours; clocks do not drift apart in so short a time.
const COMPARED: usize = 8;
/// Delays below this are the network's and the clocks', in milliseconds.
const NO_DELAY_MS: f64 = 30.0;

/// What a reading is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fetch {
    /// One new fetch, except for these subtasks, which their TaskManager did not report anew.
    New(BTreeSet<(VertexId, u32)>),
    /// The fetch that was read last time.
    Repeated,
    /// Some vertices from a new fetch, these from an old one; with all subtasks that stand still.
    Mixed(Vec<VertexId>, BTreeSet<(VertexId, u32)>),
}

impl Movement {
    /// Judges a reading by the last one.
    pub(crate) fn judge(&self, vertices: &BTreeMap<VertexId, VertexDetail>) -> Fetch {
        let mut still = BTreeSet::new();
        let (mut moved_vertices, mut still_vertices) = (0_u32, Vec::new());
        for (id, vertex) in vertices {
            let moved: Vec<(u32, bool)> = ages(vertex)
                .filter_map(|(index, attempt, age)| {
                    let &(last_attempt, last_age) = self.ages.get(&(id.clone(), index))?;
                    (attempt == last_attempt).then(|| (index, (age - last_age).abs() > f64::EPSILON))
                })
                .collect();
            still.extend(moved.iter().filter(|(_, moved)| !moved).map(|(index, _)| (id.clone(), *index)));
            if moved.iter().any(|(_, moved)| *moved) {
                moved_vertices += 1;
            } else if !moved.is_empty() {
                still_vertices.push(id.clone());
            }
        }
        match (moved_vertices, still_vertices.is_empty()) {
            (_, true) => Fetch::New(still),
            (0, false) => Fetch::Repeated,
            (_, false) => Fetch::Mixed(still_vertices, still),
        }
    }

    /// Remembers a reading whose fetch was asked for at `asked_ms`, by the monotonic clock. Says how long before that moment the
    /// fetch really was, in milliseconds, as far as earlier readings show it.
    pub(crate) fn remember(&mut self, vertices: &BTreeMap<VertexId, VertexDetail>, asked_ms: i64) -> i64 {
        let asked_later = num::float_signed(asked_ms - self.asked_ms);
        let mut changes: Vec<f64> = Vec::new();
        let mut ages_now = BTreeMap::new();
        for (id, vertex) in vertices {
            for (index, attempt, age) in ages(vertex) {
                let last = self.ages.get(&(id.clone(), index)).filter(|(last_attempt, _)| *last_attempt == attempt);
                let grown = last.map(|(_, last_age)| age - last_age).filter(|grown| *grown > 0.0);
                changes.extend(grown.map(|grown| asked_later - grown));
                ages_now.insert((id.clone(), index), (attempt, age));
            }
        }
        (self.ages, self.asked_ms) = (ages_now, asked_ms);
        match (median(changes), self.delays.back()) {
            (Some(change), Some(last)) => self.delays.push_back(last + change),
            _ => self.delays = VecDeque::from([0.0]),
        }
        if self.delays.len() > COMPARED {
            self.delays.pop_front();
        }
        let shortest = self.delays.iter().copied().fold(f64::INFINITY, f64::min);
        let delay = self.delays.back().map_or(0.0, |last| last - shortest);
        if delay < NO_DELAY_MS { 0 } else { num::round_i64(delay) }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Index, attempt and age of the subtasks that run and have one.
fn ages(vertex: &VertexDetail) -> impl Iterator<Item = (u32, u32, f64)> + '_ {
    let running = vertex.subtasks.iter().filter(|subtask| subtask.running());
    running.filter_map(|subtask| Some((subtask.index, subtask.attempt?, age(&subtask.metrics)?)))
}

fn age(metrics: &IoMetrics) -> Option<f64> {
    Some(metrics.busy_ms? + metrics.idle_ms? + metrics.backpressured_ms?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flink::decode::Subtask;

    /// Vertices whose subtasks have these attempts and ages.
    fn reading(vertices: &[(&str, &[(u32, f64)])]) -> BTreeMap<VertexId, VertexDetail> {
        let vertex = |id: &str, subtasks: &[(u32, f64)]| VertexDetail {
            id: id.into(),
            subtasks: (0..).zip(subtasks).map(|(index, &(attempt, age))| subtask(index, attempt, age)).collect(),
            ..VertexDetail::default()
        };
        vertices.iter().map(|&(id, subtasks)| (id.to_owned(), vertex(id, subtasks))).collect()
    }

    fn subtask(index: u32, attempt: u32, age: f64) -> Subtask {
        let metrics = IoMetrics {
            busy_ms: Some(age / 2.0),
            idle_ms: Some(age / 2.0),
            backpressured_ms: Some(0.0),
            ..IoMetrics::default()
        };
        Subtask { index, attempt: Some(attempt), status: "RUNNING".into(), metrics, ..Subtask::default() }
    }

    fn judge(before: &[(&str, &[(u32, f64)])], now: &[(&str, &[(u32, f64)])]) -> Fetch {
        let mut movement = Movement::default();
        movement.remember(&reading(before), 0);
        movement.judge(&reading(now))
    }

    #[test]
    fn the_first_reading_and_other_attempts_are_new() {
        assert_eq!(judge(&[], &[("a", &[(0, 10.0)])]), Fetch::New(BTreeSet::new()));
        assert_eq!(judge(&[("a", &[(0, 10.0)])], &[("a", &[(1, 10.0)])]), Fetch::New(BTreeSet::new()));
    }

    #[test]
    fn a_fetch_that_was_read_already_is_told() {
        let before: &[(&str, &[(u32, f64)])] = &[("a", &[(0, 10.0)]), ("b", &[(0, 10.0), (0, 11.0)])];
        assert_eq!(judge(before, before), Fetch::Repeated);
    }

    #[test]
    fn vertices_of_different_fetches_are_told() {
        let before: &[(&str, &[(u32, f64)])] = &[("a", &[(0, 10.0)]), ("b", &[(0, 10.0)])];
        let still = BTreeSet::from([("a".to_owned(), 0)]);
        assert_eq!(judge(before, &[("a", &[(0, 10.0)]), ("b", &[(0, 20.0)])]), Fetch::Mixed(vec!["a".into()], still));
    }

    #[test]
    fn a_task_manager_that_does_not_answer_leaves_its_subtasks_behind() {
        let before: &[(&str, &[(u32, f64)])] = &[("a", &[(0, 10.0), (0, 10.0)])];
        let still = BTreeSet::from([("a".to_owned(), 1)]);
        assert_eq!(judge(before, &[("a", &[(0, 20.0), (0, 10.0)])]), Fetch::New(still));
    }

    /// Delays that are told for fetches asked for each second that really were so long before.
    fn delays(real: &[f64]) -> Vec<i64> {
        let mut movement = Movement::default();
        let at = |second: usize| 1_000 * i64::try_from(second).unwrap();
        let age = |second: usize| 1_000.0 * num::float_len(second) + 5_000.0 - real[second];
        (0..real.len())
            .map(|second| {
                let subtasks = [(0, age(second)), (0, age(second) + 7.0)];
                movement.remember(&reading(&[("a", &subtasks)]), at(second))
            })
            .collect()
    }

    #[test]
    fn a_fetch_that_somebody_else_had_is_dated_when_it_was() {
        assert_eq!(delays(&[0.0, 5.0, 0.0, 10.0, 0.0]), [0; 5], "jitter is no delay");
        assert_eq!(delays(&[0.0, 0.0, 400.0, 300.0, 0.0]), [0, 0, 400, 300, 0]);
        // The first one has nothing to be compared with.
        assert_eq!(delays(&[900.0, 0.0, 0.0]), [0, 0, 0]);
    }

    #[test]
    fn clocks_that_drift_apart_are_no_delay() {
        let drifting: Vec<f64> = (0..200).map(|second| f64::from(second) * 2.0).collect();
        assert!(delays(&drifting).iter().all(|&delay| delay == 0));
    }

    #[test]
    fn another_attempt_starts_the_comparison_anew() {
        let mut movement = Movement::default();
        movement.remember(&reading(&[("a", &[(0, 9_000.0)])]), 0);
        assert_eq!(movement.remember(&reading(&[("a", &[(1, 10.0)])]), 1_000), 0);
        assert_eq!(movement.remember(&reading(&[("a", &[(1, 610.0)])]), 2_000), 400);
    }
}
