//! A simulated cluster in virtual time, with whatever one wants to go wrong, and a collector on it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use tokio::task::JoinHandle;
use weir_flink::{CallError, FlinkApi, Request, Response};
use weir_ingest::{ClusterSpec, Collector, Options, Producer, RecordSink, RoundReport, SinkError};
use weir_runtime::VirtualClock;
use weir_schemas::records::record::Body;
use weir_schemas::records::{MetricBatch, Record, Silence};
use weir_simulator::{Cluster, ClusterSpec as SimulatedCluster, JobSpec, scenario};

/// What happens to a call instead of an answer.
#[derive(Clone)]
pub enum Fault {
    Answer(u16, Vec<u8>),
    Hang,
    /// The answer comes this much later.
    Slow(i64),
    Unreachable,
}

type Spoil = Box<dyn FnMut(&str, &mut Cluster) -> Option<Fault> + Send>;

struct Inside {
    cluster: Cluster,
    spoil: Option<Spoil>,
    calls: VecDeque<(i64, String)>,
}

/// A simulated cluster.
#[derive(Clone)]
pub struct Sim {
    inside: Arc<Mutex<Inside>>,
    pub clock: VirtualClock,
}

impl Sim {
    pub fn new(spec: SimulatedCluster) -> Self {
        let clock = VirtualClock::new(1_000_000);
        let cluster = Cluster::new(spec, 1_000_000).unwrap();
        Self { inside: Arc::new(Mutex::new(Inside { cluster, spoil: None, calls: VecDeque::new() })), clock }
    }

    /// A cluster that refreshes each second, with these jobs.
    pub fn of_jobs(jobs: Vec<JobSpec>) -> Self {
        Self::new(SimulatedCluster { jobs, task_managers: 4, ..scenario::quick_cluster() })
    }

    /// A word count of its own name under constant load, sized right.
    pub fn job(name: &str) -> JobSpec {
        let mut job = scenario::wordcount_job(name, &[(0.0, 400.0)], 0.0);
        job.vertices[1].parallelism = 2;
        job.vertices[2].parallelism = 2;
        job
    }

    pub fn with<T>(&self, act: impl FnOnce(&mut Cluster) -> T) -> T {
        let mut inside = self.inside.lock().unwrap();
        inside.cluster.advance_to(self.clock.now_ms());
        act(&mut inside.cluster)
    }

    pub fn spoil(&self, spoil: impl FnMut(&str, &mut Cluster) -> Option<Fault> + Send + 'static) {
        self.inside.lock().unwrap().spoil = Some(Box::new(spoil));
    }

    pub fn heal(&self) {
        self.inside.lock().unwrap().spoil = None;
    }

    /// Paths of all calls since the last time, with their times.
    pub fn calls(&self) -> Vec<(i64, String)> {
        self.inside.lock().unwrap().calls.drain(..).collect()
    }

    fn answer(&self, request: &Request) -> Result<Response, Fault> {
        let now_ms = self.clock.now_ms();
        let mut inside = self.inside.lock().unwrap();
        let Inside { cluster, spoil, calls } = &mut *inside;
        calls.push_back((now_ms, request.path.clone()));
        cluster.advance_to(now_ms);
        if let Some(fault) = spoil.as_mut().and_then(|spoil| spoil(&request.path, cluster)) {
            return Err(fault);
        }
        Ok(ask(cluster, now_ms, request))
    }

    /// A collector on it, running until the handle is dropped.
    pub fn watch(&self) -> Watch {
        self.watch_with(Options::default(), |_| {})
    }

    pub fn watch_with(&self, options: Options, edit: impl FnOnce(&mut ClusterSpec)) -> Watch {
        let mut spec = ClusterSpec::new("prod", Arc::new(self.clone()));
        edit(&mut spec);
        let kept = Kept::default();
        let reports = Arc::new(Mutex::new(Vec::new()));
        let clock = self.clock.join();
        let producer = Producer { name: "ingest-1".into(), next_sequence: 7, session: "s1".into() };
        let mut collector = Collector::new(spec, options, Arc::clone(&clock), Box::new(kept.clone()), producer);
        let told = Arc::clone(&reports);
        let running = tokio::spawn(async move {
            loop {
                let began_ms = clock.monotonic_ms();
                let report = collector.round().await;
                let next_ms = report.next_ms;
                told.lock().unwrap().push(report);
                clock.sleep_ms(began_ms + next_ms - clock.monotonic_ms()).await;
            }
        });
        Watch { clock: self.clock.clone(), kept, reports, running }
    }
}

fn ask(cluster: &mut Cluster, now_ms: i64, request: &Request) -> Response {
    let asked = weir_simulator::Request::new(request.method.as_str(), &request.path)
        .with_body(request.body.clone().unwrap_or_default());
    let answer = cluster.handle(now_ms, &asked);
    Response { status: answer.status, body: answer.body.into_bytes() }
}

impl FlinkApi for Sim {
    fn call<'a>(&'a self, request: Request) -> BoxFuture<'a, Result<Response, CallError>> {
        Box::pin(async move {
            match self.answer(&request) {
                Ok(response) => Ok(response),
                Err(Fault::Answer(status, body)) => Ok(Response { status, body }),
                Err(Fault::Hang) => pending().await,
                Err(Fault::Unreachable) => Err(CallError::Unreachable("connection refused".into())),
                Err(Fault::Slow(ms)) => {
                    self.clock.join().sleep_ms(ms).await;
                    let mut inside = self.inside.lock().unwrap();
                    Ok(ask(&mut inside.cluster, self.clock.now_ms(), &request))
                }
            }
        })
    }
}

/// Keeps all records.
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Vec<Record>>>);

impl RecordSink for Kept {
    fn write<'a>(&'a mut self, records: &'a [Record]) -> BoxFuture<'a, Result<(), SinkError>> {
        self.0.lock().unwrap().extend_from_slice(records);
        Box::pin(async { Ok(()) })
    }
}

/// A running collector.
pub struct Watch {
    clock: VirtualClock,
    kept: Kept,
    reports: Arc<Mutex<Vec<RoundReport>>>,
    running: JoinHandle<()>,
}

impl Watch {
    /// Lets time pass and gives the reports of the rounds that it had.
    pub async fn pass(&self, ms: i64) -> Vec<RoundReport> {
        self.clock.run_until(self.clock.now_ms() + ms, None).await;
        assert!(!self.running.is_finished(), "the collector ended");
        std::mem::take(&mut *self.reports.lock().unwrap())
    }

    /// Ends the collector, as a task that is given up ends.
    pub async fn end(mut self) {
        self.running.abort();
        assert!((&mut self.running).await.unwrap_err().is_cancelled());
    }

    /// All records since the last time.
    pub fn records(&self) -> Vec<Record> {
        std::mem::take(&mut *self.kept.0.lock().unwrap())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// The batches among records, with their jobs.
pub fn batches(records: &[Record]) -> Vec<(&str, &MetricBatch)> {
    let batch = |record| match record {
        &Record { ref job, body: Some(Body::Metrics(ref batch)), .. } => Some((job.as_str(), batch)),
        _ => None,
    };
    records.iter().filter_map(batch).collect()
}

/// The silences among records, with their jobs.
pub fn silences(records: &[Record]) -> Vec<(&str, &Silence)> {
    let silence = |record| match record {
        &Record { ref job, body: Some(Body::Silence(ref silence)), .. } => Some((job.as_str(), silence)),
        _ => None,
    };
    records.iter().filter_map(silence).collect()
}

/// Number of batches of a job.
pub fn batches_of(records: &[Record], job: &str) -> usize {
    batches(records).iter().filter(|(key, _)| *key == job).count()
}
