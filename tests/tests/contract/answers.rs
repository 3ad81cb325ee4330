//! What is read of a cluster and a job that runs.

use weir_flink::FlinkError;
use weir_flink::decode::{self, CheckpointStatus, IoMetrics, Subtask};

use super::{CHECKPOINT_MS, NAMES, SHAPE, SLOTS, Suite, by_name, parallelism_of};

pub async fn the_cluster_tells_its_version_slots_and_scheduler(suite: &Suite<'_>) {
    let client = suite.client;
    assert_eq!(client.supported_version().await, Ok(suite.world.version()));
    let overview = client.overview().await.unwrap();
    assert_eq!((overview.task_managers, overview.slots_total), (Some(1), Some(SLOTS)), "{overview:?}");
    let config = client.job_manager_config().await.unwrap();
    assert_eq!(config.scheduler(), Some(decode::Scheduler::Adaptive), "{config:?}");
    let task_managers = client.task_managers().await.unwrap();
    let [only] = task_managers.as_slice() else { panic!("one TaskManager: {task_managers:?}") };
    assert_eq!(only.slots, Some(SLOTS), "{only:?}");
    assert_eq!(client.task_manager(&only.id).await.unwrap().summary.id, only.id);
    let names = suite
        .until("names of the TaskManagers' metrics", async || {
            Some(client.prime().await.unwrap().value).filter(|names| !names.is_empty())
        })
        .await;
    assert!(names.iter().any(|name| name == "Status.JVM.CPU.Load"), "{names:?}");
}

pub async fn the_job_is_found_by_the_overview(suite: &Suite<'_>) {
    let found = suite
        .until("the job with all its tasks in the overview", async || {
            let jobs = suite.client.jobs().await.unwrap().value;
            let job = jobs.into_iter().find(|job| job.id == suite.job)?;
            (job.state == "RUNNING" && job.tasks_total.is_some() && job.tasks_running == job.tasks_total).then_some(job)
        })
        .await;
    assert_eq!((found.name.as_str(), found.tasks_total, found.end_ms), ("wordcount", Some(4), None), "{found:?}");
    assert_eq!(found.start_ms, suite.running().await.start_ms, "both tell the same start");
    assert!(found.start_ms.is_some(), "{found:?}");
}

pub async fn the_detail_shows_vertices_edges_and_sources(suite: &Suite<'_>) {
    let detail = suite.running().await;
    assert_eq!(detail.vertices.len(), NAMES.len(), "{detail:?}");
    assert_eq!(parallelism_of(&detail), SHAPE.parallelism);
    for vertex in &detail.vertices {
        assert_eq!(vertex.max_parallelism, Some(SHAPE.max_parallelism), "{vertex:?}");
        assert_eq!(vertex.id.len(), 32, "{vertex:?}");
    }
    let [source, flatmap, count] = by_name(&detail, str::to_owned);
    let edge = |from: &String, to: &String, ship_strategy: &str| decode::Edge {
        from: from.clone(),
        to: to.clone(),
        ship_strategy: ship_strategy.into(),
    };
    let mut edges = detail.edges.clone();
    edges.sort();
    let mut expected = vec![edge(&source, &flatmap, "REBALANCE"), edge(&flatmap, &count, "HASH")];
    expected.sort();
    assert_eq!(edges, expected);
    assert_eq!(detail.sources, [source]);
    assert!(detail.now_ms >= detail.start_ms && detail.end_ms.is_none(), "{detail:?}");
}

pub async fn requirements_are_those_of_the_graph_at_first(suite: &Suite<'_>) {
    let requirements = suite.client.requirements(&suite.job).await.unwrap().value;
    assert_eq!(requirements.0.len(), NAMES.len(), "{requirements:?}");
    assert!(requirements.0.values().all(|bounds| bounds.lower == Some(1)), "{requirements:?}");
    assert_eq!(suite.asked().await, SHAPE.parallelism);
}

pub async fn counters_grow_within_an_attempt(suite: &Suite<'_>) {
    let detail = suite.running().await;
    let [source, flatmap, count] = by_name(&detail, str::to_owned);
    for (id, counter) in [(source, records_out as Counter), (flatmap, records_out), (count, records_in)] {
        let before = suite.counted(&id).await;
        let after = suite
            .until("counters of all subtasks that have grown", async || {
                let after = suite.counted(&id).await;
                let grown = |(before, after): (&Subtask, &Subtask)| counter(&after.metrics) > counter(&before.metrics);
                before.subtasks.iter().zip(&after.subtasks).all(grown).then_some(after)
            })
            .await;
        let attempts = |vertex: &decode::VertexDetail| -> Vec<_> {
            vertex.subtasks.iter().map(|subtask| (subtask.index, subtask.attempt, subtask.start_ms)).collect()
        };
        assert_eq!(attempts(&before), attempts(&after), "the attempt stays while its counters grow");
        assert!(after.subtasks.iter().all(|task| task.attempt.is_some() && task.start_ms.is_some()), "{after:?}");
        assert!(after.subtasks.iter().all(|task| task.task_manager.is_some()), "{after:?}");
    }
}

type Counter = fn(&IoMetrics) -> f64;

fn records_in(metrics: &IoMetrics) -> f64 {
    metrics.records_in.unwrap()
}

fn records_out(metrics: &IoMetrics) -> f64 {
    metrics.records_out.unwrap()
}

/// Share of a subtask's age that may be missing: counters are a fetch old, and begin only when the task has been set up.
const MISSING: f64 = 0.2;

pub async fn times_of_a_subtask_add_up_to_its_age(suite: &Suite<'_>) {
    let detail = suite.running().await;
    for id in by_name(&detail, str::to_owned) {
        suite
            .until("times that add up to the age", async || {
                let vertex = suite.counted(&id).await;
                let adds_up = |subtask: &Subtask| {
                    let IoMetrics { busy_ms, idle_ms, backpressured_ms, .. } = subtask.metrics;
                    let total_ms = busy_ms.unwrap() + idle_ms.unwrap() + backpressured_ms.unwrap();
                    let age_ms = age_ms(&vertex, subtask);
                    assert!(total_ms < age_ms + 500.0, "{total_ms} ms in {age_ms} ms: {vertex:?}");
                    total_ms > age_ms * (1.0 - MISSING)
                };
                vertex.subtasks.iter().all(adds_up).then_some(())
            })
            .await;
    }
}

/// How long a subtask has existed, by the JobManager's clock.
fn age_ms(vertex: &decode::VertexDetail, subtask: &Subtask) -> f64 {
    let age_ms = vertex.now_ms.unwrap() - subtask.start_ms.unwrap();
    f64::from(i32::try_from(age_ms).unwrap())
}

pub async fn what_waits_for_a_source_is_told_by_its_rest_name(suite: &Suite<'_>) {
    let [source, ..] = by_name(&suite.running().await, str::to_owned);
    let (client, job) = (suite.client, suite.job.as_str());
    let name = suite
        .until("the name of the metric", async || {
            let names = client.vertex_metric_names(job, &source).await.unwrap().value;
            decode::pending_records_names(&names).first().map(|&name| name.to_owned())
        })
        .await;
    assert_eq!(name, "Source__source.pendingRecords");
    suite
        .until("records that wait", async || {
            let sums = client.vertex_metric_sums(job, &source, &[&name]).await.unwrap().value;
            sums.first().filter(|sum| sum.name == name && sum.sum > Some(0.0)).map(|_| ())
        })
        .await;
}

pub async fn one_unknown_metric_empties_the_answer(suite: &Suite<'_>) {
    let [source, ..] = by_name(&suite.running().await, str::to_owned);
    let sums = async |names: &[&str]| {
        let sums = suite.client.vertex_metric_sums(&suite.job, &source, names).await.unwrap().value;
        sums.into_iter().map(|sum| sum.name).collect::<Vec<_>>()
    };
    suite
        .until("two metrics that are known", async || {
            let mut names = sums(&["numRecordsIn", "numRecordsOut"]).await;
            names.sort();
            (names == ["numRecordsIn", "numRecordsOut"]).then_some(())
        })
        .await;
    assert!(sums(&["numRecordsIn", "noSuchMetric"]).await.is_empty());
    let of_job = suite
        .until("a metric of the job", async || {
            let found = suite.client.job_metrics(&suite.job, &["numRestarts", "noSuchMetric"]).await.unwrap().value;
            (!found.is_empty()).then_some(found)
        })
        .await;
    let names: Vec<&str> = of_job.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["numRestarts"], "those of a job are left out one by one");
}

/// A checkpoint from beginning to end; its number.
async fn checkpoint(suite: &Suite<'_>, trigger_id: &str) -> u64 {
    let (client, job) = (suite.client, suite.job.as_str());
    for _ in 0..2 {
        assert_eq!(client.trigger_checkpoint(job, Some(trigger_id)).await.as_deref(), Ok(trigger_id));
    }
    let number = suite
        .until("the end of the checkpoint", async || {
            match client.checkpoint_status(job, trigger_id).await.unwrap().value {
                CheckpointStatus::InProgress => None,
                CheckpointStatus::Completed { checkpoint } => Some(checkpoint),
                CheckpointStatus::Failed { why } => panic!("the checkpoint failed: {why}"),
            }
        })
        .await;
    number.expect("a checkpoint has a number")
}

/// By now the first checkpoint is over that some releases take as soon as a job runs, whatever the interval.
pub async fn a_checkpoint_that_is_asked_for_completes_once(suite: &Suite<'_>) {
    let (client, job) = (suite.client, suite.job.as_str());
    let config = client.checkpoints_config(job).await.unwrap().expect("checkpoints are on");
    assert_eq!(config.interval_ms, Some(u64::from(CHECKPOINT_MS)));
    let first = checkpoint(suite, "00112233445566778899aabbccddeeff").await;
    let second = checkpoint(suite, "ffeeddccbbaa99887766554433221100").await;
    assert_eq!(second, first + 1, "the same id again starts nothing");
    let after = suite
        .until("the checkpoint in the list", async || {
            let read = client.checkpoints(job).await.unwrap().expect("checkpoints are on");
            (read.latest_completed.as_ref()?.id == Some(second)).then_some(read)
        })
        .await;
    let latest = after.latest_completed.as_ref().unwrap();
    assert_eq!((after.completed, after.failed, after.restored), (Some(second), Some(0), Some(0)), "{after:?}");
    assert!(latest.completed_ms >= latest.trigger_ms && latest.duration_ms.is_some(), "{latest:?}");
    assert!(latest.external_path.as_deref().is_some_and(|path| path.contains(job)), "{latest:?}");
    let unknown = client.checkpoint_status(job, &"f".repeat(32)).await.unwrap_err();
    assert!(matches!(unknown, FlinkError::NotFound { .. }), "{unknown:?}");
}
