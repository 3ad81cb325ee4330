//! Typed calls.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::decode::{self, DecodeError, Decoded, JobDetail};
use crate::{FlinkApi, FlinkError, Method, Request, Version, VertexId};

/// What is escaped in a part of a path or query.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Typed calls to a JobManager. Cheap to make; holds nothing.
#[derive(Clone, Copy)]
pub struct FlinkClient<'a> {
    api: &'a dyn FlinkApi,
}

type Answer<T> = Result<Decoded<T>, FlinkError>;

impl<'a> FlinkClient<'a> {
    /// Calls over `api`.
    #[must_use]
    pub fn new(api: &'a dyn FlinkApi) -> Self {
        Self { api }
    }

    /// `/config`: the version, and how often the page refreshes.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn web_config(&self) -> Answer<decode::WebConfig> {
        self.get("/config".into(), decode::web_config).await
    }

    /// The version, if Weir works with it.
    ///
    /// # Errors
    /// [`FlinkError::UnsupportedVersion`] if it is too old or cannot be read.
    pub async fn supported_version(&self) -> Result<Version, FlinkError> {
        let config = self.web_config().await?.value;
        let version = config.version.filter(|version| version.supported());
        version.ok_or_else(|| FlinkError::UnsupportedVersion(decode::sanitised(&config.version_text, 40)))
    }

    /// `/overview`: slots and TaskManagers in numbers.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn overview(&self) -> Answer<decode::Overview> {
        self.get("/overview".into(), decode::overview).await
    }

    /// `/jobs/overview`: all jobs, also ended ones.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn jobs(&self) -> Answer<Vec<decode::JobSummary>> {
        self.get("/jobs/overview".into(), decode::jobs).await
    }

    /// `/jobs/:id`: a job with its graph. It is cached by Flink for `web.refresh-interval`.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn job(&self, job: &str) -> Answer<JobDetail> {
        self.get(format!("/jobs/{}", part(job)), decode::job).await
    }

    /// `/jobs/:id/vertices/:id`: a vertex with its subtasks.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn vertex(&self, job: &str, vertex: &str) -> Answer<decode::VertexDetail> {
        self.get(format!("/jobs/{}/vertices/{}", part(job), part(vertex)), decode::vertex).await
    }

    /// Names of the metrics of a vertex.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn vertex_metric_names(&self, job: &str, vertex: &str) -> Answer<Vec<String>> {
        self.get(format!("/jobs/{}/vertices/{}/subtasks/metrics", part(job), part(vertex)), decode::metric_names).await
    }

    /// Metrics of a vertex, summed over its subtasks. One name that the vertex does not have makes the answer empty.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn vertex_metric_sums(&self, job: &str, vertex: &str, names: &[&str]) -> Answer<Vec<decode::Aggregate>> {
        let (job, vertex, names) = (part(job), part(vertex), list(names));
        let path = format!("/jobs/{job}/vertices/{vertex}/subtasks/metrics?get={names}&agg=sum");
        self.get(path, decode::aggregates).await
    }

    /// Metrics of a job. Names that it does not have are left out.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn job_metrics(&self, job: &str, names: &[&str]) -> Answer<Vec<decode::MetricValue>> {
        self.get(format!("/jobs/{}/metrics?get={}", part(job), list(names)), decode::metric_values).await
    }

    /// `/jobs/:id/checkpoints`; nothing if the job takes none.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn checkpoints(&self, job: &str) -> Result<Option<Decoded<decode::Checkpoints>>, FlinkError> {
        unless_off(self.get(format!("/jobs/{}/checkpoints", part(job)), decode::checkpoints).await)
    }

    /// `/jobs/:id/checkpoints/config`; nothing if the job takes none.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn checkpoints_config(
        &self,
        job: &str,
    ) -> Result<Option<Decoded<decode::CheckpointsConfig>>, FlinkError> {
        unless_off(self.get(format!("/jobs/{}/checkpoints/config", part(job)), decode::checkpoints_config).await)
    }

    /// `/jobs/:id/config`: what the job itself is configured with.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn job_config(&self, job: &str) -> Answer<decode::JobConfig> {
        self.get(format!("/jobs/{}/config", part(job)), decode::job_config).await
    }

    /// `/taskmanagers`: all of them. Does not make Flink fetch metrics.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn task_managers(&self) -> Answer<Vec<decode::TaskManager>> {
        self.get("/taskmanagers".into(), decode::task_managers).await
    }

    /// `/taskmanagers/:id`.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn task_manager(&self, id: &str) -> Answer<decode::TaskManagerDetail> {
        self.get(format!("/taskmanagers/{}", part(id)), decode::task_manager).await
    }

    /// Metrics of a TaskManager. Names that it does not have are left out.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn task_manager_metrics(&self, id: &str, names: &[&str]) -> Answer<Vec<decode::MetricValue>> {
        self.get(format!("/taskmanagers/{}/metrics?get={}", part(id), list(names)), decode::metric_values).await
    }

    /// Names of the metrics that TaskManagers have. The cheapest call that makes Flink fetch all metrics anew.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn prime(&self) -> Answer<Vec<String>> {
        self.get("/taskmanagers/metrics".into(), decode::metric_names).await
    }

    /// `/jobmanager/config`: the cluster's configuration.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn job_manager_config(&self) -> Answer<decode::JobManagerConfig> {
        self.get("/jobmanager/config".into(), decode::job_manager_config).await
    }

    /// `/jobs/:id/resource-requirements`: what was asked for, which is not what runs.
    ///
    /// # Errors
    /// [`FlinkError::WrongScheduler`] under the default scheduler; otherwise see [`FlinkError`].
    pub async fn requirements(&self, job: &str) -> Answer<decode::Requirements> {
        self.get(format!("/jobs/{}/resource-requirements", part(job)), decode::requirements).await
    }

    /// The timers that apply to a job's rescales (Flink 2.3 on; [`FlinkError::NoEndpoint`] before).
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn rescale_timers(&self, job: &str) -> Answer<decode::RescaleTimers> {
        self.get(format!("/jobs/{}/rescales/config", part(job)), decode::rescale_timers).await
    }

    /// Asks for other parallelisms: lower and upper bound for each vertex of `job`, all of them. Success only means that Flink
    /// has noted it.
    ///
    /// # Errors
    /// [`FlinkError::BadRequirements`], without a call, for bounds that Flink would refuse or die of: not positive, upside
    /// down, above the max parallelism, or not for exactly the vertices of the job.
    pub async fn put_requirements(
        &self,
        job: &JobDetail,
        bounds: &BTreeMap<VertexId, (u32, u32)>,
    ) -> Result<(), FlinkError> {
        if let Some(why) = bad_requirements(job, bounds) {
            return Err(FlinkError::BadRequirements { job: job.id.clone(), why });
        }
        let path = format!("/jobs/{}/resource-requirements", part(&job.id));
        let body = Some(decode::requirements_body(bounds));
        self.send(Request { method: Method::Put, path, body }, |_| Ok(())).await
    }

    /// Starts a checkpoint and gives the id under which [`FlinkClient::checkpoint_status`] knows it. The same `trigger_id`, 32
    /// hexadecimal digits, never starts two.
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn trigger_checkpoint(&self, job: &str, trigger_id: Option<&str>) -> Result<String, FlinkError> {
        let mut body = BTreeMap::from([("checkpointType", "CONFIGURED")]);
        body.extend(trigger_id.map(|id| ("triggerId", id)));
        // Text only, so that writing it as JSON cannot fail.
        let body = serde_json::to_string(&body).ok();
        let path = format!("/jobs/{}/checkpoints", part(job));
        self.send(Request { method: Method::Post, path, body }, decode::trigger).await
    }

    /// How far a triggered checkpoint is. A restarted JobManager has forgotten it: [`FlinkError::NotFound`].
    ///
    /// # Errors
    /// See [`FlinkError`].
    pub async fn checkpoint_status(&self, job: &str, request_id: &str) -> Answer<decode::CheckpointStatus> {
        self.get(format!("/jobs/{}/checkpoints/{}", part(job), part(request_id)), decode::checkpoint_status).await
    }

    async fn get<T>(&self, path: String, read: fn(&[u8]) -> Result<T, DecodeError>) -> Result<T, FlinkError> {
        self.send(Request::get(path), read).await
    }

    async fn send<T>(&self, request: Request, read: fn(&[u8]) -> Result<T, DecodeError>) -> Result<T, FlinkError> {
        let path = request.path.clone();
        let answer = self.api.call(request).await;
        let answer = answer.map_err(|source| FlinkError::Call { path: path.clone(), source })?;
        if !(200..300).contains(&answer.status) {
            return Err(FlinkError::of_status(&path, answer.status, &answer.body));
        }
        read(&answer.body).map_err(|source| FlinkError::of_decode(&path, answer.status, source))
    }
}

/// A job without checkpoints answers that they are not enabled, with the status of what is not there.
fn unless_off<T>(answer: Answer<T>) -> Result<Option<Decoded<T>>, FlinkError> {
    match answer {
        // "Checkpointing is not enabled", "has not been enabled": the words differ between endpoints.
        Err(FlinkError::NotFound { reason, .. }) if reason.contains("not") && reason.contains("enabled") => Ok(None),
        other => other.map(Some),
    }
}

/// What is wrong with requirements, if anything.
fn bad_requirements(job: &JobDetail, bounds: &BTreeMap<VertexId, (u32, u32)>) -> Option<String> {
    if job.vertices.is_empty() {
        return Some("the job has no vertices yet; read it again once it runs".into());
    }
    if let Some(missing) = job.vertices.iter().find(|vertex| !bounds.contains_key(&vertex.id)) {
        return Some(format!("vertex {} ({}) is missing; Flink wants all of them", missing.id, missing.name));
    }
    for (id, &(lower, upper)) in bounds {
        let Some(vertex) = job.vertex(id) else {
            return Some(format!("the job has no vertex {id}; read its graph again"));
        };
        if lower == 0 || upper == 0 {
            return Some(format!("bounds {lower}..{upper} of vertex {} must be positive", vertex.name));
        }
        if lower > upper {
            return Some(format!("bounds {lower}..{upper} of vertex {} are upside down", vertex.name));
        }
        // Flink keeps both as signed numbers.
        let most = vertex.max_parallelism.unwrap_or(u32::MAX).min(i32::MAX.unsigned_abs());
        if upper > most {
            return Some(format!("upper bound {upper} of vertex {} is above its max parallelism {most}", vertex.name));
        }
    }
    None
}

fn part(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Names for a query: each escaped, the commas between them not.
fn list(names: &[&str]) -> String {
    names.iter().map(|name| part(name)).collect::<Vec<_>>().join(",")
}
