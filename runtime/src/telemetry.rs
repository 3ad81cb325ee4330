//! Metrics of Weir itself: every name with its help text, and the page that shows them.

use metrics::{Label, counter, describe_counter, describe_gauge};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};

/// Every metric that Weir shows: name, whether it is a counter (else a gauge), help text.
///
/// A name that is not listed here is not to be used.
pub const CATALOGUE: &[(&str, bool, &str)] = &[
    (
        FLINK_CALLS,
        true,
        "Calls to Flink's REST API, by cluster and result (ok, refused, undecodable, timeout, unreachable)",
    ),
    (ROUNDS, true, "Sampling rounds, by cluster"),
    (BATCHES, true, "Metric batches written, by cluster"),
    (SILENCES, true, "Rounds in which nothing came of a job, by cluster and reason"),
    (INPUT_PROBLEMS, true, "Answers or values of Flink that were refused, by cluster and reason"),
    (RECORDS_FOLDED, true, "Records of the metrics stream that were folded into state"),
    (
        RECORDS_REFUSED,
        true,
        "Records of the logs that were refused, by reason (undecodable, undecodable_event, bad_key, bad_body, incomplete_round, reordered, repeated, duplicate; the last is harmless)",
    ),
    (DECISIONS, true, "Decisions, by verdict (hold, rescale, cannot_help)"),
    (ACTIONS, true, "Actions that came to an end, by result"),
    (LOG_APPENDS, true, "Records that waited in the control database and were published, by log"),
    (LOG_BYTES_LOST, true, "Bytes of a log that were lost, by log and reason (torn, corrupt, truncated)"),
    (
        LOG_RECORDS_LOST,
        true,
        "Records of a log that were lost, where it counts them, by log and reason (truncated, corrupt)",
    ),
    (LOG_GAPS, true, "Gaps in a log, by log and reason (truncated, corrupt, beyond_tail, other_incarnation)"),
    (LOG_REOPENED, true, "Times that the logs were opened again, since the server had lost them"),
    (LOG_BYTES_APPENDED, true, "Bytes that a log has acknowledged to this process, its own overhead included, by log"),
    (LOG_BYTES_REMOVED, true, "Bytes that this process gave up in a log, past retention or truncated, by log"),
    (LOG_APPENDS_REFUSED, true, "Appends refused before anything was written, by log"),
    (LOG_APPENDS_FAILED, true, "Appends that failed, whose records may or may not be stored, by log"),
    (LOG_ACKNOWLEDGEMENTS_LATE, true, "Times that a server did not acknowledge in time, by log"),
    (LOG_WRITERS_RECREATED, true, "Times that what appends to a server had failed for good and was made anew, by log"),
    (LOG_READERS_RECREATED, true, "Times that what reads from a server had failed for good and was made anew, by log"),
    (LOG_PANICS_CONTAINED, true, "Panics of a server's client that ended a call, a writer or a reader only, by log"),
    (
        RECORDS_DROPPED,
        true,
        "Records dropped before they were acknowledged, by cluster and reason (spill_full, refused, log_lost, stopped)",
    ),
    (RECORDS_ACKNOWLEDGED, true, "Records that the log has acknowledged, by cluster"),
    (SPILL_BYTES, false, "Bytes of records that wait for the log, by cluster"),
    (JOBS, false, "Jobs that are watched, by cluster"),
    (STATE_AGE, false, "Seconds between the newest record that was folded into state and now, by partition"),
    (OUTBOX, false, "Records that wait in the control database to be published, by owner"),
    (
        OUTBOX_REFUSED,
        true,
        "Records that were too large to be published, and are in the control database alone, by log",
    ),
    (FROZEN, false, "1 while everything is frozen, else 0"),
];

/// Calls to Flink's REST API.
pub const FLINK_CALLS: &str = "weir_flink_calls_total";
/// Sampling rounds.
pub const ROUNDS: &str = "weir_ingest_rounds_total";
/// Metric batches written.
pub const BATCHES: &str = "weir_ingest_batches_total";
/// Rounds in which nothing came of a job.
pub const SILENCES: &str = "weir_ingest_silences_total";
/// Answers or values of Flink that were refused.
pub const INPUT_PROBLEMS: &str = "weir_ingest_problems_total";
/// Records folded into state.
pub const RECORDS_FOLDED: &str = "weir_analyzer_records_total";
/// Records refused.
pub const RECORDS_REFUSED: &str = "weir_analyzer_records_refused_total";
/// Decisions made.
pub const DECISIONS: &str = "weir_analyzer_decisions_total";
/// Actions ended.
pub const ACTIONS: &str = "weir_actuator_actions_total";
/// Records that were published from the control database.
pub const LOG_APPENDS: &str = "weir_log_appends_total";
/// Bytes of a log that were lost.
pub const LOG_BYTES_LOST: &str = "weir_log_bytes_lost_total";
/// Records of a log that were lost.
pub const LOG_RECORDS_LOST: &str = "weir_log_records_lost_total";
/// Gaps in a log.
pub const LOG_GAPS: &str = "weir_log_gaps_total";
/// Times that the logs were opened again.
pub const LOG_REOPENED: &str = "weir_log_reopened_total";
/// Bytes that a log has acknowledged.
pub const LOG_BYTES_APPENDED: &str = "weir_log_bytes_appended_total";
/// Bytes given up in a log.
pub const LOG_BYTES_REMOVED: &str = "weir_log_bytes_removed_total";
/// Appends refused before anything was written.
pub const LOG_APPENDS_REFUSED: &str = "weir_log_appends_refused_total";
/// Appends that failed.
pub const LOG_APPENDS_FAILED: &str = "weir_log_appends_failed_total";
/// Times that a server did not acknowledge in time.
pub const LOG_ACKNOWLEDGEMENTS_LATE: &str = "weir_log_acknowledgements_timed_out_total";
/// Times that what appends to a server was made anew.
pub const LOG_WRITERS_RECREATED: &str = "weir_log_writers_recreated_total";
/// Times that what reads from a server was made anew.
pub const LOG_READERS_RECREATED: &str = "weir_log_readers_recreated_total";
/// Panics of a server's client that were contained.
pub const LOG_PANICS_CONTAINED: &str = "weir_log_panics_contained_total";
/// Records dropped before they were acknowledged.
pub const RECORDS_DROPPED: &str = "weir_ingest_records_dropped_total";
/// Records that the log has acknowledged.
pub const RECORDS_ACKNOWLEDGED: &str = "weir_ingest_records_acknowledged_total";
/// Bytes of records that wait for the log.
pub const SPILL_BYTES: &str = "weir_ingest_spill_bytes";
/// Jobs that are watched.
pub const JOBS: &str = "weir_jobs";
/// Age of the newest folded record.
pub const STATE_AGE: &str = "weir_analyzer_state_age_seconds";
/// Records that wait to be published.
pub const OUTBOX: &str = "weir_outbox_records";
/// Records that were too large to be published.
pub const OUTBOX_REFUSED: &str = "weir_outbox_refused_total";
/// Whether everything is frozen.
pub const FROZEN: &str = "weir_frozen";

/// Whose a counter is.
enum Of {
    Cluster,
    Log,
    Readers,
    Everybody,
}

/// Counters that alerts are built on, with the reasons that they know.
const ALERTED: &[(&str, Of, &[&str])] = &[
    (RECORDS_DROPPED, Of::Cluster, &["spill_full", "refused", "log_lost", "stopped"]),
    (LOG_GAPS, Of::Log, &["truncated", "corrupt", "beyond_tail", "other_incarnation"]),
    (LOG_BYTES_LOST, Of::Log, &["torn", "corrupt", "truncated"]),
    (LOG_RECORDS_LOST, Of::Log, &["truncated", "corrupt"]),
    (RECORDS_REFUSED, Of::Readers, REFUSALS),
    (OUTBOX_REFUSED, Of::Log, &[]),
    (LOG_REOPENED, Of::Everybody, &[]),
];
const REFUSALS: &[&str] = &[
    "undecodable",
    "undecodable_event",
    "bad_key",
    "bad_body",
    "incomplete_round",
    "reordered",
    "repeated",
    "duplicate",
];

/// Shows the counters that alerts are built on as 0, for the clusters that this process watches and the logs that it reads: of one
/// that comes into being with its first event, nobody sees the increase.
pub fn show_zeros(clusters: &[&str], logs: &[&str]) {
    let each = |label: &'static str, names: &[&str]| -> Vec<Option<Label>> {
        names.iter().map(|name| Some(Label::new(label, (*name).to_owned()))).collect()
    };
    for (name, of, reasons) in ALERTED {
        let owners = match of {
            Of::Cluster => each("cluster", clusters),
            Of::Log => each("log", logs),
            Of::Readers if logs.is_empty() => Vec::new(),
            Of::Readers | Of::Everybody => vec![None],
        };
        let reasons = if reasons.is_empty() { vec![None] } else { each("reason", reasons) };
        for owner in &owners {
            for reason in &reasons {
                let labels: Vec<Label> = owner.iter().chain(reason).cloned().collect();
                counter!(*name, labels).increment(0);
            }
        }
    }
}

/// Starts recording for this process; the handle renders the page in Prometheus' text format.
///
/// # Errors
/// If something else in the process already records metrics.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new().install_recorder()?;
    for &(name, is_counter, help) in CATALOGUE {
        if is_counter {
            describe_counter!(name, help);
        } else {
            describe_gauge!(name, help);
        }
    }
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_follow_the_conventions() {
        let mut names: Vec<&str> = CATALOGUE.iter().map(|(name, _, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CATALOGUE.len());
        for &(name, is_counter, _) in CATALOGUE {
            assert!(name.starts_with("weir_") && name.ends_with("_total") == is_counter, "{name}");
        }
    }

    #[test]
    fn what_alerts_watch_is_there_before_anything_happens() {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || show_zeros(&["prod"], &["metrics"]));
        let page = recorder.handle().render();
        for line in [
            "weir_ingest_records_dropped_total{cluster=\"prod\",reason=\"spill_full\"} 0\n",
            "weir_log_gaps_total{log=\"metrics\",reason=\"truncated\"} 0\n",
            "weir_analyzer_records_refused_total{reason=\"undecodable\"} 0\n",
            "weir_log_reopened_total 0\n",
        ] {
            assert!(page.contains(line), "{line} is missing in {page}");
        }
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || show_zeros(&["prod"], &[]));
        let page = recorder.handle().render();
        assert!(!page.contains("log=") && !page.contains("refused_total"), "nothing is read here: {page}");
    }

    #[test]
    fn the_reasons_that_begin_at_zero_are_those_that_are_told_of() {
        for (name, _, reasons) in ALERTED {
            let (_, _, help) = CATALOGUE.iter().find(|(listed, _, _)| listed == name).unwrap();
            assert!(help.contains(&reasons.join(", ")), "{name}: {help}");
        }
    }
}
