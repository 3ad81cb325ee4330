//! The actuator over a simulated cluster, real SQLite and logs in memory, in virtual time.

#![allow(dead_code, reason = "every test file takes what it needs")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use tempfile::TempDir;
use weir_actuator::{Actuator, Options, Parts};
use weir_drivers::{Driver, FlinkRest, FlinkRestOptions};
use weir_flink::{CallError, FlinkApi, FlinkClient, Request, Response};
use weir_outbox::Logs;
use weir_runtime::{Clock, Health};
use weir_schemas::control::{Mode, PolicyBook, PolicyEntry};
use weir_schemas::decision::{Decision, Direction, Disposition, Parent, Plan, PlannedVertex, Verdict};
use weir_schemas::event::{CloudEvent, TYPE_OUTCOME};
use weir_schemas::identity::{JobKey, RunId};
use weir_schemas::outcome::Outcome;
use weir_schemas::policy::Policy;
use weir_schemas::records::record::Body;
use weir_schemas::report::Report;
use weir_schemas::wire;
use weir_simulator::{Cluster, ClusterSpec, FaultPlan, Outcome as Answer};
use weir_store::Store;
use weir_streams::{Log, MemoryLog, MemoryOptions, Position, partition_of};

/// Time that moves only when it is told to.
pub struct Stopped(AtomicI64);

impl Clock for Stopped {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn monotonic_ms(&self) -> i64 {
        self.now_ms()
    }

    fn sleep_ms(&self, _duration_ms: i64) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// Tells the time.
pub type Now = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A simulated cluster as drivers reach it.
pub struct InProcess {
    pub now: Mutex<Now>,
    pub cluster: Mutex<Cluster>,
    pub faults: Mutex<FaultPlan>,
    pub puts: AtomicU64,
}

impl FlinkApi for InProcess {
    fn call<'a>(&'a self, request: Request) -> BoxFuture<'a, Result<Response, CallError>> {
        let sent = weir_simulator::Request::new(request.method.as_str(), &request.path);
        let sent = sent.with_body(request.body.unwrap_or_default());
        if request.method.as_str() == "PUT" {
            self.puts.fetch_add(1, Ordering::SeqCst);
        }
        let now_ms = (self.now.lock().unwrap())();
        let answer = self.faults.lock().unwrap().handle(&mut self.cluster.lock().unwrap(), now_ms, &sent);
        Box::pin(std::future::ready(match answer {
            Answer::Answer { response, .. } => Ok(Response { status: response.status, body: response.body.into() }),
            Answer::Hang => Err(CallError::Timeout(1_000)),
            Answer::Dropped => Err(CallError::Unreachable("dropped".into())),
        }))
    }
}

/// Everything around an actuator.
pub struct Rig {
    pub store: Store,
    pub logs: Logs,
    pub clusters: BTreeMap<String, Arc<InProcess>>,
    clock: Arc<Stopped>,
    book: PolicyBook,
    owners: AtomicU64,
    numbers: AtomicU64,
    _folder: TempDir,
}

impl Rig {
    /// One cluster of the name `sim`, whose jobs are in mode auto.
    pub async fn new(spec: ClusterSpec) -> Self {
        Self::with([("sim", spec)]).await
    }

    pub async fn with(clusters: impl IntoIterator<Item = (&'static str, ClusterSpec)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(Stopped(AtomicI64::new(1_000_000)));
        let lease_clock = Arc::clone(&clock);
        let store = Store::open(&folder.path().join(Store::FILE)).await.unwrap();
        let store = store.with_lease_clock(Arc::new(move || lease_clock.now_ms()));
        let log =
            || Arc::new(MemoryLog::new(MemoryOptions { partitions: 2, ..MemoryOptions::default() })) as Arc<dyn Log>;
        let clusters = clusters.into_iter().map(|(name, spec)| {
            let cluster = Mutex::new(Cluster::new(spec, clock.now_ms()).unwrap());
            let clock = Arc::clone(&clock);
            let now: Mutex<Now> = Mutex::new(Arc::new(move || clock.now_ms()));
            let faults = Mutex::new(FaultPlan::none());
            (name.to_owned(), Arc::new(InProcess { now, cluster, faults, puts: AtomicU64::new(0) }))
        });
        let policy = Policy { settle_deadline_ms: 30_000, verify_for_ms: 3_000, ..Policy::default() };
        let default = PolicyEntry { mode: Mode::Auto, policy, ..PolicyEntry::default() };
        let rig = Self {
            store,
            logs: Logs { metrics: log(), events: log() },
            clusters: clusters.collect(),
            clock,
            book: PolicyBook { default, entries: Vec::new() },
            owners: AtomicU64::new(0),
            numbers: AtomicU64::new(0),
            _folder: folder,
        };
        rig.pass(30_000);
        rig
    }

    pub fn sim(&self) -> &Arc<InProcess> {
        self.clusters.values().next().unwrap()
    }

    /// An actuator of its own process.
    pub fn actuator(&self) -> Actuator {
        self.actuator_on(self.store.clone())
    }

    pub fn actuator_on(&self, store: Store) -> Actuator {
        self.actuator_in(store, Arc::clone(&self.clock) as Arc<dyn Clock>)
    }

    /// An actuator in another time.
    pub fn actuator_in(&self, store: Store, clock: Arc<dyn Clock>) -> Actuator {
        let driver = |api: &Arc<InProcess>| {
            let api: Arc<dyn FlinkApi> = Arc::clone(api) as Arc<dyn FlinkApi>;
            Arc::new(FlinkRest::new(api, Arc::clone(&clock), FlinkRestOptions::default())) as Arc<dyn Driver>
        };
        Actuator::new(
            Options::default(),
            Parts {
                store,
                logs: self.logs.clone(),
                book: self.book.clone(),
                drivers: self.clusters.iter().map(|(name, api)| (name.clone(), driver(api))).collect(),
                clock,
                wants: BTreeMap::new(),
                owner: format!("process {}", self.owners.fetch_add(1, Ordering::SeqCst)),
                tags: Vec::new(),
                pulse: Health::unwatched().service("the actuator"),
            },
        )
    }

    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    pub fn pass(&self, ms: i64) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
        for api in self.clusters.values() {
            api.cluster.lock().unwrap().advance_to(self.now_ms());
        }
    }

    /// Steps until the job has this many outcomes, at most ten minutes long.
    pub async fn until_outcomes(&self, actuator: &mut Actuator, count: usize) -> Vec<Outcome> {
        self.until_outcomes_while(actuator, count, || {}).await
    }

    pub async fn until_outcomes_while(
        &self,
        actuator: &mut Actuator,
        count: usize,
        meanwhile: impl Fn(),
    ) -> Vec<Outcome> {
        let give_up_ms = self.now_ms() + 600_000;
        loop {
            actuator.step().await.unwrap();
            let outcomes = self.outcomes().await;
            if outcomes.len() >= count {
                return outcomes;
            }
            assert!(self.now_ms() < give_up_ms, "only {:?}", words(&outcomes));
            self.pass(150);
            meanwhile();
        }
    }

    /// A decision about the first job of the first cluster, as it runs now.
    pub async fn decision(&self, disposition: Disposition, to: &[u32]) -> Decision {
        let (cluster, api) = self.clusters.first_key_value().unwrap();
        self.decision_on(cluster, api, disposition, to).await
    }

    pub async fn decision_on(
        &self,
        cluster: &str,
        api: &Arc<InProcess>,
        disposition: Disposition,
        to: &[u32],
    ) -> Decision {
        let client = FlinkClient::new(api.as_ref());
        let jobs = client.jobs().await.unwrap().value;
        let id = jobs.iter().rfind(|job| job.state == "RUNNING").unwrap().id.clone();
        let detail = client.job(&id).await.unwrap().value;
        let run = RunId { id: id.clone(), start_ms: detail.start_ms.unwrap() };
        let vertices: Vec<PlannedVertex> = detail
            .vertices
            .iter()
            .zip(to)
            .map(|(v, &to)| PlannedVertex { id: v.id.clone(), name: v.name.clone(), from: v.parallelism.unwrap(), to })
            .collect();
        let number = self.numbers.fetch_add(1, Ordering::SeqCst) + 1;
        let plan = Plan {
            number,
            parent: Parent {
                run: run.clone(),
                parallelism: vertices.iter().map(|vertex| (vertex.id.clone(), vertex.from)).collect(),
                requirements: client.requirements(&id).await.unwrap().value.digest(),
            },
            vertices,
            direction: Direction::Grow,
            short_of_slots: false,
            expected_stop_ms: 5_000,
            throughput_per_second: 200.0,
            backlog: None,
        };
        Decision {
            schema: 1,
            id: format!("decision {number}"),
            job: JobKey::new(cluster, &detail.name),
            run,
            decided_at_ms: self.now_ms(),
            epoch: 1,
            policy: String::new(),
            verdict: Verdict::Rescale(plan),
            disposition,
            report: Report::default(),
            sentence: String::new(),
        }
    }

    /// Publishes a decision, as the analyzer does.
    pub async fn publish(&self, decision: &Decision) {
        let event = serde_json::to_vec(&CloudEvent::of_decision(decision).unwrap()).unwrap();
        self.append(&decision.job.to_string(), &event).await;
    }

    pub async fn append(&self, job: &str, event: &[u8]) {
        let partition = partition_of(job, self.logs.events.info().partitions);
        let mut writer = self.logs.events.writer(partition, "analyzer").await.unwrap();
        writer.append(event, self.now_ms()).await.unwrap();
    }

    /// Outcomes as the analyzer reads them; those of the log of events are the same.
    pub async fn outcomes(&self) -> Vec<Outcome> {
        let mut told = Vec::new();
        for payload in read(&self.logs.metrics).await {
            if let Some(Body::OutcomeJson(json)) = wire::decode(&payload).unwrap().body {
                told.push(serde_json::from_slice(&json).unwrap());
            }
        }
        let events = read(&self.logs.events).await.into_iter();
        let events = events.filter_map(|payload| serde_json::from_slice::<CloudEvent>(&payload).ok());
        let events: Vec<Outcome> = events
            .filter(|event| event.kind == TYPE_OUTCOME)
            .map(|event| serde_json::from_value(event.data).unwrap())
            .collect();
        assert_eq!(words(&told), words(&events));
        told
    }

    /// Parallelism of the first job.
    pub fn parallelism(&self) -> Vec<u32> {
        let truth = self.sim().cluster.lock().unwrap().truth();
        truth.jobs[0].vertices.iter().map(|vertex| vertex.parallelism).collect()
    }

    /// How often the first job changed its parallelism.
    pub fn rescales(&self) -> u64 {
        self.sim().cluster.lock().unwrap().truth().jobs[0].rescales
    }

    pub fn puts(&self) -> u64 {
        self.sim().puts.load(Ordering::SeqCst)
    }
}

/// The words of outcomes, with their reasons.
pub fn words(outcomes: &[Outcome]) -> Vec<String> {
    use weir_schemas::outcome::OutcomeResult::{Failed, Refused, RolledBack};
    let word = |outcome: &Outcome| match &outcome.result {
        RolledBack { why } | Failed { why } | Refused { why } => format!("{}: {why}", outcome.result.word()),
        other => other.word().to_owned(),
    };
    outcomes.iter().map(word).collect()
}

async fn read(log: &Arc<dyn Log>) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    for partition in 0..log.info().partitions {
        let mut reader = log.reader(partition, Position::from_raw(0)).await.unwrap();
        payloads.extend(reader.read(1_000, Duration::ZERO).await.unwrap().into_iter().map(|record| record.payload));
    }
    payloads
}
