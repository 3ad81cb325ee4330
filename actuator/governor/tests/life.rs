//! The life of an action, from its start to each of its ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

mod common;

use common::*;
use weir_governor::{
    Action, Effect, Observation, ObserveError, Phase, Step, advance, begin, refuse, rejected, trigger_id,
};
use weir_schemas::outcome::OutcomeResult;

fn look(step: &Step, seen: Observation, now_ms: i64) -> Step {
    advance(step.action.clone(), &Ok(seen), now_ms)
}

fn put(effect: &Option<Effect>) -> Option<std::collections::BTreeMap<String, u32>> {
    match effect {
        Some(Effect::PutRequirements { bounds }) => Some(weir_governor::uppers(bounds)),
        _ => None,
    }
}

fn is_trigger(effect: &Option<Effect>) -> bool {
    matches!(effect, Some(Effect::TriggerCheckpoint { .. }))
}

/// What runs at `sizes` while Flink holds requirements for `held`.
fn held(
    sizes: &std::collections::BTreeMap<String, u32>,
    held: &std::collections::BTreeMap<String, u32>,
) -> Observation {
    Observation { requirements: Some(bounds(held)), ..seen(sizes, T0) }
}

/// The target runs, and the source has handed `records` out.
fn counting(at_ms: i64, records: f64, pending: f64) -> Observation {
    Observation { at_ms, sources: [("a1".into(), source(records, 1, Some(pending)))].into(), ..seen(&target(), at_ms) }
}

/// An action that has just come to run at its target, at `T0 + 4_000`.
fn at_target() -> Step {
    let step = begin(action(), &seen(&before(), T0), T0);
    let step = look(&step, held(&before(), &target()), T0 + 200);
    let step = look(&step, Observation { job_state: "RESTARTING".into(), ..held(&before(), &target()) }, T0 + 2_000);
    look(&step, seen(&target(), T0), T0 + 4_000)
}

#[test]
fn from_flink_2_on_the_checkpoint_follows_the_request() {
    let step = begin(action(), &seen(&before(), T0), T0);
    assert_eq!(put(&step.effect), Some(target()));
    assert_eq!(step.outcome.as_ref().unwrap().result, OutcomeResult::Started);
    let step = look(&step, held(&before(), &target()), T0 + 200);
    assert_eq!(step.effect, Some(Effect::TriggerCheckpoint { trigger_id: trigger_id(&command().id, 0) }));
    assert_eq!(step.action.phase.word(), "requested");
}

#[test]
fn success_is_told_with_before_after_stop_and_throughput() {
    let step = at_target();
    assert_eq!(step.action.phase.word(), "verifying");
    let mut step = step;
    for (after_ms, records) in [(5_000, 100.0), (6_000, 900.0), (9_000, 3_300.0), (11_000, 4_900.0)] {
        assert_eq!(step.outcome, None);
        step = look(&step, counting(T0 + after_ms, records, 0.0), T0 + after_ms);
    }
    let outcome = step.outcome.unwrap();
    assert_eq!(outcome.result, OutcomeResult::Verified);
    assert_eq!(
        outcome.sentence,
        "wordcount: flatmap 1 -> 3, count 1 -> 5; runs at the target after a stop of 2.0 s (30 s expected), throughput \
         800/s (250/s before)."
    );
    assert_eq!((outcome.before, outcome.target, outcome.after), (before(), target(), target()));
    assert_eq!((outcome.stop_ms, outcome.short_of_slots), (Some(2_000), false));
}

#[test]
fn a_stop_is_seen_although_what_flink_shows_of_vertices_is_old() {
    let step = look(&begin(action(), &seen(&before(), T0), T0), held(&before(), &target()), T0 + 200);
    let old = |all_tasks_run| Observation { all_tasks_run: Some(all_tasks_run), ..held(&before(), &target()) };
    let step = look(&step, old(false), T0 + 1_000);
    let step = look(&step, old(true), T0 + 1_500);
    let step = look(&step, seen(&target(), T0), T0 + 4_000);
    assert_eq!((step.action.phase.word(), step.action.stop.length_ms()), ("verifying", Some(500)));
}

#[test]
fn before_flink_2_a_checkpoint_completes_first() {
    let old = |completed: u64, in_progress: bool| {
        let mut seen = seen(&before(), T0);
        seen.flink_version = "1.20.3".into();
        seen.checkpoints.latest_id = Some(completed);
        seen.checkpoints.in_progress = in_progress;
        seen
    };
    let step = begin(action(), &old(7, false), T0);
    assert!(is_trigger(&step.effect) && step.outcome.is_some());
    let step = look(&step, old(7, true), T0 + 500);
    assert_eq!(step.effect, None);
    let done = look(&step, old(8, false), T0 + 1_000);
    assert_eq!(put(&done.effect), Some(target()));
    let requested = look(&done, Observation { requirements: Some(bounds(&target())), ..old(8, false) }, T0 + 1_200);
    assert_eq!(requested.effect, None, "no checkpoint is needed any more");

    let never = look(&step, old(7, false), step.action.deadline_ms);
    assert_eq!(never.action.phase, Phase::Refused { why: "checkpoint_not_completed".into() });
    let unwanted = refuse(step.action, &weir_governor::Refusal::rejected("anna"), T0 + 600);
    assert_eq!(unwanted.action.phase, Phase::Refused { why: "rejected".into() });
}

#[test]
fn after_a_crash_what_flink_shows_says_what_is_left_to_do() {
    let stored = begin(action(), &seen(&before(), T0), T0);
    let lost = look(&stored, seen(&before(), T0), T0 + 5_000);
    assert_eq!(put(&lost.effect), Some(target()), "the request never left");
    let arrived = look(&stored, held(&before(), &target()), T0 + 5_000);
    assert!(is_trigger(&arrived.effect), "the request arrived");
    let all_done = look(&stored, seen(&target(), T0), T0 + 5_000);
    assert_eq!((all_done.effect, all_done.action.phase.word()), (None, "verifying"));
}

#[test]
fn a_checkpoint_that_is_known_is_not_asked_for_again() {
    let step = look(&begin(action(), &seen(&before(), T0), T0), held(&before(), &target()), T0 + 200);
    let mut running = held(&before(), &target());
    running.checkpoints.in_progress = true;
    assert_eq!(look(&step, running, T0 + 4_000).effect, None);
    let soon = look(&step, held(&before(), &target()), T0 + 1_000);
    assert_eq!(soon.effect, None);
    let lost = look(&step, held(&before(), &target()), T0 + 3_000);
    assert_eq!(lost.effect, step.effect, "under the same id, so that it does no harm");
}

#[test]
fn checkpoints_during_a_cool_down_are_followed_by_others() {
    let mut step = look(&begin(action(), &seen(&before(), T0), T0), held(&before(), &target()), T0 + 200);
    let mut ids = vec![step.effect.clone()];
    for second in 1..60 {
        let mut seen = held(&before(), &target());
        seen.checkpoints.latest_id = Some(7 + u64::try_from(ids.len()).unwrap());
        step = look(&step, seen, T0 + second * 1_000);
        ids.extend(step.effect.clone().map(Some));
    }
    assert!((4..8).contains(&ids.len()), "{}", ids.len());
    let distinct: std::collections::BTreeSet<String> = ids.iter().map(|id| format!("{id:?}")).collect();
    assert_eq!(distinct.len(), ids.len());
}

#[test]
fn an_update_in_progress_is_tried_again_with_growing_pauses() {
    let mut step = begin(action(), &seen(&before(), T0), T0);
    let mut tries = 1;
    for tick in 1..600 {
        step = look(&step, seen(&before(), T0), T0 + tick * 100);
        tries += i32::from(put(&step.effect).is_some());
    }
    assert!((8..16).contains(&tries), "{tries} tries in a minute");
    let end = look(&step, seen(&before(), T0), step.action.deadline_ms);
    assert_eq!(end.action.phase, Phase::Refused { why: "not_accepted".into() });
}

#[test]
fn a_target_that_is_missed_is_undone_once() {
    let step = look(&begin(action(), &seen(&before(), T0), T0), held(&before(), &target()), T0 + 200);
    let deadline = step.action.deadline_ms;
    let back = look(&step, held(&before(), &target()), deadline);
    assert_eq!(put(&back.effect), Some(before()));
    let waits = look(&back, held(&before(), &before()), deadline + 500);
    assert_eq!(waits.action.phase, Phase::RolledBack { why: "missed_target".into() });
    let outcome = waits.outcome.unwrap();
    assert_eq!(outcome.result, OutcomeResult::RolledBack { why: "missed_target".into() });
    assert!(outcome.sentence.contains("undone"), "{}", outcome.sentence);

    let mut step = back;
    for tick in 1..2_000 {
        step = look(&step, held(&before(), &target()), deadline + tick * 500);
        assert!(put(&step.effect).is_none_or(|to| to == before()));
    }
    assert_eq!(step.action.phase, Phase::Failed { why: "rollback_not_accepted".into() });
}

#[test]
fn a_vertex_that_never_comes_up_is_undone_once_nothing_advances() {
    let stuck = || {
        let mut seen = seen(&target(), T0);
        seen.vertices.insert("c3".into(), vertex(5, 4));
        seen
    };
    let step = look(&begin(action(), &seen(&before(), T0), T0), held(&before(), &target()), T0 + 200);
    let deadline = step.action.deadline_ms;
    let step = look(&step, stuck(), T0 + 2_000);
    assert_eq!(look(&step, stuck(), deadline - 1).effect, None);
    let back = look(&step, stuck(), deadline);
    assert_eq!(put(&back.effect), Some(before()));

    // The same, but the last subtask began to restore its state a moment ago.
    let mut restoring = stuck();
    restoring.vertices.get_mut("c3").unwrap().initializing = 1;
    let waits = look(&step, restoring.clone(), deadline);
    assert_eq!(waits.effect, None, "a restore that advances is never cut short");
    let late = look(&waits, restoring, deadline + 1_200_000);
    assert_eq!(put(&late.effect), Some(before()), "but not for ever");
}

#[test]
fn a_crash_loop_does_not_count_as_progress() {
    let mut step = look(&begin(action(), &seen(&before(), T0), T0), held(&before(), &target()), T0 + 200);
    let deadline = step.action.deadline_ms;
    let mut at = T0 + 1_000;
    while step.effect.is_none() || is_trigger(&step.effect) {
        assert!(at < deadline + 60_000, "it goes round in circles for ever");
        let mut seen = seen(&target(), T0);
        if (at / 1_000) % 4 < 2 {
            seen.job_state = "RESTARTING".into();
        } else {
            seen.vertices.insert("c3".into(), vertex(5, 2));
        }
        step = look(&step, seen, at);
        at += 1_000;
    }
    assert_eq!(put(&step.effect), Some(before()));
}

#[test]
fn throughput_that_falls_while_the_backlog_grows_is_undone() {
    let mut step = at_target();
    let mut second = 5;
    while step.effect.is_none() {
        assert!(second < 120, "it was never undone");
        let elapsed = f64::from(second);
        step = look(
            &step,
            counting(T0 + i64::from(second) * 1_000, elapsed * 100.0, elapsed * 150.0),
            T0 + i64::from(second) * 1_000,
        );
        second += 1;
    }
    assert_eq!(put(&step.effect), Some(before()));
    assert!(second > 15, "one bad window is not enough");
    let end = look(&step, held(&before(), &before()), T0 + 200_000);
    assert_eq!(end.action.phase, Phase::RolledBack { why: "throughput_fell".into() });
    let sentence = end.outcome.unwrap().sentence;
    assert!(sentence.contains("throughput 100/s (250/s before)"), "{sentence}");
}

#[test]
fn a_fall_in_arrivals_is_no_failure() {
    let mut step = at_target();
    for second in 5..20 {
        if step.action.phase.is_final() {
            break;
        }
        step = look(
            &step,
            counting(T0 + second * 1_000, f64::from(i32::try_from(second).unwrap()) * 10.0, 3.0),
            T0 + second * 1_000,
        );
    }
    assert_eq!(step.action.phase, Phase::Verified);
}

#[test]
fn counters_that_stand_still_are_no_failure_unless_the_backlog_grows() {
    for (growth, expected) in [(0.0, "verified"), (200.0, "rolling_back")] {
        let mut step = at_target();
        let mut second = 5_i32;
        while step.action.phase.word() == "verifying" {
            assert!(second < 120);
            let at = T0 + i64::from(second) * 1_000;
            step = look(&step, counting(at, 50.0, growth * f64::from(second)), at);
            second += 1;
        }
        assert_eq!(step.action.phase.word(), expected);
        assert!(second > 30, "Flink may serve old values for a while");
    }
}

#[test]
fn counters_of_two_attempts_are_never_compared() {
    let step = look(&at_target(), counting(T0 + 5_000, 100.0, 0.0), T0 + 5_000);
    let step = look(&step, counting(T0 + 6_000, 200.0, 0.0), T0 + 6_000);
    let mut other = counting(T0 + 12_000, 9_000.0, 0.0);
    other.sources.get_mut("a1").unwrap().attempts = "0:2".into();
    let step = look(&step, other, T0 + 12_000);
    assert_eq!(step.action.phase.word(), "verifying");
}

#[test]
fn short_of_slots_is_said_with_what_runs() {
    let best = sizes(1, 3, 4);
    let short = || Observation { slots_free: Some(0), ..held(&best, &target()) };
    let step = look(&begin(action(), &seen(&before(), T0), T0), held(&before(), &target()), T0 + 200);
    let step = look(&step, short(), T0 + 3_000);
    assert_eq!(step.action.phase.word(), "requested", "slots come one TaskManager at a time");
    let mut step = look(&step, short(), T0 + 33_000);
    for second in 34..60 {
        if step.action.phase.is_final() {
            break;
        }
        let at = T0 + second * 1_000;
        let counted = counting(at, f64::from(i32::try_from(second).unwrap()) * 700.0, 0.0);
        step = look(&step, Observation { sources: counted.sources, at_ms: at, ..short() }, at);
    }
    let outcome = step.outcome.unwrap();
    assert!(outcome.short_of_slots && outcome.after == best, "{outcome:?}");
    assert!(
        outcome.sentence.contains("flatmap 3, count 4") && outcome.sentence.contains("slots"),
        "{}",
        outcome.sentence
    );
}

#[test]
fn no_free_slot_at_all_is_undone_so_that_nothing_happens_by_surprise_later() {
    let none = || Observation { slots_free: Some(0), ..held(&before(), &target()) };
    let step = look(&begin(action(), &seen(&before(), T0), T0), none(), T0 + 200);
    let deadline = step.action.deadline_ms;
    let back = look(&step, none(), deadline);
    let end = look(&back, Observation { slots_free: Some(0), ..held(&before(), &before()) }, deadline + 500);
    assert_eq!(end.action.phase, Phase::RolledBack { why: "no_free_slots".into() });
}

#[test]
fn a_run_that_is_gone_is_left_alone() {
    type Change = fn(&mut Observation);
    let changes: [Change; 4] = [
        |seen| seen.run.start_ms += 1,
        |seen| seen.job_state = "FAILED".into(),
        |seen| seen.job_state = "CANCELED".into(),
        |seen| drop(seen.vertices.insert("d4".into(), vertex(1, 1))),
    ];
    for change in changes {
        let mut seen = seen(&target(), T0);
        change(&mut seen);
        let end = look(&at_target(), seen.clone(), T0 + 5_000);
        assert_eq!((end.action.phase, end.effect), (Phase::Failed { why: "run_gone".into() }, None));
        let step = look(&begin(action(), &common::seen(&before(), T0), T0), held(&before(), &target()), T0 + 200);
        let back = look(&step, held(&before(), &target()), step.action.deadline_ms);
        let end = look(&back, seen, step.action.deadline_ms + 1_000);
        assert_eq!(end.action.phase, Phase::Failed { why: "run_gone".into() }, "no way back into another run");
    }
}

#[test]
fn a_job_manager_that_has_just_started_does_not_know_its_jobs_yet() {
    let gone = Err(ObserveError::Gone("404".into()));
    let step = advance(at_target().action, &gone, T0 + 5_000);
    assert!(!step.action.phase.is_final());
    let back = look(&step, seen(&target(), T0), T0 + 10_000);
    let again = advance(back.action, &gone, T0 + 21_000);
    assert!(!again.action.phase.is_final(), "it was seen in between");
    let end = advance(again.action, &gone, T0 + 36_000);
    assert_eq!(end.action.phase, Phase::Failed { why: "run_gone".into() });
}

#[test]
fn somebody_else_s_requirements_stay() {
    let theirs = sizes(1, 2, 2);
    for (step, at) in [
        (begin(action(), &seen(&before(), T0), T0), T0 + 500),
        (look(&begin(action(), &seen(&before(), T0), T0), held(&before(), &target()), T0 + 200), T0 + 500),
        (at_target(), T0 + 5_000),
    ] {
        let end = look(&step, held(&before(), &theirs), at);
        assert_eq!((end.action.phase, end.effect), (Phase::Failed { why: "rival_autoscaler".into() }, None));
    }
}

#[test]
fn a_flink_that_cannot_be_reached_costs_no_deadline_and_is_asked_less_and_less() {
    let unreachable = Err(ObserveError::Unreachable("connection refused".into()));
    let step = look(&begin(action(), &seen(&before(), T0), T0), held(&before(), &target()), T0 + 200);
    let deadline = step.action.deadline_ms;
    let mut step = step;
    let mut at = T0 + 1_000;
    let mut pauses = Vec::new();
    while at < deadline + 100_000 {
        step = advance(step.action, &unreachable, at);
        pauses.push(step.look_again_ms);
        at += step.look_again_ms;
    }
    assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]) && pauses.last() == Some(&30_000), "{pauses:?}");
    let back = look(&step, held(&before(), &target()), at);
    assert!(put(&back.effect).is_none() && back.action.deadline_ms > at, "it gets the time that it was not seen");

    while !step.action.phase.is_final() {
        assert!(at < deadline + 7_200_000, "it hangs for ever");
        step = advance(step.action, &unreachable, at);
        at += step.look_again_ms;
    }
    assert_eq!(step.action.phase, Phase::Failed { why: "unreachable".into() });
}

#[test]
fn a_command_that_waits_for_an_unreachable_flink_expires() {
    let unreachable = Err(ObserveError::Unreachable("connection refused".into()));
    let step = advance(action(), &unreachable, T0 + 1_000);
    assert_eq!(step.action.phase, Phase::Planned);
    let end = advance(step.action, &unreachable, T0 + 600_000);
    assert_eq!(end.action.phase, Phase::Refused { why: "expired".into() });
}

#[test]
fn what_flink_refuses_for_good_is_not_tried_again() {
    let seen_now = seen(&before(), T0);
    let requesting = begin(action(), &seen_now, T0).action;
    let end = rejected(requesting, "upper bound above max parallelism", T0 + 100);
    assert_eq!(end.action.phase, Phase::Refused { why: "flink_refused".into() });
    assert!(end.outcome.unwrap().sentence.contains("max parallelism"));
    let requested = at_target().action;
    assert_eq!(rejected(requested.clone(), "no", T0).action, requested, "a periodic checkpoint will do");
}

#[test]
fn an_action_that_has_ended_stays_as_it_is() {
    let end = look(&at_target(), Observation { job_state: "FAILED".into(), ..seen(&target(), T0) }, T0 + 5_000);
    for again in [
        look(&end, seen(&before(), T0), T0 + 9_000_000),
        refuse(end.action.clone(), &weir_governor::Refusal::superseded(), T0),
        rejected(end.action.clone(), "no", T0),
        begin(end.action.clone(), &seen(&before(), T0), T0),
    ] {
        assert_eq!((again.action, again.effect, again.outcome), (end.action.clone(), None, None));
    }
}

#[test]
fn the_requirements_of_before_come_back_exactly() {
    let mut wide = seen(&before(), T0);
    wide.requirements.as_mut().unwrap().insert("c3".into(), weir_governor::Bounds { lower: 2, upper: 20 });
    let mut step = begin(action(), &wide, T0);
    assert_eq!(step.action.restore, wide.requirements.clone().unwrap());
    step = look(&step, held(&before(), &target()), T0 + 200);
    let back = look(&step, held(&before(), &target()), step.action.deadline_ms);
    assert_eq!(back.effect, Some(Effect::PutRequirements { bounds: wide.requirements.unwrap() }));
}

#[test]
fn stored_actions_of_older_versions_can_be_read() {
    let json = serde_json::to_value(action()).unwrap();
    let old = serde_json::json!({"command": json["command"], "phase": {"phase": "planned"}, "unknown": 1});
    assert_eq!(serde_json::from_value::<Action>(old).unwrap(), action());
}
