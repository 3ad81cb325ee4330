//! The answers of the model, held to answers recorded from real clusters: same status, same keys, same JSON types, the same
//! first line of an error, the same names of metrics.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot build its input should stop there")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use weir_simulator::scenario::quick_cluster;
use weir_simulator::{
    Cluster, ClusterSpec, EdgeSpec, FlinkVersion, JobSpec, LoadTrace, Request, Scheduler, VertexSpec,
};

const SOURCE: &str = "bc764cd8ddf7a0cff126f51c16239658";
const FLATMAP: &str = "0a448493b4782967b150582570326227";
const COUNT: &str = "e70bbd798b564e0a50e10e343f1ac56b";

const BUSY: &str = ".vertices[].metrics.accumulated-busy-time";

/// What a fixture has and the model has not, or the other way round: file, path in the JSON, why.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("jobmanager-config", "", "only the keys that describe the scheduler, the slots and the intervals are there"),
    ("job-restarted", BUSY, "NaN or a number: it depends on whether the fetch came before the tasks began"),
    ("job-rescaled", BUSY, "NaN or a number: it depends on whether the fetch came before the tasks began"),
    ("job-short-of-slots", BUSY, "NaN or a number: it depends on whether the fetch came before the tasks began"),
    ("put-malformed-body", "", "the words of another JSON parser follow the first line"),
];

/// Metrics that real tasks, jobs and nodes have and the model has not, by a part of their name.
const OMITTED_METRICS: &[(&str, &str)] = &[
    (".split.", "watermarks of single splits are no input of any decision"),
    ("FileDescriptor", "file descriptors are no input of any decision"),
];

struct Recorded {
    version: FlinkVersion,
    file: String,
    method: String,
    path: String,
    status: u16,
    body: String,
    answer: Value,
}

impl Recorded {
    /// The job in the path, if there is one.
    fn job(&self) -> Option<&str> {
        self.path.strip_prefix("/jobs/")?.split(['/', '?']).next().filter(|id| id.len() == 32)
    }

    fn is(&self, part: &str) -> bool {
        self.file.contains(part)
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ingest/flink/fixtures")
}

fn recorded() -> Vec<Recorded> {
    let mut all = Vec::new();
    for version in FlinkVersion::ALL {
        let folder = directory().join(version.as_str());
        let Ok(index) = fs::read_to_string(folder.join("index.json")) else { continue };
        let index: Vec<Value> = serde_json::from_str(&index).unwrap();
        for entry in index {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            let answer = fs::read_to_string(folder.join(text("file"))).unwrap();
            all.push(Recorded {
                version,
                file: text("file"),
                method: text("method"),
                path: text("path"),
                status: u16::try_from(entry["status"].as_u64().unwrap()).unwrap(),
                body: text("body"),
                answer: serde_json::from_str(&answer).unwrap(),
            });
        }
    }
    all
}

fn job(id: &str, checkpoints: bool) -> JobSpec {
    let named = |vertex: VertexSpec, id: &str, parallelism: u32| VertexSpec {
        id: id.into(),
        max_parallelism: 120,
        ..vertex.parallelism(parallelism)
    };
    let source = VertexSpec::source("Source: source", 4, LoadTrace::constant(800.0));
    let job = JobSpec::new("wordcount")
        .vertex(named(source, SOURCE, 1))
        .vertex(named(VertexSpec::operator("flatmap").capacity(500.0).selectivity(2.0), FLATMAP, 2))
        .vertex(named(VertexSpec::operator("count -> sink").capacity(250.0).selectivity(0.0), COUNT, 3))
        .edge(EdgeSpec::rebalance("Source: source", "flatmap"))
        .edge(EdgeSpec::hash("flatmap", "count -> sink"));
    JobSpec { id: id.into(), checkpoint_interval_ms: checkpoints.then_some(5_000), ..job }
}

fn requirements(uppers: [u32; 3]) -> String {
    let bound = |upper: u32| serde_json::json!({ "parallelism": { "lowerBound": 1, "upperBound": upper } });
    serde_json::json!({ SOURCE: bound(uppers[0]), FLATMAP: bound(uppers[1]), COUNT: bound(uppers[2]) }).to_string()
}

/// A cluster in the state in which the fixture was recorded, and its time.
fn cluster_for(fixture: &Recorded) -> (Cluster, i64) {
    let without_job = matches!(
        fixture.file.as_str(),
        "config.json" | "jobs-overview-empty.json" | "overview.json" | "taskmanager.json" | "taskmanagers.json"
    );
    let default = fixture.is("default-scheduler") || fixture.is("disabled") || fixture.is("checkpoints-none");
    let unknown = fixture.job().is_none_or(|id| id.starts_with("01234567"));
    let id = if unknown { "5778d36c763154b6ec152327f0f559db" } else { fixture.job().unwrap() };
    let mut spec = ClusterSpec {
        version: fixture.version,
        scheduler: if default { Scheduler::Default } else { Scheduler::Adaptive },
        slots_per_task_manager: 4,
        ..quick_cluster()
    };
    if !without_job {
        spec.jobs.push(job(id, !default));
    }
    let mut cluster = Cluster::new(spec, 0).unwrap();
    let mut now = if default { 1_500 } else { 12_000 };
    let prime = |cluster: &mut Cluster, now: i64| cluster.handle(now, &Request::get("/jobmanager/metrics"));
    if !without_job {
        for at in [3_000, 6_000, 9_000, 11_000] {
            prime(&mut cluster, at.min(now));
        }
    }
    if fixture.is("-status-") && !fixture.is("unknown") {
        now = triggered(&mut cluster, fixture, id, now);
    } else if ["rescaled", "restored", "after-put", "short-of-slots"].iter().any(|part| fixture.is(part)) {
        let put = Request::new("PUT", &format!("/jobs/{id}/resource-requirements"));
        assert_eq!(cluster.handle(now, &put.with_body(requirements([1, 3, 5]))).status, 200);
        prime(&mut cluster, 22_000);
        now = 24_000;
    } else if fixture.is("restart") || fixture.file == "job-exceptions.json" {
        cluster.advance_to(now);
        cluster.fail_task(id).unwrap();
        prime(&mut cluster, now + 100);
        now += if fixture.is("restarted") { 20_000 } else { 200 };
    } else if fixture.is("finished") {
        cluster.advance_to(now);
        cluster.finish_job(id).unwrap();
        now += 2_000;
    } else if fixture.is("put-conflict") {
        let put = Request::new("PUT", &format!("/jobs/{id}/resource-requirements"));
        assert_eq!(cluster.handle(now, &put.with_body(requirements([1, 2, 4]))).status, 200);
    }
    (cluster, now)
}

/// Asks for the checkpoint whose state the fixture shows, in a moment that leads to that state.
fn triggered(cluster: &mut Cluster, fixture: &Recorded, id: &str, now: i64) -> i64 {
    cluster.advance_to(now);
    if fixture.answer["operation"].get("failureCause").is_some() {
        cluster.fail_task(id).unwrap();
    }
    let key = fixture.path.rsplit('/').next().unwrap();
    let post = Request::new("POST", &format!("/jobs/{id}/checkpoints"));
    let body = serde_json::json!({ "triggerId": key }).to_string();
    assert_eq!(cluster.handle(now, &post.with_body(body)).status, 202);
    if fixture.answer["operation"].is_null() { now } else { now + 5_000 }
}

/// All paths of a JSON value with the type that is found there.
fn shape(value: &Value, path: &str, into: &mut BTreeSet<(String, &'static str)>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "real",
        Value::Number(_) => "whole",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    };
    into.insert((path.to_owned(), kind));
    match value {
        Value::Array(items) => items.iter().for_each(|item| shape(item, &format!("{path}[]"), into)),
        Value::Object(map) => map.iter().for_each(|(key, item)| shape(item, &format!("{path}.{key}"), into)),
        _ => {}
    }
}

fn shape_of(value: &Value) -> BTreeSet<(String, &'static str)> {
    let mut found = BTreeSet::new();
    shape(value, "", &mut found);
    found
}

fn first_lines(value: &Value) -> Vec<String> {
    let line = |text: &Value| text.as_str().unwrap_or_default().split("\n\tat ").next().unwrap_or_default().to_owned();
    value["errors"].as_array().map(|errors| errors.iter().map(line).collect()).unwrap_or_default()
}

fn names(value: &Value) -> BTreeSet<String> {
    value.as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

/// What is wrong with our answer.
fn complaint(fixture: &Recorded, status: u16, ours: &Value) -> Option<String> {
    if status != fixture.status {
        return Some(format!("status {status}, recorded {}: {ours}", fixture.status));
    }
    if DIFFERENCES.iter().any(|(file, path, _)| fixture.is(file) && path.is_empty()) {
        return None;
    }
    if fixture.status >= 400 {
        let (ours, theirs) = (first_lines(ours), first_lines(&fixture.answer));
        return (ours != theirs).then(|| format!("error {ours:?}, recorded {theirs:?}"));
    }
    if fixture.is("metric-names") {
        let omitted = |name: &&String| OMITTED_METRICS.iter().any(|(part, _)| name.contains(part));
        let (ours, theirs) = (names(ours), names(&fixture.answer));
        let missing: Vec<_> = theirs.difference(&ours).filter(|name| !omitted(name)).collect();
        let invented: Vec<_> = ours.difference(&theirs).collect();
        return (!missing.is_empty() || !invented.is_empty())
            .then(|| format!("missing {missing:?}, invented {invented:?}"));
    }
    let (ours, theirs) = (shape_of(ours), shape_of(&fixture.answer));
    let excused = |path: &str| DIFFERENCES.iter().any(|(file, part, _)| fixture.is(file) && path.starts_with(part));
    let missing: Vec<_> = theirs.difference(&ours).filter(|(path, _)| !excused(path)).collect();
    let invented: Vec<_> = ours.difference(&theirs).filter(|(path, _)| !excused(path)).collect();
    (!missing.is_empty() || !invented.is_empty()).then(|| format!("missing {missing:?}, invented {invented:?}"))
}

#[test]
fn answers_have_the_status_the_keys_and_the_types_of_recorded_ones() {
    let all = recorded();
    for version in FlinkVersion::ALL {
        let count = all.iter().filter(|fixture| fixture.version == version).count();
        assert!(count > 100, "{count} fixtures of {} in {}", version.as_str(), directory().display());
    }
    let mut complaints = Vec::new();
    for fixture in &all {
        let (mut cluster, now) = cluster_for(fixture);
        let request = Request::new(&fixture.method, &fixture.path).with_body(fixture.body.clone());
        let response = cluster.handle(now, &request);
        let ours: Value = serde_json::from_str(&response.body).unwrap();
        if let Some(complaint) = complaint(fixture, response.status, &ours) {
            complaints.push(format!("{} {}: {complaint}", fixture.version.as_str(), fixture.file));
        }
    }
    assert!(complaints.is_empty(), "{} of {} differ:\n{}", complaints.len(), all.len(), complaints.join("\n"));
}
