//! `weir history`: what happened to a job, in the order of time.

use std::io::Write;

use serde::Serialize;
use weir_schemas::decision::Decision;
use weir_schemas::event::rfc3339;
use weir_schemas::identity::JobKey;
use weir_store::{ActionRow, AuditRow, Store};

use super::action::{change, progress};
use super::{CommandError, Global, names};
use crate::output::{Output, Sheet, json, moment, short_id, table};

/// Entries of the audit, of all jobs, among which those about the job are looked for.
const AUDIT_LOOKED_AT: u32 = 1_000;

/// Something that happened. In this order where it happened in the same millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// A person said something.
    Said,
    /// A verdict, or what becomes of it, changed.
    Decision,
    /// A command was claimed, or is under way.
    Action,
    /// What became of it.
    Outcome,
}

#[derive(Debug, Serialize)]
struct Entry {
    at_ms: i64,
    time: String,
    kind: Kind,
    id: String,
    sentence: String,
}

impl Entry {
    fn new(at_ms: i64, kind: Kind, id: &str, sentence: String) -> Self {
        Self { at_ms, time: rfc3339(at_ms), kind, id: id.into(), sentence }
    }
}

/// Tells what happened to a job, newest last.
pub(super) async fn run(
    store: &Store,
    global: &Global,
    text: &str,
    limit: u32,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let job = names::known(store, text).await?;
    let entries = gather(store, &job, limit).await?;
    if global.output == Output::Json {
        return Ok(json(out, &entries)?);
    }
    Ok(out.write_all(sheet(&job, &entries).text().as_bytes())?)
}

async fn gather(store: &Store, job: &JobKey, limit: u32) -> Result<Vec<Entry>, CommandError> {
    let mut entries: Vec<Entry> = store.decisions(job, limit, None).await?.iter().map(decided).collect();
    entries.extend(store.actions(job, limit).await?.iter().flat_map(acted));
    let said = store.audit(AUDIT_LOOKED_AT).await?;
    entries.extend(said.iter().filter(|row| row.job.as_ref().is_none_or(|it| it == job)).map(said_by));
    // Stable, and all come newest first: those of one moment and kind are turned round as well.
    entries.reverse();
    entries.sort_by_key(|entry| (entry.at_ms, entry.kind));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(entries.split_off(entries.len().saturating_sub(limit)))
}

fn decided(decision: &Decision) -> Entry {
    Entry::new(decision.decided_at_ms, Kind::Decision, &decision.id, decision.sentence.clone())
}

/// When it was claimed, and what became of it since. One that is not over is one entry, which tells how far it is.
fn acted(row: &ActionRow) -> Vec<Entry> {
    if row.open {
        return vec![Entry::new(row.created_ms, Kind::Action, &row.id, progress(row))];
    }
    let claimed = Entry::new(row.created_ms, Kind::Action, &row.id, format!("{}: claimed", change(row)));
    let outcome = Entry::new(row.updated_ms, Kind::Outcome, &row.id, progress(row));
    vec![outcome, claimed]
}

fn said_by(row: &AuditRow) -> Entry {
    let (who, detail) = (&row.who, &row.detail);
    let sentence = match (row.what.as_str(), detail.as_str()) {
        ("mode", mode) => format!("{who} set the mode to {mode}"),
        ("paused", "true") => format!("{who} paused the job"),
        ("paused", _) => format!("{who} resumed the job"),
        ("frozen", "true") => format!("{who} froze everything"),
        ("frozen", _) => format!("{who} ended the freeze"),
        (kind @ ("approve" | "reject" | "rollback"), id) => format!("{who} asked: {kind} action {}", short_id(id)),
        (what, detail) => format!("{who}: {what} {detail}"),
    };
    Entry::new(row.at_ms, Kind::Said, "", sentence)
}

fn sheet(job: &JobKey, entries: &[Entry]) -> Sheet {
    let mut sheet = Sheet::default();
    if entries.is_empty() {
        sheet
            .title(format!("Nothing has happened to {job} yet: no verdict has changed, and nobody has said anything."));
        return sheet;
    }
    let row = |entry: &Entry| {
        let kind = match entry.kind {
            Kind::Said => "said",
            Kind::Decision => "decision",
            Kind::Action => "action",
            Kind::Outcome => "outcome",
        };
        let id = if entry.id.is_empty() { "-" } else { short_id(&entry.id) };
        vec![moment(entry.at_ms), kind.into(), id.into(), entry.sentence.clone()]
    };
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    sheet.block(&table(&["TIME (UTC)", "KIND", "ID", "WHAT"], &rows, &[]));
    sheet
}
