//! From waiting for slots to running tasks, and back.

use super::super::checkpoint::{Kind, Tasks};
use super::super::flow::{Counters, Flow};
use super::super::meters::Meters;
use super::{Cause, Job, JobStatus, Phase, World};
use crate::num::{narrow, real_ms, wide};

/// What Flink says when slots do not come.
const NO_SLOTS: &str = "org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException: \
                        Could not acquire the minimum required resources.";

impl Job {
    /// Looks whether the slots suffice, and begins to deploy when they do.
    pub(super) fn wait_for_slots(&mut self, now_ms: i64, since_ms: i64, direct: bool, world: &mut World<'_>) {
        let waited = now_ms - since_ms;
        if waited < world.spec.restart_ms / 5 {
            return;
        }
        let Some(target) = self.attainable(world) else {
            if waited >= world.spec.resource_wait_ms {
                self.fail(NO_SLOTS, now_ms, world);
            }
            return;
        };
        let settled = direct || waited >= world.spec.submission_stabilization_ms;
        if !settled && !self.all_wanted_is_there(world) {
            return;
        }
        let width = narrow(u64::from(target.iter().copied().max().unwrap_or(1)));
        let idle_until = now_ms + world.spec.slot_idle_ms;
        let Some(slots) = world.pool.assign(world.number, width, idle_until) else { return };
        self.placed.clone_from(&slots);
        self.slots = slots;
        self.parallelism = target;
        self.number_attempts();
        self.deployed_ms = now_ms;
        self.enter(JobStatus::Running, now_ms);
        self.phase = Phase::Deploying { since_ms: now_ms, until_ms: now_ms + world.spec.restart_ms / 2 };
    }

    /// Gives each subtask its next attempt number. Numbers belong to a subtask's index, so a subtask that is new to a grown
    /// vertex begins at 0 while its neighbours do not.
    fn number_attempts(&mut self) {
        for (vertex, &parallelism) in self.parallelism.iter().enumerate() {
            let width = narrow(u64::from(parallelism));
            let next = &mut self.next_attempts[vertex];
            if next.len() < width {
                next.resize(width, 0);
            }
            self.attempts[vertex] = next[..width].to_vec();
            for number in &mut next[..width] {
                *number += 1;
            }
        }
    }

    pub(super) fn deploy(&mut self, now_ms: i64, until_ms: i64, world: &mut World<'_>) {
        if self.lost_a_slot(world) {
            self.restart(Cause::Failure, "a TaskManager does not answer", now_ms, world);
        } else if now_ms >= until_ms {
            self.begin_attempt(now_ms, world);
        }
    }

    fn begin_attempt(&mut self, now_ms: i64, world: &mut World<'_>) {
        for (vertex, source) in self.sources.iter_mut().enumerate() {
            if let Some(source) = source {
                source.assign(narrow(u64::from(self.parallelism[vertex])));
            }
        }
        self.checkpoints.note_restore(now_ms);
        self.flow = Some(Flow::new(&self.spec, &self.graph, &self.parallelism));
        self.meters = Meters::new(now_ms);
        self.checkpoints.start(now_ms, world.rng);
        self.running_ms = Some(now_ms);
        self.first_running_ms.get_or_insert((self.deployed_ms, now_ms));
        // The cool-down counts from the moment the scheduler begins to execute, after the first start as well.
        let cooldown = if world.spec.version.has_cooldown() { world.spec.cooldown_ms } else { 0 };
        self.cooldown_until_ms = self.deployed_ms + cooldown;
        self.look_again = true;
        self.phase = Phase::Running;
        self.finish_record(now_ms);
    }

    pub(super) fn run(&mut self, now_ms: i64, world: &mut World<'_>) {
        if self.lost_a_slot(world) {
            self.restart(Cause::Failure, "the connection to a TaskManager was lost", now_ms, world);
            return;
        }
        let Some(flow) = self.flow.as_mut() else { return };
        flow.step(real_ms(world.spec.step_ms), &mut self.sources);
        for source in self.sources.iter_mut().flatten() {
            source.forget_unread(20.0);
        }
        self.meters.step(now_ms, flow, self.spec.vertices.len());
        let mut tasks = Tasks { graph: &self.graph, flow, sources: &self.sources, base: &self.base };
        let done = self.checkpoints.step(now_ms, &mut tasks);
        if let Some(Kind::Savepoint { stop: true, .. }) = done.as_ref().map(|record| &record.kind) {
            self.end(JobStatus::Finished, now_ms, world);
            return;
        }
        self.consider_rescale(now_ms, done.is_some(), world);
    }

    fn lost_a_slot(&self, world: &World<'_>) -> bool {
        self.slots.iter().any(|&slot| !world.pool.members[slot].alive)
    }

    /// Stops all tasks and starts them again.
    pub(crate) fn restart(&mut self, cause: Cause, why: &str, now_ms: i64, world: &mut World<'_>) {
        let pause = if cause.is_rescale() { world.spec.restart_ms * 3 / 10 } else { world.spec.restart_delay_ms };
        self.restarts += 1;
        if cause.is_rescale() {
            self.rescales += 1;
        } else {
            self.failure = Some((now_ms, why.into()));
        }
        self.open_record(cause, now_ms);
        self.end_attempt(now_ms, "Checkpoint Coordinator is suspending.", world);
        self.change = None;
        self.enter(JobStatus::Restarting, now_ms);
        let direct = cause.is_rescale() && world.spec.version.rescale_waits_for_checkpoint();
        self.phase = Phase::Restarting { until_ms: now_ms + pause, direct };
    }

    /// Fails a task, so that the whole job starts again. Nothing to do if it does not run.
    pub(crate) fn fail_over(&mut self, why: &str, now_ms: i64, world: &mut World<'_>) {
        if matches!(self.phase, Phase::Running | Phase::Deploying { .. }) {
            self.restart(Cause::Failure, why, now_ms, world);
        }
    }

    /// Throws away what is in flight and goes back to the last completed checkpoint.
    pub(super) fn end_attempt(&mut self, now_ms: i64, why: &str, world: &mut World<'_>) {
        self.checkpoints.stop(now_ms, why);
        let Some(flow) = self.flow.take() else { return };
        self.lost += flow.in_flight();
        for vertex in 0..self.spec.vertices.len() {
            let counters: Vec<Counters> = flow.counters(vertex).collect();
            for (subtask, count) in counters.iter().enumerate() {
                if let Some(&slot) = self.placed.get(subtask) {
                    world.pool.members[slot].past_busy_ms += count.busy_ms;
                }
            }
            self.last_counters[vertex] = counters;
        }
        let point = self.checkpoints.restore_point().unwrap_or_default();
        let mut again = 0;
        for (vertex, source) in self.sources.iter_mut().enumerate() {
            if let Some(source) = source {
                again += source.restore(point.offsets.get(vertex).and_then(Option::as_deref));
            }
        }
        self.base.fill(0);
        for (base, taken) in self.base.iter_mut().zip(point.taken) {
            *base = taken;
        }
        if let Some(record) = self.history.last_mut().filter(|record| record.running_at_ms.is_none()) {
            record.replayed += again;
        }
    }

    /// Busy time of the current attempt on member `member` of the pool.
    pub(crate) fn busy_on(&self, member: usize) -> f64 {
        let Some(flow) = &self.flow else { return 0.0 };
        let here = |subtask: usize| self.placed.get(subtask) == Some(&member);
        let all = (0..self.spec.vertices.len()).flat_map(|vertex| flow.counters(vertex).enumerate());
        all.filter(|(subtask, _)| here(*subtask)).map(|(_, counters)| counters.busy_ms).sum()
    }

    /// Tasks of the current attempt on member `member` of the pool.
    pub(crate) fn tasks_on(&self, member: usize) -> u64 {
        let on = |vertex: &Vec<u32>| wide(self.slots.iter().take(vertex.len()).filter(|&&slot| slot == member).count());
        self.attempts.iter().map(on).sum()
    }

    /// Records in all queues of the running attempt.
    pub(crate) fn in_flight(&self) -> u64 {
        self.flow.as_ref().map_or(0, Flow::in_flight)
    }
}
