//! What makes a pass of the actuator fail.

use thiserror::Error;
use weir_outbox::PublishError;
use weir_store::StoreError;
use weir_streams::LogError;

/// What makes a pass fail. The next pass goes on from there.
#[derive(Debug, Error)]
pub enum ActuatorError {
    /// The control database refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log of events failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Something could not be published; it waits.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Something could not be written as JSON.
    #[error(
        "{code}: {what} cannot be written as JSON: {why}; report it, with the plan that it was for",
        code = self.code()
    )]
    Encode {
        /// What.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// An action that this version cannot read.
    #[error(
        "{code}: action {id} in the control database cannot be read: {why}; a newer weir wrote it: update this \
         service, the job is left alone until then", code = self.code()
    )]
    Unreadable {
        /// The action.
        id: String,
        /// What is wrong with it.
        why: String,
    },
}

impl ActuatorError {
    /// Every code of the actuator's own, for the registry of codes.
    pub const CODES: [&'static str; 2] = ["WR0601", "WR0602"];

    /// The stable code of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(why) | Self::Publish(PublishError::Store(why)) => why.code(),
            Self::Log(why) | Self::Publish(PublishError::Log(why)) => why.code(),
            Self::Publish(PublishError::Wire(why)) => why.code(),
            Self::Encode { .. } => "WR0601",
            Self::Unreadable { .. } => "WR0602",
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

    /// Whether another actuator has taken over.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(
            self,
            Self::Store(StoreError::Fenced { .. }) | Self::Publish(PublishError::Store(StoreError::Fenced { .. }))
        )
    }
}
