//! `weir streams`: what is in the logs, and how far whoever reads them has got. It works while others write.

mod list;
mod numbers;
mod show;
mod tail;
mod verify;

use std::io::Write;
use std::sync::Arc;

use clap::{Args, Subcommand};
use tokio_util::sync::CancellationToken;
use weir_outbox::{EVENTS, Logs, METRICS};
use weir_runtime::{Clock, RealClock};
use weir_streams::Log;

use crate::assembly::Data;
use crate::config::Config;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

/// Looks at the streams of metrics and events, also while they are written.
#[derive(Debug, Args)]
pub struct StreamsArgs {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Lists streams and partitions: head, tail, what they hold, who reads them and how far behind they are. The default.
    ///
    /// With `--output json`: a list of partitions with `stream`, `incarnation`, `partition`, `head`, `tail`, `bytes`, `records`
    /// (null: the log does not count them), and `consumers`: `name`, `owner` (who has its lease), `position`, `lag_bytes`,
    /// `lag_records`, `lag_seconds` (null: nobody can say), `other_incarnation`, `beyond_tail`.
    List,
    /// Prints the records of a partition, one JSON object a line, up to where it ends now.
    ///
    /// Each line has `position` (where to go on after it), `at_ms`, `bytes`, and `record` or `event`, or `undecodable`. What is
    /// missing in the log gives a line with `gap`.
    Tail(tail::TailArgs),
    /// Reads everything and checks it: checksums, records that cannot be read, numbers that are missing, and whether what the
    /// analyzers took in is what is stored. Exit code 1 if something is wrong.
    Verify,
}

/// Does what was asked.
///
/// # Errors
/// If there are no logs, or they cannot be read.
pub async fn run(
    args: &StreamsArgs,
    config: &Config,
    output: Output,
    out: &mut dyn Write,
    stop: CancellationToken,
) -> Result<Exit, CliError> {
    let clock = RealClock::new();
    let data = Data::view(config, clock.now_ms()).await?;
    let looked = async {
        match args.what.as_ref().unwrap_or(&What::List) {
            What::List => list::run(&data, clock.now_ms(), output, out).await,
            What::Tail(args) => tail::run(args, &data.logs, out).await,
            What::Verify => verify::run(&data, output, out).await,
        }
    };
    let done = stop.run_until_cancelled(looked).await.unwrap_or(Ok(Exit::Interrupted));
    data.store.close().await;
    done
}

/// Both logs with their names.
fn named(logs: &Logs) -> [(&'static str, &Arc<dyn Log>); 2] {
    [(METRICS, &logs.metrics), (EVENTS, &logs.events)]
}
