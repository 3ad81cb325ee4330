//! The log.

use std::sync::Arc;

use weir_streams::{BoxFuture, Distance, Log, LogError, LogInfo, LogReader, LogStats, LogWriter, Position};

use crate::birth;
use crate::link::{Client, Link, Settings};
use crate::options::{Address, PravegaOptions};
use crate::reader::PravegaReader;
use crate::shared::Shared;
use crate::writer::PravegaWriter;

/// A log on a Pravega cluster.
///
/// Positions are byte offsets. When the server turns out to have lost the log, every call answers [`LogError::Lost`] from then
/// on: opening it again makes another incarnation.
#[derive(Clone)]
pub struct PravegaLog {
    pub(crate) shared: Arc<Shared>,
}

impl PravegaLog {
    /// Opens a log, and makes it if there is none. Any number of processes may do so, also at once.
    ///
    /// # Errors
    /// Refuses settings that cannot be followed, streams that are not ours, and a log with other facts than asked for; fails
    /// when the server cannot be asked.
    pub async fn open(options: PravegaOptions, now_ms: i64) -> Result<Self, LogError> {
        let address = options.check()?;
        let settings = Settings::new(&options, &address)?;
        let link = Arc::new(Link::new(&options));
        resolve(&link, &address).await?;
        let client = Client::start(&link, &settings).await?;
        let birth = birth::open(&client, &link, &options, now_ms).await.map_err(|error| link.in_doubt(error))?;
        tracing::info!(log = %birth.info.name, incarnation = %birth.info.incarnation, "opened a log on Pravega");
        Ok(Self { shared: Arc::new(Shared::new(link, settings, client, &birth, &options)) })
    }
}

/// The client panics over a name that does not resolve.
async fn resolve(link: &Link, address: &Address) -> Result<(), LogError> {
    let action = "find the controller";
    let looked = tokio::net::lookup_host(format!("{}:{}", address.host, address.port));
    let limit = link.timeouts.call;
    let found = tokio::time::timeout(limit, looked).await.map_err(|_| link.timed_out(action, limit))?;
    let mut found = found.map_err(|why| link.unreachable(action, &why.to_string()))?;
    found.next().map(|_| ()).ok_or_else(|| link.unreachable(action, "its name has no address"))
}

impl Log for PravegaLog {
    fn info(&self) -> &LogInfo {
        &self.shared.info
    }

    fn writer<'a>(&'a self, partition: u32, _producer: &'a str) -> BoxFuture<'a, Result<Box<dyn LogWriter>, LogError>> {
        // The server tells writers apart by numbers that the client draws.
        Box::pin(async move {
            self.shared.partition(partition)?;
            self.shared.check_alive()?;
            let writer = PravegaWriter::new(Arc::clone(&self.shared), partition)?;
            Ok(Box::new(writer) as Box<dyn LogWriter>)
        })
    }

    fn reader(&self, partition: u32, from: Position) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        Box::pin(async move {
            self.shared.partition(partition)?;
            self.shared.check_alive()?;
            let reader = PravegaReader::new(Arc::clone(&self.shared), partition, from);
            Ok(Box::new(reader) as Box<dyn LogReader>)
        })
    }

    fn head(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        Box::pin(async move { Ok(Position::from_raw(self.shared.bounds(partition).await?.head)) })
    }

    fn tail(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        Box::pin(async move { Ok(Position::from_raw(self.shared.bounds(partition).await?.tail)) })
    }

    fn truncate_before(&self, partition: u32, before: Position) -> BoxFuture<'_, Result<Position, LogError>> {
        Box::pin(self.shared.truncate(partition, before))
    }

    /// Frees nothing: the server keeps to the retention of the streams by itself.
    fn retain(&self, _now_ms: i64) -> BoxFuture<'_, Result<u64, LogError>> {
        Box::pin(async move { self.shared.check_alive().map(|()| 0) })
    }

    fn distance(&self, partition: u32, from: Position, to: Position) -> Result<Distance, LogError> {
        self.shared.partition(partition)?;
        Ok(Distance { bytes: Some(to.to_raw().saturating_sub(from.to_raw())), records: None })
    }

    fn stats(&self) -> LogStats {
        self.shared.link.counters.snapshot()
    }
}
