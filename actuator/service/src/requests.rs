//! What people ask for: approve, reject, go back.

use std::collections::BTreeMap;

use tracing::{info, warn};
use weir_drivers::Look;
use weir_governor::{Action, Command, ObserveError, Phase, Refusal, Rollback, refuse};
use weir_placement::Holder;
use weir_schemas::identity::RunId;
use weir_store::{ActionRow, Lease, RequestKind, RequestRow, StoreError};

use crate::clusters;
use crate::office::Office;
use crate::{ActuatorError, rows};

/// How long a request waits before it is tried again, in milliseconds.
const AGAIN_MS: i64 = 1_000;
/// How long a person's request waits for Flink, in milliseconds.
const GIVE_UP_MS: i64 = 600_000;
/// Actions of a job that are looked through for one that a request led to already.
const RECENT: u32 = 50;

/// Requests that could not be answered yet, and when they are tried again, by the monotonic clock.
#[derive(Default)]
pub(crate) struct Requests {
    later: BTreeMap<i64, i64>,
}

impl Requests {
    /// Answers what can be answered, and says how many that were.
    pub(crate) async fn answer(&mut self, office: &Office, holder: &Holder) -> Result<u64, ActuatorError> {
        let open = office.store.open_requests().await?;
        self.later.retain(|id, _| open.iter().any(|request| request.id == *id));
        let mut answered = 0;
        for request in open {
            let Some(lease) = holder.of(&clusters::lease_name(&request.job.cluster)) else { continue };
            let now_ms = office.clock.monotonic_ms();
            if self.later.get(&request.id).is_some_and(|at_ms| now_ms < *at_ms) {
                continue;
            }
            match answer(office, lease, &request).await? {
                Some(answer) => {
                    close(office, &request, &answer).await?;
                    answered += 1;
                }
                None => {
                    self.later.insert(request.id, now_ms.saturating_add(AGAIN_MS));
                }
            }
        }
        Ok(answered)
    }
}

async fn close(office: &Office, request: &RequestRow, answer: &str) -> Result<(), ActuatorError> {
    info!(job = %request.job, request = %request.kind, by = request.by, answer, "answered a request");
    match office.store.close_request(request.id, answer, office.clock.now_ms()).await {
        Ok(()) | Err(StoreError::Closed { .. }) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

/// The answer to a request; `None`: not yet.
async fn answer(office: &Office, lease: &Lease, request: &RequestRow) -> Result<Option<String>, ActuatorError> {
    let row = match office.store.action(&request.action_id).await {
        Ok(row) => row,
        Err(StoreError::NotFound { .. }) => return Ok(Some("the action is not known any more".into())),
        Err(why) => return Err(why.into()),
    };
    let action = match rows::action(&row) {
        Ok(action) => action,
        Err(why) => return Ok(Some(why.to_string())),
    };
    match request.kind {
        RequestKind::Approve => approve(office, lease, &row, action).await.map(Some),
        RequestKind::Reject => reject(office, lease, &row, action, &request.by).await.map(Some),
        RequestKind::Rollback => roll_back(office, lease, request, &action).await,
    }
}

async fn approve(office: &Office, lease: &Lease, row: &ActionRow, action: Action) -> Result<String, ActuatorError> {
    if action.phase != Phase::AwaitsApproval {
        return Ok(format!("there is nothing to approve: the action is {}", said(&action.phase)));
    }
    office.store_action(lease, &action.approve(), row.created_ms, None).await?;
    Ok("approved; it starts now, if the job is still what the plan was made for".into())
}

async fn reject(
    office: &Office,
    lease: &Lease,
    row: &ActionRow,
    action: Action,
    by: &str,
) -> Result<String, ActuatorError> {
    let was = said(&action.phase);
    let step = refuse(action, &Refusal::rejected(by), office.clock.now_ms());
    let Some(outcome) = step.outcome else {
        return Ok(format!("it cannot be rejected any more: the action is {was}; ask for a rollback instead"));
    };
    office.store_action(lease, &step.action, row.created_ms, Some(&outcome)).await?;
    Ok("rejected".into())
}

/// Makes a command that gives the job back the size that it had before `earlier`.
async fn roll_back(
    office: &Office,
    lease: &Lease,
    request: &RequestRow,
    earlier: &Action,
) -> Result<Option<String>, ActuatorError> {
    let job = &request.job;
    if was_claimed(office, request).await? {
        return Ok(Some("it is under way already".into()));
    }
    let Some(driver) = office.drivers.get(&job.cluster) else { return Ok(None) };
    let run = present_run(office, earlier).await?;
    let seen = driver.observe(Look { job, run: &run, counters: true }).await;
    let waited_ms = office.clock.now_ms().saturating_sub(request.requested_ms);
    let seen = match seen {
        Ok(seen) if seen.has_ended() => return Ok(Some(format!("not done: the job is {}", seen.job_state))),
        Ok(seen) if seen.is_settled() => seen,
        Err(ObserveError::Gone(why)) => return Ok(Some(format!("not done: {why}"))),
        _ if waited_ms >= GIVE_UP_MS => return Ok(Some("not done: the job could not be seen running".into())),
        _ => return Ok(None),
    };
    let wish = Rollback {
        job,
        undo: &earlier.command.plan,
        request: request.id,
        number: office.store.max_plan_number(job).await?.saturating_add(1),
        asked_at_ms: office.clock.now_ms(),
    };
    let command = match Command::roll_back(&wish, &seen, office.numbers(job)) {
        Ok(command) => command,
        Err(refusal) => return Ok(Some(format!("not done: {refusal}"))),
    };
    let answer = format!("going back: {}", command.plan.arrows());
    if !office.claim(lease, &Action::planned(command), None, None).await? {
        warn!(%job, "the way back has the id of an earlier command");
        return Ok(None);
    }
    Ok(Some(answer))
}

/// Whether the request has led to an action already, and its answer was lost.
async fn was_claimed(office: &Office, request: &RequestRow) -> Result<bool, ActuatorError> {
    let recent = office.store.actions(&request.job, RECENT).await?;
    let from_it = |row| rows::action(row).is_ok_and(|action| action.command.request == Some(request.id));
    Ok(recent.iter().any(from_it))
}

/// The run that the job is in now, as far as is known.
async fn present_run(office: &Office, earlier: &Action) -> Result<RunId, ActuatorError> {
    let jobs = office.store.jobs().await?;
    let known = jobs.into_iter().find(|row| row.job == earlier.command.job);
    Ok(known.map_or_else(|| earlier.command.run.clone(), |row| row.run))
}

fn said(phase: &Phase) -> String {
    phase.word().replace('_', " ")
}
