//! What Flink's answers mean. Pure: bytes in, values out.
//!
//! Unknown fields are ignored. A value that makes no sense is absent and counted in [`Problems`]; the values beside it stay.

mod checkpoints;
mod cluster;
mod config;
mod failure;
mod jobs;
mod lenient;
mod metrics;
mod requirements;
mod vertex;

use std::ops::Deref;

use thiserror::Error;

pub use checkpoints::{
    CheckpointStatus, Checkpoints, CheckpointsConfig, CompletedCheckpoint, Restored, checkpoint_status, checkpoints,
    checkpoints_config, trigger,
};
pub use cluster::{
    MemoryPools, Overview, TaskManager, TaskManagerDetail, WebConfig, overview, task_manager, task_managers, web_config,
};
pub use config::{AdaptiveTimers, JobManagerConfig, Scheduler, duration_ms, job_manager_config};
pub use failure::{Failure, failure};
pub use jobs::{Edge, JobConfig, JobDetail, JobState, JobSummary, JobVertex, job, job_config, jobs};
pub use metrics::{
    Aggregate, MetricValue, aggregates, metric_names, metric_values, pending_records_names, split_count,
};
pub use requirements::{Bounds, Requirements, RescaleTimers, requirements, requirements_body, rescale_timers};
pub use vertex::{IoMetrics, Subtask, VertexDetail, vertex};

pub(crate) use lenient::{excerpt, sanitised};

/// A decoded answer, with what was wrong in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decoded<T> {
    /// What it says.
    pub value: T,
    /// Values that were refused.
    pub problems: Problems,
}

impl<T> Deref for Decoded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Values of an answer that were refused: how many, and the first ones by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems {
    count: u64,
    examples: Vec<String>,
    place: String,
}

/// Names that are kept of refused values.
const EXAMPLES: usize = 4;

impl Problems {
    /// How many values were refused.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Names of the first ones.
    #[must_use]
    pub fn examples(&self) -> &[String] {
        &self.examples
    }

    /// What follows lies in `place`.
    fn enter(&mut self, place: impl Into<String>) {
        self.place = place.into();
    }

    fn note(&mut self, name: &str) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            let place = sanitised(&self.place, 80);
            self.examples.push(if place.is_empty() { name.to_owned() } else { format!("{place}: {name}") });
        }
    }
}

/// Bytes that are not the answer that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Nothing at all.
    #[error("the answer is empty")]
    Empty,
    /// A web page, or other text.
    #[error("not JSON: {received:?}")]
    NotJson {
        /// Its first characters.
        received: String,
    },
    /// JSON that ends too early.
    #[error("the answer breaks off after {bytes} bytes")]
    Truncated {
        /// Length of what came.
        bytes: usize,
    },
    /// JSON with an error in it.
    #[error("broken JSON: {why}")]
    Broken {
        /// What the parser says.
        why: String,
    },
    /// JSON of something else.
    #[error("{expected} was expected, not {received:?}")]
    Shape {
        /// What was expected.
        expected: &'static str,
        /// Its first characters.
        received: String,
    },
}
