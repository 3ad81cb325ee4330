//! A job as the tests see it.

#![allow(dead_code, reason = "every test file takes what it needs")]

use std::collections::BTreeMap;

use weir_governor::{
    Action, Bounds, Command, Context, Controls, Numbers, Observation, Requirements, Scheduler, SeenCheckpoints,
    SeenSource, SeenVertex, targets,
};
use weir_schemas::control::Mode;
use weir_schemas::decision::{DECISION_SCHEMA, Decision, Direction, Disposition, Parent, Plan, PlannedVertex, Verdict};
use weir_schemas::identity::{JobKey, RunId};
use weir_schemas::report::Report;

/// When the tests begin.
pub const T0: i64 = 1_767_225_600_000;

pub fn sizes(source: u32, flatmap: u32, count: u32) -> BTreeMap<String, u32> {
    [("a1", source), ("b2", flatmap), ("c3", count)].map(|(id, size)| (id.to_owned(), size)).into()
}

pub fn before() -> BTreeMap<String, u32> {
    sizes(1, 1, 1)
}

pub fn target() -> BTreeMap<String, u32> {
    sizes(1, 3, 5)
}

pub fn run() -> RunId {
    RunId { id: "0".repeat(32), start_ms: T0 - 60_000 }
}

pub fn plan() -> Plan {
    let names = [("a1", "source"), ("b2", "flatmap"), ("c3", "count")];
    Plan {
        number: 1,
        parent: Parent { run: run(), parallelism: before(), requirements: "1".into() },
        vertices: names
            .map(|(id, name)| PlannedVertex { id: id.into(), name: name.into(), from: before()[id], to: target()[id] })
            .into(),
        direction: Direction::Grow,
        short_of_slots: false,
        expected_stop_ms: 30_000,
        throughput_per_second: 250.0,
        backlog: Some(0.0),
    }
}

pub fn decision(disposition: Disposition) -> Decision {
    Decision {
        schema: DECISION_SCHEMA,
        id: "d1".into(),
        job: JobKey::new("prod", "wordcount"),
        run: run(),
        decided_at_ms: T0,
        epoch: 3,
        policy: "p".into(),
        verdict: Verdict::Rescale(plan()),
        disposition,
        report: Report::default(),
        sentence: String::new(),
    }
}

pub fn command() -> Command {
    let numbers = Numbers { settle_deadline_ms: 120_000, verify_for_ms: 5_000 };
    Command::of_decision(&decision(Disposition::Act), numbers).unwrap()
}

pub fn controls() -> Controls {
    Controls { mode: Mode::Auto, paused: false, frozen: false, approved: false }
}

pub fn context() -> Context<'static> {
    Context { now_ms: T0 + 1_000, controls: controls(), under_way: None, newest_epoch: 3, ours: None }
}

pub fn action() -> Action {
    Action::planned(command())
}

/// A sound job that runs at `sizes` on Flink 2.3, which holds requirements for just that.
pub fn seen(sizes: &BTreeMap<String, u32>, at_ms: i64) -> Observation {
    Observation {
        at_ms,
        run: run(),
        job_state: "RUNNING".into(),
        vertices: sizes.iter().map(|(id, &size)| (id.clone(), vertex(size, size))).collect(),
        requirements: Some(targets(sizes)),
        requirements_digest: "1".into(),
        scheduler: Scheduler::Adaptive,
        rival: None,
        same_name: 1,
        flink_version: "2.3.0".into(),
        checkpoints: SeenCheckpoints {
            enabled: true,
            interval_ms: Some(10_000),
            completed: 7,
            latest_id: Some(7),
            latest_duration_ms: Some(200),
            in_progress: false,
            restored: false,
        },
        sources: [("a1".to_owned(), source(0.0, 0, Some(0.0)))].into(),
        slots_free: Some(8),
        all_tasks_run: None,
    }
}

pub fn vertex(parallelism: u32, running: u32) -> SeenVertex {
    SeenVertex { name: "v".into(), parallelism, running, initializing: 0, max_parallelism: 128 }
}

pub fn source(records_out: f64, attempt: u32, pending: Option<f64>) -> SeenSource {
    SeenSource { records_out, attempts: format!("0:{attempt}"), pending }
}

pub fn bounds(sizes: &BTreeMap<String, u32>) -> Requirements {
    sizes.iter().map(|(id, &upper)| (id.clone(), Bounds { lower: 1, upper })).collect()
}
