//! Analyzers that share the partitions of one log, in time that moves when it is told to.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its input should stop there")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use weir_analyzer::{Analyzer, AnalyzerError, Options, Parts};
use weir_outbox::Logs;
use weir_runtime::{Clock, Health};
use weir_schemas::control::{PolicyBook, PolicyEntry};
use weir_schemas::identity::{JobKey, RunId};
use weir_schemas::records::record::Body;
use weir_schemas::records::{Record, Silence};
use weir_schemas::wire;
use weir_store::Store;
use weir_streams::{Log, MemoryLog, MemoryOptions, Position, partition_of};

const PARTITIONS: u32 = 4;

struct Stopped(AtomicI64);

impl Clock for Stopped {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn monotonic_ms(&self) -> i64 {
        self.now_ms()
    }

    fn sleep_ms(&self, _duration_ms: i64) -> weir_store::BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

struct World {
    store: Store,
    logs: Logs,
    clock: Arc<Stopped>,
    book: PolicyBook,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(Stopped(AtomicI64::new(1_000_000)));
        let told = Arc::clone(&clock);
        let store = Store::open(&folder.path().join(Store::FILE)).await.unwrap();
        let store = store.with_lease_clock(Arc::new(move || told.now_ms()));
        let log = || {
            let options = MemoryOptions { partitions: PARTITIONS, ..MemoryOptions::default() };
            Arc::new(MemoryLog::new(options)) as Arc<dyn Log>
        };
        Self {
            store,
            logs: Logs { metrics: log(), events: log() },
            clock,
            book: PolicyBook::default(),
            _folder: folder,
        }
    }

    fn analyzer(&self, name: &str, tags: &[&str]) -> Analyzer {
        let parts = Parts {
            store: self.store.clone(),
            logs: self.logs.clone(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            book: self.book.clone(),
            owner: name.into(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            pulse: Health::unwatched().service("the analyzer"),
        };
        Analyzer::new(Options::default(), parts)
    }

    fn pass(&self, ms: i64) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
    }

    /// Owners of the partitions whose leases have not expired.
    async fn owners(&self) -> Vec<String> {
        let (leases, now_ms) = (self.store.leases().await.unwrap(), self.clock.now_ms());
        leases.into_iter().filter(|lease| lease.expires_ms > now_ms).map(|lease| lease.owner).collect()
    }

    /// A record for a job of partition 0.
    async fn append(&self, sequence: u64) {
        let job = (0..).map(|number| format!("c/default/job-{number}"));
        let job = job.into_iter().find(|job| partition_of(job, PARTITIONS) == 0).unwrap();
        let record = Record {
            producer: "ingest/c".into(),
            sequence,
            time_ms: self.clock.now_ms(),
            job,
            body: Some(Body::Silence(Silence { reason: "gone".into(), ..Silence::default() })),
        };
        let mut writer = self.logs.metrics.writer(0, "ingest/c").await.unwrap();
        writer.append(&wire::encode(&record).unwrap(), self.clock.now_ms()).await.unwrap();
    }

    /// How many records the committed state of partition 0 has taken in.
    async fn applied(&self) -> u64 {
        let checkpoint = self.store.load_checkpoint("metrics-00").await.unwrap();
        let shard = checkpoint.map(|it| weir_engine::Shard::from_bytes(&it.state).unwrap()).unwrap_or_default();
        shard.applied().get("ingest/c").map_or(0, |tally| tally.records)
    }
}

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
