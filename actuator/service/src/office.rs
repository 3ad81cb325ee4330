//! What every part of the actuator works with.

use std::collections::BTreeMap;
use std::sync::Arc;

use metrics::counter;
use tracing::info;
use weir_drivers::Driver;
use weir_governor::{Action, Controls, Numbers};
use weir_outbox::Logs;
use weir_runtime::{Clock, telemetry};
use weir_schemas::control::{ControlState, PolicyBook};
use weir_schemas::identity::JobKey;
use weir_schemas::outcome::Outcome;
use weir_store::{Lease, Store};

use crate::epochs::Epochs;
use crate::{ActuatorError, rows};

/// What every part of the actuator works with.
pub(crate) struct Office {
    pub(crate) store: Store,
    pub(crate) logs: Logs,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) book: PolicyBook,
    pub(crate) drivers: BTreeMap<String, Arc<dyn Driver>>,
    /// What people have said, as of this pass.
    pub(crate) said: weir_store::Controls,
    /// Epochs of analyzers that were heard of.
    pub(crate) epochs: Epochs,
}

/// An action that is not over, as the database has it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) action: Action,
    pub(crate) created_ms: i64,
}

impl Office {
    /// Reads what people have said, if they have said something since.
    pub(crate) async fn listen(&mut self) -> Result<(), ActuatorError> {
        // The first revision is 0, as is that of controls that were never read: those are the same.
        if self.store.control_revision().await? != self.said.revision {
            self.said = self.store.controls().await?;
        }
        Ok(())
    }

    /// What applies to a job.
    pub(crate) fn control(&self, job: &JobKey) -> ControlState {
        let said = self.said.jobs.get(job).copied().unwrap_or_default();
        self.book.control(job, said.mode, said.paused, self.said.frozen)
    }

    /// What applies to an action of a job.
    pub(crate) fn controls(&self, action: &Action) -> Controls {
        let ControlState { mode, paused, frozen, .. } = self.control(&action.command.job);
        Controls { mode, paused, frozen, approved: action.approved || action.command.is_from_person() }
    }

    /// Numbers of a job's policy.
    pub(crate) fn numbers(&self, job: &JobKey) -> Numbers {
        Numbers::of(&self.control(job).policy)
    }

    /// Claims an action. False if it was claimed before.
    pub(crate) async fn claim(
        &self,
        lease: &Lease,
        action: &Action,
        position: Option<weir_store::PositionRow>,
        outcome: Option<&Outcome>,
    ) -> Result<bool, ActuatorError> {
        let now_ms = self.clock.now_ms();
        let row = rows::row(action, lease.epoch, now_ms, now_ms)?;
        let outbox =
            outcome.map(|outcome| rows::told(&self.logs, &lease.name, outcome)).transpose()?.unwrap_or_default();
        let claimed = self.store.clone().under_lease(lease).claim_action(&row, position, outbox).await?;
        if claimed {
            let plan = action.command.plan.arrows();
            info!(job = %action.command.job, action = row.id, plan, state = row.state, "claimed an action");
        }
        Ok(claimed)
    }

    /// Stores how far an action got, with what is to be told of it.
    pub(crate) async fn store_action(
        &self,
        lease: &Lease,
        action: &Action,
        created_ms: i64,
        outcome: Option<&Outcome>,
    ) -> Result<(), ActuatorError> {
        let row = rows::row(action, lease.epoch, created_ms, self.clock.now_ms())?;
        let outbox =
            outcome.map(|outcome| rows::told(&self.logs, &lease.name, outcome)).transpose()?.unwrap_or_default();
        self.store.clone().under_lease(lease).update_action(&row, outbox).await?;
        if let Some(outcome) = outcome {
            info!(job = %outcome.job, action = row.id, result = outcome.result.word(), outcome.sentence, "outcome");
            if outcome.result.is_final() {
                counter!(telemetry::ACTIONS, "result" => outcome.result.word()).increment(1);
            }
        }
        Ok(())
    }
}
