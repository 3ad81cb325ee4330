//! Whose topic it is, and which life of the log it holds.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;
use weir_kafka::{KafkaLog, KafkaOptions};
use weir_streams::{Log, LogError, LogReader, Position};
use weir_tests::wait_until;

use super::{NOW_MS, PATIENCE, Rig, append, open, payloads, read_all, reader_at_head};

/// Several times, and with appends by those that are first, so that the others meet every state in between.
pub async fn processes_that_open_at_once_agree(rig: &mut Rig<'_>) {
    for _ in 0..5 {
        let options = rig.options();
        let open_and_append = async || {
            let log = open(&options).await;
            for partition in [1, 0] {
                append(&log, partition, &[b"one", b"two"]).await;
            }
            log
        };
        let logs = join_all((0..6).map(|_| open_and_append())).await;
        for log in &logs {
            assert_eq!(log.info(), logs[0].info());
        }
        for partition in [0, 1] {
            let seen = read_all(&logs[0], partition).await.len();
            assert_eq!(seen, 2 * logs.len(), "births that lost the race are nothing to be read");
        }
        let again = open(&options).await;
        assert_eq!(again.info(), logs[0].info());
    }
}

/// The topic is deleted and made by hand. What was acknowledged is gone, so that nothing may go on as if nothing had been.
pub async fn remade_topic_is_noticed_while_open(rig: &mut Rig<'_>) {
    let (options, admin) = (rig.options(), rig.admin());
    let log = open(&options).await;
    append(&log, 0, &[b"1", b"2", b"3"]).await;
    append(&log, 1, &[b"1", b"2", b"3"]).await;
    let stored = log.info().stored(0, log.tail(0).await.unwrap());
    let mut reader = reader_at_head(&log, 0).await;
    assert_eq!(reader.read(10, PATIENCE).await.unwrap().len(), 3);

    admin.delete(&options.topic).await;
    admin.make(&options.topic, 2).await;
    let mut writer = log.writer(0, "test").await.unwrap();
    let lost = wait_until("the writer to notice", PATIENCE, async || {
        writer.append(b"4", NOW_MS).await.err().filter(|it| !it.is_retryable())
    });
    let lost = lost.await;
    assert!(matches!(lost, LogError::Lost { .. }), "{lost}");
    let lost = reader.read(10, PATIENCE).await.unwrap_err();
    assert!(matches!(lost, LogError::Lost { .. }), "{lost}");
    assert!(matches!(log.tail(0).await, Err(LogError::Lost { .. })));

    // Some records of the old writer may have got into the new topic; that does not keep the log from beginning anew.
    let next = open(&options).await;
    assert_ne!(next.info().incarnation, log.info().incarnation);
    append(&next, 0, &[b"a", b"b", b"c", b"d", b"e"]).await;
    let refused = next.info().resume(&stored).unwrap_err();
    assert!(matches!(refused, LogError::OtherIncarnation { .. }), "{refused}");
    assert!(payloads(&next, 0).await.ends_with(&["a", "b", "c", "d", "e"].map(str::to_owned)));
    assert_eq!(open(&options).await.info(), next.info());
}

/// Another process makes the log anew, and it grows past the reader, to whom nothing came for a while.
pub async fn remade_log_is_noticed_by_an_idle_reader(rig: &mut Rig<'_>) {
    let (log, mut reader) = read_to_the_end(rig).await;
    let (quiet, admin, topic) = (Instant::now(), rig.admin(), log.info().name.clone());
    admin.delete(&topic).await;
    admin.delete(&format!("{topic}-meta")).await;
    let next = open(&KafkaOptions { topic, ..rig.options() }).await;
    for batch in 0..20 {
        append(&next, 0, &[format!("new {batch}").as_bytes()]).await;
    }
    wait_until("11 s", PATIENCE, async || (quiet.elapsed() >= Duration::from_secs(11)).then_some(())).await;
    let lost =
        wait_until("the reader to notice", PATIENCE, async || match reader.read(10, Duration::from_secs(1)).await {
            Ok(records) => {
                assert_eq!(records, [], "records of another log");
                None
            }
            Err(error) => Some(error).filter(|it| !it.is_retryable()),
        });
    let lost = lost.await;
    assert!(matches!(lost, LogError::Lost { .. }), "{lost}");
}

/// It is another log, and no client has noticed anything: readers look by themselves, from time to time and before they go on with
/// the first record after a while.
pub async fn other_log_is_noticed_by_readers_that_were_told_nothing(rig: &mut Rig<'_>) {
    let admin = rig.admin();
    let (waiting_on, mut waiting) = read_to_the_end(rig).await;
    let (busy_on, mut busy) = read_to_the_end(rig).await;
    let waiting = tokio::spawn(async move { waiting.read(10, PATIENCE * 3).await });
    let quiet = Instant::now();
    for log in [&waiting_on, &busy_on] {
        let end = log.tail(0).await.unwrap();
        log.truncate_before(0, end).await.unwrap();
        let other =
            r#"{"weir_log":1,"incarnation":"00000000000000000000000000000abc","partitions":2,"hash":"xxh3-64-v1"}"#;
        admin.put(&format!("{}-meta", log.info().name), "abc", other).await;
    }
    let lost = wait_until("the busy reader to notice", PATIENCE, async || {
        admin.put(&busy_on.info().name, "key", "record of another log").await;
        busy.read(10, PATIENCE).await.err().filter(|error| !error.is_retryable())
    });
    let lost = lost.await;
    assert!(matches!(lost, LogError::Lost { .. }), "{lost}");
    wait_until("11 s", PATIENCE, async || (quiet.elapsed() >= Duration::from_secs(11)).then_some(())).await;
    admin.put(&waiting_on.info().name, "key", "record of another log").await;
    let lost = waiting.await.unwrap().unwrap_err();
    assert!(matches!(lost, LogError::Lost { .. }), "{lost}");
}

async fn read_to_the_end(rig: &Rig<'_>) -> (KafkaLog, Box<dyn LogReader>) {
    let log = open(&rig.options()).await;
    append(&log, 0, &[b"1", b"2", b"3"]).await;
    let mut reader = reader_at_head(&log, 0).await;
    assert_eq!(reader.read(10, PATIENCE).await.unwrap().len(), 3);
    (log, reader)
}

pub async fn deleted_topic_is_noticed_while_open(rig: &mut Rig<'_>) {
    let options = KafkaOptions { request_timeout_ms: 3_000, delivery_timeout_ms: 6_000, ..rig.options() };
    let log = open(&options).await;
    append(&log, 0, &[b"1"]).await;
    rig.admin().delete(&options.topic).await;
    let mut writer = log.writer(0, "test").await.unwrap();
    let lost = wait_until("the writer to notice", PATIENCE, async || match writer.append(b"2", NOW_MS).await {
        Ok(()) => panic!("acknowledged by nobody"),
        Err(error) => (!error.is_retryable()).then_some(error),
    });
    let lost = lost.await;
    assert!(matches!(lost, LogError::Lost { .. }), "{lost}");
    assert!(!rig.admin().topics().contains(&options.topic), "nobody makes a topic by the way");
}

pub async fn life_is_remembered_when_its_birth_is_gone(rig: &mut Rig<'_>) {
    let (options, admin) = (rig.options(), rig.admin());
    let log = open(&options).await;
    append(&log, 0, &[b"1", b"2", b"3"]).await;
    let end = log.tail(0).await.unwrap();
    assert_eq!(log.truncate_before(0, end).await.unwrap(), end);
    let again = open(&options).await;
    assert_eq!(again.info(), log.info());
    assert_eq!((again.head(0).await.unwrap(), again.tail(0).await.unwrap()), (end, end));
    append(&again, 0, &[b"4"]).await;
    assert_eq!(payloads(&again, 0).await, ["4"]);
    let gap = again.reader(0, Position::from_raw(1)).await.unwrap().read(1, PATIENCE).await.unwrap_err();
    let LogError::Truncated { head, lost, .. } = gap else { panic!("unexpected: {gap}") };
    assert_eq!((head, lost.records), (end, Some(3)));

    // Without its memory, the log cannot be told from another one: it begins anew, with what is there.
    admin.delete(&format!("{}-meta", options.topic)).await;
    let next = open(&options).await;
    assert_ne!(next.info().incarnation, log.info().incarnation);
    assert_eq!(payloads(&next, 0).await, ["4"]);
}

pub async fn foreign_topics_are_left_alone(rig: &mut Rig<'_>) {
    let (options, admin) = (rig.options(), rig.admin());
    admin.make(&options.topic, 2).await;
    admin.put(&options.topic, "order-17", "{\"order\":17}").await;
    let (bounds, before) = (admin.bounds(&options.topic), admin.setting(&options.topic, "retention.bytes").await);
    let refused = KafkaLog::open(options.clone(), NOW_MS).await.err().unwrap();
    assert!(matches!(&refused, LogError::Occupied { name, .. } if *name == options.topic), "{refused}");
    assert_eq!(admin.bounds(&options.topic), bounds);
    assert_eq!(admin.setting(&options.topic, "retention.bytes").await, before);
    assert!(!admin.topics().contains(&format!("{}-meta", options.topic)));

    let options = rig.options();
    let meta = format!("{}-meta", options.topic);
    admin.make(&meta, 1).await;
    admin.put(&meta, "a", "b").await;
    let refused = KafkaLog::open(options, NOW_MS).await.err().unwrap();
    assert!(matches!(&refused, LogError::Occupied { name, .. } if *name == meta), "{refused}");

    // A topic that an administrator made for us and nobody used is taken.
    let options = rig.options();
    admin.make(&options.topic, 2).await;
    append(&open(&options).await, 1, &[b"1"]).await;
}

pub async fn other_partition_counts_are_refused(rig: &mut Rig<'_>) {
    let options = rig.options();
    let log = open(&options).await;
    append(&log, 0, &[b"1"]).await;
    for partitions in [1, 3] {
        let refused = KafkaLog::open(KafkaOptions { partitions, ..options.clone() }, NOW_MS).await.err().unwrap();
        let LogError::PartitionCount { wanted, found, .. } = refused else { panic!("unexpected: {refused}") };
        assert_eq!((wanted, found), (partitions, 2));
    }
    let options = rig.options();
    rig.admin().make(&options.topic, 5).await;
    let refused = KafkaLog::open(options, NOW_MS).await.err().unwrap();
    assert!(matches!(refused, LogError::PartitionCount { wanted: 2, found: 5, .. }), "{refused}");
}

pub async fn settings_of_the_topic_follow_the_options(rig: &mut Rig<'_>) {
    let (options, admin) = (rig.options(), rig.admin());
    open(&options).await;
    assert_eq!(admin.setting(&options.topic, "retention.ms").await, Some(options.retain_ms.to_string()));
    let changed = KafkaOptions { retain_ms: 7_200_000, retain_bytes: 64 * 1024 * 1024, ..options };
    open(&changed).await;
    let of = async |name| admin.setting(&changed.topic, name).await.unwrap();
    assert_eq!(of("retention.ms").await, "7200000");
    assert_eq!(of("retention.bytes").await, (32 * 1024 * 1024).to_string());
    assert_eq!(of("message.timestamp.type").await, "LogAppendTime");
}
