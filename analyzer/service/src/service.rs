//! The analyzer: owns the partitions that it has leases for.

use std::collections::BTreeMap;
use std::sync::Arc;

use metrics::gauge;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use weir_outbox::Logs;
use weir_placement::{Holder, Item, Member};
use weir_runtime::{Backoff, Clock, Pulse, seed_of, telemetry};
use weir_schemas::control::PolicyBook;
use weir_store::{Lease, Store};
use weir_streams::partition_of;

use crate::AnalyzerError;
use crate::control;
use crate::partition::{Partition, shard_name};

/// Records about what people said that a lease has numbers for: 2 to the power of this. Epochs are milliseconds since 1970.
const CONTROL_BITS: u32 = 20;

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

/// What the analyzer is put together from.
pub struct Parts {
    /// The control database.
    pub store: Store,
    /// The logs.
    pub logs: Logs,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Policies and modes of the configuration.
    pub book: PolicyBook,
    /// Names this process and no other, also none after a restart.
    pub owner: String,
    /// Tags that this instance carries.
    pub tags: Vec<String>,
    /// Where it says how it is.
    pub pulse: Pulse,
}

/// What failed in a pass: the first failure, but that logs have to be opened again counts more.
#[derive(Default)]
struct Failed(Option<AnalyzerError>);

impl Failed {
    fn note<T>(&mut self, done: Result<T, AnalyzerError>) -> Option<T> {
        match done {
            Ok(done) => Some(done),
            Err(why) => {
                if self.0.is_none() || why.needs_reopening() {
                    self.0 = Some(why);
                }
                None
            }
        }
    }
}

/// Reads the metrics stream, decides, commits, publishes.
pub struct Analyzer {
    options: Options,
    store: Store,
    logs: Logs,
    clock: Arc<dyn Clock>,
    book: PolicyBook,
    owner: String,
    pulse: Pulse,
    holder: Holder,
    partitions: Vec<Partition>,
    /// The revision of what people said that was handed on last.
    heard: Option<u64>,
    /// Jobs that were known then.
    jobs: usize,
    /// The last number of a record about what people said, by lease and epoch: it goes on when a partition is taken again.
    control_sequences: BTreeMap<(String, u64), u64>,
}

impl Analyzer {
    /// An analyzer that owns nothing yet.
    #[must_use]
    pub fn new(options: Options, parts: Parts) -> Self {
        let Parts { store, logs, clock, book, owner, tags, pulse } = parts;
        let holder = Holder::new(store.clone(), Member { role: "analyzer", id: owner.clone(), tags });
        let partitions = Vec::new();
        Self {
            options,
            store,
            logs,
            clock,
            book,
            owner,
            pulse,
            holder,
            partitions,
            heard: None,
            jobs: 0,
            control_sequences: BTreeMap::new(),
        }
    }

    /// Goes on until it is told to stop; then it commits once more. A pass that fails is tried again, later and later.
    ///
    /// # Errors
    /// Only what trying again cannot mend: committed state that cannot be read, a log that has to be opened again.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), AnalyzerError> {
        // A pause and a call that ends by its time-out fit into a lease.
        let mut backoff = Backoff::new(200, 1_000, seed_of(&self.owner));
        while !stop.is_cancelled() {
            let pause_ms = match self.step().await {
                Ok(report) => {
                    backoff.succeeded();
                    self.pulse.well();
                    if report == StepReport::default() { self.options.poll_ms } else { 1 }
                }
                Err(hopeless @ (AnalyzerError::State { .. } | AnalyzerError::NewerState { .. })) => {
                    return Err(hopeless);
                }
                Err(why) if why.needs_reopening() => return Err(why),
                Err(why) => {
                    if why.is_fenced() {
                        self.holder.hurry();
                    }
                    self.pulse.failed(&why);
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
        for partition in std::mem::take(&mut self.partitions) {
            self.put_in_order(partition).await?;
        }
        Ok(self.holder.leave().await?)
    }

    /// Commits and publishes what a partition has left.
    async fn put_in_order(&mut self, mut partition: Partition) -> Result<(), AnalyzerError> {
        let now_ms = self.clock.now_ms();
        partition.commit_if_due(&self.logs, now_ms, 0).await?;
        partition.publisher.publish(self.clock.as_ref(), self.holder.trusted_until_ms()).await?;
        Ok(())
    }

    /// One pass over all partitions. One that fails does not keep the others from going on.
    ///
    /// # Errors
    /// What failed first. The next pass goes on from there; nothing is lost.
    pub async fn step(&mut self) -> Result<StepReport, AnalyzerError> {
        self.hold_partitions().await?;
        let (mut report, mut failed) = (StepReport::default(), Failed::default());
        for partition in &mut self.partitions {
            let read = partition.read(&self.logs, self.options.batch_records).await;
            report.records += failed.note(read).unwrap_or(0);
            partition.show_age(self.clock.now_ms());
            if std::mem::take(&mut partition.had_gap) {
                self.heard = None;
            }
        }
        let heard = self.hear_people().await;
        failed.note(heard);
        let until_ms = self.holder.trusted_until_ms();
        let clock = Arc::clone(&self.clock);
        for partition in self.partitions.iter_mut().filter(|partition| !partition.broken) {
            let every_ms = self.options.commit_every_ms;
            let committed = failed.note(partition.commit_if_due(&self.logs, clock.now_ms(), every_ms).await);
            if committed == Some(true) || (committed.is_some() && report.records == 0) {
                let published = partition.publisher.publish(clock.as_ref(), until_ms).await;
                report.published += failed.note(published.map_err(AnalyzerError::from)).unwrap_or(0);
            }
        }
        if self.partitions.iter().any(|partition| partition.broken) {
            self.partitions.retain(|partition| !partition.broken);
            self.holder.hurry();
        }
        failed.0.map_or(Ok(report), Err)
    }

    /// Renews the leases where that is due, takes the partitions that are this instance's, and gives up those that are not.
    async fn hold_partitions(&mut self) -> Result<(), AnalyzerError> {
        let now_ms = self.clock.monotonic_ms();
        if !self.holder.is_due(now_ms) {
            return Ok(());
        }
        let items = self.items().await?;
        self.holder.turn(&items, now_ms).await?;
        self.let_go_of_what_was_lost();
        for name in self.holder.surplus() {
            let index = self.partitions.iter().position(|it| it.lease.name == name);
            if let Some(index) = index {
                let partition = self.partitions.swap_remove(index);
                self.put_in_order(partition).await?;
            }
            self.holder.release(&name).await?;
        }
        for lease in self.gained() {
            self.take(lease).await?;
        }
        Ok(())
    }

    /// A lease of another epoch was lost meanwhile: what was read under the old one is read again.
    fn let_go_of_what_was_lost(&mut self) {
        let holder = &self.holder;
        self.partitions.retain(|it| holder.of(&it.lease.name).is_some_and(|lease| lease.epoch == it.lease.epoch));
    }

    /// Leases of partitions that are not open yet.
    fn gained(&self) -> Vec<Lease> {
        let missing = |lease: &&Lease| !self.partitions.iter().any(|it| it.lease.name == lease.name);
        self.holder.held().filter(missing).cloned().collect()
    }

    async fn take(&mut self, lease: Lease) -> Result<(), AnalyzerError> {
        let numbers = 0..self.logs.metrics.info().partitions;
        let Some(number) = numbers.into_iter().find(|number| shard_name(*number) == lease.name) else { return Ok(()) };
        let now_ms = self.clock.now_ms();
        let partition = Partition::take(&self.store, &self.logs, number, lease, now_ms).await?;
        let (epoch, jobs) = (partition.lease.epoch, partition.shard.jobs.len());
        info!(partition = number, epoch, jobs, owner = self.owner, "took a partition");
        self.partitions.push(partition);
        self.partitions.sort_by_key(|partition| partition.number);
        self.heard = None;
        Ok(())
    }

    /// The partitions, each asking for the tags that any of its jobs asks for.
    async fn items(&mut self) -> Result<Vec<Item>, AnalyzerError> {
        let partitions = self.logs.metrics.info().partitions;
        let mut items: Vec<Item> = (0..partitions).map(|number| Item::plain(shard_name(number))).collect();
        if self.book.asks_for_tags() {
            for row in self.store.jobs().await? {
                let number = partition_of(&row.job.to_string(), partitions);
                if let Some(item) = usize::try_from(number).ok().and_then(|index| items.get_mut(index)) {
                    item.wants.extend(self.book.entry(&row.job).tags.iter().cloned());
                }
            }
        }
        Ok(items)
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
                let (name, epoch) = (partition.lease.name.clone(), partition.lease.epoch);
                let producer = format!("control/{name}");
                // Epochs rise with every change of hands, on whichever machine: no clock has to.
                let last = self.control_sequences.entry((name, epoch)).or_insert(epoch << CONTROL_BITS);
                *last += 1;
                let record = control::record(&producer, *last, now_ms, &job, &control)?;
                partition.append(&self.logs, &record, now_ms).await?;
            }
        }
        gauge!(telemetry::FROZEN).set(if said.frozen { 1.0 } else { 0.0 });
        self.heard = Some(said.revision);
        self.jobs = jobs;
        Ok(())
    }
}
