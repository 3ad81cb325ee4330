//! What happened between two rounds: differences of counters, subtask by subtask, added up for each vertex.

use serde::{Deserialize, Serialize};
use weir_schemas::num::float_signed;

use crate::sample::{Counters, Sample, VertexSample};

/// Between two successive rounds of the same executions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Wall-clock start, in milliseconds since 1970.
    pub from_ms: i64,
    /// Wall-clock end.
    pub to_ms: i64,
    /// Length by the collector's monotonic clock, in milliseconds; positive.
    pub length_ms: i64,
    /// One entry for each vertex, in topological order.
    pub vertices: Vec<Change>,
    /// The job worked off what had waited during a stop, so that busy times teach nothing.
    pub catching_up: bool,
}

/// What a vertex did in an interval, over all its subtasks. A value is unknown unless every subtask told it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Change {
    pub records_in: Option<f64>,
    pub records_out: Option<f64>,
    pub busy_ms: Option<f64>,
    /// Time that the busiest subtask spent working.
    pub busiest_ms: Option<f64>,
    pub idle_ms: Option<f64>,
    pub backpressured_ms: Option<f64>,
    /// Records that waited at the start and at the end.
    pub pending: Option<(f64, f64)>,
    /// Subtasks.
    pub subtasks: u32,
}

/// A counter may run ahead of the clock by this share, since it is read a moment later.
const TIME_SLACK: f64 = 1.25;

impl Interval {
    /// The differences between two samples of the same executions.
    ///
    /// # Errors
    /// A stable word: `repeated` or `reordered` when no time lies between them.
    pub fn between(before: &Sample, after: &Sample) -> Result<Self, &'static str> {
        let (old, new) = (&before.facts, &after.facts);
        if old.session == new.session && new.round <= old.round {
            return Err(if new.round == old.round { "repeated" } else { "reordered" });
        }
        let length_ms = if old.session == new.session {
            new.monotonic_ms - old.monotonic_ms
        } else {
            new.fetched_at_ms - old.fetched_at_ms
        };
        if length_ms <= 0 {
            return Err("reordered");
        }
        let vertices = before.vertices.iter().zip(&after.vertices).map(|(b, a)| Change::between(b, a, length_ms));
        Ok(Self {
            from_ms: new.fetched_at_ms - length_ms,
            to_ms: new.fetched_at_ms,
            length_ms,
            vertices: vertices.collect(),
            catching_up: false,
        })
    }

    /// An interval in which all is known that is known in any of `intervals`. Its values are of no use.
    pub fn everything_told<'a>(intervals: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut intervals = intervals.into_iter();
        let mut all = intervals.next()?.clone();
        for interval in intervals {
            for (known, more) in all.vertices.iter_mut().zip(&interval.vertices) {
                known.records_in = known.records_in.or(more.records_in);
                known.records_out = known.records_out.or(more.records_out);
                known.busy_ms = known.busy_ms.or(more.busy_ms);
            }
        }
        Some(all)
    }

    /// Whether everything that is known of `other` is known of this one as well.
    pub fn tells_as_much_as(&self, other: &Self) -> bool {
        let covers = |(own, others): (&Change, &Change)| {
            let told = |change: &Change| [change.records_in, change.records_out, change.busy_ms];
            told(own).iter().zip(told(others)).all(|(own, others)| own.is_some() || others.is_none())
        };
        self.vertices.iter().zip(&other.vertices).all(covers)
    }
}

impl Change {
    fn between(before: &VertexSample, after: &VertexSample, length_ms: i64) -> Self {
        let sum = |counter: fn(&Counters) -> Option<f64>| {
            after.subtasks.iter().try_fold(0.0, |sum, (index, now)| {
                let then = before.subtasks.get(index)?;
                let difference = counter(now)? - counter(then)?;
                // A counter that fell was reset without a new attempt: what it counted is not known.
                (difference >= 0.0).then_some(sum + difference)
            })
        };
        let busiest = after.subtasks.iter().try_fold(0.0, |most: f64, (index, now)| {
            let spent = now.busy_ms? - before.subtasks.get(index)?.busy_ms?;
            (spent >= 0.0).then_some(most.max(spent))
        });
        let available_ms = f64::from(after.parallelism) * float_signed(length_ms) * TIME_SLACK;
        let time = |counter| sum(counter).filter(|spent| *spent <= available_ms);
        Self {
            records_in: sum(|counters| counters.records_in),
            records_out: sum(|counters| counters.records_out),
            busy_ms: time(|counters| counters.busy_ms),
            busiest_ms: busiest,
            idle_ms: time(|counters| counters.idle_ms),
            backpressured_ms: time(|counters| counters.backpressured_ms),
            pending: before.pending.zip(after.pending),
            subtasks: after.parallelism,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_in_which_a_counter_is_missing_tells_less() {
        let interval = |records_in, busy_ms| Interval {
            from_ms: 0,
            to_ms: 1_000,
            length_ms: 1_000,
            vertices: vec![Change { records_in, busy_ms, ..Change::default() }],
            catching_up: false,
        };
        let whole = interval(Some(10.0), Some(500.0));
        let blind = interval(None, Some(500.0));
        assert!(whole.tells_as_much_as(&whole) && whole.tells_as_much_as(&blind));
        assert!(!blind.tells_as_much_as(&whole));
        assert!(blind.tells_as_much_as(&blind), "what a connector never tells is missed by none");
    }
}
