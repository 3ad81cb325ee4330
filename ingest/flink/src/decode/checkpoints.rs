//! `/jobs/:id/checkpoints` and what belongs to it.

use serde::Deserialize;

use super::failure::reason;
use super::lenient::{Loose, Number, Object, document, excerpt};
use super::{DecodeError, Decoded, Problems};

/// A checkpoint or savepoint that was completed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CompletedCheckpoint {
    /// Its number.
    pub id: Option<u64>,
    /// When it was triggered, in milliseconds since 1970.
    pub trigger_ms: Option<i64>,
    /// When the last subtask acknowledged it.
    pub completed_ms: Option<i64>,
    /// How long it took.
    pub duration_ms: Option<i64>,
    /// Size of the state that it holds, in bytes.
    pub state_bytes: Option<u64>,
    /// Where it lies.
    pub external_path: Option<String>,
    /// Whether its files are gone.
    pub discarded: Option<bool>,
    /// Whether it is a savepoint.
    pub is_savepoint: Option<bool>,
}

/// What a job was restored from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// Number of the checkpoint.
    pub id: Option<u64>,
    /// When, in milliseconds since 1970.
    pub at_ms: Option<i64>,
    /// Whether it was a savepoint.
    pub is_savepoint: Option<bool>,
}

/// What is known of a job's checkpoints.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Checkpoints {
    /// Completed since the run began.
    pub completed: Option<u64>,
    /// Failed since the run began.
    pub failed: Option<u64>,
    /// In progress.
    pub in_progress: Option<u64>,
    /// Times that the job was restored.
    pub restored: Option<u64>,
    /// The latest completed checkpoint.
    pub latest_completed: Option<CompletedCheckpoint>,
    /// The latest savepoint.
    pub latest_savepoint: Option<CompletedCheckpoint>,
    /// Why the latest failed one failed, one line.
    pub latest_failure: Option<String>,
    /// The latest restore.
    pub latest_restored: Option<Restored>,
}

/// How a job takes checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckpointsConfig {
    /// Time between two; absent: not periodically.
    pub interval_ms: Option<u64>,
    /// Longest that one may take.
    pub timeout_ms: Option<i64>,
    /// Shortest pause between two.
    pub min_pause_ms: Option<i64>,
    /// Whether they outlive the job when it is cancelled.
    pub retained_on_cancel: Option<bool>,
    /// Whether barriers overtake records.
    pub unaligned: Option<bool>,
}

/// How far a triggered checkpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointStatus {
    /// Under way.
    InProgress,
    /// Done.
    Completed {
        /// Its number, where told.
        checkpoint: Option<u64>,
    },
    /// Failed.
    Failed {
        /// Why, one line.
        why: String,
    },
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawCheckpoints {
    counts: Loose<Object<RawCounts>>,
    latest: Loose<Object<RawLatest>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawCounts {
    completed: Loose<Number>,
    failed: Loose<Number>,
    in_progress: Loose<Number>,
    restored: Loose<Number>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawLatest {
    completed: Loose<Object<RawCheckpoint>>,
    savepoint: Loose<Object<RawCheckpoint>>,
    failed: Loose<Object<RawFailed>>,
    restored: Loose<Object<RawRestored>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawCheckpoint {
    id: Loose<Number>,
    trigger_timestamp: Loose<Number>,
    latest_ack_timestamp: Loose<Number>,
    end_to_end_duration: Loose<Number>,
    state_size: Loose<Number>,
    external_path: Loose<String>,
    discarded: Loose<bool>,
    is_savepoint: Loose<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawFailed {
    failure_message: Loose<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawRestored {
    id: Loose<Number>,
    restore_timestamp: Loose<Number>,
    is_savepoint: Loose<bool>,
}

/// Reads `/jobs/:id/checkpoints`.
///
/// # Errors
/// If it is no JSON object.
pub fn checkpoints(body: &[u8]) -> Result<Decoded<Checkpoints>, DecodeError> {
    let raw: RawCheckpoints = document::<Object<_>>(body, "a job's checkpoints")?.0;
    let mut problems = Problems::default();
    let counts = raw.counts.object("counts", &mut problems).unwrap_or_default();
    let latest = raw.latest.object("latest", &mut problems).unwrap_or_default();
    let failed = latest.failed.object("latest.failed", &mut problems);
    let restored = latest.restored.object("latest.restored", &mut problems);
    let value = Checkpoints {
        completed: counts.completed.whole("completed", &mut problems),
        failed: counts.failed.whole("failed", &mut problems),
        in_progress: counts.in_progress.whole("in_progress", &mut problems),
        restored: counts.restored.whole("restored", &mut problems),
        latest_completed: completed(latest.completed, "latest.completed", &mut problems),
        latest_savepoint: completed(latest.savepoint, "latest.savepoint", &mut problems),
        latest_failure: failed
            .and_then(|failed| failed.failure_message.take("failure_message", &mut problems))
            .map(|why| reason(&why)),
        latest_restored: restored.map(|restored| Restored {
            id: restored.id.whole("id", &mut problems),
            at_ms: restored.restore_timestamp.millis("restore_timestamp", &mut problems),
            is_savepoint: restored.is_savepoint.take("is_savepoint", &mut problems),
        }),
    };
    Ok(Decoded { value, problems })
}

fn completed(raw: Loose<Object<RawCheckpoint>>, name: &str, problems: &mut Problems) -> Option<CompletedCheckpoint> {
    let raw = raw.object(name, problems)?;
    problems.enter(name);
    let read = CompletedCheckpoint {
        id: raw.id.whole("id", problems),
        trigger_ms: raw.trigger_timestamp.millis("trigger_timestamp", problems),
        completed_ms: raw.latest_ack_timestamp.millis("latest_ack_timestamp", problems),
        duration_ms: raw.end_to_end_duration.millis("end_to_end_duration", problems),
        state_bytes: raw.state_size.whole("state_size", problems),
        external_path: raw.external_path.take("external_path", problems),
        discarded: raw.discarded.take("discarded", problems),
        is_savepoint: raw.is_savepoint.take("is_savepoint", problems),
    };
    problems.enter("");
    Some(read)
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawConfig {
    interval: Loose<Number>,
    timeout: Loose<Number>,
    min_pause: Loose<Number>,
    externalization: Loose<Object<RawExternalization>>,
    unaligned_checkpoints: Loose<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawExternalization {
    enabled: Loose<bool>,
    delete_on_cancellation: Loose<bool>,
}

/// An interval longer than this, ten years, means that nothing is periodic; Flink writes the largest long.
const NEVER_MS: u64 = 315_360_000_000;

/// Reads `/jobs/:id/checkpoints/config`.
///
/// # Errors
/// If it is no JSON object.
pub fn checkpoints_config(body: &[u8]) -> Result<Decoded<CheckpointsConfig>, DecodeError> {
    let raw: RawConfig = document::<Object<_>>(body, "a checkpoint configuration")?.0;
    let mut problems = Problems::default();
    let external = raw.externalization.object("externalization", &mut problems).unwrap_or_default();
    let enabled = external.enabled.take("enabled", &mut problems);
    let deleted = external.delete_on_cancellation.take("delete_on_cancellation", &mut problems);
    let value = CheckpointsConfig {
        interval_ms: raw.interval.whole("interval", &mut problems).filter(|ms| (1..NEVER_MS).contains(ms)),
        timeout_ms: raw.timeout.millis("timeout", &mut problems),
        min_pause_ms: raw.min_pause.millis("min_pause", &mut problems),
        retained_on_cancel: enabled.zip(deleted).map(|(enabled, deleted)| enabled && !deleted),
        unaligned: raw.unaligned_checkpoints.take("unaligned_checkpoints", &mut problems),
    };
    Ok(Decoded { value, problems })
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct RawTrigger {
    request_id: Loose<String>,
}

/// Reads the answer to a trigger: the id under which its progress can be asked.
///
/// # Errors
/// If it is no JSON object with such an id.
pub fn trigger(body: &[u8]) -> Result<String, DecodeError> {
    let raw: RawTrigger = document::<Object<_>>(body, "a request-id")?.0;
    let id = raw.request_id.take("request-id", &mut Problems::default()).filter(|id| !id.is_empty());
    id.ok_or_else(|| DecodeError::Shape { expected: "a request-id", received: excerpt(body) })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawStatus {
    status: Loose<Object<RawStatusId>>,
    operation: Loose<Object<RawOperation>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawStatusId {
    id: Loose<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawOperation {
    #[serde(rename = "checkpointId")]
    checkpoint: Loose<Number>,
    // Checkpoints write the first, savepoints the second.
    #[serde(rename = "failureCause", alias = "failure-cause")]
    failure: Loose<Object<RawCause>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct RawCause {
    class: Loose<String>,
    stack_trace: Loose<String>,
}

/// Reads how far a triggered checkpoint is.
///
/// # Errors
/// If it is no JSON object with a known status.
pub fn checkpoint_status(body: &[u8]) -> Result<Decoded<CheckpointStatus>, DecodeError> {
    let raw: RawStatus = document::<Object<_>>(body, "the status of a checkpoint")?.0;
    let mut problems = Problems::default();
    let status = raw.status.object("status", &mut problems).unwrap_or_default().id.take("status.id", &mut problems);
    let operation = raw.operation.object("operation", &mut problems).unwrap_or_default();
    let cause = operation.failure.object("failure-cause", &mut problems);
    let checkpoint = operation.checkpoint.whole("checkpointId", &mut problems);
    let value = match (status.as_deref(), cause) {
        (Some("COMPLETED"), Some(cause)) => {
            let trace = cause.stack_trace.take("stack-trace", &mut problems);
            let why = trace.or_else(|| cause.class.take("class", &mut problems)).unwrap_or_default();
            CheckpointStatus::Failed { why: reason(&why) }
        }
        (Some("COMPLETED"), None) => CheckpointStatus::Completed { checkpoint },
        (Some("IN_PROGRESS"), _) => CheckpointStatus::InProgress,
        _ => return Err(DecodeError::Shape { expected: "the status of a checkpoint", received: excerpt(body) }),
    };
    Ok(Decoded { value, problems })
}
