//! A chain of vertices that runs evenly, as the collector would record it.

use weir_schemas::records::record::Body;
use weir_schemas::records::{
    Checkpoints, ClusterFacts, Column, Edge, MetricBatch, Record, Subtasks, TaskManager, Vertex,
};

/// Slots of each TaskManager.
const SLOTS: u32 = 4;
/// Records that one subtask takes in each second.
const RATE: f64 = 10_000.0;
/// Counters do not begin at zero, since small numbers compress better than a job's usual ones: a day has gone by.
const SECONDS_BEFORE: f64 = 86_400.0;
/// Subtasks differ by as much as this share, so that the counters do not repeat each other.
const UNEVEN: f64 = 0.03;
const MIB: f64 = 1_048_576.0;

/// A chain of vertices of one parallelism; the first one is a source that has no backlog.
#[derive(Debug, Clone)]
pub struct SyntheticJob {
    parallelism: u32,
    /// Share of its time that each subtask works.
    busy: f64,
    round: u32,
    counters: Vec<Vec<Counters>>,
}

/// Counters of a subtask: records in and out, and milliseconds of work and of waiting for input.
#[derive(Debug, Clone, Copy)]
struct Counters {
    records_in: f64,
    records_out: f64,
    busy_ms: f64,
    idle_ms: f64,
}

impl SyntheticJob {
    /// A job of `vertices` times `parallelism` subtasks, each of which works for a share `busy` of its time.
    #[must_use]
    pub fn new(vertices: u32, parallelism: u32, busy: f64) -> Self {
        let nothing = Counters { records_in: 0.0, records_out: 0.0, busy_ms: 0.0, idle_ms: 0.0 };
        let none = vec![nothing; parallelism.try_into().unwrap_or(0)];
        let counters = (0..vertices).map(|_| none.clone()).collect();
        let mut job = Self { parallelism, busy, round: 0, counters };
        job.pass(SECONDS_BEFORE);
        job
    }

    /// Key of the job.
    #[must_use]
    pub fn key() -> &'static str {
        "bench/default/chain"
    }

    /// One second later: the round that is read then, as an entry of the metrics stream.
    #[must_use]
    pub fn next_round(&mut self) -> Record {
        self.round += 1;
        self.pass(1.0);
        Record {
            producer: "bench".into(),
            sequence: u64::from(self.round),
            time_ms: self.now_ms(),
            job: Self::key().into(),
            body: Some(Body::Metrics(self.batch())),
        }
    }

    fn now_ms(&self) -> i64 {
        1_750_000_000_000 + i64::from(self.round) * 1_000
    }

    fn pass(&mut self, seconds: f64) {
        let subtasks = self.counters.iter_mut().flatten();
        for (number, counters) in (0u64..).zip(subtasks) {
            // Counters of their own, each uneven in its own way: what repeats itself would be compressed away.
            let some = |rate: f64, counter: u64| {
                let seed = (number << 2 | counter) << 32 | u64::from(self.round);
                (rate * seconds * (1.0 + UNEVEN * noise(seed))).round()
            };
            let busy_ms = some(1_000.0 * self.busy, 0);
            counters.busy_ms += busy_ms;
            counters.idle_ms += 1_000.0 * seconds - busy_ms;
            counters.records_in += some(RATE, 1);
            counters.records_out += some(RATE, 2);
        }
    }

    fn batch(&self) -> MetricBatch {
        let vertices: Vec<Vertex> = (0..).zip(&self.counters).map(|(at, counters)| self.vertex(at, counters)).collect();
        let edge =
            |pair: &[Vertex]| Edge { from: pair[0].id.clone(), to: pair[1].id.clone(), ship_strategy: "HASH".into() };
        MetricBatch {
            schema: 1,
            batch_id: format!("bench-{}", self.round),
            round: u64::from(self.round),
            parts: 1,
            run_id: "5f".repeat(16),
            run_start_ms: 1_749_900_000_000,
            job_state: "RUNNING".into(),
            period_ms: 1_000,
            refresh_ms: 1_000,
            fetched_at_ms: self.now_ms(),
            monotonic_ms: self.now_ms(),
            session: "bench".into(),
            edges: vertices.windows(2).map(edge).collect(),
            vertices,
            checkpoints: Some(Checkpoints { enabled: true, completed: 3, ..Checkpoints::default() }),
            cluster: Some(self.cluster()),
            task_managers: (0..self.task_managers()).map(task_manager).collect(),
            same_name: 1,
            ..MetricBatch::default()
        }
    }

    /// Twice the slots that the job takes, so that it can grow.
    fn cluster(&self) -> ClusterFacts {
        let slots_total = 2 * self.task_managers() * SLOTS;
        ClusterFacts {
            flink_version: "2.3.0".into(),
            scheduler: "Adaptive".into(),
            slots_total,
            slots_free: slots_total.saturating_sub(self.parallelism),
            jobs_running: 1,
            ..ClusterFacts::default()
        }
    }

    fn task_managers(&self) -> u32 {
        self.parallelism.div_ceil(SLOTS)
    }

    fn vertex(&self, at: u64, counters: &[Counters]) -> Vertex {
        let all = 0..self.parallelism;
        let column = |value: fn(&Counters) -> f64| Some(Column::pack(counters.iter().map(|it| Some(value(it)))));
        Vertex {
            // Flink's ids are hashes.
            id: format!("{:016x}{:016x}", mix(at), mix(!at)),
            name: format!("operator {at}"),
            parallelism: self.parallelism,
            max_parallelism: 720,
            state: "RUNNING".into(),
            is_source: at == 0,
            subtasks: Some(Subtasks {
                index: all.clone().collect(),
                attempt: all.clone().map(|_| 0).collect(),
                running: all.clone().map(|_| true).collect(),
                records_in: column(|it| it.records_in),
                records_out: column(|it| it.records_out),
                busy_ms: column(|it| it.busy_ms),
                idle_ms: column(|it| it.idle_ms),
                backpressured_ms: column(|_| 0.0),
                task_manager: all.map(|index| index / SLOTS + 1).collect(),
            }),
            pending_records: (at == 0).then_some(0.0),
            ..Vertex::default()
        }
    }
}

fn task_manager(number: u32) -> TaskManager {
    let about = |bytes: f64| Some((bytes * (1.0 + UNEVEN * noise(u64::from(number)))).round());
    TaskManager {
        id: format!("10.0.0.{number}:40123-{:06x}", mix(u64::from(number)) & 0xff_ffff),
        slots: SLOTS,
        slots_free: 0,
        heap_used_bytes: about(700.0 * MIB),
        heap_max_bytes: Some(2_048.0 * MIB),
        managed_used_bytes: about(400.0 * MIB),
        managed_total_bytes: Some(1_024.0 * MIB),
        metaspace_used_bytes: about(90.0 * MIB),
        cpu_load: Some(0.5 + UNEVEN * noise(u64::from(number))),
        gc_time_ms: about(90_000.0),
        ..TaskManager::default()
    }
}

/// The finaliser of splitmix64: the same number for the same seed, on every machine.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number between -1 and 1 that depends on the seed alone.
fn noise(seed: u64) -> f64 {
    f64::from(u32::try_from(mix(seed) >> 32).unwrap_or(0)) / f64::from(1u32 << 31) - 1.0
}
