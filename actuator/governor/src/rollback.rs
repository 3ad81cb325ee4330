//! The way back: once, to the requirements of before.

use crate::action::{Action, Effect, Phase, Step};
use crate::advance::{LOOK_MS, deadline, give_way, is_due_again, is_on_its_way, trigger_if_due};
use crate::observation::{Observation, uppers};
use crate::progress::Progress;
use crate::wording;

/// Restores the requirements of before. Whoever calls has made sure that it is the same run and graph, and that no
/// restart advances.
pub(crate) fn roll_back(mut action: Action, seen: &Observation, now_ms: i64, why: &str) -> Step {
    action.deadline_ms = deadline(&action, seen, now_ms);
    action.progress = Progress::from(now_ms);
    action.trigger = action.trigger.restarted(seen);
    try_again(action, now_ms, why, 0)
}

/// Waits until the job runs as before.
pub(crate) fn rolling_back(mut action: Action, seen: &Observation, now_ms: i64, why: &str, tried: (u32, i64)) -> Step {
    action.progress.note(seen, now_ms);
    let restore = uppers(&action.restore);
    let held = seen.upper_bounds();
    let late = now_ms >= action.deadline_ms && !is_on_its_way(&action, seen, now_ms);
    match held {
        Some(held) if held == restore => {
            let running = seen.parallelism();
            if seen.is_settled() && (running == action.command.before() || running == restore) {
                let sentence = wording::rolled_back(&action, why);
                return action.end(Phase::RolledBack { why: why.into() }, now_ms, sentence);
            }
            if late {
                return failed(action, now_ms, why, "rollback_failed");
            }
            trigger_if_due(action, seen, now_ms)
        }
        Some(held) if held != action.command.plan.target() => give_way(action, now_ms),
        _ if late => failed(action, now_ms, why, "rollback_not_accepted"),
        _ if is_due_again(&action, tried, now_ms) => try_again(action, now_ms, why, tried.0),
        _ => action.wait(LOOK_MS),
    }
}

fn try_again(mut action: Action, now_ms: i64, why: &str, tries: u32) -> Step {
    action.phase = Phase::RollingBack { why: why.into(), tries: tries.saturating_add(1), tried_at_ms: now_ms };
    let bounds = action.restore.clone();
    action.act(Effect::PutRequirements { bounds }, LOOK_MS)
}

fn failed(action: Action, now_ms: i64, why: &str, word: &str) -> Step {
    let sentence = wording::rollback_failed(&action, why);
    action.end(Phase::Failed { why: word.into() }, now_ms, sentence)
}
