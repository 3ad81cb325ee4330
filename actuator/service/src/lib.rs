//! The service that carries out decisions, and what people ask for.
//!
//! - [`Options`]: its section of the configuration;
//! - [`Actuator`]: [`Actuator::step`] is one pass, [`Actuator::run`] goes on until it is told to stop;
//! - [`ActuatorError`]: what makes a pass fail.
//!
//! It makes no choices: `weir-governor` says what follows from what is seen, this crate stores that and then does it. A
//! command is claimed in the database together with the position of the event that it came in, so that it is carried
//! out once. What an action is about to do is stored before it is done; after a crash the governor finds out by looking
//! whether it was done.

mod carry;
mod clusters;
mod epochs;
mod error;
mod inbox;
mod office;
mod requests;
mod rows;
mod service;

pub use error::ActuatorError;
pub use service::{Actuator, Options, Parts, StepReport};
