//! What Flink refuses, and how it says so.

use serde_json::{Value, json};
use weir_flink::{FlinkError, Method};

use super::{SHAPE, Suite, by_name, error_of};

const UNKNOWN: &str = "0123456789abcdef0123456789abcdef";

fn bounds(lower: i64, upper: i64) -> Value {
    json!({ "parallelism": { "lowerBound": lower, "upperBound": upper } })
}

fn path(job: &str) -> String {
    format!("/jobs/{job}/resource-requirements")
}

pub async fn bad_requirements_are_refused_and_change_nothing(suite: &Suite<'_>) {
    let [source, flatmap, count] = by_name(&suite.running().await, str::to_owned);
    let with = |last: Value| json!({ &source: bounds(1, 1), &flatmap: bounds(1, 1), &count: last });
    let mut unknown = with(bounds(1, 1));
    unknown[UNKNOWN] = bounds(1, 1);
    let too_many = i64::from(SHAPE.max_parallelism) + 1;
    let table = [
        ("a vertex is missing", json!({ &source: bounds(1, 1), &flatmap: bounds(1, 1) }), "missing job vertex"),
        ("a vertex is unknown", unknown, "was not found"),
        ("the bounds are upside down", with(bounds(2, 1)), "is higher than the upper bound"),
        ("a bound is zero", with(bounds(0, 0)), "greater than zero"),
        ("more than the max parallelism", with(bounds(1, too_many)), "exceeds its maximum parallelism"),
        ("an empty map", json!({}), "does not specify resource requirements"),
        ("a key that is no id", json!({ "source": bounds(1, 1) }), "did not match"),
        ("a map in a map", json!({ "jobVertexResourceRequirements": with(bounds(1, 1)) }), "did not match"),
    ];
    let mut table: Vec<(&str, String, &str)> =
        table.into_iter().map(|(case, body, says)| (case, body.to_string(), says)).collect();
    table.push(("no body", String::new(), "does not specify resource requirements"));
    table.push(("a body that breaks off", "{\"".into(), "did not match"));
    for (case, body, says) in table {
        let answer = suite.send(Method::Put, path(&suite.job), Some(body)).await;
        assert_eq!(answer.status, 400, "{case}: {}", String::from_utf8_lossy(&answer.body));
        let error = error_of(answer).await;
        assert!(
            matches!(&error, FlinkError::Refused { status: 400, reason, .. } if reason.contains(says)),
            "{case}: {error:?}"
        );
        assert_eq!((error.code(), error.retryable()), ("WR0314", false), "{case}");
        assert_eq!(suite.asked().await, SHAPE.parallelism, "{case}: nothing has changed");
    }
}

pub async fn who_is_not_there_is_told_apart(suite: &Suite<'_>) {
    let body = json!({ UNKNOWN: bounds(1, 1) }).to_string();
    let malformed = suite.send(Method::Put, path("no-id"), Some(body.clone())).await;
    assert_eq!(malformed.status, 400);
    assert!(matches!(error_of(malformed).await, FlinkError::Refused { status: 400, .. }));
    // The documentation promises 404 for what is 500 in truth.
    let unknown = suite.send(Method::Put, path(UNKNOWN), Some(body)).await;
    assert_eq!(unknown.status, 500, "{}", String::from_utf8_lossy(&unknown.body));
    assert_not_found("PUT of an unknown job", &error_of(unknown).await);
    assert_not_found("requirements of an unknown job", &suite.client.requirements(UNKNOWN).await.unwrap_err());
    assert_not_found("an unknown job", &suite.client.job(UNKNOWN).await.unwrap_err());
    assert_not_found("checkpoints of an unknown job", &suite.client.checkpoints(UNKNOWN).await.unwrap_err());
    assert_not_found("an unknown vertex", &suite.client.vertex(&suite.job, UNKNOWN).await.unwrap_err());
    assert_not_found("an unknown TaskManager", &suite.client.task_manager("tm-unknown").await.unwrap_err());
    let nothing = suite.send(Method::Get, "/no/such/endpoint".into(), None).await;
    let error = error_of(nothing).await;
    assert!(matches!(error, FlinkError::NoEndpoint { .. }), "{error:?}");
}

pub fn assert_not_found(case: &str, error: &FlinkError) {
    assert!(matches!(error, FlinkError::NotFound { .. }), "{case}: {error:?}");
    assert_eq!((error.code(), error.retryable()), ("WR0310", false), "{case}");
}

pub async fn the_default_scheduler_has_no_requirements(suite: &Suite<'_>) {
    let detail = suite.running().await;
    let config = suite.client.job_manager_config().await.unwrap();
    assert_ne!(config.scheduler(), Some(weir_flink::decode::Scheduler::Adaptive), "{config:?}");
    let read = suite.client.requirements(&suite.job).await.unwrap_err();
    let put = suite.put([1, 1, 1]).await.unwrap_err();
    for error in [read, put] {
        assert!(matches!(error, FlinkError::WrongScheduler { .. }), "{error:?}");
        assert_eq!((error.code(), error.retryable()), ("WR0315", false));
    }
    assert_eq!(suite.running().await.vertices.len(), detail.vertices.len(), "the job goes on");
}

pub async fn a_job_without_checkpoints_says_so(suite: &Suite<'_>) {
    let checkpoints = suite.client.checkpoints(&suite.job).await.unwrap().expect("an answer with zeros");
    assert_eq!((checkpoints.completed, checkpoints.latest_completed.as_ref()), (Some(0), None), "{checkpoints:?}");
    let config = suite.client.checkpoints_config(&suite.job).await.unwrap().expect("an answer without an interval");
    assert_eq!(config.interval_ms, None, "{config:?}");
}
