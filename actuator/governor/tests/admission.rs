//! Which commands are started, and with which words the others are not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

mod common;

use common::*;
use weir_governor::{Action, Admission, Command, Numbers, Phase, Rollback, Scheduler, admit, begin};
use weir_schemas::control::Mode;
use weir_schemas::decision::Disposition;
use weir_schemas::identity::JobKey;

/// `go`, or the word with which it waits or is refused.
fn word(admission: Admission) -> String {
    match admission {
        Admission::Go => "go".into(),
        Admission::Wait(waiting) => {
            assert!(!waiting.why.is_empty());
            format!("wait: {}", waiting.word)
        }
        Admission::Refuse(refusal) => {
            assert!(!refusal.why.is_empty() && !refusal.why.ends_with('.'), "{refusal}");
            refusal.word.into()
        }
    }
}

#[test]
fn a_sound_job_is_rescaled() {
    assert_eq!(admit(&command(), &context(), &seen(&before(), T0)), Admission::Go);
}

#[test]
fn what_stands_against_it_is_named() {
    type Change = fn(&mut weir_governor::Observation);
    let cases: [(&str, Change); 17] = [
        ("parent_gone", |seen| seen.run.start_ms += 1),
        ("parent_gone", |seen| seen.run.id = "1".repeat(32)),
        ("parent_gone", |seen| *seen.vertices.get_mut("b2").unwrap() = vertex(2, 2)),
        ("job_not_running", |seen| seen.job_state = "FINISHED".into()),
        ("wait: job_not_running", |seen| seen.job_state = "RESTARTING".into()),
        ("wait: job_not_running", |seen| seen.vertices.get_mut("b2").unwrap().running = 0),
        ("wait: requirements_unknown", |seen| seen.requirements = None),
        ("rival_autoscaler", |seen| seen.rival = Some("the Flink operator's autoscaler".into())),
        ("rival_autoscaler", |seen| seen.requirements_digest = "2".into()),
        ("default_scheduler", |seen| seen.scheduler = Scheduler::Default),
        ("reactive_mode", |seen| seen.scheduler = Scheduler::Reactive),
        ("flink_too_old", |seen| seen.flink_version = "1.17.2".into()),
        ("ambiguous_name", |seen| seen.same_name = 2),
        ("no_checkpointing", |seen| seen.checkpoints.enabled = false),
        ("no_completed_checkpoint", |seen| seen.checkpoints.completed = 0),
        ("missing_vertex", |seen| drop(seen.vertices.insert("d4".into(), vertex(1, 1)))),
        ("unknown_vertex", |seen| drop(seen.vertices.remove("b2"))),
    ];
    for (expected, change) in cases {
        let mut seen = seen(&before(), T0);
        change(&mut seen);
        assert_eq!(word(admit(&command(), &context(), &seen)), expected);
    }
}

#[test]
fn a_job_restored_from_a_savepoint_has_something_to_go_back_to() {
    let mut seen = seen(&before(), T0);
    seen.checkpoints.completed = 0;
    seen.checkpoints.restored = true;
    assert_eq!(admit(&command(), &context(), &seen), Admission::Go);
}

#[test]
fn people_have_the_first_word() {
    let seen = seen(&before(), T0);
    for (mode, paused, frozen, approved, expected) in [
        (Mode::Auto, false, false, false, "go"),
        (Mode::Auto, true, false, false, "paused"),
        (Mode::Auto, false, true, true, "frozen"),
        (Mode::Approve, false, false, false, "mode"),
        (Mode::Approve, false, false, true, "go"),
        (Mode::Recommend, false, false, true, "mode"),
        (Mode::Observe, false, false, false, "mode"),
    ] {
        let mut context = context();
        context.controls = weir_governor::Controls { mode, paused, frozen, approved };
        assert_eq!(word(admit(&command(), &context, &seen)), expected, "{mode} {paused} {frozen} {approved}");
    }
}

#[test]
fn old_commands_are_not_started() {
    let seen = seen(&before(), T0);
    assert_eq!(word(admit(&command(), &weir_governor::Context { newest_epoch: 4, ..context() }, &seen)), "old_epoch");
    let late = weir_governor::Context { now_ms: T0 + 600_000, ..context() };
    assert_eq!(word(admit(&command(), &late, &seen)), "expired");
    let waiting = Command::of_decision(
        &decision(Disposition::AwaitsApproval),
        Numbers { settle_deadline_ms: 1, verify_for_ms: 1 },
    );
    assert_eq!(admit(&waiting.unwrap(), &late, &seen), Admission::Go, "people take longer than that");
}

#[test]
fn only_decisions_that_are_to_be_carried_out_become_commands() {
    let numbers = Numbers { settle_deadline_ms: 1, verify_for_ms: 1 };
    for disposition in
        [Disposition::Nothing, Disposition::Recommend, Disposition::Withheld { gate: "quiet_period".into() }]
    {
        assert_eq!(Command::of_decision(&decision(disposition), numbers), None);
    }
}

#[test]
fn one_action_a_job_at_a_time() {
    let seen = seen(&before(), T0);
    let under_way = begin(action(), &seen, T0).action;
    let context = weir_governor::Context { under_way: Some(&under_way), ..context() };
    assert_eq!(word(admit(&command(), &context, &seen)), "wait: another_action");
}

#[test]
fn requirements_that_weir_changed_itself_are_no_rival() {
    let mut seen = seen(&before(), T0);
    seen.requirements_digest = "2".into();
    let ours = before();
    let context = weir_governor::Context { ours: Some(&ours), ..context() };
    assert_eq!(word(admit(&command(), &context, &seen)), "parent_gone");
}

#[test]
fn targets_that_cannot_be_had_are_refused() {
    for (to, most, expected) in [(0, 128, "impossible_target"), (129, 128, "impossible_target"), (129, 0, "go")] {
        let mut command = command();
        command.plan.vertices[1].to = to;
        let mut seen = seen(&before(), T0);
        seen.vertices.get_mut("b2").unwrap().max_parallelism = most;
        assert_eq!(word(admit(&command, &context(), &seen)), expected);
    }
}

#[test]
fn a_person_gets_an_earlier_size_back() {
    let job = JobKey::new("prod", "wordcount");
    let undo = plan();
    let wish = Rollback { job: &job, undo: &undo, request: 4, number: 9, asked_at_ms: T0 };
    let numbers = Numbers { settle_deadline_ms: 1, verify_for_ms: 1 };
    let seen = seen(&target(), T0);
    let command = Command::roll_back(&wish, &seen, numbers).unwrap();
    assert_eq!((command.plan.target(), command.before()), (before(), target()));
    assert_eq!(command.run, seen.run);
    let mut context = context();
    context.controls = weir_governor::Controls { mode: Mode::Observe, paused: true, frozen: false, approved: true };
    assert_eq!(admit(&command, &context, &seen), Admission::Go, "whoever asks by name gets it, whatever the mode");
    context.controls.frozen = true;
    assert_eq!(word(admit(&command, &context, &seen)), "frozen");

    let nothing = Command::roll_back(&wish, &common::seen(&before(), T0), numbers).unwrap_err();
    assert_eq!(nothing.word, "nothing_to_do");
    let mut foreign = plan();
    foreign.vertices[0].id = "x".into();
    let other = Rollback { undo: &foreign, ..wish };
    assert_eq!(Command::roll_back(&other, &seen, numbers).unwrap_err().word, "graph_changed");
}

#[test]
fn approval_makes_a_waiting_command_a_planned_one_and_changes_nothing_else() {
    let waiting = Action::awaiting_approval(command());
    let approved = waiting.approve();
    assert!(approved.approved && approved.phase == Phase::Planned);
    let under_way = begin(action(), &seen(&before(), T0), T0).action;
    assert_eq!(under_way.clone().approve(), under_way);
}
