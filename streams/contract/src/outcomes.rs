//! What happens when the outcome of an append is not known.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{join, join3};
use tokio::time::timeout;
use weir_streams::{LogError, LogReader, LogWriter, Position};

use crate::support::{LogFactory, NOW_MS, PATIENCE, Setup, fresh, fresh_with, head, payloads, reader, tail};

/// Records of a batch.
const BATCH: u64 = 25;

/// The batch of a producer that begins with a sequence: each record says whose it is, and which.
fn batch(producer: &str, first: u64) -> Vec<Vec<u8>> {
    (first..first + BATCH).map(|sequence| format!("{producer}/{sequence}").into_bytes()).collect()
}

async fn append(writer: &mut dyn LogWriter, batch: &[Vec<u8>]) -> Result<(), LogError> {
    let borrowed: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
    writer.append_batch(&borrowed, NOW_MS).await
}

/// What a consumer keeps: the next sequence of each producer. What comes again is known by it.
#[derive(Debug, Default)]
struct Ledger {
    next: BTreeMap<String, u64>,
}

impl Ledger {
    fn take(&mut self, payload: &[u8]) {
        let text = std::str::from_utf8(payload).expect("text");
        let (producer, sequence) = text.split_once('/').expect("a producer and a sequence");
        let sequence: u64 = sequence.parse().expect("a number");
        let next = self.next.entry(producer.to_owned()).or_default();
        assert!(sequence <= *next, "{text} came before {next}: a record is missing");
        *next = (*next).max(sequence + 1);
    }
}

/// A batch whose outcome is not known is appended again. However much of the first try was stored, a consumer that goes by
/// producer and sequence applies each record once, and misses none.
pub async fn repeated_batches_are_known_by_their_sequences(factory: &dyn LogFactory) {
    const BATCHES: u64 = 8;
    let (_site, log) = fresh(factory).await;
    let produce = async |producer: &str| {
        let mut writer = log.writer(0, producer).await.expect("a writer");
        for number in 0..BATCHES {
            let batch = batch(producer, number * BATCH);
            // Dropped after a moment: stored, or not, or in part.
            let _unknown = append(&mut *writer, &batch).now_or_never();
            append(&mut *writer, &batch).await.expect("an acknowledgement");
        }
    };
    join(produce("one"), produce("other")).await;
    let mut ledger = Ledger::default();
    payloads(&*log, 0).await.iter().for_each(|payload| ledger.take(payload));
    let all = BATCHES * BATCH;
    assert_eq!(ledger.next, BTreeMap::from([("one".to_owned(), all), ("other".to_owned(), all)]));
}

/// While a server hangs, appends, reads and questions end with an error that says to try again, about as soon as they were
/// told to. Once it goes on, so do the same handles, and nothing that was acknowledged is missing.
pub async fn stalled_server_is_told_and_outlived(factory: &dyn LogFactory) {
    if !factory.abilities().stalls {
        return;
    }
    let setup = Setup { timeout: Duration::from_secs(3), ..Setup::default() };
    let (_site, log) = fresh_with(factory, &setup).await;
    let mut writer = log.writer(0, "one").await.expect("a writer");
    let mut reader = reader(&*log, 0, head(&*log, 0).await).await;
    let mut ledger = Ledger::default();
    append(&mut *writer, &batch("one", 0)).await.expect("an acknowledgement");
    take_up_to(&mut *reader, &mut ledger, tail(&*log, 0).await).await;

    let unknown = batch("one", BATCH);
    {
        let _stalled = Stalled::begin(factory);
        // A client may need several answers for one, each within the time-out.
        let limit = setup.timeout * 5;
        let began = tokio::time::Instant::now();
        let appended = timeout(limit, append(&mut *writer, &unknown));
        let read = timeout(limit, read_until_error(&mut *reader));
        let (appended, read, asked) = join3(appended, read, timeout(limit, log.tail(1))).await;
        for (what, error) in [
            ("the append", appended.map(Result::err)),
            ("the read", read.map(Some)),
            ("the question", asked.map(Result::err)),
        ] {
            let error = error.unwrap_or_else(|_| panic!("{what} did not end within {:?}", began.elapsed()));
            let error = error.unwrap_or_else(|| panic!("{what} was answered"));
            assert!(error.is_retryable(), "{what}: {error}");
        }
    }
    // A server that hung may need a while until it serves again, and may lose some answers on the way.
    let again = async {
        for batch in [&unknown, &batch("one", 2 * BATCH)] {
            while let Err(error) = append(&mut *writer, batch).await {
                assert!(error.is_retryable(), "{error}");
            }
        }
        loop {
            match log.tail(0).await {
                Ok(tail) => return tail,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    };
    let end = timeout(PATIENCE * 3, again).await.expect("acknowledgements after the stall, and where they end");
    take_up_to(&mut *reader, &mut ledger, end).await;
    assert_eq!(ledger.next, BTreeMap::from([("one".to_owned(), 3 * BATCH)]));
}

/// A server that hangs until this is dropped.
struct Stalled<'a>(&'a dyn LogFactory);

impl<'a> Stalled<'a> {
    fn begin(factory: &'a dyn LogFactory) -> Self {
        factory.stall();
        Self(factory)
    }
}

impl Drop for Stalled<'_> {
    fn drop(&mut self) {
        self.0.go_on();
    }
}

/// What a reader says when it cannot even find out whether there is more.
async fn read_until_error(reader: &mut dyn LogReader) -> LogError {
    loop {
        for wait in [Duration::ZERO, Duration::from_millis(200)] {
            match reader.read(10, wait).await {
                Ok(records) => assert_eq!(records, [], "nobody acknowledged more"),
                Err(error) => return error,
            }
        }
    }
}

/// Reads, through errors that pass, up to a position or past it, and takes what comes.
async fn take_up_to(reader: &mut dyn LogReader, ledger: &mut Ledger, end: Position) {
    let reading = async {
        while reader.position() < end {
            match reader.read(10, Duration::from_secs(1)).await {
                Ok(records) => records.iter().for_each(|record| ledger.take(&record.payload)),
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    };
    timeout(PATIENCE * 3, reading).await.expect("all records");
}
