//! What the engine decides of a word count, second by second.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test that cannot build its input should stop there"
)]

mod common;

use common::{World, because, sizes};
use proptest::prelude::*;
use weir_engine::{Folded, Judged, Shard};
use weir_schemas::control::{ControlState, Mode};
use weir_schemas::decision::{Direction, Disposition};
use weir_schemas::outcome::OutcomeResult;
use weir_schemas::policy::Policy;
use weir_schemas::records::record::Body;
use weir_schemas::report::HealthWord;

fn acts(judged: &Judged) -> bool {
    judged.decision.disposition == Disposition::Act
}

fn rescales(judged: &Judged) -> bool {
    judged.decision.verdict.plan().is_some()
}

fn withheld_by(judged: &Judged) -> Option<String> {
    match &judged.decision.disposition {
        Disposition::Withheld { gate } => Some(gate.clone()),
        _ => None,
    }
}

/// Carries the plan out as a cluster would: a stop of two seconds, then the new sizes.
fn carry_out(world: &mut World, judged: &Judged) {
    let target = sizes(judged).unwrap();
    world.backlog += 2.0 * world.rate;
    world.now_ms += 2_000;
    world.restart(target);
    world.second();
    world.outcome(OutcomeResult::Verified);
}

#[test]
fn a_cold_start_a_step_and_a_fall_end_at_ds2s_answer_in_one_rescale_each() {
    let mut world = World::new(Mode::Auto);
    let mut path = Vec::new();
    for rate in [800.0, 1600.0, 400.0] {
        world.rate = rate;
        let (seconds, judged) = world.until(60, acts);
        path.push((sizes(&judged).unwrap(), judged.decision.verdict.plan().unwrap().direction));
        assert!(rate < 500.0 || seconds <= 9, "growth takes {seconds} s");
        carry_out(&mut world, &judged);
        let later = world.watch(120);
        assert!(!later.iter().any(rescales), "{:?}", later.iter().find(|judged| rescales(judged)).unwrap().decision);
        assert_eq!(because(later.last().unwrap()), "right_size");
    }
    assert_eq!(path, [([1, 3, 5], Direction::Grow), ([1, 5, 10], Direction::Grow), ([1, 2, 3], Direction::Shrink)]);
}

#[test]
fn the_sentence_says_what_and_why() {
    let mut world = World::new(Mode::Recommend);
    let (_, judged) = world.until(30, rescales);
    assert_eq!(
        judged.decision.sentence,
        "wordcount: flatmap 1 -> 3, count 1 -> 5, since 800 records/s arrive: count will get 1600/s and its 1 subtask can do 500/s, 4.6 needed at 70 % busy (recommended)"
    );
    assert_eq!(judged.decision.report.health().unwrap().word, HealthWord::Overloaded);
}

#[test]
fn a_step_is_not_answered_from_a_window_that_mixes_the_old_and_the_new_load() {
    let mut world = World::new(Mode::Auto);
    world.parallelism = [1, 3, 5];
    world.watch(30);
    world.rate = 1600.0;
    let (_, judged) = world.until(20, acts);
    assert_eq!(sizes(&judged), Some([1, 5, 10]));
}

#[test]
fn a_command_under_way_is_waited_for() {
    let mut world = World::new(Mode::Auto);
    world.until(30, acts);
    assert!(world.watch(60).iter().all(|judged| because(judged) == "action_in_flight"));
}

#[test]
fn a_command_that_got_lost_on_the_way_does_not_block_its_job_for_ever() {
    let mut world = World::new(Mode::Auto);
    world.until(30, acts);
    let first = world.shard.jobs[&World::key()].in_flight.clone().unwrap();
    assert!(world.watch(600).iter().all(|judged| because(judged) == "action_in_flight"));
    let (after, judged) = world.until(120, acts);
    assert!(after <= 62, "{after}");
    assert!(sizes(&judged).is_some());
    assert_ne!(world.shard.jobs[&World::key()].in_flight.clone().unwrap().command, first.command);
}

#[test]
fn each_mode_goes_as_far_as_it_says() {
    for (mode, expected) in [
        (Mode::Observe, Disposition::Withheld { gate: "observe_mode".into() }),
        (Mode::Recommend, Disposition::Recommend),
        (Mode::Approve, Disposition::AwaitsApproval),
        (Mode::Auto, Disposition::Act),
    ] {
        let mut world = World::new(mode);
        let (_, judged) = world.until(30, rescales);
        assert_eq!(judged.decision.disposition, expected, "{mode}");
    }
}

#[test]
fn a_plan_that_awaits_approval_is_told_once_and_stays_the_same_plan() {
    let mut world = World::new(Mode::Approve);
    let (_, first) = world.until(30, rescales);
    let later = world.watch(30);
    assert!(later.iter().all(|judged| !judged.changed && judged.decision.verdict == first.decision.verdict
        || judged.decision.verdict.plan().unwrap().number == 1));
}

/// A plan that waits for approval is not the one that is carried out once nobody has to approve: that one is new, and takes its place.
#[test]
fn in_another_mode_a_plan_that_awaits_approval_gives_way_to_a_new_one() {
    let mut world = World::new(Mode::Approve);
    let (_, first) = world.until(30, rescales);
    world.control(ControlState { mode: Mode::Auto, policy: World::policy(), ..ControlState::default() });
    let (_, second) = world.until(10, acts);
    assert_eq!(sizes(&first), sizes(&second));
    let number = |judged: &Judged| judged.decision.verdict.plan().unwrap().number;
    assert!(number(&second) > number(&first));
    carry_out(&mut world, &second);
    assert!(world.watch(30).iter().all(|judged| !rescales(judged)));
}

/// A person undoes an action: that is nobody else's change, and it is not done again.
#[test]
fn what_a_person_has_undone_is_left_undone() {
    let mut world = World::new(Mode::Auto);
    world.facts.requirements = "count=1..1".into();
    let (_, judged) = world.until(30, acts);
    world.facts.requirements = "count=1..5".into();
    carry_out(&mut world, &judged);
    world.persons_command(OutcomeResult::Started, [1, 3, 5], [1, 1, 1]);
    world.facts.requirements = "count=1..1".into();
    assert_eq!(because(&world.second().unwrap()), "action_in_flight");
    world.restart([1, 1, 1]);
    world.second();
    world.persons_command(OutcomeResult::Verified, [1, 3, 5], [1, 1, 1]);
    let (_, judged) = world.until(60, rescales);
    assert_eq!(withheld_by(&judged).as_deref(), Some("quarantine"));
}

#[test]
fn frozen_and_paused_jobs_are_judged_but_left_alone() {
    for (frozen, paused, gate) in [(true, false, "frozen"), (false, true, "paused")] {
        let mut world = World::new(Mode::Auto);
        world.control(ControlState { mode: Mode::Auto, frozen, paused, policy: World::policy() });
        let (_, judged) = world.until(30, rescales);
        assert_eq!(withheld_by(&judged).as_deref(), Some(gate));
    }
}

#[test]
fn what_stands_against_an_action_is_named() {
    type Change = fn(&mut World);
    let table: [(&str, Change); 5] = [
        ("default_scheduler", |world| world.facts.scheduler = "Default".into()),
        ("reactive_mode", |world| world.facts.scheduler = "Reactive".into()),
        ("rival_autoscaler", |world| world.facts.rival = "job.autoscaler.enabled".into()),
        ("no_checkpointing", |world| world.checkpoints.enabled = false),
        ("no_completed_checkpoint", |world| world.checkpoints.completed = 0),
    ];
    for (gate, change) in table {
        let mut world = World::new(Mode::Auto);
        change(&mut world);
        let (_, judged) = world.until(30, rescales);
        assert_eq!(withheld_by(&judged).as_deref(), Some(gate));
    }
}

#[test]
fn jobs_of_one_name_are_told_and_left_alone() {
    let mut world = World::new(Mode::Auto);
    world.same_name = 2;
    assert!(world.watch(30).iter().all(|judged| because(judged) == "ambiguous_name"));
}

/// A sink that writes to a slow system: more subtasks share what that takes.
#[test]
fn growth_that_brings_nothing_is_not_repeated() {
    let mut world = World::new(Mode::Auto);
    world.rate = 250.0;
    world.limit_of_count = Some(400.0);
    let (_, judged) = world.until(30, acts);
    carry_out(&mut world, &judged);
    let (_, judged) = world.until(60, |judged| because(judged) == "cannot help: more_will_not_help");
    let limit = &judged.decision.report.limits().unwrap().applied[0];
    assert_eq!(limit.detail, "count did 400/s with 1 and does 400/s with 2 subtasks: what it waits for is elsewhere");
    assert!(!world.watch(60).iter().any(rescales));
}

#[test]
fn a_hot_key_is_named_and_not_grown_against() {
    let mut world = World::new(Mode::Auto);
    world.parallelism = [1, 3, 5];
    world.hot = true;
    let (_, judged) = world.until(60, |judged| because(judged) == "cannot help: uneven_load");
    let rule = judged.decision.report.rules.iter().find(|rule| rule.rule == "is_even").unwrap();
    assert!(rule.detail.starts_with("one subtask of count works 100 % of its time, all together"), "{}", rule.detail);
}

#[test]
fn a_change_that_somebody_else_made_is_respected_for_a_while() {
    let mut world = World::new(Mode::Auto);
    world.facts.requirements = "count=1..1".into();
    world.second();
    world.facts.requirements = "count=1..2".into();
    let (_, judged) = world.until(30, rescales);
    assert_eq!(withheld_by(&judged).as_deref(), Some("changed_by_others"));
    let (seconds, _) = world.until(700, acts);
    assert!(seconds > 500, "acted after {seconds} s");
}

#[test]
fn a_shrink_waits_for_its_quiet_period_and_for_complete_data() {
    let mut world = World::new(Mode::Auto);
    world.parallelism = [1, 5, 10];
    world.rate = 400.0;
    let (seconds, judged) = world.until(60, rescales);
    assert!(
        seconds < 15 && withheld_by(&judged).as_deref() == Some("quiet_period"),
        "{:?}",
        judged.decision.disposition
    );
    world.watch(10);
    world.silent_vertex = Some(2);
    world.second();
    world.silent_vertex = None;
    let (seconds, _) = world.until(90, acts);
    assert!(seconds >= 20, "the gap starts the quiet period anew, but it acted after {seconds} s");
}

#[test]
fn a_load_that_wavers_for_a_moment_does_not_start_the_quiet_period_anew() {
    let mut world = World::new(Mode::Auto);
    world.parallelism = [1, 5, 10];
    world.rate = 1600.0;
    world.watch(20);
    world.rate = 400.0;
    world.watch(20);
    world.rate = 700.0;
    let wavering = world.watch(1);
    world.rate = 400.0;
    let (seconds, _) = world.until(60, acts);
    assert_eq!(because(&wavering[0]), "load_unsettled");
    assert!(seconds <= 15, "acted {seconds} s later");
}

#[test]
fn a_vertex_that_is_not_measured_never_causes_a_shrink() {
    let mut world = World::new(Mode::Auto);
    world.parallelism = [1, 5, 10];
    world.rate = 400.0;
    world.silent_vertex = Some(1);
    assert!(world.watch(120).iter().all(|judged| judged.decision.disposition == Disposition::Nothing));
}

/// The first round after a start often lacks counters: that costs its interval, and not the minute that ratios are taken over.
#[test]
fn a_first_round_without_counters_costs_a_second() {
    for vertex in 0..3 {
        let mut world = World::new(Mode::Auto);
        world.silent_vertex = Some(vertex);
        world.second();
        world.silent_vertex = None;
        let (seconds, judged) = world.until(30, acts);
        assert!(seconds <= 10, "vertex {vertex}: {seconds} s");
        assert_eq!(sizes(&judged), Some([1, 3, 5]));
    }
}

#[test]
fn a_vertex_that_is_measured_a_little_later_is_waited_for_so_that_one_restart_does() {
    let mut world = World::new(Mode::Auto);
    world.silent_vertex = Some(2);
    assert!(!world.watch(15).iter().any(rescales));
    world.silent_vertex = None;
    let (_, judged) = world.until(10, acts);
    assert_eq!(sizes(&judged), Some([1, 3, 5]));
}

#[test]
fn what_passes_by_itself_is_told_only_if_it_does_not() {
    let mut world = World::new(Mode::Recommend);
    world.parallelism = [1, 3, 5];
    let told = |judged: &[Judged]| -> Vec<String> { judged.iter().filter(|it| it.changed).map(because).collect() };
    assert_eq!(told(&world.watch(30)), ["right_size"]);
    world.state = "RESTARTING".into();
    assert!(told(&world.watch(20)).is_empty());
    assert_eq!(told(&world.watch(20)), ["not_running"]);
}

#[test]
fn a_source_that_tells_no_backlog_still_grows_and_says_that_more_may_come() {
    let mut world = World::new(Mode::Auto);
    world.tells_backlog = false;
    let (_, judged) = world.until(30, acts);
    assert!(sizes(&judged).unwrap()[2] > 1);
    let problems = &judged.decision.report.inputs().unwrap().problems;
    assert_eq!(problems[0].word, "backlog_unknown");
}

#[test]
fn too_few_slots_give_the_best_plan_there_is_and_say_so() {
    let mut world = World::new(Mode::Auto);
    world.facts.slots_total = 4;
    let (_, judged) = world.until(30, acts);
    assert_eq!(sizes(&judged), Some([1, 3, 4]));
    assert!(judged.decision.verdict.plan().unwrap().short_of_slots);
    assert_eq!(judged.decision.report.limits().unwrap().applied[0].limit, "SHORT_OF_SLOTS");
    carry_out(&mut world, &judged);
    let (_, judged) = world.until(60, |judged| because(judged) == "cannot help: short_of_slots");
    assert_eq!(judged.decision.disposition, Disposition::Nothing);
}

#[test]
fn the_policys_bounds_and_untouched_vertices_hold() {
    let policy = Policy { max_parallelism: Some(4), untouched_vertices: vec!["flat*".into()], ..World::policy() };
    let mut world = World::new(Mode::Auto);
    world.control(ControlState { mode: Mode::Auto, policy, ..ControlState::default() });
    let (_, judged) = world.until(30, acts);
    assert_eq!(sizes(&judged), Some([1, 1, 4]));
    let words: Vec<&str> =
        judged.decision.report.limits().unwrap().applied.iter().map(|limit| limit.limit.as_str()).collect();
    assert_eq!(words, ["untouched", "policy_max"]);
}

#[test]
fn a_target_that_was_rolled_back_is_not_tried_again_in_the_same_run() {
    let mut world = World::new(Mode::Auto);
    world.until(30, acts);
    world.outcome(OutcomeResult::RolledBack { why: "throughput_fell".into() });
    let (_, judged) = world.until(30, rescales);
    assert_eq!(withheld_by(&judged).as_deref(), Some("setback"));
    let later = world.watch(120);
    assert!(!later.iter().any(acts));
    assert_eq!(withheld_by(later.last().unwrap()).as_deref(), Some("quarantine"));
    world.run = "b".repeat(32);
    world.restart([1, 1, 1]);
    world.until(30, acts);
}

#[test]
fn restarts_of_a_day_are_limited() {
    let mut world = World::new(Mode::Auto);
    let policy = Policy { restarts_per_day: 1, ..World::policy() };
    world.control(ControlState { mode: Mode::Auto, policy, ..ControlState::default() });
    let (_, judged) = world.until(30, acts);
    carry_out(&mut world, &judged);
    world.watch(30);
    world.rate = 3000.0;
    let (_, judged) = world.until(60, rescales);
    assert_eq!(withheld_by(&judged).as_deref(), Some("restarts_per_day"));
    // Shrinks may spend half of them.
    let policy = Policy { restarts_per_day: 3, ..World::policy() };
    world.control(ControlState { mode: Mode::Auto, policy, ..ControlState::default() });
    world.rate = 100.0;
    world.backlog = 0.0;
    let (_, judged) = world.until(120, |judged| withheld_by(judged).as_deref() == Some("restarts_per_day"));
    assert_eq!(judged.decision.verdict.plan().unwrap().direction, Direction::Shrink);
}

#[test]
fn a_shrink_may_wait_for_a_restart_that_happens_anyway() {
    let policy = Policy { shrink_max_wait_ms: 3_600_000, ..World::policy() };
    let mut world = World::new(Mode::Auto);
    world.control(ControlState { mode: Mode::Auto, policy, ..ControlState::default() });
    world.parallelism = [1, 5, 10];
    world.rate = 400.0;
    let judged = world.watch(120).pop().unwrap();
    assert_eq!(withheld_by(&judged).as_deref(), Some("natural_restart"));
    world.restart([1, 5, 10]);
    let (seconds, judged) = world.until(30, acts);
    assert!(seconds < 15, "{seconds} s");
    assert_eq!(sizes(&judged), Some([1, 2, 3]));
}

#[test]
fn a_job_that_is_down_or_silent_is_held() {
    let mut world = World::new(Mode::Auto);
    world.watch(3);
    world.state = "RESTARTING".into();
    assert_eq!(because(&world.second().unwrap()), "not_running");
    world.state = "RUNNING".into();
    world.watch(10);
    assert_ne!(because(&world.silence("mixed").unwrap()), "mixed", "one round more or less says nothing");
    world.now_ms += 4_000;
    assert_eq!(because(&world.silence("unreachable").unwrap()), "unreachable");
    assert_eq!(because(&world.silence("finished").unwrap()), "finished");
}

#[test]
fn nothing_is_decided_before_people_have_been_heard() {
    let mut world = World::new(Mode::Auto);
    world.shard = Shard::default();
    assert!(world.watch(20).is_empty());
}

#[test]
fn repeated_and_reordered_records_change_nothing() {
    let mut world = World::new(Mode::Auto);
    world.watch(3);
    world.pass(1.0);
    let batch = world.batch();
    let record = world.record("ingest", Body::Metrics(batch));
    world.fold(record.clone());
    let before = world.shard.clone();
    assert!(matches!(world.shard.fold(record), Folded::Refused(refusal) if refusal.word == "duplicate"));
    assert_eq!(world.shard, before);
    let old = world.batch();
    let again = world.record("ingest", Body::Metrics(old));
    assert!(matches!(world.shard.fold(again), Folded::Refused(refusal) if refusal.word == "repeated"));
}

#[test]
fn a_round_in_parts_is_judged_once_and_a_lost_part_costs_only_its_round() {
    let mut world = World::new(Mode::Auto);
    let halves = |world: &mut World| {
        world.pass(1.0);
        let whole = world.batch();
        let mut parts = [whole.clone(), whole];
        for (index, part) in parts.iter_mut().enumerate() {
            (part.part, part.parts) = (index as u32, 2);
            let vertices = if index == 0 { 0..2 } else { 2..3 };
            part.vertices = part.vertices[vertices].to_vec();
        }
        parts.map(|part| world.record("ingest", Body::Metrics(part)))
    };
    let [first, second] = halves(&mut world);
    assert!(world.fold(first).is_none());
    assert!(world.fold(second).is_some());
    let [lonely, _] = halves(&mut world);
    world.fold(lonely);
    let [first, second] = halves(&mut world);
    assert!(matches!(world.shard.fold(first), Folded::Refused(refusal) if refusal.word == "incomplete_round"));
    assert!(world.fold(second).is_some());
}

/// A crash at any moment: the state is written out and read back, and what follows is the same to the byte.
#[test]
fn a_state_that_was_written_out_and_read_back_decides_the_same() {
    let run = |save_at: Option<u32>| {
        let mut world = World::new(Mode::Auto);
        let mut told = Vec::new();
        for second in 0..60 {
            if second == 30 {
                world.rate = 1600.0;
            }
            told.extend(world.second().map(|judged| serde_json::to_string(&judged.decision).unwrap()));
            if save_at == Some(second) {
                world.shard = Shard::from_bytes(&world.shard.to_bytes().unwrap()).unwrap();
            }
        }
        (told, world.shard.to_bytes().unwrap())
    };
    let undisturbed = run(None);
    for second in 0..60 {
        assert!(run(Some(second)) == undisturbed, "saved at second {second}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Under a constant load it settles in one step and stays quiet; what it gives carries the load.
    #[test]
    fn constant_load_settles(rate in 20.0..2_000.0f64, flatmap in 1u32..8, count in 1u32..12) {
        let mut world = World::new(Mode::Auto);
        world.facts.slots_total = 64;
        world.rate = rate;
        world.parallelism = [1, flatmap, count];
        let mut rescaled = 0;
        for _ in 0..400 {
            if let Some(judged) = world.second().filter(acts) {
                carry_out(&mut world, &judged);
                rescaled += 1;
            }
        }
        // One each for growth and, where one vertex was too large, for the shrink after it.
        prop_assert!(rescaled <= 2, "{rescaled} rescales");
        prop_assert!(f64::from(world.parallelism[1]) * 500.0 >= rate && f64::from(world.parallelism[2]) * 250.0 >= rate);
        prop_assert!(world.backlog < rate);
    }

    /// No record, however odd, does harm beyond itself.
    #[test]
    fn hostile_records_never_panic(parts in 0u32..4, part in 0u32..4, count in 0usize..4, bytes in proptest::collection::vec(any::<u8>(), 0..20), value in any::<f64>()) {
        let mut world = World::new(Mode::Auto);
        world.watch(2);
        let mut batch = world.batch();
        (batch.parts, batch.part) = (parts, part);
        let column = weir_schemas::records::Column { present: bytes.clone(), values: vec![value; count] };
        if let Some(subtasks) = batch.vertices[0].subtasks.as_mut() {
            subtasks.records_out = Some(column);
            subtasks.attempt.truncate(count);
            subtasks.index = vec![7; count];
        }
        batch.vertices[1].pending_records = Some(value);
        batch.edges.push(weir_schemas::records::Edge { from: "x".into(), to: "y".into(), ship_strategy: String::new() });
        let record = world.record("hostile", Body::Metrics(batch));
        world.fold(record);
        let record = world.record("hostile", Body::OutcomeJson(bytes.clone()));
        world.fold(record);
        let record = world.record("hostile", Body::ControlJson(bytes));
        world.fold(record);
        prop_assert!(!world.watch(10).is_empty());
    }
}
