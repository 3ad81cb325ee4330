//! Every type that crosses a border between Weir's parts, and nothing that does anything.
//!
//! - [`identity`]: how jobs and runs are named;
//! - [`records`]: what the metrics stream carries (protobuf), and [`wire`]: its bytes;
//! - [`policy`] and [`control`]: what people want of a job;
//! - [`decision`] and [`report`]: what is right for a job, and why;
//! - [`outcome`]: what became of a command;
//! - [`event`]: the CloudEvents envelope in which decisions and outcomes are published;
//! - [`num`]: conversions of numbers that say what they lose.
//!
//! Wire types ignore fields that they do not know, so that older readers can follow newer writers.

pub mod control;
pub mod decision;
pub mod event;
pub mod identity;
pub mod num;
pub mod outcome;
pub mod policy;
pub mod report;
pub mod wire;

/// Protobuf types of the metrics stream; see `proto/records.proto`.
pub mod records {
    #![allow(
        clippy::all,
        clippy::pedantic,
        missing_docs,
        reason = "generated from proto/records.proto, documented there"
    )]
    include!(concat!(env!("OUT_DIR"), "/weir.v1.rs"));
}
mod columns;
