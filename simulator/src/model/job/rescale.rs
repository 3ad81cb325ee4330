//! When an adaptive job changes its parallelism, and to what.

use serde::Serialize;

use super::super::truth::RescaleRecord;
use super::{Job, World};
use crate::num::narrow;
use crate::spec::{ClusterSpec, Scheduler, VertexSpec};

/// Resource requirements of one vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) lower: i64,
    /// -1 is Flink's "not set".
    pub(crate) upper: i64,
}

impl Bounds {
    /// What a job has when it is submitted.
    pub(super) fn initial(vertex: &VertexSpec, scheduler: Scheduler) -> Self {
        let own = i64::from(vertex.parallelism);
        match scheduler {
            Scheduler::Adaptive => Self { lower: 1, upper: own },
            Scheduler::Default => Self { lower: own, upper: own },
            Scheduler::Reactive => Self { lower: 1, upper: i64::from(vertex.max_parallelism) },
        }
    }

    fn wanted(self, vertex: &VertexSpec) -> u32 {
        u32::try_from(self.upper).ok().filter(|&upper| upper > 0).unwrap_or(vertex.max_parallelism)
    }
}

/// Why a job starts its tasks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Changed resource requirements.
    Requirements,
    /// Slots that came.
    Resources,
    /// A failure.
    Failure,
}

impl Cause {
    /// Whether the job chose to restart.
    #[must_use]
    pub fn is_rescale(self) -> bool {
        self != Self::Failure
    }
}

/// A better parallelism than the current one, since when it is possible.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Change {
    since_ms: i64,
    failed_before: u64,
    by_requirements: bool,
}

impl Job {
    /// Parallelism that the slots allow; none if they do not reach the lower bounds.
    pub(super) fn attainable(&self, world: &World<'_>) -> Option<Vec<u32>> {
        let open = world.pool.open_for(world.number);
        let enough = self.bounds.iter().all(|bounds| bounds.lower <= i64::from(open));
        (enough && open > 0).then(|| {
            let wanted = self.bounds.iter().zip(&self.spec.vertices);
            wanted.map(|(bounds, vertex)| bounds.wanted(vertex).min(open)).collect()
        })
    }

    /// Whether the upper bounds themselves can be had.
    pub(super) fn all_wanted_is_there(&self, world: &World<'_>) -> bool {
        let wanted = self.bounds.iter().zip(&self.spec.vertices).map(|(bounds, vertex)| bounds.wanted(vertex)).max();
        // A reactive job wants whatever there is, and does not wait for more to come.
        world.spec.scheduler == Scheduler::Reactive || wanted.unwrap_or(0) <= world.pool.open_for(world.number)
    }

    /// Takes new requirements.
    pub(crate) fn set_bounds(&mut self, bounds: Vec<Bounds>, now_ms: i64) {
        self.bounds = bounds;
        self.bounds_changed_ms = Some(now_ms);
        self.look_again = true;
    }

    /// Restarts the job at a better parallelism when there is one and its time has come.
    pub(super) fn consider_rescale(&mut self, now_ms: i64, checkpointed: bool, world: &mut World<'_>) {
        if world.spec.scheduler == Scheduler::Default || (!self.look_again && self.change.is_none()) {
            return;
        }
        self.look_again = false;
        if self.attainable(world).is_none_or(|target| target == self.parallelism) {
            self.change = None;
            return;
        }
        let by_requirements = self.bounds_changed_ms.is_some_and(|at| at > self.running_ms.unwrap_or(i64::MIN));
        let failed_before = self.checkpoints.failed;
        let change = *self.change.get_or_insert(Change { since_ms: now_ms, failed_before, by_requirements });
        let since = change.since_ms.max(self.cooldown_until_ms);
        if now_ms >= since && self.is_time(now_ms, since, change, checkpointed, world) {
            let cause = if change.by_requirements { Cause::Requirements } else { Cause::Resources };
            self.restart(cause, "rescaled", now_ms, world);
        }
    }

    fn is_time(&self, now_ms: i64, since: i64, change: Change, checkpointed: bool, world: &World<'_>) -> bool {
        if !world.spec.version.rescale_waits_for_checkpoint() {
            return true;
        }
        let settled = self.all_wanted_is_there(world) || now_ms - since >= world.spec.executing_stabilization_ms;
        let max_delay = self.max_delay_ms(world.spec);
        let triggered =
            checkpointed || now_ms - since >= max_delay || self.checkpoints.failed >= change.failed_before + 2;
        settled && triggered
    }

    /// Longest time that a rescale waits for a checkpoint.
    pub(crate) fn max_delay_ms(&self, cluster: &ClusterSpec) -> i64 {
        let by_default = self.spec.checkpoint_interval_ms.map_or(0, |interval| interval.saturating_mul(3));
        cluster.max_delay_ms.unwrap_or(by_default)
    }

    pub(super) fn open_record(&mut self, cause: Cause, now_ms: i64) {
        // Attempts that fail before they run belong to the restart that they try to complete.
        if self.history.last().is_some_and(|record| record.running_at_ms.is_none()) {
            return;
        }
        self.history.push(RescaleRecord {
            cause,
            at_ms: now_ms,
            running_at_ms: None,
            from: self.parallelism.clone(),
            to: Vec::new(),
            replayed: 0,
        });
    }

    pub(super) fn finish_record(&mut self, now_ms: i64) {
        if let Some(record) = self.history.last_mut().filter(|record| record.running_at_ms.is_none()) {
            record.running_at_ms = Some(now_ms);
            record.to.clone_from(&self.parallelism);
        }
    }

    /// All restarts so far.
    pub(crate) fn history(&self) -> &[RescaleRecord] {
        &self.history
    }

    /// When the job was first deployed, and when it first ran.
    pub(crate) fn first_running_ms(&self) -> Option<(i64, i64)> {
        self.first_running_ms
    }

    /// Subtasks of vertex `vertex` in the current or last attempt.
    pub(crate) fn width(&self, vertex: usize) -> usize {
        narrow(u64::from(self.parallelism[vertex]))
    }
}
