//! The analyzer: owns the partitions that it has leases for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use metrics::gauge;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use weir_outbox::Logs;
use weir_placement::{Holder, Item, Member};
use weir_runtime::{Backoff, Clock, Pulse, seed_of, telemetry};
use weir_schemas::control::PolicyBook;
use weir_store::{Lease, Store};
use weir_streams::partition_of;

use crate::AnalyzerError;
use crate::control;
use crate::partition::{Partition, shard_name};
use crate::parts::{Options, Parts};

/// Records about what people said that a lease has numbers for: 2 to the power of this. Epochs are milliseconds since 1970.
const CONTROL_BITS: u32 = 20;
/// How long everything may take that is put in order at a stop.
const ORDER: Duration = Duration::from_secs(2);
/// After how long a partition is tried again whose state cannot be read, in milliseconds.
const TRY_AGAIN_MS: i64 = 10_000;

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepReport {
    /// Records that were folded.
    pub records: u64,
    /// Rows that were published.
    pub published: u64,
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
    /// Partitions whose state cannot be read, by lease: why, and when they are tried again by the monotonic clock.
    left_alone: BTreeMap<String, (AnalyzerError, i64)>,
    stop: CancellationToken,
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
            left_alone: BTreeMap::new(),
            stop: CancellationToken::new(),
            heard: None,
            jobs: 0,
            control_sequences: BTreeMap::new(),
        }
    }

    /// Goes on until it is told to stop; then it commits once more. A pass that fails is tried again, later and later.
    ///
    /// # Errors
    /// Only what trying again cannot mend: state of a newer version, a log that has to be opened again.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), AnalyzerError> {
        self.stop = stop.clone();
        // A pause fits into what a lease has left after the last renewal.
        let mut backoff = Backoff::new(200, 1_000, seed_of(&self.owner));
        while !stop.is_cancelled() {
            let pause_ms = match self.step().await {
                Ok(report) => {
                    backoff.succeeded();
                    match self.left_alone.values().next() {
                        Some((why, _)) => self.pulse.failed(why),
                        None => self.pulse.well(),
                    }
                    if report == StepReport::default() { self.options.poll_ms } else { 1 }
                }
                Err(hopeless @ AnalyzerError::NewerState { .. }) => return Err(hopeless),
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
        self.finish().await;
        Ok(())
    }

    /// Commits what is not committed, publishes it, and gives the leases back. What fails or takes too long is left to whoever
    /// has the leases next.
    async fn finish(&mut self) {
        let partitions = std::mem::take(&mut self.partitions);
        match tokio::time::timeout(ORDER, self.put_in_order(partitions)).await {
            Ok(done) => {
                for why in done.into_iter().filter_map(Result::err) {
                    warn!(code = why.code(), %why, "a partition was not put in order; the next analyzer goes on from its last commit");
                }
            }
            Err(_) => {
                warn!("the partitions were not put in order in time; the next analyzer goes on from what is committed")
            }
        }
        if let Err(why) = self.holder.leave().await {
            warn!(code = why.code(), %why, "the leases were not given back; they expire");
        }
    }

    /// Commits and publishes what partitions have left that are another's from here on.
    async fn put_in_order(&mut self, partitions: Vec<Partition>) -> Vec<Result<(), AnalyzerError>> {
        let (logs, clock, until_ms) = (&self.logs, self.clock.as_ref(), self.holder.trusted_until_ms());
        join_all(partitions.into_iter().map(|partition| partition.put_in_order(logs, clock, until_ms))).await
    }

    /// One pass over all partitions. One that fails does not keep the others from going on.
    ///
    /// # Errors
    /// What failed first. The next pass goes on from there; nothing is lost.
    pub async fn step(&mut self) -> Result<StepReport, AnalyzerError> {
        self.see_to_leases().await?;
        let (keeper, clock) = (self.holder.keeper(), Arc::clone(&self.clock));
        let stop = self.stop.clone();
        let passed = stop.run_until_cancelled(keeper.during(clock.as_ref(), self.pass())).await;
        self.release_surplus().await?;
        passed.unwrap_or_else(|| Ok(StepReport::default()))
    }

    /// Renews the leases where that is due, and takes those that are this instance's.
    async fn see_to_leases(&mut self) -> Result<(), AnalyzerError> {
        let now_ms = self.clock.monotonic_ms();
        if self.holder.is_due(now_ms) {
            let items = self.items().await?;
            self.holder.turn(&items, now_ms).await?;
            self.let_go_of_what_was_lost();
        }
        Ok(())
    }

    async fn pass(&mut self) -> Result<StepReport, AnalyzerError> {
        let (mut report, mut failed) = (StepReport::default(), Failed::default());
        self.hold_partitions(&mut failed).await;
        // All at once: a log that does not answer costs one time-out, and not one for each partition.
        let reads = self.partitions.iter_mut().map(|it| it.read(&self.logs, self.options.batch_records));
        for read in join_all(reads).await {
            report.records += failed.note(read).unwrap_or(0);
        }
        for partition in &mut self.partitions {
            partition.show_age(self.clock.now_ms());
            if std::mem::take(&mut partition.had_gap) {
                self.heard = None;
            }
        }
        let heard = self.hear_people().await;
        failed.note(heard);
        for published in self.hand_on(report.records == 0).await {
            report.published += failed.note(published).unwrap_or(0);
        }
        if self.partitions.iter().any(|partition| partition.broken) {
            self.partitions.retain(|partition| !partition.broken);
            self.holder.hurry();
        }
        failed.0.map_or(Ok(report), Err)
    }

    /// Commits what is due, and publishes what waits where something was committed, or nothing is to be read. All partitions at
    /// once, as they are read.
    async fn hand_on(&mut self, idle: bool) -> Vec<Result<u64, AnalyzerError>> {
        let (logs, clock, holder) = (&self.logs, self.clock.as_ref(), &self.holder);
        let every_ms = self.options.commit_every_ms;
        let sound = self.partitions.iter_mut().filter(|partition| !partition.broken);
        let each = sound.map(|partition| async move {
            let committed = partition.commit_if_due(logs, clock.now_ms(), every_ms).await?;
            if !committed && !idle {
                return Ok(0);
            }
            Ok(partition.publisher.publish(clock, holder.trusted_until_ms()).await?)
        });
        join_all(each).await
    }

    /// Puts in order what is to be another's, and opens the partitions of new leases.
    async fn hold_partitions(&mut self, failed: &mut Failed) {
        let surplus = self.holder.surplus();
        // As nearly always: all that is held is open, and stays.
        if surplus.is_empty() && self.holder.held().count() == self.partitions.len() {
            return;
        }
        let leaving = self.partitions.extract_if(.., |it| surplus.contains(&it.lease.name)).collect();
        for left in self.put_in_order(leaving).await {
            failed.note(left);
        }
        let (store, logs, now_ms) = (&self.store, &self.logs, self.clock.now_ms());
        let takes = self.gained().into_iter().map(|(number, lease)| async move {
            let name = lease.name.clone();
            (name, Partition::take(store, logs, number, lease, now_ms).await)
        });
        for (lease, taken) in join_all(takes.collect::<Vec<_>>()).await {
            match taken {
                Err(why @ AnalyzerError::State { .. }) => self.leave_alone(lease, why),
                taken => self.add(failed.note(taken)),
            }
        }
    }

    fn add(&mut self, taken: Option<Partition>) {
        let Some(partition) = taken else { return };
        let (number, epoch, jobs) = (partition.number, partition.lease.epoch, partition.shard.jobs.len());
        info!(partition = number, epoch, jobs, owner = self.owner, "took a partition");
        self.left_alone.remove(&partition.lease.name);
        self.partitions.push(partition);
        self.partitions.sort_by_key(|partition| partition.number);
        self.heard = None;
    }

    /// A state that cannot be read stops its own partition and nothing else. The lease is kept: another analyzer could not read
    /// it either.
    fn leave_alone(&mut self, lease: String, why: AnalyzerError) {
        error!(lease, code = why.code(), %why, "the partition is left alone");
        self.left_alone.insert(lease, (why, self.clock.monotonic_ms().saturating_add(TRY_AGAIN_MS)));
    }

    /// Gives up the leases of what is to be another's and is in order.
    async fn release_surplus(&mut self) -> Result<(), AnalyzerError> {
        for name in self.holder.surplus() {
            if !self.partitions.iter().any(|it| it.lease.name == name) {
                self.holder.release(&name).await?;
            }
        }
        Ok(())
    }

    /// A lease of another epoch was lost meanwhile: what was read under the old one is read again.
    fn let_go_of_what_was_lost(&mut self) {
        let holder = &self.holder;
        let is_held = |name: &str, epoch: u64| holder.of(name).is_some_and(|lease| lease.epoch == epoch);
        self.partitions.retain(|it| is_held(&it.lease.name, it.lease.epoch));
        self.control_sequences.retain(|(name, epoch), _| is_held(name, *epoch));
        self.left_alone.retain(|name, _| holder.of(name).is_some());
    }

    /// Partitions that are to be opened, with their leases.
    fn gained(&self) -> Vec<(u32, Lease)> {
        let (surplus, now_ms) = (self.holder.surplus(), self.clock.monotonic_ms());
        let is_due = |name: &String| self.left_alone.get(name).is_none_or(|(_, at_ms)| now_ms >= *at_ms);
        let is_open = |number: u32| self.partitions.iter().any(|it| it.number == number);
        let lease = |number| {
            let name = shard_name(number);
            let wanted = !surplus.contains(&name) && is_due(&name) && !is_open(number);
            let lease = self.holder.of(&name).filter(|_| wanted);
            lease.map(|lease| (number, lease.clone()))
        };
        (0..self.logs.metrics.info().partitions).filter_map(lease).collect()
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
        let mut failed = Ok(());
        for partition in self.partitions.iter_mut().filter(|partition| !partition.broken) {
            for (job, control) in control::news(&partition.shard, &self.book, &said) {
                let (name, epoch) = (partition.lease.name.clone(), partition.lease.epoch);
                let producer = format!("control/{name}");
                // Epochs rise with every change of hands, on whichever machine: no clock has to.
                let last = self.control_sequences.entry((name, epoch)).or_insert(epoch << CONTROL_BITS);
                *last += 1;
                let record = control::record(&producer, *last, now_ms, &job, &control)?;
                if let Err(why) = partition.append(&self.logs, &record, now_ms).await {
                    failed = failed.and(Err(why));
                    break;
                }
            }
        }
        gauge!(telemetry::FROZEN).set(if said.frozen { 1.0 } else { 0.0 });
        failed?;
        self.heard = Some(said.revision);
        self.jobs = jobs;
        Ok(())
    }
}
