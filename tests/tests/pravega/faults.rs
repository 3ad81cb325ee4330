//! What happens when the durable server dies, stops, or loses streams.

use std::time::Duration;

use tokio::time::Instant;
use weir_pravega::{PravegaLog, PravegaOptions};
use weir_streams::{Log, LogError, LogReader, LogWriter};
use weir_tests::{Unserved, resident_bytes, wait_until};

use super::facts::streams;
use super::{IMPATIENT, Servers, append_until_taken, open, options, read_until, reader, refusal, writer};

/// The streams go away under open handles: both sides say so, whatever they were doing, and a new log begins under the name.
pub fn deleted_under_open_handles(servers: &Servers) {
    servers.on_durable(async |server, scope| {
        let mut options = options(server, &scope);
        options.timeouts.gone = Duration::from_secs(3);
        options.timeouts.acknowledgement = IMPATIENT;
        let log = open(&options).await;
        let mut writing = writer(&log, 0).await;
        writing.append(b"record", 0).await.expect("an acknowledgement");
        let mut reading = reader(&log, 0, 0).await;
        read_until(&mut reading, b"record").await;
        for stream in streams(&options) {
            server.management().delete_stream(&scope, &stream);
        }
        let error = final_reader_error(&mut reading).await;
        assert!(matches!(error, LogError::Lost { .. }), "{error}");
        let error = final_writer_error(&mut writing).await;
        assert!(matches!(error, LogError::Lost { .. }), "{error}");

        let again = open(&options).await;
        assert_ne!(again.info().incarnation, log.info().incarnation);
        writer(&again, 0).await.append(b"anew", 0).await.expect("an acknowledgement");
        let error = log.tail(0).await.expect_err("the old one stays lost");
        assert!(matches!(error, LogError::Lost { .. }), "{error}");
    });
}

/// What a reader says once it does not only read and wait any more.
async fn reader_error(reading: &mut Box<dyn LogReader>, read: &mut Vec<Vec<u8>>) -> LogError {
    wait_until("an error", Duration::from_secs(60), async || {
        let records = reading.read(10, Duration::from_millis(500)).await;
        records.map(|records| read.extend(records.into_iter().map(|record| record.payload))).err()
    })
    .await
}

/// What a reader says that is not to be tried again.
pub async fn final_reader_error(reading: &mut Box<dyn LogReader>) -> LogError {
    wait_until("an end", Duration::from_secs(60), async || {
        let error = reading.read(10, Duration::from_millis(500)).await.err();
        error.filter(|error| !error.is_retryable())
    })
    .await
}

/// What a writer says that is not to be tried again.
pub async fn final_writer_error(writing: &mut Box<dyn LogWriter>) -> LogError {
    wait_until("an end", Duration::from_secs(60), async || {
        let error = writing.append(b"record", 0).await.expect_err("there is no such log any more");
        Some(error).filter(|error| !error.is_retryable())
    })
    .await
}

pub fn no_server_at_all(servers: &Servers) {
    servers.on_durable(async |server, scope| {
        let nobody = Unserved::take();
        let options = PravegaOptions { controller: format!("tcp://{}", nobody.address()), ..options(server, &scope) };
        let begun = Instant::now();
        let error = refusal(&options).await;
        assert!(matches!(error, LogError::Unreachable { .. }), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(60));
    });
}

/// Writes numbers, one by one, until told to end; whatever fails is tried again. What was acknowledged.
async fn write_numbers(mut writing: Box<dyn LogWriter>, end: tokio::sync::watch::Receiver<bool>) -> u32 {
    let mut number = 0;
    while !*end.borrow() {
        append_until_taken(&mut writing, format!("{number}").as_bytes()).await;
        number += 1;
    }
    append_until_taken(&mut writing, b"end").await;
    number
}

/// Every number is there, in order. One whose acknowledgement was lost may be there again, right behind itself.
fn check_numbers(mut payloads: Vec<Vec<u8>>, written: u32) {
    assert_eq!(payloads.pop().as_deref(), Some(&b"end"[..]));
    payloads.dedup();
    let text = |payload: Vec<u8>| String::from_utf8(payload).unwrap();
    let read: Vec<String> = payloads.into_iter().map(text).filter(|text| text != "end").collect();
    let expected: Vec<String> = (0..written).map(|number| number.to_string()).collect();
    assert_eq!(read, expected);
}

/// While the server hangs, no more is held than what may wait, however much is tried; then everything goes on.
pub fn stopped_for_20_seconds(servers: &Servers) {
    const MIB: u64 = 1024 * 1024;
    servers.on_durable(async |server, scope| {
        let mut options = PravegaOptions { max_waiting_bytes: 2 << 20, ..options(server, &scope) };
        options.timeouts.acknowledgement = IMPATIENT;
        let log = open(&options).await;
        let (end, ended) = tokio::sync::watch::channel(false);
        let (relief, relieved) = tokio::sync::watch::channel(false);
        let writing = tokio::spawn(write_numbers(writer(&log, 0).await, ended));
        let pressing: Vec<_> = (0..4).map(|_| tokio::spawn(press(log.clone(), relieved.clone()))).collect();
        let mut reading = reader(&log, 0, 0).await;
        let mut read = read_until(&mut reading, b"20").await;
        wait_until("some load", Duration::from_secs(60), async || (log.stats().bytes_appended > 8 * MIB).then_some(()))
            .await;
        servers.start_secured_meanwhile();
        let before = resident_bytes();
        server.pause();
        let (stopped, mut most) = (Instant::now(), 0);
        wait_until("20 seconds", Duration::from_secs(30), async || {
            most = most.max(resident_bytes());
            (stopped.elapsed() >= Duration::from_secs(20)).then_some(())
        })
        .await;
        relief.send(true).unwrap();
        server.resume();
        let grown = most.saturating_sub(before);
        println!("{} KiB more while the server hung", grown / 1024);
        assert!(grown < 32 * MIB, "{} MiB more than before", grown / MIB);
        let later = log.stats().records_appended;
        assert!(later >= 20);
        wait_until("an acknowledgement", Duration::from_secs(90), async || {
            read_more(&mut reading, &mut read).await;
            (log.stats().records_appended > later).then_some(())
        })
        .await;
        futures::future::join_all(pressing).await.into_iter().for_each(|pressed| pressed.unwrap());
        end.send(true).unwrap();
        read.extend(read_until(&mut reading, b"end").await);
        check_numbers(read, writing.await.unwrap());
        assert!(log.stats().acknowledgements_timed_out > 0, "{:?}", log.stats());
        assert_eq!(open(&options).await.info(), log.info(), "whoever comes later finds the same");
    });
}

/// Appends batches to partition 1, again and again, whatever becomes of them.
async fn press(log: PravegaLog, relieved: tokio::sync::watch::Receiver<bool>) {
    let payload = vec![7; 1_000];
    let batch = vec![payload.as_slice(); 500];
    let mut writing = writer(&log, 1).await;
    while !*relieved.borrow() {
        if let Err(error) = writing.append_batch(&batch, 0).await {
            assert!(error.is_retryable(), "{error}");
        }
    }
}

async fn read_more(reading: &mut Box<dyn LogReader>, into: &mut Vec<Vec<u8>>) {
    match reading.read(100, Duration::from_millis(500)).await {
        Ok(records) => into.extend(records.into_iter().map(|record| record.payload)),
        Err(error) => assert!(error.is_retryable(), "{error}"),
    }
}

pub fn killed_while_writing(servers: &Servers) {
    servers.on_durable(async |server, scope| {
        let mut options = options(server, &scope);
        options.timeouts.acknowledgement = IMPATIENT;
        let log = open(&options).await;
        let (end, ended) = tokio::sync::watch::channel(false);
        let writing = tokio::spawn(write_numbers(writer(&log, 0).await, ended));
        let mut reading = reader(&log, 0, 0).await;
        let mut read = read_until(&mut reading, b"50").await;
        server.kill();
        let error = reader_error(&mut reading, &mut read).await;
        assert!(error.is_retryable(), "{error}");
        // A server that is back before that is outlived by the client itself.
        wait_until("the writer to give up", Duration::from_secs(60), async || {
            let stats = log.stats();
            let gave_up = stats.acknowledgements_timed_out + stats.panics_contained > 0;
            (gave_up && stats.appends_failed > 0).then_some(())
        })
        .await;
        server.restart();
        let acknowledged = log.stats().records_appended;
        wait_until("more acknowledgements", Duration::from_secs(60), async || {
            read_more(&mut reading, &mut read).await;
            (log.stats().records_appended > acknowledged + 20).then_some(())
        })
        .await;
        end.send(true).unwrap();
        read.extend(read_until(&mut reading, b"end").await);
        check_numbers(read, writing.await.unwrap());
        let stats = log.stats();
        assert!(stats.writers_recreated > 0, "{stats:?}");
        // Everything is still there for whoever comes later.
        let again = open(&options).await;
        assert_eq!(again.info(), log.info());
        let mut from_the_start = reader(&again, 0, 0).await;
        read_until(&mut from_the_start, b"end").await;
    });
}
