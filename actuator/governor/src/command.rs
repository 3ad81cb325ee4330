//! What is to be carried out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_schemas::decision::{
    APPROVAL_EXPIRES_AFTER_MS, Decision, Direction, Disposition, EXPIRES_AFTER_MS, Parent, Plan, PlannedVertex,
    command_id,
};
use weir_schemas::identity::{JobKey, RunId};
use weir_schemas::policy::Policy;

use crate::observation::Observation;
use crate::{Refusal, wording};

/// A plan that is to be carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// See [`command_id`].
    pub id: String,
    /// The job.
    pub job: JobKey,
    /// The run that it is for.
    pub run: RunId,
    /// What to do.
    pub plan: Plan,
    /// The decision that it came from; empty where a person asked for it.
    #[serde(default)]
    pub decision: String,
    /// Epoch of the analyzer that decided; 0: a person asked for it.
    #[serde(default)]
    pub epoch: u64,
    /// Number of the request that a person made; absent: a decision.
    #[serde(default)]
    pub request: Option<i64>,
    /// When it was decided, in milliseconds since 1970.
    pub issued_at_ms: i64,
    /// When it is too old to be started, in milliseconds since 1970.
    pub expires_at_ms: i64,
    /// How long the job may take to run at the target, on top of Flink's own timers, in milliseconds.
    pub settle_deadline_ms: i64,
    /// How long throughput is compared, in milliseconds.
    pub verify_for_ms: i64,
}

/// Numbers of the job's policy that a command carries along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// See [`Command::settle_deadline_ms`].
    pub settle_deadline_ms: i64,
    /// See [`Command::verify_for_ms`].
    pub verify_for_ms: i64,
}

/// A person's wish to have an earlier size back.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollback<'a> {
    /// The job.
    pub job: &'a JobKey,
    /// The plan that is to be undone: its sizes of before come back.
    pub undo: &'a Plan,
    /// Number of the request.
    pub request: i64,
    /// Number of the plan; no other plan of the job has it.
    pub number: u64,
    /// When it was asked for, in milliseconds since 1970.
    pub asked_at_ms: i64,
}

impl Numbers {
    /// The numbers of a policy.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        Self { settle_deadline_ms: policy.settle_deadline_ms, verify_for_ms: policy.verify_for_ms }
    }
}

impl Command {
    /// The command that carries a decision out, if it is one that is to be carried out, now or once a person approves.
    #[must_use]
    pub fn of_decision(decision: &Decision, numbers: Numbers) -> Option<Self> {
        let expires_after_ms = match decision.disposition {
            Disposition::Act => EXPIRES_AFTER_MS,
            Disposition::AwaitsApproval => APPROVAL_EXPIRES_AFTER_MS,
            Disposition::Nothing | Disposition::Recommend | Disposition::Withheld { .. } => return None,
        };
        let plan = decision.verdict.plan()?.clone();
        Some(Self {
            id: command_id(&decision.job, &plan),
            job: decision.job.clone(),
            run: decision.run.clone(),
            plan,
            decision: decision.id.clone(),
            epoch: decision.epoch,
            request: None,
            issued_at_ms: decision.decided_at_ms,
            expires_at_ms: decision.decided_at_ms.saturating_add(expires_after_ms),
            settle_deadline_ms: numbers.settle_deadline_ms,
            verify_for_ms: numbers.verify_for_ms,
        })
    }

    /// The command that gives a person an earlier size back, made for the job as it is seen now.
    ///
    /// # Errors
    /// Refuses when the graph is another one than that of the earlier size, or runs at it already.
    pub fn roll_back(wish: &Rollback<'_>, seen: &Observation, numbers: Numbers) -> Result<Self, Refusal> {
        let vertices = planned(wish, seen)?;
        let grows = vertices.iter().any(|vertex| vertex.to > vertex.from);
        let parallelism = seen.parallelism();
        let plan = Plan {
            number: wish.number,
            parent: Parent { run: seen.run.clone(), parallelism, requirements: seen.requirements_digest.clone() },
            vertices,
            direction: if grows { Direction::Grow } else { Direction::Shrink },
            short_of_slots: false,
            expected_stop_ms: wish.undo.expected_stop_ms,
            // A person wants it back whatever it does to throughput, so there is nothing to compare with.
            throughput_per_second: 0.0,
            backlog: seen.backlog(),
        };
        Ok(Self {
            id: command_id(wish.job, &plan),
            job: wish.job.clone(),
            run: seen.run.clone(),
            plan,
            decision: String::new(),
            epoch: 0,
            request: Some(wish.request),
            issued_at_ms: wish.asked_at_ms,
            expires_at_ms: wish.asked_at_ms.saturating_add(EXPIRES_AFTER_MS),
            settle_deadline_ms: numbers.settle_deadline_ms,
            verify_for_ms: numbers.verify_for_ms,
        })
    }

    /// Whether a person asked for it.
    #[must_use]
    pub fn is_from_person(&self) -> bool {
        self.request.is_some()
    }

    /// Parallelism before, by vertex id.
    #[must_use]
    pub fn before(&self) -> BTreeMap<String, u32> {
        self.plan.vertices.iter().map(|vertex| (vertex.id.clone(), vertex.from)).collect()
    }
}

/// The vertices of a way back, in the order of the plan that is undone.
fn planned(wish: &Rollback<'_>, seen: &Observation) -> Result<Vec<PlannedVertex>, Refusal> {
    let changed = || Refusal::new("graph_changed", wording::graph_changed());
    let back = |undone: &PlannedVertex| {
        let running = seen.vertices.get(&undone.id).ok_or_else(changed)?;
        let (id, name) = (undone.id.clone(), running.name.clone());
        Ok(PlannedVertex { id, name, from: running.parallelism, to: undone.from })
    };
    let vertices: Vec<PlannedVertex> = wish.undo.vertices.iter().map(back).collect::<Result<_, Refusal>>()?;
    if vertices.len() != seen.vertices.len() {
        return Err(changed());
    }
    if vertices.iter().all(|vertex| vertex.from == vertex.to) {
        return Err(Refusal::new("nothing_to_do", "the job runs at that size already; there is nothing to do".into()));
    }
    Ok(vertices)
}
