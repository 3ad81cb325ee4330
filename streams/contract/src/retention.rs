//! What truncation and retention promise, and how a gap is told.

use futures::future::join;
use weir_streams::{Distance, Log, LogError, Position};

use crate::support::{
    LogFactory, NOW_MS, PATIENCE, Setup, append_numbered, fresh, fresh_with, head, numbered, payload, payloads,
    read_to_end, reader, tail, writer,
};

/// Distances grow record by record, add up, and are nothing between positions in the wrong order.
pub async fn distance_grows_with_the_log(factory: &dyn LogFactory) {
    let (_site, log) = fresh(factory).await;
    append_numbered(&*log, 0, 0..20).await;
    let start = head(&*log, 0).await;
    let between = |from, to| log.distance(0, from, to).expect("a distance");
    let mut last = between(start, start);
    assert!(last.bytes.is_some() || last.records.is_some(), "the log counts something");
    let grows = |from: Option<u64>, to: Option<u64>| from.zip(to).is_none_or(|(from, to)| from < to);
    let none = |amount: Option<u64>| amount.is_none_or(|amount| amount == 0);
    assert!(none(last.bytes) && none(last.records));
    let records = read_to_end(&*log, 0, start).await;
    for (record, count) in records.iter().zip(1_u64..) {
        let distance = between(start, record.next);
        assert!(grows(last.bytes, distance.bytes) && grows(last.records, distance.records), "{distance:?}");
        assert!(distance.records.is_none_or(|records| records == count), "{distance:?} after {count}");
        let back = between(record.next, start);
        assert!(none(back.bytes) && none(back.records), "{back:?}");
        last = distance;
    }
    let half = records[9].next;
    let (first, second) = (between(start, half), between(half, tail(&*log, 0).await));
    let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
    assert_eq!(Distance { bytes: sum(first.bytes, second.bytes), records: sum(first.records, second.records) }, last);
}

/// Truncation keeps what lies at the cut and after it. Whoever stands before the head is told what is lost and can go on at
/// the head. A cut after the end empties the log and does not move its tail.
pub async fn gap_at_the_head_is_told(factory: &dyn LogFactory) {
    let (_site, log) = fresh(factory).await;
    let start = head(&*log, 0).await;
    append_numbered(&*log, 0, 0..100).await;
    let all = read_to_end(&*log, 0, start).await;
    let cut = all[79].next;
    let begin = log.truncate_before(0, cut).await.expect("a head");
    assert_eq!(begin, head(&*log, 0).await);
    assert!(start < begin && begin <= cut, "{start} < {begin} <= {cut}");
    assert_eq!(read_to_end(&*log, 0, cut).await, all[80..]);
    assert_eq!(log.truncate_before(0, start).await.expect("a head"), begin, "the head never moves back");

    let mut behind = reader(&*log, 0, start).await;
    for _ in 0..2 {
        let error = behind.read(10, PATIENCE).await.expect_err("a gap");
        let LogError::Truncated { partition: 0, wanted, head, lost } = error else { panic!("unexpected: {error}") };
        assert_eq!((wanted, head), (start, begin));
        assert!(lost.bytes.is_some_and(|bytes| bytes > 0) || lost.records.is_some_and(|records| records > 0));
    }
    behind.seek(begin);
    let first = behind.read(1, PATIENCE).await.expect("records");
    let kept = all.iter().position(|record| record.next == begin).expect("the head is between records") + 1;
    assert_eq!(first, all[kept..=kept]);

    let end = tail(&*log, 0).await;
    let later = beyond(&*log, end).await;
    log.truncate_before(0, later).await.expect("a head");
    assert_eq!(tail(&*log, 0).await, end);
    assert_eq!(payloads(&*log, 0).await, Vec::<Vec<u8>>::new(), "everything was given up");
    append_numbered(&*log, 0, 100..105).await;
    assert_eq!(payloads(&*log, 0).await, numbered(100..105));
}

/// A position after the end of partition 0: the tail of a fuller one.
async fn beyond(log: &dyn Log, end: Position) -> Position {
    let mut writer = writer(log, 1).await;
    while tail(log, 1).await <= end {
        writer.append(&payload(11), NOW_MS).await.expect("an acknowledgement");
    }
    tail(log, 1).await
}

/// Truncation under a reader that is at work: it sees an unbroken run of records, or is told of the gap.
pub async fn readers_survive_truncation(factory: &dyn LogFactory) {
    const RECORDS: usize = 200;
    let (_site, log) = fresh(factory).await;
    let start = head(&*log, 0).await;
    let write = async {
        let mut writer = writer(&*log, 0).await;
        for number in 0..RECORDS {
            writer.append(&payload(number), NOW_MS).await.expect("an acknowledgement");
            if number % 25 == 24 {
                log.truncate_before(0, tail(&*log, 0).await).await.expect("a head");
            }
        }
        writer.append(b"last", NOW_MS).await.expect("an acknowledgement");
    };
    let read = async {
        let mut reader = reader(&*log, 0, start).await;
        let mut next = 0;
        loop {
            match reader.read(4, PATIENCE).await {
                Ok(records) => {
                    assert!(!records.is_empty(), "nothing came within {PATIENCE:?} after {next} records");
                    for record in records {
                        if record.payload == b"last" {
                            return;
                        }
                        let number = (next..RECORDS).find(|number| record.payload == payload(*number));
                        let number = number.expect("a later record");
                        assert_eq!(number, next, "a gap without a word");
                        next = number + 1;
                    }
                }
                Err(LogError::Truncated { wanted, head, .. }) => {
                    assert_eq!(wanted, reader.position());
                    reader.seek(head);
                    next = number_at(&*log, head, next).await;
                }
                Err(error) => panic!("unexpected: {error}"),
            }
        }
    };
    join(write, read).await;
}

/// The number of the record at a position, if it is still there; else a number that the next gap corrects.
async fn number_at(log: &dyn Log, position: Position, least: usize) -> usize {
    let mut reader = reader(log, 0, position).await;
    match reader.read(1, PATIENCE).await {
        Ok(records) => {
            let first = records.first().expect("a record");
            (least..1_000).find(|number| first.payload == payload(*number)).unwrap_or(least)
        }
        Err(LogError::Truncated { .. }) => least,
        Err(error) => panic!("unexpected: {error}"),
    }
}

/// Records that are too old go; those that are young enough stay, and so does a log that has nothing but old ones usable.
pub async fn retention_by_age(factory: &dyn LogFactory) {
    if !factory.abilities().retains {
        return;
    }
    let setup = Setup { retain_age_ms: 10_000, ..Setup::default() };
    let (_site, log) = fresh_with(factory, &setup).await;
    let mut writer = writer(&*log, 0).await;
    for number in 0..100 {
        let age_ms = i64::try_from(100 - number).expect("a small number") * 1_000;
        writer.append(&payload(number), NOW_MS - age_ms).await.expect("an acknowledgement");
    }
    let freed = log.retain(NOW_MS).await.expect("bytes");
    assert!(freed > 0 && log.stats().bytes_removed == freed, "{freed} bytes");
    let kept = payloads(&*log, 0).await;
    assert!(kept.len() >= 10, "{} of at least 10 records are left", kept.len());
    assert!(kept.len() < 80, "{} records are left, of which 10 are young enough", kept.len());
    assert_eq!(kept, numbered(100 - kept.len()..100));
    assert_eq!(log.retain(NOW_MS).await.expect("bytes"), 0, "once is enough");

    let end = tail(&*log, 0).await;
    log.retain(NOW_MS + 60_000).await.expect("bytes");
    assert_eq!((head(&*log, 0).await, tail(&*log, 0).await), (end, end), "all of it is too old now");
    append_numbered(&*log, 0, 0..3).await;
    assert_eq!(payloads(&*log, 0).await, numbered(0..3));
}

/// What is more than the log may keep goes, oldest first, over all partitions.
pub async fn retention_by_size(factory: &dyn LogFactory) {
    if !factory.abilities().retains {
        return;
    }
    let setup = Setup { retain_bytes: 6_000, ..Setup::default() };
    let (_site, log) = fresh_with(factory, &setup).await;
    let mut old = writer(&*log, 0).await;
    let mut young = writer(&*log, 1).await;
    for number in 0..100 {
        old.append(&payload(number), NOW_MS - 5_000).await.expect("an acknowledgement");
    }
    for number in 0..50 {
        young.append(&payload(number), NOW_MS).await.expect("an acknowledgement");
    }
    let freed = log.retain(NOW_MS).await.expect("bytes");
    assert!(freed > 0);
    let mut kept = 0;
    for partition in 0..2 {
        let distance = log.distance(partition, head(&*log, partition).await, tail(&*log, partition).await);
        kept += distance.expect("a distance").bytes.expect("a log that retains by size knows its size");
    }
    assert!((4_500..=6_000).contains(&kept), "{kept} bytes are left");
    assert_eq!(payloads(&*log, 1).await, numbered(0..50), "the young ones stay");
}

/// Positions of a log that was deleted and made anew are refused, also once the new one has grown past them.
pub async fn remade_log_is_noticed(factory: &dyn LogFactory) {
    if !factory.abilities().remakes {
        return;
    }
    let (site, log) = fresh(factory).await;
    append_numbered(&*log, 0, 0..5).await;
    let stored = log.info().stored(0, tail(&*log, 0).await);
    assert_eq!(log.info().resume(&stored).expect("the same log"), stored.position);
    drop(log);
    site.remake().await;
    let log = site.open().await;
    append_numbered(&*log, 0, 0..10).await;
    assert!(tail(&*log, 0).await > stored.position);
    let error = log.info().resume(&stored).expect_err("a refusal");
    let LogError::OtherIncarnation { stored: said, current, .. } = error else { panic!("unexpected: {error}") };
    assert_eq!(said, stored.incarnation);
    assert_eq!(current, log.info().incarnation);
}
