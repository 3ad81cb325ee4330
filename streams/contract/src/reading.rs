//! What reading promises.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{join, poll_fn};
use weir_streams::LogError;

use crate::support::{
    LogFactory, NOW_MS, PATIENCE, append_numbered, fresh, head, numbered, payload, payloads, read_to_end, reader, tail,
    writer,
};

/// Reading can begin after any record, by a new reader and by a seek.
pub async fn reading_resumes_anywhere(factory: &dyn LogFactory) {
    let (_site, log) = fresh(factory).await;
    append_numbered(&*log, 0, 0..40).await;
    let start = head(&*log, 0).await;
    let all = read_to_end(&*log, 0, start).await;
    let mut seeking = reader(&*log, 0, start).await;
    for (after, record) in all.iter().enumerate().rev() {
        let rest = read_to_end(&*log, 0, record.next).await;
        assert_eq!(rest, all[after + 1..]);
        seeking.seek(record.next);
        assert_eq!(seeking.position(), record.next);
        let next = seeking.read(1, Duration::ZERO).await.expect("records");
        assert_eq!(next, all[after + 1..].iter().take(1).cloned().collect::<Vec<_>>());
    }
}

/// A reader that takes one record at a time while the writer goes on sees every record.
pub async fn slow_reader_misses_nothing(factory: &dyn LogFactory) {
    const RECORDS: usize = 120;
    let (_site, log) = fresh(factory).await;
    let start = head(&*log, 0).await;
    let read = async {
        let mut reader = reader(&*log, 0, start).await;
        let mut seen = Vec::new();
        while seen.len() < RECORDS {
            let records = reader.read(1, PATIENCE).await.expect("records");
            assert_eq!(records.len(), 1, "one record within {PATIENCE:?}");
            seen.extend(records.into_iter().map(|record| record.payload));
        }
        seen
    };
    let (seen, ()) = join(read, append_numbered(&*log, 0, 0..RECORDS)).await;
    assert_eq!(seen, numbered(0..RECORDS));
}

/// At the end, a reader waits without spinning, gives up when its time is over, and is woken by an append. Without any time to
/// wait it answers at once.
pub async fn waiting_at_the_end_is_quiet(factory: &dyn LogFactory) {
    let (_site, log) = fresh(factory).await;
    append_numbered(&*log, 0, 0..3).await;
    let end = tail(&*log, 0).await;
    let mut reader = reader(&*log, 0, end).await;
    assert_eq!(reader.read(10, Duration::ZERO).await.expect("nothing"), []);

    let mut polls = 0;
    {
        let mut waiting = pin!(reader.read(10, Duration::from_millis(300)));
        let records = poll_fn(|context| {
            polls += 1;
            waiting.as_mut().poll(context)
        });
        assert_eq!(records.await.expect("nothing"), []);
    }
    assert!((2..=20).contains(&polls), "{polls} polls in 300 ms");
    assert_eq!(reader.position(), end);

    let mut woken = pin!(reader.read(10, PATIENCE));
    assert!(poll_fn(|context| Poll::Ready(woken.as_mut().poll(context).is_pending())).await);
    append_numbered(&*log, 0, 3..4).await;
    let records = woken.await.expect("records");
    assert_eq!(records.into_iter().map(|record| record.payload).collect::<Vec<_>>(), numbered(3..4));
}

/// Reads that are dropped at any point skip nothing and repeat nothing.
pub async fn dropped_reads_lose_nothing(factory: &dyn LogFactory) {
    const RECORDS: usize = 60;
    let (_site, log) = fresh(factory).await;
    let mut writer = writer(&*log, 0).await;
    let mut reader = reader(&*log, 0, head(&*log, 0).await).await;
    let mut seen = Vec::new();
    for number in 0..RECORDS {
        // What is polled once and dropped may have read something by then, or not.
        for wait in [Duration::ZERO, PATIENCE] {
            if let Some(records) = reader.read(2, wait).now_or_never() {
                seen.extend(records.expect("records"));
            }
        }
        writer.append(&payload(number), NOW_MS).await.expect("an acknowledgement");
        if number % 3 == 0 {
            seen.extend(reader.read(2, PATIENCE).await.expect("records"));
        }
    }
    while seen.len() < RECORDS {
        let records = reader.read(2, PATIENCE).await.expect("records");
        assert!(!records.is_empty(), "only {} records came", seen.len());
        seen.extend(records);
    }
    assert_eq!(seen.into_iter().map(|record| record.payload).collect::<Vec<_>>(), numbered(0..RECORDS));
    assert_eq!(reader.read(2, Duration::ZERO).await.expect("nothing"), []);
}

/// What is appended to one partition shows in no other one.
pub async fn partitions_are_independent(factory: &dyn LogFactory) {
    let (_site, log) = fresh(factory).await;
    append_numbered(&*log, 0, 0..20).await;
    append_numbered(&*log, 2, 100..110).await;
    assert_eq!(head(&*log, 1).await, tail(&*log, 1).await);
    log.truncate_before(0, tail(&*log, 0).await).await.expect("a head");
    append_numbered(&*log, 1, 50..55).await;
    assert_eq!(payloads(&*log, 1).await, numbered(50..55));
    assert_eq!(payloads(&*log, 2).await, numbered(100..110));
}

/// A position after the end comes from another log; waiting for it would be waiting for ever, so it is an error.
pub async fn positions_after_the_end_are_refused(factory: &dyn LogFactory) {
    let (_site, log) = fresh(factory).await;
    append_numbered(&*log, 0, 0..10).await;
    append_numbered(&*log, 1, 0..1).await;
    let (foreign, end) = (tail(&*log, 0).await, tail(&*log, 1).await);
    let mut reader = reader(&*log, 1, foreign).await;
    let error = reader.read(1, PATIENCE).await.expect_err("a refusal");
    let LogError::BeyondTail { partition: 1, wanted, tail } = error else { panic!("unexpected: {error}") };
    assert_eq!((wanted, tail), (foreign, end));
    reader.seek(head(&*log, 1).await);
    assert_eq!(reader.read(1, PATIENCE).await.expect("records").len(), 1);
}
