//! What a log is, and what it does on a good day.

use std::sync::Arc;
use std::time::Duration;

use pravega_client::client_factory::ClientFactoryAsync;
use pravega_client_shared::ScopedStream;
use weir_log_contract::{Abilities, LogFactory, Setup, Site, check_all};
use weir_pravega::{PravegaLog, PravegaOptions, Retention, Timeouts};
use weir_streams::{BoxFuture, Log, LogError, LogStats, Position};
use weir_tests::{Management, PravegaServer};

use super::{Servers, now_ms, open, options, reader, refusal, writer};

struct Factory<'a> {
    server: &'a PravegaServer,
    scope: String,
    sites: std::sync::atomic::AtomicUsize,
}

struct Place {
    management: Management,
    options: PravegaOptions,
}

impl LogFactory for Factory<'_> {
    fn abilities(&self) -> Abilities {
        Abilities { reopens: true, remakes: true, retains: false, stalls: true }
    }

    fn site<'a>(&'a self, setup: &'a Setup) -> BoxFuture<'a, Box<dyn Site>> {
        let site = self.sites.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let options = options(self.server, &self.scope);
        let options = PravegaOptions {
            prefix: format!("log{site}"),
            partitions: setup.partitions,
            max_record_bytes: setup.max_record_bytes,
            timeouts: Timeouts { call: setup.timeout, acknowledgement: setup.timeout, ..options.timeouts },
            ..options
        };
        let management = self.server.management();
        Box::pin(async move { Box::new(Place { management, options }) as Box<dyn Site> })
    }

    fn stall(&self) {
        self.server.pause();
    }

    fn go_on(&self) {
        self.server.resume();
    }
}

impl Site for Place {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Log>> {
        Box::pin(async { Arc::new(open(&self.options).await) as Arc<dyn Log> })
    }

    fn remake(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            for stream in streams(&self.options) {
                self.management.delete_stream(&self.options.scope, &stream);
            }
        })
    }
}

pub fn streams(options: &PravegaOptions) -> Vec<String> {
    let numbered = (0..options.partitions).map(|partition| format!("{}-{partition:02}", options.prefix));
    numbered.chain([format!("{}-meta", options.prefix)]).collect()
}

pub fn contract(servers: &Servers) {
    servers.on_durable(async |server, scope| {
        check_all(&Factory { server, scope, sites: 0.into() }).await;
    });
}

/// However many open it at once, it is one log.
pub fn opens_at_once_agree(servers: &Servers) {
    servers.on_durable(async |server, scope| {
        let options = options(server, &scope);
        let opens = (0..4).map(|_| tokio::spawn(PravegaLog::open(options.clone(), now_ms())));
        let logs = futures::future::join_all(opens).await;
        let infos: Vec<_> = logs.into_iter().map(|log| log.unwrap().expect("an open log").info().clone()).collect();
        assert!(infos.iter().all(|info| *info == infos[0]), "{infos:?}");
        assert_eq!(*open(&options).await.info(), infos[0]);
    });
}

pub fn other_facts_are_refused(servers: &Servers) {
    servers.on_durable(async |server, scope| {
        let options = options(server, &scope);
        open(&options).await;
        let error = refusal(&PravegaOptions { partitions: 3, ..options.clone() }).await;
        assert!(matches!(error, LogError::PartitionCount { wanted: 3, found: 2, .. }), "{error}");
        let unknown = PravegaOptions { controller: "tcp://no-such-host.invalid:9090".into(), ..options };
        // Whoever is asked for names may say nothing.
        let error = refusal(&unknown).await;
        assert!(["WR0220", "WR0221"].contains(&error.code()), "{error}");
    });
}

pub fn foreign_streams_are_left_alone(servers: &Servers) {
    servers.on_durable(async |server, scope| {
        let options = options(server, &scope);
        let _answer = server.management().rest("POST", "v1/scopes", &format!(r#"{{"scopeName":"{scope}"}}"#));
        let wide = r#"{"streamName":"log-01","scalingPolicy":{"type":"FIXED_NUM_SEGMENTS","minSegments":2}}"#;
        let _answer = server.management().rest("POST", &format!("v1/scopes/{scope}/streams"), wide);
        let error = refusal(&options).await;
        assert!(matches!(&error, LogError::Occupied { name, .. } if name.contains("log-01")), "{error}");

        // Records of a log whose birth record is gone belong to nobody.
        let orphan = PravegaOptions { prefix: "orphan".into(), ..options.clone() };
        let log = open(&orphan).await;
        writer(&log, 1).await.append(b"record", 0).await.expect("an acknowledgement");
        drop(log);
        server.management().delete_stream(&scope, "orphan-meta");
        let error = refusal(&orphan).await;
        assert!(matches!(&error, LogError::Occupied { name, .. } if name.contains("orphan-01")), "{error}");

        // The other way round, the record speaks of streams that are not these.
        let remade = PravegaOptions { prefix: "remade".into(), ..options };
        open(&remade).await;
        server.management().delete_stream(&scope, "remade-00");
        let error = refusal(&remade).await;
        assert!(matches!(&error, LogError::Occupied { problem, .. } if problem.contains("remade-00")), "{error}");
    });
}

pub fn retention_is_handed_to_the_server(servers: &Servers) {
    servers.on_durable(async |server, scope| {
        let policy = |stream: &str| {
            let text = server.management().rest("GET", &format!("v1/scopes/{scope}/streams/{stream}"), "");
            let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            json["retentionPolicy"]["type"].as_str().map(str::to_owned)
        };
        let mut options = options(server, &scope);
        options.retention = Retention::Age(3 * 24 * 3_600_000);
        open(&options).await;
        assert_eq!(policy("log-00").as_deref(), Some("LIMITED_DAYS"));
        assert_eq!(policy("log-meta"), None, "what the log is must stay");
        options.retention = Retention::Bytes(64 << 20);
        open(&options).await;
        assert_eq!(policy("log-01").as_deref(), Some("LIMITED_SIZE_MB"));
    });
}

/// Two logs of one name, one in the other's streams: whoever reads is told, and can go on.
pub fn events_of_others_are_skipped_and_told(servers: &Servers) {
    servers.on_durable(async |server, scope| {
        let options = options(server, &scope);
        let log = open(&options).await;
        let mut ours = writer(&log, 0).await;
        ours.append(b"first", 0).await.expect("an acknowledgement");
        // A stock writer's event.
        let mut foreign = stock_client(server).create_event_writer(first_partition(&scope));
        foreign.write_event(b"hello".to_vec()).await.await.unwrap().expect("an acknowledgement");
        ours.append(b"second", 0).await.expect("an acknowledgement");

        let mut reading = reader(&log, 0, 0).await;
        let first = reading.read(10, Duration::from_secs(60)).await.expect("a record");
        assert_eq!(first[0].payload, b"first");
        let error = reading.read(10, Duration::from_secs(60)).await.expect_err("damage");
        let LogError::Corrupt { lost_bytes, resume, .. } = error else { panic!("unexpected: {error}") };
        assert_eq!(lost_bytes, 13);
        reading.seek(resume);
        let second = reading.read(10, Duration::from_secs(60)).await.expect("a record");
        assert_eq!(second[0].payload, b"second");
        assert_eq!(log.stats().corrupt_bytes, 13);
    });
}

/// Whoever has a stock client reads our records as events, each in its envelope.
pub fn stock_readers_read_our_events(servers: &Servers) {
    servers.on_durable(async |server, scope| {
        let log = open(&options(server, &scope)).await;
        let payloads: Vec<Vec<u8>> = (0..300).map(|number| "x".repeat(number * 7 % 500).into_bytes()).collect();
        let borrowed: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        let time_ms = now_ms();
        writer(&log, 0).await.append_batch(&borrowed, time_ms).await.expect("an acknowledgement");

        let group = stock_client(server).create_reader_group("stock".to_owned(), first_partition(&scope)).await;
        let mut stock = group.create_reader("reader".to_owned()).await;
        let mut bodies = Vec::new();
        while bodies.len() < payloads.len() {
            let Some(mut slice) = stock.acquire_segment().await.expect("a segment") else { continue };
            bodies.extend(slice.by_ref().map(|event| event.value));
            stock.release_segment(slice).await.expect("a released segment");
        }
        for (body, payload) in bodies.iter().zip(&payloads) {
            let (envelope, rest) = body.split_at(20);
            assert_eq!((&envelope[..4], &envelope[8..16]), (&b"WR\x01\x00"[..], &time_ms.to_be_bytes()[..]));
            assert_eq!(rest, payload);
        }
        assert_eq!(bodies.len(), payloads.len());
    });
}

fn stock_client(server: &PravegaServer) -> ClientFactoryAsync {
    let address = server.url().trim_start_matches("tcp://").to_owned();
    let config = pravega_client_config::ClientConfigBuilder::default().controller_uri(address).build().unwrap();
    ClientFactoryAsync::new(config, tokio::runtime::Handle::current())
}

fn first_partition(scope: &str) -> ScopedStream {
    ScopedStream::from(format!("{scope}/log-00").as_str())
}

/// A batch is larger than what may wait at a time, and still goes through, in order.
pub fn batches_are_fast_and_bounded(servers: &Servers) {
    const RECORDS: usize = 20_000;
    servers.on_durable(async |server, scope| {
        let options = PravegaOptions { max_waiting_bytes: 1 << 20, ..options(server, &scope) };
        let log = open(&options).await;
        let payloads: Vec<Vec<u8>> = (0..RECORDS).map(|number| format!("{number:0200}").into_bytes()).collect();
        let borrowed: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        writer(&log, 0).await.append_batch(&borrowed, 0).await.expect("an acknowledgement");
        let large = vec![7; options.max_record_bytes];
        writer(&log, 0).await.append(&large, 0).await.expect("a record of the largest size");
        let mut reading = reader(&log, 0, 0).await;
        let read = super::read_until(&mut reading, &large).await;
        assert_eq!(read.len(), RECORDS + 1);
        assert!(read.iter().zip(&payloads).all(|(read, written)| read == written), "out of order");
        assert_eq!(reading.position(), log.tail(0).await.expect("a tail"));
        let LogStats { records_appended, bytes_appended, records_read, .. } = log.stats();
        let good_day = LogStats { records_appended, bytes_appended, records_read, ..LogStats::default() };
        assert_eq!(log.stats(), good_day);
        assert!(reading.position() > Position::from_raw(0));
    });
}
