//! Analyzers that share the partitions of one log.

use std::time::Duration;

use weir_analyzer::AnalyzerError;
use weir_schemas::control::PolicyEntry;
use weir_schemas::identity::{JobKey, RunId};
use weir_streams::{Position, partition_of};

use crate::world::{PARTITIONS, World};

#[tokio::test]
async fn partitions_are_shared_and_taken_over() {
    let world = World::new().await;
    let (mut a, mut b) = (world.analyzer("a", &[]), world.analyzer("b", &[]));
    a.step().await.unwrap();
    assert_eq!(world.owners().await, ["a"; 4]);
    b.step().await.unwrap();
    for _ in 0..2 {
        world.pass(3_000);
        a.step().await.unwrap();
        b.step().await.unwrap();
    }
    let owners = world.owners().await;
    assert_eq!(owners.iter().filter(|owner| *owner == "b").count(), 2, "{owners:?}");
    // a is gone; within 15 s all is b's.
    for _ in 0..4 {
        world.pass(3_000);
        b.step().await.unwrap();
    }
    assert_eq!(world.owners().await, ["b"; 4]);
}

#[tokio::test]
async fn an_analyzer_that_stalls_past_its_lease_neither_commits_nor_publishes() {
    let world = World::new().await;
    let (mut stalled, mut heir) = (world.analyzer("stalled", &[]), world.analyzer("heir", &[]));
    stalled.step().await.unwrap();
    world.append(1).await;
    // It has read the record, and not committed it yet.
    stalled.step().await.unwrap();
    assert_eq!(world.applied().await, 0);
    // Nine seconds of its own clock pass unnoticed: another takes over and does the work.
    world.pass(9_001);
    heir.step().await.unwrap();
    world.pass(5_000);
    heir.step().await.unwrap();
    assert_eq!(world.applied().await, 1);
    let committed = world.store.load_checkpoint("metrics-00").await.unwrap().unwrap();
    // It wakes up. What it believes to hold, it does not: it lets go of it, and commits nothing.
    world.append(2).await;
    let woken = stalled.step().await;
    assert!(woken.as_ref().is_ok_and(|report| report.records == 0 && report.published == 0), "{woken:?}");
    assert_eq!(world.store.load_checkpoint("metrics-00").await.unwrap().unwrap().positions, committed.positions);
}

#[tokio::test]
async fn a_commit_under_an_old_epoch_is_refused_even_before_the_lease_is_looked_at() {
    let world = World::new().await;
    let mut stalled = world.analyzer("stalled", &[]);
    stalled.step().await.unwrap();
    world.append(1).await;
    stalled.step().await.unwrap();
    // Its lease ends early, as if the clock of the database were ahead of its own; a new owner has claimed the shard.
    world.store.claim_shard("metrics-00", 99_000_000, 0).await.unwrap();
    world.pass(2_500);
    stalled.step().await.unwrap();
    world.pass(2_600);
    let refused = stalled.step().await.unwrap_err();
    assert!(refused.is_fenced() && matches!(refused, AnalyzerError::Store(_)), "{refused}");
    assert_eq!(world.applied().await, 0);
    let events =
        world.logs.events.reader(0, Position::from_raw(0)).await.unwrap().read(10, Duration::ZERO).await.unwrap();
    assert!(events.is_empty(), "nothing is published");
}

#[tokio::test]
async fn partitions_go_to_the_instances_with_the_tags_that_their_jobs_ask_for() {
    let mut world = World::new().await;
    let key = |number: u32| JobKey::new("c", &format!("gold-{number}"));
    let gold = (0..).map(key).find(|job| partition_of(&job.to_string(), PARTITIONS) == 2).unwrap();
    let tags = ["fast".to_owned()].into();
    world.book.entries = vec![PolicyEntry { jobs: "gold-*".into(), tags, ..PolicyEntry::default() }];
    world.store.seen_job(&gold, &RunId { id: "r".into(), start_ms: 1 }, 1).await.unwrap();
    let (mut plain, mut fast) = (world.analyzer("plain", &[]), world.analyzer("fast", &["fast"]));
    for _ in 0..3 {
        plain.step().await.unwrap();
        fast.step().await.unwrap();
        world.pass(3_000);
    }
    let leases = world.store.leases().await.unwrap();
    let owner = |name: &str| leases.iter().find(|lease| lease.name == name).unwrap().owner.clone();
    assert_eq!(owner("metrics-02"), "fast");
    assert!(leases.iter().any(|lease| lease.owner == "plain"), "the others are shared");
}
