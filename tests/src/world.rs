//! A Flink under test, real or simulated.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;
use weir_flink::{CallError, FlinkApi, HttpApi, Request, Response, Version};
use weir_simulator::{Cluster, ClusterSpec, EdgeSpec, FlinkVersion, JobSpec, LoadTrace, VertexSpec, hex_id};

use crate::wait::pause;
use crate::{FlinkCluster, FlinkJob, FlinkOptions, Load, Scheduler};

pub use futures::future::BoxFuture;

/// The word count that worlds run: source, flatmap, count with its sink. Free vertices are given the capacity 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Lines a second that are offered.
    pub lines_per_second: u32,
    /// Words of a line.
    pub words: u32,
    /// Records a second that one subtask of each vertex takes.
    pub capacities: [u32; 3],
    /// Parallelism of each vertex.
    pub parallelism: [u32; 3],
    /// Max parallelism of all.
    pub max_parallelism: u32,
}

/// A Flink cluster with time.
pub trait World {
    /// What it is, for messages.
    fn name(&self) -> &str;

    /// Its version.
    fn version(&self) -> Version;

    /// Its REST API.
    fn api(&self) -> &dyn FlinkApi;

    /// Lets a moment pass: some 100 ms.
    fn pass(&self) -> BoxFuture<'_, ()>;

    /// Time since its start.
    fn elapsed(&self) -> Duration;

    /// Submits the word count; its id.
    fn submit(&self, shape: &Shape) -> String;

    /// Lets a job come to the end of its input.
    fn end(&self, job: &str);

    /// What proves that a job, which has finished, did its work exactly.
    fn check_counts(&self, job: &str);
}

/// What `condition` gives once it gives something, on whatever clock `world` runs.
///
/// # Panics
/// If `deadline` passes before; `what` says what was waited for.
pub async fn until<T>(
    world: &dyn World,
    what: &str,
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> Option<T>,
) -> T {
    let end = world.elapsed() + deadline;
    loop {
        if let Some(found) = condition().await {
            return found;
        }
        assert!(world.elapsed() < end, "{}: {what} did not come within {} s", world.name(), deadline.as_secs_f64());
        world.pass().await;
    }
}

/// A real cluster.
pub struct RealFlink {
    name: String,
    version: Version,
    cluster: FlinkCluster,
    api: HttpApi,
    started: Instant,
    jobs: Mutex<Vec<FlinkJob>>,
}

impl RealFlink {
    /// Starts a cluster.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(options: &FlinkOptions) -> Self {
        let cluster = FlinkCluster::start(options);
        Self {
            name: format!("Flink {}", options.version),
            version: Version::parse(&options.version).expect("a version of Flink"),
            api: cluster.api(),
            cluster,
            started: Instant::now(),
            jobs: Mutex::new(Vec::new()),
        }
    }

    fn job(&self, id: &str) -> FlinkJob {
        let jobs = lock(&self.jobs);
        jobs.iter().find(|job| job.id == id).cloned().unwrap_or_else(|| panic!("job {id} was not submitted here"))
    }
}

impl World for RealFlink {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> Version {
        self.version
    }

    fn api(&self) -> &dyn FlinkApi {
        &self.api
    }

    fn pass(&self) -> BoxFuture<'_, ()> {
        Box::pin(pause())
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn submit(&self, shape: &Shape) -> String {
        let load = Load { lines_per_second: shape.lines_per_second, words: shape.words, ..Load::default() };
        let names = ["--source", "--flat", "--count"];
        let mut arguments = vec!["--max-p".to_owned(), shape.max_parallelism.to_string()];
        for (index, name) in names.into_iter().enumerate() {
            arguments.extend([format!("{name}-cap"), shape.capacities[index].to_string()]);
            arguments.extend([format!("{name}-p"), shape.parallelism[index].to_string()]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let job = self.cluster.submit(&load, &arguments);
        let id = job.id.clone();
        lock(&self.jobs).push(job);
        id
    }

    fn end(&self, job: &str) {
        self.job(job).end();
    }

    fn check_counts(&self, job: &str) {
        println!("{}: {}", self.name, self.job(job).check_counts());
    }
}

/// Time that passes at once.
const STEP_MS: i64 = 100;

/// A simulated cluster in virtual time.
pub struct SimulatedFlink {
    name: String,
    version: Version,
    api: InProcess,
    checkpoint_ms: Option<i64>,
}

/// The simulated cluster and its time, behind the interface that a real one is called by.
struct InProcess(Mutex<(Cluster, i64)>);

impl FlinkApi for InProcess {
    fn call<'a>(&'a self, request: Request) -> BoxFuture<'a, Result<Response, CallError>> {
        let mut sent = weir_simulator::Request::new(request.method.as_str(), &request.path);
        sent.body = request.body.unwrap_or_default();
        let mut held = lock(&self.0);
        let (cluster, now_ms) = &mut *held;
        let answer = cluster.handle(*now_ms, &sent);
        Box::pin(std::future::ready(if answer.is_dropped() {
            Err(CallError::Unreachable("the JobManager is dead".into()))
        } else {
            Ok(Response { status: answer.status, body: answer.body.into_bytes() })
        }))
    }
}

impl SimulatedFlink {
    /// A simulated cluster like the real one that `options` describe.
    ///
    /// # Panics
    /// If the simulator does not know the version.
    #[must_use]
    pub fn start(options: &FlinkOptions) -> Self {
        let defaults = ClusterSpec::default();
        let or = |asked: Option<u32>, default: i64| asked.map_or(default, i64::from);
        let spec = ClusterSpec {
            version: FlinkVersion::parse(&options.version).expect("a version that the simulator knows"),
            scheduler: match options.scheduler {
                Scheduler::Adaptive => weir_simulator::Scheduler::Adaptive,
                Scheduler::Default => weir_simulator::Scheduler::Default,
            },
            task_managers: usize::try_from(options.task_managers).expect("a number of TaskManagers"),
            slots_per_task_manager: usize::try_from(options.slots).expect("a number of slots"),
            metrics_refresh_ms: or(options.refresh_ms, defaults.metrics_refresh_ms),
            web_refresh_ms: or(options.refresh_ms, defaults.web_refresh_ms),
            cooldown_ms: or(options.cooldown_ms, defaults.cooldown_ms),
            executing_stabilization_ms: 1_000,
            submission_stabilization_ms: 2_000,
            ..defaults
        };
        let cluster = Cluster::new(spec, 0).expect("a cluster that can be simulated");
        let checkpoint_ms = options.checkpoint_ms.map(i64::from);
        Self {
            name: format!("simulated Flink {}", options.version),
            version: Version::parse(&options.version).expect("a version of Flink"),
            api: InProcess(Mutex::new((cluster, 0))),
            checkpoint_ms,
        }
    }
}

impl World for SimulatedFlink {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> Version {
        self.version
    }

    fn api(&self) -> &dyn FlinkApi {
        &self.api
    }

    fn pass(&self) -> BoxFuture<'_, ()> {
        let mut held = lock(&self.api.0);
        let (cluster, now_ms) = &mut *held;
        *now_ms += STEP_MS;
        cluster.advance_to(*now_ms);
        Box::pin(std::future::ready(()))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(u64::try_from(lock(&self.api.0).1).expect("time that went on"))
    }

    fn submit(&self, shape: &Shape) -> String {
        let mut held = lock(&self.api.0);
        let mut job = word_count(shape);
        job.checkpoint_interval_ms = self.checkpoint_ms;
        job.id = hex_id(&format!("job submitted at {}", held.1));
        let id = job.id.clone();
        held.0.submit(job).expect("a job that can be simulated");
        // Flink's answer to a submission comes when the job is known.
        held.1 += STEP_MS;
        id
    }

    fn end(&self, job: &str) {
        lock(&self.api.0).0.finish_job(job).expect("a job that runs");
    }

    /// The model's own books are proved by its own tests.
    fn check_counts(&self, _job: &str) {}
}

fn word_count(shape: &Shape) -> JobSpec {
    let rate = f64::from(shape.lines_per_second);
    let vertices = [
        VertexSpec::source("Source: source", 4, LoadTrace::constant(rate)),
        VertexSpec::operator("flatmap").selectivity(f64::from(shape.words)),
        VertexSpec::operator("count -> sink").selectivity(0.0),
    ];
    let mut job = JobSpec::new("wordcount")
        .edge(EdgeSpec::rebalance("Source: source", "flatmap"))
        .edge(EdgeSpec::hash("flatmap", "count -> sink"));
    for (index, vertex) in vertices.into_iter().enumerate() {
        let capacity = (shape.capacities[index] > 0).then(|| f64::from(shape.capacities[index]));
        let parallelism = shape.parallelism[index];
        job.vertices.push(VertexSpec { capacity, parallelism, max_parallelism: shape.max_parallelism, ..vertex });
    }
    job
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no test goes on after a panic")
}
