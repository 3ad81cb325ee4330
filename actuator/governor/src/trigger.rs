//! Checkpoints that an action asks for.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::action::Effect;
use crate::observation::Observation;

/// A request that left no trace is sent again after this, under the same id: it may not have been sent at all.
const SAME_AGAIN_MS: i64 = 2_000;
/// A checkpoint that led to nothing, or failed, is followed by another one after this at the earliest, in milliseconds.
/// It doubles each time: what a rescale waits for may be a cool-down, during which checkpoints are in vain.
const NEXT_AFTER_MS: i64 = 5_000;
/// The longest time between two checkpoints that an action asks for, in milliseconds.
const LONGEST_MS: i64 = 60_000;

/// What was asked for, and what was there before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Trigger {
    /// Mark of the completed checkpoints before the present request, see
    /// [`crate::SeenCheckpoints::mark`].
    pub mark: u64,
    /// Number of the present request.
    pub index: u32,
    /// How often the present request was sent.
    pub sent: u32,
    /// When, last, in milliseconds since 1970.
    pub sent_at_ms: i64,
}

/// The id under which the `index`th checkpoint of a command is asked for: Flink takes one for each id, however often it
/// is sent.
#[must_use]
pub fn trigger_id(command: &str, index: u32) -> String {
    format!("{:032x}", xxh3_128(format!("{command}\u{ff}checkpoint\u{ff}{index}").as_bytes()))
}

impl Trigger {
    /// Nothing asked for yet; the index goes on, so that no id is used for two purposes.
    #[must_use]
    pub fn restarted(&self, seen: &Observation) -> Self {
        Self { mark: seen.checkpoints.mark(), index: self.index + u32::from(self.sent > 0), sent: 0, sent_at_ms: 0 }
    }

    /// Whether a checkpoint has completed since the request.
    #[must_use]
    pub fn is_done(&self, seen: &Observation) -> bool {
        seen.checkpoints.mark() > self.mark
    }

    /// Asks for a checkpoint if one is due: none is in progress, and the last request is long enough ago.
    pub fn due(&mut self, command: &str, seen: &Observation, now_ms: i64) -> Option<Effect> {
        if seen.checkpoints.in_progress || seen.job_state != "RUNNING" {
            return None;
        }
        let done = self.is_done(seen);
        let lost = self.sent == 1 && !done;
        let pause_ms = match self.sent {
            0 => 0,
            _ if lost => SAME_AGAIN_MS,
            _ => NEXT_AFTER_MS.saturating_mul(1 << self.index.min(8)).min(LONGEST_MS),
        };
        if now_ms.saturating_sub(self.sent_at_ms) < pause_ms {
            return None;
        }
        if self.sent > 0 && !lost {
            *self = self.restarted(seen);
        }
        self.sent += 1;
        self.sent_at_ms = now_ms;
        Some(Effect::TriggerCheckpoint { trigger_id: trigger_id(command, self.index) })
    }
}
