//! What ends a command badly.

use thiserror::Error;
use weir_streams::LogError;

use crate::assembly::DataError;
use crate::commands::CommandError;
use crate::config::ConfigError;
use crate::exit::Exit;

/// What ends a command badly. Each kind has an exit code of its own.
#[derive(Debug, Error)]
pub enum CliError {
    /// The command was not given as it has to be.
    #[error("WR0651: {0}")]
    Usage(String),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The folder of data cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A command on the control database failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Output or a temporary folder cannot be written to.
    #[error("WR0652: cannot write: {0}")]
    Io(#[from] std::io::Error),
    /// Something is no JSON.
    #[error("WR0653: an event cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A service stopped.
    #[error("WR0654: {0}")]
    Failed(String),
}

impl CliError {
    /// The exit code of the process.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Config(_) => Exit::Configuration,
            Self::Command(why) => why.exit(),
            Self::Data(_) | Self::Log(_) | Self::Io(_) | Self::Json(_) | Self::Failed(_) => Exit::Failure,
        }
    }
}
