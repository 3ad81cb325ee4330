//! Requirements that are put, and what becomes of them.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_flink::FlinkError;
use weir_flink::decode::{CheckpointStatus, JobDetail, RescaleTimers, Subtask};

use super::{COOLDOWN_MS, SLOTS, Suite, by_name};

/// What the job grows to, within the slots.
const GROWN: [u32; 3] = [2, 1, 3];

/// Number and start of the attempt of each subtask.
type Attempts = BTreeMap<(String, u32), (Option<u32>, Option<i64>)>;

async fn attempts(suite: &Suite<'_>, detail: &JobDetail) -> Attempts {
    let mut attempts = Attempts::new();
    for id in by_name(detail, str::to_owned) {
        let vertex = suite.counted(&id).await;
        let of = |subtask: &Subtask| ((id.clone(), subtask.index), (subtask.attempt, subtask.start_ms));
        attempts.extend(vertex.subtasks.iter().map(of));
    }
    attempts
}

/// A checkpoint from beginning to end.
async fn checkpoint(suite: &Suite<'_>) {
    let id = suite.client.trigger_checkpoint(&suite.job, None).await.unwrap();
    suite
        .until("a checkpoint", async || match suite.client.checkpoint_status(&suite.job, &id).await.unwrap().value {
            CheckpointStatus::InProgress => None,
            CheckpointStatus::Completed { .. } => Some(()),
            CheckpointStatus::Failed { why } => panic!("the checkpoint failed: {why}"),
        })
        .await;
}

/// Records that the first subtask of the count has taken in.
async fn counted(suite: &Suite<'_>, detail: &JobDetail) -> f64 {
    let [.., count] = by_name(detail, str::to_owned);
    suite.counted(&count).await.subtasks[0].metrics.records_in.unwrap()
}

pub async fn the_job_reaches_what_was_put_in_new_attempts(suite: &Suite<'_>) {
    let before = suite.running().await;
    suite
        .until("a counter that is far from zero", async || (counted(suite, &before).await > 4_000.0).then_some(()))
        .await;
    let counted_before = counted(suite, &before).await;
    let attempts_before = attempts(suite, &before).await;
    if !suite.waits_for_checkpoints() {
        checkpoint(suite).await;
    }
    suite.put(GROWN).await.unwrap();
    assert_eq!(suite.asked().await, GROWN, "what was asked for is told at once");
    let after = suite.running_at(GROWN).await;
    assert!(counted(suite, &after).await < counted_before, "counters start again");
    let attempts_after = attempts(suite, &after).await;
    assert_eq!(attempts_after.len(), 6, "{attempts_after:?}");
    for (subtask, (number, start_ms)) in &attempts_before {
        let (number_after, start_after) = attempts_after[subtask];
        assert!(number_after > *number, "the attempt rises: {attempts_before:?}, {attempts_after:?}");
        assert!(start_after > *start_ms, "the attempt starts later: {attempts_before:?}, {attempts_after:?}");
    }
    assert_eq!(after.start_ms, before.start_ms, "it is still the same run");
    let restored = suite
        .until("the restore in the list of checkpoints", async || {
            suite.client.checkpoints(&suite.job).await.unwrap().and_then(|read| read.value.latest_restored)
        })
        .await;
    assert_eq!(restored.is_savepoint, Some(false), "{restored:?}");
}

pub async fn the_same_again_restarts_nothing(suite: &Suite<'_>) {
    let running = suite.running_at(GROWN).await;
    let before = attempts(suite, &running).await;
    suite.put(GROWN).await.unwrap();
    checkpoint(suite).await;
    // Longer than the cool-down, all other timers and the cache of what is shown.
    let passed = suite.world.elapsed() + Duration::from_secs(4);
    suite.until("some time", async || (suite.world.elapsed() > passed).then_some(())).await;
    let running = suite.running_at(GROWN).await;
    assert_eq!(attempts(suite, &running).await, before);
}

pub async fn more_than_the_slots_runs_with_what_exists(suite: &Suite<'_>) {
    let asked = [2, 1, 20];
    if !suite.waits_for_checkpoints() {
        checkpoint(suite).await;
    }
    suite.put(asked).await.unwrap();
    suite.running_at([2, 1, SLOTS]).await;
    assert_eq!(suite.asked().await, asked, "the wish stays");
}

pub async fn restarts_and_rescales_are_counted(suite: &Suite<'_>) {
    let names = ["numRestarts", "numRescales"];
    let has_rescales = suite.world.version() >= weir_flink::Version::RESCALE_WAITS_FOR_CHECKPOINT;
    let expected: &[(&str, f64)] =
        if has_rescales { &[("numRescales", 2.0), ("numRestarts", 2.0)] } else { &[("numRestarts", 2.0)] };
    suite
        .until(&format!("{expected:?} after two rescales"), async || {
            let metrics = suite.client.job_metrics(&suite.job, &names).await.unwrap().value;
            let mut found: Vec<(&str, f64)> =
                metrics.iter().filter_map(|metric| Some((metric.name.as_str(), metric.number()?))).collect();
            found.sort_by_key(|(name, _)| *name);
            (found == expected).then_some(())
        })
        .await;
}

pub async fn timers_are_told_from_the_release_that_has_them(suite: &Suite<'_>) {
    let read = suite.client.rescale_timers(&suite.job).await;
    let version = suite.world.version();
    if (version.major, version.minor) >= (2, 3) {
        let RescaleTimers { cooldown_ms, stabilization_ms, max_delay_ms, .. } = read.unwrap().value;
        assert_eq!((cooldown_ms, stabilization_ms), (Some(i64::from(COOLDOWN_MS)), Some(1_000)));
        assert!(max_delay_ms > Some(60_000), "a rescale waits for checkpoints: {max_delay_ms:?}");
    } else {
        assert!(matches!(read, Err(FlinkError::NoEndpoint { .. })), "{read:?}");
    }
}
