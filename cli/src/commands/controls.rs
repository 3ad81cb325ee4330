//! What people say of jobs, and of everything: mode, pause, freeze.

use std::io::Write;

use serde::Serialize;
use weir_schemas::control::Mode;
use weir_store::Store;

use super::names::{self, Named};
use super::{CommandError, Global};
use crate::output::{Output, Sheet, json};

/// What was said. A program's view of `mode`, `pause` and `resume`.
#[derive(Serialize)]
struct Said {
    job: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<bool>,
    /// Whether the job was ever seen.
    seen: bool,
    revision: u64,
}

/// A program's view of `freeze` and `unfreeze`.
#[derive(Serialize)]
struct Frozen {
    frozen: bool,
    revision: u64,
}

/// Sets how far Weir may go with a job.
pub(super) async fn mode(
    store: &Store,
    global: &Global,
    text: &str,
    mode: Mode,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let named = names::maybe_unseen(store, text).await?;
    let before = store.controls().await?;
    let control = before.jobs.get(&named.job).copied().unwrap_or_default();
    let revision = store.set_mode(&named.job, mode, &global.by, global.now_ms).await?;
    if global.output == Output::Json {
        let seen = named.doubt.is_none();
        let said = Said { job: named.job.to_string(), mode: Some(mode), paused: None, seen, revision };
        return Ok(json(out, &said)?);
    }
    let mut sheet = Sheet::default();
    let was = control.mode.map_or("what the configuration says".into(), |mode| mode.to_string());
    sheet.title(format!("{} is in mode {mode} now; it was {was}.", named.job));
    doubt(&mut sheet, &named);
    let acts = matches!(mode, Mode::Approve | Mode::Auto);
    if acts && control.paused {
        sheet.title(format!("It is paused: nothing is done until `weir resume {}`.", named.job));
    }
    if acts && before.frozen {
        sheet.title("Everything is frozen: nothing is done until `weir unfreeze`.");
    }
    Ok(out.write_all(sheet.text().as_bytes())?)
}

/// Pauses a job, or lets it go on.
pub(super) async fn pause(
    store: &Store,
    global: &Global,
    text: &str,
    paused: bool,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let named = if paused {
        names::maybe_unseen(store, text).await?
    } else {
        Named { job: names::known(store, text).await?, doubt: None }
    };
    let revision = store.set_paused(&named.job, paused, &global.by, global.now_ms).await?;
    if global.output == Output::Json {
        let seen = store.jobs().await?.iter().any(|row| row.job == named.job);
        let said = Said { job: named.job.to_string(), mode: None, paused: Some(paused), seen, revision };
        return Ok(json(out, &said)?);
    }
    let mut sheet = Sheet::default();
    if paused {
        sheet.title(format!("{0} is paused: it is judged, and not acted on until `weir resume {0}`.", named.job));
    } else {
        sheet.title(format!("{} is not paused any more; its mode says how far Weir may go.", named.job));
    }
    doubt(&mut sheet, &named);
    Ok(out.write_all(sheet.text().as_bytes())?)
}

/// Freezes everything, or lets it go on.
pub(super) async fn freeze(
    store: &Store,
    global: &Global,
    frozen: bool,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let revision = store.set_frozen(frozen, &global.by, global.now_ms).await?;
    if global.output == Output::Json {
        return Ok(json(out, &Frozen { frozen, revision })?);
    }
    let mut sheet = Sheet::default();
    if frozen {
        sheet.title("Everything is frozen: no action is started until `weir unfreeze`.");
        let open = store.open_actions().await?.into_iter().filter(|row| row.state != super::action::AWAITS_APPROVAL);
        for row in open {
            sheet.title(format!("{} is at it already: {}.", row.job, super::action::progress(&row)));
        }
    } else {
        sheet.title("Nothing is frozen any more; the modes of the jobs say how far Weir may go.");
    }
    Ok(out.write_all(sheet.text().as_bytes())?)
}

fn doubt(sheet: &mut Sheet, named: &Named) {
    if let Some(doubt) = &named.doubt {
        sheet.title(format!("Note: {} {doubt}", named.job));
    }
}
