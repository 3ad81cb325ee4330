//! Actions and outcomes as the control database keeps them.

use weir_governor::{Action, Phase};
use weir_outbox::Logs;
use weir_schemas::event::CloudEvent;
use weir_schemas::outcome::Outcome;
use weir_store::{ActionRow, OutboxWrite};

use crate::ActuatorError;

/// The row of an action.
pub(crate) fn row(action: &Action, epoch: u64, created_ms: i64, now_ms: i64) -> Result<ActionRow, ActuatorError> {
    let command = &action.command;
    Ok(ActionRow {
        id: command.id.clone(),
        job: command.job.clone(),
        run: command.run.clone(),
        decision_id: command.decision.clone(),
        state: action.phase.word().into(),
        open: !action.phase.is_final(),
        restarted: action.stop.began_ms.is_some() || action.observed_at_ms.is_some(),
        epoch,
        plan_number: command.plan.number,
        created_ms,
        updated_ms: now_ms,
        body: json("an action", action)?,
    })
}

/// The action of a row.
pub(crate) fn action(row: &ActionRow) -> Result<Action, ActuatorError> {
    let read: Result<Action, _> = serde_json::from_str(&row.body);
    let unreadable = |why: String| ActuatorError::Unreadable { id: row.id.clone(), why };
    let action = read.map_err(|error| unreadable(error.to_string()))?;
    let body_is_open = !action.phase.is_final();
    if body_is_open == row.open { Ok(action) } else { Err(unreadable(contradiction(&action.phase))) }
}

fn contradiction(phase: &Phase) -> String {
    format!("its row and its body disagree on whether it has ended (the body says {})", phase.word())
}

/// What tells of an outcome: the analyzer, whose state it becomes part of, and everybody else. `owner` publishes it.
pub(crate) fn told(logs: &Logs, owner: &str, outcome: &Outcome) -> Result<Vec<OutboxWrite>, ActuatorError> {
    let key = outcome.job.to_string();
    let event = CloudEvent::of_outcome(outcome).map_err(|error| encode("an event", &error))?;
    Ok(vec![
        logs.outcome(owner, &key, json("an outcome", outcome)?.into_bytes()),
        logs.event(owner, &key, json("an event", &event)?.into_bytes()),
    ])
}

fn json<T: serde::Serialize>(what: &'static str, value: &T) -> Result<String, ActuatorError> {
    serde_json::to_string(value).map_err(|error| encode(what, &error))
}

fn encode(what: &'static str, error: &serde_json::Error) -> ActuatorError {
    ActuatorError::Encode { what, why: error.to_string() }
}
