//! What can go wrong with a log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::{Distance, Incarnation, Position};

/// Why a log did not do what it was asked. Cloneable, since one failed write fails every append of its group.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The storage failed.
    #[error("{code}: cannot {action} {}: {source}; check the file system and its permissions", path.display(), code = self.code())]
    Io {
        /// What was tried, as a verb that the path completes.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// No space is left. What was not acknowledged is cut off again; appending works again once there is space.
    #[error("{code}: no space left to {action} {}; free space, or lower `retain_bytes`", path.display(), code = self.code())]
    StorageFull {
        /// What was tried, as a verb that the path completes.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
    },
    /// Another process, or another handle of this one, writes to the log.
    #[error("{code}: another process writes to this log and holds {}; stop it, or use another folder", lock.display(), code = self.code())]
    Locked {
        /// The lock file.
        lock: PathBuf,
    },
    /// There is no log where one should be read.
    #[error("{code}: there is no log in {}; start what writes it first, or check the path", dir.display(), code = self.code())]
    NotFound {
        /// The directory that was looked at.
        dir: PathBuf,
    },
    /// Something lies there that is not a log of ours. It was not touched.
    #[error("{code}: {} is not part of a Weir log ({reason}); it was left as it is: move it away, or choose another directory", path.display(), code = self.code())]
    Foreign {
        /// The file or directory.
        path: PathBuf,
        /// How it was noticed.
        reason: String,
    },
    /// The log was written by a newer version. It was not touched.
    #[error("{code}: {} has format version {found}, this program knows versions up to {known}; it was left as it is: use a newer Weir", path.display(), code = self.code())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest version that this program knows.
        known: u64,
    },
    /// The log has another number of partitions than was asked for.
    #[error("{code}: log {log} has {found} partitions, {wanted} were asked for; the number is fixed when a log is made: set partitions = {found}, or start a new log", code = self.code())]
    PartitionCount {
        /// The log.
        log: String,
        /// Partitions that were asked for.
        wanted: u32,
        /// Partitions that it has.
        found: u32,
    },
    /// The log spreads keys over partitions by another rule.
    #[error("{code}: log {log} spreads keys by `{found}`, this program by `{wanted}`; use the version of Weir that made it, or start a new log", code = self.code())]
    PartitionHash {
        /// The log.
        log: String,
        /// The rule of this program.
        wanted: String,
        /// The rule of the log.
        found: String,
    },
    /// The log was deleted and made anew: the stored position means nothing in it.
    #[error("{code}: the position belongs to incarnation {stored} of log {log}, which is now {current}: it was made anew; rebuild from the head of the log", code = self.code())]
    OtherIncarnation {
        /// The log.
        log: String,
        /// The incarnation that the position was stored with.
        stored: Incarnation,
        /// The incarnation of the log.
        current: Incarnation,
    },
    /// The log has no such partition.
    #[error("{code}: log {log} has partitions 0 to {}, not {partition}; name one of these", partitions.saturating_sub(1), code = self.code())]
    NoSuchPartition {
        /// The log.
        log: String,
        /// The partition that was asked for.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
    /// A record is too large. Nothing was written.
    #[error("{code}: a record of {bytes} bytes is larger than the limit of {limit} bytes of log {log}; split it, or raise `max_record_bytes`", code = self.code())]
    RecordTooLarge {
        /// The log.
        log: String,
        /// The size of the record.
        bytes: u64,
        /// The largest size that is taken.
        limit: u64,
    },
    /// What was to be read is gone: truncated, or past its retention. The reader goes on after a seek to `head`.
    #[error("{code}: position {wanted} of partition {partition} is gone, the log now begins at {head}; {lost} are lost to this reader: go on at the head, and retain longer if this happens again", code = self.code())]
    Truncated {
        /// The partition.
        partition: u32,
        /// Where the reader stood.
        wanted: Position,
        /// Where the log begins now.
        head: Position,
        /// What lies between.
        lost: Distance,
    },
    /// The position lies after the end, where no record of this log ever was.
    #[error("{code}: position {wanted} of partition {partition} lies after the end of the log ({tail}); it comes from another log, or the log lost its end: check which log is configured", code = self.code())]
    BeyondTail {
        /// The partition.
        partition: u32,
        /// Where the reader stood.
        wanted: Position,
        /// Where the log ends.
        tail: Position,
    },
    /// Stored data is damaged. The reader goes on after a seek to `resume`.
    #[error("{code}: {} is damaged: partition {partition} cannot be read from position {position}; {lost_bytes} bytes are lost, reading goes on at {resume}: check the disk", path.display(), code = self.code())]
    Corrupt {
        /// The segment file.
        path: PathBuf,
        /// The partition.
        partition: u32,
        /// Where the damage begins.
        position: Position,
        /// Bytes until the next readable record, or the end of what is known.
        lost_bytes: u64,
        /// Where the next readable record begins.
        resume: Position,
    },
    /// An earlier failure left open what is durable. Nothing is acknowledged any more until the log is opened again.
    #[error("{code}: partition {partition} takes no more records since the storage failed ({cause}); repair that, then open the log again", code = self.code())]
    Poisoned {
        /// The partition.
        partition: u32,
        /// The failure.
        cause: String,
    },
    /// The log was closed while something still used it.
    #[error("{code}: log {log} was closed; while a process stops this is harmless, at any other time report it", code = self.code())]
    Closed {
        /// The log.
        log: String,
    },
    /// The log was opened for reading only.
    #[error("{code}: log {log} was opened for reading only, and nothing was written; leave writing to the process that holds it", code = self.code())]
    ReadOnly {
        /// The log.
        log: String,
    },
    /// Options that contradict each other.
    #[error("{code}: log option {option} = {value} {problem}", code = self.code())]
    Options {
        /// The key.
        option: &'static str,
        /// Its value.
        value: u64,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// The server of the log does not answer, or cannot be found.
    #[error("{code}: cannot {action}: {server} does not answer ({cause}); check that it runs and that its address is right", code = self.code())]
    Unreachable {
        /// The address, as it was configured.
        server: String,
        /// What was tried, as a verb with its object.
        action: String,
        /// What the client said.
        cause: String,
    },
    /// The server did not do it in time. Whether it will, is not known.
    #[error("{code}: cannot {action}: {server} did not finish within {waited_ms} ms; check its load and the network to it", code = self.code())]
    TimedOut {
        /// The address, as it was configured.
        server: String,
        /// What was tried, as a verb with its object.
        action: String,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// The server does not let us: log-in, access rights, or a certificate that is not trusted.
    #[error("{code}: cannot {action}: {server} refuses it ({cause}); check user, password, access rights and certificates", code = self.code())]
    Denied {
        /// The address, as it was configured.
        server: String,
        /// What was tried, as a verb with its object.
        action: String,
        /// What the server said.
        cause: String,
    },
    /// The server answered with an error.
    #[error("{code}: cannot {action}: {server} answers: {cause}; look into the log of the server if this goes on", code = self.code())]
    Server {
        /// The address, as it was configured.
        server: String,
        /// What was tried, as a verb with its object.
        action: String,
        /// What the server said.
        cause: String,
    },
    /// A topic or stream of that name is there, and is not a log of ours. It was not touched.
    #[error("{code}: {name} on {server} is not a log of Weir ({problem}); it was left as it is: choose another name, or remove it", code = self.code())]
    Occupied {
        /// The address, as it was configured.
        server: String,
        /// The topic or stream.
        name: String,
        /// How it was noticed.
        problem: String,
    },
    /// A setting of a server's log that cannot be followed.
    #[error("{code}: log setting {setting} = {value:?} {problem}", code = self.code())]
    Setting {
        /// The key.
        setting: &'static str,
        /// Its value; never a secret.
        value: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// The server came back without data that it had acknowledged, or with another log of the same name.
    #[error("{code}: {server} lost log {log} ({problem}); open it again to begin anew, and check the server's storage", code = self.code())]
    Lost {
        /// The address, as it was configured.
        server: String,
        /// The log.
        log: String,
        /// How it was noticed.
        problem: String,
    },
}

impl LogError {
    /// Every code that [`LogError::code`] can give, for the registry of codes.
    pub const CODES: [&'static str; 24] = [
        "WR0201", "WR0202", "WR0203", "WR0204", "WR0205", "WR0206", "WR0207", "WR0208", "WR0209", "WR0210", "WR0211",
        "WR0212", "WR0213", "WR0214", "WR0215", "WR0216", "WR0217", "WR0220", "WR0221", "WR0222", "WR0223", "WR0224",
        "WR0225", "WR0226",
    ];

    /// The stable code, under which the manual explains the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "WR0201",
            Self::StorageFull { .. } => "WR0202",
            Self::Locked { .. } => "WR0203",
            Self::NotFound { .. } => "WR0204",
            Self::Foreign { .. } => "WR0205",
            Self::NewerFormat { .. } => "WR0206",
            Self::PartitionCount { .. } => "WR0207",
            Self::PartitionHash { .. } => "WR0208",
            Self::OtherIncarnation { .. } => "WR0209",
            Self::NoSuchPartition { .. } => "WR0210",
            Self::RecordTooLarge { .. } => "WR0211",
            Self::Truncated { .. } => "WR0212",
            Self::BeyondTail { .. } => "WR0213",
            Self::Corrupt { .. } => "WR0214",
            Self::Poisoned { .. } => "WR0215",
            Self::Closed { .. } | Self::ReadOnly { .. } => "WR0216",
            Self::Options { .. } => "WR0217",
            Self::Unreachable { .. } => "WR0220",
            Self::TimedOut { .. } => "WR0221",
            Self::Denied { .. } => "WR0222",
            Self::Server { .. } => "WR0223",
            Self::Occupied { .. } => "WR0224",
            Self::Setting { .. } => "WR0225",
            Self::Lost { .. } => "WR0226",
        }
    }

    /// Whether the same call may work later, without anybody opening the log again or moving the reader.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Io { .. }
                | Self::StorageFull { .. }
                | Self::Locked { .. }
                | Self::NotFound { .. }
                | Self::Unreachable { .. }
                | Self::TimedOut { .. }
                | Self::Denied { .. }
                | Self::Server { .. }
        )
    }

    /// Whether the log has to be opened again before anything works: what was asked is not at fault, the log is.
    #[must_use]
    pub fn needs_reopening(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Poisoned { .. } | Self::Closed { .. })
    }

    /// Wraps what the operating system said about a file.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Self::StorageFull { action, path };
        }
        Self::Io { action, path, source: Arc::new(source) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_apart_from_other_failures() {
        let path = Path::new("log/00/0.seg");
        let full = LogError::io("write", path, io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(
            full.to_string(),
            "WR0202: no space left to write log/00/0.seg; free space, or lower `retain_bytes`"
        );
        assert!(full.is_retryable());
        let other = LogError::io("read", path, io::Error::from(io::ErrorKind::PermissionDenied));
        assert_eq!(other.code(), "WR0201");
    }

    #[test]
    fn messages_say_what_is_wrong_where_and_what_to_do() {
        let error = LogError::Truncated {
            partition: 2,
            wanted: Position::from_raw(10),
            head: Position::from_raw(64),
            lost: Distance { bytes: Some(54), records: None },
        };
        assert_eq!(
            error.to_string(),
            "WR0212: position 10 of partition 2 is gone, the log now begins at 64; 54 bytes are lost to this reader: go on \
             at the head, and retain longer if this happens again"
        );
        assert!(!error.is_retryable());
    }

    #[test]
    fn errors_of_a_log_that_is_not_to_be_used_say_what_to_do() {
        let log = || "metrics".to_owned();
        let (server, action, cause) = ("kafka:9092".to_owned(), "append".to_owned(), "not enough replicas".to_owned());
        for (error, text) in [
            (
                LogError::Closed { log: log() },
                "WR0216: log metrics was closed; while a process stops this is harmless, at any other time report it",
            ),
            (
                LogError::ReadOnly { log: log() },
                "WR0216: log metrics was opened for reading only, and nothing was written; leave writing to the process \
                 that holds it",
            ),
            (
                LogError::NoSuchPartition { log: log(), partition: 4, partitions: 4 },
                "WR0210: log metrics has partitions 0 to 3, not 4; name one of these",
            ),
            (
                LogError::Server { server, action, cause },
                "WR0223: cannot append: kafka:9092 answers: not enough replicas; look into the log of the server if this \
                 goes on",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
