//! Stored data that changed: what is lost is told, and the rest is read.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_streams::{EmbeddedLog, EmbeddedLogView, EmbeddedOptions, Log, LogError};

const NOW_MS: i64 = 1_000;
const HEADER: usize = 44;
const FRAME_HEADER: usize = 16;
const RECORDS: usize = 9;

fn options() -> EmbeddedOptions {
    EmbeddedOptions { partitions: 1, segment_bytes: 80, ..EmbeddedOptions::default() }
}

fn payload(number: usize) -> Vec<u8> {
    format!("{number}{}", "z".repeat(number * 3)).into_bytes()
}

async fn write_log(dir: &Path) {
    let log = EmbeddedLog::open(dir, options(), NOW_MS).await.unwrap();
    let mut writer = log.writer(0, "test").await.unwrap();
    for number in 0..RECORDS {
        writer.append(&payload(number), NOW_MS).await.unwrap();
    }
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir.join("00")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Reads everything that can be read, and counts the bytes that are said to be lost.
async fn read_around_damage(log: &dyn Log) -> (Vec<Vec<u8>>, u64) {
    let mut reader = log.reader(0, log.head(0).await.unwrap()).await.unwrap();
    let (mut payloads, mut lost) = (Vec::new(), 0);
    loop {
        match reader.read(2, Duration::ZERO).await {
            Ok(records) if records.is_empty() => return (payloads, lost),
            Ok(records) => payloads.extend(records.into_iter().map(|record| record.payload)),
            Err(LogError::Corrupt { position, lost_bytes, resume, .. }) => {
                assert_eq!(position, reader.position());
                assert!(resume > position);
                lost += lost_bytes;
                reader.seek(resume);
            }
            Err(error) => panic!("unexpected: {error}"),
        }
    }
}

/// The record that a byte of a segment file belongs to, as an index among all records.
fn record_at(paths: &[PathBuf], segment: usize, byte: usize) -> Option<usize> {
    let mut number = 0;
    for (at, path) in paths.iter().enumerate() {
        let length = usize::try_from(fs::metadata(path).unwrap().len()).unwrap();
        let mut begin = HEADER;
        while begin < length {
            let end = begin + FRAME_HEADER + payload(number).len();
            if at == segment && (begin..end).contains(&byte) {
                return Some(number);
            }
            begin = end;
            number += 1;
        }
    }
    None
}

/// A changed bit costs the record that it is in, and no other one. If it is in a header, nothing is lost.
#[tokio::test]
async fn a_flipped_bit_costs_one_record() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("log");
    write_log(&dir).await;
    let paths = segments(&dir);
    assert!(paths.len() >= 3, "{} segments", paths.len());
    for (segment, path) in paths.iter().enumerate() {
        let good = fs::read(path).unwrap();
        for byte in 0..good.len() {
            let context = format!("byte {byte} of segment {segment}");
            let mut bad = good.clone();
            bad[byte] ^= 1 << (byte % 8);
            fs::write(path, &bad).unwrap();
            let hit = record_at(&paths, segment, byte);
            let expected: Vec<_> = (0..RECORDS).filter(|number| Some(*number) != hit).map(payload).collect();
            let hit_bytes = hit.map_or(0, |number| payload(number).len() + FRAME_HEADER);

            let view = EmbeddedLogView::open(&dir, Duration::from_millis(10)).await.unwrap();
            let (payloads, lost) = read_around_damage(&view).await;
            assert_eq!(payloads, expected, "{context}, looked at");
            let is_last = hit == Some(RECORDS - 1);
            assert_eq!(lost, if is_last { 0 } else { u64::try_from(hit_bytes).unwrap() }, "{context}, looked at");

            match EmbeddedLog::open(&dir, options(), NOW_MS).await {
                Ok(log) => {
                    let (payloads, lost) = read_around_damage(&log).await;
                    assert_eq!(payloads, expected, "{context}");
                    assert_eq!(log.stats().corrupt_bytes, lost, "{context}");
                    assert_eq!(lost + log.recovery()[0].torn_bytes, u64::try_from(hit_bytes).unwrap(), "{context}");
                }
                Err(LogError::Foreign { path: named, .. } | LogError::NewerFormat { path: named, .. }) => {
                    assert!(byte < HEADER, "{context}");
                    assert_eq!(&named, path);
                    assert_eq!(fs::read(path).unwrap(), bad, "{context}: what is refused is not touched");
                }
                Err(error) => panic!("{context}: {error}"),
            }
            fs::write(path, &good).unwrap();
        }
    }
}

/// Damage in the newest segment is told when the log is opened, and does not cost the records behind it.
#[tokio::test]
async fn damage_before_the_end_is_not_taken_for_a_torn_tail() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("log");
    write_log(&dir).await;
    let newest = segments(&dir).pop().unwrap();
    let mut bytes = fs::read(&newest).unwrap();
    bytes[HEADER..HEADER + 8].fill(0xAA);
    fs::write(&newest, &bytes).unwrap();
    let log = EmbeddedLog::open(&dir, options(), NOW_MS).await.unwrap();
    let report = &log.recovery()[0];
    assert_eq!((report.torn_bytes, report.damage.len()), (0, 1));
    let (payloads, lost) = read_around_damage(&log).await;
    assert_eq!(payloads.len(), RECORDS - 1);
    let damage = report.damage[0];
    assert_eq!(log.distance(0, damage.from, damage.to).unwrap().bytes, Some(lost));
}

/// A segment that vanished, or lost its end, is a gap with a name, and not a leap in silence.
#[tokio::test]
async fn missing_segments_are_told() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("log");
    write_log(&dir).await;
    let paths = segments(&dir);
    fs::remove_file(&paths[1]).unwrap();
    let first = fs::read(&paths[0]).unwrap();
    fs::write(&paths[0], &first[..first.len() - 1]).unwrap();

    let log = EmbeddedLog::open(&dir, options(), NOW_MS).await.unwrap();
    assert_eq!(log.recovery()[0].damage.len(), 1);
    let (payloads, lost) = read_around_damage(&log).await;
    let read: u64 = payloads.iter().map(|payload| u64::try_from(payload.len() + FRAME_HEADER).unwrap()).sum();
    let all = log.distance(0, log.head(0).await.unwrap(), log.tail(0).await.unwrap()).unwrap();
    assert_eq!(all.bytes, Some(read + lost), "every byte is either read or said to be lost");
    assert_eq!(payloads.last(), Some(&payload(RECORDS - 1)));
}

/// A record that holds a piece of a log is not mistaken for records when its frame is damaged.
#[tokio::test]
async fn a_log_inside_a_record_is_not_read_as_records() {
    let parent = tempfile::tempdir().unwrap();
    let (inner, outer) = (parent.path().join("inner"), parent.path().join("outer"));
    write_log(&inner).await;
    let log = EmbeddedLog::open(&outer, EmbeddedOptions { partitions: 1, ..EmbeddedOptions::default() }, NOW_MS);
    let log = log.await.unwrap();
    let mut writer = log.writer(0, "test").await.unwrap();
    let piece = fs::read(&segments(&inner)[0]).unwrap();
    writer.append_batch(&[&piece, b"after"], NOW_MS).await.unwrap();
    drop((writer, log));
    let path = segments(&outer).pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[HEADER] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let view = EmbeddedLogView::open(&outer, Duration::from_millis(10)).await.unwrap();
    let (payloads, lost) = read_around_damage(&view).await;
    assert_eq!(payloads, [b"after".to_vec()]);
    assert_eq!(lost, u64::try_from(piece.len() + FRAME_HEADER).unwrap());
}
