//! What the tests of the log on Pravega share.

pub mod facts;
pub mod faults;
pub mod secured;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use tokio::time::Instant;
use weir_pravega::{PravegaLog, PravegaOptions, Timeouts};
use weir_streams::{Log, LogError, LogReader, LogWriter, Position};
use weir_tests::{Authority, Memory, PravegaSecurity, PravegaServer};

/// The servers, each started when it is first needed.
#[derive(Default)]
pub struct Servers {
    durable: Mutex<Option<PravegaServer>>,
    secured: Arc<Mutex<Option<Secured>>>,
    scopes: AtomicUsize,
    /// Whether all tests run, so that the second server is needed for certain.
    all: bool,
}

/// A forgetful server with TLS and a log-in.
pub struct Secured {
    pub server: PravegaServer,
    pub certificates: TempDir,
}

pub const USER: &str = "weir";
pub const PASSWORD: &str = "open-the-weir";
/// `weir:open-the-weir` in base64.
pub const TOKEN: &str = "d2VpcjpvcGVuLXRoZS13ZWly";

impl Servers {
    pub fn new(all: bool) -> Self {
        Self { all, ..Self::default() }
    }

    /// Runs a test on the durable server, with the name of a scope that nobody used before.
    pub fn on_durable(&self, test: impl AsyncFnOnce(&mut PravegaServer, String)) {
        // A test that failed leaves a server behind that is still good, or fails the next one with a clear word.
        let mut slot = hold(&self.durable);
        let server = slot.get_or_insert_with(|| PravegaServer::start(Memory::Durable));
        block_on(test(server, self.scope()));
    }

    pub fn on_secured(&self, test: impl AsyncFnOnce(&mut Secured, String)) {
        // One server at a time is enough for a small machine.
        hold(&self.durable).take();
        let mut slot = hold(&self.secured);
        block_on(test(slot.get_or_insert_with(Secured::start), self.scope()));
    }

    /// Starts the second server while the first one is not using the machine.
    pub fn start_secured_meanwhile(&self) {
        if self.all {
            let slot = Arc::clone(&self.secured);
            std::thread::spawn(move || {
                hold(&slot).get_or_insert_with(Secured::start);
            });
        }
    }

    fn scope(&self) -> String {
        format!("test-{}", self.scopes.fetch_add(1, Ordering::Relaxed))
    }
}

impl Secured {
    fn start() -> Self {
        let certificates = certificates();
        let folder = certificates.path().into();
        let security = PravegaSecurity { certificates: folder, user: USER.into(), password: PASSWORD.into() };
        Self { server: PravegaServer::start_secured(security), certificates }
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // Calls of the client can hang; a test must not. A server that hangs at its start is started twice, for 240 s each.
    let limit = Duration::from_secs(900);
    runtime.block_on(async { tokio::time::timeout(limit, test).await.expect("the test ends") });
}

/// A certificate for `localhost`, and the one of the authority that signed it.
fn certificates() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::make();
    let server = authority.server("localhost");
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    write("ca.pem", authority.pem());
    write("cert.pem", format!("{}{}", server.certificate, authority.pem()));
    write("key.pem", server.key);
    folder
}

/// How long an acknowledgement may take where it is to stay out.
pub const IMPATIENT: Duration = Duration::from_secs(8);

/// Options of a log in a scope, with time-outs that fit a test.
pub fn options(server: &PravegaServer, scope: &str) -> PravegaOptions {
    PravegaOptions {
        controller: server.url().into(),
        scope: scope.into(),
        prefix: "log".into(),
        partitions: 2,
        timeouts: Timeouts {
            acknowledgement: Duration::from_secs(60),
            quiet: Duration::from_secs(2),
            ..Timeouts::default()
        },
        ..PravegaOptions::default()
    }
}

pub fn now_ms() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "the log keeps no time of its own")]
    let now = SystemTime::now();
    i64::try_from(now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Opens a log, through errors that pass, as the program does: a server that stood still, or just began, may not serve yet.
pub async fn open(options: &PravegaOptions) -> PravegaLog {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        match PravegaLog::open(options.clone(), now_ms()).await {
            Ok(log) => return log,
            // Shown if the test fails.
            Err(error) if error.is_retryable() && Instant::now() < end => println!("{error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

pub async fn refusal(options: &PravegaOptions) -> LogError {
    PravegaLog::open(options.clone(), now_ms()).await.map(|_| ()).expect_err("a refusal")
}

pub async fn writer(log: &PravegaLog, partition: u32) -> Box<dyn LogWriter> {
    log.writer(partition, "test").await.expect("a writer")
}

pub async fn reader(log: &PravegaLog, partition: u32, from: u64) -> Box<dyn LogReader> {
    log.reader(partition, Position::from_raw(from)).await.expect("a reader")
}

/// Appends one record, again and again until it is acknowledged. How often it was tried.
pub async fn append_until_taken(writer: &mut Box<dyn LogWriter>, payload: &[u8]) -> u32 {
    let mut tries = 1;
    while let Err(error) = writer.append(payload, 0).await {
        assert!(error.is_retryable(), "{error}");
        tries += 1;
    }
    tries
}

/// Reads until a payload has come, through all errors that go away; everything up to it, in order, and what came with it.
pub async fn read_until(reader: &mut Box<dyn LogReader>, wanted: &[u8]) -> Vec<Vec<u8>> {
    let mut payloads: Vec<Vec<u8>> = Vec::new();
    let mut found = false;
    while !found {
        match reader.read(100, Duration::from_secs(2)).await {
            Ok(records) => {
                found = records.iter().any(|record| record.payload == wanted);
                payloads.extend(records.into_iter().map(|record| record.payload));
            }
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
    payloads
}
