//! What all parts of an open log share.

use std::sync::Arc;

use super::frame::Salt;
use super::options::EmbeddedOptions;
use super::storage::Storage;
use crate::stats::Counters;
use crate::{LogError, LogInfo};

/// What all parts of an open log share.
pub(crate) struct Context {
    pub storage: Arc<dyn Storage>,
    pub info: LogInfo,
    pub options: EmbeddedOptions,
    pub salt: Salt,
    pub counters: Counters,
}

impl Context {
    pub fn new(storage: Arc<dyn Storage>, info: LogInfo, options: EmbeddedOptions) -> Self {
        let salt = Salt::of(info.incarnation);
        Self { storage, info, options, salt, counters: Counters::default() }
    }

    /// The error for work that nobody will do any more.
    pub fn closed(&self) -> LogError {
        LogError::Closed { log: self.info.name.clone() }
    }
}

/// Runs blocking work off the runtime's own threads.
pub(crate) async fn blocking<T: Send + 'static>(
    log: &str,
    work: impl FnOnce() -> Result<T, LogError> + Send + 'static,
) -> Result<T, LogError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // The runtime is shutting down, or the work panicked and said so already.
        Err(_) => Err(LogError::Closed { log: log.to_owned() }),
    }
}
