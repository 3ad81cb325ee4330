//! Weir: every service and every command of the one binary.
//!
//! - [`config`]: the configuration;
//! - [`assembly`]: puts the services together;
//! - [`run`] and [`demo`]: run them, on real clusters and on a simulated one;
//! - [`streams`]: looks at the logs;
//! - [`commands`]: look at, and change, what is in the control database;
//! - [`cli`]: from arguments to an exit code.

pub mod assembly;
pub mod cli;
pub mod commands;
pub mod config;
pub mod demo;
pub mod error;
pub mod events;
pub mod exit;
pub mod http;
mod load;
pub mod output;
pub mod run;
pub mod sim_api;
pub mod simulate;
pub mod streams;
