//! The analyzer: owns the partitions that it has leases for.

use std::sync::Arc;

use metrics::gauge;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use weir_outbox::{Logs, Publisher};
use weir_runtime::{Backoff, Clock, telemetry};
use weir_schemas::control::PolicyBook;
use weir_store::Store;

use crate::AnalyzerError;
use crate::control;
use crate::partition::{Partition, shard_name};

/// Whose outbox rows these are, and whose records.
pub(crate) const OWNER: &str = "analyzer";
/// How long a partition is held without being heard of, in milliseconds: a take-over is done within 15 s of a kill.
const LEASE_MS: i64 = 9_000;
/// Leases are renewed this often, in milliseconds.
const RENEW_MS: i64 = 3_000;

/// The analyzer's section of the configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Longest time between commits of state while nothing is to be told, in milliseconds.
    pub commit_every_ms: i64,
    /// How long to wait before looking again when nothing has come, in milliseconds.
    pub poll_ms: i64,
    /// Records that are read from a partition at once.
    pub batch_records: usize,
}

impl Options {
    /// Everything that is wrong with the options, one sentence each; empty when they are sound.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, value) in [("commit_every_ms", self.commit_every_ms), ("poll_ms", self.poll_ms)] {
            if value < 1 {
                found.push(format!("{name} = {value} must be at least 1"));
            }
        }
        if self.batch_records == 0 {
            found.push("batch_records = 0 must be at least 1".into());
        }
        found
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { commit_every_ms: 5_000, poll_ms: 100, batch_records: 256 }
    }
}

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepReport {
    /// Records that were folded.
    pub records: u64,
    /// Rows that were published.
    pub published: u64,
}

/// Reads the metrics stream, decides, commits, publishes.
pub struct Analyzer {
    options: Options,
    store: Store,
    logs: Logs,
    clock: Arc<dyn Clock>,
    book: PolicyBook,
    owner: String,
    partitions: Vec<Partition>,
    publisher: Publisher,
    renewed_ms: i64,
    /// The revision of what people said that was handed on last.
    heard: Option<u64>,
    /// Jobs that were known then.
    jobs: usize,
    control_sequence: u64,
}

impl Analyzer {
    /// An analyzer that owns nothing yet. `owner` names this process and no other, also none after a restart.
    #[must_use]
    pub fn new(
        options: Options,
        store: Store,
        logs: Logs,
        clock: Arc<dyn Clock>,
        book: PolicyBook,
        owner: String,
    ) -> Self {
        let publisher = Publisher::new(store.clone(), OWNER, logs.clone());
        let control_sequence = u64::try_from(clock.now_ms()).unwrap_or(0) << 10;
        Self {
            options,
            store,
            logs,
            clock,
            book,
            owner,
            partitions: Vec::new(),
            publisher,
            renewed_ms: i64::MIN,
            heard: None,
            jobs: 0,
            control_sequence,
        }
    }

    /// Goes on until it is told to stop; then it commits once more. A pass that fails is tried again, later and later.
    ///
    /// # Errors
    /// Only what trying again cannot mend: committed state that cannot be read.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), AnalyzerError> {
        let mut backoff = Backoff::new(200, 10_000);
        while !stop.is_cancelled() {
            let pause_ms = match self.step().await {
                Ok(report) => {
                    backoff.succeeded();
                    if report == StepReport::default() { self.options.poll_ms } else { 1 }
                }
                Err(hopeless @ (AnalyzerError::State { .. } | AnalyzerError::NewerState { .. })) => {
                    return Err(hopeless);
                }
                Err(why) => {
                    if why.is_fenced() {
                        self.partitions.clear();
                    }
                    let pause_ms = backoff.failed();
                    warn!(code = why.code(), %why, pause_ms, "a pass of the analyzer failed; trying again");
                    pause_ms
                }
            };
            let clock = Arc::clone(&self.clock);
            stop.run_until_cancelled(clock.sleep_ms(pause_ms)).await;
        }
        self.finish().await
    }

    /// Commits what is not committed, publishes it, and gives the leases back.
    async fn finish(&mut self) -> Result<(), AnalyzerError> {
        let now_ms = self.clock.now_ms();
        for partition in &mut self.partitions {
            partition.commit_if_due(&self.logs, now_ms, 0).await?;
        }
        self.publisher.publish(now_ms).await?;
        for partition in self.partitions.drain(..) {
            self.store.release_lease(&partition.lease).await?;
        }
        Ok(())
    }

    /// One pass over all partitions.
    ///
    /// # Errors
    /// What failed first. The next pass goes on from there; nothing is lost.
    pub async fn step(&mut self) -> Result<StepReport, AnalyzerError> {
        self.hold_partitions().await?;
        let mut report = StepReport::default();
        for partition in &mut self.partitions {
            report.records += partition.read(&self.logs, self.options.batch_records).await?;
        }
        self.hear_people().await?;
        let mut committed = false;
        for partition in &mut self.partitions {
            let now_ms = self.clock.now_ms();
            committed |= partition.commit_if_due(&self.logs, now_ms, self.options.commit_every_ms).await?;
        }
        if committed || report.records == 0 {
            report.published = self.publisher.publish(self.clock.now_ms()).await?;
        }
        Ok(report)
    }

    /// Takes partitions that are free, and renews the leases of those that it has.
    async fn hold_partitions(&mut self) -> Result<(), AnalyzerError> {
        let now_ms = self.clock.now_ms();
        if now_ms - RENEW_MS < self.renewed_ms {
            return Ok(());
        }
        let mut kept = Vec::new();
        for mut partition in self.partitions.drain(..) {
            match self.store.renew_lease(&partition.lease, LEASE_MS).await? {
                Some(lease) => {
                    partition.lease = lease;
                    kept.push(partition);
                }
                None => {
                    warn!(partition = partition.number, "the lease of a partition was lost; its state is read again")
                }
            }
        }
        self.partitions = kept;
        for number in 0..self.logs.metrics.info().partitions {
            if self.partitions.iter().any(|partition| partition.number == number) {
                continue;
            }
            if let Some(lease) = self.store.acquire_lease(&shard_name(number), &self.owner, LEASE_MS).await? {
                let partition = Partition::take(&self.store, &self.logs, number, lease, now_ms).await?;
                info!(
                    partition = number,
                    epoch = partition.lease.epoch,
                    jobs = partition.shard.jobs.len(),
                    "took a partition"
                );
                self.partitions.push(partition);
                self.heard = None;
            }
        }
        self.renewed_ms = now_ms;
        Ok(())
    }

    /// Hands on what people have said, as records on the partitions of the jobs that it is about.
    async fn hear_people(&mut self) -> Result<(), AnalyzerError> {
        let revision = self.store.control_revision().await?;
        let jobs = self.partitions.iter().map(|partition| partition.shard.jobs.len()).sum();
        if self.heard == Some(revision) && self.jobs == jobs {
            return Ok(());
        }
        let said = self.store.controls().await?;
        let now_ms = self.clock.now_ms();
        for partition in &mut self.partitions {
            for (job, control) in control::news(&partition.shard, &self.book, &said) {
                self.control_sequence += 1;
                let producer = format!("control/{}", self.owner);
                let record = control::record(&producer, self.control_sequence, now_ms, &job, &control)?;
                partition.writer.append(&record, now_ms).await?;
            }
        }
        gauge!(telemetry::FROZEN).set(if said.frozen { 1.0 } else { 0.0 });
        self.heard = Some(said.revision);
        self.jobs = jobs;
        Ok(())
    }
}
