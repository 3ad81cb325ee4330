//! Flink's per-second meters, with the error that they have after each start.

use std::collections::VecDeque;

use super::flow::{Counters, Flow};
use crate::num::{real, real_len};

/// Time between two updates of a meter.
const UPDATE_MS: i64 = 5_000;
/// Updates that a meter spans: a minute.
const SPAN: usize = 12;

/// Values of one subtask's meters.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) records_in: f64,
    pub(crate) records_out: f64,
    pub(crate) busy: f64,
    pub(crate) idle: f64,
    pub(crate) back_pressured: f64,
}

/// Counters of all subtasks at the last updates of one attempt.
#[derive(Debug, Clone)]
pub(crate) struct Meters {
    started_ms: i64,
    samples: VecDeque<Vec<Vec<Counters>>>,
    updates: usize,
}

impl Meters {
    pub(crate) fn new(started_ms: i64) -> Self {
        Self { started_ms, samples: VecDeque::new(), updates: 0 }
    }

    /// Takes a sample when one is due.
    pub(crate) fn step(&mut self, now_ms: i64, flow: &Flow, vertices: usize) {
        let due = crate::num::signed(crate::num::wide(self.updates) + 1).saturating_mul(UPDATE_MS);
        if now_ms - self.started_ms < due {
            return;
        }
        self.updates += 1;
        self.samples.push_back((0..vertices).map(|v| flow.counters(v).collect()).collect());
        if self.samples.len() > SPAN + 1 {
            self.samples.pop_front();
        }
    }

    /// What the meters of a subtask say now.
    pub(crate) fn rates(&self, vertex: usize, subtask: usize) -> Rates {
        let at = |sample: &Vec<Vec<Counters>>| sample[vertex].get(subtask).copied().unwrap_or_default();
        let newest = self.samples.back().map(at).unwrap_or_default();
        let full = self.samples.len() > SPAN;
        let oldest = self.samples.front().filter(|_| full).map(at).unwrap_or_default();
        // Counters are divided by a whole minute from the first second on; time gauges by the time that they saw.
        let minute = 60.0;
        let seen = 5.0 * real_len(self.samples.len().clamp(1, SPAN));
        let idle = ((newest.idle_ms - oldest.idle_ms) / seen).clamp(0.0, 1000.0).floor();
        let back_pressured = ((newest.back_pressured_ms - oldest.back_pressured_ms) / seen).clamp(0.0, 1000.0).floor();
        Rates {
            records_in: real(newest.records_in - oldest.records_in) / minute,
            records_out: real(newest.records_out - oldest.records_out) / minute,
            busy: 1000.0 - (idle + back_pressured).min(1000.0),
            idle,
            back_pressured,
        }
    }
}
