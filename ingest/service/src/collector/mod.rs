//! The collector of one cluster.

mod jobs;
mod reading;

use std::collections::BTreeMap;
use std::sync::Arc;

use metrics::{Gauge, counter, gauge};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::debug;
use weir_flink::{FlinkClient, FlinkError};
use weir_runtime::{Backoff, Clock, seed_of, telemetry, within};
use weir_schemas::identity::RunId;
use weir_schemas::records::record::Body;
use weir_schemas::records::{Record, Silence};

use crate::calls::{Calls, silence_reason};
use crate::cluster::{Facts, read_facts};
use crate::once::Once;
use crate::options::{ClusterSpec, Options};
use crate::report::RoundReport;
use crate::sink::{Drain, Outbox, RecordSink};
use crate::watched::Watched;

/// Who writes the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Producer {
    /// Unique for each writer of records. It may outlive restarts, if sequences go on above all that were ever used.
    pub name: String,
    /// Sequence of the next record; above all that were ever used.
    pub next_sequence: u64,
    /// Names this process among its restarts: its monotonic times can be compared with each other alone.
    pub session: String,
}

impl Producer {
    /// The seed of its pauses after failures of something.
    fn seed(&self, of: &str) -> u64 {
        seed_of(&format!("{}/{}/{of}", self.session, self.name))
    }
}

/// Watches one cluster: finds its jobs, samples them, writes what it read.
pub struct Collector {
    spec: ClusterSpec,
    options: Options,
    clock: Arc<dyn Clock>,
    outbox: Outbox,
    producer: Producer,
    permits: Arc<Semaphore>,
    facts: Facts,
    /// When the facts were read, by the monotonic clock; nothing: they must be read again.
    facts_at_ms: Option<i64>,
    jobs: BTreeMap<RunId, Watched>,
    jobs_running: u32,
    round: u64,
    /// Rounds are at least one tick apart; jobs are due at ticks, so that all that are due share a round.
    tick: u64,
    /// Whether any fetch was asked for yet.
    fetched_before: bool,
    /// How long the last reading took, in milliseconds.
    took_ms: i64,
    /// Whose turn it is among the TaskManagers.
    turn: usize,
    backoff: Backoff,
    once: Once,
    sink_once: Once,
}

/// Without any job, a cluster is looked at this often, in milliseconds.
const IDLE_MS: i64 = 2_000;
/// Jobs are looked for at least at every second tick.
const LOOK_TICKS: u64 = 2;
/// Shortest time between two rounds that is chosen without being asked for, in milliseconds.
const QUICKEST_MS: i64 = 1_000;
/// Reading takes at most one part in so many of the time; a JobManager that is slower than that is read less often.
const BREATH: i64 = 4;

impl Collector {
    /// A collector that has not looked at anything yet.
    #[must_use]
    pub fn new(
        spec: ClusterSpec,
        options: Options,
        clock: Arc<dyn Clock>,
        sink: Box<dyn RecordSink>,
        producer: Producer,
    ) -> Self {
        Self {
            outbox: Outbox::new(&spec.name, sink, options.spill_bytes, producer.seed("log")),
            permits: Arc::new(Semaphore::new(options.concurrency.max(1))),
            backoff: Backoff::new(2 * QUICKEST_MS, options.longest_pause_ms, producer.seed("cluster")),
            spec,
            options,
            clock,
            producer,
            facts: Facts { refresh_ms: 10_000, ..Facts::default() },
            facts_at_ms: None,
            jobs: BTreeMap::new(),
            jobs_running: 0,
            round: 0,
            tick: 0,
            fetched_before: false,
            took_ms: 0,
            turn: 0,
            once: Once::default(),
            sink_once: Once::default(),
        }
    }

    /// Hands its records over in the background from now on, so that a log that stalls does not keep it from collecting. `None` if
    /// it does already. Whoever gets the result has to run it.
    pub fn in_background(&mut self) -> Option<Drain> {
        self.outbox.in_background()
    }

    /// Round after round until `stop` is cancelled, which takes effect at once, whatever is waited for.
    pub async fn run(mut self, stop: CancellationToken) {
        // Clusters that are watched by one process do not call in step.
        let jitter_ms = i64::from(weir_streams::partition_of(&self.spec.name, 250));
        stop.run_until_cancelled(async {
            self.clock.sleep_ms(jitter_ms).await;
            loop {
                let began_ms = self.clock.monotonic_ms();
                let report = self.round().await;
                debug!(cluster = self.spec.name, ?report, "round");
                self.clock.sleep_ms(began_ms + report.next_ms - self.clock.monotonic_ms()).await;
            }
        })
        .await;
        if let Err(why) = self.outbox.flush().await {
            self.sink_once.failed(&self.spec.name, "last", &format!("the last records were not written: {why}"));
        }
    }

    /// One round: looks for jobs, reads those that are due, writes what came of it.
    pub async fn round(&mut self) -> RoundReport {
        self.round += 1;
        let mut report = RoundReport { round: self.round, ..RoundReport::default() };
        counter!(telemetry::ROUNDS, "cluster" => self.spec.name.clone()).increment(1);
        match self.look_and_read(&mut report).await {
            Ok(()) => {
                self.once.succeeded(&self.spec.name);
                self.plan_next(&mut report);
            }
            Err(error) => self.cluster_failed(&error, &mut report),
        }
        self.flush(&mut report).await;
        report.watched = self.jobs.len();
        report.dropped = self.outbox.dropped();
        self.shown_jobs().set(weir_schemas::num::float_len(report.watched));
        report
    }

    fn shown_jobs(&self) -> Gauge {
        gauge!(telemetry::JOBS, "cluster" => self.spec.name.clone())
    }

    async fn look_and_read(&mut self, report: &mut RoundReport) -> Result<(), FlinkError> {
        let (api, name, permits) = (Arc::clone(&self.spec.api), self.spec.name.clone(), Arc::clone(&self.permits));
        let calls = Calls::new(FlinkClient::new(api.as_ref()), &name, &permits);
        let done = self.look(&calls, report).await;
        let done = match done {
            Ok(()) => self.read_due(&calls, report).await,
            failed => failed,
        };
        report.cluster_calls = calls.made();
        done
    }

    /// Reads the facts if they are due, then the list of jobs.
    async fn look(&mut self, calls: &Calls<'_>, report: &mut RoundReport) -> Result<(), FlinkError> {
        let now_ms = self.clock.monotonic_ms();
        if self.facts_at_ms.is_none_or(|at| now_ms - at >= self.options.facts_every_ms) {
            let (facts, problem) = self.in_time("/config", read_facts(calls)).await?;
            if let Some(problem) = problem {
                let what = format!("the JobManager's configuration cannot be read, defaults are assumed: {problem}");
                Once::default().failed(&self.spec.name, problem.code(), &what);
            }
            self.facts = facts;
            self.facts_at_ms = Some(now_ms);
        }
        let jobs = self.in_time("/jobs/overview", calls.ask(calls.client.jobs())).await?;
        self.settle(jobs, report);
        Ok(())
    }

    /// Cuts a call about the cluster off at its deadline.
    async fn in_time<T>(
        &mut self,
        path: &str,
        call: impl Future<Output = Result<T, FlinkError>>,
    ) -> Result<T, FlinkError> {
        let deadline_ms = self.options.call_deadline_ms;
        within(self.clock.as_ref(), deadline_ms, call).await.unwrap_or_else(|_| {
            Err(FlinkError::Call { path: path.into(), source: weir_flink::CallError::Timeout(deadline_ms) })
        })
    }

    /// The cluster cannot be read: all of its jobs are silent, and it is left alone for a while.
    fn cluster_failed(&mut self, error: &FlinkError, report: &mut RoundReport) {
        // Whoever answers next may be another JobManager.
        self.facts_at_ms = None;
        report.failure = Some(error.to_string());
        report.next_ms = self.backoff.failed().max(self.quick_ms());
        self.once.failed(&self.spec.name, error.code(), &format!("the cluster cannot be read: {error}"));
        let silent: Vec<String> = self.jobs.values().map(|job| job.key.clone()).collect();
        for job in silent {
            // A cluster that is not there says nothing of whether its jobs are.
            let reason = if silence_reason(error) == "gone" { "unreachable" } else { silence_reason(error) };
            self.silence(&job, reason, error.to_string(), report.next_ms, report);
        }
        self.tick += 1;
        let tick = self.tick;
        for job in self.jobs.values_mut() {
            job.due_tick = tick;
            job.fell_silent();
        }
    }

    /// Chooses when the next round is: at the next tick at which a job is due, or when it is time to look for jobs.
    fn plan_next(&mut self, report: &mut RoundReport) {
        let quick_ms = self.quick_ms();
        let late = report.refused.iter().filter(|refusal| refusal.reason == "timeout").count();
        if late > 0 && late == report.due {
            report.next_ms = self.backoff.failed().max(quick_ms);
            self.tick += 1;
            return;
        }
        if report.read > 0 || self.jobs.is_empty() {
            self.backoff.succeeded();
        }
        let Some(due_tick) = self.jobs.values().map(|job| job.due_tick).min() else {
            report.next_ms = IDLE_MS;
            return;
        };
        let ticks = due_tick.saturating_sub(self.tick).clamp(1, LOOK_TICKS);
        self.tick += ticks;
        report.next_ms = quick_ms.saturating_mul(i64::try_from(ticks).unwrap_or(i64::MAX));
    }

    /// Time between two rounds of a job that changes. It is a little longer than a refresh: a round that comes within one would
    /// be answered with the metrics of the last round.
    fn quick_ms(&self) -> i64 {
        let refresh_ms = self.facts.refresh_ms;
        let apart_ms = refresh_ms.saturating_add((refresh_ms / 20).max(50));
        let wanted_ms = self.options.quick_ms.unwrap_or(QUICKEST_MS);
        wanted_ms.max(apart_ms).max(self.took_ms.saturating_mul(BREATH))
    }

    /// A length of time in ticks, at least one.
    fn ticks_of(&self, duration_ms: i64) -> u64 {
        let quick_ms = self.quick_ms().max(1);
        u64::try_from(duration_ms.saturating_add(quick_ms - 1) / quick_ms).unwrap_or(1).max(1)
    }

    fn silence(&mut self, job: &str, reason: &str, detail: String, period_ms: i64, report: &mut RoundReport) {
        let cluster = self.spec.name.clone();
        counter!(telemetry::SILENCES, "cluster" => cluster, "reason" => reason.to_owned()).increment(1);
        report.silences += 1;
        let period_ms = u32::try_from(period_ms.max(0)).unwrap_or(u32::MAX);
        let silence = Silence { round: self.round, reason: reason.to_owned(), detail, period_ms };
        self.push(job.to_owned(), Body::Silence(silence));
    }

    fn push(&mut self, job: String, body: Body) {
        let record = Record {
            producer: self.producer.name.clone(),
            sequence: self.producer.next_sequence,
            time_ms: self.clock.now_ms(),
            job,
            body: Some(body),
        };
        self.producer.next_sequence += 1;
        self.outbox.push(record);
    }

    async fn flush(&mut self, report: &mut RoundReport) {
        match self.outbox.flush().await {
            Ok(written) => {
                report.written += written;
                self.sink_once.succeeded(&self.spec.name);
            }
            Err(why) => {
                self.sink_once.failed(&self.spec.name, &why.why, &format!("records cannot be written: {why}"));
            }
        }
    }
}

impl Drop for Collector {
    /// Whoever has the cluster now shows its jobs: a sum over all processes counts each once.
    fn drop(&mut self) {
        self.shown_jobs().set(0.0);
    }
}
