//! How an action reaches a cluster, and how it is seen there.
//!
//! A [`Driver`] observes a job and carries effects out; it decides nothing, tries nothing twice and remembers nothing
//! that matters. [`FlinkRest`] does so over Flink's REST API.

mod driver;
mod flink_rest;
mod look;

pub use driver::{BoxFuture, Driver, DriverError, Executed, Look};
pub use flink_rest::{FlinkRest, FlinkRestOptions};
