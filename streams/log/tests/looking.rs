//! Looking at a log that somebody else writes to, in this process and in another one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures::FutureExt;
use weir_streams::{EmbeddedLog, EmbeddedLogView, EmbeddedOptions, Log, LogError};

const NOW_MS: i64 = 1_000;
const POLL: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(60);
const CHILD_DIR: &str = "WEIR_TEST_LOG_DIR";

fn options() -> EmbeddedOptions {
    EmbeddedOptions { partitions: 1, segment_bytes: 2_000, ..EmbeddedOptions::default() }
}

fn payload(number: usize) -> Vec<u8> {
    format!("{number}:{}", "w".repeat(number % 100)).into_bytes()
}

async fn append(log: &EmbeddedLog, numbers: std::ops::Range<usize>) {
    let mut writer = log.writer(0, "test").await.unwrap();
    for number in numbers {
        writer.append(&payload(number), NOW_MS).await.unwrap();
    }
}

#[tokio::test]
async fn a_live_log_is_followed_without_its_lock() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("log");
    let log = EmbeddedLog::open(&dir, options(), NOW_MS).await.unwrap();
    let view = EmbeddedLogView::open(&dir, POLL).await.unwrap();
    assert_eq!(view.info(), log.info());
    let mut reader = view.reader(0, view.head(0).await.unwrap()).await.unwrap();
    let follow = async {
        let mut seen = Vec::new();
        while seen.len() < 300 {
            let records = reader.read(50, PATIENCE).await.unwrap();
            assert!(!records.is_empty());
            seen.extend(records.into_iter().map(|record| record.payload));
        }
        seen
    };
    let (seen, ()) = futures::join!(follow, append(&log, 0..300));
    assert_eq!(seen, (0..300).map(payload).collect::<Vec<_>>());
    assert_eq!(view.tail(0).await.unwrap(), log.tail(0).await.unwrap());
    assert_eq!(reader.position(), log.tail(0).await.unwrap());

    let head = log.truncate_before(0, log.tail(0).await.unwrap()).await.unwrap();
    let mut behind = view.reader(0, weir_streams::Position::from_raw(0)).await.unwrap();
    let error = behind.read(1, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, LogError::Truncated { head: now, .. } if now == head), "{error}");
}

#[tokio::test]
async fn what_only_looks_changes_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("log");
    let log = EmbeddedLog::open(&dir, options(), NOW_MS).await.unwrap();
    append(&log, 0..3).await;
    let view = EmbeddedLogView::open(&dir, POLL).await.unwrap();
    let at = view.head(0).await.unwrap();
    let refusals = [
        view.writer(0, "test").await.err(),
        view.truncate_before(0, view.tail(0).await.unwrap()).await.err(),
        view.retain(NOW_MS).await.err(),
    ];
    assert!(refusals.iter().all(|refusal| matches!(refusal, Some(LogError::ReadOnly { .. }))), "{refusals:?}");
    let tail = view.tail(0).await.unwrap();
    assert_eq!(view.distance(0, at, tail).unwrap(), log.distance(0, at, log.tail(0).await.unwrap()).unwrap());
}

/// A look that was begun before something came, and was dropped, does not hide it from the next one.
#[tokio::test]
async fn a_dropped_look_does_not_hide_what_came_after_it() {
    let parent = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(parent.path().join("log"), options(), NOW_MS).await.unwrap();
    let view = EmbeddedLogView::open(parent.path().join("log"), POLL).await.unwrap();
    let mut reader = view.reader(0, view.tail(0).await.unwrap()).await.unwrap();
    for number in 0..50 {
        if let Some(records) = reader.read(10, Duration::ZERO).now_or_never() {
            assert_eq!(records.unwrap(), []);
        }
        append(&log, number..number + 1).await;
        let records = reader.read(10, Duration::ZERO).await.unwrap();
        assert_eq!(records.into_iter().map(|record| record.payload).collect::<Vec<_>>(), [payload(number)]);
    }
}

/// A record that is half written is not there yet, at whichever byte it stops, and is read once it is complete.
#[tokio::test]
async fn half_a_record_is_not_there_yet() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("log");
    let log = EmbeddedLog::open(&dir, options(), NOW_MS).await.unwrap();
    append(&log, 0..4).await;
    drop(log);
    let segment = dir.join("00/00000000000000000000.seg");
    let bytes = fs::read(&segment).unwrap();
    let last = bytes.len() - payload(3).len() - 16;

    fs::write(&segment, &bytes[..last]).unwrap();
    let view = EmbeddedLogView::open(&dir, POLL).await.unwrap();
    let mut reader = view.reader(0, view.head(0).await.unwrap()).await.unwrap();
    assert_eq!(reader.read(10, Duration::ZERO).await.unwrap().len(), 3);
    let before = reader.position();
    for byte in &bytes[last..bytes.len() - 1] {
        write_more(&segment, &[*byte]);
        assert_eq!(reader.read(10, Duration::ZERO).await.unwrap(), []);
        assert_eq!((reader.position(), view.tail(0).await.unwrap()), (before, before));
    }
    write_more(&segment, &bytes[bytes.len() - 1..]);
    let records = reader.read(10, Duration::ZERO).await.unwrap();
    assert_eq!(records.into_iter().map(|record| record.payload).collect::<Vec<_>>(), [payload(3)]);
    assert_eq!(view.stats().corrupt_bytes, 0);
}

fn write_more(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// Writes until it is killed, and says what was acknowledged.
#[tokio::test]
#[ignore = "is run by the test below, as a process of its own"]
async fn child_that_writes() {
    let dir = std::env::var(CHILD_DIR).expect("a directory to write to");
    let log = EmbeddedLog::open(dir, options(), NOW_MS).await.unwrap();
    let mut writer = log.writer(0, "child").await.unwrap();
    for number in 0.. {
        writer.append(&payload(number), NOW_MS).await.unwrap();
        writeln!(std::io::stdout().lock(), "\nacknowledged {number}").unwrap();
    }
}

/// A process that is killed while it writes: what it said was acknowledged is there, and its lock is free.
#[tokio::test]
async fn a_killed_writer_loses_nothing_acknowledged() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("log");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_writes", "--ignored", "--nocapture"])
        .env(CHILD_DIR, &dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut acknowledged = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        if let Some(number) = line.unwrap().strip_prefix("acknowledged ") {
            acknowledged = number.parse().unwrap();
        }
        if acknowledged == 20 {
            let error = EmbeddedLog::open(&dir, options(), NOW_MS).await.err().unwrap();
            assert!(matches!(error, LogError::Locked { .. }), "{error}");
            let view = EmbeddedLogView::open(&dir, POLL).await.unwrap();
            let mut reader = view.reader(0, view.head(0).await.unwrap()).await.unwrap();
            assert!(reader.read(1_000, PATIENCE).await.unwrap().len() >= 20);
        }
        if acknowledged == 200 {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(acknowledged >= 200, "the child stopped after {acknowledged}");

    let log = EmbeddedLog::open(&dir, options(), NOW_MS).await.unwrap();
    let mut reader = log.reader(0, log.head(0).await.unwrap()).await.unwrap();
    let records = reader.read(usize::MAX, Duration::ZERO).await.unwrap();
    assert!(records.len() > acknowledged);
    for (number, record) in records.iter().enumerate() {
        assert_eq!(record.payload, payload(number));
    }
}
