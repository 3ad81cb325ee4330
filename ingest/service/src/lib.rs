//! The collector: from Flink clusters to metric batches.
//!
//! A [`Collector`] watches one cluster. It finds its jobs by itself and samples them in rounds: one call makes Flink fetch all
//! metrics, then every job that is due is read inside that one fetch, and leaves as a metric batch through a [`RecordSink`]. What
//! could not be read leaves as a record too, so that a silent job is still judged. Rates are never computed here: batches carry
//! counters, with the attempt that they belong to.
//!
//! [`first_contact`] looks at a cluster once and says in plain lines what it is and what stands in the way.

mod batch;
mod calls;
mod calm;
mod cluster;
mod collector;
mod contact;
mod movement;
mod once;
mod options;
mod read;
mod report;
mod sink;
mod watched;

pub use collector::{Collector, Producer};
pub use contact::{FirstContact, JobContact, first_contact};
pub use options::{ClusterSpec, Options};
pub use report::{Refusal, RoundReport};
pub use sink::{Drain, LogSink, RecordSink, SinkError};
