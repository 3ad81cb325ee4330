//! Flink's REST answers, decoded, and its client.
//!
//! - [`FlinkApi`]: one call to a JobManager, whoever answers it; [`HttpApi`] asks a real one;
//! - [`decode`]: what the answers mean, without any I/O. Nothing in an answer is trusted: a value that makes no sense becomes
//!   absent and is counted, and never takes its neighbours with it;
//! - [`FlinkClient`]: typed calls over any [`FlinkApi`], with typed errors.

mod api;
mod client;
pub mod decode;
mod error;
mod http;
mod version;

pub use api::{CallError, FlinkApi, Method, Request, Response};
pub use client::FlinkClient;
pub use error::FlinkError;
pub use http::{Auth, HttpApi, HttpOptions, HttpOptionsError};
pub use version::Version;

/// A vertex of a job graph: Flink's id, 32 hexadecimal digits.
pub type VertexId = String;
