//! The sentences that people read: each can be pasted into a chat.

use weir_schemas::num::{short, short_time};
use weir_schemas::outcome::{Outcome, OutcomeResult};

use crate::action::Action;

/// Tells that a command waits for a person.
#[must_use]
pub fn awaits_approval(action: &Action, now_ms: i64) -> Outcome {
    let stop = short_time(action.command.plan.expected_stop_ms);
    let sentence = format!("{} awaits approval; it would cost a stop of about {stop}.", head(action));
    action.outcome(OutcomeResult::AwaitsApproval, now_ms, sentence)
}

/// `wordcount: flatmap 1 -> 3, count 1 -> 5`.
fn head(action: &Action) -> String {
    let arrows = action.command.plan.arrows();
    let change = if arrows.is_empty() { "no change of size" } else { &arrows };
    format!("{}: {change}", action.command.job.name)
}

pub(crate) fn started(action: &Action) -> String {
    format!(
        "{} started; a stop of about {} is expected.",
        head(action),
        short_time(action.command.plan.expected_stop_ms)
    )
}

pub(crate) fn refused(action: &Action, why: &str) -> String {
    format!("{} not done: {why}.", head(action))
}

pub(crate) fn verified(action: &Action) -> String {
    let how = if action.short_of_slots {
        let (runs, slots) = (sizes(action), "there are no more slots; add TaskManagers for the rest");
        format!("runs at {runs}, for {slots}")
    } else {
        "runs at the target".to_owned()
    };
    format!("{}; {how}{}{}.", head(action), stop(action), throughput(action))
}

pub(crate) fn rolled_back(action: &Action, why: &str) -> String {
    format!("{} undone: {}{}; it runs as before.", head(action), reason(why), throughput(action))
}

pub(crate) fn rollback_failed(action: &Action, why: &str) -> String {
    let why = reason(why);
    format!(
        "{} did not work ({why}), and going back did not either; look at the job in Flink's web page.",
        head(action)
    )
}

pub(crate) fn rival(action: &Action) -> String {
    format!(
        "{} given up: somebody else has changed the job's requirements meanwhile, and those stay; make sure that one \
         party scales it.",
        head(action)
    )
}

pub(crate) fn no_checkpoint(action: &Action) -> String {
    format!(
        "{} not done: no checkpoint completed in time, and without one the job would read much again; see why none \
         completes.",
        head(action)
    )
}

pub(crate) fn not_accepted(action: &Action) -> String {
    format!("{} not done: Flink kept its old requirements; its log says why.", head(action))
}

pub(crate) fn rejected(action: &Action, detail: &str) -> String {
    format!("{} not done: Flink refused it: {}.", head(action), detail.trim_end_matches('.'))
}

pub(crate) fn gone(action: &Action, how: &str) -> String {
    format!("{} given up, since the run that it was for is no more: {}.", head(action), how.trim_end_matches('.'))
}

pub(crate) fn gave_up(action: &Action, error: &str) -> String {
    format!("{} given up, how it ended is unknown: {}.", head(action), error.trim_end_matches('.'))
}

pub(crate) fn graph_changed() -> String {
    "the job's graph has other vertices now".into()
}

/// What a word for a failure means.
fn reason(why: &str) -> String {
    match why {
        "no_free_slots" => "no slot was free; add TaskManagers",
        "missed_target" => "the vertices did not reach the target in time",
        "not_running" => "the job did not run again in time",
        "throughput_fell" => "its backlog grew while it read less than before",
        "stuck" => "it read nothing while its backlog grew",
        "requirements_unknown" => "Flink did not tell which requirements it holds",
        other => return other.replace('_', " "),
    }
    .into()
}

/// `flatmap 3, count 4`: what runs of the vertices that were to change.
fn sizes(action: &Action) -> String {
    let changed = action.command.plan.vertices.iter().filter(|vertex| vertex.from != vertex.to);
    let sizes: Vec<String> = changed
        .map(|vertex| format!("{} {}", vertex.name, action.after.get(&vertex.id).copied().unwrap_or(vertex.from)))
        .collect();
    sizes.join(", ")
}

fn stop(action: &Action) -> String {
    let expected = short_time(action.command.plan.expected_stop_ms);
    match action.stop.length_ms() {
        Some(length_ms) => format!(" after a stop of {} ({expected} expected)", short_time(length_ms)),
        None => format!(" after a stop too short to be seen ({expected} expected)"),
    }
}

fn throughput(action: &Action) -> String {
    let before = action.command.plan.throughput_per_second;
    match action.throughput_after {
        Some(after) if before > 0.0 => format!(", throughput {}/s ({}/s before)", short(after), short(before)),
        Some(after) => format!(", throughput {}/s", short(after)),
        None => String::new(),
    }
}
