//! Flink's REST API over the model.
//!
//! Every answer has the keys, the types and the status that a real `JobManager` of the same version gives, its delays and
//! its traps included: cached structures, lazily fetched metrics, 500 for an unknown job, `[]` for an unknown metric.

mod checkpoints;
mod errors;
mod io;
mod job;
mod metrics;
mod nodes;
mod overview;
mod path;
mod requirements;
mod rescales;
mod values;
mod vertex;

use std::sync::Arc;

use serde_json::Value;

use crate::model::{Cluster, JobView};
use errors::{bad_path_parameter, job_not_found, not_found};
use path::{Query, is_id, split};

/// A request to the `JobManager`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `PUT`, `POST`, `PATCH`, ...
    pub method: String,
    /// Path with its query, percent-encoded as on the wire.
    pub path_and_query: String,
    /// Body, empty if there is none.
    pub body: String,
}

impl Request {
    /// A request without body.
    #[must_use]
    pub fn new(method: &str, path_and_query: &str) -> Self {
        Self { method: method.into(), path_and_query: path_and_query.into(), body: String::new() }
    }

    /// A `GET`.
    #[must_use]
    pub fn get(path_and_query: &str) -> Self {
        Self::new("GET", path_and_query)
    }

    /// The same request with a body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status; 0 if the connection is closed without an answer.
    pub status: u16,
    /// Value of `Content-Type`.
    pub content_type: String,
    /// Body.
    pub body: String,
}

impl Response {
    /// A JSON answer.
    pub(crate) fn json(status: u16, value: &Value) -> Self {
        Self { status, content_type: "application/json; charset=UTF-8".into(), body: value.to_string() }
    }

    /// No answer at all: the connection is closed.
    #[must_use]
    pub fn dropped() -> Self {
        Self { status: 0, content_type: String::new(), body: String::new() }
    }

    /// Whether the connection is closed without an answer.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.status == 0
    }
}

/// Whether Flink has a handler for that part of a job.
fn is_routed(method: &str, rest: &[&str]) -> bool {
    matches!(
        (method, rest),
        ("GET" | "PATCH", [])
            | ("GET", ["config" | "exceptions" | "plan" | "metrics" | "resource-requirements"])
            | ("GET", ["vertices" | "checkpoints" | "savepoints" | "rescales", ..])
            | ("PUT", ["resource-requirements"])
            | ("POST", ["checkpoints" | "savepoints" | "stop"])
    )
}

/// An answer, or the error that is one.
pub(crate) type Answer = Result<Value, Response>;

impl Cluster {
    /// Lets time pass up to `now_ms` and answers `request`.
    pub fn handle(&mut self, now_ms: i64, request: &Request) -> Response {
        self.advance_to(now_ms);
        if self.is_dead() {
            return Response::dropped();
        }
        let now_ms = now_ms.max(self.now_ms());
        let (segments, query) = split(&request.path_and_query);
        let mut segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        if segments.first() == Some(&"v1") {
            segments.remove(0);
        }
        let answer = match (request.method.as_str(), segments.as_slice()) {
            (method, ["jobs", id, rest @ ..]) if *id != "overview" && *id != "metrics" => {
                self.about_job(now_ms, method, id, rest, &query, &request.body)
            }
            ("GET", segments) => self.about_cluster(now_ms, segments, &query),
            _ => None,
        };
        match answer {
            Some((status, Ok(value))) => Response::json(status, &value),
            Some((_, Err(response))) => response,
            None => not_found(&request.path_and_query),
        }
    }

    fn about_cluster(&mut self, now_ms: i64, segments: &[&str], query: &Query) -> Option<(u16, Answer)> {
        let answer = match segments {
            ["config"] => Ok(self.dashboard_config()),
            ["overview"] => Ok(self.overview()),
            ["jobs"] => Ok(self.job_ids()),
            ["jobs", "overview"] => Ok(self.jobs_overview(now_ms)),
            ["jobmanager", "config"] => Ok(self.job_manager_config()),
            ["jobmanager", "metrics"] => {
                self.prime(now_ms);
                Ok(self.job_manager_metrics(query))
            }
            ["taskmanagers"] => Ok(self.task_managers_list(now_ms)),
            ["taskmanagers", "metrics"] => {
                self.prime(now_ms);
                Ok(self.task_managers_metrics(query))
            }
            ["taskmanagers", id] => {
                self.prime(now_ms);
                self.task_manager(now_ms, id)
            }
            ["taskmanagers", id, "metrics"] => {
                self.prime(now_ms);
                Ok(self.task_manager_metrics(id, query))
            }
            _ => return None,
        };
        Some((200, answer))
    }

    fn about_job(
        &mut self,
        now_ms: i64,
        method: &str,
        id: &str,
        rest: &[&str],
        query: &Query,
        body: &str,
    ) -> Option<(u16, Answer)> {
        if !is_routed(method, rest) {
            return None;
        }
        if !is_id(id) {
            return Some((400, Err(bad_path_parameter("jobid", id))));
        }
        match (method, rest) {
            ("PATCH", []) => Some((202, self.cancel(id, query))),
            ("PUT", _) => Some((200, self.put_requirements(now_ms, id, body))),
            ("POST", [what]) => Some((202, self.trigger(now_ms, id, what, body))),
            (_, ["resource-requirements"]) => Some((200, self.get_requirements(id))),
            (_, ["metrics"]) => {
                self.prime(now_ms);
                Some((200, Ok(self.job_metrics(id, query))))
            }
            (_, ["vertices", vertex, rest @ ..]) => {
                self.about_vertex(now_ms, id, vertex, rest, query).map(|a| (200, a))
            }
            (_, ["checkpoints", rest @ ..]) => self.about_checkpoints(now_ms, id, rest).map(|a| (200, a)),
            (_, ["savepoints", key]) => Some((200, self.savepoint_status(id, key))),
            (_, ["rescales", rest @ ..]) => self.about_rescales(id, rest).map(|a| (200, a)),
            (_, rest) => self.job_structure(now_ms, id, rest).map(|a| (200, a)),
        }
    }

    fn job_structure(&mut self, now_ms: i64, id: &str, rest: &[&str]) -> Option<Answer> {
        if rest.is_empty() {
            self.prime(now_ms);
        }
        let view = match self.view(now_ms, id) {
            Ok(view) => view,
            Err(response) => return Some(Err(response)),
        };
        match rest {
            [] => Some(Ok(self.job_detail(now_ms, &view))),
            ["config"] => Some(Ok(self.job_config(&view))),
            ["exceptions"] => Some(Ok(self.job_exceptions(&view))),
            ["plan"] => Some(Ok(serde_json::json!({ "plan": self.job_plan(&view) }))),
            _ => None,
        }
    }

    /// A call that reads metrics: a fetch begins if the last one is too old. It is answered without waiting for it.
    pub(crate) fn prime(&mut self, now_ms: i64) {
        let (refresh, fetch) = (self.spec.metrics_refresh_ms, self.spec.metrics_fetch_ms);
        self.store.prime(now_ms, refresh, fetch);
    }

    /// The structure of job `id`, at most one web refresh interval old.
    pub(crate) fn view(&mut self, now_ms: i64, id: &str) -> Result<Arc<JobView>, Response> {
        let fresh = |view: &&Arc<JobView>| now_ms < view.taken_ms + self.spec.web_refresh_ms;
        if let Some(view) = self.views.get(id).filter(fresh) {
            return Ok(Arc::clone(view));
        }
        let job = self.jobs.iter().find(|job| job.spec.id == id && job.is_known()).ok_or_else(|| job_not_found(id))?;
        let view = Arc::new(job.view(now_ms));
        self.views.insert(id.into(), Arc::clone(&view));
        Ok(view)
    }
}
