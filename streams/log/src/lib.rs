//! One small log interface and the logs behind it.
//!
//! A [`Log`] is a set of numbered partitions. Records are appended to a partition and read from it in the same order. Three
//! promises hold for every log, and the contract suite in `weir-log-contract` checks them:
//!
//! - **an append that returned `Ok` is durable**, and no acknowledged record is ever lost while it lies inside retention;
//! - **a reader sees every record once, in order**, or gets a typed error that says what is missing and where to go on;
//! - **nothing is dropped in silence**: what is cut, skipped or refused is reported and counted in [`LogStats`].
//!
//! What is *not* promised: an append that failed, or whose future was dropped, may or may not have been stored. Whoever
//! tries again must be ready to read a record twice.
//!
//! Two logs live here: [`EmbeddedLog`], segment files in a directory, which needs no server, and [`MemoryLog`] for tests.
//! [`EmbeddedLogView`] looks at an embedded log without taking its lock, from the same or from another process.
//!
//! Nothing here reads the wall clock: the time of a record and the time at which retention is judged are arguments.

mod api;
mod embedded;
mod error;
mod hash;
mod memory;
mod position;
mod stats;

pub use api::{BoxFuture, Log, LogInfo, LogReader, LogWriter, Record};
pub use embedded::{Damage, EmbeddedLog, EmbeddedLogView, EmbeddedOptions, RecoveryReport};
pub use error::LogError;
pub use hash::{PARTITION_HASH, partition_of};
pub use memory::{MemoryLog, MemoryOptions};
pub use position::{Distance, Incarnation, ParseIncarnationError, Position, StoredPosition};
pub use stats::{Counters, LogStats};
