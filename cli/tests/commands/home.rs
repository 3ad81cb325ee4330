//! A folder of data with jobs, decisions and actions in it, and a way to run commands there.

use std::path::Path;

use clap::Parser;
use serde_json::{Value, json};
use tempfile::TempDir;
use weir::commands::{Command, CommandError, Global, run};
use weir::exit::Exit;
use weir::output::Output;
use weir_schemas::decision::{DECISION_SCHEMA, Decision, Direction, Disposition, Parent, Plan, PlannedVertex, Verdict};
use weir_schemas::identity::{JobKey, RunId};
use weir_schemas::report::{
    Cost, Demand, DemandBasis, Gate, Gates, Health, HealthWord, Inputs, LimitApplied, Limits, Problem, Report,
    RuleOutcome, Sizing, SourceDemand, Step, VertexSizing,
};
use weir_store::{ActionRow, Commit, DecisionWrite, Store};

/// 2026-01-31 08:15:30 UTC: the time at which all tests run.
pub const NOW: i64 = 1_769_847_330_000;

#[derive(Parser)]
#[command(name = "weir", no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

pub struct Home {
    pub folder: TempDir,
    pub store: Store,
}

/// What a command came to.
#[derive(Debug)]
pub struct Ran {
    pub text: String,
    pub result: Result<Exit, CommandError>,
}

impl Home {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join(Store::FILE)).await.unwrap();
        Self { folder, store }
    }

    /// Runs a command line, printing a table.
    pub async fn run(&self, line: &str) -> Ran {
        run_in(self.folder.path(), line, Output::Table).await
    }

    /// Runs a command line that has to succeed; what it printed.
    pub async fn text(&self, line: &str) -> String {
        let ran = self.run(line).await;
        assert_eq!(ran.result.unwrap(), Exit::Ok, "{line}");
        ran.text
    }

    /// Runs a command line that has to succeed, with `--output json`.
    pub async fn json(&self, line: &str) -> Value {
        let ran = run_in(self.folder.path(), line, Output::Json).await;
        assert_eq!(ran.result.unwrap(), Exit::Ok, "{line}");
        serde_json::from_str(&ran.text).unwrap()
    }

    /// Runs a command line that has to fail; the error.
    pub async fn error(&self, line: &str) -> CommandError {
        let ran = self.run(line).await;
        assert_eq!(ran.text, "", "nothing is printed before an error: {line}");
        ran.result.unwrap_err()
    }

    pub async fn seen(&self, jobs: &[&JobKey]) {
        let run = run_id();
        self.store.seen_jobs(jobs.iter().map(|job| (*job, &run)), NOW - 3_000).await.unwrap();
    }

    pub async fn decided(&self, decisions: &[Decision]) {
        let write = |decision: &Decision| DecisionWrite { decision: decision.clone(), changed: true };
        let commit = Commit {
            shard: "0".into(),
            epoch: 1,
            format: 1,
            state: Vec::new(),
            positions: "{}".into(),
            decided_through: "{}".into(),
            decisions: decisions.iter().map(write).collect(),
            outbox: Vec::new(),
            now_ms: NOW,
        };
        self.store.commit(&commit).await.unwrap();
        let jobs: Vec<&JobKey> = decisions.iter().map(|decision| &decision.job).collect();
        self.seen(&jobs).await;
    }

    pub async fn acted(&self, action: &ActionRow) {
        assert!(self.store.claim_action(action, None, Vec::new()).await.unwrap());
    }
}

pub async fn run_in(data: &Path, line: &str, output: Output) -> Ran {
    let words: Vec<String> = line.split_whitespace().map(ToOwned::to_owned).collect();
    let command = Line::try_parse_from(words).unwrap().command;
    let address = weir_store::Address::file(&data.join(weir_store::Store::FILE));
    let global = Global { address, output, now_ms: NOW, by: "ada".into() };
    let mut out = Vec::new();
    let result = run(command, &global, &mut out).await;
    Ran { text: String::from_utf8(out).unwrap(), result }
}

pub fn wordcount() -> JobKey {
    JobKey::new("prod", "wordcount")
}

pub fn run_id() -> RunId {
    RunId { id: "8f1c0f5a7d0e4c0f9b0d6f3a2e1b4c5d".into(), start_ms: NOW - 3_600_000 }
}

/// A decision about `job` that was made 3 s ago, because of `why`.
fn decision(job: JobKey, id: &str, found: (Verdict, Disposition), report: Report, why: &str) -> Decision {
    let (verdict, disposition) = found;
    let what = match &verdict {
        Verdict::Rescale(plan) => format!("{}, since {why} ({disposition})", plan.arrows()),
        Verdict::Hold { because } => format!("holds ({}): {why}", because.replace('_', " ")),
        Verdict::CannotHelp { cause } => format!("more subtasks cannot help ({}): {why}", cause.replace('_', " ")),
    };
    let sentence = format!("{}: {what}", job.name);
    Decision {
        schema: DECISION_SCHEMA,
        id: id.into(),
        job,
        run: run_id(),
        decided_at_ms: NOW - 3_000,
        epoch: 1,
        policy: "0011223344556677".into(),
        verdict,
        disposition,
        report,
        sentence,
    }
}

pub fn plan(number: u64, sizes: [(u32, u32); 3]) -> Plan {
    let names = ["source", "flatmap", "count"];
    let vertices: Vec<PlannedVertex> = names
        .iter()
        .zip(sizes)
        .map(|(name, (from, to))| PlannedVertex { id: format!("v-{name}"), name: (*name).into(), from, to })
        .collect();
    let parallelism = vertices.iter().map(|vertex| (vertex.id.clone(), vertex.from)).collect();
    Plan {
        number,
        parent: Parent { run: run_id(), parallelism, requirements: String::new() },
        direction: if sizes.iter().any(|(from, to)| to > from) { Direction::Grow } else { Direction::Shrink },
        vertices,
        short_of_slots: false,
        expected_stop_ms: 30_000,
        throughput_per_second: 800.0,
        backlog: Some(4_400.0),
    }
}

pub fn inputs() -> Inputs {
    Inputs { from_ms: NOW - 9_000, to_ms: NOW - 3_000, rounds: 12, refresh_ms: 1_000, problems: Vec::new() }
}

pub fn health(word: HealthWord, detail: &str) -> Step {
    Step::Health(Health { word, detail: detail.into() })
}

fn demand(backlog: f64, slope: f64, basis: DemandBasis) -> Step {
    Step::Demand(Demand {
        sources: vec![SourceDemand {
            vertex: "v-source".into(),
            name: "source".into(),
            arrival_per_second: 800.0,
            arrival_before_per_second: 799.6,
            backlog: Some(backlog),
            backlog_slope_per_second: Some(slope),
            needed_per_second: 1142.857,
            basis,
        }],
    })
}

fn sizing(current: [u32; 3], busy: [f64; 3]) -> Step {
    let vertex = |index: usize, name: &str, rate: f64, selectivity: f64, needed: Option<(f64, u32)>| VertexSizing {
        vertex: format!("v-{name}"),
        name: name.into(),
        current: current[index],
        target_rate: Some(rate),
        capacity_per_subtask: needed.map(|_| 500.0),
        selectivity: Some(selectivity),
        busy: Some(busy[index]),
        exact: needed.map(|(exact, _)| exact),
        needed: needed.map(|(_, needed)| needed),
        held: needed.is_none().then(|| "a source reads what arrives; it is not sized".into()),
    };
    Step::Sizing(Sizing {
        utilisation: 0.7,
        vertices: vec![
            vertex(0, "source", 800.0, 1.0, None),
            vertex(1, "flatmap", 800.0, 2.0, Some((2.2857, 3))),
            vertex(2, "count", 1600.0, 0.0, Some((4.5714, 5))),
        ],
    })
}

pub fn gate(word: &str, open: bool, opens_at_ms: Option<i64>, detail: &str) -> Gate {
    Gate { gate: word.into(), open, opens_at_ms, detail: detail.into() }
}

fn rules(keeps_up: bool) -> Vec<RuleOutcome> {
    let rule = |rule: &str, held, detail: &str| RuleOutcome { rule: rule.into(), held, detail: detail.into() };
    vec![
        rule("keeps_up", keeps_up, "the backlog of 4400 records changes by 550 a second"),
        rule("has_headroom", true, "no vertex is to work more than 90 % of its time; flatmap is the busiest at 50 %"),
    ]
}

/// The word count that gets more than it can do.
pub fn grow(disposition: Disposition) -> Decision {
    let cost = Cost {
        slots_before: 1,
        slots_after: 5,
        expected_stop_ms: 30_000,
        backlog_after_stop: 28_400.0,
        recovery_ms: Some(82_000),
    };
    let open = |word: &str| gate(word, true, None, "fine");
    let steps = vec![
        Step::Inputs(inputs()),
        health(HealthWord::Overloaded, "800 records/s arrive, 4400 wait; count is the busiest at 100 %"),
        demand(4_400.0, 550.0, DemandBasis::Utilisation),
        sizing([1, 1, 1], [0.2, 0.5, 1.0]),
        Step::Gates(Gates { gates: ["scheduler", "checkpoints", "ambiguous_name"].map(open).to_vec() }),
        Step::Cost(cost),
    ];
    let verdict = Verdict::Rescale(plan(1, [(1, 1), (1, 3), (1, 5)]));
    let report = Report { rules: rules(false), steps };
    let why = "800 records/s arrive: count will get 1600/s and its 1 subtask can do 500/s, 4.6 needed at 70 % busy";
    decision(wordcount(), "9a0b1c2d3e4f5061728394a5b6c7d8e9", (verdict, disposition), report, why)
}

/// A job that is larger than it needs to be, and not for long enough.
pub fn shrink() -> Decision {
    let gates = vec![
        gate("scheduler", true, None, "the adaptive scheduler takes new requirements"),
        gate("quiet_period", false, Some(NOW + 240_000), "less has to be enough for 5 min"),
        gate("benefit", true, None, "it saves 3 of 8 slots and costs a stop of about 30 s"),
        gate("data", false, None, "a shrink needs complete data"),
    ];
    let limits = Limits {
        applied: vec![LimitApplied {
            vertex: "v-flatmap".into(),
            name: "flatmap".into(),
            from: 3,
            to: 4,
            limit: "policy_min".into(),
            detail: "the policy asks for no fewer".into(),
        }],
    };
    let mut inputs = inputs();
    inputs.problems.push(Problem {
        word: "backlog_unknown".into(),
        detail: "source is held back and its connector tells no backlog: at least this much arrives".into(),
        grave: false,
    });
    let steps = vec![
        Step::Inputs(inputs),
        health(HealthWord::Healthy, "800 records/s arrive, 0 wait; flatmap is the busiest at 27 %"),
        demand(0.0, 0.0, DemandBasis::Recovery),
        sizing([1, 8, 8], [0.2, 0.27, 0.2]),
        Step::Limits(limits),
        Step::Gates(Gates { gates }),
        Step::Unknown,
    ];
    let verdict = Verdict::Rescale(plan(4, [(1, 1), (8, 4), (8, 5)]));
    let disposition = Disposition::Withheld { gate: "quiet_period".into() };
    let report = Report { rules: rules(true), steps };
    let (job, why) = (JobKey::new("prod", "clicks"), "800 records/s arrive");
    decision(job, "5e11aa00bb11cc22dd33ee44ff556677", (verdict, disposition), report, why)
}

/// A job of which too little is known.
pub fn hold() -> Decision {
    let problem = Problem {
        word: "not_running".into(),
        detail: "the job is RESTARTING, or not all its subtasks run".into(),
        grave: true,
    };
    let inputs = Inputs { problems: vec![problem], ..Inputs::default() };
    let steps =
        vec![Step::Inputs(inputs), health(HealthWord::Down, "the job is RESTARTING, or not all its subtasks run")];
    let verdict = Verdict::Hold { because: "not_running".into() };
    let report = Report { rules: Vec::new(), steps };
    let job = JobKey::new("prod", "orders");
    let why = "the job is RESTARTING, or not all its subtasks run";
    decision(job, "401d00112233445566778899aabbccdd", (verdict, Disposition::Nothing), report, why)
}

/// A job whose source does all the work.
pub fn cannot_help() -> Decision {
    let source = VertexSizing {
        vertex: "v-source".into(),
        name: "source, then all the rest".into(),
        current: 2,
        target_rate: Some(12_345.0),
        capacity_per_subtask: None,
        selectivity: None,
        busy: Some(1.0),
        exact: None,
        needed: None,
        held: Some("SourceNotSized: how fast it could read is not measured yet".into()),
    };
    let mut demand = SourceDemand {
        vertex: "v-source".into(),
        name: "source, then all the rest".into(),
        arrival_per_second: 12_345.0,
        arrival_before_per_second: 12_300.0,
        backlog: None,
        backlog_slope_per_second: None,
        needed_per_second: 17_635.7,
        basis: DemandBasis::Utilisation,
    };
    let other = SourceDemand { name: "second".into(), backlog: Some(10.0), ..demand.clone() };
    demand.backlog = None;
    let steps = vec![
        Step::Inputs(inputs()),
        health(HealthWord::Overloaded, "12.3 k records/s arrive, 0 wait"),
        Step::Demand(Demand { sources: vec![demand, other] }),
        Step::Sizing(Sizing { utilisation: 0.7, vertices: vec![source] }),
    ];
    let verdict = Verdict::CannotHelp { cause: "source_not_sized".into() };
    let report = Report { rules: rules(false), steps };
    let job = JobKey { cluster: "test".into(), namespace: "team a".into(), name: "orders".into() };
    let why = "12.3 k records/s arrive, 0 wait";
    decision(job, "ca00112233445566778899aabbccddee", (verdict, Disposition::Nothing), report, why)
}

/// An action on the word count, as the actuator writes it.
pub fn action(id: &str, number: u64, state: &str, decision_id: &str) -> ActionRow {
    let open = !matches!(state, "verified" | "rolled_back" | "failed" | "refused");
    let why = match state {
        "rolled_back" => Some("throughput_fell"),
        "refused" => Some("parent_gone"),
        "failed" => Some("rollback_failed"),
        _ => None,
    };
    let body = json!({
        "command": { "id": id, "plan": plan(number, [(1, 1), (1, 3), (1, 5)]) },
        "phase": { "phase": state, "why": why },
        "stop": { "began_ms": NOW - 60_000, "ended_ms": NOW - 48_000 },
        "throughput_after": 1600.0,
    });
    let number_ms = i64::try_from(number).unwrap();
    ActionRow {
        id: id.into(),
        job: wordcount(),
        run: run_id(),
        decision_id: decision_id.into(),
        state: state.into(),
        open,
        restarted: !open && state != "refused",
        epoch: 1,
        plan_number: number,
        created_ms: NOW - 70_000 + number_ms,
        updated_ms: NOW - 40_000 + number_ms,
        body: body.to_string(),
    }
}
