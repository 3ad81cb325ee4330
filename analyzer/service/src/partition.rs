//! One partition: its state in memory, where it has been read to, and what waits for the next commit.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics::{Gauge, counter, gauge};
use tracing::{debug, error, warn};
use weir_engine::{Context, Folded, Judged, STATE_FORMAT, Shard};
use weir_outbox::{Logs, METRICS, Publisher, after_gap};
use weir_runtime::{Clock, telemetry};
use weir_schemas::decision::Verdict;
use weir_schemas::event::CloudEvent;
use weir_schemas::identity::{JobKey, RunId};
use weir_schemas::records::record::Body;
use weir_schemas::wire;
use weir_store::{Checkpoint, Commit, DecisionWrite, Lease, OutboxWrite, Store};
use weir_streams::{LogReader, LogWriter, Record, StoredPosition};

use crate::AnalyzerError;

/// One partition and the shard of jobs that it carries.
pub struct Partition {
    pub number: u32,
    pub lease: Lease,
    pub store: Store,
    pub shard: Shard,
    pub reader: Box<dyn LogReader>,
    writer: Option<Box<dyn LogWriter>>,
    pub publisher: Publisher,
    /// Memory is ahead of what was committed, or behind what was read: it has to be taken again.
    pub broken: bool,
    /// Something is missing in what was read: what people said may be, too.
    pub had_gap: bool,
    incarnation: String,
    pending: Pending,
    last_commit_ms: i64,
    /// Time of the newest record that was folded; nothing before the first.
    newest_ms: Option<i64>,
}

/// What waits for the next commit.
#[derive(Default)]
struct Pending {
    records: u64,
    decisions: Vec<DecisionWrite>,
    outbox: Vec<OutboxWrite>,
    seen: BTreeMap<JobKey, RunId>,
    urgent: bool,
}

/// The name under which a partition's state is kept, and its lease.
pub fn shard_name(partition: u32) -> String {
    format!("metrics-{partition:02}")
}

impl Partition {
    /// Takes a partition over: from here on commits of whoever had it before are refused.
    pub async fn take(
        store: &Store,
        logs: &Logs,
        number: u32,
        lease: Lease,
        now_ms: i64,
    ) -> Result<Self, AnalyzerError> {
        let name = shard_name(number);
        let committed = store.claim_shard(&name, lease.epoch, now_ms).await?;
        let (mut shard, position) = match committed {
            Some(checkpoint) => restore(&name, &checkpoint)?,
            None => (Shard::default(), None),
        };
        let info = logs.metrics.info();
        let from = match position.map(|stored| info.resume(&stored)) {
            Some(Ok(position)) => position,
            Some(Err(why)) => {
                shard.begin_with_another_log();
                error!(shard = name, code = why.code(), %why, "the log is not the one that the state was read from; reading it from its head");
                counter!(telemetry::LOG_GAPS, "log" => METRICS, "reason" => "other_incarnation").increment(1);
                logs.metrics.head(number).await?
            }
            None => logs.metrics.head(number).await?,
        };
        Ok(Self {
            number,
            store: store.clone(),
            shard,
            reader: logs.metrics.reader(number, from).await?,
            writer: None,
            publisher: Publisher::new(store.clone(), name, logs.clone()),
            broken: false,
            had_gap: false,
            incarnation: info.incarnation.to_string(),
            pending: Pending::default(),
            last_commit_ms: now_ms,
            newest_ms: None,
            lease,
        })
    }

    /// Reads and folds what has come, at most `at_most` records, and says how many there were.
    pub async fn read(&mut self, logs: &Logs, at_most: usize) -> Result<u64, AnalyzerError> {
        // If this fails or is dropped on the way, the reader is past records that would never be taken in.
        self.broken = true;
        let records = match self.reader.read(at_most, Duration::ZERO).await {
            Ok(records) => records,
            Err(failed) => {
                let gap = after_gap(logs.metrics.as_ref(), METRICS, self.number, failed).await;
                self.broken = false;
                self.reader.seek(gap?);
                self.had_gap = true;
                return Ok(0);
            }
        };
        let mut count = 0;
        for record in records {
            count += 1;
            self.take_in(logs, record).await?;
        }
        self.broken = false;
        self.pending.records += count;
        Ok(count)
    }

    /// Shows how old the state is, by the newest record in it.
    pub fn show_age(&self, now_ms: i64) {
        let Some(newest_ms) = self.newest_ms else { return };
        self.age().set(Duration::from_millis((now_ms - newest_ms).max(0).unsigned_abs()).as_secs_f64());
    }

    fn age(&self) -> Gauge {
        gauge!(telemetry::STATE_AGE, "partition" => self.number.to_string())
    }

    async fn take_in(&mut self, logs: &Logs, stored: Record) -> Result<(), AnalyzerError> {
        let position = stored.next.to_raw();
        let record = match wire::decode(&stored.payload) {
            Ok(record) => record,
            Err(why) => {
                warn!(partition = self.number, position, code = why.code(), %why, "a record was refused");
                counter!(telemetry::RECORDS_REFUSED, "reason" => "undecodable").increment(1);
                return Ok(());
            }
        };
        let context = Context {
            now_ms: record.time_ms,
            incarnation: self.incarnation.clone(),
            position,
            epoch: self.lease.epoch,
        };
        let may_have_plans = matches!(record.body, Some(Body::OutcomeJson(_)));
        if let Ok(job) = record.job.parse::<JobKey>()
            && (may_have_plans || !self.shard.jobs.contains_key(&job))
        {
            // Plan numbers never start again, not even when the state was lost; and people make plans too.
            let plans = self.store.max_plan_number(&job).await?;
            let state = self.shard.jobs.entry(job).or_default();
            state.plans = state.plans.max(plans);
        }
        counter!(telemetry::RECORDS_FOLDED).increment(1);
        self.newest_ms = self.newest_ms.max(Some(record.time_ms));
        match self.shard.fold(record) {
            Folded::Merged(_) => Ok(()),
            Folded::Judge(job) => self.judge(logs, &job, &context),
            Folded::Refused(refusal) => {
                debug!(partition = self.number, position, word = refusal.word, detail = refusal.detail, "refused");
                counter!(telemetry::RECORDS_REFUSED, "reason" => refusal.word).increment(1);
                Ok(())
            }
        }
    }

    fn judge(&mut self, logs: &Logs, job: &JobKey, context: &Context) -> Result<(), AnalyzerError> {
        let Some(state) = self.shard.jobs.get_mut(job) else { return Ok(()) };
        if let Some(run) = state.run() {
            self.pending.seen.insert(job.clone(), run.clone());
        }
        let Some(Judged { decision, changed }) = state.decide(job, context) else { return Ok(()) };
        let verdict = match decision.verdict {
            Verdict::Hold { .. } => "hold",
            Verdict::Rescale(_) => "rescale",
            Verdict::CannotHelp { .. } => "cannot_help",
        };
        counter!(telemetry::DECISIONS, "verdict" => verdict).increment(1);
        if changed {
            let encode = |why: serde_json::Error| AnalyzerError::Encode { what: "a decision", why: why.to_string() };
            let event = CloudEvent::of_decision(&decision).map_err(encode)?;
            let bytes = serde_json::to_vec(&event).map_err(encode)?;
            self.pending.outbox.push(logs.event(&self.lease.name, &job.to_string(), bytes));
            self.pending.urgent = true;
        } else if let Some(older) = self.pending.decisions.iter().position(|it| !it.changed && it.decision.job == *job)
        {
            // Only the latest of the decisions that say the same is kept.
            self.pending.decisions.remove(older);
        }
        self.pending.decisions.push(DecisionWrite { decision, changed });
        Ok(())
    }

    /// Appends a record to the partition that is read here.
    pub async fn append(&mut self, logs: &Logs, record: &[u8], now_ms: i64) -> Result<(), AnalyzerError> {
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => logs.metrics.writer(self.number, &self.lease.name).await?,
        };
        // One that has failed is not used again.
        writer.append(record, now_ms).await?;
        self.writer = Some(writer);
        Ok(())
    }

    /// Commits if something is to be told, or if it is time. True if it did.
    pub async fn commit_if_due(&mut self, logs: &Logs, now_ms: i64, every_ms: i64) -> Result<bool, AnalyzerError> {
        let due = self.pending.urgent || now_ms - self.last_commit_ms >= every_ms;
        if self.pending.records == 0 || !due {
            return Ok(false);
        }
        self.commit(logs, now_ms).await?;
        Ok(true)
    }

    /// Commits and publishes what is left, for whoever has the partition next.
    pub async fn put_in_order(mut self, logs: &Logs, clock: &dyn Clock, until_ms: i64) -> Result<(), AnalyzerError> {
        if !self.broken {
            self.commit_if_due(logs, clock.now_ms(), 0).await?;
        }
        self.publisher.publish(clock, until_ms).await?;
        Ok(())
    }

    /// Commits state, position, decisions and outbox in one transaction.
    pub async fn commit(&mut self, logs: &Logs, now_ms: i64) -> Result<(), AnalyzerError> {
        let encode = |why: serde_json::Error| AnalyzerError::Encode { what: "the state", why: why.to_string() };
        let position = logs.metrics.info().stored(self.number, self.reader.position());
        let position = serde_json::to_string(&position).map_err(encode)?;
        let pending = std::mem::take(&mut self.pending);
        let commit = Commit {
            shard: shard_name(self.number),
            epoch: self.lease.epoch,
            format: STATE_FORMAT,
            state: self.shard.to_bytes().map_err(encode)?,
            positions: position.clone(),
            decided_through: position,
            decisions: pending.decisions,
            outbox: pending.outbox,
            now_ms,
        };
        // Whether it was committed is not known after a failure; what the database holds is right in either case.
        self.broken = true;
        self.store.commit(&commit).await?;
        self.broken = false;
        self.store.seen_jobs(pending.seen.iter(), now_ms).await?;
        self.last_commit_ms = now_ms;
        Ok(())
    }
}

impl Drop for Partition {
    /// Whoever has the partition now shows how old its state is.
    fn drop(&mut self) {
        self.age().set(f64::NAN);
    }
}

/// The state and the position that were committed.
fn restore(shard: &str, checkpoint: &Checkpoint) -> Result<(Shard, Option<StoredPosition>), AnalyzerError> {
    let broken = |why: serde_json::Error| AnalyzerError::State { shard: shard.into(), why: why.to_string() };
    if checkpoint.format > STATE_FORMAT {
        let (found, known) = (checkpoint.format, STATE_FORMAT);
        return Err(AnalyzerError::NewerState { shard: shard.into(), found, known });
    }
    let state = Shard::from_bytes(&checkpoint.state).map_err(broken)?;
    let position = serde_json::from_str(&checkpoint.positions).map_err(broken)?;
    Ok((state, Some(position)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use weir_runtime::RealClock;
    use weir_schemas::records::{Record, Silence};
    use weir_streams::{Log, MemoryLog, MemoryOptions};

    use super::*;

    async fn append(logs: &Logs, sequence: u64, job: &str) {
        let silence = Silence { reason: "gone".into(), ..Silence::default() };
        let (producer, job, body) = ("ingest/c".into(), job.into(), Some(Body::Silence(silence)));
        let record = wire::encode(&Record { producer, sequence, time_ms: 1, job, body }).unwrap();
        logs.metrics.writer(0, "ingest/c").await.unwrap().append(&record, 1).await.unwrap();
    }

    /// What a stop does in the middle of a pass.
    #[tokio::test]
    async fn what_was_read_in_part_is_not_committed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join(Store::FILE)).await.unwrap();
        let log =
            || Arc::new(MemoryLog::new(MemoryOptions { partitions: 1, ..MemoryOptions::default() })) as Arc<dyn Log>;
        let logs = Logs { metrics: log(), events: log() };
        let lease = store.acquire_lease("metrics-00", "a", 9_000).await.unwrap().unwrap();
        let mut partition = Partition::take(&store, &logs, 0, lease, 1).await.unwrap();
        append(&logs, 1, "c/default/known").await;
        assert_eq!(partition.read(&logs, 10).await.unwrap(), 1);

        append(&logs, 2, "c/default/known").await;
        for sequence in 3..200 {
            append(&logs, sequence, &format!("c/default/unknown-{sequence}")).await;
        }
        // The database is asked for plans of each unknown job, and its answers, from another thread, are not waited for.
        assert!(partition.read(&logs, 1_000).now_or_never().is_none());
        partition.put_in_order(&logs, &RealClock::new(), i64::MAX).await.unwrap();
        assert!(store.load_checkpoint("metrics-00").await.unwrap().is_none(), "a position past what was not taken in");
    }
}
