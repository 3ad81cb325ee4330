//! The contract suite that every log is run through.
//!
//! A log under test brings a [`LogFactory`]; [`check_all`] runs it through every behaviour, each on a log of its own. The
//! behaviours are public one by one too, to run the one that fails. A log whose server keeps retention or its incarnation to
//! itself says so in its [`Abilities`], and is not asked for those.
//!
//! A failed check panics, as tests do.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code: a check that fails, or that cannot build its input, stops there"
)]

mod outcomes;
mod reading;
mod retention;
mod support;
mod writing;

pub use outcomes::{repeated_batches_are_known_by_their_sequences, stalled_server_is_told_and_outlived};
pub use reading::{
    dropped_reads_lose_nothing, partitions_are_independent, positions_after_the_end_are_refused,
    reading_resumes_anywhere, slow_reader_misses_nothing, waiting_at_the_end_is_quiet,
};
pub use retention::{
    distance_grows_with_the_log, gap_at_the_head_is_told, readers_survive_truncation, remade_log_is_noticed,
    retention_by_age, retention_by_size,
};
pub use support::{Abilities, LogFactory, Setup, Site};
pub use writing::{
    batches_keep_their_order, concurrent_writers_keep_their_order, large_records_up_to_the_limit, order_is_kept,
    reopening_keeps_what_was_acknowledged, unknown_partitions_are_refused,
};

/// Runs a log through every behaviour.
///
/// # Panics
/// At the first behaviour that the log does not show.
pub async fn check_all(factory: &dyn LogFactory) {
    order_is_kept(factory).await;
    batches_keep_their_order(factory).await;
    concurrent_writers_keep_their_order(factory).await;
    large_records_up_to_the_limit(factory).await;
    unknown_partitions_are_refused(factory).await;
    reopening_keeps_what_was_acknowledged(factory).await;

    reading_resumes_anywhere(factory).await;
    slow_reader_misses_nothing(factory).await;
    waiting_at_the_end_is_quiet(factory).await;
    dropped_reads_lose_nothing(factory).await;
    partitions_are_independent(factory).await;
    positions_after_the_end_are_refused(factory).await;

    distance_grows_with_the_log(factory).await;
    gap_at_the_head_is_told(factory).await;
    readers_survive_truncation(factory).await;
    retention_by_age(factory).await;
    retention_by_size(factory).await;
    remade_log_is_noticed(factory).await;

    repeated_batches_are_known_by_their_sequences(factory).await;
    stalled_server_is_told_and_outlived(factory).await;
}
