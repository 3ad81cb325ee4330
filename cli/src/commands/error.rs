//! Why a command was not carried out.

use std::io;

use thiserror::Error;
use weir_store::StoreError;

use crate::exit::Exit;

/// Why a command was not carried out: what was wrong, where, and what to do.
#[derive(Debug, Error)]
pub enum CommandError {
    /// The control database refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No job is called so.
    #[error("{code}: there is no job {name:?}: {hint}", code = self.code())]
    NoSuchJob {
        /// What was given.
        name: String,
        /// What it may have been, or what to do.
        hint: String,
    },
    /// Several jobs are called so.
    #[error("{code}: several jobs are called {name:?}: give one of {}", candidates.join(", "), code = self.code())]
    AmbiguousJob {
        /// What was given.
        name: String,
        /// The keys of all that it fits.
        candidates: Vec<String>,
    },
    /// Nothing was decided about the job yet.
    #[error("{code}: nothing was decided about {job} yet: {hint}", code = self.code())]
    NoDecision {
        /// The job.
        job: String,
        /// What to do.
        hint: &'static str,
    },
    /// A decision about another job.
    #[error(
        "{code}: decision {id} is about {actual}, not {job}: name that job, or leave --decision out",
        code = self.code()
    )]
    OtherJob {
        /// The decision.
        id: String,
        /// The job that it is about.
        actual: String,
        /// The job that was given.
        job: String,
    },
    /// What was asked for cannot be done with the action.
    #[error("{code}: cannot {kind} action {id}: {why}", code = self.code())]
    Refused {
        /// What was asked for.
        kind: &'static str,
        /// The action.
        id: String,
        /// What stands against it, and what to do.
        why: String,
    },
    /// The output cannot be written.
    #[error("{code}: the output cannot be written: {0}", code = self.code())]
    Output(#[from] io::Error),
}

impl CommandError {
    /// Every code of the commands' own, for the registry of codes.
    pub const CODES: [&'static str; 6] = ["WR0610", "WR0611", "WR0612", "WR0613", "WR0614", "WR0615"];

    /// The stable code, under which the manual explains the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::NoSuchJob { .. } => "WR0610",
            Self::AmbiguousJob { .. } => "WR0611",
            Self::NoDecision { .. } => "WR0612",
            Self::OtherJob { .. } => "WR0613",
            Self::Refused { .. } => "WR0614",
            Self::Output(_) => "WR0615",
        }
    }

    /// What the process ends with.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::NoSuchJob { .. } | Self::NoDecision { .. } => Exit::NotFound,
            Self::AmbiguousJob { .. } | Self::OtherJob { .. } => Exit::BadInput,
            Self::Refused { .. } => Exit::Refused,
            Self::Output(_) => Exit::Failure,
            Self::Store(error) => exit_of_store(error),
        }
    }
}

/// What the process ends with when the control database refuses or fails.
#[must_use]
pub fn exit_of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::NoData { .. } | StoreError::NotFound { .. } => Exit::NotFound,
        StoreError::Ambiguous { .. } => Exit::BadInput,
        StoreError::Closed { .. } => Exit::Refused,
        StoreError::NewerFormat { .. }
        | StoreError::NotADatabase { .. }
        | StoreError::Refused { .. }
        | StoreError::BadAddress { .. } => Exit::Configuration,
        _ => Exit::Failure,
    }
}
