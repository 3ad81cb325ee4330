//! Processes that die at the worst moment, and others that take over.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use common::{Rig, words};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use weir_schemas::decision::Disposition;
use weir_simulator::scenario::scenario;
use weir_store::{BoxFuture, WriteHook};

/// Stops a process for ever when it reaches a point for the `left`th time.
struct DieAt {
    point: &'static str,
    left: AtomicI64,
    reached: Notify,
}

impl DieAt {
    fn reach(&self, when: &str, what: &str) -> BoxFuture<'_, ()> {
        if format!("{when} {what}") != self.point || self.left.fetch_sub(1, Ordering::SeqCst) > 1 {
            return Box::pin(std::future::ready(()));
        }
        self.reached.notify_one();
        Box::pin(std::future::pending())
    }
}

impl WriteHook for DieAt {
    fn before(&self, what: &'static str) -> BoxFuture<'_, ()> {
        self.reach("before", what)
    }

    fn within(&self, what: &'static str) -> BoxFuture<'_, ()> {
        self.reach("within", what)
    }

    fn after(&self, what: &'static str) -> BoxFuture<'_, ()> {
        self.reach("after", what)
    }
}

/// One process dies at the point, another takes over. False if the point was never reached.
async fn survives(point: &'static str, nth: i64) -> bool {
    let rig = Rig::new(scenario("wordcount").unwrap().spec).await;
    let decision = rig.decision(Disposition::Act, &[1, 3, 5]).await;
    rig.publish(&decision).await;
    let hook = Arc::new(DieAt { point, left: AtomicI64::new(nth), reached: Notify::new() });
    let mut first = rig.actuator_on(rig.store.clone().with_write_hook(Arc::clone(&hook) as Arc<dyn WriteHook>));
    let mut died = false;
    for _ in 0..200 {
        tokio::select! {
            biased;
            () = hook.reached.notified() => died = true,
            stepped = first.step() => assert!(stepped.unwrap().leads),
        }
        if died {
            break;
        }
        rig.pass(150);
    }
    drop(first);
    rig.pass(10_000);
    let mut second = rig.actuator();
    let mut outcomes = rig.until_outcomes(&mut second, 2).await;
    while !outcomes.last().unwrap().result.is_final() {
        outcomes = rig.until_outcomes(&mut second, outcomes.len() + 1).await;
    }
    for _ in 0..10 {
        second.step().await.unwrap();
        rig.pass(500);
    }
    let mut told = words(&outcomes);
    told.dedup();
    assert_eq!(told, ["started", "verified"], "{point} {nth}");
    assert_eq!((rig.parallelism(), rig.rescales()), (vec![1, 3, 5], 1), "{point} {nth}");
    assert_eq!(rig.store.actions(&decision.job, 10).await.unwrap().len(), 1, "{point} {nth}");
    died
}

#[tokio::test]
async fn a_death_around_the_claim_neither_loses_nor_repeats_the_command() {
    for point in ["before claim_action", "within claim_action", "after claim_action"] {
        assert!(survives(point, 1).await, "{point} was never reached");
    }
}

#[tokio::test]
async fn a_death_between_storing_and_doing_rescales_once() {
    for nth in 1..=5 {
        for point in ["before update_action", "within update_action", "after update_action"] {
            assert!(survives(point, nth).await, "{point} {nth} was never reached");
        }
    }
}

#[tokio::test]
async fn a_death_around_publishing_repeats_records_that_can_be_recognised() {
    for point in ["before published", "after published"] {
        assert!(survives(point, 1).await, "{point} was never reached");
    }
}

#[tokio::test]
async fn only_one_process_acts_and_the_other_takes_over_when_it_stops() {
    let rig = Rig::new(scenario("wordcount").unwrap().spec).await;
    let (mut first, mut second) = (rig.actuator(), rig.actuator());
    assert!(first.step().await.unwrap().leads);
    let decision = rig.decision(Disposition::Act, &[1, 3, 5]).await;
    rig.publish(&decision).await;
    for _ in 0..30 {
        assert!(!second.step().await.unwrap().leads);
        assert!(first.step().await.unwrap().leads);
        rig.pass(100);
    }
    let stop = CancellationToken::new();
    stop.cancel();
    first.run(stop).await.unwrap();
    rig.pass(3_000);
    let outcomes = rig.until_outcomes(&mut second, 2).await;
    assert_eq!((words(&outcomes), rig.rescales()), (vec!["started".into(), "verified".into()], 1));
}

#[tokio::test]
async fn a_process_that_slept_through_its_lease_does_nothing_more() {
    let rig = Rig::new(scenario("wordcount").unwrap().spec).await;
    let (mut first, mut second) = (rig.actuator(), rig.actuator());
    assert!(first.step().await.unwrap().leads);
    rig.pass(20_000);
    assert!(second.step().await.unwrap().leads);
    let decision = rig.decision(Disposition::Act, &[1, 3, 5]).await;
    rig.publish(&decision).await;
    assert!(!first.step().await.unwrap().leads, "it finds out before it does anything");
    let outcomes = rig.until_outcomes(&mut second, 2).await;
    assert_eq!(words(&outcomes), ["started", "verified"]);
}
