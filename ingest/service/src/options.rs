//! What is collected, and how eagerly.

use std::sync::Arc;

use serde::Deserialize;
use weir_flink::FlinkApi;
use weir_schemas::policy::fits;

/// The collector's section of the configuration. Unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Time between two rounds of a job that changes, in milliseconds; absent: Flink's own refresh interval. It is never
    /// shorter than that, since such samples would repeat each other.
    pub quick_ms: Option<i64>,
    /// After this long without any change, in milliseconds, a job is read half as often, if that is within five seconds.
    pub calm_after_ms: i64,
    /// Time between the call that makes Flink fetch its metrics and the first reading of them, in milliseconds.
    pub settle_ms: i64,
    /// Longest time for one call about the cluster, in milliseconds.
    pub call_deadline_ms: i64,
    /// Calls to a JobManager at the same time.
    pub concurrency: usize,
    /// TaskManagers that are asked for their metrics in a round; beyond that they take turns.
    pub task_managers_a_round: usize,
    /// How often the JobManager's configuration is read again, in milliseconds.
    pub facts_every_ms: i64,
    /// Longest pause after failures, in milliseconds.
    pub longest_pause_ms: i64,
    /// Largest part of a metric batch, in bytes before compression.
    pub part_bytes: usize,
    /// Bytes of records, before compression, that are kept in memory for each cluster while the log does not take them; beyond
    /// that the oldest are dropped and counted.
    pub spill_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            quick_ms: None,
            calm_after_ms: 60_000,
            settle_ms: 150,
            call_deadline_ms: 5_000,
            concurrency: 8,
            task_managers_a_round: 16,
            facts_every_ms: 600_000,
            longest_pause_ms: 60_000,
            part_bytes: 700_000,
            spill_bytes: 64 << 20,
        }
    }
}

impl Options {
    /// Everything that is wrong with the options, one sentence each; empty when they are sound.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let positive = [
            ("quick_ms", self.quick_ms.unwrap_or(1)),
            ("calm_after_ms", self.calm_after_ms),
            ("call_deadline_ms", self.call_deadline_ms),
            ("facts_every_ms", self.facts_every_ms),
            ("longest_pause_ms", self.longest_pause_ms),
        ];
        let mut found: Vec<String> = positive
            .into_iter()
            .filter(|&(_, value)| value <= 0)
            .map(|(name, value)| format!("{name} = {value} must be positive"))
            .collect();
        if self.settle_ms < 0 {
            found.push(format!("settle_ms = {} must not be negative", self.settle_ms));
        }
        for (name, value, least) in [
            ("concurrency", self.concurrency, 1),
            ("part_bytes", self.part_bytes, 10_000),
            ("spill_bytes", self.spill_bytes, 1),
        ] {
            if value < least {
                found.push(format!("{name} = {value} must be at least {least}"));
            }
        }
        found
    }
}

/// A cluster to watch.
#[derive(Clone)]
pub struct ClusterSpec {
    /// Its configured name, never its address.
    pub name: String,
    /// How its JobManager is asked.
    pub api: Arc<dyn FlinkApi>,
    /// Patterns of job names that are watched; none: all.
    pub include: Vec<String>,
    /// Patterns of job names that are left alone; they outrank `include`.
    pub exclude: Vec<String>,
}

impl ClusterSpec {
    /// A cluster all of whose jobs are watched.
    #[must_use]
    pub fn new(name: impl Into<String>, api: Arc<dyn FlinkApi>) -> Self {
        Self { name: name.into(), api, include: Vec::new(), exclude: Vec::new() }
    }

    /// Whether a job of this name is watched.
    #[must_use]
    pub fn watches(&self, job: &str) -> bool {
        let fits_one = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, job));
        (self.include.is_empty() || fits_one(&self.include)) && !fits_one(&self.exclude)
    }
}
