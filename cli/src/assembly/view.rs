//! The logs of an installation, to be looked at while others write them.

use std::sync::Arc;
use std::time::Duration;

use weir_outbox::{EVENTS, Logs, METRICS};
use weir_streams::{EmbeddedLogView, Log};

use super::data::{DataError, open_logs};
use crate::config::{Config, LogChoice};

/// How often the view of a log that others write looks for more.
const POLL: Duration = Duration::from_millis(100);

/// Opens the logs without making or changing anything; an embedded log without its lock.
///
/// # Errors
/// If there are none, or their server is away.
pub async fn view(config: &Config, now_ms: i64) -> Result<Logs, DataError> {
    let LogChoice::Embedded(_) = &config.log else { return open_logs(config, now_ms).await };
    Ok(Logs { metrics: embedded(config, METRICS).await?, events: embedded(config, EVENTS).await? })
}

async fn embedded(config: &Config, name: &str) -> Result<Arc<dyn Log>, DataError> {
    Ok(Arc::new(EmbeddedLogView::open(config.data.join(name), POLL).await?))
}
