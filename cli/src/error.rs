//! What ends a command badly.

use thiserror::Error;
use weir_streams::LogError;

use crate::assembly::DataError;
use crate::commands::{CommandError, exit_of_store};
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
            Self::Data(DataError::Store(why)) => exit_of_store(why),
            Self::Data(DataError::NoPravega) => Exit::Configuration,
            Self::Data(DataError::Log(why)) | Self::Log(why) => exit_of_log(why),
            Self::Io(_) | Self::Json(_) | Self::Failed(_) => Exit::Failure,
        }
    }
}

/// What cannot be used stays so however often it is tried: supervisors do not start a process again that ends with
/// [`Exit::Configuration`].
fn exit_of_log(why: &LogError) -> Exit {
    match why {
        LogError::Setting { .. }
        | LogError::Options { .. }
        | LogError::Occupied { .. }
        | LogError::PartitionCount { .. }
        | LogError::PartitionHash { .. }
        | LogError::Foreign { .. }
        | LogError::NewerFormat { .. } => Exit::Configuration,
        LogError::NotFound { .. } | LogError::NoSuchPartition { .. } => Exit::NotFound,
        _ => Exit::Failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_store::StoreError;

    #[test]
    fn what_no_restart_mends_ends_with_78() {
        let log = |why| CliError::Data(DataError::Log(why)).exit();
        let (server, name) = ("kafka:9092".to_owned(), "weir-metrics".to_owned());
        let unusable = [
            log(LogError::Setting { setting: "brokers", value: String::new(), problem: String::new() }),
            log(LogError::Options { option: "partitions", value: 0, problem: String::new() }),
            log(LogError::Occupied { server: server.clone(), name: name.clone(), problem: String::new() }),
            log(LogError::PartitionCount { log: name.clone(), wanted: 4, found: 8 }),
            log(LogError::PartitionHash { log: name, wanted: "a".into(), found: "b".into() }),
            CliError::Data(DataError::NoPravega).exit(),
            CliError::Data(StoreError::Refused { database: String::new(), detail: String::new() }.into()).exit(),
            CliError::Data(StoreError::BadAddress { detail: String::new() }.into()).exit(),
        ];
        assert_eq!(unusable, [Exit::Configuration; 8]);
        let away = LogError::Unreachable { server, action: "open".into(), cause: String::new() };
        assert_eq!(log(away), Exit::Failure);
    }
}
