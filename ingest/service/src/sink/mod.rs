//! Where records go.

mod log;
mod outbox;
mod overflow;

use futures::future::BoxFuture;
use thiserror::Error;
use weir_schemas::records::Record;

pub use log::LogSink;
pub use outbox::Drain;
pub(crate) use outbox::Outbox;

/// Takes records and keeps them.
pub trait RecordSink: Send {
    /// Writes records in order; `Ok` means that all are durable. After a failure any of them may be: the same ones are written
    /// again later, and readers know them by producer and sequence.
    ///
    /// # Errors
    /// If not all are known to be durable.
    fn write<'a>(&'a mut self, records: &'a [Record]) -> BoxFuture<'a, Result<(), SinkError>>;
}

/// Records were not, or not all, written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{why}")]
pub struct SinkError {
    /// What went wrong and what to do.
    pub why: String,
    /// Whether the same records may be taken later.
    pub retryable: bool,
    /// Whether the log has to be opened again, by whoever opened it.
    pub reopen: bool,
}
