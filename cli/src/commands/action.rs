//! Actions as people read them. The actuator keeps the rest of an action as JSON; what is shown of it is read here, and
//! what a newer version added is passed over.

use serde::{Deserialize, Serialize};
use weir_schemas::decision::Plan;
use weir_schemas::num::{short, short_time};
use weir_store::ActionRow;

use crate::output::words;

/// State of an action that waits for a person.
pub(super) const AWAITS_APPROVAL: &str = "awaits_approval";
/// State of an action that was never carried out.
pub(super) const REFUSED: &str = "refused";
/// State of an action that was undone.
pub(super) const ROLLED_BACK: &str = "rolled_back";

/// An action in short. Part of the JSON of `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Brief {
    /// Id of the command.
    pub(super) id: String,
    /// A stable word.
    pub(super) state: String,
    /// Whether something is still to be done.
    pub(super) open: bool,
    /// When it changed last, in milliseconds since 1970.
    pub(super) updated_ms: i64,
}

impl From<&ActionRow> for Brief {
    fn from(row: &ActionRow) -> Self {
        Self { id: row.id.clone(), state: row.state.clone(), open: row.open, updated_ms: row.updated_ms }
    }
}

#[derive(Deserialize)]
struct Body {
    command: Commanded,
    phase: Phase,
    #[serde(default)]
    stop: Stop,
    throughput_after: Option<f64>,
}

#[derive(Deserialize)]
struct Commanded {
    plan: Plan,
}

#[derive(Deserialize)]
struct Phase {
    why: Option<String>,
}

#[derive(Deserialize, Default)]
struct Stop {
    began_ms: Option<i64>,
    ended_ms: Option<i64>,
}

/// What an action changes: `flatmap 1 -> 3, count 1 -> 5`.
pub(super) fn change(row: &ActionRow) -> String {
    match body(row).map(|body| body.command.plan.arrows()) {
        Some(arrows) if !arrows.is_empty() => arrows,
        _ => format!("plan {}", row.plan_number),
    }
}

/// How far an action has come, or what became of it, in one sentence.
pub(super) fn progress(row: &ActionRow) -> String {
    let change = change(row);
    let Some(body) = body(row) else { return format!("{change}: {}", words(&row.state)) };
    let why = body.phase.why.as_deref().map(|why| format!(": {}", words(why))).unwrap_or_default();
    match row.state.as_str() {
        "verified" => format!("{change} verified{}{}", stop(&body), throughput(&body)),
        ROLLED_BACK => format!("{change} undone{why}{}", throughput(&body)),
        "failed" => format!("{change} failed{why}; look at the job in Flink's web page"),
        REFUSED => format!("{change} not done{why}"),
        other => format!("{change}: {}{why}", words(other)),
    }
}

/// `None` for what another version wrote: then the row alone has to do.
fn body(row: &ActionRow) -> Option<Body> {
    serde_json::from_str(&row.body).ok()
}

fn stop(body: &Body) -> String {
    let (Some(began), Some(ended)) = (body.stop.began_ms, body.stop.ended_ms) else { return String::new() };
    let expected = short_time(body.command.plan.expected_stop_ms);
    format!(" after a stop of {} ({expected} expected)", short_time(ended.saturating_sub(began).max(0)))
}

fn throughput(body: &Body) -> String {
    let before = body.command.plan.throughput_per_second;
    match body.throughput_after {
        Some(after) if before > 0.0 => format!(", throughput {}/s ({}/s before)", short(after), short(before)),
        Some(after) => format!(", throughput {}/s", short(after)),
        None => String::new(),
    }
}
