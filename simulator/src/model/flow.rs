//! The fluid flow through one running attempt: finite queues, finite capacities, back-pressure that climbs upstream.
//!
//! Records are whole; time is shared out. In each step a subtask has the length of the step to spend, works off what waits
//! in front of it as far as its output has room, and what is left of the step is back-pressure if records still wait, else
//! idleness. The three always add up to the time that passed.

use super::channel::Channel;
use super::graph::Graph;
use super::source::Source;
use crate::num::{narrow, real, real_len, real_ms, whole};
use crate::spec::{JobSpec, VertexSpec};

/// Sweeps of one step after which what still could move waits for the next one.
const MOST_SWEEPS: usize = 16;

/// Counters of one subtask in one attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Counters {
    pub(crate) records_in: u64,
    pub(crate) records_out: u64,
    pub(crate) busy_ms: f64,
    pub(crate) idle_ms: f64,
    pub(crate) back_pressured_ms: f64,
}

#[derive(Debug, Clone, Default)]
struct Subtask {
    counters: Counters,
    /// Time left in this step; negative when a record reaches into the next one.
    budget_ms: f64,
    /// Fraction of a record that is owed to the output.
    owed: f64,
    want: u64,
}

#[derive(Debug, Clone)]
struct Vertex {
    cost_ms: f64,
    selectivity: f64,
    busy_share: f64,
    warm_up_ms: f64,
    cold_share: f64,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    subtasks: Vec<Subtask>,
    turn: usize,
    blocked: bool,
}

/// A running attempt.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    vertices: Vec<Vertex>,
    edges: Vec<Channel>,
    /// Sinks first.
    order: Vec<usize>,
    elapsed_ms: f64,
}

impl Flow {
    /// An attempt with empty queues and counters at zero.
    pub(crate) fn new(job: &JobSpec, graph: &Graph, parallelism: &[u32]) -> Self {
        let width = |vertex: usize| narrow(u64::from(parallelism[vertex]));
        let edges =
            job.edges.iter().zip(&graph.ends).map(|(edge, &(from, to))| {
                Channel::new(edge, width(from), width(to), job.vertices[to].max_parallelism)
            });
        let vertices = job.vertices.iter().enumerate().map(|(index, spec)| Vertex {
            cost_ms: cost_ms(spec, width(index)),
            selectivity: spec.selectivity,
            busy_share: spec.busy_share,
            warm_up_ms: real_ms(spec.warm_up_ms),
            cold_share: spec.cold_share,
            inputs: graph.inputs[index].clone(),
            outputs: graph.outputs[index].clone(),
            subtasks: vec![Subtask::default(); width(index)],
            turn: 0,
            blocked: false,
        });
        Self {
            vertices: vertices.collect(),
            edges: edges.collect(),
            order: graph.order.iter().rev().copied().collect(),
            elapsed_ms: 0.0,
        }
    }

    /// Lets `step_ms` pass. `sources[v]` is the outside system of vertex `v`, if it is a source.
    pub(crate) fn step(&mut self, step_ms: f64, sources: &mut [Option<Source>]) {
        self.elapsed_ms += step_ms;
        for vertex in &mut self.vertices {
            for subtask in &mut vertex.subtasks {
                subtask.budget_ms = subtask.budget_ms.min(0.0) + step_ms;
            }
        }
        for _ in 0..MOST_SWEEPS {
            let mut moved = false;
            for &index in &self.order {
                let cost = self.vertices[index].cost_now(self.elapsed_ms);
                moved |= self.vertices[index].work(cost, &mut self.edges, sources[index].as_mut());
            }
            if !moved || !self.can_go_on() {
                break;
            }
        }
        self.close(step_ms, sources);
    }

    /// Whether a vertex that was stopped by a full queue could go on because somebody behind it has time and records.
    fn can_go_on(&self) -> bool {
        let hungry = |vertex: &Vertex| {
            !vertex.blocked
                && vertex.subtasks.iter().enumerate().any(|(i, s)| s.budget_ms > 0.0 && vertex.open(i, &self.edges) > 0)
        };
        self.vertices.iter().any(|v| v.blocked) && self.vertices.iter().any(hungry)
    }

    /// Books the step as busy, idle and back-pressured time.
    fn close(&mut self, step_ms: f64, sources: &[Option<Source>]) {
        for (vertex, source) in self.vertices.iter_mut().zip(sources) {
            for index in 0..vertex.subtasks.len() {
                let waiting = source.as_ref().map_or_else(|| vertex.open(index, &self.edges), |s| s.waiting(index));
                let subtask = &mut vertex.subtasks[index];
                let left = subtask.budget_ms.max(0.0);
                let busy = (step_ms - left) * vertex.busy_share;
                subtask.counters.busy_ms += busy;
                let rest = step_ms - busy;
                if vertex.blocked && waiting > 0 {
                    subtask.counters.back_pressured_ms += left;
                    subtask.counters.idle_ms += rest - left;
                } else {
                    subtask.counters.idle_ms += rest;
                }
            }
        }
    }

    /// A checkpoint's barrier leaves vertex `vertex` on all its outputs.
    ///
    /// What comes behind it waits in front of the next vertex until that one has seen the barrier on all its inputs and taken
    /// all that lies before them, so that its state holds exactly those records. A sink with one input need not wait: what
    /// it takes later is not part of the checkpoint.
    pub(crate) fn send_barrier(&mut self, vertex: usize, ends: &[(usize, usize)]) {
        for &edge in &self.vertices[vertex].outputs {
            let next = &self.vertices[ends[edge].1];
            self.edges[edge].enter_barrier(!next.outputs.is_empty() || next.inputs.len() > 1);
        }
    }

    /// Records that vertex `vertex` has taken in this attempt once it has taken all before the barriers; none as long as one
    /// of its inputs has no barrier.
    pub(crate) fn taken_before_barriers(&self, vertex: usize) -> Option<u64> {
        let inputs = &self.vertices[vertex].inputs;
        let ahead: Option<u64> = inputs.iter().map(|&edge| self.edges[edge].before_barrier()).sum();
        ahead.map(|ahead| ahead + self.counters(vertex).map(|counters| counters.records_in).sum::<u64>())
    }

    /// Takes the barriers off the inputs of vertex `vertex` when nothing lies before them any more. Whether it was so.
    pub(crate) fn pass_barriers(&mut self, vertex: usize) -> bool {
        let inputs = &self.vertices[vertex].inputs;
        let passed = inputs.iter().all(|&edge| self.edges[edge].before_barrier() == Some(0));
        if passed {
            inputs.iter().for_each(|&edge| self.edges[edge].drop_barrier());
        }
        passed
    }

    /// Counters of the subtasks of vertex `vertex`.
    pub(crate) fn counters(&self, vertex: usize) -> impl Iterator<Item = Counters> + '_ {
        self.vertices[vertex].subtasks.iter().map(|subtask| subtask.counters)
    }

    /// Records waiting in front of subtask `subtask` of vertex `vertex`.
    pub(crate) fn queued(&self, vertex: usize, subtask: usize) -> u64 {
        self.vertices[vertex].queued(subtask, &self.edges)
    }

    /// How full the input queues of a subtask are, and how full the fullest output queue is.
    pub(crate) fn pool_usage(&self, vertex: usize, subtask: usize) -> (f64, f64) {
        let vertex = &self.vertices[vertex];
        let input = vertex.inputs.iter().map(|&edge| self.edges[edge].usage(subtask)).fold(0.0, f64::max);
        let output = vertex.outputs.iter().map(|&edge| self.edges[edge].fullest()).fold(0.0, f64::max);
        (input, output)
    }

    /// Records in all queues.
    pub(crate) fn in_flight(&self) -> u64 {
        self.edges.iter().map(Channel::in_flight).sum()
    }

    /// Records that entered the queues of edge `edge`, and those that still wait there.
    pub(crate) fn edge(&self, edge: usize) -> (u64, u64) {
        (self.edges[edge].received(), self.edges[edge].in_flight())
    }
}

impl Vertex {
    fn cost_now(&self, elapsed_ms: f64) -> f64 {
        if elapsed_ms >= self.warm_up_ms {
            return self.cost_ms;
        }
        self.cost_ms / (self.cold_share + (1.0 - self.cold_share) * elapsed_ms / self.warm_up_ms)
    }

    fn queued(&self, subtask: usize, edges: &[Channel]) -> u64 {
        self.inputs.iter().map(|&edge| edges[edge].queued(subtask)).sum()
    }

    fn open(&self, subtask: usize, edges: &[Channel]) -> u64 {
        self.inputs.iter().map(|&edge| edges[edge].open(subtask)).sum()
    }

    /// Works off what time and output allow. Whether anything moved.
    fn work(&mut self, cost_ms: f64, edges: &mut [Channel], mut source: Option<&mut Source>) -> bool {
        self.blocked = false;
        let mut wanted = 0;
        for index in 0..self.subtasks.len() {
            let waiting = source.as_ref().map_or_else(|| self.open(index, edges), |s| s.waiting(index));
            self.subtasks[index].want = waiting.min(affordable(self.subtasks[index].budget_ms, cost_ms));
            wanted += self.limit_by_forward_edges(index, edges);
        }
        let allowed = self.limit_by_shared_edges(edges);
        if allowed < wanted {
            self.blocked = true;
            self.share_out(allowed, wanted);
        }
        if wanted.min(allowed) == 0 {
            return false;
        }
        let mut output = 0;
        for index in 0..self.subtasks.len() {
            output += self.move_records(index, cost_ms, edges, source.as_deref_mut());
        }
        for &edge in &self.outputs {
            if !edges[edge].forward {
                edges[edge].spread(output);
            }
        }
        true
    }

    fn limit_by_forward_edges(&mut self, subtask: usize, edges: &[Channel]) -> u64 {
        for &edge in &self.outputs {
            if edges[edge].forward {
                let room = self.input_for(edges[edge].forward_room(subtask));
                if room < self.subtasks[subtask].want {
                    self.subtasks[subtask].want = room;
                    self.blocked = true;
                }
            }
        }
        self.subtasks[subtask].want
    }

    fn limit_by_shared_edges(&self, edges: &[Channel]) -> u64 {
        let shared = self.outputs.iter().filter(|&&edge| !edges[edge].forward);
        shared.map(|&edge| self.input_for(edges[edge].room())).min().unwrap_or(u64::MAX)
    }

    /// Input records whose output fits into `room`; one at least if there is any room, as a record is never cut in two.
    fn input_for(&self, room: u64) -> u64 {
        if room == 0 || self.selectivity <= 0.0 {
            return if self.selectivity <= 0.0 { u64::MAX } else { 0 };
        }
        whole(real(room) / self.selectivity).max(1)
    }

    /// Cuts the subtasks' wishes from `wanted` down to `allowed` in all, in proportion.
    fn share_out(&mut self, allowed: u64, wanted: u64) {
        let ratio = real(allowed) / real(wanted.max(1));
        let mut left = allowed;
        let count = self.subtasks.len();
        let mut cut = Vec::with_capacity(count);
        for subtask in &mut self.subtasks {
            let fair = whole(real(subtask.want) * ratio).min(left);
            cut.push(subtask.want - fair);
            subtask.want = fair;
            left -= fair;
        }
        for step in 0..count {
            let index = (self.turn + step) % count;
            if left > 0 && cut[index] > 0 {
                self.subtasks[index].want += 1;
                left -= 1;
            }
        }
        self.turn = (self.turn + 1) % count;
    }

    /// Moves what subtask `index` wants through it; the records that it emits.
    fn move_records(&mut self, index: usize, cost_ms: f64, edges: &mut [Channel], source: Option<&mut Source>) -> u64 {
        let records = self.subtasks[index].want;
        if records == 0 {
            return 0;
        }
        match source {
            Some(source) => source.take(index, records),
            None => self.take_inputs(index, records, edges),
        }
        let subtask = &mut self.subtasks[index];
        subtask.budget_ms -= real(records) * cost_ms;
        subtask.owed += real(records) * self.selectivity;
        let output = whole(subtask.owed + 1e-9);
        subtask.owed -= real(output);
        subtask.counters.records_in += records;
        subtask.counters.records_out += output;
        for &edge in &self.outputs {
            if edges[edge].forward {
                edges[edge].pass(index, output);
            }
        }
        output
    }

    /// Takes `records` from the inputs of subtask `index`, in proportion to what waits on each.
    fn take_inputs(&self, index: usize, records: u64, edges: &mut [Channel]) {
        let mut waiting = self.open(index, edges);
        let mut left = records;
        for &edge in &self.inputs {
            let queued = edges[edge].open(index);
            if waiting == 0 || left == 0 {
                return;
            }
            let share = whole(real(left) * real(queued) / real(waiting));
            // The later inputs must be able to give the rest.
            let taken = share.max(left.saturating_sub(waiting - queued)).min(queued);
            edges[edge].take(index, taken);
            waiting -= queued;
            left -= taken;
        }
    }
}

/// Records that `budget_ms` pays for; the last one may reach into the next step.
fn affordable(budget_ms: f64, cost_ms: f64) -> u64 {
    if budget_ms <= 1e-9 {
        0
    } else if cost_ms <= 0.0 {
        u64::MAX
    } else {
        whole((budget_ms / cost_ms - 1e-9).ceil()).max(1)
    }
}

/// Time that one record costs a subtask: the slower of its own capacity and its part of an outside system's.
fn cost_ms(vertex: &VertexSpec, parallelism: usize) -> f64 {
    let own = vertex.capacity.map_or(0.0, |capacity| 1000.0 / capacity);
    let outside = vertex.external_limit.map_or(0.0, |limit| 1000.0 * real_len(parallelism) / limit);
    own.max(outside)
}
