//! A broker that dies or hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use weir_kafka::{KafkaLog, KafkaOptions};
use weir_streams::{Log, Position};
use weir_tests::{resident_bytes, wait_until};

use super::{NOW_MS, PATIENCE, Rig, open, read_all};

/// Appends numbers in batches, each until it is acknowledged.
struct Numbers {
    acknowledged: Arc<AtomicU64>,
    failures: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Numbers {
    fn start(log: &KafkaLog, partition: u32, batch: u64, bytes: usize) -> Self {
        let acknowledged = Arc::new(AtomicU64::new(0));
        let (failures, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (log, said, failed, end) = (log.clone(), acknowledged.clone(), failures.clone(), stop.clone());
        let task = tokio::spawn(async move {
            let mut writer = log.writer(partition, "numbers").await.unwrap();
            let mut next = 0_u64;
            while !end.load(Ordering::Relaxed) {
                let records: Vec<Vec<u8>> = (next..next + batch).map(|number| record(number, bytes)).collect();
                let borrowed: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
                match writer.append_batch(&borrowed, NOW_MS).await {
                    Ok(()) => {
                        next += batch;
                        said.store(next, Ordering::Relaxed);
                    }
                    Err(error) => {
                        assert!(error.is_retryable(), "{error}");
                        // Shown if the test fails.
                        println!("partition {partition} at {next}: {error}");
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        Self { acknowledged, failures, stop, task }
    }

    fn count(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits for so many more.
    async fn more(&self, count: u64) {
        let goal = self.count() + count;
        wait_until("acknowledgements", PATIENCE, async || (self.count() >= goal).then_some(())).await;
    }

    async fn finish(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
        (self.acknowledged.load(Ordering::Relaxed), self.failures.load(Ordering::Relaxed))
    }
}

fn record(number: u64, bytes: usize) -> Vec<u8> {
    let mut record = number.to_be_bytes().to_vec();
    record.resize(bytes.max(8), 0);
    record
}

/// What was acknowledged is there, in order. A batch that was tried again may be there twice, as far as it got each time.
async fn check(log: &KafkaLog, partition: u32, acknowledged: u64, failures: u64) {
    let (mut next, mut repeats) = (0, 0);
    for record in read_all(log, partition).await {
        let number = u64::from_be_bytes(record.payload[..8].try_into().unwrap());
        assert!(number <= next, "{number} after {next}: a gap");
        if number < next {
            repeats += 1;
            assert!(failures > 0, "{number} again, without a failure");
        }
        next = number + 1;
    }
    assert!(next >= acknowledged, "{next} of {acknowledged} are there");
    println!("{acknowledged} acknowledged, {failures} failures, {repeats} steps back");
}

pub async fn killed_broker_loses_nothing(rig: &mut Rig<'_>) {
    let options = KafkaOptions { delivery_timeout_ms: 2_000, request_timeout_ms: 4_000, ..rig.options() };
    let log = open(&options).await;
    let (one, many) = (Numbers::start(&log, 0, 1, 8), Numbers::start(&log, 1, 200, 1_000));
    let finished = Arc::new(AtomicBool::new(false));
    let waiting = tokio::spawn(follow(log.clone(), Arc::clone(&finished)));
    one.more(100).await;
    many.more(5_000).await;
    rig.broker.kill();
    // With the broker gone, everybody is told, and in time.
    let failures = one.failures.load(Ordering::Relaxed);
    wait_until("an append to fail", PATIENCE, async || (one.failures.load(Ordering::Relaxed) > failures).then_some(()))
        .await;
    let began = Instant::now();
    let error = log.tail(0).await.unwrap_err();
    assert!(error.is_retryable() && ["WR0220", "WR0221"].contains(&error.code()), "{error}");
    assert!(began.elapsed() < Duration::from_secs(60), "after {:?}", began.elapsed());
    rig.broker.restart();
    one.more(100).await;
    many.more(5_000).await;
    let (last, failures) = one.finish().await;
    finished.store(true, Ordering::Relaxed);
    check(&log, 0, last, failures).await;
    let (last, failures) = many.finish().await;
    check(&log, 1, last, failures).await;
    // The reader that was there all the time has seen the same.
    assert_eq!(waiting.await.unwrap(), log.tail(0).await.unwrap());
    assert_eq!(open(&options).await.info(), log.info(), "it is still the same log");
}

/// Follows partition 0 until nobody writes to it any more; where it got to.
async fn follow(log: KafkaLog, finished: Arc<AtomicBool>) -> Position {
    let mut reader = log.reader(0, Position::from_raw(0)).await.unwrap();
    let mut next = 0;
    loop {
        match reader.read(50, Duration::from_secs(3)).await {
            Ok(records)
                if records.is_empty()
                    && finished.load(Ordering::Relaxed)
                    && log.tail(0).await.is_ok_and(|tail| tail == reader.position()) =>
            {
                return reader.position();
            }
            Ok(records) => {
                for record in records {
                    let number = u64::from_be_bytes(record.payload[..8].try_into().unwrap());
                    assert!(number <= next, "{number} after {next}: a gap");
                    next = number + 1;
                }
            }
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
}

/// While the broker hangs, no more is held than the queue may take, however much is tried; then everything goes on.
pub async fn paused_broker_costs_no_memory(rig: &mut Rig<'_>) {
    const MIB: u64 = 1024 * 1024;
    let options =
        KafkaOptions { queue_bytes: 4 * MIB, delivery_timeout_ms: 1_500, request_timeout_ms: 3_000, ..rig.options() };
    let log = open(&options).await;
    let writers: Vec<Numbers> = (0..2).map(|partition| Numbers::start(&log, partition, 500, 1_000)).collect();
    for writer in &writers {
        writer.more(20_000).await;
    }
    let before = resident_bytes();
    rig.broker.pause();
    let paused = Instant::now();
    let (mut most, length) = (0, Duration::from_secs(10));
    wait_until("10 s", PATIENCE, async || {
        most = most.max(resident_bytes());
        (paused.elapsed() >= length).then_some(())
    })
    .await;
    rig.broker.resume();
    let grown = most.saturating_sub(before);
    assert!(grown < 8 * options.queue_bytes, "{} MiB more than before", grown / MIB);
    for writer in &writers {
        writer.more(20_000).await;
    }
    for (writer, partition) in writers.into_iter().zip(0..) {
        let (last, failures) = writer.finish().await;
        assert!(failures > 0, "nobody was told");
        check(&log, partition, last, failures).await;
    }
    println!("{} KiB more while the broker hung", grown / 1024);
}
