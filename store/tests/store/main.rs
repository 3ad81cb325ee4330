//! The control database on real files: what is committed is there, and nothing else.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

mod actions;
mod commit;
mod controls;
mod crash;
mod leases;
mod opening;
mod prune;
mod sharing;
mod support;
