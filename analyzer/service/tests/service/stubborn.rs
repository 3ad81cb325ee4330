//! A log that can be made not to answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Barrier, Notify};
use weir_streams::{BoxFuture, Distance, Log, LogError, LogInfo, LogReader, LogStats, LogWriter, Position, Record};

/// Another log, of which some calls do not come back as they should.
pub struct Stubborn {
    pub inner: Arc<dyn Log>,
    /// Reads wait for each other here, and then end by their time-out.
    pub reads_meet: Option<Arc<Barrier>>,
    /// Appends say here that they have begun, and never end.
    pub appends_hang: Option<Arc<Notify>>,
}

struct Reader {
    inner: Box<dyn LogReader>,
    reads_meet: Option<Arc<Barrier>>,
}

struct Hanging(Arc<Notify>);

impl Log for Stubborn {
    fn info(&self) -> &LogInfo {
        self.inner.info()
    }

    fn writer<'a>(&'a self, partition: u32, producer: &'a str) -> BoxFuture<'a, Result<Box<dyn LogWriter>, LogError>> {
        if let Some(begun) = self.appends_hang.clone() {
            return Box::pin(std::future::ready(Ok(Box::new(Hanging(begun)) as Box<dyn LogWriter>)));
        }
        self.inner.writer(partition, producer)
    }

    fn reader(&self, partition: u32, from: Position) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        Box::pin(async move {
            let inner = self.inner.reader(partition, from).await?;
            Ok(Box::new(Reader { inner, reads_meet: self.reads_meet.clone() }) as Box<dyn LogReader>)
        })
    }

    fn head(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        self.inner.head(partition)
    }

    fn tail(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        self.inner.tail(partition)
    }

    fn truncate_before(&self, partition: u32, before: Position) -> BoxFuture<'_, Result<Position, LogError>> {
        self.inner.truncate_before(partition, before)
    }

    fn retain(&self, now_ms: i64) -> BoxFuture<'_, Result<u64, LogError>> {
        self.inner.retain(now_ms)
    }

    fn distance(&self, partition: u32, from: Position, to: Position) -> Result<Distance, LogError> {
        self.inner.distance(partition, from, to)
    }

    fn stats(&self) -> LogStats {
        self.inner.stats()
    }
}

impl LogReader for Reader {
    fn read(&mut self, max_records: usize, wait: Duration) -> BoxFuture<'_, Result<Vec<Record>, LogError>> {
        let Some(meeting) = self.reads_meet.clone() else { return self.inner.read(max_records, wait) };
        Box::pin(async move {
            meeting.wait().await;
            Err(LogError::TimedOut { server: "a server".into(), action: "read".into(), waited_ms: 4_000 })
        })
    }

    fn seek(&mut self, to: Position) {
        self.inner.seek(to);
    }

    fn position(&self) -> Position {
        self.inner.position()
    }
}

impl LogWriter for Hanging {
    fn append<'a>(&'a mut self, _payload: &'a [u8], _now_ms: i64) -> BoxFuture<'a, Result<(), LogError>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }

    fn append_batch<'a>(&'a mut self, _payloads: &'a [&'a [u8]], _now_ms: i64) -> BoxFuture<'a, Result<(), LogError>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}
