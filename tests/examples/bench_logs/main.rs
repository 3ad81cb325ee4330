//! Measures the logs, and beside each what bounds it: for Kafka and Pravega the bare client library, for the embedded log the
//! same bytes written and synced without any log. Both take short turns, so that whatever else the machine does hits both. Fails on nothing: it measures. An argument picks the logs whose name contains it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a measurement that cannot go on should stop there"
)]

mod kafka;
mod ours;
mod pravega;
mod raw;

use std::time::Duration;

use tokio::time::Instant;
use weir_streams::BoxFuture;
use weir_tests::{KafkaBroker, Memory, PravegaServer};

use ours::Ours;

/// Bytes of a record, and records of a batch.
const LOADS: [(usize, usize); 5] = [(200, 500), (200, 5_000), (1_000, 1_000), (1_000, 5_000), (1_000, 100_000)];
/// Records of each load in a round.
const RECORDS: usize = 100_000;
/// Records, or one batch, after which the other one has its turn.
const TURN: usize = 10_000;
/// Single appends in a round, and the bytes of each.
const SINGLES: usize = 300;
const SINGLE_BYTES: usize = 1_000;
/// Rounds, of which the median is given. One before them warms up.
const ROUNDS: usize = 7;
/// How long anything may take before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A log of ours, or what it is compared with.
trait Subject {
    /// Appends records, and comes back when all are acknowledged.
    fn append<'a>(&'a mut self, batch: &'a [&'a [u8]]) -> BoxFuture<'a, ()>;

    /// Reads all that was appended since the last time, with a new reader.
    fn read(&mut self) -> BoxFuture<'_, ()>;
}

/// What one subject took in one round: for each load, for reading all of it, and for half and for 99 of 100 single appends.
type Times = Vec<Duration>;

#[tokio::main(worker_threads = 2)]
async fn main() {
    weir_pravega::contain_client_panics();
    let only = std::env::args().nth(1).unwrap_or_default();
    println!("{HEAD}");
    if "embedded".contains(&only) {
        let folder = tempfile::tempdir().unwrap();
        let ours = Ours::embedded(folder.path()).await;
        let raw = raw::Raw::new(folder.path());
        measure("embedded", [Box::new(ours), Box::new(raw)]).await;
    }
    if "Kafka".contains(&only) {
        let broker = KafkaBroker::start();
        let ours = Ours::kafka(broker.address()).await;
        let bare = kafka::Bare::new(broker.address()).await;
        measure("Kafka", [Box::new(ours), Box::new(bare)]).await;
    }
    if "Pravega".contains(&only) {
        let server = PravegaServer::start(Memory::Durable);
        let ours = Ours::pravega(server.url()).await;
        let bare = pravega::Bare::new(&server);
        measure("Pravega", [Box::new(ours), Box::new(bare)]).await;
    }
}

async fn measure(name: &str, mut subjects: [Box<dyn Subject>; 2]) {
    let mut rounds = Vec::new();
    for number in 0..=ROUNDS {
        let times = round(&mut subjects).await;
        if number > 0 {
            rounds.push(times);
        }
    }
    print(name, &rounds);
}

async fn round(subjects: &mut [Box<dyn Subject>; 2]) -> [Times; 2] {
    let mut both: [Times; 2] = Default::default();
    for (bytes, batch) in LOADS {
        let turns = RECORDS / batch.max(TURN);
        let one_turn = RECORDS / turns / batch;
        let appends = take_turns(subjects, bytes, batch, turns, one_turn).await;
        both.iter_mut().zip(appends).for_each(|(times, appends)| times.push(appends.iter().sum()));
    }
    let singles = take_turns(subjects, SINGLE_BYTES, 1, SINGLES, 1).await;
    for (subject, times) in subjects.iter_mut().zip(&mut both) {
        let began = Instant::now();
        subject.read().await;
        times.push(began.elapsed());
    }
    for (mut singles, times) in singles.into_iter().zip(&mut both) {
        singles.sort_unstable();
        times.extend([singles[SINGLES / 2], singles[SINGLES * 99 / 100]]);
    }
    both
}

/// How long each turn of each subject took, in which it appended some batches.
async fn take_turns(
    subjects: &mut [Box<dyn Subject>; 2],
    bytes: usize,
    batch: usize,
    turns: usize,
    batches: usize,
) -> [Vec<Duration>; 2] {
    let payload: Vec<u8> = (0..=u8::MAX).cycle().take(bytes).collect();
    let payloads = vec![payload.as_slice(); batch];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..turns {
        for (subject, times) in subjects.iter_mut().zip(&mut times) {
            let began = Instant::now();
            for _ in 0..batches {
                subject.append(&payloads).await;
            }
            times.push(began.elapsed());
        }
    }
    times
}

const HEAD: &str = "\
| log | what | ours | MB/s | bare | ours : bare |
|---|---|---|---|---|---|";

fn print(name: &str, rounds: &[[Times; 2]]) {
    let rates = |bytes: usize, records: usize, at: usize, what: &str| {
        let [ours, bare] = [0, 1].map(|who| median(rounds, |times| records as f64 / times[who][at].as_secs_f64()));
        let ratio = median(rounds, |[ours, bare]| bare[at].as_secs_f64() / ours[at].as_secs_f64());
        let megabytes = ours * bytes as f64 / records as f64 / 1e6;
        println!("| {name} | {what}, records/s | {ours:.0} | {megabytes:.0} | {bare:.0} | {ratio:.2} |");
    };
    for (at, (bytes, batch)) in LOADS.into_iter().enumerate() {
        rates(RECORDS * bytes, RECORDS, at, &format!("append {bytes} B x {batch}"));
    }
    let bytes = LOADS.iter().map(|(bytes, _)| RECORDS * bytes).sum::<usize>() + SINGLES * SINGLE_BYTES;
    rates(bytes, RECORDS * LOADS.len() + SINGLES, LOADS.len(), "read");
    for (at, what) in [(LOADS.len() + 1, "p50"), (LOADS.len() + 2, "p99")] {
        let [ours, bare] = [0, 1].map(|who| median(rounds, |times| times[who][at].as_secs_f64() * 1e3));
        let ratio = median(rounds, |[ours, bare]| ours[at].as_secs_f64() / bare[at].as_secs_f64());
        println!("| {name} | append 1 record, {what} ms | {ours:.2} | | {bare:.2} | {ratio:.2} |");
    }
}

fn median(rounds: &[[Times; 2]], of: impl Fn(&[Times; 2]) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
