//! Checkpoints and savepoints of one job: barriers that travel behind the records in flight, counts, history, requests.

use std::collections::{BTreeMap, VecDeque};

use super::flow::Flow;
use super::graph::Graph;
use super::source::Source;
use crate::rng::Rng;

/// Entries that the history keeps (`web.checkpoints.history`).
const HISTORY: usize = 10;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Checkpoint,
    Savepoint { directory: String, stop: bool },
}

/// Where an asynchronous request stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    Waiting,
    /// The number of the checkpoint, and where it lies.
    Completed(u64, String),
    Failed(String),
}

/// How a checkpoint ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Open,
    Completed,
    Failed(String),
}

/// A checkpoint as the history shows it.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) triggered_ms: i64,
    pub(crate) ended_ms: i64,
    pub(crate) end: End,
    pub(crate) bytes: u64,
    pub(crate) subtasks: u64,
    pub(crate) path: String,
    /// What a job begins with that is restored from it.
    point: RestorePoint,
}

/// What a job begins with: reading positions, and what each vertex has taken before those.
#[derive(Debug, Clone, Default)]
pub(crate) struct RestorePoint {
    /// Offsets of each source vertex.
    pub(crate) offsets: Vec<Option<Vec<u64>>>,
    /// Records that each vertex had taken, each once.
    pub(crate) taken: Vec<u64>,
}

/// A running attempt, as the coordinator sees it.
pub(crate) struct Tasks<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) flow: &'a mut Flow,
    pub(crate) sources: &'a [Option<Source>],
    /// Records that each vertex had taken when the attempt began.
    pub(crate) base: &'a [u64],
}

#[derive(Debug, Clone)]
struct Pending {
    record: Record,
    request: Option<String>,
    /// Records that each vertex has taken before its barriers, once those have arrived.
    taken: Vec<Option<u64>>,
    /// Whether the barrier has left each vertex.
    passed: Vec<bool>,
    passed_ms: Option<i64>,
}

/// A restore that took place.
#[derive(Debug, Clone)]
pub(crate) struct Restored {
    pub(crate) record: Record,
    pub(crate) at_ms: i64,
}

/// The checkpoint coordinator of one job.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoints {
    pub(crate) interval_ms: Option<i64>,
    duration_ms: i64,
    bytes: u64,
    next_id: u64,
    next_ms: Option<i64>,
    pending: Option<Pending>,
    queue: VecDeque<(Kind, String)>,
    requests: BTreeMap<String, (Kind, Progress)>,
    /// Newest first.
    pub(crate) history: VecDeque<Record>,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) restores: u64,
    pub(crate) latest: Latest,
}

/// The newest of each sort.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latest {
    pub(crate) completed: Option<Record>,
    pub(crate) savepoint: Option<Record>,
    pub(crate) failed: Option<Record>,
    pub(crate) restored: Option<Restored>,
}

impl Checkpoints {
    pub(crate) fn new(interval_ms: Option<i64>, duration_ms: i64, bytes: u64) -> Self {
        Self {
            interval_ms,
            duration_ms,
            bytes,
            next_id: 1,
            next_ms: None,
            pending: None,
            queue: VecDeque::new(),
            requests: BTreeMap::new(),
            history: VecDeque::new(),
            completed: 0,
            failed: 0,
            restores: 0,
            latest: Latest::default(),
        }
    }

    /// All tasks run: periodic checkpoints begin within one interval.
    pub(crate) fn start(&mut self, now_ms: i64, rng: &mut Rng) {
        self.next_ms = self.interval_ms.map(|interval| now_ms + rng.between(1, interval.max(1)));
    }

    /// The tasks stop: what is in progress fails because of `why`.
    pub(crate) fn stop(&mut self, now_ms: i64, why: &str) {
        self.next_ms = None;
        if self.pending.is_some() {
            self.fail(now_ms, why);
        }
        for (_, request) in std::mem::take(&mut self.queue) {
            self.settle(Some(request), Progress::Failed(why.into()));
        }
    }

    /// Takes a request under a key of the client's choice; the same key again changes nothing.
    pub(crate) fn request(&mut self, kind: Kind, key: String) {
        if !self.requests.contains_key(&key) {
            self.requests.insert(key.clone(), (kind.clone(), Progress::Waiting));
            self.queue.push_back((kind, key));
        }
    }

    /// Where request `key` stands.
    pub(crate) fn progress(&self, key: &str) -> Option<&(Kind, Progress)> {
        self.requests.get(key)
    }

    /// The one in progress, if any.
    pub(crate) fn in_progress(&self) -> Option<&Record> {
        self.pending.as_ref().map(|pending| &pending.record)
    }

    fn newest(&self) -> Option<&Record> {
        [&self.latest.completed, &self.latest.savepoint].into_iter().flatten().max_by_key(|record| record.id)
    }

    /// The newest restore point.
    pub(crate) fn restore_point(&self) -> Option<RestorePoint> {
        self.newest().map(|record| record.point.clone())
    }

    /// A new attempt begins at `now_ms`, from the newest restore point if there is one.
    pub(crate) fn note_restore(&mut self, now_ms: i64) {
        if let Some(record) = self.newest().cloned() {
            self.restores += 1;
            self.latest.restored = Some(Restored { record, at_ms: now_ms });
        }
    }

    /// Begins, moves and ends checkpoints. The one that completed just now.
    pub(crate) fn step(&mut self, now_ms: i64, tasks: &mut Tasks<'_>) -> Option<Record> {
        if self.pending.is_none() {
            self.begin(now_ms, tasks);
        }
        let pending = self.pending.as_mut()?;
        pending.advance(tasks);
        if pending.passed_ms.is_none() && pending.passed.iter().all(|&passed| passed) {
            pending.passed_ms = Some(now_ms);
        }
        // State is written while later barriers still travel, so the longer of the two counts.
        let written = pending.record.triggered_ms + self.duration_ms <= now_ms;
        if pending.passed_ms.is_some() && written { self.complete(now_ms) } else { None }
    }

    fn begin(&mut self, now_ms: i64, tasks: &mut Tasks<'_>) {
        let periodic = self.next_ms.is_some_and(|at| at <= now_ms);
        let (kind, request) = match self.queue.pop_front() {
            Some((kind, request)) => (kind, Some(request)),
            None if periodic => (Kind::Checkpoint, None),
            None => return,
        };
        if periodic && request.is_none() {
            self.next_ms = self.interval_ms.map(|interval| now_ms + interval);
        }
        let vertices = 0..tasks.base.len();
        let record = Record {
            id: self.next_id,
            path: path_of(&kind, self.next_id),
            kind,
            triggered_ms: now_ms,
            ended_ms: now_ms,
            end: End::Open,
            bytes: self.bytes,
            subtasks: vertices.map(|v| crate::num::wide(tasks.flow.counters(v).count())).sum(),
            point: RestorePoint {
                offsets: tasks.sources.iter().map(|source| source.as_ref().map(Source::offsets)).collect(),
                taken: Vec::new(),
            },
        };
        self.next_id += 1;
        let passed: Vec<bool> = tasks.sources.iter().map(Option::is_some).collect();
        for (vertex, _) in passed.iter().enumerate().filter(|(_, passed)| **passed) {
            tasks.flow.send_barrier(vertex, &tasks.graph.ends);
        }
        let taken = tasks.sources.iter().map(|source| source.as_ref().map(Source::consumed)).collect();
        self.pending = Some(Pending { record, request, taken, passed, passed_ms: None });
    }

    fn complete(&mut self, now_ms: i64) -> Option<Record> {
        let Pending { mut record, request, taken, .. } = self.pending.take()?;
        record.ended_ms = now_ms;
        record.end = End::Completed;
        record.point.taken = taken.into_iter().map(Option::unwrap_or_default).collect();
        self.completed += 1;
        match record.kind {
            Kind::Checkpoint => self.latest.completed = Some(record.clone()),
            Kind::Savepoint { .. } => self.latest.savepoint = Some(record.clone()),
        }
        self.settle(request, Progress::Completed(record.id, record.path.clone()));
        self.keep(record.clone());
        Some(record)
    }

    /// The one in progress fails because of `why`.
    pub(crate) fn fail(&mut self, now_ms: i64, why: &str) {
        let Some(Pending { mut record, request, .. }) = self.pending.take() else { return };
        record.ended_ms = now_ms;
        record.end = End::Failed(why.into());
        self.failed += 1;
        self.latest.failed = Some(record.clone());
        self.settle(request, Progress::Failed(why.into()));
        self.keep(record);
    }

    fn settle(&mut self, request: Option<String>, progress: Progress) {
        if let Some(entry) = request.and_then(|key| self.requests.get_mut(&key)) {
            entry.1 = progress;
        }
    }

    fn keep(&mut self, record: Record) {
        self.history.push_front(record);
        self.history.truncate(HISTORY);
    }
}

impl Pending {
    fn advance(&mut self, tasks: &mut Tasks<'_>) {
        for &vertex in &tasks.graph.order {
            if self.passed[vertex] {
                continue;
            }
            // The last barrier to arrive fixes what the vertex's state will hold.
            let Some(taken) = tasks.flow.taken_before_barriers(vertex) else { continue };
            self.taken[vertex].get_or_insert(tasks.base[vertex] + taken);
            if tasks.flow.pass_barriers(vertex) {
                self.passed[vertex] = true;
                tasks.flow.send_barrier(vertex, &tasks.graph.ends);
            }
        }
    }
}

fn path_of(kind: &Kind, id: u64) -> String {
    match kind {
        Kind::Checkpoint => format!("file:/checkpoints/chk-{id}"),
        Kind::Savepoint { directory, .. } => format!("{}/savepoint-{id:06x}", directory.trim_end_matches('/')),
    }
}
