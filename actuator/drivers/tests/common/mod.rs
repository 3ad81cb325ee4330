//! A simulated cluster behind the driver, in virtual time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use weir_drivers::{Driver, FlinkRest, FlinkRestOptions, Look};
use weir_flink::{CallError, FlinkApi, FlinkClient, Request, Response};
use weir_governor::{Command, Context, Controls, Numbers, Observation, ObserveError};
use weir_runtime::Clock;
use weir_schemas::control::Mode;
use weir_schemas::decision::{Decision, Direction, Disposition, Parent, Plan, PlannedVertex, Verdict};
use weir_schemas::identity::{JobKey, RunId};
use weir_schemas::report::Report;
use weir_simulator::{Cluster, ClusterSpec, FaultPlan, Outcome};

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

/// The cluster as the driver reaches it.
struct InProcess {
    clock: Arc<Stopped>,
    cluster: Arc<Mutex<Cluster>>,
    faults: Arc<Mutex<FaultPlan>>,
}

impl FlinkApi for InProcess {
    fn call<'a>(&'a self, request: Request) -> BoxFuture<'a, Result<Response, CallError>> {
        let sent = weir_simulator::Request::new(request.method.as_str(), &request.path);
        let sent = sent.with_body(request.body.unwrap_or_default());
        let outcome = self.faults.lock().unwrap().handle(&mut self.cluster.lock().unwrap(), self.clock.now_ms(), &sent);
        Box::pin(std::future::ready(match outcome {
            Outcome::Answer { response, .. } => Ok(Response { status: response.status, body: response.body.into() }),
            Outcome::Hang => Err(CallError::Timeout(1_000)),
            Outcome::Dropped => Err(CallError::Unreachable("dropped".into())),
        }))
    }
}

pub struct Rig {
    pub driver: FlinkRest,
    api: Arc<InProcess>,
}

impl Rig {
    pub fn new(spec: ClusterSpec) -> Self {
        let clock = Arc::new(Stopped(AtomicI64::new(0)));
        let cluster = Arc::new(Mutex::new(Cluster::new(spec, 0).unwrap()));
        let api = InProcess { clock: Arc::clone(&clock), cluster, faults: Arc::new(Mutex::new(FaultPlan::none())) };
        let api = Arc::new(api);
        let dynamic: Arc<dyn FlinkApi> = Arc::clone(&api) as Arc<dyn FlinkApi>;
        Self { driver: FlinkRest::new(dynamic, clock, FlinkRestOptions::default()), api }
    }

    pub fn now_ms(&self) -> i64 {
        self.api.clock.now_ms()
    }

    pub fn pass(&self, ms: i64) {
        self.api.clock.0.fetch_add(ms.max(1), Ordering::SeqCst);
        self.api.cluster.lock().unwrap().advance_to(self.now_ms());
    }

    pub fn faults(&self, change: impl FnOnce(FaultPlan) -> FaultPlan) {
        let mut plan = self.api.faults.lock().unwrap();
        *plan = change(plan.clone());
    }

    pub async fn observe(&self, command: &Command) -> Result<Observation, ObserveError> {
        self.driver.observe(Look { job: &command.job, run: &command.run, counters: true }).await
    }

    /// A command for the only job, made from what runs now, with the sizes of its vertices in order.
    pub async fn command(&self, to: &[u32]) -> Command {
        let client = FlinkClient::new(self.api.as_ref());
        let id = client.jobs().await.unwrap().value[0].id.clone();
        let detail = client.job(&id).await.unwrap().value;
        let run = RunId { id: id.clone(), start_ms: detail.start_ms.unwrap() };
        let read = client.requirements(&id).await;
        let vertices: Vec<PlannedVertex> = detail
            .vertices
            .iter()
            .zip(to)
            .map(|(v, &to)| PlannedVertex { id: v.id.clone(), name: v.name.clone(), from: v.parallelism.unwrap(), to })
            .collect();
        let plan = Plan {
            number: 1,
            parent: Parent {
                run: run.clone(),
                parallelism: vertices.iter().map(|vertex| (vertex.id.clone(), vertex.from)).collect(),
                requirements: read.map(|read| read.value.digest()).unwrap_or_default(),
            },
            direction: Direction::Grow,
            vertices,
            short_of_slots: false,
            expected_stop_ms: 5_000,
            throughput_per_second: self.throughput(),
            backlog: None,
        };
        let decision = Decision {
            schema: 1,
            id: "d".into(),
            job: JobKey::new("sim", &detail.name),
            run,
            decided_at_ms: self.now_ms(),
            epoch: 1,
            policy: String::new(),
            verdict: Verdict::Rescale(plan),
            disposition: Disposition::Act,
            report: Report::default(),
            sentence: String::new(),
        };
        Command::of_decision(&decision, Numbers { settle_deadline_ms: 120_000, verify_for_ms: 5_000 }).unwrap()
    }

    pub fn context(&self) -> Context<'static> {
        let controls = Controls { mode: Mode::Auto, paused: false, frozen: false, approved: false };
        Context { now_ms: self.now_ms(), controls, under_way: None, newest_epoch: 1, ours: None }
    }

    pub fn parallelism(&self) -> Vec<u32> {
        let truth = self.api.cluster.lock().unwrap().truth();
        truth.jobs[0].vertices.iter().map(|vertex| vertex.parallelism).collect()
    }

    pub fn rescales(&self) -> u64 {
        self.api.cluster.lock().unwrap().truth().jobs[0].rescales
    }

    /// Records a second that were read in the ten seconds that this takes.
    fn throughput(&self) -> f64 {
        let read = || self.api.cluster.lock().unwrap().truth().jobs[0].consumed;
        let before = read();
        self.pass(10_000);
        weir_schemas::num::float(read() - before) / 10.0
    }
}
