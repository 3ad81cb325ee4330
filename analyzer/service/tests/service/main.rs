//! The analyzer as a service: who has which partition, and what happens when something around it fails.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its input should stop there")]

mod sharing;
mod stubborn;
mod troubles;
mod world;
