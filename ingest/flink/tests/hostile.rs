//! Answers that no JobManager should give.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot build its input should stop there")]

mod common;

use std::sync::LazyLock;

use common::{Fixed, Version, versions};
use futures::executor::block_on;
use proptest::prelude::*;
use weir_flink::decode::{self, DecodeError};
use weir_flink::{FlinkClient, FlinkError};

/// Runs every decoder on a body. What they make of it does not matter, but they must come back.
fn decode_all(body: &[u8]) -> usize {
    let read = [
        decode::web_config(body).is_ok(),
        decode::overview(body).is_ok(),
        decode::task_managers(body).is_ok(),
        decode::task_manager(body).is_ok(),
        decode::job_manager_config(body).is_ok(),
        decode::jobs(body).is_ok(),
        decode::job(body).is_ok(),
        decode::job_config(body).is_ok(),
        decode::vertex(body).is_ok(),
        decode::metric_names(body).is_ok(),
        decode::aggregates(body).is_ok(),
        decode::metric_values(body).is_ok(),
        decode::checkpoints(body).is_ok(),
        decode::checkpoints_config(body).is_ok(),
        decode::checkpoint_status(body).is_ok(),
        decode::trigger(body).is_ok(),
        decode::requirements(body).is_ok(),
        decode::rescale_timers(body).is_ok(),
        decode::failure(body).is_ok(),
    ];
    read.into_iter().filter(|&ok| ok).count()
}

#[test]
fn what_is_no_json_is_refused_by_every_decoder() {
    for body in ["", "   ", "<html><body>Sign in</body></html>", "Bad gateway", "{\"jobs\": [", "{]", "\u{feff}{}"] {
        assert_eq!(decode_all(body.as_bytes()), 0, "{body:?}");
    }
    assert_eq!(decode_all(&[0xff, 0xfe, 0x00]), 0);
    assert_eq!(decode_all(&b"[".repeat(100_000)), 0, "deep nesting ends");
}

#[test]
fn a_web_page_is_said_to_be_none_of_flinks() {
    let page = b"<!DOCTYPE html>\n<title>Corporate sign-on</title>".to_vec();
    let ask = |status: u16| block_on(FlinkClient::new(&Fixed(status, page.clone())).jobs()).unwrap_err();
    assert!(matches!(ask(200), FlinkError::NotFlink { status: 200, .. }));
    let shown = ask(404).to_string();
    assert!(shown.contains("/jobs/overview") && shown.contains("Corporate sign-on"), "{shown}");
    assert!(matches!(ask(401), FlinkError::Denied { .. }));
    assert!(matches!(ask(502), FlinkError::Unavailable { .. }) && ask(504).retryable());
}

#[test]
fn an_answer_that_breaks_off_may_be_asked_again() {
    let body = b"{\"jobs\": [{\"jid\": \"a".to_vec();
    let error = block_on(FlinkClient::new(&Fixed(200, body)).jobs()).unwrap_err();
    assert!(
        matches!(&error, FlinkError::Undecodable { source: DecodeError::Truncated { bytes: 20 }, .. }),
        "{error:?}"
    );
    assert!(error.retryable());
}

#[test]
fn an_old_or_unreadable_version_is_refused() {
    for version in ["1.17.2", "nightly"] {
        let body = format!("{{\"flink-version\":\"{version}\"}}").into_bytes();
        let error = block_on(FlinkClient::new(&Fixed(200, body)).supported_version()).unwrap_err();
        assert_eq!(error, FlinkError::UnsupportedVersion(version.into()));
    }
    assert!(decode::web_config(b"{\"status\":\"UP\"}").is_err(), "another server's JSON");
}

#[test]
fn a_bad_subtask_never_spoils_its_neighbours() {
    let body = br#"{"id":"v","parallelism":5,"maxParallelism":"many","subtasks":[
        {"subtask":0,"attempt":1,"status":"RUNNING","metrics":{"read-records":7,"read-records-complete":true,"accumulated-busy-time":"NaN","accumulated-idle-time":1.5}},
        "nonsense",
        {"subtask":2,"attempt":-4,"status":17,"metrics":{"read-records":-1,"write-records":1e300,"accumulated-busy-time":{}}},
        {"attempt":0},
        {"subtask":3,"attempt":0,"metrics":{"read-records":0,"read-records-complete":false,"write-records-complete":false,"accumulated-busy-time":0}},
        {"subtask":4,"attempt":0,"metrics":null,"taskmanager-id":"(unassigned)"},
        {"subtask":4,"attempt":1}
    ]}"#;
    let vertex = decode::vertex(body).unwrap();
    let indexes: Vec<u32> = vertex.subtasks.iter().map(|subtask| subtask.index).collect();
    assert_eq!(indexes, [0, 2, 3], "subtask 4 contradicts itself");
    let [good, bad, unfetched] = &vertex.subtasks[..] else { unreachable!() };
    assert_eq!((good.metrics.records_in, good.metrics.busy_ms, good.metrics.idle_ms), (Some(7.0), None, Some(1.5)));
    assert_eq!(
        (bad.attempt, bad.metrics.records_in, bad.metrics.records_out, bad.metrics.busy_ms),
        (None, None, None, None)
    );
    assert_eq!((unfetched.metrics.records_in, unfetched.metrics.busy_ms), (None, None), "0 stands for not fetched");
    assert_eq!(vertex.max_parallelism, None);
    // maxParallelism, "nonsense", attempt, status, three counters, the missing index, the doubled subtask.
    assert_eq!(vertex.problems.count(), 9, "{:?}", vertex.problems);
}

#[test]
fn a_bad_vertex_or_node_never_spoils_its_neighbours() {
    let body = br#"{"jid":"j","state":"RUNNING","start-time":"x","vertices":[{"name":"lost"},{"id":"a","parallelism":2},[],{"id":"b","parallelism":{}}],
        "plan":{"nodes":[{"id":"a"},{"id":"b","inputs":[{"id":"a","ship_strategy":"HASH"},{"num":1}]},{"id":"c","inputs":"many"},7]}}"#;
    let job = decode::job(body).unwrap();
    let read: Vec<_> = job.vertices.iter().map(|vertex| (vertex.id.as_str(), vertex.parallelism)).collect();
    assert_eq!(read, [("a", Some(2)), ("b", None)]);
    assert_eq!(job.sources, ["a"], "a node whose inputs cannot be read is no source");
    assert_eq!(job.edges.len(), 1);
    assert!(!job.all_running());
    assert_eq!(job.problems.count(), 7, "{:?}", job.problems);
    assert_eq!(job.problems.examples().len(), 4);
}

#[test]
fn a_list_of_jobs_without_a_list_is_an_error_but_bad_jobs_are_not() {
    assert!(decode::jobs(b"{}").is_err() && decode::jobs(b"{\"jobs\":null}").is_err());
    let jobs = decode::jobs(br#"{"jobs":[{"jid":"a","name":"x","state":"RUNNING"},{"name":"no id"},null,3]}"#).unwrap();
    assert_eq!(jobs.value.len(), 1);
    assert!(jobs.problems.count() >= 2, "{:?}", jobs.problems);
}

/// Read once, since the properties below look at it often.
static RECORDED: LazyLock<Version> = LazyLock::new(|| versions().remove(0));

/// JSON of any shape, not too deep.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        "NaN|-1|[a-z]{0,6}|\\PC{0,6}".prop_map(serde_json::Value::from),
    ];
    let key =
        prop_oneof!["jobs|subtasks|vertices|plan|nodes|id|jid|metrics|errors|latest|counts|parallelism", ".{0,4}"];
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            proptest::collection::hash_map(key.clone(), inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Puts `into` somewhere into `value`: at the `at`-th place, counted through the tree.
fn plant(value: &mut serde_json::Value, at: &mut usize, into: &serde_json::Value) {
    if *at == 0 {
        *value = into.clone();
    }
    *at = at.wrapping_sub(1);
    match value {
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| plant(item, at, into)),
        serde_json::Value::Object(entries) => entries.values_mut().for_each(|item| plant(item, at, into)),
        _ => {}
    }
}

proptest! {
    #[test]
    fn any_json_is_survived(value in any_json()) {
        decode_all(value.to_string().as_bytes());
    }

    #[test]
    fn any_bytes_are_survived(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        decode_all(&body);
    }

    #[test]
    fn a_recorded_answer_with_anything_in_it_is_still_read(at in 1usize..200, file in 0usize..3, odd in any_json()) {
        let version = &*RECORDED;
        let name = ["job", "vertex-count", "checkpoints"][file];
        let mut value: serde_json::Value = serde_json::from_slice(&version.file(name).body).unwrap();
        plant(&mut value, &mut at.clone(), &odd);
        let body = value.to_string().into_bytes();
        let read = match file {
            0 => decode::job(&body).is_ok(),
            1 => decode::vertex(&body).is_ok(),
            _ => decode::checkpoints(&body).is_ok(),
        };
        prop_assert!(read, "one odd value took the whole answer with it");
    }

    #[test]
    fn a_recorded_answer_with_flipped_bytes_is_survived(at in 0usize..4000, byte in any::<u8>(), cut in 0usize..6000) {
        let version = &*RECORDED;
        for name in ["job", "vertex-count", "put-unknown-job"] {
            let mut body = version.file(name).body.clone();
            let end = body.len();
            body[at % end] = byte;
            body.truncate(cut.min(end));
            decode_all(&body);
        }
    }
}
