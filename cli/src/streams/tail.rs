//! The records of one partition, as JSON lines.

use std::io::Write;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use weir_outbox::{Logs, METRICS};
use weir_streams::{Log, LogError, Position};

use super::{named, show};
use crate::error::CliError;
use crate::exit::Exit;

/// Records that are read at once.
const AT_ONCE: usize = 64;
/// How long records are waited for at once.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(super) struct TailArgs {
    /// The partition, such as metrics/0 or events/3.
    #[arg(value_name = "STREAM/PARTITION")]
    partition: Place,
    /// Where to begin: `head`, `tail`, or a position that a line gave.
    #[arg(long, default_value = "head", value_name = "head|tail|POSITION")]
    from: From,
    /// How many records at most.
    #[arg(long, short = 'n', value_name = "RECORDS")]
    limit: Option<u64>,
    /// Goes on with what is appended, until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
}

#[derive(Debug, Clone)]
struct Place {
    stream: String,
    number: u32,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let place = text.split_once('/').and_then(|(stream, number)| Some((stream, number.parse().ok()?)));
        let (stream, number) = place.ok_or("give stream and partition, as in metrics/0")?;
        Ok(Self { stream: stream.into(), number })
    }
}

#[derive(Debug, Clone, Copy)]
enum From {
    Head,
    Tail,
    Position(u64),
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "head" => Ok(Self::Head),
            "tail" => Ok(Self::Tail),
            other => other.parse().map(Self::Position).map_err(|_| "use head, tail, or a position".into()),
        }
    }
}

pub(super) async fn run(args: &TailArgs, logs: &Logs, out: &mut dyn Write) -> Result<Exit, CliError> {
    let Place { stream, number } = &args.partition;
    let log = named(logs).into_iter().find(|(name, _)| name == stream).map(|(_, log)| log);
    let log =
        log.ok_or_else(|| CliError::Usage(format!("there is no stream {stream}; there are metrics and events")))?;
    // Without `--follow` this is the end, whatever is appended meanwhile: beside a busy writer there would never be another.
    let end = log.tail(*number).await?;
    let from = match args.from {
        From::Head => log.head(*number).await?,
        From::Tail => end,
        From::Position(raw) => Position::from_raw(raw),
    };
    let mut reader = log.reader(*number, from).await?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    // A position after the end is read from as well, so that it is told to be none.
    let mut ended = !args.follow && from == end;
    while left > 0 && !ended {
        let at_once = usize::try_from(left).unwrap_or(AT_ONCE).min(AT_ONCE);
        match reader.read(at_once, PATIENCE).await {
            Ok(records) => {
                for record in records.iter().take_while(|record| args.follow || record.next <= end) {
                    write_line(out, &show::line(stream == METRICS, record))?;
                    left -= 1;
                }
            }
            Err(failed) => {
                let to = after(log.as_ref(), *number, &failed).await?.ok_or(failed.clone())?;
                write_line(out, &json!({ "gap": failed.to_string(), "position": to.to_raw() }))?;
                reader.seek(to);
            }
        }
        ended = !args.follow && reader.position() >= end;
    }
    Ok(Exit::Ok)
}

fn write_line(out: &mut dyn Write, line: &Value) -> Result<(), CliError> {
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Where reading goes on after something that is missing; nothing if the read failed for another reason.
pub(super) async fn after(log: &dyn Log, partition: u32, failed: &LogError) -> Result<Option<Position>, LogError> {
    Ok(match failed {
        LogError::Truncated { head, .. } => Some(*head),
        LogError::Corrupt { resume, .. } => Some(*resume),
        LogError::BeyondTail { .. } => Some(log.tail(partition).await?),
        _ => None,
    })
}
