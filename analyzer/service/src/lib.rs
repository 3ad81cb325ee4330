//! The service around the engine: it reads the metrics stream, lets the engine decide, and commits state, positions, decisions and
//! what is to be published in one transaction.
//!
//! - [`Options`]: its section of the configuration;
//! - [`Analyzer`]: owns the partitions; [`Analyzer::step`] is one pass, [`Analyzer::run`] goes on until it is told to stop;
//! - [`AnalyzerError`]: what ends it.
//!
//! Exactly once comes from the commit alone: what was not committed is read again, and gives the same decisions with the same
//! ids; what was committed is never decided again, since the state and the position are one.

mod control;
mod error;
mod partition;
mod parts;
mod service;

pub use error::AnalyzerError;
pub use parts::{Options, Parts};
pub use service::{Analyzer, StepReport};
