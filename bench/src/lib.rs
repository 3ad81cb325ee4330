//! What the benchmarks share: how long they measure, and a job whose rounds are made by arithmetic.
//!
//! What each benchmark is about, how to run it and what came out is in `docs/performance.md`. Nothing here is a test: a
//! figure depends on the machine, and none is asserted.

mod job;

use std::time::Duration;

use criterion::Criterion;

pub use job::SyntheticJob;

/// Measures briefly, since all of it is to run within a few minutes; `cargo bench -- --measurement-time 10` measures longer.
#[must_use]
pub fn criterion() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1_500))
        .sample_size(20)
        .nresamples(10_000)
        .without_plots()
        .configure_from_args()
}
