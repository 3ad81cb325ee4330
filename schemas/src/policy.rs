//! What a user wants of the jobs that a policy is for. The numbers of the default policy live here.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// How a job is judged and sized. Every key has a default; a configuration refuses keys that it does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Share of a subtask's capacity that the load may take, in (0, 1].
    pub utilisation: f64,
    /// Relative dead band around the sizing: less than this over or under a whole number of subtasks changes nothing.
    pub tolerance: f64,
    /// Longest time in which a backlog may be worked off after a stop, in milliseconds.
    pub recovery_objective_ms: i64,
    /// Expected length of the stop that a rescale costs, in milliseconds.
    pub expected_stop_ms: i64,
    /// Largest relative difference between two successive half-windows that still counts as agreement on the load.
    pub agreement: f64,
    /// Length of a half-window in refreshes of Flink's metrics; `half_window_longest_ms` caps it.
    pub half_window_refreshes: u32,
    /// Longest half-window, in milliseconds, where one refresh is not longer still.
    pub half_window_longest_ms: i64,
    /// After all subtasks run, how long their busy time teaches nothing, in milliseconds.
    pub warm_up_ms: i64,
    /// Quiet period before a shrink: as long as this, the smaller size must have been enough. In milliseconds.
    pub shrink_after_ms: i64,
    /// How much longer a pending shrink may wait for a restart that happens anyway, in milliseconds; 0: it does not wait.
    pub shrink_max_wait_ms: i64,
    /// Fewest subtasks of any vertex.
    pub min_parallelism: u32,
    /// Most subtasks of any vertex; absent: as many as the graph's max parallelism allows.
    pub max_parallelism: Option<u32>,
    /// Names of vertices that are never touched; `*` stands for any text.
    pub untouched_vertices: Vec<String>,
    /// Most restarts that Weir may cause within 24 hours.
    pub restarts_per_day: u32,
    /// Longest time for a rescaled job to run at its target, in milliseconds, on top of what Flink's own timers allow.
    pub settle_deadline_ms: i64,
    /// How long throughput is compared after a rescale before it counts as verified, in milliseconds.
    pub verify_for_ms: i64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            utilisation: 0.7,
            tolerance: 0.03,
            recovery_objective_ms: 300_000,
            expected_stop_ms: 30_000,
            agreement: 0.05,
            half_window_refreshes: 3,
            half_window_longest_ms: 10_000,
            warm_up_ms: 2_000,
            shrink_after_ms: 300_000,
            shrink_max_wait_ms: 0,
            min_parallelism: 1,
            max_parallelism: None,
            untouched_vertices: Vec::new(),
            restarts_per_day: 24,
            settle_deadline_ms: 120_000,
            verify_for_ms: 5_000,
        }
    }
}

impl Policy {
    /// Everything that is wrong with the policy, one sentence each; empty when it is sound.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut check = |sound: bool, problem: String| {
            if !sound {
                found.push(problem);
            }
        };
        check(
            self.utilisation > 0.0 && self.utilisation <= 1.0,
            format!(
                "utilisation = {} must lie in (0, 1]: it is the share of a subtask that load may take",
                self.utilisation
            ),
        );
        check((0.0..0.5).contains(&self.tolerance), format!("tolerance = {} must lie in [0, 0.5)", self.tolerance));
        check(
            self.agreement > 0.0 && self.agreement < 1.0,
            format!("agreement = {} must lie in (0, 1)", self.agreement),
        );
        check(
            self.recovery_objective_ms > self.expected_stop_ms,
            format!(
                "recovery_objective_ms = {} must be longer than expected_stop_ms = {}",
                self.recovery_objective_ms, self.expected_stop_ms
            ),
        );
        check(self.half_window_refreshes > 0, "half_window_refreshes must be at least 1".into());
        check(self.min_parallelism > 0, "min_parallelism must be at least 1".into());
        if let Some(max) = self.max_parallelism {
            let min = self.min_parallelism;
            check(max >= min, format!("max_parallelism = {max} must not be below min_parallelism = {min}"));
        }
        for (name, value) in [
            ("expected_stop_ms", self.expected_stop_ms),
            ("half_window_longest_ms", self.half_window_longest_ms),
            ("warm_up_ms", self.warm_up_ms),
            ("shrink_after_ms", self.shrink_after_ms),
            ("shrink_max_wait_ms", self.shrink_max_wait_ms),
            ("settle_deadline_ms", self.settle_deadline_ms),
            ("verify_for_ms", self.verify_for_ms),
        ] {
            check(value >= 0, format!("{name} = {value} must not be negative"));
        }
        found
    }

    /// A stable digest of the policy, 16 hexadecimal digits: part of every decision's id.
    #[must_use]
    pub fn digest(&self) -> String {
        // A policy holds numbers, text and lists only, so that writing it as JSON cannot fail.
        let text = serde_json::to_vec(self).unwrap_or_default();
        format!("{:016x}", xxh3_64(&text))
    }
}

/// Whether `name` fits `pattern`, in which `*` stands for any text, also none.
#[must_use]
pub fn fits(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    let mut rest = rest;
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_policy_is_sound() {
        assert_eq!(Policy::default().problems(), Vec::<String>::new());
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let wrong = Policy {
            utilisation: f64::NAN,
            min_parallelism: 4,
            max_parallelism: Some(2),
            recovery_objective_ms: 10,
            ..Policy::default()
        };
        assert_eq!(wrong.problems().len(), 3, "{:?}", wrong.problems());
    }

    #[test]
    fn the_digest_changes_with_the_policy_alone() {
        let other = Policy { utilisation: 0.8, ..Policy::default() };
        assert_eq!(Policy::default().digest(), Policy::default().digest());
        assert_ne!(Policy::default().digest(), other.digest());
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "orders", true),
            ("orders", "orders", true),
            ("orders", "orders2", false),
            ("ord*", "orders", true),
            ("*ers", "orders", true),
            ("o*d*s", "orders", true),
            ("o*x*s", "orders", false),
            ("a*a", "a", false),
            ("Sink: *", "Sink: kafka", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern:?} on {name:?}");
        }
    }
}
