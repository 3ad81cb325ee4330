//! Where everything is kept, opened as the configuration says.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use thiserror::Error;
use tracing::warn;
use weir_kafka::KafkaLog;
use weir_outbox::{EVENTS, Logs, METRICS};
use weir_runtime::telemetry;
use weir_store::{OpenOptions, Store, StoreError};
use weir_streams::{EmbeddedLog, EmbeddedLogView, EmbeddedOptions, Log, LogError};

use crate::config::{Config, LogChoice};

/// How often the view of an embedded log looks for more.
const VIEW_POLL: Duration = Duration::from_millis(100);

/// Where everything is kept.
#[derive(Clone)]
pub struct Data {
    /// The control database.
    pub store: Store,
    /// The logs.
    pub logs: Logs,
}

/// What is kept cannot be used.
#[derive(Debug, Error)]
pub enum DataError {
    /// The control database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// This program was built without that kind of log.
    #[error(
        "WR0656: this weir was built without Pravega; build it with `cargo build --release --features pravega`, or use a release"
    )]
    NoPravega,
}

impl DataError {
    /// Whether a server was not there, and may be later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(why) => why.is_transient(),
            // Of a file that is locked or a folder that cannot be read somebody has to be told at once.
            // What was lost while it was opened may have been no more than a server that had not found its streams yet.
            Self::Log(
                LogError::Unreachable { .. }
                | LogError::TimedOut { .. }
                | LogError::Server { .. }
                | LogError::Lost { .. },
            ) => true,
            Self::Log(_) | Self::NoPravega => false,
        }
    }
}

impl Data {
    /// Opens the control database and the logs, and makes them where they are missing.
    ///
    /// # Errors
    /// Data of newer versions, or that another process writes to, are refused; servers may be away.
    pub async fn open(config: &Config, now_ms: i64) -> Result<Self, DataError> {
        let address = config.address();
        if !address.is_server() || !config.log.is_shared() {
            make_private(&config.data);
        }
        let store = Store::open_at(&address, &OpenOptions::default()).await?;
        Ok(Self { store, logs: open_logs(config, true, now_ms).await? })
    }

    /// Opens the control database and the logs to be looked at, while others write them. Nothing is made.
    ///
    /// # Errors
    /// If there are none, or a server is away.
    pub async fn view(config: &Config, now_ms: i64) -> Result<Self, DataError> {
        let address = config.address();
        let options = OpenOptions { create: false, ..OpenOptions::default() };
        Ok(Self { store: Store::open_at(&address, &options).await?, logs: open_logs(config, false, now_ms).await? })
    }
}

/// Opens both logs; `create`: and makes them where they are missing. Without it an embedded log is opened without its lock.
async fn open_logs(config: &Config, create: bool, now_ms: i64) -> Result<Logs, DataError> {
    match &config.log {
        LogChoice::Embedded(_) if !create => {
            let view = |name| EmbeddedLogView::open(config.data.join(name), VIEW_POLL);
            Ok(Logs { metrics: Arc::new(view(METRICS).await?), events: Arc::new(view(EVENTS).await?) })
        }
        LogChoice::Embedded(options) => {
            let metrics = embedded(&config.data, METRICS, options, now_ms).await?;
            let events = embedded(&config.data, EVENTS, options, now_ms).await?;
            Ok(Logs { metrics, events })
        }
        LogChoice::Kafka(kafka) => {
            let metrics = KafkaLog::open(kafka.options(METRICS, create), now_ms).await?;
            let events = KafkaLog::open(kafka.options(EVENTS, create), now_ms).await?;
            Ok(Logs { metrics: Arc::new(metrics), events: Arc::new(events) })
        }
        #[cfg(feature = "pravega")]
        LogChoice::Pravega(pravega) => {
            let metrics = weir_pravega::PravegaLog::open(pravega.options(METRICS, create), now_ms).await?;
            let events = weir_pravega::PravegaLog::open(pravega.options(EVENTS, create), now_ms).await?;
            Ok(Logs { metrics: Arc::new(metrics), events: Arc::new(events) })
        }
        #[cfg(not(feature = "pravega"))]
        LogChoice::Pravega(_) => Err(DataError::NoPravega),
    }
}

async fn embedded(
    folder: &Path,
    name: &str,
    options: &EmbeddedOptions,
    now_ms: i64,
) -> Result<Arc<dyn Log>, DataError> {
    let log = EmbeddedLog::open(folder.join(name), options.clone(), now_ms).await?;
    for report in log.recovery() {
        if report.torn_bytes > 0 || !report.damage.is_empty() {
            warn!(?report, "a log was damaged; what could not be read is lost");
            counter!(telemetry::LOG_BYTES_LOST, "log" => name.to_owned(), "reason" => "torn")
                .increment(report.torn_bytes);
        }
    }
    Ok(Arc::new(log))
}

/// Makes the folder, where it is missing, for its own user alone: whoever can write to it can approve actions. A folder that is
/// there already keeps what it allows, and one that cannot be made is told of by whoever opens it next.
fn make_private(folder: &Path) {
    if let Err(why) = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        warn!(folder = %folder.display(), %why, "the folder of data cannot be made");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_find_its_streams_yet_is_waited_for() {
        let (server, log) = (String::new(), String::new());
        let lost = LogError::Lost { server, log, problem: "stream not found: weir/metrics-00".to_owned() };
        assert!(DataError::from(lost).is_transient());
        assert!(!DataError::from(LogError::Locked { lock: "log.lock".into() }).is_transient());
    }
}
