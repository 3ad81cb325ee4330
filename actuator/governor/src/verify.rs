//! Whether it works: the counters have to show it.

use serde::{Deserialize, Serialize};

use crate::action::{Action, Phase, Step};
use crate::advance::{LOOK_MS, give_way, is_on_its_way, is_short, lost_the_reins};
use crate::observation::Observation;
use crate::progress::Progress;
use crate::rollback::roll_back;
use crate::wording;

/// Throughput below this share of before is a failure, if the backlog grows as well.
const SHARE_OF_BEFORE: f64 = 0.9;
/// A backlog grows if it gains more than this share of the throughput before: the rest is noise.
const SHARE_OF_GROWTH: f64 = 0.05;
/// Windows in a row that have to fail: going back costs another restart, and a job that has just started is slow.
const FAILING_WINDOWS: u32 = 3;
/// Counters that do not move for this long stand still, in milliseconds: Flink may serve the same values for a while.
const STILL_AFTER_MS: i64 = 30_000;

/// How far the comparison of throughput has come.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Verification {
    /// When counters last moved.
    pub last: Option<Sample>,
    /// When they moved at the start of the window.
    pub first: Option<Sample>,
    /// Windows in a row that failed.
    pub failing: u32,
}

/// Counters of all sources at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Records that all sources handed out.
    pub records_out: f64,
    /// Which attempts they belong to.
    pub attempts: String,
    /// Records that wait outside, where known.
    pub pending: Option<f64>,
}

/// What a window says.
enum Judgement {
    /// It says nothing yet.
    Open,
    /// It works, at this many records a second.
    Works(f64),
    /// It does not keep up, at this many records a second.
    FallsBehind(f64),
    /// Nothing moves, and the backlog grows.
    Stuck,
}

/// The job runs at the target, or at the best that the slots allow.
pub(crate) fn observed(mut action: Action, now_ms: i64) -> Step {
    if action.observed_at_ms.is_none() {
        action.observed_at_ms = Some(now_ms);
        let windows_ms = action.command.verify_for_ms.max(0).saturating_mul(i64::from(FAILING_WINDOWS) + 1);
        let settle_ms = action.command.settle_deadline_ms.max(STILL_AFTER_MS);
        action.deadline_ms = now_ms.saturating_add(windows_ms).saturating_add(settle_ms);
    }
    action.progress = Progress { moved_at_ms: now_ms, falls: action.progress.falls, ..Progress::default() };
    action.phase = Phase::Verifying(Verification::default());
    action.wait(LOOK_MS)
}

/// Compares throughput with that of before.
pub(crate) fn verifying(mut action: Action, mut so_far: Verification, seen: &Observation, now_ms: i64) -> Step {
    if lost_the_reins(&action, seen) {
        return give_way(action, now_ms);
    }
    action.progress.note(seen, now_ms);
    action.stop.note(seen, now_ms);
    let late = now_ms >= action.deadline_ms;
    if !seen.is_settled() {
        if late && !is_on_its_way(&action, seen, now_ms) {
            return roll_back(action, seen, now_ms, "not_running");
        }
        action.phase = Phase::Verifying(Verification::default());
        return action.wait(LOOK_MS);
    }
    let at_target = seen.parallelism() == action.command.plan.target();
    if !at_target && !is_short(&action, seen) {
        // It has lost what it had: wait for the target again, within the same deadline.
        action.phase = Phase::Requested { short_since_ms: None };
        return action.wait(LOOK_MS);
    }
    action.short_of_slots = !at_target;
    match so_far.judge(&action, seen) {
        Judgement::Works(throughput) => verified(action, now_ms, Some(throughput)),
        Judgement::Stuck => roll_back(action, seen, now_ms, "stuck"),
        Judgement::FallsBehind(throughput) if so_far.failing >= FAILING_WINDOWS => {
            action.throughput_after = Some(throughput);
            roll_back(action, seen, now_ms, "throughput_fell")
        }
        Judgement::Open | Judgement::FallsBehind(_) if late && so_far.failing > 0 => {
            roll_back(action, seen, now_ms, "throughput_fell")
        }
        Judgement::Open if late => verified(action, now_ms, None),
        Judgement::Open | Judgement::FallsBehind(_) => {
            action.phase = Phase::Verifying(so_far);
            action.wait(LOOK_MS)
        }
    }
}

fn verified(mut action: Action, now_ms: i64, throughput: Option<f64>) -> Step {
    action.throughput_after = throughput;
    let sentence = wording::verified(&action);
    action.end(Phase::Verified, now_ms, sentence)
}

impl Verification {
    /// Takes one more sample in.
    ///
    /// Only moments at which counters move are compared: Flink serves the same values until it fetches new ones, so a
    /// window between any other moments would be measured by the wrong clock.
    fn judge(&mut self, action: &Action, seen: &Observation) -> Judgement {
        let Some(sample) = Sample::of(seen) else { return Judgement::Open };
        let Some(last) = self.last.take_if(|last| last.attempts == sample.attempts) else {
            *self = Self { last: Some(sample), first: None, failing: self.failing };
            return Judgement::Open;
        };
        let before = action.command.plan.throughput_per_second;
        let window_ms = action.command.verify_for_ms.max(1);
        if sample.records_out <= last.records_out {
            let still = sample.at_ms.saturating_sub(last.at_ms) >= STILL_AFTER_MS.max(window_ms);
            let judgement = match still {
                false => Judgement::Open,
                true if sample.grows_since(&last, before) && before > 0.0 => Judgement::Stuck,
                true => Judgement::Works(0.0),
            };
            self.last = Some(last);
            return judgement;
        }
        self.last = Some(sample.clone());
        let Some(first) = self.first.take() else {
            self.first = Some(sample);
            return Judgement::Open;
        };
        if sample.at_ms.saturating_sub(first.at_ms) < window_ms {
            self.first = Some(first);
            return Judgement::Open;
        }
        let throughput = sample.rate_since(&first, |sample| sample.records_out);
        if throughput < SHARE_OF_BEFORE * before && sample.grows_since(&first, before) {
            self.failing = self.failing.saturating_add(1);
            self.first = Some(sample);
            return Judgement::FallsBehind(throughput);
        }
        Judgement::Works(throughput)
    }
}

impl Sample {
    /// The counters of all sources; `None` where there is no source.
    fn of(seen: &Observation) -> Option<Self> {
        if seen.sources.is_empty() {
            return None;
        }
        let attempts: Vec<String> =
            seen.sources.iter().map(|(id, source)| format!("{id}:{}", source.attempts)).collect();
        Some(Self {
            at_ms: seen.at_ms,
            records_out: seen.sources.values().map(|source| source.records_out).sum(),
            attempts: attempts.join(";"),
            pending: seen.backlog(),
        })
    }

    /// By how much a value rose each second.
    fn rate_since(&self, earlier: &Self, value: impl Fn(&Self) -> f64) -> f64 {
        let seconds = weir_schemas::num::float_signed(self.at_ms.saturating_sub(earlier.at_ms).max(1)) / 1000.0;
        (value(self) - value(earlier)) / seconds
    }

    /// Whether more waits than earlier, beyond noise. What is unknown does not grow.
    fn grows_since(&self, earlier: &Self, throughput_before: f64) -> bool {
        if self.pending.is_none() || earlier.pending.is_none() {
            return false;
        }
        self.rate_since(earlier, |sample| sample.pending.unwrap_or(0.0)) > SHARE_OF_GROWTH * throughput_before
    }
}
