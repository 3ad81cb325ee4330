//! Bytes that were written once have to stay readable for ever: `tests/samples/` holds one of each kind.
//!
//! A sample is never changed. When a schema grows, a new sample is added beside the old ones: `WRITE_SAMPLES=1 cargo test -p
//! weir-schemas --test samples` writes those that are missing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot build its input should stop there")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use prost::Message;
use weir_schemas::control::{ControlState, Mode};
use weir_schemas::decision::{
    DECISION_SCHEMA, Decision, Direction, Disposition, Parent, Plan, PlannedVertex, Verdict, command_id, decision_id,
};
use weir_schemas::event::CloudEvent;
use weir_schemas::identity::{JobKey, RunId};
use weir_schemas::outcome::{Outcome, OutcomeResult};
use weir_schemas::policy::Policy;
use weir_schemas::records::record::Body;
use weir_schemas::records::{Checkpoints, ClusterFacts, Column, Edge, MetricBatch, Record, Silence, Subtasks, Vertex};
use weir_schemas::report::{
    Cost, Demand, DemandBasis, Gate, Gates, Health, HealthWord, Inputs, LimitApplied, Limits, Problem, Report,
    RuleOutcome, Sizing, SourceDemand, Step, VertexSizing,
};
use weir_schemas::wire;

fn sample(name: &str, bytes: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name);
    if !path.exists() && std::env::var_os("WRITE_SAMPLES").is_some() {
        std::fs::write(&path, bytes()).unwrap();
    }
    std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn job() -> JobKey {
    JobKey { cluster: "prod".into(), namespace: "team a".into(), name: "orders/eu".into() }
}

fn run() -> RunId {
    RunId { id: "0123456789abcdef0123456789abcdef".into(), start_ms: 1_767_225_600_000 }
}

fn record(body: Body) -> Record {
    Record {
        producer: "ingest/prod".into(),
        sequence: 7,
        time_ms: 1_767_225_600_500,
        job: job().to_string(),
        body: Some(body),
    }
}

fn batch() -> MetricBatch {
    let subtasks = Subtasks {
        index: vec![0, 1],
        attempt: vec![0, 3],
        running: vec![true, true],
        records_in: Some(Column::pack([Some(10.0), None])),
        records_out: Some(Column::pack([Some(20.0), Some(0.0)])),
        busy_ms: Some(Column::pack([None, None])),
        idle_ms: None,
        backpressured_ms: Some(Column::pack([Some(1.5), Some(2.5)])),
        task_manager: vec![0, 0],
    };
    let vertex = Vertex {
        id: "a".repeat(32),
        name: "Source: orders".into(),
        parallelism: 2,
        max_parallelism: 128,
        state: "RUNNING".into(),
        is_source: true,
        source_is_chained: false,
        slot_sharing_group: "default".into(),
        subtasks: Some(subtasks),
        pending_records: Some(42.0),
        splits: Some(4),
    };
    MetricBatch {
        schema: 1,
        batch_id: "prod-7".into(),
        round: 7,
        part: 0,
        parts: 1,
        run_id: run().id,
        run_start_ms: run().start_ms,
        job_state: "RUNNING".into(),
        period_ms: 1000,
        refresh_ms: 1000,
        fetched_at_ms: 1_767_225_600_400,
        monotonic_ms: 1234,
        session: "s1".into(),
        vertices: vec![vertex],
        edges: vec![Edge { from: "a".repeat(32), to: "b".repeat(32), ship_strategy: "HASH".into() }],
        checkpoints: Some(Checkpoints {
            enabled: true,
            interval_ms: Some(5000),
            completed: 3,
            ..Checkpoints::default()
        }),
        cluster: Some(ClusterFacts {
            flink_version: "2.3.0".into(),
            scheduler: "Adaptive".into(),
            slots_total: 16,
            ..ClusterFacts::default()
        }),
        restarts: Some(1),
        rescales: None,
        task_managers: Vec::new(),
        same_name: 1,
    }
}

fn plan() -> Plan {
    Plan {
        number: 3,
        parent: Parent { run: run(), parallelism: BTreeMap::from([("a".repeat(32), 1)]), requirements: String::new() },
        vertices: vec![PlannedVertex { id: "a".repeat(32), name: "count".into(), from: 1, to: 5 }],
        direction: Direction::Grow,
        short_of_slots: false,
        expected_stop_ms: 30_000,
        throughput_per_second: 250.0,
        backlog: Some(4400.0),
    }
}

fn decision() -> Decision {
    let vertex = VertexSizing {
        vertex: "a".repeat(32),
        name: "count".into(),
        current: 1,
        target_rate: Some(1600.0),
        capacity_per_subtask: Some(500.0),
        selectivity: None,
        busy: Some(1.0),
        exact: Some(4.57),
        needed: Some(5),
        held: None,
    };
    let source = SourceDemand {
        vertex: "b".repeat(32),
        name: "Source: orders".into(),
        arrival_per_second: 800.0,
        arrival_before_per_second: 790.0,
        backlog: Some(4400.0),
        backlog_slope_per_second: Some(550.0),
        needed_per_second: 1142.9,
        basis: DemandBasis::Utilisation,
    };
    let steps = vec![
        Step::Inputs(Inputs {
            from_ms: 1,
            to_ms: 2,
            rounds: 6,
            refresh_ms: 1000,
            problems: vec![Problem { word: "backlog_unknown".into(), detail: "no lag".into(), grave: false }],
        }),
        Step::Health(Health { word: HealthWord::Overloaded, detail: "4400 wait".into() }),
        Step::Demand(Demand { sources: vec![source] }),
        Step::Sizing(Sizing { utilisation: 0.7, vertices: vec![vertex] }),
        Step::Limits(Limits {
            applied: vec![LimitApplied {
                vertex: "a".repeat(32),
                name: "count".into(),
                from: 6,
                to: 5,
                limit: "policy_max".into(),
                detail: "the policy allows no more".into(),
            }],
        }),
        Step::Gates(Gates {
            gates: vec![Gate { gate: "quiet_period".into(), open: false, opens_at_ms: Some(9), detail: "wait".into() }],
        }),
        Step::Cost(Cost {
            slots_before: 1,
            slots_after: 5,
            expected_stop_ms: 30_000,
            backlog_after_stop: 28_400.0,
            recovery_ms: Some(63_000),
        }),
    ];
    let rules = vec![RuleOutcome { rule: "keeps_up".into(), held: false, detail: "it grows".into() }];
    Decision {
        schema: DECISION_SCHEMA,
        id: decision_id(&job(), &run(), "i1", 99, "p1"),
        job: job(),
        run: run(),
        decided_at_ms: 1_767_225_600_500,
        epoch: 2,
        policy: "p1".into(),
        verdict: Verdict::Rescale(plan()),
        disposition: Disposition::Act,
        report: Report { rules, steps },
        sentence: "orders/eu: count 1 -> 5".into(),
    }
}

fn outcome() -> Outcome {
    Outcome {
        command: command_id(&job(), &plan()),
        decision: decision().id,
        job: job(),
        run: run(),
        at_ms: 1_767_225_610_000,
        result: OutcomeResult::RolledBack { why: "throughput_fell".into() },
        before: BTreeMap::from([("a".repeat(32), 1)]),
        target: plan().target(),
        after: BTreeMap::from([("a".repeat(32), 1)]),
        stop_ms: Some(1800),
        expected_stop_ms: 30_000,
        short_of_slots: false,
        sentence: "rolled back".into(),
    }
}

#[test]
fn records_that_were_written_once_stay_readable() {
    let silence = Silence { round: 8, reason: "finished".into(), detail: "it ended".into(), period_ms: 1000 };
    let control = ControlState { mode: Mode::Auto, paused: false, frozen: true, policy: Policy::default() };
    let bodies = [
        ("metrics-1.bin", Body::Metrics(batch())),
        ("silence-1.bin", Body::Silence(silence)),
        ("outcome-1.bin", Body::OutcomeJson(serde_json::to_vec(&outcome()).unwrap())),
        ("control-1.bin", Body::ControlJson(serde_json::to_vec(&control).unwrap())),
    ];
    for (name, body) in bodies {
        let expected = record(body);
        let written = sample(name, || wire::encode(&expected).unwrap());
        assert_eq!(wire::decode(&written).unwrap(), expected, "{name}");
        assert_eq!(wire::decode(&wire::encode(&expected).unwrap()).unwrap(), expected, "{name}");
    }
}

#[test]
fn json_that_was_written_once_stays_readable_and_is_still_written_like_that() {
    fn check<T>(name: &str, expected: &T)
    where
        T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let written = sample(name, || serde_json::to_vec_pretty(expected).unwrap());
        assert_eq!(&serde_json::from_slice::<T>(&written).unwrap(), expected, "{name}");
        assert_eq!(
            String::from_utf8(written).unwrap().trim_end(),
            serde_json::to_string_pretty(expected).unwrap(),
            "{name}"
        );
    }
    check("decision-1.json", &decision());
    check("outcome-1.json", &outcome());
    check("event-decision-1.json", &CloudEvent::of_decision(&decision()).unwrap());
    check("event-outcome-1.json", &CloudEvent::of_outcome(&outcome()).unwrap());
}

/// What a newer version adds is ignored: fields everywhere, steps of the report, words of health.
#[test]
fn what_a_newer_writer_adds_is_ignored() {
    let mut value = serde_json::to_value(decision()).unwrap();
    value["colour"] = "blue".into();
    value["report"]["steps"][1]["word"] = "radiant".into();
    value["report"]["steps"][2] = serde_json::json!({"step": "forecast", "peak": 9});
    let read: Decision = serde_json::from_value(value).unwrap();
    assert_eq!(read.report.health().unwrap().word, HealthWord::Unknown);
    assert_eq!(read.report.steps[2], Step::Unknown);
    assert_eq!(read.verdict, decision().verdict);

    // Field 99, a length-delimited one, as protobuf writes it.
    let mut bytes = record(Body::Metrics(batch())).encode_to_vec();
    bytes.extend_from_slice(&[0x9a, 0x06, 0x02, b'h', b'i']);
    assert_eq!(Record::decode(bytes.as_slice()).unwrap(), record(Body::Metrics(batch())));
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    assert_eq!(wire::decode(&[2, 0, 0]).unwrap_err().code(), "WR0102");
    assert_eq!(wire::decode(&[]).unwrap_err().code(), "WR0101");
}

/// A replay gives the same ids; ids of different things differ.
#[test]
fn ids_follow_from_what_they_name() {
    assert_eq!(decision().id, "bc45648089e6e2b574091e90d670a72d");
    assert_eq!(command_id(&job(), &plan()), "1477afc1d5803cff5bfa7c15db0cc219");
    let again = Plan { number: 4, ..plan() };
    assert_ne!(command_id(&job(), &again), command_id(&job(), &plan()));
    assert_ne!(decision_id(&job(), &run(), "i1", 100, "p1"), decision().id);
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _refused_or_not = wire::decode(&bytes).is_ok();
        let mut marked = vec![1];
        marked.extend(bytes);
        let _refused_or_not = wire::decode(&marked).is_ok();
    }
}
