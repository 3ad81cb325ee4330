//! The commands, on a real control database, at a fixed time. What they print is compared with files beside the tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

mod controls;
mod explain;
mod history;
mod home;
mod names;
mod requests;
mod status;
