//! What appending promises.

use futures::future::join_all;

use crate::support::{
    LogFactory, NOW_MS, Setup, append_numbered, fresh, fresh_with, head, numbered, payload, payloads, read_to_end,
    tail, writer,
};
use weir_streams::{LogError, Position};

/// Records come back in the order of their appends, with the time that was given, and with positions that rise up to the
/// tail.
pub async fn order_is_kept(factory: &dyn LogFactory) {
    let (_site, log) = fresh(factory).await;
    let start = head(&*log, 0).await;
    assert_eq!(start, tail(&*log, 0).await, "a new log is empty");
    let mut writer = writer(&*log, 0).await;
    for number in 0..100 {
        let before = tail(&*log, 0).await;
        let time_ms = NOW_MS + i64::try_from(number).expect("a small number");
        writer.append(&payload(number), time_ms).await.expect("an acknowledgement");
        assert!(before < tail(&*log, 0).await, "the tail moves with every record");
    }
    let records = read_to_end(&*log, 0, start).await;
    assert_eq!(records.iter().map(|record| record.payload.clone()).collect::<Vec<_>>(), numbered(0..100));
    let times: Vec<i64> = records.iter().map(|record| record.appended_at_ms - NOW_MS).collect();
    assert_eq!(times, (0..100).collect::<Vec<i64>>());
    let positions: Vec<Position> = std::iter::once(start).chain(records.iter().map(|record| record.next)).collect();
    assert!(positions.is_sorted_by(|earlier, later| earlier < later), "positions rise: {positions:?}");
    assert_eq!(positions.last().copied(), Some(tail(&*log, 0).await));
    let stats = log.stats();
    assert_eq!((stats.records_appended, stats.records_read), (100, 100));
}

/// A batch is appended in order, empty payloads included; an empty batch appends nothing.
pub async fn batches_keep_their_order(factory: &dyn LogFactory) {
    let (_site, log) = fresh(factory).await;
    let mut writer = writer(&*log, 1).await;
    writer.append_batch(&[], NOW_MS).await.expect("nothing to do");
    assert_eq!(head(&*log, 1).await, tail(&*log, 1).await);
    let mut expected = Vec::new();
    for batch in 0..10 {
        let mut owned = numbered(batch * 40..(batch + 1) * 40);
        owned.push(Vec::new());
        let borrowed: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
        writer.append_batch(&borrowed, NOW_MS).await.expect("an acknowledgement");
        expected.extend(owned);
    }
    assert_eq!(payloads(&*log, 1).await, expected);
}

/// Several writers of one partition: everything acknowledged is there once, and each writer's records are in its order.
pub async fn concurrent_writers_keep_their_order(factory: &dyn LogFactory) {
    const WRITERS: usize = 8;
    const RECORDS: usize = 50;
    let (_site, log) = fresh(factory).await;
    let write = async |number: usize| {
        let mut writer = log.writer(0, &format!("producer-{number}")).await.expect("a writer");
        for record in 0..RECORDS {
            let text = format!("{number}/{record}");
            writer.append(text.as_bytes(), NOW_MS).await.expect("an acknowledgement");
        }
    };
    join_all((0..WRITERS).map(write)).await;
    let mut next = [0; WRITERS];
    for payload in payloads(&*log, 0).await {
        let text = String::from_utf8(payload).expect("text");
        let (number, record) = text.split_once('/').expect("two numbers");
        let number: usize = number.parse().expect("a number");
        assert_eq!(record.parse(), Ok(next[number]), "writer {number} is out of order");
        next[number] += 1;
    }
    assert_eq!(next, [RECORDS; WRITERS]);
}

/// Records up to the limit are taken; larger ones are refused with both numbers, counted, and leave nothing behind, neither
/// alone nor in a batch.
pub async fn large_records_up_to_the_limit(factory: &dyn LogFactory) {
    let setup = Setup::default();
    let (_site, log) = fresh_with(factory, &setup).await;
    let limit = setup.max_record_bytes;
    let largest: Vec<u8> = (0_u8..=250).cycle().take(limit).collect();
    let mut writer = writer(&*log, 0).await;
    writer.append(&largest, NOW_MS).await.expect("the largest record is taken");
    let end = tail(&*log, 0).await;

    let too_large = vec![1; limit + 1];
    let alone = writer.append(&too_large, NOW_MS).await;
    let in_batch = writer.append_batch(&[b"small", &too_large], NOW_MS).await;
    for refused in [alone, in_batch] {
        let error = refused.expect_err("a refusal");
        let LogError::RecordTooLarge { bytes, limit: said, .. } = &error else { panic!("unexpected: {error}") };
        assert_eq!((*bytes, *said), (length(limit + 1), length(limit)));
        assert!(!error.is_retryable(), "trying again does not make it smaller");
    }
    assert_eq!(log.stats().appends_refused, 2);
    assert_eq!(tail(&*log, 0).await, end, "nothing is left of what was refused");
    writer.append(b"after", NOW_MS).await.expect("the writer is still good");
    assert_eq!(payloads(&*log, 0).await, [largest, b"after".to_vec()]);
}

fn length(length: usize) -> u64 {
    u64::try_from(length).expect("a length")
}

/// Every call names the partition that does not exist.
pub async fn unknown_partitions_are_refused(factory: &dyn LogFactory) {
    let (_site, log) = fresh(factory).await;
    let partitions = log.info().partitions;
    assert_eq!(partitions, Setup::default().partitions);
    let at = head(&*log, 0).await;
    let answers = [
        log.writer(partitions, "contract").await.err(),
        log.reader(partitions, at).await.err(),
        log.head(partitions).await.err(),
        log.tail(partitions).await.err(),
        log.truncate_before(partitions, at).await.err(),
        log.distance(partitions, at, at).err(),
        log.info().resume(&log.info().stored(partitions, at)).err(),
    ];
    for answer in answers {
        let Some(LogError::NoSuchPartition { partition, .. }) = answer else { panic!("unexpected: {answer:?}") };
        assert_eq!(partition, partitions);
    }
}

/// A log that is opened again has everything that was acknowledged, under the same positions, and takes more.
pub async fn reopening_keeps_what_was_acknowledged(factory: &dyn LogFactory) {
    if !factory.abilities().reopens {
        return;
    }
    let (site, log) = fresh(factory).await;
    append_numbered(&*log, 2, 0..30).await;
    let (info, start, end) = (log.info().clone(), head(&*log, 2).await, tail(&*log, 2).await);
    let before = read_to_end(&*log, 2, start).await;
    drop(log);

    let log = site.open().await;
    assert_eq!(*log.info(), info);
    assert_eq!((head(&*log, 2).await, tail(&*log, 2).await), (start, end));
    assert_eq!(read_to_end(&*log, 2, start).await, before);
    append_numbered(&*log, 2, 30..40).await;
    let added = read_to_end(&*log, 2, end).await;
    assert_eq!(added.into_iter().map(|record| record.payload).collect::<Vec<_>>(), numbered(30..40));
}
