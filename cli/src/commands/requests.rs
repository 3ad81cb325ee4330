//! What people ask the services to do with an action, and the answer.

use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval, timeout};
use weir_store::{ActionRow, RequestKind, RequestRow, Store};

use super::action::{AWAITS_APPROVAL, REFUSED, ROLLED_BACK};
use super::{CommandError, Global};
use crate::exit::Exit;
use crate::output::{Output, json, plain, short_id, words};

/// How often the answer is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How many actions of a job are looked at to find those after the one in question.
const LOOKED_AT: u32 = 100;

/// Which action, and how long to wait for the answer.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Ask {
    /// The action: its id, or a unique beginning of it; `weir status` and `weir history` show it.
    pub id: String,
    /// How long to wait for a service to answer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    pub wait: u64,
}

/// A program's view of a request.
#[derive(Serialize)]
struct Answer<'a> {
    request: i64,
    kind: &'a str,
    action: &'a str,
    job: String,
    /// Whether a service has answered; the request stays where none has.
    answered: bool,
    /// Whether it was done.
    done: bool,
    /// One sentence; null while nobody has answered.
    result: Option<&'a str>,
}

/// Asks, and waits for the answer.
pub(super) async fn run(
    store: &Store,
    global: &Global,
    kind: RequestKind,
    ask: &Ask,
    out: &mut dyn Write,
) -> Result<Exit, CommandError> {
    let action = store.action(&ask.id).await?;
    if let Some(why) = objection(store, kind, &action).await? {
        return Err(CommandError::Refused { kind: kind.as_str(), id: short_id(&action.id).into(), why });
    }
    let request = store.add_request(kind, &action.id, &global.by, global.now_ms).await?;
    let answered = match timeout(Duration::from_secs(ask.wait), answer(store, request)).await {
        Ok(row) => Some(row?),
        Err(_) => None,
    };
    let done = answered.is_some() && is_done(store, kind, &action).await?;
    let result = answered.as_ref().and_then(|row| row.result.as_deref());
    if global.output == Output::Json {
        let (answered, job) = (answered.is_some(), action.job.to_string());
        let kind = kind.as_str();
        json(out, &Answer { request, kind, action: &action.id, job, answered, done, result })?;
    } else {
        let said = result.map_or_else(|| queued(kind, &action, ask), ToOwned::to_owned);
        let line = format!("action {} of {}: {said}", short_id(&action.id), action.job);
        writeln!(out, "{}", plain(&line))?;
    }
    Ok(match (answered, done) {
        (None, _) => Exit::Failure,
        (Some(_), false) => Exit::Refused,
        (Some(_), true) => Exit::Ok,
    })
}

fn queued(kind: RequestKind, action: &ActionRow, ask: &Ask) -> String {
    format!(
        "{kind} is queued and not answered after {} s: either no actuator runs on this data (start `weir run`), or it \
         waits for the job to settle; it stays asked for, and `weir history {}` shows what comes of it",
        ask.wait, action.job,
    )
}

/// Waits until somebody has answered.
async fn answer(store: &Store, request: i64) -> Result<RequestRow, CommandError> {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let row = store.request(request).await?;
        if row.closed_ms.is_some() {
            return Ok(row);
        }
    }
}

/// What stands against it already, so that nobody has to be asked.
async fn objection(store: &Store, kind: RequestKind, action: &ActionRow) -> Result<Option<String>, CommandError> {
    let controls = store.controls().await?;
    if kind != RequestKind::Reject && controls.frozen {
        return Ok(Some("everything is frozen; `weir unfreeze` first".into()));
    }
    if kind == RequestKind::Rollback {
        return objection_to_rollback(store, action).await;
    }
    if kind == RequestKind::Approve && controls.jobs.get(&action.job).is_some_and(|control| control.paused) {
        return Ok(Some(format!("the job is paused; `weir resume {}` first", action.job)));
    }
    let state = words(&action.state);
    Ok(match (action.state.as_str(), action.open) {
        (AWAITS_APPROVAL, _) => None,
        (_, true) => Some(format!("it is under way already ({state}); `weir rollback` can undo it once it is over")),
        (_, false) => Some(format!("it is over ({state}); `weir status` shows what awaits approval now")),
    })
}

async fn objection_to_rollback(store: &Store, action: &ActionRow) -> Result<Option<String>, CommandError> {
    let state = words(&action.state);
    Ok(match action.state.as_str() {
        AWAITS_APPROVAL => Some("it was not carried out; `weir reject` drops it".into()),
        _ if action.open => Some(format!("it is not over ({state}); wait for its outcome")),
        REFUSED => Some("it was never carried out, so there is nothing to undo".into()),
        ROLLED_BACK => Some("it was undone already".into()),
        _ => {
            let later = later(store, action).await?;
            let changed = later.iter().find(|row| row.state != REFUSED && row.state != AWAITS_APPROVAL);
            changed.map(|row| {
                let (id, state) = (short_id(&row.id), words(&row.state));
                format!("action {id} ({state}) changed the job after it; only the last action can be undone")
            })
        }
    })
}

/// Later actions on the same job, newest first.
async fn later(store: &Store, action: &ActionRow) -> Result<Vec<ActionRow>, CommandError> {
    let rows = store.actions(&action.job, LOOKED_AT).await?;
    Ok(rows.into_iter().filter(|row| row.plan_number > action.plan_number).collect())
}

/// Whether what was asked for happens. The answer is a sentence for people; the actions tell it to programs.
async fn is_done(store: &Store, kind: RequestKind, action: &ActionRow) -> Result<bool, CommandError> {
    Ok(match kind {
        RequestKind::Approve => !matches!(store.action(&action.id).await?.state.as_str(), AWAITS_APPROVAL | REFUSED),
        RequestKind::Reject => store.action(&action.id).await?.state == REFUSED,
        RequestKind::Rollback => {
            let way_back = |row: &ActionRow| row.decision_id.is_empty() && row.state != REFUSED;
            later(store, action).await?.iter().any(way_back)
        }
    })
}
