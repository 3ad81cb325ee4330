//! `/jobmanager/config`: the cluster's configuration, and what of it matters.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::lenient::{List, Loose, Object, Written, document};
use super::{DecodeError, Decoded, Problems};

/// What places a job's subtasks on slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// Parallelism can be changed in place.
    Adaptive,
    /// Parallelism is fixed for a run.
    Default,
    /// Parallelism follows the number of slots.
    Reactive,
}

impl Scheduler {
    /// Reads the name that Flink gives a job's scheduler.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "adaptive" => Some(Self::Adaptive),
            "default" | "ng" => Some(Self::Default),
            "reactive" => Some(Self::Reactive),
            _ => None,
        }
    }

    /// The name, as metric batches carry it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Adaptive => "Adaptive",
            Self::Default => "Default",
            Self::Reactive => "Reactive",
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How long the adaptive scheduler waits for what, in milliseconds; absent: Flink's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdaptiveTimers {
    /// Between two rescales.
    pub cooldown_ms: Option<i64>,
    /// For more slots, once there are enough to go on.
    pub stabilization_ms: Option<i64>,
    /// For a checkpoint, at most.
    pub max_delay_ms: Option<i64>,
    /// For slots when a job starts.
    pub submission_wait_ms: Option<i64>,
}

/// The JobManager's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobManagerConfig(BTreeMap<String, String>);

/// Metrics are fetched this often where nothing is configured, in milliseconds.
const DEFAULT_FETCH_INTERVAL_MS: i64 = 10_000;
/// The prefix of what concerns the adaptive scheduler.
const ADAPTIVE: &str = "jobmanager.adaptive-scheduler.";

impl JobManagerConfig {
    /// A value.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// How often Flink refreshes the metrics that it serves, in milliseconds.
    #[must_use]
    pub fn fetch_interval_ms(&self) -> i64 {
        let configured = self.get("metrics.fetcher.update-interval").and_then(duration_ms);
        configured.filter(|&interval| interval > 0).unwrap_or(DEFAULT_FETCH_INTERVAL_MS)
    }

    /// How long answers about jobs are cached, in milliseconds.
    #[must_use]
    pub fn web_refresh_interval_ms(&self) -> Option<i64> {
        self.get("web.refresh-interval").and_then(duration_ms)
    }

    /// The configured scheduler. Jobs may say otherwise of themselves.
    #[must_use]
    pub fn scheduler(&self) -> Option<Scheduler> {
        if self.get("scheduler-mode").is_some_and(|mode| mode.eq_ignore_ascii_case("reactive")) {
            return Some(Scheduler::Reactive);
        }
        self.get("jobmanager.scheduler").map_or(Some(Scheduler::Default), Scheduler::of)
    }

    /// How often checkpoints are taken unless a job says otherwise, in milliseconds.
    #[must_use]
    pub fn checkpoint_interval_ms(&self) -> Option<i64> {
        self.get("execution.checkpointing.interval").and_then(duration_ms).filter(|&interval| interval > 0)
    }

    /// The adaptive scheduler's timers, by the names of all versions.
    #[must_use]
    pub fn adaptive_timers(&self) -> AdaptiveTimers {
        let first =
            |names: &[&str]| names.iter().find_map(|name| self.get(&format!("{ADAPTIVE}{name}")).and_then(duration_ms));
        AdaptiveTimers {
            cooldown_ms: first(&["executing.cooldown-after-rescaling", "scaling-interval.min"]),
            stabilization_ms: first(&["executing.resource-stabilization-timeout", "scaling-interval.max"]),
            max_delay_ms: first(&["rescale-trigger.max-delay", "max-delay-for-scale-trigger"]),
            submission_wait_ms: first(&["submission.resource-wait-timeout", "resource-wait-timeout"]),
        }
    }

    /// Another autoscaler that the configuration names, in words.
    #[must_use]
    pub fn rival(&self) -> Option<String> {
        rival_in(&self.0)
    }
}

/// Another autoscaler that configuration entries switch on, in words.
pub(super) fn rival_in(entries: &BTreeMap<String, String>) -> Option<String> {
    let set = |key: &str, wanted: &str| entries.get(key).is_some_and(|value| value.trim().eq_ignore_ascii_case(wanted));
    ["job.autoscaler.", "kubernetes.operator.job.autoscaler."].into_iter().find_map(|prefix| {
        let enabled = format!("{prefix}enabled");
        // With scaling off it only collects metrics.
        let acts = set(&enabled, "true") && !set(&format!("{prefix}scaling.enabled"), "false");
        acts.then(|| format!("Flink's autoscaler ({enabled} = true)"))
    })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawEntry {
    key: Loose<String>,
    value: Loose<Written>,
}

/// Reads `/jobmanager/config`.
///
/// # Errors
/// If it is no JSON list.
pub fn job_manager_config(body: &[u8]) -> Result<Decoded<JobManagerConfig>, DecodeError> {
    let raw: List<Object<RawEntry>> = document(body, "a list of configuration entries")?;
    let mut problems = Problems::default();
    let mut value = JobManagerConfig::default();
    for Object(entry) in Loose::Value(raw).items("entry", &mut problems) {
        let key = entry.key.take("key", &mut problems);
        match (key, entry.value.take("value", &mut problems)) {
            (Some(key), Some(Written(text))) => {
                value.0.insert(key, text);
            }
            (None, _) => problems.note("entry without a key"),
            (Some(_), None) => {}
        }
    }
    Ok(Decoded { value, problems })
}

/// Reads a length of time as Flink's configuration writes it: `10 s`, `5000ms`, `1 min`; without a unit it is milliseconds.
#[must_use]
pub fn duration_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: i64 = text[..end].parse().ok()?;
    let factor = match text[end..].trim().to_ascii_lowercase().as_str() {
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => return Some(number / 1_000),
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => return Some(number / 1_000_000),
        _ => return None,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(entries: &[(&str, &str)]) -> JobManagerConfig {
        JobManagerConfig(entries.iter().map(|&(key, value)| (key.into(), value.into())).collect())
    }

    #[test]
    fn lengths_of_time_are_read_with_and_without_units() {
        let read: Vec<Option<i64>> =
            ["1000", "10 s", "5000ms", "1 min", "2h", "1 d", "7 us", "1.5 s", "s", "", "9223372036854775807 d"]
                .into_iter()
                .map(duration_ms)
                .collect();
        let expected = [
            Some(1_000),
            Some(10_000),
            Some(5_000),
            Some(60_000),
            Some(7_200_000),
            Some(86_400_000),
            Some(0),
            None,
            None,
            None,
            None,
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn reactive_mode_outranks_the_schedulers_name() {
        assert_eq!(config(&[]).scheduler(), Some(Scheduler::Default));
        let adaptive = ("jobmanager.scheduler", "adaptive");
        assert_eq!(config(&[adaptive]).scheduler(), Some(Scheduler::Adaptive));
        assert_eq!(config(&[adaptive, ("scheduler-mode", "REACTIVE")]).scheduler(), Some(Scheduler::Reactive));
        assert_eq!(config(&[("jobmanager.scheduler", "own.Scheduler")]).scheduler(), None);
    }

    #[test]
    fn a_rival_that_only_watches_is_none() {
        let on = ("job.autoscaler.enabled", "true");
        assert!(config(&[on]).rival().is_some());
        assert!(config(&[("kubernetes.operator.job.autoscaler.enabled", "TRUE")]).rival().is_some());
        assert_eq!(config(&[on, ("job.autoscaler.scaling.enabled", "false")]).rival(), None);
        assert_eq!(config(&[("job.autoscaler.enabled", "false")]).rival(), None);
    }

    #[test]
    fn refreshes_have_flinks_default() {
        assert_eq!(config(&[]).fetch_interval_ms(), 10_000);
        assert_eq!(config(&[("metrics.fetcher.update-interval", "1 s")]).fetch_interval_ms(), 1_000);
        assert_eq!(config(&[("metrics.fetcher.update-interval", "0")]).fetch_interval_ms(), 10_000);
    }
}
