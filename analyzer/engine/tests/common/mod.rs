//! A word count whose rounds are made by a few lines of arithmetic: source -> flatmap (2 words a line) -> count.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

use weir_engine::{Context, Folded, Judged, Shard};
use weir_schemas::control::{ControlState, Mode};
use weir_schemas::decision::Verdict;
use weir_schemas::identity::JobKey;
use weir_schemas::outcome::{Outcome, OutcomeResult};
use weir_schemas::policy::Policy;
use weir_schemas::records::record::Body;
use weir_schemas::records::{Checkpoints, ClusterFacts, Column, Edge, MetricBatch, Record, Silence, Subtasks, Vertex};

pub const NAMES: [&str; 3] = ["source", "flatmap", "count"];
/// Records a second that one subtask of flatmap (lines) and of count (words) can do.
const CAPACITY: [f64; 3] = [f64::INFINITY, 500.0, 500.0];

/// The job, the engine that watches it, and the time.
pub struct World {
    pub shard: Shard,
    pub now_ms: i64,
    pub rate: f64,
    pub backlog: f64,
    pub parallelism: [u32; 3],
    pub attempt: u32,
    pub run: String,
    pub state: String,
    pub tells_backlog: bool,
    pub facts: ClusterFacts,
    pub same_name: u32,
    pub checkpoints: Checkpoints,
    /// Skips one subtask of this vertex, as if its metrics were late.
    pub silent_vertex: Option<usize>,
    /// What all subtasks of count together can do, whatever their number.
    pub limit_of_count: Option<f64>,
    /// One subtask of count does half of the work.
    pub hot: bool,
    pub sequence: u64,
    round: u64,
    counters: [[f64; 5]; 3],
}

impl World {
    pub fn new(mode: Mode) -> Self {
        let facts = ClusterFacts {
            flink_version: "2.3.0".into(),
            scheduler: "Adaptive".into(),
            slots_total: 16,
            slots_free: 13,
            jobs_running: 1,
            ..ClusterFacts::default()
        };
        let mut world = Self {
            shard: Shard::default(),
            now_ms: 1_000_000,
            rate: 800.0,
            backlog: 0.0,
            parallelism: [1, 1, 1],
            attempt: 0,
            run: "a".repeat(32),
            state: "RUNNING".into(),
            tells_backlog: true,
            facts,
            same_name: 1,
            checkpoints: Checkpoints { enabled: true, completed: 3, ..Checkpoints::default() },
            silent_vertex: None,
            limit_of_count: None,
            hot: false,
            sequence: 0,
            round: 0,
            counters: [[0.0; 5]; 3],
        };
        world.control(ControlState { mode, policy: Self::policy(), ..ControlState::default() });
        world
    }

    pub fn policy() -> Policy {
        Policy { shrink_after_ms: 20_000, ..Policy::default() }
    }

    pub fn key() -> JobKey {
        JobKey::new("test", "wordcount")
    }

    pub fn record(&mut self, producer: &str, body: Body) -> Record {
        self.sequence += 1;
        Record {
            producer: producer.into(),
            sequence: self.sequence,
            time_ms: self.now_ms,
            job: Self::key().to_string(),
            body: Some(body),
        }
    }

    pub fn control(&mut self, control: ControlState) {
        let record = self.record("control", Body::ControlJson(serde_json::to_vec(&control).unwrap()));
        assert_eq!(self.shard.fold(record), Folded::Merged(Self::key()));
    }

    pub fn outcome(&mut self, result: OutcomeResult) {
        let action = self.shard.jobs[&Self::key()].in_flight.clone().unwrap();
        let outcome = Outcome {
            command: action.command,
            decision: "a decision".into(),
            job: Self::key(),
            run: self.shard.jobs[&Self::key()].run().unwrap().clone(),
            at_ms: self.now_ms,
            result,
            before: action.target.clone(),
            target: action.target,
            after: std::collections::BTreeMap::new(),
            stop_ms: None,
            expected_stop_ms: 0,
            short_of_slots: false,
            sentence: String::new(),
        };
        let record = self.record("actuator", Body::OutcomeJson(serde_json::to_vec(&outcome).unwrap()));
        assert_eq!(self.shard.fold(record), Folded::Merged(Self::key()));
    }

    /// What becomes of a command that a person gave, such as to undo an action.
    pub fn persons_command(&mut self, result: OutcomeResult, before: [u32; 3], target: [u32; 3]) {
        let sizes = |sizes: [u32; 3]| (0..3).map(|vertex| (id(vertex), sizes[vertex])).collect();
        let outcome = Outcome {
            command: "a person's".into(),
            decision: String::new(),
            job: Self::key(),
            run: self.shard.jobs[&Self::key()].run().unwrap().clone(),
            at_ms: self.now_ms,
            result,
            before: sizes(before),
            target: sizes(target),
            after: sizes(target),
            stop_ms: None,
            expected_stop_ms: 0,
            short_of_slots: false,
            sentence: String::new(),
        };
        let record = self.record("actuator", Body::OutcomeJson(serde_json::to_vec(&outcome).unwrap()));
        assert_eq!(self.shard.fold(record), Folded::Merged(Self::key()));
    }

    pub fn silence(&mut self, reason: &str) -> Option<Judged> {
        let silence =
            Silence { round: self.round, reason: reason.into(), detail: "nothing came".into(), period_ms: 1000 };
        let record = self.record("ingest", Body::Silence(silence));
        self.fold(record)
    }

    /// Restarts the job at other sizes, as a rescale does.
    pub fn restart(&mut self, parallelism: [u32; 3]) {
        self.parallelism = parallelism;
        self.attempt += 1;
        self.counters = [[0.0; 5]; 3];
    }

    /// One second goes by, and a round is read.
    pub fn second(&mut self) -> Option<Judged> {
        self.pass(1.0);
        let batch = self.batch();
        let record = self.record("ingest", Body::Metrics(batch));
        self.fold(record)
    }

    pub fn fold(&mut self, record: Record) -> Option<Judged> {
        let context = Context { now_ms: record.time_ms, incarnation: "i".into(), position: self.sequence, epoch: 1 };
        match self.shard.fold(record) {
            Folded::Judge(key) => self.shard.jobs.get_mut(&key).unwrap().decide(&key, &context),
            _ => None,
        }
    }

    /// Judges each second until a verdict satisfies `wanted`; the seconds that it took, and the judgement.
    pub fn until(&mut self, at_most_s: u32, wanted: impl Fn(&Judged) -> bool) -> (u32, Judged) {
        for second in 1..=at_most_s {
            if let Some(judged) = self.second().filter(|judged| wanted(judged)) {
                return (second, judged);
            }
        }
        panic!("not within {at_most_s} s");
    }

    /// Every judgement of the next seconds.
    pub fn watch(&mut self, seconds: u32) -> Vec<Judged> {
        (0..seconds).filter_map(|_| self.second()).collect()
    }

    /// What flows in `seconds`: the source reads as much as the tightest vertex lets through.
    pub fn pass(&mut self, seconds: f64) {
        self.now_ms += (seconds * 1000.0) as i64;
        self.round += 1;
        let limit = |vertex: usize| match self.limit_of_count.filter(|_| vertex == 2) {
            Some(limit) => limit,
            // The subtask with half of the work takes twice its own capacity at most.
            None if self.hot && vertex == 2 => 2.0 * CAPACITY[2],
            None => CAPACITY[vertex] * f64::from(self.parallelism[vertex]),
        };
        let offered = self.rate + self.backlog / seconds;
        let lines = offered.min(limit(1)).min(limit(2) / 2.0);
        self.backlog = (self.backlog + (self.rate - lines) * seconds).max(0.0);
        let held_back = lines < offered - 1e-9;
        for (vertex, [taken, handed]) in
            [[lines, lines], [lines, lines * 2.0], [lines * 2.0, 0.0]].into_iter().enumerate()
        {
            let whole = if self.hot { CAPACITY[vertex] * f64::from(self.parallelism[vertex]) } else { limit(vertex) };
            let busy = if vertex == 0 { 0.05 } else { taken / whole };
            let blocked = if held_back && (vertex == 0 || busy < 1.0) && vertex < 2 { 1.0 - busy } else { 0.0 };
            for (slot, value) in [taken, handed, busy * 1000.0, (1.0 - busy - blocked) * 1000.0, blocked * 1000.0]
                .into_iter()
                .enumerate()
            {
                self.counters[vertex][slot] += value * seconds;
            }
        }
    }

    pub fn batch(&self) -> MetricBatch {
        let vertices = (0..3).map(|vertex| self.vertex(vertex)).collect();
        let edge = |from: usize, to: usize| Edge { from: id(from), to: id(to), ship_strategy: "HASH".into() };
        MetricBatch {
            schema: 1,
            batch_id: format!("b{}", self.round),
            round: self.round,
            part: 0,
            parts: 1,
            run_id: self.run.clone(),
            run_start_ms: 1,
            job_state: self.state.clone(),
            period_ms: 1000,
            refresh_ms: 1000,
            fetched_at_ms: self.now_ms,
            monotonic_ms: self.now_ms,
            session: "s".into(),
            vertices,
            edges: vec![edge(0, 1), edge(1, 2)],
            checkpoints: Some(self.checkpoints),
            cluster: Some(self.facts.clone()),
            same_name: self.same_name,
            ..MetricBatch::default()
        }
    }

    fn vertex(&self, vertex: usize) -> Vertex {
        let parallelism = self.parallelism[vertex];
        let share = |slot: usize, each: bool| {
            let total = self.counters[vertex][slot];
            let value = if each { total } else { total / f64::from(parallelism) };
            let silent = |index: u32| self.silent_vertex == Some(vertex) && index == 0;
            let of = |index: u32| match index {
                _ if !self.hot || vertex != 2 || slot != 2 => value,
                0 => value * f64::from(parallelism) / 2.0,
                _ => value * f64::from(parallelism) / 2.0 / f64::from(parallelism - 1),
            };
            Column::pack((0..parallelism).map(|index| (!silent(index)).then_some(of(index))))
        };
        Vertex {
            id: id(vertex),
            name: NAMES[vertex].into(),
            parallelism,
            max_parallelism: 128,
            state: "RUNNING".into(),
            is_source: vertex == 0,
            subtasks: Some(Subtasks {
                index: (0..parallelism).collect(),
                attempt: vec![self.attempt; parallelism as usize],
                running: vec![self.state == "RUNNING"; parallelism as usize],
                records_in: Some(share(0, false)),
                records_out: Some(share(1, false)),
                busy_ms: Some(share(2, true)),
                idle_ms: Some(share(3, true)),
                backpressured_ms: Some(share(4, true)),
                task_manager: Vec::new(),
            }),
            pending_records: (vertex == 0 && self.tells_backlog).then_some(self.backlog),
            ..Vertex::default()
        }
    }
}

pub fn id(vertex: usize) -> String {
    format!("{vertex:032x}")
}

/// Sizes of a plan, in order.
pub fn sizes(judged: &Judged) -> Option<[u32; 3]> {
    let plan = judged.decision.verdict.plan()?;
    Some([plan.vertices[0].to, plan.vertices[1].to, plan.vertices[2].to])
}

pub fn because(judged: &Judged) -> String {
    match &judged.decision.verdict {
        Verdict::Hold { because } => because.clone(),
        other => other.word(),
    }
}
