//! Where reading goes on after a gap, which is told and counted, and never stops it.

use metrics::counter;
use tracing::error;
use weir_runtime::telemetry;
use weir_streams::{Distance, Log, LogError, Position};

/// Where to go on if a read failed because something is missing; the error itself if it failed for another reason. It is counted
/// under `name`, [`crate::METRICS`] or [`crate::EVENTS`].
///
/// # Errors
/// Any other failure of the read; and if the log cannot say where it begins.
pub async fn after_gap(
    log: &dyn Log,
    name: &'static str,
    partition: u32,
    failed: LogError,
) -> Result<Position, LogError> {
    let (to, reason, lost) = match &failed {
        LogError::Truncated { head, lost, .. } => (*head, "truncated", *lost),
        LogError::Corrupt { resume, lost_bytes, .. } => {
            (*resume, "corrupt", Distance { bytes: Some(*lost_bytes), records: None })
        }
        // How much of the end is gone, nobody knows; what is there is read again, and known by its sequences.
        LogError::BeyondTail { .. } => (log.head(partition).await?, "beyond_tail", Distance::default()),
        _ => return Err(failed),
    };
    error!(log = log.info().name, partition, code = failed.code(), %failed, "a gap in a log; reading on after it");
    counter!(telemetry::LOG_GAPS, "log" => name, "reason" => reason).increment(1);
    counter!(telemetry::LOG_BYTES_LOST, "log" => name, "reason" => reason).increment(lost.bytes.unwrap_or(0));
    counter!(telemetry::LOG_RECORDS_LOST, "log" => name, "reason" => reason).increment(lost.records.unwrap_or(0));
    Ok(to)
}
