//! What ends the analyzer.

use thiserror::Error;
use weir_outbox::PublishError;
use weir_store::StoreError;
use weir_streams::LogError;

/// What ends the analyzer, or makes a pass fail.
#[derive(Debug, Error)]
pub enum AnalyzerError {
    /// The control database refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Something could not be published; it waits.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Committed state cannot be read.
    #[error(
        "WR0501: the state of {shard} in the control database cannot be read: {why}; \
         remove that row of the table checkpoints to start from the log's head instead"
    )]
    State {
        /// Which shard.
        shard: String,
        /// What is wrong.
        why: String,
    },
    /// State of a newer version.
    #[error("WR0502: the state of {shard} has format {found}, this version reads format {known}: update this service")]
    NewerState {
        /// Which shard.
        shard: String,
        /// Format that was found.
        found: u32,
        /// Format that is known.
        known: u32,
    },
    /// Something could not be written as JSON or protobuf.
    #[error("WR0503: cannot encode {what}: {why}; this is an error of Weir: report it")]
    Encode {
        /// What.
        what: &'static str,
        /// Why.
        why: String,
    },
}

impl AnalyzerError {
    /// The stable code of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(why) => why.code(),
            Self::Log(why) => why.code(),
            Self::Publish(PublishError::Store(why)) => why.code(),
            Self::Publish(PublishError::Log(why)) => why.code(),
            Self::Publish(PublishError::Wire(why)) => why.code(),
            Self::State { .. } => "WR0501",
            Self::NewerState { .. } => "WR0502",
            Self::Encode { .. } => "WR0503",
        }
    }

    /// Whether the logs have to be opened again, by whoever opened them.
    #[must_use]
    pub fn needs_reopening(&self) -> bool {
        match self {
            Self::Log(why) => why.needs_reopening(),
            Self::Publish(why) => why.needs_reopening(),
            _ => false,
        }
    }

    /// Whether another analyzer has taken over: then nothing but starting again helps.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(
            self,
            Self::Store(StoreError::Fenced { .. }) | Self::Publish(PublishError::Store(StoreError::Fenced { .. }))
        )
    }
}
