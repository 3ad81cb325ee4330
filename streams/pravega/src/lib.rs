//! The log on a Pravega cluster.
//!
//! A partition is a stream with one segment. Records are written as events, so that other clients of Pravega can read them, and
//! read as bytes, so that a position is an offset that we keep ourselves: the reader groups of the client lose data and
//! progress when a segment moves or is truncated.
//!
//! The client reports many failures by panicking, and others not at all. Everything of it runs in tasks on threads of its own;
//! a panic, an answer that does not come, and a server that lost the log each become a [`weir_streams::LogError`], and what
//! failed is made anew, with growing pauses. [`weir_streams::LogStats`] counts how often. A release profile with `panic = "abort"` would
//! turn all of that into the end of the program.

mod birth;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod fault_tests;
mod feed;
mod frame;
mod lane;
mod link;
mod log;
mod options;
mod panics;
mod pause;
mod reader;
mod shared;
mod writer;

pub use log::PravegaLog;
pub use options::{Auth, PravegaOptions, Retention, Timeouts};
pub use panics::contain_client_panics;
