//! The list of streams, with whoever reads them.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use weir_outbox::{EVENTS, METRICS};
use weir_schemas::num::short_time;
use weir_store::{Lease, PositionRow, Store};
use weir_streams::{Distance, Log, LogError, Position, StoredPosition};

use super::named;
use crate::assembly::Data;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, json, table};

/// How long the first unread record of a consumer is waited for.
const PATIENCE: Duration = Duration::from_secs(3);
const HEADER: [&str; 8] = ["STREAM", "PARTITION", "HEAD", "TAIL", "HOLDS", "CONSUMER", "LAG", "BEHIND"];

/// A partition. The keys of its JSON are stable.
#[derive(Debug, Serialize)]
struct Partition {
    stream: &'static str,
    incarnation: String,
    partition: u32,
    head: u64,
    tail: u64,
    bytes: Option<u64>,
    records: Option<u64>,
    consumers: Vec<Consumer>,
}

/// Whoever reads a partition.
#[derive(Debug, Serialize)]
struct Consumer {
    name: String,
    owner: Option<String>,
    position: u64,
    lag_bytes: Option<u64>,
    lag_records: Option<u64>,
    lag_seconds: Option<i64>,
    /// Its position belongs to a log that is gone.
    other_incarnation: bool,
    /// Its position lies after the end: the log lost what was read there. How far behind it is nobody can say then.
    beyond_tail: bool,
}

pub(super) async fn run(data: &Data, now_ms: i64, output: Output, out: &mut dyn Write) -> Result<Exit, CliError> {
    let positions = positions(&data.store).await?;
    let mut leases = data.store.leases().await.map_err(crate::commands::CommandError::from)?;
    let lease_now_ms = data.store.lease_now_ms().await.map_err(crate::commands::CommandError::from)?;
    leases.retain(|lease| lease.expires_ms > lease_now_ms);
    let mut partitions = Vec::new();
    for (stream, log) in named(&data.logs) {
        for partition in 0..log.info().partitions {
            let readers = positions.iter().filter(|row| row.log == stream && row.partition == partition);
            partitions.push(look(stream, log, partition, readers, &leases, now_ms).await?);
        }
    }
    match output {
        Output::Json => json(out, &partitions)?,
        Output::Table => out.write_all(sheet(&partitions).as_bytes())?,
    }
    Ok(Exit::Ok)
}

/// How far everybody has read: analyzers keep it with their state, all others in a table.
async fn positions(store: &Store) -> Result<Vec<PositionRow>, CliError> {
    let mut all = store.all_positions().await.map_err(crate::commands::CommandError::from)?;
    for (shard, positions) in store.shard_positions().await.map_err(crate::commands::CommandError::from)? {
        let stored: StoredPosition = serde_json::from_str(&positions)?;
        all.push(PositionRow {
            consumer: shard,
            log: METRICS.into(),
            partition: stored.partition,
            incarnation: stored.incarnation.to_string(),
            position: stored.position.to_raw(),
        });
    }
    Ok(all)
}

async fn look(
    stream: &'static str,
    log: &Arc<dyn Log>,
    partition: u32,
    readers: impl Iterator<Item = &PositionRow>,
    leases: &[Lease],
    now_ms: i64,
) -> Result<Partition, CliError> {
    let (head, tail) = (log.head(partition).await?, log.tail(partition).await?);
    let Distance { bytes, records } = log.distance(partition, head, tail)?;
    let incarnation = log.info().incarnation.to_string();
    let mut consumers = Vec::new();
    for row in readers {
        let owner = leases.iter().find(|it| it.name == row.consumer).map(|it| it.owner.clone());
        let other_incarnation = row.incarnation != incarnation;
        // Positions were asked for before the ends: a log that is whole is never before them.
        let beyond_tail = !other_incarnation && row.position > tail.to_raw();
        // A position before the head is behind by what is gone as well; how much that is, only the rest can tell.
        let from = if other_incarnation { head } else { Position::from_raw(row.position) };
        let (lag, lag_seconds) = if beyond_tail {
            (Distance::default(), None)
        } else {
            let seconds = behind_seconds(log, partition, from.max(head), tail, now_ms).await?;
            (log.distance(partition, from, tail)?, seconds)
        };
        let (name, position) = (consumer_name(stream, &row.consumer), row.position);
        let (lag_bytes, lag_records) = (lag.bytes, lag.records);
        consumers.push(Consumer {
            name,
            owner,
            position,
            lag_bytes,
            lag_records,
            lag_seconds,
            other_incarnation,
            beyond_tail,
        });
    }
    let (head, tail) = (head.to_raw(), tail.to_raw());
    Ok(Partition { stream, incarnation, partition, head, tail, bytes, records, consumers })
}

/// The analyzers' positions are named after their partition, which says nothing beside it.
fn consumer_name(stream: &str, consumer: &str) -> String {
    if stream == EVENTS { consumer.to_owned() } else { "analyzer".to_owned() }
}

/// Age of the oldest record that was not read, in seconds: 0 at the end, nothing if it did not come in time.
async fn behind_seconds(
    log: &Arc<dyn Log>,
    partition: u32,
    from: Position,
    tail: Position,
    now_ms: i64,
) -> Result<Option<i64>, LogError> {
    if from >= tail {
        return Ok(Some(0));
    }
    let next = log.reader(partition, from).await?.read(1, PATIENCE).await?;
    Ok(next.first().map(|record| (now_ms - record.appended_at_ms).max(0) / 1000))
}

fn sheet(partitions: &[Partition]) -> String {
    let mut rows = Vec::new();
    for it in partitions {
        let holds = Distance { bytes: it.bytes, records: it.records };
        let place = [it.stream.into(), it.partition.to_string(), it.head.to_string(), it.tail.to_string()];
        let place: Vec<String> = place.into_iter().chain([amount(holds)]).collect();
        let mut readers: Vec<Vec<String>> = it.consumers.iter().map(reader).collect();
        if readers.is_empty() {
            readers.push(vec!["nobody yet".into(), "-".into(), "-".into()]);
        }
        for (index, reader) in readers.into_iter().enumerate() {
            let shown = if index == 0 { place.clone() } else { vec![String::new(); place.len()] };
            rows.push(shown.into_iter().chain(reader).collect());
        }
    }
    table(&HEADER, &rows, &["PARTITION", "HEAD", "TAIL", "HOLDS", "LAG", "BEHIND"])
}

fn reader(it: &Consumer) -> Vec<String> {
    let owner = it.owner.as_ref().map_or_else(|| "nobody has its lease".to_owned(), |owner| format!("on {owner}"));
    let lost = match it {
        Consumer { other_incarnation: true, .. } => ", at a log that is gone",
        Consumer { beyond_tail: true, .. } => ", past the end of the log",
        _ => "",
    };
    let lag = Distance { bytes: it.lag_bytes, records: it.lag_records };
    let behind = it.lag_seconds.map_or_else(|| "-".to_owned(), |seconds| short_time(seconds.saturating_mul(1000)));
    vec![format!("{} ({owner}{lost})", it.name), amount(lag), behind]
}

/// Records, where they are counted; else bytes.
fn amount(distance: Distance) -> String {
    match distance {
        Distance { records: Some(records), .. } => format!("{records} records"),
        Distance { bytes: Some(bytes), .. } => bytes_in_words(bytes),
        Distance { .. } => "-".into(),
    }
}

/// Bytes with a unit, in three digits or so.
fn bytes_in_words(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_a_unit() {
        for (bytes, words) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3.0 TiB")]
        {
            assert_eq!(bytes_in_words(bytes), words);
        }
    }

    #[test]
    fn a_consumer_says_where_it_runs_and_how_far_behind_it_is() {
        let consumer = |owner: Option<&str>, other_incarnation| Consumer {
            name: "analyzer".into(),
            owner: owner.map(str::to_owned),
            position: 7,
            lag_bytes: None,
            lag_records: Some(12),
            lag_seconds: Some(75),
            other_incarnation,
            beyond_tail: false,
        };
        assert_eq!(reader(&consumer(Some("node-1-17"), false)), ["analyzer (on node-1-17)", "12 records", "75 s"]);
        let lost = reader(&consumer(None, true));
        assert_eq!(lost[0], "analyzer (nobody has its lease, at a log that is gone)");
    }
}
