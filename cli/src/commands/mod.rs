//! The commands that read and write the control database. Services notice within a second what people say here.

mod action;
mod controls;
mod error;
mod explain;
mod history;
mod names;
mod requests;
mod status;

use std::io::Write;
use std::path::Path;

use clap::Subcommand;
use weir_schemas::control::Mode;
use weir_store::{Address, OpenOptions, RequestKind, Store};

pub use error::{CommandError, exit_of_store};
pub use requests::Ask;

use crate::exit::Exit;
use crate::output::Output;

/// What can be asked of the control database.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Lists all jobs: health, size, mode, verdict, and what is under way.
    ///
    /// One line for each job. With `--output json`: `frozen`, `services` that are alive (`role`, `id`, `tags`, `seen_ms`), and
    /// `jobs` with `job`, `health`, `parallelism` (a list of
    /// `vertex` and `parallelism`), `mode` (null: the configuration's), `paused`, `verdict`, `disposition`, `gate`
    /// (what withholds it), `sentence`, `decision`, `decided_at_ms`, `sampled_at_ms`, `stale`, and `action` (`id`,
    /// `state`, `open`, `updated_ms`). What is not known is null.
    Status,
    /// Explains a decision about a job: everything from what was measured to what becomes of it.
    ///
    /// With `--output json` the decision is printed as it is stored.
    Explain {
        /// The job: cluster/namespace/name, or a name that is unique.
        job: String,
        /// Another decision than the latest: its id, or a unique beginning of it.
        #[arg(long, value_name = "ID")]
        decision: Option<String>,
    },
    /// Tells what happened to a job: verdicts that changed, actions and their outcomes, what people said. Newest last.
    ///
    /// With `--output json`: a list of entries with `at_ms`, `time`, `kind` (`said`, `decision`, `action` or
    /// `outcome`), `id` (of the decision or action; empty otherwise) and `sentence`.
    History {
        /// The job: cluster/namespace/name, or a name that is unique.
        job: String,
        /// How many lines at most.
        #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// Sets how far Weir may go with a job.
    Mode {
        /// The job: cluster/namespace/name, or a name that is unique. A full key may name a job that was not seen yet.
        job: String,
        /// observe: judge only; recommend: say what would be done; approve: act once a person approves; auto: act.
        #[arg(value_name = "observe|recommend|approve|auto")]
        mode: Mode,
    },
    /// Stops acting on all jobs until `weir unfreeze`.
    Freeze,
    /// Acts on jobs again.
    Unfreeze,
    /// Carries out an action that awaits approval.
    Approve(Ask),
    /// Drops an action that awaits approval.
    Reject(Ask),
    /// Undoes the last action on a job.
    Rollback(Ask),
    /// Judges a job, but does not act on it until `weir resume`.
    Pause {
        /// The job: cluster/namespace/name, or a name that is unique. A full key may name a job that was not seen yet.
        job: String,
    },
    /// Acts on a paused job again.
    Resume {
        /// The job: cluster/namespace/name, or a name that is unique.
        job: String,
    },
}

/// What all commands need to know.
#[derive(Debug, Clone)]
pub struct Global {
    /// Where the control database is.
    pub address: Address,
    /// How to print.
    pub output: Output,
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
    /// Who says it.
    pub by: String,
}

impl Default for Global {
    fn default() -> Self {
        Self {
            address: Address::file(Path::new("weir-data/control.db")),
            output: Output::Table,
            now_ms: 0,
            by: "unknown".into(),
        }
    }
}

/// Carries out a command, and prints what came of it. A reader that goes away early, such as `head`, is no failure.
///
/// # Errors
/// See [`CommandError`]; nothing was printed then.
pub async fn run(command: Command, global: &Global, out: &mut dyn Write) -> Result<Exit, CommandError> {
    let options = OpenOptions { create: false, ..OpenOptions::default() };
    let store = Store::open_at(&global.address, &options).await?;
    let done = dispatch(command, &store, global, out).await;
    store.close().await;
    let flushed = |exit| out.flush().map(|()| exit).map_err(CommandError::Output);
    match done.and_then(flushed) {
        Err(CommandError::Output(gone)) if gone.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Ok),
        other => other,
    }
}

async fn dispatch(command: Command, store: &Store, global: &Global, out: &mut dyn Write) -> Result<Exit, CommandError> {
    match command {
        Command::Status => status::run(store, global, out).await?,
        Command::Explain { job, decision } => explain::run(store, global, &job, decision.as_deref(), out).await?,
        Command::History { job, limit } => history::run(store, global, &job, limit, out).await?,
        Command::Mode { job, mode } => controls::mode(store, global, &job, mode, out).await?,
        Command::Freeze => controls::freeze(store, global, true, out).await?,
        Command::Unfreeze => controls::freeze(store, global, false, out).await?,
        Command::Pause { job } => controls::pause(store, global, &job, true, out).await?,
        Command::Resume { job } => controls::pause(store, global, &job, false, out).await?,
        Command::Approve(ask) => return requests::run(store, global, RequestKind::Approve, &ask, out).await,
        Command::Reject(ask) => return requests::run(store, global, RequestKind::Reject, &ask, out).await,
        Command::Rollback(ask) => return requests::run(store, global, RequestKind::Rollback, &ask, out).await,
    }
    Ok(Exit::Ok)
}
