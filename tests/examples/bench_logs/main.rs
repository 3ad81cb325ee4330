//! Measures the logs, and beside each what bounds it: for Kafka and Pravega the bare client library, for the embedded log the
//! same bytes written and synced without any log. Both take turns within every round, so that whatever else the machine does
//! hits both. Fails on nothing: it measures. An argument picks the logs whose name contains it.

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
const LOADS: [(usize, usize); 4] = [(200, 500), (1_000, 1_000), (1_000, 5_000), (1_000, 100_000)];
/// Records of each load in a round.
const RECORDS: usize = 100_000;
/// Single appends in a round, each of 1000 bytes.
const SINGLES: usize = 300;
/// Rounds, of which the median is given. One before them warms up.
const ROUNDS: usize = 5;
/// How long anything may take before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A log of ours, or what it is compared with.
trait Subject {
    /// Appends records, and comes back when all are acknowledged.
    fn append<'a>(&'a mut self, batch: &'a [&'a [u8]]) -> BoxFuture<'a, ()>;

    /// Reads all that was appended since the last time, with a new reader.
    fn read(&mut self) -> BoxFuture<'_, ()>;
}

/// What one subject took in one round, or the medians of all rounds.
#[derive(Default)]
struct Times {
    /// For each load.
    appends: Vec<Duration>,
    read: Duration,
    half: Duration,
    worst: Duration,
}

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
    let mut rounds: [Vec<Times>; 2] = Default::default();
    for number in 0..=ROUNDS {
        let times = round(&mut subjects).await;
        if number > 0 {
            rounds.iter_mut().zip(times).for_each(|(rounds, times)| rounds.push(times));
        }
    }
    let [ours, bare] = rounds.map(|rounds| medians(&rounds));
    print(name, &ours, &bare);
}

/// Everything once, each by one and then by the other.
async fn round(subjects: &mut [Box<dyn Subject>; 2]) -> [Times; 2] {
    let mut both: [Times; 2] = Default::default();
    for (bytes, records) in LOADS {
        for (subject, times) in subjects.iter_mut().zip(&mut both) {
            times.appends.push(append(subject.as_mut(), bytes, records).await);
        }
    }
    for (subject, times) in subjects.iter_mut().zip(&mut both) {
        (times.half, times.worst) = append_singly(subject.as_mut()).await;
    }
    for (subject, times) in subjects.iter_mut().zip(&mut both) {
        let began = Instant::now();
        subject.read().await;
        times.read = began.elapsed();
    }
    both
}

async fn append(subject: &mut dyn Subject, bytes: usize, records: usize) -> Duration {
    let payload = payload(bytes);
    let batch = vec![payload.as_slice(); records];
    let began = Instant::now();
    for _ in 0..RECORDS / records {
        subject.append(&batch).await;
    }
    began.elapsed()
}

/// The median of single appends, and what 1 of 100 takes longer than.
async fn append_singly(subject: &mut dyn Subject) -> (Duration, Duration) {
    let payload = payload(1_000);
    let mut times = Vec::new();
    for _ in 0..SINGLES {
        let began = Instant::now();
        subject.append(&[&payload]).await;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    (times[SINGLES / 2], times[SINGLES * 99 / 100])
}

/// Nothing that compression or the disk could make easy.
fn payload(bytes: usize) -> Vec<u8> {
    (0..=u8::MAX).cycle().take(bytes).collect()
}

fn medians(rounds: &[Times]) -> Times {
    let median = |of: &dyn Fn(&Times) -> Duration| {
        let mut times: Vec<Duration> = rounds.iter().map(of).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    Times {
        appends: (0..LOADS.len()).map(|load| median(&|times| times.appends[load])).collect(),
        read: median(&|times| times.read),
        half: median(&|times| times.half),
        worst: median(&|times| times.worst),
    }
}

const HEAD: &str = "\
| log | what | ours | MB/s | bare | ours : bare |
|---|---|---|---|---|---|";

fn print(name: &str, ours: &Times, bare: &Times) {
    for (load, (bytes, batch)) in LOADS.into_iter().enumerate() {
        let what = format!("append {bytes} B x {batch}, records/s");
        print_rates(name, &what, (RECORDS, RECORDS * bytes), ours.appends[load], bare.appends[load]);
    }
    let records = RECORDS * LOADS.len() + SINGLES;
    let bytes = LOADS.iter().map(|(bytes, _)| RECORDS * bytes).sum::<usize>() + SINGLES * 1_000;
    print_rates(name, "read, records/s", (records, bytes), ours.read, bare.read);
    for (what, ours, bare) in [("p50", ours.half, bare.half), ("p99", ours.worst, bare.worst)] {
        let [ours, bare] = [ours, bare].map(|time| time.as_secs_f64() * 1e3);
        println!("| {name} | single append, {what} ms | {ours:.2} | | {bare:.2} | {:.2} |", ours / bare);
    }
}

fn print_rates(name: &str, what: &str, (records, bytes): (usize, usize), ours: Duration, bare: Duration) {
    let [per_second, other] = [ours, bare].map(|time| records as f64 / time.as_secs_f64());
    let megabytes = bytes as f64 / ours.as_secs_f64() / 1e6;
    println!("| {name} | {what} | {per_second:.0} | {megabytes:.0} | {other:.0} | {:.2} |", per_second / other);
}
