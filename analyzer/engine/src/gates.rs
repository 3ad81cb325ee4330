//! Reasons to wait although the verdict is clear.

use std::collections::BTreeMap;

use weir_schemas::control::{ControlState, Mode};
use weir_schemas::decision::{Direction, Disposition};
use weir_schemas::num::short_time;
use weir_schemas::report::Gate;

use crate::job::JobState;
use crate::sample::Facts;

/// How long a refusal or failure is waited out, in milliseconds.
const SETBACK_MS: i64 = 60_000;
/// How long a change that somebody else made is left alone, in milliseconds.
const RESPECT_MS: i64 = 600_000;
/// A shrink has to save more slot time within this time than its stop costs, in milliseconds.
const PAYBACK_MS: i64 = 3_600_000;
const DAY_MS: i64 = 86_400_000;

/// What the gates look at.
pub struct Asked<'a> {
    pub now_ms: i64,
    pub direction: Direction,
    pub target: &'a BTreeMap<String, u32>,
    pub slots_before: u32,
    pub slots_after: u32,
    /// When the quiet period of a shrink is over, where it has begun.
    pub quiet_at_ms: Option<i64>,
    /// The job has just restarted for another reason, so that a due shrink costs little.
    pub released: bool,
    pub data_complete: bool,
}

/// Looks at every gate.
pub fn look(state: &JobState, facts: &Facts, asked: &Asked<'_>) -> Vec<Gate> {
    let mut gates = vec![scheduler(facts), checkpoints(facts), rival(state, facts, asked.now_ms)];
    gates.push(setback(state, asked.now_ms));
    gates.push(quarantine(state, asked));
    gates.push(restarts(state, asked));
    if asked.direction == Direction::Shrink {
        gates.push(complete(asked));
        gates.extend(quiet(state, asked));
        gates.push(benefit(state, asked));
    }
    gates
}

fn gate(word: &str, open: bool, opens_at_ms: Option<i64>, detail: impl Into<String>) -> Gate {
    Gate { gate: word.into(), open, opens_at_ms: opens_at_ms.filter(|_| !open), detail: detail.into() }
}

fn scheduler(facts: &Facts) -> Gate {
    let named = |name: &str| facts.scheduler.eq_ignore_ascii_case(name);
    match () {
        () if named("reactive") => gate(
            "reactive_mode",
            false,
            None,
            "in reactive mode Flink itself uses all slots: add or remove TaskManagers instead",
        ),
        () if named("adaptive") => gate("scheduler", true, None, "the adaptive scheduler takes new requirements"),
        () if facts.scheduler.is_empty() => gate("scheduler", false, None, "the cluster did not tell its scheduler"),
        () => gate(
            "default_scheduler",
            false,
            None,
            format!(
                "the {} scheduler cannot rescale a running job: set jobmanager.scheduler: adaptive",
                facts.scheduler
            ),
        ),
    }
}

fn checkpoints(facts: &Facts) -> Gate {
    if !facts.checkpointing {
        gate(
            "no_checkpointing",
            false,
            None,
            "without checkpoints a rescale would lose state: set execution.checkpointing.interval",
        )
    } else if facts.checkpoints_completed == 0 {
        gate(
            "no_completed_checkpoint",
            false,
            None,
            "no checkpoint has completed yet, so a rescale would start from nothing",
        )
    } else {
        gate("checkpoints", true, None, format!("{} checkpoints completed", facts.checkpoints_completed))
    }
}

fn rival(state: &JobState, facts: &Facts, now_ms: i64) -> Gate {
    if !facts.rival.is_empty() {
        let detail =
            format!("another autoscaler is configured for this job ({}): switch one of the two off", facts.rival);
        return gate("rival_autoscaler", false, None, detail);
    }
    match state.foreign_change_ms.map(|at| at + RESPECT_MS) {
        Some(until) if until > now_ms => {
            let detail = "somebody else changed the job's requirements; their choice is left alone for a while";
            gate("changed_by_others", false, Some(until), detail)
        }
        _ => gate("rival_autoscaler", true, None, "nobody else scales this job"),
    }
}

fn setback(state: &JobState, now_ms: i64) -> Gate {
    match &state.setback {
        Some(setback) if setback.at_ms + SETBACK_MS > now_ms => {
            let detail = format!("the last action came to nothing ({})", setback.why.replace('_', " "));
            gate("setback", false, Some(setback.at_ms + SETBACK_MS), detail)
        }
        _ => gate("setback", true, None, "the last action succeeded, or is long ago"),
    }
}

fn quarantine(state: &JobState, asked: &Asked<'_>) -> Gate {
    let open = !state.quarantine.contains(asked.target);
    let detail =
        if open { "this target has not failed before" } else { "this target was tried in this run and rolled back" };
    gate("quarantine", open, None, detail)
}

/// Shrinks may spend half of the restarts of a day: what a wave of load takes away at night must not be missing in the morning.
fn restarts(state: &JobState, asked: &Asked<'_>) -> Gate {
    let whole = state.policy().restarts_per_day;
    let allowed = if asked.direction == Direction::Shrink { whole / 2 } else { whole };
    let mut recent: Vec<i64> = state.restarts_ms.iter().copied().filter(|at| *at > asked.now_ms - DAY_MS).collect();
    recent.sort_unstable();
    let count = weir_schemas::num::count_u32(recent.len());
    let opens = recent.first().map(|first| first + DAY_MS);
    gate("restarts_per_day", count < allowed, opens, format!("{count} of {allowed} restarts of the day are spent"))
}

fn complete(asked: &Asked<'_>) -> Gate {
    let detail = if asked.data_complete { "the data are complete" } else { "a shrink needs complete data" };
    gate("data", asked.data_complete, None, detail)
}

fn quiet(state: &JobState, asked: &Asked<'_>) -> Vec<Gate> {
    let policy = state.policy();
    if asked.released {
        return vec![gate("natural_restart", true, None, "the job restarted by itself while this was due")];
    }
    let open = asked.quiet_at_ms.is_some_and(|at| at <= asked.now_ms);
    let detail = format!("less has to be enough for {}", short_time(policy.shrink_after_ms));
    let quiet = gate("quiet_period", open, asked.quiet_at_ms, detail);
    if policy.shrink_max_wait_ms == 0 {
        return vec![quiet];
    }
    let waits_until = asked.quiet_at_ms.map(|at| at.saturating_add(policy.shrink_max_wait_ms));
    let over = waits_until.is_some_and(|at| at <= asked.now_ms);
    let detail = format!("it waits up to {} for a restart that happens anyway", short_time(policy.shrink_max_wait_ms));
    vec![quiet, gate("natural_restart", over, waits_until, detail)]
}

fn benefit(state: &JobState, asked: &Asked<'_>) -> Gate {
    let stop_ms = state.policy().expected_stop_ms;
    let saved = i64::from(asked.slots_before.saturating_sub(asked.slots_after)).saturating_mul(PAYBACK_MS);
    let cost = i64::from(asked.slots_before).saturating_mul(stop_ms);
    let detail = format!(
        "it saves {} of {} slots and costs a stop of about {}",
        asked.slots_before.saturating_sub(asked.slots_after),
        asked.slots_before,
        short_time(stop_ms)
    );
    gate("benefit", saved > cost, None, detail)
}

/// What becomes of a plan, given the gates and what people have said.
pub fn disposition(control: &ControlState, gates: &[Gate]) -> Disposition {
    let withheld = |gate: &str| Disposition::Withheld { gate: gate.into() };
    if let Some(closed) = gates.iter().find(|gate| !gate.open) {
        return withheld(&closed.gate);
    }
    match control.mode {
        Mode::Observe => withheld("observe_mode"),
        Mode::Recommend => Disposition::Recommend,
        Mode::Approve | Mode::Auto if control.frozen => withheld("frozen"),
        Mode::Approve | Mode::Auto if control.paused => withheld("paused"),
        Mode::Approve => Disposition::AwaitsApproval,
        Mode::Auto => Disposition::Act,
    }
}
