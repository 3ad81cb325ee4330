//! Things to put into a database.

use std::collections::BTreeMap;

use weir_schemas::decision::{DECISION_SCHEMA, Decision, Direction, Disposition, Parent, Plan, PlannedVertex, Verdict};
use weir_schemas::identity::{JobKey, RunId};
use weir_schemas::report::Report;
use weir_store::{ActionRow, Commit, DecisionWrite, OutboxWrite};

/// A job of the cluster `prod`.
#[must_use]
pub fn job(name: &str) -> JobKey {
    JobKey::new("prod", name)
}

/// Its run.
#[must_use]
pub fn run() -> RunId {
    RunId { id: "0".repeat(32), start_ms: 1_000 }
}

/// A decision to leave a job as it is.
#[must_use]
pub fn hold(job: &JobKey, id: &str, at_ms: i64) -> Decision {
    Decision {
        schema: DECISION_SCHEMA,
        id: id.into(),
        job: job.clone(),
        run: run(),
        decided_at_ms: at_ms,
        epoch: 1,
        policy: "p".into(),
        verdict: Verdict::Hold { because: "right_size".into() },
        disposition: Disposition::Nothing,
        report: Report::default(),
        sentence: "It is as it should be.".into(),
    }
}

/// A decision to rescale a job, by the plan `number`.
#[must_use]
pub fn rescale(job: &JobKey, id: &str, at_ms: i64, number: u64) -> Decision {
    let plan = Plan {
        number,
        parent: Parent { run: run(), parallelism: BTreeMap::from([("v".into(), 1)]), requirements: String::new() },
        vertices: vec![PlannedVertex { id: "v".into(), name: "map".into(), from: 1, to: 3 }],
        direction: Direction::Grow,
        short_of_slots: false,
        expected_stop_ms: 30_000,
        throughput_per_second: 0.1 + 0.2,
        backlog: Some(1e15),
    };
    Decision { verdict: Verdict::Rescale(plan), disposition: Disposition::Act, ..hold(job, id, at_ms) }
}

/// A decision that differs from the one before.
#[must_use]
pub fn new(decision: Decision) -> DecisionWrite {
    DecisionWrite { decision, changed: true }
}

/// A decision that does not.
#[must_use]
pub fn same(decision: Decision) -> DecisionWrite {
    DecisionWrite { decision, changed: false }
}

/// A commit of the shard `0`, which publishes the ids of new decisions.
#[must_use]
pub fn commit(epoch: u64, state: &str, decisions: Vec<DecisionWrite>) -> Commit {
    let outbox = decisions.iter().filter(|write| write.changed).map(|write| publish(&write.decision.id)).collect();
    Commit {
        shard: "0".into(),
        epoch,
        format: 1,
        state: state.into(),
        positions: format!("{{\"after\":{state:?}}}"),
        decided_through: "{}".into(),
        decisions,
        outbox,
        now_ms: 5_000,
    }
}

/// A row for the outbox of the analyzer.
#[must_use]
pub fn publish(payload: &str) -> OutboxWrite {
    OutboxWrite {
        owner: "analyzer".into(),
        log: "decisions".into(),
        partition: 3,
        key: job("orders").to_string(),
        payload: payload.into(),
    }
}

/// An action that was claimed at `at_ms`, with plan 1.
#[must_use]
pub fn action(id: &str, job: &JobKey, at_ms: i64) -> ActionRow {
    ActionRow {
        id: id.into(),
        job: job.clone(),
        run: run(),
        decision_id: "d".into(),
        state: "claimed".into(),
        open: true,
        restarted: false,
        epoch: 1,
        plan_number: 1,
        created_ms: at_ms,
        updated_ms: at_ms,
        body: "{}".into(),
    }
}
