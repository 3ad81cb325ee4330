//! `weir streams` of the real binary: over logs that were written here, and beside a process that goes on writing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

#[path = "support/binary.rs"]
mod binary;
mod support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use support::World;
use weir_engine::{STATE_FORMAT, Shard};
use weir_schemas::records::record::Body;
use weir_schemas::records::{Record, Silence};
use weir_schemas::wire;
use weir_simulator::scenario::scenario;
use weir_store::{Commit, PositionRow, Store};
use weir_streams::{
    EmbeddedLog, EmbeddedLogView, EmbeddedOptions, Incarnation, Log, LogError, LogWriter, Position, StoredPosition,
};

const NOW_MS: i64 = 1_769_847_330_000;
/// What takes longer than this does not end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the binary came to.
struct Ran {
    code: Option<i32>,
    out: String,
    errors: String,
}

impl Ran {
    fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }
}

async fn streams(data: &Path, words: &[&str]) -> Ran {
    let output = binary::weir().arg("--data").arg(data).arg("streams").args(words).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), errors: text(output.stderr) }
}

/// The same for what has to succeed.
async fn shown(data: &Path, words: &[&str]) -> Ran {
    let ran = streams(data, words).await;
    assert_eq!(ran.code, Some(0), "{words:?}: {} {}", ran.out, ran.errors);
    ran
}

fn silence(sequence: u64) -> Vec<u8> {
    let silence = Silence { round: sequence, reason: "timeout".into(), detail: "no answer".into(), period_ms: 1_000 };
    let (producer, job) = ("ingest/prod".into(), "prod/default/orders".into());
    let body = Some(Body::Silence(silence));
    wire::encode(&Record { producer, sequence, time_ms: NOW_MS, job, body }).unwrap()
}

async fn writer(log: &EmbeddedLog) -> Box<dyn LogWriter> {
    log.writer(0, "test").await.unwrap()
}

/// Four records on `metrics/0`, two events of which the actuator has read one.
async fn written() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { partitions: 2, ..EmbeddedOptions::default() };
    let store = Store::open(&folder.path().join(Store::FILE)).await.unwrap();
    let metrics = EmbeddedLog::open(folder.path().join("metrics"), options.clone(), NOW_MS).await.unwrap();
    let mut to = writer(&metrics).await;
    for sequence in 1_024..1_028 {
        to.append(&silence(sequence), NOW_MS).await.unwrap();
    }
    let events = EmbeddedLog::open(folder.path().join("events"), options, NOW_MS).await.unwrap();
    let mut to = writer(&events).await;
    to.append(br#"{"id":"1"}"#, NOW_MS).await.unwrap();
    let position = events.tail(0).await.unwrap().to_raw();
    to.append(br#"{"id":"2"}"#, NOW_MS).await.unwrap();
    let read = PositionRow {
        consumer: "actuator/prod".into(),
        log: "events".into(),
        partition: 0,
        incarnation: events.info().incarnation.to_string(),
        position,
    };
    store.save_positions(&[read], None).await.unwrap();
    store.acquire_lease("actuator/prod", "node-1-17", 600_000).await.unwrap().unwrap();
    store.close().await;
    folder
}

/// The log in a folder. A process that another test is just starting holds its lock as well, for a moment.
async fn reopened(folder: &Path) -> EmbeddedLog {
    let options = EmbeddedOptions { partitions: 2, ..EmbeddedOptions::default() };
    let open = async {
        loop {
            match EmbeddedLog::open(folder, options.clone(), NOW_MS).await {
                Ok(log) => return log,
                Err(LogError::Locked { .. }) => tokio::task::yield_now().await,
                Err(why) => panic!("{why}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, open).await.unwrap()
}

#[tokio::test]
async fn partitions_are_listed_with_whoever_reads_them() {
    let folder = written().await;
    let listed = shown(folder.path(), &["--output", "json"]).await.out;
    let mut listed: Value = serde_json::from_str(&listed).unwrap();
    for partition in listed.as_array_mut().unwrap() {
        assert_eq!(partition["incarnation"].take().as_str().unwrap().len(), 32);
        for consumer in partition["consumers"].as_array_mut().unwrap() {
            assert!(consumer["lag_seconds"].take().as_i64().unwrap() > 0);
        }
    }
    insta::assert_snapshot!("list_json", serde_json::to_string_pretty(&listed).unwrap());
    let table = shown(folder.path(), &["list"]).await.out;
    // How long ago it was, the last column, depends on when the test runs.
    let width = table.lines().next().unwrap().find("LAG").unwrap() + "LAG".len();
    let table: Vec<&str> = table.lines().map(|line| line.get(..width).unwrap_or(line)).collect();
    insta::assert_snapshot!("list_table", table.join("\n"));
}

#[tokio::test]
async fn records_are_shown_from_where_it_is_asked() {
    let folder = written().await;
    let first = shown(folder.path(), &["tail", "metrics/0", "-n", "3"]).await.lines();
    let numbers = |lines: &[Value]| lines.iter().map(|line| line["record"]["sequence"].clone()).collect::<Vec<_>>();
    assert_eq!(numbers(&first), [json!(1_024), json!(1_025), json!(1_026)]);
    assert_eq!(first[0]["record"]["silence"]["reason"], "timeout");
    let position = first[1]["position"].to_string();
    let rest = shown(folder.path(), &["tail", "metrics/0", "--from", &position]).await.lines();
    assert_eq!(numbers(&rest), [json!(1_026), json!(1_027)]);
    let none = shown(folder.path(), &["tail", "metrics/0", "--from", "tail"]).await;
    assert_eq!(none.out, "");
    let events = shown(folder.path(), &["tail", "events/0"]).await.lines();
    assert_eq!((&events[0]["event"]["id"], &events[1]["event"]["id"], events.len()), (&json!("1"), &json!("2"), 2));
    let beyond = shown(folder.path(), &["tail", "metrics/0", "--from", "999999"]).await.lines();
    assert!(beyond[0]["gap"].as_str().unwrap().contains("WR0213"), "{beyond:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_is_where_it_was_at_the_start_however_much_comes_meanwhile() {
    let folder = written().await;
    let log = reopened(&folder.path().join("metrics")).await;
    let mut to = writer(&log).await;
    let endless = tokio::spawn(async move {
        for sequence in 1_028.. {
            to.append(&silence(sequence), NOW_MS).await.unwrap();
        }
    });
    let tail = shown(folder.path(), &["tail", "metrics/0"]);
    let lines = tokio::time::timeout(PATIENCE, tail).await.expect("it ends by itself").lines();
    assert!(!endless.is_finished());
    endless.abort();
    let sequences = lines.iter().map(|line| line["record"]["sequence"].as_u64().unwrap());
    assert!(sequences.eq((1_024..).take(lines.len())) && lines.len() >= 4, "{}", lines.len());
}

#[tokio::test]
async fn what_is_not_there_is_refused() {
    let folder = written().await;
    for (words, code, part) in [
        (["tail", "nothing/0"], 64, "WR0651"),
        (["tail", "metrics"], 64, "metrics/0"),
        (["tail", "metrics/7"], 66, "WR0210"),
    ] {
        let ran = streams(folder.path(), &words).await;
        assert_eq!(ran.code, Some(code), "{words:?}: {}", ran.errors);
        assert!(ran.errors.contains(part), "{words:?}: {}", ran.errors);
    }
    let empty = tempfile::tempdir().unwrap();
    for words in [&["list"][..], &["verify"], &["tail", "metrics/0"]] {
        let ran = streams(&empty.path().join("none"), words).await;
        assert_eq!(ran.code, Some(66), "{}", ran.errors);
        assert!(ran.errors.contains("WR0402"), "{}", ran.errors);
    }
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0, "nothing was made");
    std::fs::remove_dir_all(folder.path().join("events")).unwrap();
    let ran = streams(folder.path(), &["list"]).await;
    assert_eq!(ran.code, Some(66), "{}", ran.errors);
    assert!(ran.errors.contains("WR0204"), "{}", ran.errors);
}

/// State of an analyzer that took in what lies on `metrics/0`, and one record of each of `more`; where it stands is changed by
/// `moved`.
async fn taken_in(data: &Path, more: &[&str], moved: impl FnOnce(&mut StoredPosition)) {
    let log = EmbeddedLogView::open(data.join("metrics"), Duration::from_millis(1)).await.unwrap();
    let mut stored = log.info().stored(0, log.tail(0).await.unwrap());
    moved(&mut stored);
    let mut shard = Shard::default();
    let here = (1_024..1_028).map(|sequence| wire::decode(&silence(sequence)).unwrap());
    let gone = more.iter().map(|name| Record { producer: (*name).into(), ..wire::decode(&silence(7)).unwrap() });
    for record in here.chain(gone) {
        shard.fold(record);
    }
    let positions = serde_json::to_string(&stored).unwrap();
    let store = Store::open(&data.join(Store::FILE)).await.unwrap();
    store.claim_shard("metrics-00", 1, NOW_MS).await.unwrap();
    let commit = Commit {
        shard: "metrics-00".into(),
        epoch: 1,
        format: STATE_FORMAT,
        state: shard.to_bytes().unwrap(),
        positions: positions.clone(),
        decided_through: positions,
        decisions: Vec::new(),
        outbox: Vec::new(),
        now_ms: NOW_MS,
    };
    store.commit(&commit).await.unwrap();
    store.close().await;
}

/// The problems that `verify` tells, whose exit code has to fit them.
async fn problems(data: &Path) -> Vec<String> {
    let ran = streams(data, &["verify"]).await;
    let problems: Vec<String> =
        ran.out.lines().filter_map(|line| line.strip_prefix("problem: ").map(Into::into)).collect();
    assert_eq!(ran.code, Some(i32::from(!problems.is_empty())), "{} {}", ran.out, ran.errors);
    problems
}

#[tokio::test]
async fn whoever_stands_past_the_end_is_told_of() {
    let folder = written().await;
    taken_in(folder.path(), &[], |_| {}).await;
    assert!(problems(folder.path()).await.is_empty());
    taken_in(folder.path(), &[], |stored| stored.position = Position::from_raw(999_999)).await;
    let store = Store::open(&folder.path().join(Store::FILE)).await.unwrap();
    let mut read = store.all_positions().await.unwrap().remove(0);
    read.position = 888_888;
    store.save_positions(&[read], None).await.unwrap();
    store.close().await;
    let table = shown(folder.path(), &["list"]).await.out;
    assert_eq!(table.matches("past the end of the log").count(), 2, "{table}");
    let listed: Value = serde_json::from_str(&shown(folder.path(), &["--output", "json"]).await.out).unwrap();
    let analyzer = &listed[0]["consumers"][0];
    assert_eq!((&analyzer["beyond_tail"], &analyzer["position"]), (&json!(true), &json!(999_999)));
    assert_eq!((&analyzer["lag_bytes"], &analyzer["lag_seconds"]), (&Value::Null, &Value::Null));
    let told = problems(folder.path()).await;
    assert_eq!(
        told,
        [
            "metrics/0: the analyzer has read up to 999999, past the end of the log (392): the log lost its end",
            "events/0: actuator/prod has read up to 888888, past the end of the log (52): the log lost its end",
        ]
    );
}

#[tokio::test]
async fn a_state_of_a_log_that_is_gone_is_told_of() {
    let folder = written().await;
    taken_in(folder.path(), &[], |stored| stored.incarnation = Incarnation::from_raw(7)).await;
    let table = shown(folder.path(), &["list"]).await.out;
    assert!(table.contains("analyzer (nobody has its lease, at a log that is gone)"), "{table}");
    let told = problems(folder.path()).await;
    assert!(told.len() == 1 && told[0].contains("of the 4 records here none was taken in"), "{told:?}");
}

#[tokio::test]
async fn a_producer_of_whom_nothing_is_left_is_told_of() {
    let folder = written().await;
    taken_in(folder.path(), &["ingest/gone"], |_| {}).await;
    let told = problems(folder.path()).await;
    assert_eq!(told, ["metrics/0, ingest/gone: 1 records were taken in, 0 are stored; each should have been, once"]);
}

/// The segment of the log `metrics` that holds most.
fn largest_segment(data: &Path) -> PathBuf {
    let below = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect::<Vec<_>>();
    let folders = below(&data.join("metrics")).into_iter().filter(|it| it.is_dir());
    let segments = folders.flat_map(|it| below(&it)).filter(|it| it.extension().is_some_and(|it| it == "seg"));
    segments.max_by_key(|it| std::fs::metadata(it).unwrap().len()).unwrap()
}

#[tokio::test]
async fn all_is_well_while_weir_runs_and_a_byte_that_changed_is_found() {
    let mut world = World::new(scenario("wordcount").unwrap().spec);
    world.start().await;
    world.run_to(40).await;
    let data = world.config.data.clone();
    // The process is alive, and holds the locks.
    assert!(EmbeddedLog::open(data.join("metrics"), EmbeddedOptions::default(), NOW_MS).await.is_err());
    let listed = shown(&data, &["list", "--output", "json"]).await.out;
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    assert!(listed.iter().any(|it| it["consumers"][0]["name"] == "analyzer"), "{listed:#?}");
    let report = shown(&data, &["verify", "--output", "json"]).await.out;
    let report: Value = serde_json::from_str(&report).unwrap();
    let taken = report["producers"].as_array().unwrap().iter().map(|it| it["applied"]["records"].as_u64().unwrap());
    assert!(taken.sum::<u64>() > 10 && report["problems"] == json!([]), "{report:#}");
    world.stop().await;
    let told = shown(&data, &["verify"]).await.out;
    assert!(told.contains("all is well"), "{told}");

    let segment = largest_segment(&data);
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let ran = streams(&data, &["verify"]).await;
    assert_eq!(ran.code, Some(1), "{} {}", ran.out, ran.errors);
    let name = segment.file_name().unwrap().to_str().unwrap();
    let problem = ran.out.lines().find(|line| line.starts_with("problem: ") && line.contains("WR0214"));
    assert!(problem.is_some_and(|line| line.contains(name)), "{}", ran.out);
}
