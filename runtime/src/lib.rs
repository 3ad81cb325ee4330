//! What every service needs and none should write again.
//!
//! - [`Clock`]: the only way in which a service learns the time or waits; [`RealClock`] for production,
//!   [`VirtualClock`] for the demo and the tests;
//! - [`Backoff`]: how long to wait after failures;
//! - [`Health`]: how the services of a process are;
//! - [`Tasks`]: named tasks that end together;
//! - [`telemetry`]: names of all metrics, and the page that shows them.

mod backoff;
mod clock;
mod health;
mod tasks;
pub mod telemetry;
mod virtual_clock;

pub use backoff::{Backoff, seed_of};
pub use clock::{Clock, Elapsed, RealClock, within};
pub use health::{Health, Pulse};
pub use tasks::{TaskFailure, Tasks};
pub use virtual_clock::VirtualClock;
