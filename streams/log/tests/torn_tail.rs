//! A newest segment that ends anywhere: whole records stay, the rest is cut off and reported.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot build its input should stop there")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_streams::{EmbeddedLog, EmbeddedOptions, Log};

const NOW_MS: i64 = 1_000;
const HEADER: usize = 44;
const SEGMENT: &str = "00/00000000000000000000.seg";

fn options() -> EmbeddedOptions {
    EmbeddedOptions { partitions: 1, ..EmbeddedOptions::default() }
}

fn payload(number: usize) -> Vec<u8> {
    vec![u8::try_from(number).unwrap() + b'a'; number * 3]
}

async fn payloads(log: &EmbeddedLog) -> Vec<Vec<u8>> {
    let mut reader = log.reader(0, log.head(0).await.unwrap()).await.unwrap();
    let records = reader.read(1_000, Duration::ZERO).await.unwrap();
    assert_eq!(reader.position(), log.tail(0).await.unwrap());
    records.into_iter().map(|record| record.payload).collect()
}

/// A log of some records, and where each of them ends in the segment file.
async fn written(dir: &Path, records: usize) -> Vec<usize> {
    let log = EmbeddedLog::open(dir, options(), NOW_MS).await.unwrap();
    let mut writer = log.writer(0, "test").await.unwrap();
    let mut ends = vec![HEADER];
    for number in 0..records {
        writer.append(&payload(number), NOW_MS).await.unwrap();
        ends.push(usize::try_from(fs::metadata(dir.join(SEGMENT)).unwrap().len()).unwrap());
    }
    ends
}

fn log_with(parent: &Path, original: &Path, segment: &[u8]) -> PathBuf {
    let dir = parent.join("cut");
    fs::create_dir_all(dir.join("00")).unwrap();
    fs::copy(original.join("log.json"), dir.join("log.json")).unwrap();
    fs::write(dir.join(SEGMENT), segment).unwrap();
    dir
}

#[tokio::test]
async fn a_segment_cut_at_any_byte_loses_its_torn_record_only() {
    const RECORDS: usize = 8;
    let parent = tempfile::tempdir().unwrap();
    let original = parent.path().join("log");
    let ends = written(&original, RECORDS).await;
    let bytes = fs::read(original.join(SEGMENT)).unwrap();
    assert_eq!(ends.last(), Some(&bytes.len()));
    for cut in 0..=bytes.len() {
        let dir = log_with(parent.path(), &original, &bytes[..cut]);
        let whole = ends.iter().skip(1).filter(|end| **end <= cut).count();
        let torn = cut.saturating_sub(ends[whole]);
        let expected: Vec<_> = (0..whole).map(payload).collect();

        let log = EmbeddedLog::open(&dir, options(), NOW_MS).await.unwrap();
        let report = &log.recovery()[0];
        assert_eq!(report.torn_bytes, u64::try_from(torn).unwrap(), "cut at {cut}");
        assert!(report.damage.is_empty(), "cut at {cut}: {:?}", report.damage);
        assert_eq!(report.tail, log.tail(0).await.unwrap());
        assert_eq!(log.stats().torn_bytes, report.torn_bytes);
        assert_eq!(payloads(&log).await, expected, "cut at {cut}");

        log.writer(0, "test").await.unwrap().append(b"next", NOW_MS).await.unwrap();
        drop(log);
        let log = EmbeddedLog::open(&dir, options(), NOW_MS).await.unwrap();
        assert!(log.recovery()[0].is_clean(), "cut at {cut}: repaired once and for all");
        assert_eq!(payloads(&log).await, [expected, vec![b"next".to_vec()]].concat(), "cut at {cut}");
    }
}

/// A file system may give a torn file its full length, with zeros or old data where nothing was written.
#[tokio::test]
async fn zeros_and_stale_data_after_the_last_record_are_cut_off() {
    let parent = tempfile::tempdir().unwrap();
    let original = parent.path().join("log");
    written(&original, 4).await;
    let bytes = fs::read(original.join(SEGMENT)).unwrap();
    // A block of the same file, in the wrong place, is no record either.
    for garbage in [vec![0; 100], vec![0xFF; 100], bytes[HEADER..].to_vec()] {
        let dir = log_with(parent.path(), &original, &[bytes.clone(), garbage.clone()].concat());
        let log = EmbeddedLog::open(&dir, options(), NOW_MS).await.unwrap();
        let report = &log.recovery()[0];
        assert_eq!(report.torn_bytes, u64::try_from(garbage.len()).unwrap());
        assert!(report.damage.is_empty());
        assert_eq!(payloads(&log).await, (0..4).map(payload).collect::<Vec<_>>());
    }
}
