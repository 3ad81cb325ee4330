//! Faults of a segment store, one by one.

use std::sync::Arc;
use std::time::Duration;

use weir_streams::{Incarnation, Log, LogError, LogInfo, PARTITION_HASH, Position, Record};

use crate::birth::{Birth, Streams};
use crate::fake::FakeStore;
use crate::link::{Client, Link, Settings};
use crate::options::{PravegaOptions, Timeouts};
use crate::shared::{Shared, lock};
use crate::{PravegaLog, contain_client_panics};

const META: &str = "weir/log-meta/0.#epoch.0";
const DATA: &str = "weir/log-00/0.#epoch.0";

/// Longer than anything takes that is expected to happen, on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long an acknowledgement may take that is held back.
const HELD_BACK: Duration = Duration::from_secs(10);

/// A log on a fake store.
pub(crate) async fn rehearsal() -> (Arc<FakeStore>, PravegaLog) {
    rehearsal_with(PATIENCE).await
}

/// The same where an acknowledgement may take this long.
async fn rehearsal_with(acknowledgement: Duration) -> (Arc<FakeStore>, PravegaLog) {
    contain_client_panics();
    let store = FakeStore::start().await;
    let timeouts = Timeouts {
        call: PATIENCE,
        acknowledgement,
        quiet: Duration::from_millis(300),
        gone: Duration::from_secs(1),
        first_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(200),
    };
    let controller = format!("tcp://127.0.0.1:{}", store.port);
    let options = PravegaOptions { controller, partitions: 1, timeouts, ..PravegaOptions::default() };
    let birth = born(7);
    store.put(META, &event(&birth.event()));
    let streams = Streams::new(&options);
    let mut settings = Settings::new(&options, &options.check().unwrap()).unwrap();
    settings.rehearsed = vec![streams.meta(), streams.partition(0)];
    let link = Arc::new(Link::new(&options));
    let client = Client::start(&link, &settings).await.unwrap();
    (store, PravegaLog { shared: Arc::new(Shared::new(link, settings, client, &birth, &options)) })
}

fn born(incarnation: u128) -> Birth {
    let incarnation = Incarnation::from_raw(incarnation);
    Birth::rehearsed(LogInfo { name: "weir/log".into(), incarnation, partitions: 1, hash: PARTITION_HASH.into() })
}

fn event(body: &[u8]) -> Vec<u8> {
    [&[0; 4], &i32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat()
}

async fn read_all(log: &PravegaLog) -> Vec<String> {
    let tail = log.tail(0).await.unwrap();
    let mut reader = log.reader(0, Position::from_raw(0)).await.unwrap();
    let mut texts = Vec::new();
    while reader.position() < tail {
        let records = reader.read(10, PATIENCE).await.unwrap();
        assert!(!records.is_empty(), "nothing came at {} of {tail}", reader.position());
        texts.extend(records.into_iter().map(|Record { payload, .. }| String::from_utf8(payload).unwrap()));
    }
    texts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_that_never_comes_is_an_error_and_the_writer_is_made_anew() {
    let (store, log) = rehearsal_with(HELD_BACK).await;
    let mut writer = log.writer(0, "test").await.unwrap();
    writer.append(b"a", 0).await.unwrap();
    lock(&store.faults).hang = 1;
    let error = writer.append(b"b", 0).await.unwrap_err();
    assert!(matches!(error, LogError::TimedOut { waited_ms: 10_000, .. }), "{error}");
    writer.append(b"b", 0).await.unwrap();
    writer.append(b"c", 0).await.unwrap();
    assert_eq!(read_all(&log).await, ["a", "b", "b", "c"], "the one without acknowledgement was stored as well");
    let stats = log.stats();
    assert_eq!((stats.writers_recreated, stats.acknowledgements_timed_out), (1, 1));
    assert_eq!((stats.records_appended, stats.appends_failed), (3, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_batch_stores_no_later_part_without_an_earlier_one() {
    let (store, log) = rehearsal_with(HELD_BACK).await;
    let mut writer = log.writer(0, "test").await.unwrap();
    writer.append(b"first", 0).await.unwrap();
    lock(&store.faults).hang = 1;
    let large = "x".repeat(200_000);
    let batch: Vec<String> = (0..12).map(|number| format!("{number} {large}")).collect();
    let borrowed: Vec<&[u8]> = batch.iter().map(String::as_bytes).collect();
    writer.append_batch(&borrowed, 0).await.unwrap_err();
    assert_eq!(log.stats().appends_failed, 1, "in however many parts");
    writer.append(b"last", 0).await.unwrap();
    let texts = read_all(&log).await;
    let numbers: Vec<String> = texts.iter().map(|text| text.split(' ').next().unwrap().to_owned()).collect();
    let stored = numbers.len() - 2;
    assert!(stored < 12, "the store hung with the first part");
    let expected: Vec<String> = (0..stored).map(|number| number.to_string()).collect();
    assert_eq!(numbers[1..=stored], expected, "a hole in the batch");
    assert_eq!(numbers.last().map(String::as_str), Some("last"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_between_storing_and_acknowledging_stores_nothing_twice() {
    let (store, log) = rehearsal().await;
    let mut writer = log.writer(0, "test").await.unwrap();
    for number in 0..20 {
        if number % 5 == 3 {
            lock(&store.faults).cut = 1;
        }
        writer.append(number.to_string().as_bytes(), 0).await.unwrap();
    }
    let expected: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    assert_eq!(read_all(&log).await, expected);
    assert_eq!(log.stats().writers_recreated, 0, "the client knows how to go on by itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_that_moves_is_followed() {
    let (store, log) = rehearsal().await;
    let mut writer = log.writer(0, "test").await.unwrap();
    let mut reader = log.reader(0, Position::from_raw(0)).await.unwrap();
    let mut seen = Vec::new();
    for number in 0..6 {
        lock(&store.faults).moved = 1;
        writer.append(number.to_string().as_bytes(), 0).await.unwrap();
        while seen.len() <= number {
            let records = reader.read(10, PATIENCE).await.unwrap();
            assert!(!records.is_empty(), "{number} did not come");
            seen.extend(records);
        }
    }
    let texts: Vec<_> = seen.into_iter().map(|record| String::from_utf8(record.payload).unwrap()).collect();
    assert_eq!(texts, ["0", "1", "2", "3", "4", "5"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncation_under_a_waiting_reader_is_told() {
    let (store, log) = rehearsal().await;
    let mut writer = log.writer(0, "test").await.unwrap();
    writer.append(b"a", 0).await.unwrap();
    let cut = log.tail(0).await.unwrap();
    writer.append(b"b", 0).await.unwrap();
    store.truncate(DATA, usize::try_from(cut.to_raw()).unwrap());
    let mut reader = log.reader(0, Position::from_raw(0)).await.unwrap();
    for _ in 0..2 {
        let error = reader.read(1, PATIENCE).await.unwrap_err();
        assert!(matches!(error, LogError::Truncated { head, .. } if head == cut), "{error}");
    }
    reader.seek(cut);
    assert_eq!(reader.read(1, PATIENCE).await.unwrap()[0].payload, b"b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_log_of_the_same_name_is_noticed_by_writer_and_reader() {
    let (store, log) = rehearsal().await;
    let mut writer = log.writer(0, "test").await.unwrap();
    writer.append(b"a", 0).await.unwrap();
    // Everything went, and somebody made the log anew, which has grown past where we were.
    let other = born(8);
    store.empty(META);
    store.empty(DATA);
    store.put(META, &event(&other.event()));
    let seal = crate::frame::Seal::of(other.info.incarnation);
    for _ in 0..5 {
        store.put(DATA, &event(&crate::frame::envelope(seal, 0, b"a")));
    }
    let mut reader = log.reader(0, Position::from_raw(0)).await.unwrap();
    let error = reader.read(1, PATIENCE).await.unwrap_err();
    assert!(matches!(error, LogError::Lost { .. }), "{error}");
    let error = writer.append(b"b", 0).await.unwrap_err();
    assert!(matches!(error, LogError::Lost { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failure_another_log_of_the_same_name_acknowledges_nothing() {
    let (store, log) = rehearsal_with(HELD_BACK).await;
    let mut writer = log.writer(0, "test").await.unwrap();
    writer.append(b"a", 0).await.unwrap();
    lock(&store.faults).hang = 1;
    let error = writer.append(b"b", 0).await.unwrap_err();
    assert!(matches!(error, LogError::TimedOut { .. }), "{error}");
    // The log was looked at when the writer failed, and was still there. Right after that it is made anew.
    store.empty(META);
    store.empty(DATA);
    store.put(META, &event(&born(8).event()));
    let error = writer.append(b"b", 0).await.unwrap_err();
    assert!(matches!(error, LogError::Lost { .. }), "{error}");
    let refused = writer.append(b"b", 0).await.unwrap_err();
    assert!(matches!(refused, LogError::Lost { .. }), "{refused}");
    let stats = log.stats();
    assert_eq!((stats.records_appended, stats.appends_failed, stats.appends_refused), (1, 2, 1));
    assert_eq!(log.tail(0).await.map(Position::to_raw).unwrap_or(0), 0, "nothing is written into a log of others");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_length_that_is_wrong_is_not_waited_for() {
    let (store, log) = rehearsal().await;
    store.put(DATA, &[0, 0, 0, 0, 0, 1, 0, 0, b'W', b'R', 1, 0, 1, 2, 3, 4]);
    let mut writer = log.writer(0, "test").await.unwrap();
    writer.append(b"after", 0).await.unwrap();
    let mut reader = log.reader(0, Position::from_raw(0)).await.unwrap();
    let error = reader.read(1, PATIENCE).await.unwrap_err();
    let LogError::Corrupt { lost_bytes: 16, resume, .. } = error else { panic!("unexpected: {error}") };
    reader.seek(resume);
    assert_eq!(reader.read(1, PATIENCE).await.unwrap()[0].payload, b"after");
}
