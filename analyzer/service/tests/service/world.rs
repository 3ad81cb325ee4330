//! What the tests share: a store, logs in memory, and time that moves when it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use weir_analyzer::{Analyzer, Options, Parts};
use weir_outbox::Logs;
use weir_runtime::{Clock, Health};
use weir_schemas::control::PolicyBook;
use weir_schemas::records::record::Body;
use weir_schemas::records::{Record, Silence};
use weir_schemas::wire;
use weir_store::Store;
use weir_streams::{Log, MemoryLog, MemoryOptions, partition_of};

pub const PARTITIONS: u32 = 4;

pub struct Stopped(AtomicI64);

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

pub struct World {
    pub store: Store,
    pub logs: Logs,
    pub clock: Arc<Stopped>,
    pub book: PolicyBook,
    _folder: tempfile::TempDir,
}

impl World {
    pub async fn new() -> Self {
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

    pub fn analyzer(&self, name: &str, tags: &[&str]) -> Analyzer {
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

    pub fn pass(&self, ms: i64) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
    }

    /// Owners of the partitions whose leases have not expired.
    pub async fn owners(&self) -> Vec<String> {
        let (leases, now_ms) = (self.store.leases().await.unwrap(), self.clock.now_ms());
        leases.into_iter().filter(|lease| lease.expires_ms > now_ms).map(|lease| lease.owner).collect()
    }

    /// A record for a job of partition 0.
    pub async fn append(&self, sequence: u64) {
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
    pub async fn applied(&self) -> u64 {
        let checkpoint = self.store.load_checkpoint("metrics-00").await.unwrap();
        let shard = checkpoint.map(|it| weir_engine::Shard::from_bytes(&it.state).unwrap()).unwrap_or_default();
        shard.applied().get("ingest/c").map_or(0, |tally| tally.records)
    }
}
