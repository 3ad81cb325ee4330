//! The cluster at a glance.

use serde_json::{Value, json};

use crate::model::{Cluster, Job, JobStatus, TaskState};
use crate::num::wide;
use crate::spec::{FlinkVersion, Scheduler};

impl Cluster {
    pub(super) fn dashboard_config(&self) -> Value {
        let version = self.spec.version;
        json!({
            "refresh-interval": self.spec.web_refresh_ms,
            "timezone-name": "Coordinated Universal Time",
            "timezone-offset": 0,
            "flink-version": version.as_str(),
            "flink-revision": format!("{} @ 2026-01-01T00:00:00+00:00", commit(version)),
            "features": { "web-submit": true, "web-cancel": true, "web-rescale": true, "web-history": false },
        })
    }

    pub(super) fn overview(&self) -> Value {
        let count = |status: &[JobStatus]| self.known().filter(|job| status.contains(&job.status)).count();
        json!({
            "taskmanagers": self.pool.registered().count(),
            "slots-total": self.pool.total(),
            "slots-available": self.pool.free(),
            "jobs-running": self.known().filter(|job| !job.status.is_terminal()).count(),
            "jobs-finished": count(&[JobStatus::Finished]),
            "jobs-cancelled": count(&[JobStatus::Canceled]),
            "jobs-failed": count(&[JobStatus::Failed]),
            "flink-version": self.spec.version.as_str(),
            "flink-commit": commit(self.spec.version),
        })
    }

    pub(super) fn job_ids(&self) -> Value {
        let jobs: Vec<Value> =
            self.known().map(|job| json!({ "id": job.spec.id, "status": job.status.as_str() })).collect();
        json!({ "jobs": jobs })
    }

    pub(super) fn jobs_overview(&self, now_ms: i64) -> Value {
        let jobs: Vec<Value> = self.known().map(|job| self.job_overview(now_ms, job)).collect();
        json!({ "jobs": jobs })
    }

    fn job_overview(&self, now_ms: i64, job: &Job) -> Value {
        let view = job.view(now_ms);
        let mut tasks = serde_json::Map::new();
        let mut total = 0;
        for word in TaskState::WORDS {
            let count: u64 =
                view.vertices.iter().filter(|v| v.state.as_str() == word).map(|v| wide(v.subtasks.len())).sum();
            total += count;
            tasks.insert(word.to_lowercase(), count.into());
        }
        tasks.insert("total".into(), total.into());
        let mut overview = json!({
            "jid": job.spec.id,
            "name": job.spec.name,
            "start-time": view.started_ms,
            "end-time": view.ended_ms.unwrap_or(-1),
            "duration": view.ended_ms.unwrap_or(now_ms) - view.started_ms,
            "state": job.status.as_str(),
            "last-modification": view.entered_ms.values().copied().max().unwrap_or(view.started_ms),
            "tasks": tasks,
        });
        if self.spec.version >= FlinkVersion::V2_0 {
            overview["pending-operators"] = 0.into();
        }
        if self.spec.version >= FlinkVersion::V2_3 {
            overview["jobType"] = "STREAMING".into();
            overview["schedulerType"] = self.scheduler_type().into();
        }
        overview
    }

    fn known(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(|job| job.is_known())
    }

    pub(super) fn scheduler_type(&self) -> &'static str {
        match self.spec.scheduler {
            Scheduler::Default => "Default",
            Scheduler::Adaptive | Scheduler::Reactive => "Adaptive",
        }
    }
}

fn commit(version: FlinkVersion) -> &'static str {
    match version {
        FlinkVersion::V1_18 => "a8c8b1c",
        FlinkVersion::V1_20 => "4c5ab5b",
        FlinkVersion::V2_0 => "e8a2f1d",
        FlinkVersion::V2_3 => "c0f8d1a",
    }
}
