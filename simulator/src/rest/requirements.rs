//! Resource requirements: what is asked for, and every way to be refused.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Answer;
use super::errors::{internal, no_such_job, refused, refused_because};
use super::path::is_id;
use crate::model::{Bounds, Cluster, Job};
use crate::spec::{FlinkVersion, Scheduler};

const FORMAT: &str = "Request did not match expected format JobResourceRequirementsBody.";
const JACKSON: &str = "org.apache.flink.shaded.jackson2.com.fasterxml.jackson";

impl Cluster {
    pub(super) fn get_requirements(&self, id: &str) -> Answer {
        let job = &self.jobs[self.requirable(id)?];
        let mut answer = Map::new();
        for (vertex, bounds) in job.spec.vertices.iter().zip(&job.bounds) {
            let parallelism = json!({ "lowerBound": bounds.lower, "upperBound": bounds.upper });
            answer.insert(vertex.id.clone(), json!({ "parallelism": parallelism }));
        }
        Ok(answer.into())
    }

    pub(super) fn put_requirements(&mut self, now_ms: i64, id: &str, body: &str) -> Answer {
        let asked = parse(body)?;
        if asked.is_empty() {
            return Err(refused(400, "Request body does not specify resource requirements."));
        }
        let number = self.requirable(id)?;
        if self.spec.scheduler == Scheduler::Reactive {
            let why = "Cannot change the parallelism of a job running in reactive mode.";
            return Err(internal(&format!("java.lang.UnsupportedOperationException: {why}")));
        }
        let job = &self.jobs[number];
        let busy_until = job.bounds_changed_ms.map(|at| at + self.spec.requirements_update_ms);
        if busy_until.is_some_and(|until| now_ms < until) {
            return Err(refused(409, "Another update to the job [%s] resource requirements is in progress."));
        }
        let complaints = complaints(job, &asked);
        if !complaints.is_empty() {
            return Err(refused(400, &complaints.join("\n")));
        }
        let bounds: Vec<Bounds> = job.spec.vertices.iter().filter_map(|v| asked.get(&v.id)).copied().collect();
        let unset = bounds.iter().any(|bounds| bounds.upper < 0);
        self.jobs[number].set_bounds(bounds, now_ms);
        if unset && self.spec.version < FlinkVersion::V2_3 {
            // The scheduler stumbles over it, yet it is stored.
            return Err(internal("java.lang.IllegalArgumentException: The parallelism must be at least one."));
        }
        Ok(json!({}))
    }

    /// The job, if its scheduler has requirements and it is not over.
    fn requirable(&self, id: &str) -> Result<usize, super::Response> {
        let live = |job: &Job| job.spec.id == id && job.is_known() && !job.status.is_terminal();
        let number = self.jobs.iter().position(live).ok_or_else(|| internal(&no_such_job(id)))?;
        if self.spec.scheduler == Scheduler::Default {
            let why = "The DefaultScheduler does not support changing the parallelism without a job restart. \
                       This feature is currently only expected to work with the AdaptiveScheduler.";
            return Err(internal(&format!("java.lang.UnsupportedOperationException: {why}")));
        }
        Ok(number)
    }
}

fn parse(body: &str) -> Result<BTreeMap<String, Bounds>, super::Response> {
    if body.trim().is_empty() {
        return Ok(BTreeMap::new());
    }
    let mapping = |message: String, more: &[&str]| {
        let first = format!("{JACKSON}.databind.JsonMappingException: {message}");
        let causes: Vec<&str> = std::iter::once(first.as_str()).chain(more.iter().copied()).collect();
        refused_because(400, FORMAT, &causes)
    };
    let parsed: Map<String, Value> = serde_json::from_str(body).map_err(|error| {
        let cause = format!("{JACKSON}.core.JsonParseException: {error}");
        refused_because(400, FORMAT, &[&cause])
    })?;
    let mut asked = BTreeMap::new();
    for (key, value) in parsed {
        if !is_id(&key) {
            let start: String = key.chars().take(2).collect();
            let number = format!("For input string: \"{start}\" under radix 16");
            let chain = "org.apache.flink.runtime.rest.messages.job.JobResourceRequirementsBody";
            let cause = format!("java.lang.NumberFormatException: {number}");
            return Err(mapping(format!("{number} (through reference chain: {chain}[\"{key}\"])"), &[&cause]));
        }
        let bound = |name: &str| value.get("parallelism").and_then(|p| p.get(name)).map_or(Some(-1), Value::as_i64);
        match (bound("lowerBound"), bound("upperBound")) {
            (Some(lower), Some(upper)) if value.get("parallelism").is_some_and(Value::is_object) => {
                asked.insert(key.to_lowercase(), Bounds { lower, upper });
            }
            _ => return Err(mapping("Cannot deserialize value of the parallelism".into(), &[])),
        }
    }
    Ok(asked)
}

/// Everything that is wrong with `asked`, in Flink's words.
fn complaints(job: &Job, asked: &BTreeMap<String, Bounds>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (id, bounds) in asked {
        let Bounds { lower, upper } = *bounds;
        let Some(vertex) = job.spec.vertices.iter().find(|vertex| vertex.id == *id) else {
            complaints.push(format!("Job vertex [{id}] was not found in the JobGraph."));
            continue;
        };
        if (lower < 1 && lower != -1) || (upper < 1 && upper != -1) {
            complaints.push(format!(
                "Both, the requested lower bound [{lower}] and upper bound [{upper}] for job vertex [{id}] must be greater \
                 than zero."
            ));
        } else if upper != -1 && lower > upper {
            complaints.push(format!(
                "The requested lower bound [{lower}] for job vertex [{id}] is higher than the upper bound [{upper}]."
            ));
        }
        if upper > i64::from(vertex.max_parallelism) {
            complaints.push(format!(
                "The newly requested parallelism {upper} for the job vertex {id} exceeds its maximum parallelism {}.",
                vertex.max_parallelism
            ));
        }
    }
    for vertex in job.spec.vertices.iter().filter(|vertex| !asked.contains_key(&vertex.id)) {
        complaints
            .push(format!("The request is incomplete, missing job vertex [{}] resource requirements.", vertex.id));
    }
    complaints
}
