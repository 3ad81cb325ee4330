//! What people ask for.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

mod common;

use common::{Rig, words};
use weir_actuator::Actuator;
use weir_schemas::control::Mode;
use weir_schemas::decision::{Decision, Disposition};
use weir_simulator::scenario::scenario;
use weir_store::RequestKind;

/// A job in mode approve, with a plan that awaits approval.
async fn waiting() -> (Rig, Actuator, Decision, String) {
    let rig = Rig::new(scenario("wordcount").unwrap().spec).await;
    let decision = rig.decision(Disposition::AwaitsApproval, &[1, 3, 5]).await;
    rig.store.set_mode(&decision.job, Mode::Approve, "anna", 1).await.unwrap();
    rig.publish(&decision).await;
    let mut actuator = rig.actuator();
    let outcomes = rig.until_outcomes(&mut actuator, 1).await;
    assert_eq!(words(&outcomes), ["awaits_approval"]);
    let id = outcomes[0].command.clone();
    (rig, actuator, decision, id)
}

async fn ask(rig: &Rig, actuator: &mut Actuator, kind: RequestKind, action: &str) -> String {
    let id = rig.store.add_request(kind, action, "anna", rig.now_ms()).await.unwrap();
    for _ in 0..100 {
        actuator.step().await.unwrap();
        if let Some(answer) = rig.store.request(id).await.unwrap().result {
            return answer;
        }
        rig.pass(500);
    }
    panic!("the request was never answered");
}

#[tokio::test]
async fn nothing_happens_until_a_person_approves() {
    let (rig, mut actuator, _, id) = waiting().await;
    for _ in 0..50 {
        actuator.step().await.unwrap();
        rig.pass(1_000);
    }
    assert_eq!(rig.puts(), 0);
    let answer = ask(&rig, &mut actuator, RequestKind::Approve, &id).await;
    assert!(answer.starts_with("approved"), "{answer}");
    let outcomes = rig.until_outcomes(&mut actuator, 3).await;
    assert_eq!(words(&outcomes), ["awaits_approval", "started", "verified"]);
    let again = ask(&rig, &mut actuator, RequestKind::Approve, &id).await;
    assert!(again.contains("nothing to approve") && again.contains("verified"), "{again}");
}

#[tokio::test]
async fn what_is_rejected_never_happens() {
    let (rig, mut actuator, _, id) = waiting().await;
    assert_eq!(ask(&rig, &mut actuator, RequestKind::Reject, &id).await, "rejected");
    let outcomes = rig.until_outcomes(&mut actuator, 2).await;
    assert_eq!(words(&outcomes), ["awaits_approval", "refused: rejected"]);
    let late = ask(&rig, &mut actuator, RequestKind::Approve, &id).await;
    assert!(late.contains("nothing to approve"), "{late}");
    assert_eq!(rig.puts(), 0);
}

#[tokio::test]
async fn a_newer_plan_takes_the_place_of_one_that_waits() {
    let (rig, mut actuator, _, _) = waiting().await;
    let newer = rig.decision(Disposition::AwaitsApproval, &[1, 4, 7]).await;
    rig.publish(&newer).await;
    let outcomes = rig.until_outcomes(&mut actuator, 3).await;
    assert_eq!(words(&outcomes), ["awaits_approval", "awaits_approval", "refused: superseded"]);
    assert_eq!(rig.store.open_actions().await.unwrap().len(), 1);
}

#[tokio::test]
async fn approval_that_does_not_come_in_a_day_is_not_waited_for() {
    let rig = Rig::new(scenario("wordcount").unwrap().spec).await;
    let mut decision = rig.decision(Disposition::AwaitsApproval, &[1, 3, 5]).await;
    decision.decided_at_ms -= 86_400_000 - 10_000;
    rig.publish(&decision).await;
    let mut actuator = rig.actuator();
    assert_eq!(words(&rig.until_outcomes(&mut actuator, 1).await), ["awaits_approval"]);
    let began_ms = rig.now_ms();
    let outcomes = rig.until_outcomes(&mut actuator, 2).await;
    assert!((9_000..12_000).contains(&(rig.now_ms() - began_ms)));
    assert_eq!(words(&outcomes), ["awaits_approval", "refused: expired"]);
}

#[tokio::test]
async fn a_person_gets_the_size_of_before_back_whatever_the_mode() {
    let (rig, mut actuator, decision, id) = waiting().await;
    ask(&rig, &mut actuator, RequestKind::Approve, &id).await;
    rig.until_outcomes(&mut actuator, 3).await;
    rig.store.set_mode(&decision.job, Mode::Observe, "anna", 2).await.unwrap();
    let answer = ask(&rig, &mut actuator, RequestKind::Rollback, &id).await;
    assert_eq!(answer, "going back: flatmap 3 -> 1, count -> sink 5 -> 1");
    let outcomes = rig.until_outcomes(&mut actuator, 5).await;
    assert_eq!(words(&outcomes)[3..], ["started", "verified"]);
    assert_eq!((rig.parallelism(), rig.puts()), (vec![1, 1, 1], 2));
    assert_eq!(outcomes[4].decision, "", "no decision led to it");
    let again = ask(&rig, &mut actuator, RequestKind::Rollback, &id).await;
    assert!(again.contains("runs at that size already"), "{again}");
}

#[tokio::test]
async fn what_is_under_way_cannot_be_rejected() {
    let (rig, mut actuator, _, id) = waiting().await;
    ask(&rig, &mut actuator, RequestKind::Approve, &id).await;
    rig.until_outcomes(&mut actuator, 2).await;
    rig.pass(200);
    actuator.step().await.unwrap();
    let answer = ask(&rig, &mut actuator, RequestKind::Reject, &id).await;
    assert!(answer.contains("ask for a rollback instead"), "{answer}");
    let outcomes = rig.until_outcomes(&mut actuator, 3).await;
    assert_eq!(words(&outcomes)[2], "verified");
}
