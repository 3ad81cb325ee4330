//! What is around the analyzer fails, and only what depends on it stops.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Barrier, Notify};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use weir_analyzer::AnalyzerError;
use weir_engine::{STATE_FORMAT, Shard};
use weir_store::Commit;
use weir_streams::{LogError, Position};

use crate::stubborn::Stubborn;
use crate::world::{PARTITIONS, World};

/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(60);

impl World {
    /// Commits a state of a partition by hand.
    async fn commit(&self, partition: &str, epoch: u64, format: u32, state: Vec<u8>) {
        let positions = self.logs.metrics.info().stored(1, Position::from_raw(0));
        let positions = serde_json::to_string(&positions).unwrap();
        let commit = Commit {
            shard: partition.into(),
            epoch,
            format,
            state,
            decided_through: positions.clone(),
            positions,
            decisions: Vec::new(),
            outbox: vec![self.logs.event(partition, "c/default/job", b"{}".to_vec())],
            now_ms: 1,
        };
        self.store.claim_shard(partition, epoch, 1).await.unwrap();
        self.store.commit(&commit).await.unwrap();
    }

    /// How many records of the log of events there are.
    async fn events(&self) -> usize {
        let mut count = 0;
        for partition in 0..PARTITIONS {
            let mut reader = self.logs.events.reader(partition, Position::from_raw(0)).await.unwrap();
            count += reader.read(10, Duration::ZERO).await.unwrap().len();
        }
        count
    }
}

#[tokio::test]
async fn a_state_that_cannot_be_read_stops_its_own_partition_alone() {
    let world = World::new().await;
    world.commit("metrics-01", 1, STATE_FORMAT, b"{\"jobs\":".to_vec()).await;
    let mut analyzer = world.analyzer("a", &[]);
    world.append(1).await;
    analyzer.step().await.unwrap();
    world.pass(5_000);
    analyzer.step().await.unwrap();
    assert_eq!((world.applied().await, world.events().await), (1, 0));
    assert_eq!(world.owners().await, ["a"; 4], "nobody else could read it either");
    // It is mended, and seen some seconds later.
    let leases = world.store.leases().await.unwrap();
    let epoch = leases.iter().find(|lease| lease.name == "metrics-01").unwrap().epoch;
    world.commit("metrics-01", epoch, STATE_FORMAT, Shard::default().to_bytes().unwrap()).await;
    for _ in 0..3 {
        world.pass(3_000);
        analyzer.step().await.unwrap();
    }
    assert!(world.events().await > 0, "what waited in its outbox is out");
}

#[tokio::test]
async fn a_state_of_a_newer_version_ends_the_analyzer() {
    let world = World::new().await;
    world.commit("metrics-01", 1, STATE_FORMAT + 1, b"tomorrow".to_vec()).await;
    let ended = timeout(PATIENCE, world.analyzer("a", &[]).run(CancellationToken::new())).await.unwrap();
    assert!(matches!(ended, Err(AnalyzerError::NewerState { .. })), "{ended:?}");
}

/// One after the other they would never meet: a log that does not answer costs one time-out, and no lease.
#[tokio::test]
async fn partitions_wait_for_a_log_together() {
    let mut world = World::new().await;
    let meeting = Arc::new(Barrier::new(usize::try_from(PARTITIONS).unwrap()));
    let inner = Arc::clone(&world.logs.metrics);
    world.logs.metrics = Arc::new(Stubborn { inner, reads_meet: Some(meeting), appends_hang: None });
    let failed = timeout(PATIENCE, world.analyzer("a", &[]).step()).await.unwrap().unwrap_err();
    assert!(matches!(failed, AnalyzerError::Log(LogError::TimedOut { .. })), "{failed}");
}

#[tokio::test]
async fn a_log_that_takes_nothing_does_not_hold_the_stop_up() {
    let mut world = World::new().await;
    world.commit("metrics-01", 1, STATE_FORMAT, Shard::default().to_bytes().unwrap()).await;
    let (inner, begun) = (Arc::clone(&world.logs.events), Arc::new(Notify::new()));
    world.logs.events = Arc::new(Stubborn { inner, reads_meet: None, appends_hang: Some(Arc::clone(&begun)) });
    let stop = CancellationToken::new();
    let running = tokio::spawn(world.analyzer("a", &[]).run(stop.clone()));
    timeout(PATIENCE, begun.notified()).await.unwrap();
    stop.cancel();
    timeout(PATIENCE, running).await.unwrap().unwrap().unwrap();
    assert!(world.owners().await.is_empty(), "the leases are given back");
    assert_eq!(world.store.outbox("metrics-01", 10).await.unwrap().len(), 1, "and the next one publishes it");
}
