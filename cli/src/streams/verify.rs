//! Reads everything, and compares what is stored with what was taken in.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use weir_engine::{Shard, Tally};
use weir_outbox::METRICS;
use weir_schemas::wire;
use weir_store::PositionRow;
use weir_streams::{Log, LogError, Position, StoredPosition};

use super::numbers::Numbers;
use super::{named, tail};
use crate::assembly::Data;
use crate::commands::CommandError;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, json, table};

/// Records that are read at once.
const AT_ONCE: usize = 512;
/// How long a server is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Collectors begin each start with a multiple of this: see their producers.
const START: u64 = 1 << 10;
/// So many of the last numbers of a collector may not all be there.
const UNSETTLED: u64 = 64;

/// All that was found. The keys of its JSON are stable.
#[derive(Debug, Default, Serialize)]
struct Report {
    partitions: Vec<PartitionReport>,
    producers: Vec<ProducerReport>,
    /// What is wrong, one sentence each.
    problems: Vec<String>,
    /// The numbers of each producer, over all partitions.
    #[serde(skip)]
    numbers: BTreeMap<String, Numbers>,
}

#[derive(Debug, Serialize)]
struct PartitionReport {
    stream: &'static str,
    partition: u32,
    records: u64,
    undecodable: u64,
    gaps: u64,
}

/// What is stored of a producer in one partition, and what was taken in of it.
#[derive(Debug, Serialize)]
struct ProducerReport {
    partition: u32,
    producer: String,
    /// Different records.
    stored: u64,
    /// Those of them before the position of the analyzer.
    due: Tally,
    /// What the analyzer took in, since the beginning of the log.
    applied: Tally,
    /// Records that are stored more than once: they were sent again, and are taken in once.
    repeated: u64,
}

pub(super) async fn run(data: &Data, output: Output, out: &mut dyn Write) -> Result<Exit, CliError> {
    let mut report = Report::default();
    let mut cut = false;
    for (stream, log) in named(&data.logs) {
        // All ends first: records of one collector lie in several partitions, and more may come meanwhile. What was read before
        // the ends: what is appended meanwhile lies after it.
        let mut ends = Vec::new();
        let readers = data.store.all_positions().await.map_err(CommandError::from)?;
        for partition in 0..log.info().partitions {
            let state = if stream == METRICS { state(data, log, partition).await? } else { State::default() };
            ends.push((partition, state, log.tail(partition).await?));
        }
        for (partition, state, end) in ends {
            let place = format!("{stream}/{partition}");
            beyond(&place, "the analyzer", state.done, end, &mut report.problems);
            let incarnation = log.info().incarnation.to_string();
            let here =
                |row: &&PositionRow| (&*row.log, row.partition, &row.incarnation) == (stream, partition, &incarnation);
            for row in readers.iter().filter(here) {
                beyond(&place, &row.consumer, Position::from_raw(row.position), end, &mut report.problems);
            }
            let read = read(stream, log, partition, state.done, end, &mut report).await?;
            cut |= read.cut;
            if stream == METRICS {
                compare(&read, &state, &mut report);
            }
            report.partitions.push(read.report);
        }
    }
    // Numbers rise over all partitions of a collector; what was given up at the heads is not missing.
    if !cut {
        missing_numbers(&report.numbers, &mut report.problems);
    }
    match output {
        Output::Json => json(out, &report)?,
        Output::Table => out.write_all(sheet(&report).as_bytes())?,
    }
    Ok(if report.problems.is_empty() { Exit::Ok } else { Exit::Failure })
}

/// What the analyzer of a partition took in.
struct State {
    shard: Shard,
    /// Up to where.
    done: Position,
    /// It is of a log that is gone: of this one nothing was taken in yet.
    other: bool,
}

impl Default for State {
    fn default() -> Self {
        Self { shard: Shard::default(), done: Position::from_raw(0), other: false }
    }
}

async fn state(data: &Data, log: &Arc<dyn Log>, partition: u32) -> Result<State, CliError> {
    let name = format!("{METRICS}-{partition:02}");
    let stored = data.store.load_checkpoint(&name).await.map_err(CommandError::from)?;
    let Some(checkpoint) = stored else { return Ok(State::default()) };
    let position: StoredPosition = serde_json::from_str(&checkpoint.positions)?;
    if position.incarnation != log.info().incarnation {
        return Ok(State { other: true, ..State::default() });
    }
    Ok(State { shard: Shard::from_bytes(&checkpoint.state)?, done: position.position, other: false })
}

/// Tells of whoever has read further than the log goes: records that it read are no longer stored.
fn beyond(place: &str, who: &str, done: Position, end: Position, problems: &mut Vec<String>) {
    if done > end {
        problems.push(format!(
            "{place}: {who} has read up to {done}, past the end of the log ({end}): the log lost its end"
        ));
    }
}

/// What one partition holds.
struct Read {
    report: PartitionReport,
    producers: BTreeMap<String, Stored>,
    /// Whether its beginning is gone.
    cut: bool,
}

#[derive(Default)]
struct Stored {
    records: u64,
    due: Tally,
    repeated: u64,
}

async fn read(
    stream: &'static str,
    log: &Arc<dyn Log>,
    partition: u32,
    done: Position,
    end: Position,
    found: &mut Report,
) -> Result<Read, CliError> {
    let head = log.head(partition).await?;
    let mut reader = log.reader(partition, head).await?;
    let report = PartitionReport { stream, partition, records: 0, undecodable: 0, gaps: 0 };
    // A log on a server may begin with a record of its own, which is not shown.
    let mut read = Read { report, producers: BTreeMap::new(), cut: head.to_raw() > 1 };
    while reader.position() < end {
        let records = match reader.read(AT_ONCE, PATIENCE).await {
            Ok(records) => records,
            Err(failed) => {
                let to = tail::after(log.as_ref(), partition, &failed).await?.ok_or(failed.clone())?;
                found.problems.push(format!("{stream}/{partition}: {failed}"));
                read.report.gaps += 1;
                read.cut |= matches!(failed, LogError::Truncated { .. });
                reader.seek(to);
                continue;
            }
        };
        // What a server keeps for itself may come before the end, and is not shown.
        if records.is_empty() && reader.position() < end {
            return Err(CliError::Failed(format!("{stream}/{partition}: nothing comes before the end at {end}")));
        }
        for record in records {
            read.report.records += 1;
            if stream == METRICS {
                read.take(&record.payload, record.next <= done, record.next, found);
            } else if serde_json::from_slice::<serde_json::Value>(&record.payload).is_err() {
                read.report.undecodable += 1;
                found.problems.push(format!("{stream}/{partition}: the record before {} is no JSON", record.next));
            }
        }
    }
    Ok(read)
}

impl Read {
    fn take(&mut self, payload: &[u8], due: bool, next: Position, found: &mut Report) {
        let PartitionReport { stream, partition, .. } = self.report;
        let record = match wire::decode(payload) {
            Ok(record) => record,
            Err(why) => {
                self.report.undecodable += 1;
                return found.problems.push(format!("{stream}/{partition}: the record before {next}: {why}"));
            }
        };
        let is_new = found.numbers.entry(record.producer.clone()).or_default().insert(record.sequence);
        let stored = self.producers.entry(record.producer).or_default();
        if is_new {
            stored.records += 1;
        } else {
            stored.repeated += 1;
        }
        if is_new && due {
            stored.due.add(record.sequence);
        }
    }
}

fn compare(read: &Read, state: &State, report: &mut Report) {
    let PartitionReport { partition, records, .. } = read.report;
    if state.other && records > 0 {
        report.problems.push(format!(
            "{METRICS}/{partition}: the state is of a log that is gone, and of the {records} records here none was taken in; an \
             analyzer begins anew by itself once it runs"
        ));
    }
    let none = Stored::default();
    // Of an uncut log each record that was taken in is still there, those of producers that are long gone too.
    let missing = state.shard.applied().keys().filter(|producer| !read.cut && !read.producers.contains_key(*producer));
    for (producer, stored) in read.producers.iter().chain(missing.map(|producer| (producer, &none))) {
        let applied = state.shard.applied().get(producer).copied().unwrap_or_default();
        let place = format!("{METRICS}/{partition}, {producer}");
        // What was given up since is still counted as taken in; the oldest lives of a collector are not counted any more.
        let agrees = applied == stored.due
            || (read.cut && applied.records > stored.due.records)
            || state.shard.has_forgotten(producer);
        if !agrees {
            let (taken, due) = (applied.records, stored.due.records);
            let how = if taken == due { "they are not the same" } else { "each should have been, once" };
            report.problems.push(format!("{place}: {taken} records were taken in, {due} are stored; {how}"));
        }
        report.producers.push(ProducerReport {
            partition,
            producer: producer.clone(),
            stored: stored.records,
            due: stored.due,
            applied,
            repeated: stored.repeated,
        });
    }
}

/// Numbers of collectors that are in no partition. A jump to a multiple of [`START`] is a new start of the collector, not a gap.
/// Of the last numbers before an end some may be missing: a collector that dies has stored part of a batch, and of a log that is
/// written to, partitions are looked at one after the other.
fn missing_numbers(numbers: &BTreeMap<String, Numbers>, problems: &mut Vec<String>) {
    for (producer, numbers) in numbers.iter().filter(|(producer, _)| producer.starts_with("ingest/")) {
        let ranges = numbers.ranges();
        // From the end: the last number of a start is known before the gaps in it.
        let (mut last, mut missing) = (ranges.last().map_or(0, |(_, last)| *last), Vec::new());
        for pair in ranges.windows(2).rev() {
            let (before, after) = (pair[0].1, pair[1].0);
            if after.is_multiple_of(START) {
                last = before;
            } else if last - after >= UNSETTLED {
                missing.push(format!("{producer}: {} missing between {before} and {after}", after - before - 1));
            }
        }
        problems.extend(missing.into_iter().rev());
    }
}

fn sheet(report: &Report) -> String {
    let rows: Vec<Vec<String>> = report
        .partitions
        .iter()
        .map(|it| {
            let numbers = [it.records, it.undecodable, it.gaps].map(|number| number.to_string());
            [it.stream.to_owned(), it.partition.to_string()].into_iter().chain(numbers).collect()
        })
        .collect();
    let header = ["STREAM", "PARTITION", "RECORDS", "UNREADABLE", "GAPS"];
    let mut text = table(&header, &rows, &header[1..]);
    let rows: Vec<Vec<String>> = report
        .producers
        .iter()
        .map(|it| {
            let numbers = [it.stored, it.due.records, it.applied.records, it.repeated].map(|number| number.to_string());
            [it.producer.clone(), it.partition.to_string()].into_iter().chain(numbers).collect()
        })
        .collect();
    let header = ["PRODUCER", "PARTITION", "STORED", "DUE", "TAKEN IN", "REPEATED"];
    text.push('\n');
    text.push_str(&table(&header, &rows, &header[1..]));
    text.push('\n');
    if report.problems.is_empty() {
        text.push_str("all is well: everything can be read, nothing is missing, what was due was taken in once\n");
    }
    for problem in &report.problems {
        text.push_str(&format!("problem: {problem}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_number_is_a_problem_and_neither_a_new_start_nor_an_end_is_one() {
        let life = |start: u64, without: &[u64]| {
            (start..start + 200).filter(|number| !without.contains(&(number - start))).collect::<Vec<u64>>()
        };
        let set = |numbers: Vec<u64>| {
            let mut set = Numbers::default();
            numbers.into_iter().for_each(|number| assert!(set.insert(number)));
            set
        };
        let mut all = life(1024, &[7, 150]);
        // The second life ends with part of a batch.
        all.extend(life(5 * 1024, &[70, 71, 197]));
        let numbers = BTreeMap::from([("ingest/a".to_owned(), set(all)), ("metrics-00".to_owned(), set(vec![3, 9]))]);
        let mut problems = Vec::new();
        missing_numbers(&numbers, &mut problems);
        assert_eq!(
            problems,
            ["ingest/a: 1 missing between 1030 and 1032", "ingest/a: 2 missing between 5189 and 5192"]
        );
    }
}
