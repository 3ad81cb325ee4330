//! Refusals, limits, and a server that is not there.

use std::net::TcpListener;
use std::time::Duration;

use tokio::time::Instant;
use weir_kafka::{KafkaLog, KafkaOptions};
use weir_streams::{Log, LogError, Position};

use weir_tests::{Unserved, wait_until};

use super::{NOW_MS, PATIENCE, Rig, append, open, read_all, reader_at_head};

pub async fn large_records_and_large_batches(rig: &mut Rig<'_>) {
    let options = rig.options();
    open(&options).await;
    // The limit of a log that is there can be raised.
    let larger = KafkaOptions { max_record_bytes: 4 * 1024 * 1024, queue_bytes: 8 * 1024 * 1024, ..options };
    let log = open(&larger).await;
    let largest = vec![7; larger.max_record_bytes];
    // Brokers show a limit a moment before they keep to it; another handle waits for that, and counts it.
    let patient = open(&larger).await;
    for partition in [0, 1] {
        let mut writer = patient.writer(partition, "test").await.unwrap();
        wait_until("the limit", PATIENCE, async || writer.append(&largest, NOW_MS).await.ok()).await;
    }
    append(&log, 0, &[&largest]).await;
    let refused = log.writer(0, "test").await.unwrap().append(&vec![7; larger.max_record_bytes + 1], NOW_MS).await;
    assert!(matches!(refused, Err(LogError::RecordTooLarge { .. })), "{refused:?}");

    // Far more than fits into the queue: it is sent as there is room.
    let records: Vec<Vec<u8>> = (0..40_000_u32).map(|number| number.to_be_bytes().repeat(250)).collect();
    let borrowed: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    append(&log, 1, &borrowed).await;
    let read = read_all(&log, 1).await;
    assert!(read.iter().skip(1).map(|record| &record.payload).eq(&records));
    assert!(read.iter().all(|record| record.appended_at_ms == NOW_MS));
    assert_eq!(read_all(&log, 0).await.into_iter().map(|record| record.payload).collect::<Vec<_>>(), [&*largest; 2]);
    let stats = log.stats();
    assert_eq!((stats.records_appended, stats.records_read, stats.appends_refused), (40_001, 40_003, 1));
    assert_eq!(stats.appends_failed, 0);
}

pub async fn broker_that_is_down_is_told(rig: &mut Rig<'_>) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = Unserved::take();
    let closed = nobody.address().to_string();
    let silent_address = silent.local_addr().unwrap().to_string();
    for (brokers, codes) in [
        // Which of them depends on whether a word of the connection has come by then.
        (closed.as_str(), &["WR0220", "WR0221"][..]),
        ("no-such-host.invalid:9092", &["WR0220", "WR0221"]),
        (&silent_address, &["WR0220", "WR0221"]),
    ] {
        let began = Instant::now();
        let options = KafkaOptions { brokers: brokers.to_owned(), request_timeout_ms: 3_000, ..rig.options() };
        let error = KafkaLog::open(options, NOW_MS).await.err().unwrap();
        assert!(codes.contains(&error.code()), "{error}");
        assert!(error.is_retryable());
        assert!(error.to_string().contains(brokers), "{error}");
        assert!(began.elapsed() < Duration::from_secs(60), "{brokers}: after {:?}", began.elapsed());
    }
}

pub async fn positions_past_the_tail_are_refused(rig: &mut Rig<'_>) {
    let log = open(&rig.options()).await;
    append(&log, 1, &[b"1", b"2"]).await;
    let tail = log.tail(1).await.unwrap();
    let past = Position::from_raw(tail.to_raw() + 1);
    for wait in [Duration::ZERO, PATIENCE] {
        let mut reader = log.reader(1, past).await.unwrap();
        for _ in 0..2 {
            let error = reader.read(1, wait).await.unwrap_err();
            let LogError::BeyondTail { wanted, tail: said, .. } = error else { panic!("unexpected: {error}") };
            assert_eq!((wanted, said), (past, tail));
        }
        reader.seek(tail);
        assert_eq!(reader.read(1, Duration::ZERO).await.unwrap(), []);
    }
    // Position 0 of partition 0 is that of the birth: nothing is missed by who begins there.
    append(&log, 0, &[b"1"]).await;
    let mut reader = log.reader(0, Position::from_raw(0)).await.unwrap();
    assert_eq!(reader.read(5, PATIENCE).await.unwrap().len(), 1);
    assert_eq!(reader_at_head(&log, 0).await.position(), Position::from_raw(1));
}

/// Processes that make a log at the same time leave births behind those of the one that was first, and often nothing after them.
pub async fn lost_births_are_not_waited_for(rig: &mut Rig<'_>) {
    let options = rig.options();
    let log = open(&options).await;
    for _ in 0..2 {
        rig.admin().put(&options.topic, "weir.birth", "{}").await;
    }
    let tail = log.tail(0).await.unwrap();
    let mut reader = reader_at_head(&log, 0).await;
    assert!(reader.position() < tail);
    while reader.position() < tail {
        assert_eq!(reader.read(5, Duration::ZERO).await.unwrap(), []);
    }
    assert_eq!(reader.read(5, Duration::ZERO).await.unwrap(), []);
    append(&log, 0, &[b"1"]).await;
    assert_eq!(reader.read(5, PATIENCE).await.unwrap()[0].payload, b"1");
    assert_eq!(read_all(&log, 0).await.len(), 1);
}
