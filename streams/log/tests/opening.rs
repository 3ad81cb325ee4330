//! What is refused when a log is opened, and that it is left alone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_streams::{EmbeddedLog, EmbeddedLogView, EmbeddedOptions, Log, LogError};

const NOW_MS: i64 = 1_000;

fn options() -> EmbeddedOptions {
    EmbeddedOptions { partitions: 2, ..EmbeddedOptions::default() }
}

/// All files under a directory with their contents.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

/// Opens to write and to look, both in vain and without a trace, and gives the first error.
async fn refused(dir: &Path, options: EmbeddedOptions) -> LogError {
    let before = contents(dir);
    let error = EmbeddedLog::open(dir, options, NOW_MS).await.err().expect("a refusal");
    assert_eq!(contents(dir), before, "what is refused is not touched");
    error
}

async fn made(dir: &Path) {
    let log = EmbeddedLog::open(dir, options(), NOW_MS).await.unwrap();
    log.writer(1, "test").await.unwrap().append(b"record", NOW_MS).await.unwrap();
}

fn edit_description(dir: &Path, from: &str, to: &str) {
    let path = dir.join("log.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(&path, text.replace(from, to)).unwrap();
}

#[tokio::test]
async fn directories_of_others_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "do not touch").unwrap();
    let error = refused(dir.path(), options()).await;
    assert_eq!(error.code(), "WR0205");
    assert!(error.to_string().contains("thesis.tex"), "{error}");
    let view = EmbeddedLogView::open(dir.path(), Duration::from_millis(10)).await;
    assert!(matches!(view.err(), Some(LogError::NotFound { .. })));
}

#[tokio::test]
async fn descriptions_of_others_and_of_newer_versions_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    for (description, code) in [
        ("not JSON", "WR0205"),
        ("{}", "WR0205"),
        (r#"{"format": "other-log", "version": 1}"#, "WR0205"),
        (r#"{"format": "weir-log", "version": 1}"#, "WR0205"),
        (r#"{"format": "weir-log", "version": 2, "something": "new"}"#, "WR0206"),
    ] {
        let dir = parent.path().join("log");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("log.json"), description).unwrap();
        let error = refused(&dir, options()).await;
        assert_eq!(error.code(), code, "{description}: {error}");
        assert!(error.to_string().contains("log.json") && error.to_string().contains("left as it is"), "{error}");
        let looked = EmbeddedLogView::open(&dir, Duration::from_millis(10)).await.err().unwrap();
        assert_eq!(looked.code(), code);
    }
}

#[tokio::test]
async fn another_number_of_partitions_is_refused_naming_both() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("log");
    made(&dir).await;
    let error = refused(&dir, EmbeddedOptions { partitions: 7, ..options() }).await;
    let LogError::PartitionCount { wanted: 7, found: 2, .. } = error else { panic!("unexpected: {error}") };
    assert!(error.to_string().contains("has 2 partitions, 7 were asked for"), "{error}");
}

#[tokio::test]
async fn another_hash_is_refused_naming_both() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("log");
    made(&dir).await;
    edit_description(&dir, "xxh3-64-v1", "fnv-1a");
    let error = refused(&dir, options()).await;
    assert_eq!(error.code(), "WR0208");
    assert!(error.to_string().contains("fnv-1a") && error.to_string().contains("xxh3-64-v1"), "{error}");
}

#[tokio::test]
async fn segments_of_others_and_of_newer_versions_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, other) = (parent.path().join("log"), parent.path().join("other"));
    made(&dir).await;
    made(&other).await;
    let segment = "01/00000000000000000000.seg";
    let good = fs::read(dir.join(segment)).unwrap();
    let mut newer = good.clone();
    newer[8] = 9;
    let text = b"This is not a segment at all, but some text that somebody wrote.".to_vec();
    let of_other_log = fs::read(other.join(segment)).unwrap();
    for (bytes, code) in [(newer, "WR0206"), (text, "WR0205"), (of_other_log, "WR0205")] {
        fs::write(dir.join(segment), bytes).unwrap();
        let error = refused(&dir, options()).await;
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(segment), "{error}");
    }
    fs::write(dir.join(segment), good).unwrap();
    assert!(EmbeddedLog::open(&dir, options(), NOW_MS).await.is_ok());
}

#[tokio::test]
async fn a_second_writer_is_refused_until_the_first_is_gone() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("log");
    let first = EmbeddedLog::open(&dir, options(), NOW_MS).await.unwrap();
    let error = refused(&dir, options()).await;
    assert!(matches!(&error, LogError::Locked { lock } if *lock == dir.join("log.lock")), "{error}");
    assert!(error.to_string().contains("log.lock"), "{error}");

    let mut writer = first.writer(0, "test").await.unwrap();
    drop(first);
    assert!(matches!(refused(&dir, options()).await, LogError::Locked { .. }), "a writer keeps the log open");
    writer.append(b"still works", NOW_MS).await.unwrap();
    drop(writer);
    assert!(EmbeddedLog::open(&dir, options(), NOW_MS).await.is_ok());
}

#[tokio::test]
async fn an_unfinished_creation_is_finished() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("log");
    fs::create_dir_all(dir.join("00")).unwrap();
    fs::write(dir.join("log.lock"), "").unwrap();
    fs::write(dir.join("log.json.tmp"), "{\"form").unwrap();
    made(&dir).await;
    assert!(!dir.join("log.json.tmp").exists());
}

#[tokio::test]
async fn options_that_cannot_be_followed_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { max_record_bytes: 64 * 1024 * 1024, ..options() };
    let error = EmbeddedLog::open(parent.path().join("log"), options, NOW_MS).await.err().unwrap();
    assert_eq!(error.to_string(), "WR0217: log option max_record_bytes = 67108864 must lie between 1 and 2097152");
}
