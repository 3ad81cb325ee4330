//! The driver against the simulator, in virtual time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

mod common;

use common::Rig;
use weir_drivers::{Driver, DriverError, Executed, Look};
use weir_governor::{
    Action, Command, Effect, ObserveError, Scheduler, Step, admit, advance, begin, targets, trigger_id,
};
use weir_schemas::outcome::OutcomeResult;
use weir_simulator::{Fault, FlinkVersion, scenario};

/// Carries an action through: observe, advance, execute, as the service does.
async fn carry(rig: &Rig, command: Command) -> Step {
    let mut seen = rig.observe(&command).await;
    let admission = admit(&command, &rig.context(), seen.as_ref().unwrap());
    assert_eq!(admission, weir_governor::Admission::Go, "{seen:?}");
    let mut step = begin(Action::planned(command.clone()), seen.as_ref().unwrap(), rig.now_ms());
    while !step.action.phase.is_final() {
        assert!(rig.now_ms() < 1_200_000, "still {}", step.action.phase.word());
        if let Some(effect) = step.effect.take() {
            let _ = rig.driver.execute(&command.run, &effect).await;
        }
        rig.pass(step.look_again_ms);
        seen = rig.observe(&command).await;
        step = advance(step.action, &seen, rig.now_ms());
    }
    step
}

#[tokio::test]
async fn a_rescale_is_carried_out_and_verified_on_every_version() {
    for version in FlinkVersion::ALL {
        let mut spec = scenario::scenario("wordcount").unwrap().spec;
        spec.version = version;
        let rig = Rig::new(spec);
        rig.pass(30_000);
        let step = carry(&rig, rig.command(&[1, 3, 5]).await).await;
        let outcome = step.outcome.unwrap();
        assert_eq!(outcome.result, OutcomeResult::Verified, "{version:?}: {}", outcome.sentence);
        assert_eq!(rig.parallelism(), [1, 3, 5], "{version:?}");
        assert!(outcome.stop_ms.is_some_and(|stop_ms| (500..5_000).contains(&stop_ms)), "{version:?}: {outcome:?}");
        assert!(outcome.sentence.contains("throughput"), "{version:?}: {}", outcome.sentence);
        assert_eq!(rig.rescales(), 1, "{version:?}");
    }
}

#[tokio::test]
async fn short_of_slots_ends_at_the_best_that_there_is() {
    let rig = Rig::new(scenario::scenario("short-of-slots").unwrap().spec);
    rig.pass(30_000);
    let step = carry(&rig, rig.command(&[1, 4, 8]).await).await;
    let outcome = step.outcome.unwrap();
    assert_eq!(outcome.result, OutcomeResult::Verified, "{}", outcome.sentence);
    assert!(outcome.short_of_slots && rig.parallelism() == [1, 4, 4], "{:?}", rig.parallelism());
}

#[tokio::test]
async fn a_shrink_that_cannot_keep_up_is_undone() {
    let rig = Rig::new(scenario::scenario("calm").unwrap().spec);
    rig.pass(60_000);
    let step = carry(&rig, rig.command(&[1, 1, 1]).await).await;
    let outcome = step.outcome.unwrap();
    assert_eq!(outcome.result, OutcomeResult::RolledBack { why: "throughput_fell".into() }, "{}", outcome.sentence);
    rig.pass(30_000);
    assert_eq!(rig.parallelism(), [1, 3, 5]);
    assert_eq!(rig.rescales(), 2);
}

#[tokio::test]
async fn an_answer_that_is_lost_on_the_way_changes_nothing_but_the_time() {
    for fault in [Fault::DropAfter, Fault::DropBefore, Fault::Html, conflict(), internal()] {
        let rig = Rig::new(scenario::scenario("wordcount").unwrap().spec);
        rig.pass(30_000);
        let command = rig.command(&[1, 3, 5]).await;
        rig.faults(|plan| plan.times(2, "PUT *", fault.clone()).times(1, "POST *", fault.clone()));
        let step = carry(&rig, command).await;
        assert_eq!(step.outcome.unwrap().result, OutcomeResult::Verified, "{fault:?}");
        assert_eq!(rig.rescales(), 1, "{fault:?}");
    }
}

fn conflict() -> Fault {
    Fault::Answer { status: 409, body: r#"{"errors":["Another update is in progress."]}"#.into() }
}

fn internal() -> Fault {
    Fault::Answer { status: 500, body: r#"{"errors":["Internal server error."]}"#.into() }
}

#[tokio::test]
async fn what_flink_refuses_is_told_apart_from_what_may_work_later() {
    let rig = Rig::new(scenario::scenario("wordcount").unwrap().spec);
    rig.pass(30_000);
    let command = rig.command(&[1, 3, 5]).await;
    let mut bounds = targets(&command.plan.target());
    for bound in bounds.values_mut() {
        bound.upper = 4_000;
    }
    let refused = rig.driver.execute(&command.run, &Effect::PutRequirements { bounds }).await;
    assert!(matches!(refused, Err(DriverError::Refused(_))), "{refused:?}");
    let put = Effect::PutRequirements { bounds: targets(&command.plan.target()) };
    rig.faults(|plan| plan.on("PUT *", conflict()));
    let later = rig.driver.execute(&command.run, &put).await;
    assert!(matches!(later, Err(DriverError::Later(_))), "{later:?}");
    let mut other = command.run.clone();
    other.start_ms += 1;
    let refused = rig.driver.execute(&other, &put).await;
    assert!(matches!(&refused, Err(DriverError::Refused(why)) if why.contains("submitted again")), "{refused:?}");
    rig.faults(|_| weir_simulator::FaultPlan::none());
    assert_eq!(rig.driver.execute(&command.run, &put).await, Ok(Executed));
}

#[tokio::test]
async fn a_checkpoint_is_taken_once_for_each_id() {
    let rig = Rig::new(scenario::scenario("calm").unwrap().spec);
    rig.pass(30_000);
    let command = rig.command(&[1, 3, 5]).await;
    let before = rig.observe(&command).await.unwrap().checkpoints.mark();
    let effect = Effect::TriggerCheckpoint { trigger_id: trigger_id(&command.id, 0) };
    for _ in 0..3 {
        assert_eq!(rig.driver.execute(&command.run, &effect).await, Ok(Executed));
        rig.pass(300);
    }
    rig.pass(1_000);
    assert_eq!(rig.observe(&command).await.unwrap().checkpoints.mark(), before + 1);
}

#[tokio::test]
async fn a_job_that_is_gone_is_not_one_that_cannot_be_seen() {
    let rig = Rig::new(scenario::scenario("wordcount").unwrap().spec);
    rig.pass(30_000);
    let command = rig.command(&[1, 3, 5]).await;
    rig.faults(|plan| plan.on("*", Fault::DropBefore));
    assert!(matches!(rig.observe(&command).await, Err(ObserveError::Unreachable(_))));
    rig.faults(|_| weir_simulator::FaultPlan::none());
    let mut unknown = command.clone();
    unknown.run.id = "f".repeat(32);
    assert!(matches!(rig.observe(&unknown).await, Err(ObserveError::Gone(_))));
}

#[tokio::test]
async fn everything_that_admission_needs_is_seen() {
    let rig = Rig::new(scenario::scenario("wordcount").unwrap().spec);
    rig.pass(30_000);
    let command = rig.command(&[1, 3, 5]).await;
    let seen = rig.observe(&command).await.unwrap();
    assert!(seen.is_settled() && seen.checkpoints.enabled && seen.checkpoints.completed > 0, "{seen:?}");
    assert_eq!((seen.scheduler, seen.same_name, seen.rival.clone()), (Scheduler::Adaptive, 1, None));
    assert_eq!((seen.flink_version.as_str(), seen.checkpoints.interval_ms), ("2.3.0", Some(5_000)));
    assert_eq!(seen.slots_free, Some(15));
    assert!(seen.requirements.is_some() && seen.requirements_digest.contains("=1..1"), "{seen:?}");
    assert!(seen.sources.values().all(|source| source.records_out > 0.0 && source.pending > Some(0.0)), "{seen:?}");
    let cheap = rig.driver.observe(Look { job: &command.job, run: &command.run, counters: false }).await.unwrap();
    assert!(cheap.sources.is_empty());
}

#[tokio::test]
async fn schedulers_that_cannot_rescale_are_recognised() {
    for (scheduler, expected) in [
        (weir_simulator::Scheduler::Default, Scheduler::Default),
        (weir_simulator::Scheduler::Reactive, Scheduler::Reactive),
    ] {
        for version in FlinkVersion::ALL {
            let mut spec = scenario::scenario("calm").unwrap().spec;
            (spec.scheduler, spec.version) = (scheduler, version);
            let rig = Rig::new(spec);
            rig.pass(30_000);
            let command = rig.command(&[1, 1, 1]).await;
            assert_eq!(rig.observe(&command).await.unwrap().scheduler, expected, "{version:?}");
        }
    }
}
