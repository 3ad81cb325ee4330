//! Answers recorded from real JobManagers of several versions: all of them are read without a problem, and mean the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot build its input should stop there")]

mod common;

use common::{Recorded, Replay, versions};
use futures::executor::block_on;
use weir_flink::decode::{self, CheckpointStatus, JobState, Scheduler};
use weir_flink::{FlinkClient, FlinkError, Version};

const SOURCE: &str = "bc764cd8ddf7a0cff126f51c16239658";
const FLATMAP: &str = "0a448493b4782967b150582570326227";
const COUNT: &str = "e70bbd798b564e0a50e10e343f1ac56b";

/// Which decoder an answer of `path` belongs to; says how many values it refused.
fn problems(file: &Recorded) -> Option<u64> {
    let body = &file.body;
    let path = file.path.split('?').next().unwrap();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let asks = file.path.contains("get=");
    let count = match parts[..] {
        ["config"] => decode::web_config(body).unwrap().problems.count(),
        ["overview"] => decode::overview(body).unwrap().problems.count(),
        ["taskmanagers"] => decode::task_managers(body).unwrap().problems.count(),
        ["taskmanagers", "metrics"] if asks => decode::aggregates(body).unwrap().problems.count(),
        [.., "subtasks", "metrics"] if asks => decode::aggregates(body).unwrap().problems.count(),
        [.., "metrics"] if asks => decode::metric_values(body).unwrap().problems.count(),
        [.., "metrics"] => decode::metric_names(body).unwrap().problems.count(),
        ["taskmanagers", _] => decode::task_manager(body).unwrap().problems.count(),
        ["jobmanager", "config"] => decode::job_manager_config(body).unwrap().problems.count(),
        ["jobs", "overview"] => decode::jobs(body).unwrap().problems.count(),
        ["jobs", _] => decode::job(body).unwrap().problems.count(),
        ["jobs", _, "config"] => decode::job_config(body).unwrap().problems.count(),
        ["jobs", _, "checkpoints"] if file.method == "POST" => u64::from(decode::trigger(body).is_err()),
        ["jobs", _, "checkpoints"] => decode::checkpoints(body).unwrap().problems.count(),
        ["jobs", _, "checkpoints", "config"] => decode::checkpoints_config(body).unwrap().problems.count(),
        ["jobs", _, "checkpoints", _] => decode::checkpoint_status(body).unwrap().problems.count(),
        ["jobs", _, "resource-requirements"] => decode::requirements(body).unwrap().problems.count(),
        ["jobs", _, "rescales", "config"] => decode::rescale_timers(body).unwrap().problems.count(),
        ["jobs", _, "vertices", _] => decode::vertex(body).unwrap().problems.count(),
        // Not read by anything.
        ["jobs", _, "plan" | "exceptions"]
        | ["jobs", _, "rescales", _]
        | ["jobs", _, "vertices", _, "backpressure"] => {
            return None;
        }
        _ => panic!("no decoder for {path}"),
    };
    Some(count)
}

#[test]
fn every_recorded_answer_is_read_without_a_problem() {
    for version in versions() {
        let mut read = 0;
        for file in version.files.iter().filter(|file| file.status < 300) {
            if let Some(count) = problems(file) {
                assert_eq!(count, 0, "{} {}", version.name, file.name);
                read += 1;
            }
        }
        assert!(read > 40, "{}: only {read} answers", version.name);
    }
}

#[test]
fn every_recorded_refusal_is_told_apart() {
    for version in versions() {
        for file in version.files.iter().filter(|file| file.status >= 300) {
            let failure = decode::failure(&file.body).unwrap();
            assert!(!failure.reason.is_empty() && !failure.reason.contains("org.apache"), "{}", failure.reason);
            let error = version.error(&file.name);
            let right = match file.name.as_str() {
                "job-unknown"
                | "vertex-unknown"
                | "taskmanager-unknown"
                | "put-unknown-job"
                | "put-finished-job"
                | "requirements-unknown-job"
                | "requirements-finished-job" => {
                    matches!(error, FlinkError::NotFound { .. })
                }
                name if name.ends_with("status-unknown") => matches!(error, FlinkError::NotFound { .. }),
                "put-conflict" => matches!(error, FlinkError::Conflict { .. }) && error.retryable(),
                "put-default-scheduler" | "requirements-default-scheduler" => {
                    matches!(error, FlinkError::WrongScheduler { .. })
                }
                "unknown-path" => matches!(error, FlinkError::NoEndpoint { .. }),
                name if name.starts_with("rescales-") => {
                    matches!(
                        error,
                        FlinkError::NoEndpoint { .. } | FlinkError::NotFound { .. } | FlinkError::Refused { .. }
                    )
                }
                _ => matches!(error, FlinkError::Refused { status: 400, .. }),
            };
            assert!(right, "{} {}: {error:?}", version.name, file.name);
        }
    }
}

#[test]
fn the_same_job_looks_the_same_in_every_version() {
    for version in versions() {
        let job = decode::job(&version.file("job").body).unwrap().value;
        assert_eq!((job.name.as_str(), JobState::of(&job.state)), ("wordcount", JobState::Running));
        let ids: Vec<&str> = job.vertices.iter().map(|vertex| vertex.id.as_str()).collect();
        assert_eq!(ids, [SOURCE, FLATMAP, COUNT], "{}", version.name);
        let edges: Vec<(&str, &str, &str)> =
            job.edges.iter().map(|edge| (edge.from.as_str(), edge.to.as_str(), edge.ship_strategy.as_str())).collect();
        assert_eq!(edges, [(SOURCE, FLATMAP, "REBALANCE"), (FLATMAP, COUNT, "HASH")]);
        assert_eq!(job.sources, [SOURCE]);
        assert!(job.all_running() && job.start_ms.is_some() && job.end_ms.is_none());
        assert!(job.vertices.iter().all(|vertex| vertex.max_parallelism == Some(120)));
        assert!(job.vertices.iter().all(|vertex| vertex.metrics.busy_ms.is_some()));
        let restarting = decode::job(&version.file("job-restarting").body).unwrap();
        assert!(!restarting.all_running() && JobState::of(&restarting.state) != JobState::Running);
    }
}

#[test]
fn subtasks_carry_what_sizing_needs() {
    for version in versions() {
        let count = decode::vertex(&version.file("vertex-count").body).unwrap();
        let job = decode::job(&version.file("job").body).unwrap();
        assert_eq!(count.parallelism, job.vertex(COUNT).unwrap().parallelism);
        for (index, subtask) in count.subtasks.iter().enumerate() {
            assert_eq!((usize::try_from(subtask.index).unwrap(), subtask.attempt), (index, Some(0)));
            assert!(subtask.running() && subtask.task_manager.as_deref().is_some_and(|id| id.starts_with("tm")));
            assert!(subtask.metrics.records_in.is_some_and(|records| records > 0.0));
            assert!(subtask.metrics.busy_ms.is_some_and(|busy| busy > 0.0));
            assert!(subtask.metrics.idle_ms.is_some() && subtask.metrics.backpressured_ms.is_some());
        }
        let source = decode::vertex(&version.file("vertex-source").body).unwrap();
        assert!(source.subtasks[0].metrics.records_out.is_some_and(|records| records > 0.0));
        let names = decode::metric_names(&version.file("vertex-source-metric-names").body).unwrap();
        assert_eq!(decode::pending_records_names(&names), ["Source__source.pendingRecords"]);
        let sums = decode::aggregates(&version.file("vertex-source-pending-records").body).unwrap();
        assert!(sums.iter().all(|metric| metric.sum.is_some()) && sums.len() == 2);
        let trap = decode::aggregates(&version.file("vertex-source-metrics-unknown-name").body).unwrap();
        assert!(trap.is_empty(), "one unknown name empties the answer in {}", version.name);
    }
}

#[test]
fn the_cluster_is_described() {
    for version in versions() {
        let config = decode::web_config(&version.file("config").body).unwrap();
        assert_eq!(config.version, Version::parse(&version.name));
        assert_eq!(config.refresh_interval_ms, Some(1_000));
        let settings = decode::job_manager_config(&version.file("jobmanager-config").body).unwrap();
        assert_eq!((settings.fetch_interval_ms(), settings.scheduler()), (1_000, Some(Scheduler::Adaptive)));
        assert_eq!((settings.checkpoint_interval_ms(), settings.rival()), (Some(5_000), None));
        let overview = decode::overview(&version.file("overview").body).unwrap();
        assert_eq!((overview.slots_total, overview.task_managers), (Some(8), Some(2)));
        let managers = decode::task_managers(&version.file("taskmanagers").body).unwrap();
        assert_eq!(managers.iter().map(|manager| manager.slots).collect::<Vec<_>>(), [Some(4), Some(4)]);
        assert!(managers.iter().all(|manager| manager.memory.total_process == Some(1_258_291_200.0)));
        let metrics = decode::metric_values(&version.file("taskmanager-metrics").body).unwrap();
        assert!(metrics.len() == 4 && metrics.iter().all(|metric| metric.number().is_some()));
    }
}

#[test]
fn checkpoints_are_described() {
    for version in versions() {
        let config = decode::checkpoints_config(&version.file("checkpoints-config").body).unwrap();
        assert_eq!((config.interval_ms, config.retained_on_cancel), (Some(5_000), Some(false)));
        let checkpoints = decode::checkpoints(&version.file("checkpoints").body).unwrap().value;
        let latest = checkpoints.latest_completed.unwrap();
        assert!(latest.trigger_ms.is_some() && latest.duration_ms.is_some() && latest.state_bytes.is_some());
        assert_eq!((latest.is_savepoint, latest.discarded), (Some(false), Some(false)));
        let restored = decode::checkpoints(&version.file("checkpoints-restored").body).unwrap().value;
        assert!(restored.latest_restored.unwrap().at_ms.is_some());
        let first = decode::checkpoint_status(&version.file("checkpoint-trigger-status-first").body).unwrap();
        assert_eq!(first.value, CheckpointStatus::InProgress);
    }
}

#[test]
fn a_failed_checkpoint_says_why() {
    let body = br#"{"status":{"id":"COMPLETED"},"operation":{"failureCause":{
        "class":"java.util.concurrent.CompletionException",
        "stack-trace":"java.util.concurrent.CompletionException: org.apache.flink.runtime.checkpoint.CheckpointException: Checkpoint triggering task Source: source (1/1) is not being executed at the moment.\n\tat java.base/X.y(X.java:1)"}}}"#;
    let why = "Checkpoint triggering task Source: source (1/1) is not being executed at the moment.".to_owned();
    assert_eq!(decode::checkpoint_status(body).unwrap().value, CheckpointStatus::Failed { why });
}

#[test]
fn typed_calls_ask_what_was_recorded() {
    for version in versions() {
        let replay = Replay::of(&version);
        let client = FlinkClient::new(&replay);
        block_on(async {
            let id = &version.job;
            assert_eq!(Some(client.supported_version().await.unwrap()), Version::parse(&version.name));
            let job = client.job(id).await.unwrap().value;
            assert_eq!(client.vertex(id, FLATMAP).await.unwrap().id, FLATMAP);
            assert!(client.checkpoints(id).await.unwrap().is_some());
            assert!(!client.prime().await.unwrap().is_empty());
            assert!(client.requirements(id).await.unwrap().digest().contains(&format!("{SOURCE}=1..1")));
            let names = [
                "numRestarts",
                "uptime",
                "lastCheckpointDuration",
                "lastCheckpointSize",
                "numberOfCompletedCheckpoints",
            ];
            assert_eq!(client.job_metrics(id, &names).await.unwrap().len(), names.len());
            let bounds = job.vertices.iter().map(|vertex| (vertex.id.clone(), (1, 2))).collect();
            client.put_requirements(&job, &bounds).await.unwrap();
            assert_eq!(client.trigger_checkpoint(id, None).await.unwrap().len(), 32);
        });
        let sent = replay.sent();
        let put = sent.iter().find(|request| request.path.ends_with("resource-requirements") && request.body.is_some());
        let expected = format!(
            "{{\"{FLATMAP}\":{{\"parallelism\":{{\"lowerBound\":1,\"upperBound\":2}}}},\
             \"{SOURCE}\":{{\"parallelism\":{{\"lowerBound\":1,\"upperBound\":2}}}},\
             \"{COUNT}\":{{\"parallelism\":{{\"lowerBound\":1,\"upperBound\":2}}}}}}"
        );
        assert_eq!(put.unwrap().body.as_deref(), Some(expected.as_str()));
    }
}

#[test]
fn requirements_that_flink_would_refuse_or_die_of_are_never_sent() {
    let version = &versions()[0];
    let job = decode::job(&version.file("job").body).unwrap().value;
    let replay = Replay::of(version);
    let client = FlinkClient::new(&replay);
    let with = |bounds: &[(&str, u32, u32)]| {
        let bounds = bounds.iter().map(|&(id, lower, upper)| (id.to_owned(), (lower, upper))).collect();
        block_on(client.put_requirements(&job, &bounds)).unwrap_err().to_string()
    };
    type Case<'a> = (&'a [(&'a str, u32, u32)], &'a str);
    let cases: [Case; 7] = [
        (&[], "is missing"),
        (&[(SOURCE, 1, 1), (FLATMAP, 1, 2)], "is missing"),
        (&[(SOURCE, 1, 1), (FLATMAP, 1, 2), (COUNT, 0, 2)], "must be positive"),
        (&[(SOURCE, 1, 1), (FLATMAP, 1, 2), (COUNT, 1, 0)], "must be positive"),
        (&[(SOURCE, 1, 1), (FLATMAP, 1, 2), (COUNT, 3, 2)], "upside down"),
        (&[(SOURCE, 1, 1), (FLATMAP, 1, 2), (COUNT, 1, 121)], "above its max parallelism 120"),
        (&[(SOURCE, 1, 1), (FLATMAP, 1, 2), (COUNT, 1, 2), ("x", 1, 1)], "has no vertex x"),
    ];
    for (bounds, expected) in cases {
        let refused = with(bounds);
        assert!(refused.starts_with("WR0319") && refused.contains(expected), "{refused}");
    }
    assert!(replay.sent().is_empty());
}
