//! One call to a JobManager, whoever answers it.

use futures::future::BoxFuture;
use thiserror::Error;

/// Methods that Flink's REST API knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Asks.
    Get,
    /// Starts something.
    Post,
    /// Replaces something.
    Put,
    /// Changes something.
    Patch,
    /// Removes something.
    Delete,
}

impl Method {
    /// The method as HTTP writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// A call to Flink's REST API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub method: Method,
    /// Path and query, encoded already; begins with a slash.
    pub path: String,
    /// JSON, where the call has a body.
    pub body: Option<String>,
}

impl Request {
    /// A question.
    #[must_use]
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::Get, path: path.into(), body: None }
    }
}

/// What came back. It may be anything: proxies answer too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Body, whole.
    pub body: Vec<u8>,
}

/// Why a call gave no answer at all.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// No connection, or it broke before an answer began.
    #[error("nobody answers ({0}): check the address, and whether the JobManager runs")]
    Unreachable(String),
    /// The encrypted connection could not be made.
    #[error("no trusted connection ({0}): check the certificate authority file and the host name in the address")]
    Untrusted(String),
    /// No whole answer in time.
    #[error("no whole answer within {0} ms: the JobManager or a proxy is slow")]
    Timeout(i64),
    /// The answer is larger than what is read.
    #[error(
        "the answer is larger than {0} bytes and was not read: raise max_response_bytes if that is right for the job"
    )]
    TooLarge(usize),
    /// The connection ended within the answer.
    #[error("the answer broke off ({0}): a proxy or the JobManager closed the connection")]
    Truncated(String),
    /// The answer sends us elsewhere.
    #[error("redirected to {0}, which is not followed: give the final address of the JobManager")]
    Redirected(String),
    /// The request itself is not one.
    #[error("not a request that could be sent ({0})")]
    BadRequest(String),
}

impl CallError {
    /// Whether the same call may work a little later.
    #[must_use]
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Timeout(_) | Self::Truncated(_))
    }

    /// The stable code of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "WR0300",
            Self::Untrusted(_) => "WR0301",
            Self::Timeout(_) => "WR0302",
            Self::TooLarge(_) => "WR0303",
            Self::Truncated(_) => "WR0304",
            Self::Redirected(_) => "WR0305",
            Self::BadRequest(_) => "WR0306",
        }
    }
}

/// Something that answers Flink's REST calls. Calls may run at the same time; dropping a future gives its call up.
pub trait FlinkApi: Send + Sync {
    /// Makes one call. Any HTTP status is an answer.
    ///
    /// # Errors
    /// When no whole answer came; see [`CallError`].
    fn call<'a>(&'a self, request: Request) -> BoxFuture<'a, Result<Response, CallError>>;
}
