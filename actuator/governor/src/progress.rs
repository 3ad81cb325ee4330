//! Whether a restart advances, and how long it took.

use serde::{Deserialize, Serialize};

use crate::observation::Observation;

/// Falls after which a job counts as going round in circles.
const FALLS_OF_A_LOOP: u32 = 3;
/// Shortest patience with a job of which nothing moves, in milliseconds.
const SHORTEST_PATIENCE_MS: i64 = 30_000;
/// How much longer a subtask that restores its state is given: large state takes minutes, and starting over takes them
/// again.
const RESTORING_FACTOR: i64 = 10;

/// Whether a restart advances: a job that still does is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Most subtasks that ran at once in this restart.
    pub most_running: u32,
    /// How often subtasks that ran had stopped again.
    pub falls: u32,
    /// Whether the number of running subtasks was going down when last seen to move.
    pub falling: bool,
    /// Subtasks that ran when last seen.
    pub running: u32,
    /// When something last moved, in milliseconds since 1970.
    pub moved_at_ms: i64,
}

impl Progress {
    /// Starts to watch a restart.
    #[must_use]
    pub fn from(now_ms: i64) -> Self {
        Self { moved_at_ms: now_ms, ..Self::default() }
    }

    /// Takes in what is seen.
    pub fn note(&mut self, seen: &Observation, now_ms: i64) {
        let live = seen.job_state == "RUNNING";
        let running = if live { seen.vertices.values().map(|vertex| vertex.running).sum() } else { 0 };
        let rises = running > self.most_running;
        if running < self.running {
            // A fall may be seen in several steps; it counts once.
            self.falls = self.falls.saturating_add(u32::from(!self.falling));
            self.falling = true;
            self.most_running = running;
        } else if rises {
            self.falling = false;
            self.most_running = running;
        }
        if (rises || running < self.running) && self.falls < FALLS_OF_A_LOOP {
            self.moved_at_ms = now_ms;
        }
        self.running = running;
    }

    /// Whether the job is on its way up, so that it had better be left alone. `patience_ms` is the policy's deadline.
    #[must_use]
    pub fn advances(&self, seen: &Observation, patience_ms: i64, now_ms: i64) -> bool {
        if seen.is_settled() || self.falls >= FALLS_OF_A_LOOP {
            return false;
        }
        let restoring = seen.vertices.values().any(|vertex| vertex.initializing > 0);
        let factor = if restoring { RESTORING_FACTOR } else { 1 };
        let patience_ms = (patience_ms / 2).max(SHORTEST_PATIENCE_MS).saturating_mul(factor);
        now_ms.saturating_sub(self.moved_at_ms) < patience_ms
    }
}

/// The stop that an action cost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stop {
    /// When the job was first seen not to run, in milliseconds since 1970.
    pub began_ms: Option<i64>,
    /// When it was seen to run again, in milliseconds since 1970.
    pub ended_ms: Option<i64>,
}

impl Stop {
    /// Takes in what is seen.
    pub fn note(&mut self, seen: &Observation, now_ms: i64) {
        if !seen.is_live() {
            self.began_ms.get_or_insert(now_ms);
        } else if self.began_ms.is_some() {
            self.ended_ms.get_or_insert(now_ms);
        }
    }

    /// How long it was, in milliseconds, where it was seen: as exact as looks lie close together.
    #[must_use]
    pub fn length_ms(&self) -> Option<i64> {
        Some(self.ended_ms?.saturating_sub(self.began_ms?).max(0))
    }
}
