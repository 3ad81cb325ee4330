//! Carrying the actions of one job on.

use tracing::{debug, info, warn};
use weir_drivers::{DriverError, Look};
use weir_governor::{
    Action, Admission, Context, Observation, ObserveError, Phase, Refusal, Step, admit, advance, begin, refuse,
    rejected, uppers,
};
use weir_placement::LEASE_MS;
use weir_store::Lease;

use crate::office::{Held, Office};
use crate::{ActuatorError, rows};

/// How long an action that has to wait is left alone, in milliseconds.
const WAIT_MS: i64 = 1_000;
/// Earlier actions of a job that are looked through for the requirements that Weir set.
const RECENT: u32 = 20;

/// What a pass did for a job.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// Actions that were looked at, and when they are to be looked at again, in milliseconds from now.
    pub(crate) looked: Vec<(String, i64)>,
}

/// What is needed to carry actions on.
#[derive(Clone, Copy)]
pub(crate) struct Carrier<'a> {
    pub(crate) office: &'a Office,
    pub(crate) lease: &'a Lease,
    /// Until when effects may be carried out, by the monotonic clock.
    pub(crate) trusted_until_ms: i64,
}

impl Carrier<'_> {
    /// Carries the open actions of one job on, oldest first: ends those that wait in vain, then takes the one whose
    /// turn it is.
    pub(crate) async fn job(&self, open: Vec<Held>, is_due: impl Fn(&str) -> bool) -> Result<Carried, ActuatorError> {
        let mut carried = Carried::default();
        let mut left = Vec::new();
        for (index, held) in open.iter().enumerate() {
            let newer = open[index + 1..].iter().any(|other| !other.action.command.is_from_person());
            match in_vain(&held.action, newer, self.office.clock.now_ms()) {
                Some(refusal) => self.refuse(held, &refusal).await?,
                None => left.push(held),
            }
        }
        let turn = left.iter().find(|held| held.action.phase.is_under_way());
        let turn = turn.or_else(|| left.iter().find(|held| held.action.phase == Phase::Planned));
        if let Some(held) = turn.filter(|held| is_due(&held.action.command.id)) {
            let look_again_ms = self.one(held).await?;
            carried.looked.push((held.action.command.id.clone(), look_again_ms));
        }
        Ok(carried)
    }

    async fn refuse(&self, held: &Held, refusal: &Refusal) -> Result<(), ActuatorError> {
        let step = refuse(held.action.clone(), refusal, self.office.clock.now_ms());
        self.office.store_action(self.lease, &step.action, held.created_ms, step.outcome.as_ref()).await
    }

    /// Looks at the job, decides, stores, acts.
    async fn one(&self, held: &Held) -> Result<i64, ActuatorError> {
        let command = &held.action.command;
        let Some(driver) = self.office.drivers.get(&command.job.cluster) else { return Ok(WAIT_MS) };
        let counters = matches!(held.action.phase, Phase::Verifying(_));
        let seen = driver.observe(Look { job: &command.job, run: &command.run, counters }).await;
        if let Err(why) = &seen {
            debug!(job = %command.job, %why, "the job cannot be seen");
        }
        let step = self.decide(&held.action, &seen).await?;
        if step.action != held.action || step.outcome.is_some() {
            self.office.store_action(self.lease, &step.action, held.created_ms, step.outcome.as_ref()).await?;
        }
        let Some(effect) = &step.effect else { return Ok(step.look_again_ms) };
        if !self.still_holds().await? {
            warn!(job = %command.job, "too late to act: another actuator has taken over");
            return Ok(0);
        }
        info!(job = %command.job, action = command.id, ?effect, "acting");
        match driver.execute(&command.run, effect).await {
            Ok(_) => {}
            Err(DriverError::Later(why)) => warn!(job = %command.job, why, "Flink did not take it; trying again"),
            Err(DriverError::Refused(why)) => {
                let end = rejected(step.action.clone(), &why, self.office.clock.now_ms());
                if end.action != step.action {
                    self.office.store_action(self.lease, &end.action, held.created_ms, end.outcome.as_ref()).await?;
                }
                return Ok(end.look_again_ms);
            }
        }
        Ok(step.look_again_ms)
    }

    /// Whether the lease can be relied on for an effect. A process that was stopped for a while must not do what another has
    /// undone meanwhile; one whose JobManager is slow asks the database and goes on.
    async fn still_holds(&self) -> Result<bool, ActuatorError> {
        if self.office.clock.monotonic_ms() < self.trusted_until_ms {
            return Ok(true);
        }
        Ok(self.office.store.renew_lease(self.lease, LEASE_MS).await?.is_some())
    }

    /// What follows from what is seen. Until something was changed, everything that stood for admission has to stand.
    async fn decide(&self, action: &Action, seen: &Result<Observation, ObserveError>) -> Result<Step, ActuatorError> {
        let now_ms = self.office.clock.now_ms();
        let (true, Ok(observed)) = (action.phase.is_revocable(), seen) else {
            return Ok(advance(action.clone(), seen, now_ms));
        };
        let admission = self.admission(action, observed, now_ms).await?;
        Ok(match admission {
            Admission::Refuse(refusal) => refuse(action.clone(), &refusal, now_ms),
            Admission::Go if action.phase == Phase::Planned => begin(action.clone(), observed, now_ms),
            Admission::Wait(waiting) if action.phase == Phase::Planned => {
                debug!(job = %action.command.job, word = waiting.word, %waiting, "waiting");
                let step = advance(action.clone(), seen, now_ms);
                Step { look_again_ms: WAIT_MS, ..step }
            }
            Admission::Go | Admission::Wait(_) => advance(action.clone(), seen, now_ms),
        })
    }

    async fn admission(&self, action: &Action, seen: &Observation, now_ms: i64) -> Result<Admission, ActuatorError> {
        let job = &action.command.job;
        let recent = self.office.store.actions(job, RECENT).await?;
        let recent: Vec<Action> = recent.iter().filter_map(|row| rows::action(row).ok()).collect();
        let in_run = recent.iter().filter(|earlier| earlier.command.run == action.command.run);
        let ours = in_run.filter_map(Action::requirements_set).next().as_ref().map(uppers);
        let heard = self.office.epochs.newest(job);
        let claimed = recent.iter().map(|earlier| earlier.command.epoch).max().unwrap_or(0);
        let context = Context {
            now_ms,
            controls: self.office.controls(action),
            under_way: None,
            // What is claimed and begun stays valid: the next analyzer has read of it, and waits for its outcome.
            newest_epoch: if action.phase == Phase::Planned { heard.max(claimed) } else { 0 },
            ours: ours.as_ref(),
        };
        Ok(admit(&action.command, &context, seen))
    }
}

/// Why an action that has not started never will. `newer`: a newer decision led to an action of the same job.
fn in_vain(action: &Action, newer: bool, now_ms: i64) -> Option<Refusal> {
    let superseded = newer && action.phase == Phase::AwaitsApproval;
    action.expired(now_ms).or_else(|| superseded.then(Refusal::superseded))
}
