//! An action: a command and how far it has come.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_schemas::outcome::{Outcome, OutcomeResult};

use crate::admission::Refusal;
use crate::command::Command;
use crate::observation::{Observation, Requirements, targets};
use crate::progress::{Progress, Stop};
use crate::trigger::Trigger;
use crate::trouble::Trouble;
use crate::verify::Verification;

/// A command and how far it has come. All of it is stored, so that another process can go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// What is carried out.
    pub command: Command,
    /// How far it has come.
    pub phase: Phase,
    /// Whether a person approved it.
    #[serde(default)]
    pub approved: bool,
    /// Until when the present phase has to come to its end, in milliseconds since 1970; 0 before the start.
    #[serde(default)]
    pub deadline_ms: i64,
    /// Requirements to go back to: those of before.
    #[serde(default)]
    pub restore: Requirements,
    /// Checkpoints that were asked for.
    #[serde(default)]
    pub trigger: Trigger,
    /// Whether a restart advances.
    #[serde(default)]
    pub progress: Progress,
    /// The stop that the action cost.
    #[serde(default)]
    pub stop: Stop,
    /// How the job last could not be seen.
    #[serde(default)]
    pub trouble: Trouble,
    /// Parallelism that was last seen running, by vertex id.
    #[serde(default)]
    pub after: BTreeMap<String, u32>,
    /// When the job was first seen to run at the target, in milliseconds since 1970.
    #[serde(default)]
    pub observed_at_ms: Option<i64>,
    /// Whether slots are missing for the target.
    #[serde(default)]
    pub short_of_slots: bool,
    /// Records a second that all sources together read after the change, once compared.
    #[serde(default)]
    pub throughput_after: Option<f64>,
}

/// How far an action has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// A person has to approve it.
    AwaitsApproval,
    /// It is claimed, and not yet admitted.
    Planned,
    /// Before Flink 2.0: a checkpoint has to complete, so that little is read again.
    CheckpointFirst,
    /// The requirements are being changed.
    Requesting {
        /// How often that was tried.
        tries: u32,
        /// When it was tried last, in milliseconds since 1970.
        tried_at_ms: i64,
    },
    /// Flink holds the new requirements; the vertices follow.
    Requested {
        /// Since when the job runs with all slots that there are, and fewer subtasks than asked for.
        short_since_ms: Option<i64>,
    },
    /// The vertices run at the target; the counters have to show that it works.
    Verifying(Verification),
    /// It did not work; the requirements of before are being restored.
    RollingBack {
        /// Why, a stable word.
        why: String,
        /// How often that was tried.
        tries: u32,
        /// When it was tried last, in milliseconds since 1970.
        tried_at_ms: i64,
    },
    /// It worked.
    Verified,
    /// It did not work, and the job runs as before.
    RolledBack {
        /// Why, a stable word.
        why: String,
    },
    /// It did not work, and a person has to look.
    Failed {
        /// Why, a stable word.
        why: String,
    },
    /// It was not done.
    Refused {
        /// Why, a stable word.
        why: String,
    },
}

/// Something to be done at Flink, once the action is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Replaces the requirements of all vertices.
    PutRequirements {
        /// The new ones.
        bounds: Requirements,
    },
    /// Takes a checkpoint.
    TriggerCheckpoint {
        /// Flink carries out one checkpoint for each id, however often it is sent.
        trigger_id: String,
    },
}

/// What follows from an observation.
#[must_use]
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The action as it is now: store it first,
    pub action: Action,
    /// then do this.
    pub effect: Option<Effect>,
    /// To be told, stored in the same transaction as the action.
    pub outcome: Option<Outcome>,
    /// When to look at the job again, in milliseconds from now.
    pub look_again_ms: i64,
}

impl Phase {
    /// A stable word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::AwaitsApproval => "awaits_approval",
            Self::Planned => "planned",
            Self::CheckpointFirst => "checkpoint_first",
            Self::Requesting { .. } => "requesting",
            Self::Requested { .. } => "requested",
            Self::Verifying(_) => "verifying",
            Self::RollingBack { .. } => "rolling_back",
            Self::Verified => "verified",
            Self::RolledBack { .. } => "rolled_back",
            Self::Failed { .. } => "failed",
            Self::Refused { .. } => "refused",
        }
    }

    /// Whether nothing more happens.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Verified | Self::RolledBack { .. } | Self::Failed { .. } | Self::Refused { .. })
    }

    /// Whether it has been started and nothing of the job was changed yet: what people say, and what the job has
    /// become, may still stop it.
    #[must_use]
    pub fn is_revocable(&self) -> bool {
        matches!(self, Self::Planned | Self::CheckpointFirst)
    }

    /// Whether it has been started and has not ended.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        !self.is_final() && !matches!(self, Self::AwaitsApproval | Self::Planned)
    }
}

impl Action {
    /// A command that may be admitted.
    #[must_use]
    pub fn planned(command: Command) -> Self {
        Self::new(command, Phase::Planned)
    }

    /// A command that waits for a person.
    #[must_use]
    pub fn awaiting_approval(command: Command) -> Self {
        Self::new(command, Phase::AwaitsApproval)
    }

    fn new(command: Command, phase: Phase) -> Self {
        Self {
            command,
            phase,
            approved: false,
            deadline_ms: 0,
            restore: Requirements::new(),
            trigger: Trigger::default(),
            progress: Progress::default(),
            stop: Stop::default(),
            trouble: Trouble::default(),
            after: BTreeMap::new(),
            observed_at_ms: None,
            short_of_slots: false,
            throughput_after: None,
        }
    }

    /// The action once a person approved it. Nothing changes unless it waits for that.
    #[must_use]
    pub fn approve(mut self) -> Self {
        if self.phase == Phase::AwaitsApproval {
            self.phase = Phase::Planned;
            self.approved = true;
        }
        self
    }

    /// Why it may not be started any more, once it is too old for that.
    #[must_use]
    pub fn expired(&self, now_ms: i64) -> Option<Refusal> {
        let unstarted = matches!(self.phase, Phase::AwaitsApproval | Phase::Planned);
        (unstarted && now_ms >= self.command.expires_at_ms).then(Refusal::expired)
    }

    /// Requirements that Weir set last in the action's run, where it did: none of another party is taken for Weir's
    /// own.
    #[must_use]
    pub fn requirements_set(&self) -> Option<Requirements> {
        match self.phase {
            Phase::Requested { .. } | Phase::Verifying(_) | Phase::Verified => Some(self.bounds()),
            Phase::RolledBack { .. } => Some(self.restore.clone()),
            _ => None,
        }
    }

    /// The requirements that the command asks for.
    pub(crate) fn bounds(&self) -> Requirements {
        targets(&self.command.plan.target())
    }

    /// Remembers what runs, where that can be believed.
    pub(crate) fn note_running(&mut self, seen: &Observation) {
        if seen.is_settled() {
            self.after = seen.parallelism();
        }
    }

    /// Nothing to do but to look again.
    pub(crate) fn wait(self, look_again_ms: i64) -> Step {
        Step { action: self, effect: None, outcome: None, look_again_ms }
    }

    /// Something to do.
    pub(crate) fn act(self, effect: Effect, look_again_ms: i64) -> Step {
        Step { action: self, effect: Some(effect), outcome: None, look_again_ms }
    }

    /// The end.
    pub(crate) fn end(mut self, phase: Phase, now_ms: i64, sentence: String) -> Step {
        let result = match &phase {
            Phase::Verified => OutcomeResult::Verified,
            Phase::RolledBack { why } => OutcomeResult::RolledBack { why: why.clone() },
            Phase::Refused { why } => OutcomeResult::Refused { why: why.clone() },
            other => OutcomeResult::Failed {
                why: if let Phase::Failed { why } = other { why.clone() } else { String::new() },
            },
        };
        self.phase = phase;
        let outcome = self.outcome(result, now_ms, sentence);
        Step { action: self, effect: None, outcome: Some(outcome), look_again_ms: 0 }
    }

    /// Tells what became of the command.
    pub(crate) fn outcome(&self, result: OutcomeResult, at_ms: i64, sentence: String) -> Outcome {
        Outcome {
            command: self.command.id.clone(),
            decision: self.command.decision.clone(),
            job: self.command.job.clone(),
            run: self.command.run.clone(),
            at_ms,
            result,
            before: self.command.before(),
            target: self.command.plan.target(),
            after: self.after.clone(),
            stop_ms: self.stop.length_ms(),
            expected_stop_ms: self.command.plan.expected_stop_ms,
            short_of_slots: self.short_of_slots,
            sentence,
        }
    }
}
