//! The driver over Flink's REST API.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::debug;
use weir_flink::decode::{self, JobDetail, VertexDetail};
use weir_flink::{FlinkApi, FlinkClient, FlinkError};
use weir_governor::{Effect, Observation, ObserveError, Requirements, SeenSource};
use weir_runtime::{Clock, within};
use weir_schemas::identity::RunId;

use crate::driver::{BoxFuture, Driver, DriverError, Executed, Look};
use crate::look::{self, ClusterView, JobView, Parts};

/// Jobs and sources that are remembered before all are forgotten: far more than a cluster has.
const MOST_REMEMBERED: usize = 10_000;

/// Numbers of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlinkRestOptions {
    /// Longest that a look may take, in milliseconds.
    pub look_deadline_ms: i64,
    /// Longest that an effect may take, in milliseconds.
    pub execute_deadline_ms: i64,
    /// How long the cluster's version and configuration are believed, in milliseconds.
    pub config_for_ms: i64,
}

impl Default for FlinkRestOptions {
    fn default() -> Self {
        Self { look_deadline_ms: 6_000, execute_deadline_ms: 6_000, config_for_ms: 60_000 }
    }
}

/// The driver over Flink's REST API.
pub struct FlinkRest {
    api: Arc<dyn FlinkApi>,
    clock: Arc<dyn Clock>,
    options: FlinkRestOptions,
    cluster: Mutex<Option<(i64, ClusterView)>>,
    jobs: Mutex<BTreeMap<RunId, (i64, JobView)>>,
    /// Names under which vertices tell how much waits for them, by job and vertex id.
    pending_names: Mutex<BTreeMap<(String, String), Vec<String>>>,
}

impl FlinkRest {
    /// A driver for the cluster behind `api`.
    #[must_use]
    pub fn new(api: Arc<dyn FlinkApi>, clock: Arc<dyn Clock>, options: FlinkRestOptions) -> Self {
        let (jobs, pending_names) = (Mutex::default(), Mutex::default());
        Self { api, clock, options, cluster: Mutex::new(None), jobs, pending_names }
    }

    fn client(&self) -> FlinkClient<'_> {
        FlinkClient::new(self.api.as_ref())
    }

    async fn look(&self, look: Look<'_>) -> Result<Observation, ObserveError> {
        let client = self.client();
        let id = look.run.id.as_str();
        let cluster = self.cluster_view().await.map_err(unseen)?;
        let detail = client.job(id).await.map_err(unseen)?.value;
        let job = self.job_view(look.run).await.map_err(unseen)?;
        let checkpoints = client.checkpoints(id).await.map_err(unseen)?.map(|read| read.value);
        let requirements = match client.requirements(id).await {
            Ok(read) => Ok(read.value),
            Err(error @ (FlinkError::WrongScheduler { .. } | FlinkError::NoEndpoint { .. })) => Err(error),
            Err(error) => return Err(unseen(error)),
        };
        let overview = client.overview().await.map_err(unseen)?.value;
        let jobs = client.jobs().await.map_err(unseen)?.value;
        let sources = if look.counters { self.sources(&detail).await? } else { BTreeMap::new() };
        let at_ms = self.clock.now_ms();
        look::observation(
            look,
            Parts { at_ms, cluster, detail, job, checkpoints, requirements, overview, jobs, sources },
        )
    }

    /// What changes only with a restart of the JobManager: read now and then.
    async fn cluster_view(&self) -> Result<ClusterView, FlinkError> {
        let now_ms = self.clock.monotonic_ms();
        let known = lock(&self.cluster).clone();
        if let Some((_, view)) = known.filter(|(at_ms, _)| now_ms.saturating_sub(*at_ms) < self.options.config_for_ms) {
            return Ok(view);
        }
        let client = self.client();
        let web = client.web_config().await?.value;
        let config = client.job_manager_config().await?.value;
        let view = ClusterView { version: web.version_text, scheduler: config.scheduler(), rival: config.rival() };
        *lock(&self.cluster) = Some((now_ms, view.clone()));
        Ok(view)
    }

    /// What does not change while a job runs: read now and then.
    async fn job_view(&self, run: &RunId) -> Result<JobView, FlinkError> {
        let now_ms = self.clock.monotonic_ms();
        let known = lock(&self.jobs).get(run).cloned();
        if let Some((_, view)) = known.filter(|(at_ms, _)| now_ms.saturating_sub(*at_ms) < self.options.config_for_ms) {
            return Ok(view);
        }
        let client = self.client();
        let rival = client.job_config(&run.id).await?.rival();
        let checkpoints = client.checkpoints_config(&run.id).await?.map(|read| read.value);
        let view = JobView { rival, checkpoints };
        remember(&mut lock(&self.jobs), run.clone(), (now_ms, view.clone()));
        Ok(view)
    }

    /// Counters of every source of a job.
    async fn sources(&self, detail: &JobDetail) -> Result<BTreeMap<String, SeenSource>, ObserveError> {
        let mut sources = BTreeMap::new();
        for id in &detail.sources {
            let vertex = self.client().vertex(&detail.id, id).await.map_err(unseen)?.value;
            let pending = self.pending(&detail.id, &vertex).await.map_err(unseen)?;
            if let Some(source) = look::source(&vertex, pending) {
                sources.insert(id.clone(), source);
            }
        }
        Ok(sources)
    }

    /// Records that wait for a source, where its connector tells.
    async fn pending(&self, job: &str, vertex: &VertexDetail) -> Result<Option<f64>, FlinkError> {
        let key = (job.to_owned(), vertex.id.clone());
        let known = lock(&self.pending_names).get(&key).cloned();
        let names = match known {
            Some(names) => names,
            None => {
                let all = self.client().vertex_metric_names(job, &vertex.id).await?.value;
                decode::pending_records_names(&all).into_iter().map(str::to_owned).collect()
            }
        };
        if names.is_empty() {
            return Ok(None);
        }
        let asked: Vec<&str> = names.iter().map(String::as_str).collect();
        let sums = self.client().vertex_metric_sums(job, &vertex.id, &asked).await?.value;
        // One name that is gone makes the whole answer empty: then the names are to be listed again.
        if sums.len() == names.len() {
            remember(&mut lock(&self.pending_names), key, names);
        } else {
            lock(&self.pending_names).remove(&key);
            return Ok(None);
        }
        Ok(sums.iter().map(|sum| sum.sum).sum())
    }

    async fn carry_out(&self, run: &RunId, effect: &Effect) -> Result<Executed, DriverError> {
        // The id alone does not name a run: ids may repeat. What Flink shows of a job is up to three seconds old, which
        // is shorter than a job takes to be cancelled and submitted again under the same id.
        let detail = self.client().job(&run.id).await.map_err(not_done)?.value;
        if detail.start_ms != Some(run.start_ms) {
            return Err(DriverError::Refused(format!("job {} was submitted again", run.id)));
        }
        match effect {
            Effect::PutRequirements { bounds } => {
                self.client().put_requirements(&detail, &pairs(bounds)).await.map_err(not_done)?;
            }
            Effect::TriggerCheckpoint { trigger_id } => {
                let started = self.client().trigger_checkpoint(&run.id, Some(trigger_id)).await.map_err(not_done)?;
                debug!(job = run.id, checkpoint = started, "checkpoint asked for");
            }
        }
        Ok(Executed)
    }
}

impl Driver for FlinkRest {
    fn observe<'a>(&'a self, look: Look<'a>) -> BoxFuture<'a, Result<Observation, ObserveError>> {
        Box::pin(async move {
            let looked = within(self.clock.as_ref(), self.options.look_deadline_ms, self.look(look)).await;
            looked.unwrap_or_else(|elapsed| Err(ObserveError::Unreachable(elapsed.to_string())))
        })
    }

    fn execute<'a>(&'a self, run: &'a RunId, effect: &'a Effect) -> BoxFuture<'a, Result<Executed, DriverError>> {
        Box::pin(async move {
            let done = within(self.clock.as_ref(), self.options.execute_deadline_ms, self.carry_out(run, effect)).await;
            done.unwrap_or_else(|elapsed| Err(DriverError::Later(elapsed.to_string())))
        })
    }
}

fn remember<K: Ord, V>(known: &mut BTreeMap<K, V>, key: K, value: V) {
    if known.len() >= MOST_REMEMBERED {
        known.clear();
    }
    known.insert(key, value);
}

fn pairs(bounds: &Requirements) -> BTreeMap<String, (u32, u32)> {
    bounds.iter().map(|(vertex, bounds)| (vertex.clone(), (bounds.lower, bounds.upper))).collect()
}

fn unseen(error: FlinkError) -> ObserveError {
    match error {
        FlinkError::NotFound { .. } => ObserveError::Gone(error.to_string()),
        other => ObserveError::Unreachable(other.to_string()),
    }
}

/// Whether it is any use to try again. What fails inside Flink may work once it has sorted itself out.
fn not_done(error: FlinkError) -> DriverError {
    match &error {
        FlinkError::Refused { status, .. } if *status < 500 => DriverError::Refused(error.to_string()),
        FlinkError::BadRequirements { .. }
        | FlinkError::WrongScheduler { .. }
        | FlinkError::NoEndpoint { .. }
        | FlinkError::Denied { .. }
        | FlinkError::UnsupportedVersion(_) => DriverError::Refused(error.to_string()),
        _ => DriverError::Later(error.to_string()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
