//! When the job cannot be seen.

use serde::{Deserialize, Serialize};

use crate::action::{Action, Phase, Step};
use crate::observation::ObserveError;
use crate::{refuse, wording};

/// How long a job has to stay unknown before it counts as gone, in milliseconds: a JobManager that has just started
/// does not know its jobs yet.
const GONE_AFTER_MS: i64 = 15_000;
/// How long after its deadline an action waits for Flink to answer, in milliseconds. Nobody can act meanwhile either.
const GIVE_UP_AFTER_MS: i64 = 3_600_000;
/// Time between looks at a Flink that does not answer, in milliseconds: the first, which doubles up to the longest.
const LOOK_MS: (i64, i64) = (500, 30_000);

/// How the job last could not be seen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Trouble {
    /// Since when, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Since when Flink says that it does not know the job, in milliseconds since 1970.
    pub gone_since_ms: Option<i64>,
    /// Looks in a row that showed nothing.
    pub failures: u32,
}

impl Trouble {
    /// Time until the next look, in milliseconds.
    fn look_again_ms(&self) -> i64 {
        let (first, longest) = LOOK_MS;
        first.saturating_mul(1 << self.failures.min(16)).min(longest)
    }
}

/// Nothing was seen: wait, unless that has lasted too long.
pub(crate) fn unseen(mut action: Action, error: &ObserveError, now_ms: i64) -> Step {
    if let Some(refusal) = action.expired(now_ms) {
        return refuse(action, &refusal, now_ms);
    }
    let since_ms = *action.trouble.since_ms.get_or_insert(now_ms);
    if matches!(error, ObserveError::Gone(_)) {
        let gone_since_ms = *action.trouble.gone_since_ms.get_or_insert(now_ms);
        if now_ms.saturating_sub(gone_since_ms) >= GONE_AFTER_MS {
            return gone(action, now_ms, &error.to_string());
        }
    } else {
        action.trouble.gone_since_ms = None;
    }
    if now_ms.saturating_sub(action.deadline_ms.max(since_ms)) >= GIVE_UP_AFTER_MS {
        return give_up(action, now_ms, error);
    }
    let look_again_ms = action.trouble.look_again_ms();
    action.trouble.failures = action.trouble.failures.saturating_add(1);
    action.wait(look_again_ms)
}

/// The job is seen again: time that it was not seen does not count.
pub(crate) fn seen_again(action: &mut Action, now_ms: i64) {
    if let Some(since_ms) = action.trouble.since_ms {
        let unseen_ms = now_ms.saturating_sub(since_ms).max(0);
        action.deadline_ms = action.deadline_ms.saturating_add(unseen_ms);
        action.progress.moved_at_ms = action.progress.moved_at_ms.saturating_add(unseen_ms);
        action.trouble = Trouble::default();
    }
}

/// The run has ended, or another one took its place.
pub(crate) fn gone(action: Action, now_ms: i64, how: &str) -> Step {
    let sentence = wording::gone(&action, how);
    let phase = if action.phase.is_under_way() && !action.phase.is_revocable() {
        Phase::Failed { why: "run_gone".into() }
    } else {
        Phase::Refused { why: "parent_gone".into() }
    };
    action.end(phase, now_ms, sentence)
}

fn give_up(action: Action, now_ms: i64, error: &ObserveError) -> Step {
    let sentence = wording::gave_up(&action, &error.to_string());
    let phase = if action.phase.is_revocable() {
        Phase::Refused { why: "unreachable".into() }
    } else {
        Phase::Failed { why: "unreachable".into() }
    };
    action.end(phase, now_ms, sentence)
}
