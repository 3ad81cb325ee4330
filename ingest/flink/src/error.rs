//! Why a call to Flink gave nothing.

use thiserror::Error;

use crate::CallError;
use crate::decode::{DecodeError, Failure, excerpt, failure};

/// Why a call to Flink gave nothing. Each says where, what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlinkError {
    /// No answer at all.
    #[error("{code}: {path}: {source}", code = self.code())]
    Call {
        /// What was asked.
        path: String,
        /// Why nobody answered.
        source: CallError,
    },
    /// What was asked for is not there.
    #[error("{code}: {path}: {reason}; it ended, or never was here: look at the list of jobs", code = self.code())]
    NotFound {
        /// What was asked.
        path: String,
        /// Flink's words.
        reason: String,
    },
    /// There is no such endpoint.
    #[error("{code}: {path}: Flink knows no such endpoint; its version has none, or the address has a path too much", code = self.code())]
    NoEndpoint {
        /// What was asked.
        path: String,
    },
    /// Another change is under way.
    #[error("{code}: {path}: {reason}; try again in a moment", code = self.code())]
    Conflict {
        /// What was asked.
        path: String,
        /// Flink's words.
        reason: String,
    },
    /// The JobManager is busy with itself, or a proxy cannot reach it.
    #[error("{code}: {path}: HTTP {status}: {reason}; the JobManager is starting, changing leaders or away: try again in a \
             moment", code = self.code())]
    Unavailable {
        /// What was asked.
        path: String,
        /// HTTP status.
        status: u16,
        /// Flink's words, or the beginning of what came instead.
        reason: String,
    },
    /// Whoever answers wants credentials, or other ones.
    #[error("{code}: {path}: HTTP {status}: not allowed; check the user and password or the token", code = self.code())]
    Denied {
        /// What was asked.
        path: String,
        /// HTTP status.
        status: u16,
    },
    /// Flink refused.
    #[error("{code}: {path}: Flink refused with HTTP {status}: {reason}", code = self.code())]
    Refused {
        /// What was asked.
        path: String,
        /// HTTP status.
        status: u16,
        /// Flink's words.
        reason: String,
    },
    /// The job's scheduler cannot do that.
    #[error("{code}: {path}: {reason}; set jobmanager.scheduler: adaptive to let parallelism be changed in place", code = self.code())]
    WrongScheduler {
        /// What was asked.
        path: String,
        /// Flink's words.
        reason: String,
    },
    /// Something else answers under the address.
    #[error("{code}: {path}: HTTP {status}: this is not Flink's REST API, it answered {received:?}; check the address and \
             its path", code = self.code())]
    NotFlink {
        /// What was asked.
        path: String,
        /// HTTP status.
        status: u16,
        /// The beginning of what came.
        received: String,
    },
    /// The answer cannot be read.
    #[error("{code}: {path}: {source}; if it stays so, report it with Flink's version", code = self.code())]
    Undecodable {
        /// What was asked.
        path: String,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// A version that Weir does not work with.
    #[error("{code}: Flink {0} is too old: Weir needs 1.18 or newer, which can change parallelism in place", code = self.code())]
    UnsupportedVersion(String),
    /// Requirements that must not be sent, since Flink would refuse them or die of them.
    #[error("{code}: requirements of job {job} were not sent: {why}", code = self.code())]
    BadRequirements {
        /// The job.
        job: String,
        /// What is wrong with them.
        why: String,
    },
}

impl FlinkError {
    /// Every code that [`FlinkError::code`] can give, for the registry of codes.
    pub const CODES: [&'static str; 18] = [
        "WR0300", "WR0301", "WR0302", "WR0303", "WR0304", "WR0305", "WR0306", "WR0310", "WR0311", "WR0312", "WR0313",
        "WR0314", "WR0315", "WR0316", "WR0317", "WR0318", "WR0319", "WR0325",
    ];

    /// The stable code, under which the manual explains the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Call { source, .. } => source.code(),
            Self::NotFound { .. } => "WR0310",
            Self::Conflict { .. } => "WR0311",
            Self::Unavailable { .. } => "WR0312",
            Self::Denied { .. } => "WR0313",
            Self::Refused { .. } => "WR0314",
            Self::WrongScheduler { .. } => "WR0315",
            Self::NotFlink { .. } => "WR0316",
            Self::Undecodable { .. } => "WR0317",
            Self::UnsupportedVersion(_) => "WR0318",
            Self::BadRequirements { .. } => "WR0319",
            Self::NoEndpoint { .. } => "WR0325",
        }
    }

    /// Whether the same call may work a little later.
    #[must_use]
    pub fn retryable(&self) -> bool {
        match self {
            Self::Call { source, .. } => source.retryable(),
            Self::Undecodable { source, .. } => matches!(source, DecodeError::Truncated { .. } | DecodeError::Empty),
            Self::Conflict { .. } | Self::Unavailable { .. } => true,
            _ => false,
        }
    }

    /// What an answer with an error status means.
    pub(crate) fn of_status(path: &str, status: u16, body: &[u8]) -> Self {
        let path = path.to_owned();
        let Ok(Failure { text, reason }) = failure(body) else {
            let received = excerpt(body);
            return match status {
                401 | 403 | 407 => Self::Denied { path, status },
                429 | 502..=504 => Self::Unavailable { path, status, reason: received },
                _ => Self::NotFlink { path, status, received },
            };
        };
        let failure = Failure { text, reason };
        if status == 404 && failure.says_no_endpoint() {
            return Self::NoEndpoint { path };
        }
        if status == 404 || failure.says_not_found() {
            return Self::NotFound { path, reason: failure.reason };
        }
        let reason = failure.reason;
        match status {
            401 | 403 | 407 => Self::Denied { path, status },
            409 => Self::Conflict { path, reason },
            503 => Self::Unavailable { path, status, reason },
            500 if failure.text.contains("UnsupportedOperationException") => Self::WrongScheduler { path, reason },
            _ => Self::Refused { path, status, reason },
        }
    }

    /// What an answer that cannot be decoded means.
    pub(crate) fn of_decode(path: &str, status: u16, source: DecodeError) -> Self {
        let path = path.to_owned();
        match source {
            DecodeError::NotJson { received } => Self::NotFlink { path, status, received },
            source => Self::Undecodable { path, source },
        }
    }
}
