//! What every driver can do.

use thiserror::Error;
use weir_governor::{Effect, Observation, ObserveError};
use weir_schemas::identity::{JobKey, RunId};

pub use futures::future::BoxFuture;

/// What to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look<'a> {
    /// The job.
    pub job: &'a JobKey,
    /// The run that is expected.
    pub run: &'a RunId,
    /// Whether the counters of its sources are wanted too: they cost some calls for each source.
    pub counters: bool,
}

/// Flink has taken note of an effect. That is all it says: whether it happens has to be observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed;

/// Why an effect was not carried out, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DriverError {
    /// It may work later, or may even have worked: look, then try again.
    #[error("{0}")]
    Later(String),
    /// It will not work however often it is tried.
    #[error("{0}")]
    Refused(String),
}

/// A way to a cluster. Futures may be dropped at any time.
pub trait Driver: Send + Sync {
    /// Looks at a job.
    ///
    /// # Errors
    /// Whether the job is gone, or cannot be seen at the moment; see [`ObserveError`].
    fn observe<'a>(&'a self, look: Look<'a>) -> BoxFuture<'a, Result<Observation, ObserveError>>;

    /// Carries an effect out on a run, and on no other.
    ///
    /// # Errors
    /// See [`DriverError`].
    fn execute<'a>(&'a self, run: &'a RunId, effect: &'a Effect) -> BoxFuture<'a, Result<Executed, DriverError>>;
}
