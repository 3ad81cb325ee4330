//! The way of an action from its start until the job runs at the target.

use std::collections::BTreeMap;

use weir_schemas::outcome::OutcomeResult;
use xxhash_rust::xxh3::xxh3_64;

use crate::action::{Action, Effect, Phase, Step};
use crate::admission::Refusal;
use crate::observation::{Bounds, Observation, ObserveError, Requirements, targets, uppers};
use crate::progress::{Progress, Stop};
use crate::rollback::{roll_back, rolling_back};
use crate::trigger::Trigger;
use crate::{trouble, verify, wording};

/// Flink's default pause after a rescale, in milliseconds: a change of requirements waits for its end.
const COOLDOWN_MS: i64 = 30_000;
/// The longest checkpoint interval that a deadline allows for, in milliseconds; checkpoints are asked for anyway.
const LONGEST_INTERVAL_MS: i64 = 600_000;
/// How long a job has to run with all slots that there are before it counts as short of slots, in milliseconds, at
/// most: slots come one TaskManager at a time.
const SHORT_FOR_MS: i64 = 30_000;
/// Time between two looks while something is on its way, in milliseconds.
pub(crate) const LOOK_MS: i64 = 500;
/// The same while a stop is expected, which is to be measured.
const LOOK_CLOSELY_MS: i64 = 250;
/// Time until the next look right after a change of requirements, in milliseconds.
const LOOK_SOON_MS: i64 = 100;
/// Pauses between changes of requirements that had no effect yet, in milliseconds: the first, which doubles up to the
/// longest.
const AGAIN_MS: (i64, i64) = (250, 8_000);

/// Starts an admitted action.
pub fn begin(mut action: Action, seen: &Observation, now_ms: i64) -> Step {
    if action.phase != Phase::Planned {
        return action.wait(LOOK_MS);
    }
    action.restore = requirements_of(seen);
    action.deadline_ms = deadline(&action, seen, now_ms);
    action.trigger = Trigger::default().restarted(seen);
    action.progress = Progress::from(now_ms);
    action.stop = Stop::default();
    action.note_running(seen);
    let started = action.outcome(OutcomeResult::Started, now_ms, wording::started(&action));
    let mut step = if seen.rescale_waits_for_checkpoint() {
        request(action, now_ms)
    } else {
        action.phase = Phase::CheckpointFirst;
        checkpoint_first(action, seen, now_ms)
    };
    step.outcome.get_or_insert(started);
    step
}

/// Ends an action that may not be started, or that a person does not want. One that has changed something goes on.
pub fn refuse(action: Action, refusal: &Refusal, now_ms: i64) -> Step {
    if !action.phase.is_revocable() && action.phase != Phase::AwaitsApproval {
        return action.wait(LOOK_MS);
    }
    let sentence = wording::refused(&action, &refusal.why);
    action.end(Phase::Refused { why: refusal.word.into() }, now_ms, sentence)
}

/// Moves an action along with what is seen of the job now.
///
/// Actions that are not started, or have ended, stay as they are.
pub fn advance(mut action: Action, seen: &Result<Observation, ObserveError>, now_ms: i64) -> Step {
    if action.phase.is_final() || action.phase == Phase::AwaitsApproval {
        return action.wait(LOOK_MS);
    }
    let seen = match seen {
        Ok(seen) => seen,
        Err(error) => return trouble::unseen(action, error, now_ms),
    };
    trouble::seen_again(&mut action, now_ms);
    if seen.run != action.command.run {
        return trouble::gone(action, now_ms, "it was submitted again");
    }
    if seen.has_ended() {
        return trouble::gone(action, now_ms, &format!("it is {}", seen.job_state));
    }
    if seen.is_other_graph(&action.command.before()) {
        return trouble::gone(action, now_ms, &wording::graph_changed());
    }
    action.note_running(seen);
    match action.phase.clone() {
        Phase::CheckpointFirst => checkpoint_first(action, seen, now_ms),
        Phase::Requesting { tries, tried_at_ms } => requesting(action, seen, now_ms, (tries, tried_at_ms)),
        Phase::Requested { short_since_ms } => requested(action, seen, now_ms, short_since_ms),
        Phase::Verifying(verification) => verify::verifying(action, verification, seen, now_ms),
        Phase::RollingBack { why, tries, tried_at_ms } => {
            rolling_back(action, seen, now_ms, &why, (tries, tried_at_ms))
        }
        Phase::Planned
        | Phase::AwaitsApproval
        | Phase::Verified
        | Phase::RolledBack { .. }
        | Phase::Failed { .. }
        | Phase::Refused { .. } => action.wait(LOOK_MS),
    }
}

/// Flink refused an effect for good, so that trying again is no use.
pub fn rejected(action: Action, detail: &str, now_ms: i64) -> Step {
    let phase = match action.phase {
        Phase::CheckpointFirst => Phase::Refused { why: "checkpoint_refused".into() },
        Phase::Requesting { .. } => Phase::Refused { why: "flink_refused".into() },
        Phase::RollingBack { .. } => Phase::Failed { why: "rollback_refused".into() },
        // The next periodic checkpoint will do.
        _ => return action.wait(LOOK_MS),
    };
    let sentence = wording::rejected(&action, detail);
    action.end(phase, now_ms, sentence)
}

/// By when the job should run at what is asked for now: Flink's own timers, and what the policy allows on top.
pub(crate) fn deadline(action: &Action, seen: &Observation, now_ms: i64) -> i64 {
    let interval_ms = seen.checkpoints.interval_ms.unwrap_or(0).clamp(0, LONGEST_INTERVAL_MS);
    let checkpoint_ms = seen.checkpoints.latest_duration_ms.unwrap_or(0).max(0).saturating_mul(2);
    let flink_ms = COOLDOWN_MS.saturating_add(interval_ms).saturating_add(checkpoint_ms);
    let stop_ms = action.command.plan.expected_stop_ms.max(0);
    now_ms.saturating_add(flink_ms).saturating_add(stop_ms).saturating_add(action.command.settle_deadline_ms.max(0))
}

/// Whether a change of requirements that shows no effect is to be sent again. The pauses of different commands differ,
/// so that updates that collide do not collide for ever.
pub(crate) fn is_due_again(action: &Action, (tries, tried_at_ms): (u32, i64), now_ms: i64) -> bool {
    let (first, longest) = AGAIN_MS;
    let pause_ms = first.saturating_mul(1 << tries.min(16)).min(longest);
    let draw = xxh3_64(format!("{}\u{ff}{tries}", action.command.id).as_bytes()) % 250;
    now_ms.saturating_sub(tried_at_ms) >= pause_ms.saturating_add(i64::try_from(draw).unwrap_or(0))
}

/// Somebody else holds the reins: their requirements stay.
pub(crate) fn give_way(action: Action, now_ms: i64) -> Step {
    let sentence = wording::rival(&action);
    action.end(Phase::Failed { why: "rival_autoscaler".into() }, now_ms, sentence)
}

/// The requirements to go back to: those that Flink holds, with bounds that it accepts, else what runs.
fn requirements_of(seen: &Observation) -> Requirements {
    let running = targets(&seen.parallelism());
    let Some(held) = &seen.requirements else { return running };
    running
        .into_iter()
        .map(|(vertex, otherwise)| {
            let bounds = held
                .get(&vertex)
                .filter(|bounds| bounds.upper > 0)
                .map_or(otherwise, |bounds| Bounds { lower: bounds.lower.clamp(1, bounds.upper), upper: bounds.upper });
            (vertex, bounds)
        })
        .collect()
}

/// Before Flink 2.0 a rescale reads everything since the last checkpoint again, so one is taken first.
fn checkpoint_first(mut action: Action, seen: &Observation, now_ms: i64) -> Step {
    if seen.is_settled() && action.trigger.is_done(seen) {
        return request(action, now_ms);
    }
    if now_ms >= action.deadline_ms {
        let sentence = wording::no_checkpoint(&action);
        return action.end(Phase::Refused { why: "checkpoint_not_completed".into() }, now_ms, sentence);
    }
    let id = action.command.id.clone();
    match action.trigger.due(&id, seen, now_ms) {
        Some(effect) => action.act(effect, LOOK_MS),
        None => action.wait(LOOK_MS),
    }
}

/// Changes the requirements for the first time.
fn request(mut action: Action, now_ms: i64) -> Step {
    action.phase = Phase::Requesting { tries: 1, tried_at_ms: now_ms };
    let bounds = action.bounds();
    action.act(Effect::PutRequirements { bounds }, LOOK_SOON_MS)
}

/// The change of requirements was sent, or was about to be. What Flink holds says whether it arrived.
fn requesting(mut action: Action, seen: &Observation, now_ms: i64, tried: (u32, i64)) -> Step {
    action.progress.note(seen, now_ms);
    action.stop.note(seen, now_ms);
    let held = seen.upper_bounds();
    match &held {
        Some(held) if *held == action.command.plan.target() => {
            action.phase = Phase::Requested { short_since_ms: None };
            action.deadline_ms = deadline(&action, seen, now_ms);
            action.trigger = action.trigger.restarted(seen);
            requested(action, seen, now_ms, None)
        }
        Some(held) if *held != uppers(&action.restore) => give_way(action, now_ms),
        Some(_) if now_ms >= action.deadline_ms => {
            let sentence = wording::not_accepted(&action);
            action.end(Phase::Refused { why: "not_accepted".into() }, now_ms, sentence)
        }
        Some(_) if is_due_again(&action, tried, now_ms) => {
            action.phase = Phase::Requesting { tries: tried.0.saturating_add(1), tried_at_ms: now_ms };
            let bounds = action.bounds();
            action.act(Effect::PutRequirements { bounds }, LOOK_MS)
        }
        None if now_ms >= action.deadline_ms && !is_on_its_way(&action, seen, now_ms) => {
            roll_back(action, seen, now_ms, "requirements_unknown")
        }
        _ => action.wait(LOOK_MS),
    }
}

/// Flink holds the new requirements: wait until the vertices run at them.
fn requested(mut action: Action, seen: &Observation, now_ms: i64, short_since_ms: Option<i64>) -> Step {
    if lost_the_reins(&action, seen) {
        return give_way(action, now_ms);
    }
    action.progress.note(seen, now_ms);
    action.stop.note(seen, now_ms);
    if seen.is_settled() && seen.parallelism() == action.command.plan.target() {
        return verify::observed(action, now_ms);
    }
    let short_since_ms = is_short(&action, seen).then(|| short_since_ms.unwrap_or(now_ms));
    action.phase = Phase::Requested { short_since_ms };
    let short_for_ms = (action.command.settle_deadline_ms / 4).clamp(0, SHORT_FOR_MS);
    if short_since_ms.is_some_and(|since_ms| now_ms.saturating_sub(since_ms) >= short_for_ms) {
        action.short_of_slots = true;
        return verify::observed(action, now_ms);
    }
    if now_ms >= action.deadline_ms && !is_on_its_way(&action, seen, now_ms) {
        let why = missed(&action, seen);
        return roll_back(action, seen, now_ms, why);
    }
    trigger_if_due(action, seen, now_ms)
}

/// From Flink 2.0 on a rescale waits for a checkpoint, so one is asked for.
pub(crate) fn trigger_if_due(mut action: Action, seen: &Observation, now_ms: i64) -> Step {
    let id = action.command.id.clone();
    let waits = seen.rescale_waits_for_checkpoint() && seen.is_settled();
    match waits.then(|| action.trigger.due(&id, seen, now_ms)).flatten() {
        Some(effect) => action.act(effect, LOOK_CLOSELY_MS),
        None => action.wait(LOOK_CLOSELY_MS),
    }
}

/// Whether the job is on its way up, so that a deadline has to wait.
pub(crate) fn is_on_its_way(action: &Action, seen: &Observation, now_ms: i64) -> bool {
    action.progress.advances(seen, action.command.settle_deadline_ms, now_ms)
}

/// Whether Flink holds requirements other than the command's, which it held before.
pub(crate) fn lost_the_reins(action: &Action, seen: &Observation) -> bool {
    seen.upper_bounds().is_some_and(|held| held != action.command.plan.target())
}

/// Whether the job runs at less than the target, has changed, and no slot is left.
pub(crate) fn is_short(action: &Action, seen: &Observation) -> bool {
    let target = action.command.plan.target();
    let running = seen.parallelism();
    let fewer = |(vertex, &to): (&String, &u32)| running.get(vertex).is_some_and(|&runs| runs < to);
    seen.is_settled()
        && seen.slots_free == Some(0)
        && running != action.command.before()
        && target.iter().any(fewer)
        && is_within(&running, &target)
}

fn is_within(running: &BTreeMap<String, u32>, target: &BTreeMap<String, u32>) -> bool {
    running.iter().all(|(vertex, &runs)| target.get(vertex).is_some_and(|&to| runs <= to))
}

/// A word for why the target was missed.
fn missed(action: &Action, seen: &Observation) -> &'static str {
    if !seen.is_settled() {
        "not_running"
    } else if seen.slots_free == Some(0) && seen.parallelism() == action.command.before() {
        "no_free_slots"
    } else {
        "missed_target"
    }
}
