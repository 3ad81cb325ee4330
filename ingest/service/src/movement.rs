//! Whether all values of a reading come from one fetch. Pure.
//!
//! Busy, idle and back-pressured time of a subtask add up to its age at the moment of the fetch. So they move with every fetch,
//! also where no record flows, and tell readings of different fetches apart.

use std::collections::{BTreeMap, BTreeSet};

use weir_flink::VertexId;
use weir_flink::decode::{IoMetrics, VertexDetail};

/// Ages of all subtasks in the last reading, with their attempts.
#[derive(Debug, Default)]
pub(crate) struct Movement {
    ages: BTreeMap<(VertexId, u32), (u32, f64)>,
}

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

    /// Remembers a reading.
    pub(crate) fn remember(&mut self, vertices: &BTreeMap<VertexId, VertexDetail>) {
        let all = vertices.iter().flat_map(|(id, vertex)| {
            ages(vertex).map(move |(index, attempt, age)| ((id.clone(), index), (attempt, age)))
        });
        self.ages = all.collect();
    }
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
        movement.remember(&reading(before));
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
}
