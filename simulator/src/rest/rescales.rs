//! Rescale history of Flink 2.3.

use serde_json::{Value, json};

use super::Answer;
use super::errors::{job_not_found, refused};
use crate::model::{Cause, Cluster, Job, RescaleRecord};
use crate::rng::hex_id;
use crate::spec::{FlinkVersion, Scheduler};

impl Cluster {
    pub(super) fn about_rescales(&self, id: &str, rest: &[&str]) -> Option<Answer> {
        if self.spec.version < FlinkVersion::V2_3 || !matches!(rest, ["config" | "history"]) {
            return None;
        }
        let Some(job) = self.jobs.iter().find(|job| job.spec.id == id && job.is_known()) else {
            return Some(Err(job_not_found(id)));
        };
        if self.spec.scheduler == Scheduler::Default {
            return Some(Err(refused(404, &format!("AdaptiveScheduler is not enabled for this job ({id})."))));
        }
        Some(Ok(if rest == ["config"] { self.rescale_config(job) } else { history(job) }))
    }

    fn rescale_config(&self, job: &Job) -> Value {
        let spec = &self.spec;
        let mode = if spec.scheduler == Scheduler::Reactive { json!("REACTIVE") } else { Value::Null };
        json!({
            "rescaleHistoryMax": 50,
            "schedulerExecutionMode": mode,
            "submissionResourceWaitTimeoutInMillis": spec.resource_wait_ms,
            "submissionResourceStabilizationTimeoutInMillis": spec.submission_stabilization_ms,
            "slotIdleTimeoutInMillis": spec.slot_idle_ms,
            "executingCooldownTimeoutInMillis": spec.cooldown_ms,
            "executingResourceStabilizationTimeoutInMillis": spec.executing_stabilization_ms,
            "maximumDelayForTriggeringRescaleInMillis": job.max_delay_ms(spec),
            "rescaleOnFailedCheckpointCount": 2,
        })
    }
}

/// Newest first.
fn history(job: &Job) -> Value {
    let first = job.first_running_ms().map(|(from, to)| entry(job, 0, "INITIAL_SCHEDULE", from, Some(to)));
    let later = job.history().iter().enumerate().map(|(number, record): (usize, &RescaleRecord)| {
        let cause = match record.cause {
            Cause::Requirements => "UPDATE_REQUIREMENT",
            Cause::Resources => "NEW_RESOURCE_AVAILABLE",
            Cause::Failure => "RECOVERABLE_FAILOVER",
        };
        entry(job, number + 1, cause, record.at_ms, record.running_at_ms)
    });
    let mut entries: Vec<Value> = first.into_iter().chain(later).collect();
    entries.reverse();
    entries.into()
}

fn entry(job: &Job, number: usize, cause: &str, from_ms: i64, to_ms: Option<i64>) -> Value {
    let mut entry = json!({
        "rescaleUuid": hex_id(&format!("rescale {} {number}", job.spec.id)),
        "resourceRequirementsUuid": hex_id(&format!("requirements {} {number}", job.spec.id)),
        "rescaleAttemptId": 1,
        "vertices": {},
        "slots": {},
        "schedulerStates": [],
        "startTimestampInMillis": from_ms,
        "triggerCause": cause,
    });
    if let Some(to_ms) = to_ms {
        entry["endTimestampInMillis"] = to_ms.into();
        entry["terminalState"] = "COMPLETED".into();
        entry["terminatedReason"] = "SUCCEEDED".into();
    }
    entry
}
