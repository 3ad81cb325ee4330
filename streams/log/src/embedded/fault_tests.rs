//! The embedded log on a disk that fails.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::task::spawn_blocking;

use super::frame::{FRAME_HEADER, SEGMENT_HEADER};
use super::log::EmbeddedLog;
use super::meta::check_vacant;
use super::options::EmbeddedOptions;
use super::sim_disk::{Crash, SimDisk};
use super::storage::{Storage, length_of};
use crate::{Log, LogError, Record};

const DIR: &str = "/data/log";
const NOW_MS: i64 = 1_000;

/// Small segments, so that their creation is among what is interrupted.
fn options() -> EmbeddedOptions {
    EmbeddedOptions { partitions: 1, segment_bytes: 100, ..EmbeddedOptions::default() }
}

fn open(disk: &SimDisk) -> Result<EmbeddedLog, LogError> {
    EmbeddedLog::open_on(Arc::new(disk.clone()), Path::new(DIR), options(), NOW_MS)
}

fn payload(number: usize) -> Vec<u8> {
    format!("{number}:{}", "y".repeat(number * 5 % 31)).into_bytes()
}

/// Appends numbered records until one fails, and says how many were acknowledged.
async fn append_until_failure(log: &EmbeddedLog, count: usize) -> usize {
    let mut writer = log.writer(0, "test").await.unwrap();
    for number in 0..count {
        if writer.append(&payload(number), NOW_MS).await.is_err() {
            return number;
        }
    }
    count
}

/// Another process may finish its creation between the look for a description and the look at the rest.
#[test]
fn directory_whose_log_was_just_made_is_not_foreign() {
    let disk = SimDisk::default();
    drop(open(&disk).unwrap());
    check_vacant(&disk, Path::new(DIR)).unwrap();
}

/// Reads the whole partition. Damage is skipped and counted.
async fn read_all(log: &EmbeddedLog) -> (Vec<Record>, u64) {
    let mut reader = log.reader(0, log.head(0).await.unwrap()).await.unwrap();
    let (mut records, mut lost) = (Vec::new(), 0);
    loop {
        match reader.read(100, Duration::ZERO).await {
            Ok(more) if more.is_empty() => return (records, lost),
            Ok(more) => records.extend(more),
            Err(LogError::Corrupt { lost_bytes, resume, .. }) => {
                lost += lost_bytes;
                reader.seek(resume);
            }
            Err(error) => panic!("unexpected: {error}"),
        }
    }
}

/// The process or the machine dies after every single byte that is written, from the making of the log on. Whatever was
/// acknowledged by then is there afterwards, in order, and the log takes more.
#[tokio::test]
async fn a_crash_at_any_byte_loses_nothing_acknowledged() {
    const RECORDS: usize = 12;
    let whole = SimDisk::default();
    assert_eq!(append_until_failure(&open(&whole).unwrap(), RECORDS).await, RECORDS);
    let mut torn_seen = false;
    for crash_at in 0..=whole.written() {
        let disk = SimDisk::default();
        disk.set_faults(|faults| faults.crash_after_bytes = Some(crash_at));
        let acknowledged = match open(&disk) {
            Ok(log) => append_until_failure(&log, RECORDS).await,
            Err(_) => 0,
        };
        for crash in Crash::ALL {
            let context = format!("{crash:?} after {crash_at} bytes, {acknowledged} acknowledged");
            let left = disk.after(crash);
            let log = open(&left).unwrap_or_else(|error| panic!("{context}: {error}"));
            torn_seen |= log.recovery()[0].torn_bytes > 0;
            let (records, _) = read_all(&log).await;
            assert!(records.len() >= acknowledged, "{context}: {} records are left", records.len());
            for (number, record) in records.iter().take(acknowledged).enumerate() {
                assert_eq!(record.payload, payload(number), "{context}");
            }
            // What was not acknowledged may be there or not, but only as it was appended.
            for record in &records[acknowledged..] {
                assert!((acknowledged..RECORDS).any(|number| record.payload == payload(number)), "{context}");
            }
            // What a reader has seen once stays, whatever happens next.
            let again = open(&left.after(Crash::Power)).unwrap_or_else(|error| panic!("{context}, twice: {error}"));
            assert_eq!(read_all(&again).await.0, records, "{context}: read once, then gone");

            let mut writer = log.writer(0, "test").await.unwrap();
            writer.append(b"after the crash", NOW_MS).await.unwrap();
            drop((writer, log));
            let again = open(&left.after(Crash::Power)).unwrap();
            assert_eq!(again.recovery()[0].torn_bytes, 0, "{context}: recovery is complete");
            assert_eq!(read_all(&again).await.0.last().unwrap().payload, b"after the crash", "{context}");
        }
    }
    assert!(torn_seen, "some crash has to tear a record");
}

/// A full disk fails appends, but neither acknowledged records nor later ones; no opening anew is needed.
#[tokio::test]
async fn a_full_disk_is_survived_at_any_byte() {
    let whole = SimDisk::default();
    append_until_failure(&open(&whole).unwrap(), 8).await;
    let made = SimDisk::default();
    drop(open(&made).unwrap());
    for capacity in made.written()..whole.written() {
        let disk = SimDisk::default();
        let log = open(&disk).unwrap();
        disk.set_faults(|faults| faults.capacity = Some(capacity));
        let acknowledged = append_until_failure(&log, 8).await;
        assert!(acknowledged < 8);
        let mut writer = log.writer(0, "test").await.unwrap();
        let error = writer.append(&payload(acknowledged), NOW_MS).await.unwrap_err();
        assert!(matches!(error, LogError::StorageFull { .. }) && error.is_retryable(), "{capacity}: {error}");
        assert_eq!(log.stats().appends_failed, 2);
        disk.set_faults(|faults| faults.capacity = None);
        for number in acknowledged..8 {
            writer.append(&payload(number), NOW_MS).await.unwrap();
        }
        drop((writer, log));
        let log = open(&disk.after(Crash::Power)).unwrap();
        assert!(log.recovery()[0].is_clean());
        let (records, lost) = read_all(&log).await;
        let expected: Vec<_> = (0..8).map(payload).collect();
        assert_eq!((records.into_iter().map(|record| record.payload).collect::<Vec<_>>(), lost), (expected, 0));
    }
}

/// After a failed sync nothing is acknowledged, also when the disk claims to work again, until the log is opened anew.
#[tokio::test]
async fn a_failed_sync_stops_the_partition() {
    let disk = SimDisk::default();
    let log = open(&disk).unwrap();
    let mut writer = log.writer(0, "test").await.unwrap();
    writer.append(b"safe", NOW_MS).await.unwrap();
    disk.set_faults(|faults| faults.sync_fails = true);
    let tail = log.tail(0).await.unwrap();
    let first = writer.append(b"lost", NOW_MS).await.unwrap_err();
    disk.set_faults(|faults| faults.sync_fails = false);
    let second = writer.append(b"too late", NOW_MS).await.unwrap_err();
    for error in [first, second] {
        assert!(matches!(error, LogError::Poisoned { partition: 0, .. }), "{error}");
        assert!(!error.is_retryable() && error.to_string().contains("the disk is broken"), "{error}");
    }
    assert_eq!(log.tail(0).await.unwrap(), tail);
    assert_eq!(read_all(&log).await.0.len(), 1, "what is safe can still be read");
    drop((writer, log));
    for crash in Crash::ALL {
        let log = open(&disk.after(crash)).unwrap();
        let mut writer = log.writer(0, "test").await.unwrap();
        writer.append(b"again", NOW_MS).await.unwrap();
        let payloads: Vec<_> = read_all(&log).await.0.into_iter().map(|record| record.payload).collect();
        assert_eq!(payloads, [b"safe".to_vec(), b"again".to_vec()], "{crash:?}");
    }
}

/// If an unfinished write cannot be cut off, later records would lie behind it; so there are none.
#[tokio::test]
async fn a_write_that_cannot_be_cut_off_stops_the_partition() {
    let disk = SimDisk::default();
    let log = open(&disk).unwrap();
    let mut writer = log.writer(0, "test").await.unwrap();
    writer.append(b"safe", NOW_MS).await.unwrap();
    let written = disk.written();
    disk.set_faults(|faults| {
        faults.cut_fails = true;
        faults.capacity = Some(written + 5);
    });
    let error = writer.append(b"a record that does not fit", NOW_MS).await.unwrap_err();
    assert!(matches!(error, LogError::Poisoned { .. }) && error.to_string().contains("cut off"), "{error}");
    disk.set_faults(|faults| *faults = super::sim_disk::Faults::default());
    assert!(writer.append(b"small", NOW_MS).await.is_err());
    drop((writer, log));
    let log = open(&disk).unwrap();
    assert_eq!(log.recovery()[0].torn_bytes, 5);
    assert_eq!(read_all(&log).await.0.len(), 1);
}

/// A segment that cannot be begun, for want of any number of bytes, is in nobody's way later.
#[tokio::test]
async fn a_segment_that_cannot_be_begun_is_begun_later() {
    let disk = SimDisk::default();
    let log = open(&disk).unwrap();
    let mut writer = log.writer(0, "test").await.unwrap();
    writer.append(&[1; 120], NOW_MS).await.unwrap();
    let (written, tail) = (disk.written(), log.tail(0).await.unwrap());
    for spare in 0..length_of(SEGMENT_HEADER) {
        disk.set_faults(|faults| faults.capacity = Some(written + spare));
        let truncated = log.truncate_before(0, tail).await;
        assert!(matches!(truncated, Err(LogError::StorageFull { .. })), "{spare}: {truncated:?}");
        let appended = writer.append(&[2; 10], NOW_MS).await;
        assert!(matches!(appended, Err(LogError::StorageFull { .. })), "{spare}: {appended:?}");
        assert_eq!(read_all(&log).await.0.len(), 1);
    }
    disk.set_faults(|faults| faults.capacity = None);
    writer.append(&[3; 10], NOW_MS).await.unwrap();
    assert_eq!(log.truncate_before(0, tail).await.unwrap(), tail);
    let payloads: Vec<_> = read_all(&log).await.0.into_iter().map(|record| record.payload).collect();
    assert_eq!(payloads, [vec![3; 10]]);
}

/// On a full disk, retention gives back space before it asks for any.
#[tokio::test]
async fn retention_helps_a_full_disk() {
    let disk = SimDisk::default();
    let log = open(&disk).unwrap();
    let mut writer = log.writer(0, "test").await.unwrap();
    for _ in 0..3 {
        writer.append(&[1; 120], NOW_MS).await.unwrap();
    }
    let written = disk.written();
    disk.set_faults(|faults| faults.capacity = Some(written));
    assert!(matches!(writer.append(&[2; 10], NOW_MS).await, Err(LogError::StorageFull { .. })));
    let later_ms = NOW_MS + 2 * options().retain_age_ms;
    assert_eq!(log.retain(later_ms).await.unwrap(), 3 * 136);
    writer.append(&[3; 10], later_ms).await.unwrap();
    assert_eq!(read_all(&log).await.0.len(), 1);
}

/// A system may take less of a write than it was given.
#[tokio::test]
async fn short_writes_are_continued() {
    let disk = SimDisk::default();
    disk.set_faults(|faults| faults.longest_write = Some(3));
    let log = open(&disk).unwrap();
    assert_eq!(append_until_failure(&log, 20).await, 20);
    drop(log);
    let log = open(&disk.after(Crash::Power)).unwrap();
    let payloads: Vec<_> = read_all(&log).await.0.into_iter().map(|record| record.payload).collect();
    assert_eq!(payloads, (0..20).map(payload).collect::<Vec<_>>());
}

/// Appends that come while others are made durable wait together, and are made durable at once.
#[tokio::test]
async fn appends_that_wait_are_committed_together() {
    let disk = SimDisk::default();
    let options = EmbeddedOptions { partitions: 1, ..EmbeddedOptions::default() };
    let log = EmbeddedLog::open_on(Arc::new(disk.clone()), Path::new(DIR), options, NOW_MS).unwrap();
    let syncs_before = log.stats().syncs;
    disk.set_faults(|faults| faults.gate_closed = true);
    let append = async |number: usize| {
        let mut writer = log.writer(0, "test").await.unwrap();
        writer.append(&payload(number), NOW_MS).await.unwrap();
    };
    let first = append(0);
    let others = async {
        let gate = disk.clone();
        spawn_blocking(move || gate.wait_for_gate()).await.unwrap();
        let appends = join_all((1..=50).map(append));
        let open_gate = async { disk.set_faults(|faults| faults.gate_closed = false) };
        futures::join!(appends, open_gate);
    };
    futures::join!(first, others);
    let stats = log.stats();
    assert_eq!((stats.syncs - syncs_before, stats.records_appended), (2, 51));
    assert_eq!(read_all(&log).await.0.len(), 51);
}

/// A group ends when its segment is full, or a busy partition would have few and large segments.
#[tokio::test]
async fn a_group_ends_with_its_segment() {
    const WAITING: usize = 20;
    let disk = SimDisk::default();
    let log = open(&disk).unwrap();
    disk.set_faults(|faults| faults.gate_closed = true);
    let record = [5; 60];
    let append = async |_: usize| log.writer(0, "test").await.unwrap().append(&record, NOW_MS).await.unwrap();
    let open_gate = async {
        let gate = disk.clone();
        spawn_blocking(move || gate.wait_for_gate()).await.unwrap();
        disk.set_faults(|faults| faults.gate_closed = false);
    };
    futures::join!(join_all((0..WAITING).map(append)), open_gate);
    let segments = disk.list(&Path::new(DIR).join("00")).unwrap();
    assert_eq!(segments.len(), WAITING / 2, "{segments:?}");
}

/// Appends wait while too many bytes are under way, instead of filling the memory.
#[tokio::test]
async fn a_stalled_disk_holds_appends_back() {
    let disk = SimDisk::default();
    let record = vec![7; 1_000];
    let room = 4 * length_of(record.len() + FRAME_HEADER);
    let options = EmbeddedOptions {
        partitions: 1,
        max_record_bytes: record.len(),
        queue_bytes: u32::try_from(room).unwrap(),
        ..EmbeddedOptions::default()
    };
    let log = EmbeddedLog::open_on(Arc::new(disk.clone()), Path::new(DIR), options, NOW_MS).unwrap();
    disk.set_faults(|faults| faults.gate_closed = true);
    let appends: Vec<_> = (0..20)
        .map(|_| async {
            let mut writer = log.writer(0, "test").await.unwrap();
            writer.append(&record, NOW_MS).await
        })
        .collect();
    let partition = log.partition_for_tests(0);
    let open_gate = async {
        let gate = disk.clone();
        spawn_blocking(move || gate.wait_for_gate()).await.unwrap();
        assert_eq!(partition.space.available_permits(), 0);
        assert!(partition.queued_bytes() <= room, "{} bytes wait", partition.queued_bytes());
        disk.set_faults(|faults| faults.gate_closed = false);
    };
    let (appended, ()) = futures::join!(join_all(appends), open_gate);
    assert!(appended.iter().all(Result::is_ok));
    assert_eq!(log.stats().records_appended, 20);
}

/// An append whose caller gave up is finished before the lock is given back.
#[tokio::test]
async fn closing_waits_for_what_is_under_way() {
    let disk = SimDisk::default();
    let log = open(&disk).unwrap();
    disk.set_faults(|faults| faults.gate_closed = true);
    let mut writer = log.writer(0, "test").await.unwrap();
    {
        let mut append = writer.append(b"given up", NOW_MS);
        let polled = futures::poll!(&mut append);
        assert!(polled.is_pending());
    }
    let gate = disk.clone();
    spawn_blocking(move || gate.wait_for_gate()).await.unwrap();
    let closing = spawn_blocking(move || drop((writer, log)));
    // It must not get the lock, however often it asks.
    let asking = async {
        while disk.lock(&Path::new(DIR).join("log.lock")).unwrap().is_none() {
            tokio::task::yield_now().await;
        }
    };
    let asked_in_vain = tokio::time::timeout(Duration::from_millis(50), asking).await.is_err();
    disk.set_faults(|faults| faults.gate_closed = false);
    assert!(asked_in_vain, "two writers at once");
    closing.await.unwrap();
    let log = open(&disk).unwrap();
    assert_eq!(read_all(&log).await.0.len(), 1);
}

/// Whoever reads a log that was closed is told so, instead of waiting for what cannot come.
#[tokio::test]
async fn readers_of_a_closed_log_are_told() {
    let disk = SimDisk::default();
    let log = open(&disk).unwrap();
    append_until_failure(&log, 2).await;
    let mut reader = log.reader(0, log.head(0).await.unwrap()).await.unwrap();
    drop(log);
    assert_eq!(reader.read(10, Duration::from_secs(20)).await.unwrap().len(), 2);
    assert!(matches!(reader.read(10, Duration::from_secs(20)).await, Err(LogError::Closed { .. })));
}
