//! What is remembered of a job, and how records change it.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use weir_schemas::control::ControlState;
use weir_schemas::decision::{APPROVAL_EXPIRES_AFTER_MS, EXPIRES_AFTER_MS};
use weir_schemas::identity::RunId;
use weir_schemas::outcome::{Outcome, OutcomeResult};
use weir_schemas::policy::Policy;
use weir_schemas::records::{MetricBatch, Silence};

use crate::demand;
use crate::interval::Interval;
use crate::sample::Sample;
use crate::shrink::NeededOfLate;
use crate::window;

/// After so many periods without a round the data are stale.
const STALE_PERIODS: i64 = 3;
/// Refusals after which nothing speaks against the same plan, made anew.
const NO_SETBACK: [&str; 6] = ["old_epoch", "superseded", "expired", "frozen", "paused", "mode"];
/// How far back restarts are remembered, in milliseconds.
const DAY_MS: i64 = 86_400_000;

/// Everything that is remembered of one job. It outlives runs: what was learnt about a job survives a redeploy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JobState {
    /// What people have said; nothing is decided before it is known.
    pub control: Option<ControlState>,
    /// Parts of a round that is not whole yet.
    pub(crate) parts: Vec<StoredPart>,
    /// The newest round.
    pub(crate) newest: Option<Sample>,
    /// Differences between rounds since the executions last changed.
    pub(crate) intervals: VecDeque<Interval>,
    /// Since when every subtask of these executions runs, in milliseconds since 1970.
    pub(crate) running_since_ms: Option<i64>,
    /// What was needed of late.
    pub(crate) needed: NeededOfLate,
    /// A shrink that was due when the job restarted for another reason: now it costs nothing more.
    pub(crate) released_shrink: Option<Vec<u32>>,
    /// Flaws of the newest record, by word.
    pub(crate) flaws: BTreeMap<String, String>,
    /// Plans that were handed out.
    pub plans: u64,
    /// The command that is under way.
    pub in_flight: Option<InFlight>,
    /// When Weir restarted the job within the last day, in milliseconds since 1970.
    pub(crate) restarts_ms: Vec<i64>,
    /// A refusal or failure that has to be waited out.
    pub(crate) setback: Option<Setback>,
    /// Vertices that were grown while they were saturated, by id: what they could do before.
    pub(crate) grown: BTreeMap<String, Grown>,
    /// Targets that were tried in this run and rolled back.
    pub(crate) quarantine: Vec<BTreeMap<String, u32>>,
    /// The requirements that the JobManager held when they were last known to be ours.
    pub(crate) our_requirements: Option<String>,
    /// When somebody else changed the requirements, in milliseconds since 1970.
    pub(crate) foreign_change_ms: Option<i64>,
    /// Words of the last decision that was told.
    pub(crate) told: Option<String>,
    /// Since when it is held for reasons that pass by themselves, in milliseconds since 1970.
    pub(crate) passing_since_ms: Option<i64>,
}

/// A part of a round, as bytes of its protobuf form.
pub(crate) type StoredPart = Vec<u8>;

/// A command that is under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InFlight {
    /// Its id.
    pub command: String,
    /// Whether it waits for a person.
    pub awaits_approval: bool,
    /// When it was decided, in milliseconds since 1970.
    pub since_ms: i64,
    /// Number of its plan.
    pub plan: u64,
    /// Parallelism that it asks for, by vertex id.
    pub target: BTreeMap<String, u32>,
    /// Whether the actuator said that it started.
    #[serde(default)]
    pub started: bool,
}

impl InFlight {
    /// Whether nothing more will be heard of it: it can no longer be started, or its end is long overdue. That happens only if the
    /// logs have lost the command or its outcome; the actuator still sees to it that there is one action at a time.
    pub(crate) fn is_lost(&self, now_ms: i64) -> bool {
        let lasts_ms = match (self.started, self.awaits_approval) {
            (true, _) => LONGEST_ACTION_MS,
            (false, true) => APPROVAL_EXPIRES_AFTER_MS + GRACE_MS,
            (false, false) => EXPIRES_AFTER_MS + GRACE_MS,
        };
        now_ms - self.since_ms > lasts_ms
    }
}

/// Longest time that an action may take, with going back, in milliseconds.
const LONGEST_ACTION_MS: i64 = 3_600_000;
/// How much later than a command can be started at the latest its refusal may be heard, in milliseconds.
const GRACE_MS: i64 = 60_000;

/// What a saturated vertex could do before it was grown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Grown {
    pub subtasks: u32,
    /// Records a second of all subtasks together.
    pub per_second: f64,
}

/// Something went wrong, and is not tried again at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Setback {
    pub at_ms: i64,
    pub why: String,
}

impl JobState {
    /// The policy that applies.
    pub(crate) fn policy(&self) -> Policy {
        self.control.as_ref().map(|control| control.policy.clone()).unwrap_or_default()
    }

    /// The run that was last seen.
    #[must_use]
    pub fn run(&self) -> Option<&RunId> {
        self.newest.as_ref().map(|sample| &sample.run)
    }

    /// When the newest metrics were fetched, in milliseconds since 1970.
    #[must_use]
    pub fn fetched_at_ms(&self) -> Option<i64> {
        self.newest.as_ref().map(|sample| sample.facts.fetched_at_ms)
    }

    /// Parallelism of every vertex by name, as last seen, in topological order.
    #[must_use]
    pub fn parallelism(&self) -> Vec<(String, u32)> {
        let vertices = self.newest.iter().flat_map(|sample| &sample.vertices);
        vertices.map(|vertex| (vertex.name.clone(), vertex.parallelism)).collect()
    }

    /// Takes in a part of a round. True once the round is whole and was merged.
    ///
    /// # Errors
    /// A stable word for what was refused.
    pub(crate) fn fold_part(&mut self, part: MetricBatch) -> Result<bool, String> {
        use prost::Message;
        let decode = |stored: &StoredPart| MetricBatch::decode(stored.as_slice()).ok();
        let mut parts: Vec<MetricBatch> = self.parts.iter().filter_map(decode).collect();
        let mut refused = Ok(());
        if parts.first().is_some_and(|first| first.batch_id != part.batch_id) {
            parts.clear();
            refused = Err("incomplete_round".to_string());
        }
        parts.retain(|other| other.part != part.part);
        let wanted = part.parts.max(1);
        parts.push(part);
        if u32::try_from(parts.len()).unwrap_or(u32::MAX) < wanted {
            self.parts = parts.iter().map(Message::encode_to_vec).collect();
            return refused.map(|()| false);
        }
        self.parts.clear();
        self.flaws.clear();
        match Sample::from_parts(&parts) {
            Ok(sample) => self.merge(sample).map(|()| true),
            Err(why) => {
                self.flaws.insert("bad_graph".into(), why);
                Ok(true)
            }
        }
    }

    /// Merges a whole round.
    fn merge(&mut self, sample: Sample) -> Result<(), String> {
        if self.run().is_some_and(|run| *run != sample.run) {
            self.new_run(&sample);
        }
        let before = self.newest.as_ref().filter(|before| before.same_executions(&sample) && sample.all_running());
        if let (Some(before), true) = (before, self.running_since_ms.is_some()) {
            let mut interval = Interval::between(before, &sample)?;
            interval.catching_up = self.is_catching_up(&sample, &interval);
            self.intervals.push_back(interval);
            let oldest_ms = sample.facts.fetched_at_ms - window::looked_at_ms(&self.policy(), sample.facts.refresh_ms);
            while self.intervals.front().is_some_and(|old| old.to_ms < oldest_ms) {
                self.intervals.pop_front();
            }
        } else {
            self.executions_changed(&sample);
        }
        self.watch_requirements(&sample);
        self.newest = Some(sample);
        Ok(())
    }

    /// Another submission: what was tried in the old one says nothing of it, and its requirements are the graph's own again.
    fn new_run(&mut self, sample: &Sample) {
        self.quarantine.clear();
        self.grown.clear();
        self.our_requirements = None;
        self.foreign_change_ms = None;
        self.setback = None;
        let others_run = self.in_flight.as_ref().is_some_and(|action| action.since_ms < sample.run.start_ms);
        if others_run && self.in_flight.as_ref().is_some_and(|action| action.awaits_approval) {
            self.in_flight = None;
        }
    }

    /// The job restarted, or is about to: windows never cross that.
    fn executions_changed(&mut self, sample: &Sample) {
        let was_running = self.running_since_ms.is_some();
        if was_running && self.in_flight.is_none() {
            let current = self.newest.as_ref().map(Sample::parallelism).unwrap_or_default();
            let policy = self.policy();
            let due = self.needed.due_at_ms(&current, policy.shrink_after_ms);
            let is_due = due.is_some_and(|at| at <= sample.facts.fetched_at_ms);
            self.released_shrink = is_due.then(|| self.needed.most());
        }
        self.intervals.clear();
        self.needed.forget();
        self.running_since_ms = sample.all_running().then_some(sample.facts.fetched_at_ms);
    }

    /// Whether an interval belongs to the working-off of what waited during a stop: a backlog of more than a second's arrivals
    /// falls. After the recovery objective it counts as normal work, or a job that is just too slow would never be sized.
    fn is_catching_up(&self, sample: &Sample, interval: &Interval) -> bool {
        let objective_ms = self.policy().recovery_objective_ms;
        let long_since = self.running_since_ms.is_none_or(|since| interval.to_ms - since > objective_ms);
        !long_since && demand::works_off_backlog(sample, interval)
    }

    /// Notices when somebody else changes what the JobManager is asked for.
    fn watch_requirements(&mut self, sample: &Sample) {
        let seen = &sample.facts.requirements;
        if seen.is_empty() || self.in_flight.as_ref().is_some_and(|action| !action.awaits_approval) {
            return;
        }
        if self.our_requirements.as_ref().is_some_and(|ours| ours != seen) {
            self.foreign_change_ms = Some(sample.facts.fetched_at_ms);
        }
        self.our_requirements = Some(seen.clone());
    }

    /// Takes in that nothing came of the job in a round. One round more or less says nothing; three periods without any are a gap.
    pub(crate) fn fold_silence(&mut self, silence: &Silence, now_ms: i64) {
        let ended = matches!(silence.reason.as_str(), "gone" | "finished");
        let stale = self.newest.as_ref().is_none_or(|sample| {
            now_ms - sample.facts.fetched_at_ms > STALE_PERIODS * sample.facts.period_ms.max(sample.facts.refresh_ms)
        });
        if !ended && !stale {
            return;
        }
        self.flaws.clear();
        self.flaws.insert(silence.reason.clone(), silence.detail.clone());
        if ended {
            self.running_since_ms = None;
            self.intervals.clear();
        }
        self.needed.forget();
    }

    /// A command is under way, or waits. One that is not known here was given by a person.
    fn under_way(&mut self, outcome: &Outcome) {
        let awaits_approval = outcome.result == OutcomeResult::AwaitsApproval;
        match self.in_flight.as_mut().filter(|action| action.command == outcome.command) {
            Some(action) => {
                action.awaits_approval = awaits_approval;
                action.started = !awaits_approval;
            }
            None if awaits_approval => {}
            None => {
                self.in_flight = Some(InFlight {
                    command: outcome.command.clone(),
                    awaits_approval,
                    since_ms: outcome.at_ms,
                    plan: self.plans,
                    target: outcome.target.clone(),
                    started: true,
                });
            }
        }
    }

    /// Takes in what became of a command.
    pub(crate) fn fold_outcome(&mut self, outcome: &Outcome) {
        let same_run = self.run().is_none_or(|run| *run == outcome.run);
        self.restarts_ms.retain(|at| *at > outcome.at_ms - DAY_MS);
        match &outcome.result {
            OutcomeResult::Started | OutcomeResult::AwaitsApproval => {
                self.under_way(outcome);
                return;
            }
            OutcomeResult::Verified => {
                self.restarts_ms.push(outcome.at_ms);
                self.setback = None;
                // What a person has undone is not done again in the same run.
                if outcome.decision.is_empty() && same_run {
                    self.quarantine.push(outcome.before.clone());
                }
            }
            OutcomeResult::RolledBack { why } | OutcomeResult::Failed { why } => {
                self.restarts_ms.push(outcome.at_ms);
                self.setback = Some(Setback { at_ms: outcome.at_ms, why: why.clone() });
                if same_run {
                    self.quarantine.push(outcome.target.clone());
                }
            }
            OutcomeResult::Refused { why } if NO_SETBACK.contains(&why.as_str()) => {}
            OutcomeResult::Refused { why } => {
                self.setback = Some(Setback { at_ms: outcome.at_ms, why: why.clone() });
            }
        }
        // What the JobManager holds now is our doing, whatever it is.
        self.our_requirements = None;
        if self.in_flight.as_ref().is_some_and(|action| action.command == outcome.command) {
            self.in_flight = None;
        }
    }
}
