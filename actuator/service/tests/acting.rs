//! From a decision to its outcome.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

mod common;

use common::{Rig, words};
use weir_schemas::decision::Disposition;
use weir_schemas::outcome::OutcomeResult;
use weir_simulator::scenario::scenario;
use weir_simulator::{ClusterSpec, Fault, FaultPlan};

fn wordcount() -> ClusterSpec {
    scenario("wordcount").unwrap().spec
}

#[tokio::test]
async fn a_decision_is_carried_out_once_however_often_it_comes() {
    let rig = Rig::new(wordcount()).await;
    let decision = rig.decision(Disposition::Act, &[1, 3, 5]).await;
    for _ in 0..3 {
        rig.publish(&decision).await;
    }
    let mut actuator = rig.actuator();
    let outcomes = rig.until_outcomes(&mut actuator, 2).await;
    assert_eq!(words(&outcomes), ["started", "verified"]);
    assert_eq!((outcomes[1].stop_ms.is_some(), outcomes[1].decision.as_str()), (true, decision.id.as_str()));
    rig.publish(&decision).await;
    for _ in 0..20 {
        actuator.step().await.unwrap();
        rig.pass(500);
    }
    assert_eq!((rig.parallelism(), rig.rescales(), rig.puts()), (vec![1, 3, 5], 1, 1));
    assert_eq!(rig.outcomes().await.len(), 2);
    assert_eq!(rig.store.restarts_since(&decision.job, 0).await.unwrap(), 1);
}

#[tokio::test]
async fn decisions_that_are_not_to_be_carried_out_are_left_alone() {
    let rig = Rig::new(wordcount()).await;
    for disposition in [Disposition::Recommend, Disposition::Withheld { gate: "quiet_period".into() }] {
        let decision = rig.decision(disposition, &[1, 3, 5]).await;
        rig.publish(&decision).await;
    }
    let mut elsewhere = rig.decision(Disposition::Act, &[1, 3, 5]).await;
    elsewhere.job.cluster = "elsewhere".into();
    rig.publish(&elsewhere).await;
    rig.append("sim/default/wordcount", b"{not an event").await;
    let mut actuator = rig.actuator();
    assert_eq!(actuator.step().await.unwrap().claimed, 0);
    let decision = rig.decision(Disposition::Act, &[1, 3, 5]).await;
    rig.publish(&decision).await;
    assert_eq!(actuator.step().await.unwrap().claimed, 1, "what cannot be read takes nothing else with it");
}

#[tokio::test]
async fn a_freeze_between_plan_and_admission_stops_it() {
    let rig = Rig::new(wordcount()).await;
    let decision = rig.decision(Disposition::Act, &[1, 3, 5]).await;
    rig.publish(&decision).await;
    rig.store.set_frozen(true, "anna", rig.now_ms()).await.unwrap();
    let outcomes = rig.until_outcomes(&mut rig.actuator(), 1).await;
    assert_eq!((words(&outcomes), rig.puts()), (vec!["refused: frozen".into()], 0));
    assert!(outcomes[0].sentence.contains("weir unfreeze"), "{}", outcomes[0].sentence);
}

#[tokio::test]
async fn a_pause_or_a_milder_mode_stops_it_as_well() {
    for (paused, expected) in [(true, "refused: paused"), (false, "refused: mode")] {
        let rig = Rig::new(wordcount()).await;
        let decision = rig.decision(Disposition::Act, &[1, 3, 5]).await;
        rig.publish(&decision).await;
        if paused {
            rig.store.set_paused(&decision.job, true, "anna", 1).await.unwrap();
        } else {
            rig.store.set_mode(&decision.job, weir_schemas::control::Mode::Recommend, "anna", 1).await.unwrap();
        }
        let outcomes = rig.until_outcomes(&mut rig.actuator(), 1).await;
        assert_eq!((words(&outcomes), rig.puts()), (vec![expected.into()], 0));
    }
}

#[tokio::test]
async fn a_job_that_was_submitted_again_is_left_alone() {
    let rig = Rig::new(wordcount()).await;
    let decision = rig.decision(Disposition::Act, &[1, 3, 5]).await;
    rig.publish(&decision).await;
    rig.sim().cluster.lock().unwrap().cancel_job("wordcount").unwrap();
    rig.pass(1_000);
    rig.sim().cluster.lock().unwrap().resubmit("wordcount").unwrap();
    rig.pass(20_000);
    let outcomes = rig.until_outcomes(&mut rig.actuator(), 1).await;
    let word = &words(&outcomes)[0];
    assert!(word == "refused: parent_gone" || word == "refused: job_not_running", "{word}");
    assert_eq!(rig.puts(), 0);
}

#[tokio::test]
async fn somebody_else_who_changes_the_job_is_respected() {
    let rig = Rig::new(wordcount()).await;
    let decision = rig.decision(Disposition::Act, &[1, 3, 5]).await;
    rig.publish(&decision).await;
    let client = weir_flink::FlinkClient::new(rig.sim().as_ref());
    let detail = client.job(&decision.run.id).await.unwrap().value;
    let theirs = detail.vertices.iter().map(|vertex| (vertex.id.clone(), (1, 2))).collect();
    client.put_requirements(&detail, &theirs).await.unwrap();
    let outcomes = rig.until_outcomes(&mut rig.actuator(), 1).await;
    assert_eq!((words(&outcomes), rig.puts()), (vec!["refused: rival_autoscaler".into()], 1));
}

#[tokio::test]
async fn decisions_of_an_analyzer_that_was_replaced_are_refused() {
    let rig = Rig::new(wordcount()).await;
    let mut newer = rig.decision(Disposition::Recommend, &[1, 3, 5]).await;
    newer.epoch = 2;
    rig.publish(&newer).await;
    let old = rig.decision(Disposition::Act, &[1, 3, 5]).await;
    rig.publish(&old).await;
    let outcomes = rig.until_outcomes(&mut rig.actuator(), 1).await;
    assert_eq!((words(&outcomes), rig.puts()), (vec!["refused: old_epoch".into()], 0));
}

#[tokio::test]
async fn short_of_slots_is_verified_with_what_there_is() {
    let rig = Rig::new(scenario("short-of-slots").unwrap().spec).await;
    let decision = rig.decision(Disposition::Act, &[1, 4, 8]).await;
    rig.publish(&decision).await;
    let outcomes = rig.until_outcomes(&mut rig.actuator(), 2).await;
    assert_eq!(words(&outcomes), ["started", "verified"]);
    assert!(outcomes[1].short_of_slots, "{}", outcomes[1].sentence);
}

#[tokio::test]
async fn a_job_that_does_not_come_up_gets_its_last_good_size_back() {
    let rig = Rig::new(wordcount()).await;
    let decision = rig.decision(Disposition::Act, &[1, 3, 5]).await;
    rig.publish(&decision).await;
    let crash = || {
        if rig.parallelism() == [1, 3, 5] && rig.now_ms() % 1_500 < 150 {
            let _ = rig.sim().cluster.lock().unwrap().fail_task("wordcount");
        }
    };
    let outcomes = rig.until_outcomes_while(&mut rig.actuator(), 2, crash).await;
    assert_eq!(words(&outcomes), ["started", "rolled_back: not_running"], "{}", outcomes[1].sentence);
    assert_eq!(outcomes[1].after, outcomes[1].before);
    assert_eq!((rig.parallelism(), rig.puts()), (vec![1, 1, 1], 2));
}

#[tokio::test]
async fn a_cluster_that_cannot_be_reached_does_not_hold_up_another() {
    let rig = Rig::with([("a", wordcount()), ("b", wordcount())]).await;
    for (name, api) in &rig.clusters {
        let decision = rig.decision_on(name, api, Disposition::Act, &[1, 3, 5]).await;
        rig.publish(&decision).await;
    }
    *rig.clusters["a"].faults.lock().unwrap() = FaultPlan::none().on("*", Fault::DropBefore);
    let mut actuator = rig.actuator();
    let outcomes = rig.until_outcomes(&mut actuator, 2).await;
    assert!(outcomes.iter().all(|outcome| outcome.job.cluster == "b"), "{outcomes:?}");
    rig.clusters["a"].faults.lock().unwrap().clear();
    let outcomes = rig.until_outcomes(&mut actuator, 4).await;
    assert!(outcomes.iter().filter(|outcome| outcome.result == OutcomeResult::Verified).count() == 2);
}

#[tokio::test]
async fn a_second_plan_for_a_job_waits_for_the_first_and_is_then_too_late() {
    let rig = Rig::new(wordcount()).await;
    let first = rig.decision(Disposition::Act, &[1, 3, 5]).await;
    let second = rig.decision(Disposition::Act, &[1, 2, 2]).await;
    rig.publish(&first).await;
    rig.publish(&second).await;
    let outcomes = rig.until_outcomes(&mut rig.actuator(), 3).await;
    assert_eq!(words(&outcomes), ["started", "verified", "refused: parent_gone"]);
    assert_eq!(rig.puts(), 1);
}
