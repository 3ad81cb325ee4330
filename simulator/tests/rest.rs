//! Delays, caches and traps of the REST API, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test that cannot build its input should stop there")]

use serde_json::{Value, json};
use weir_simulator::scenario::{quick_cluster, scenario, wordcount_job};
use weir_simulator::{Cause, Cluster, ClusterSpec, FlinkVersion, JobTruth, Request, Scheduler, SourceKind};

/// A cluster with one word count, and its job id.
fn wordcount(spec: ClusterSpec) -> (Cluster, String) {
    let job = wordcount_job("w", &[(0.0, 800.0)], 0.0);
    let id = job.id.clone();
    (Cluster::new(ClusterSpec { jobs: vec![job], ..spec }, 0).unwrap(), id)
}

fn get(cluster: &mut Cluster, now: i64, path: &str) -> Value {
    let response = cluster.handle(now, &Request::get(path));
    assert_eq!(response.status, 200, "{path}: {}", response.body);
    serde_json::from_str(&response.body).unwrap()
}

fn put(cluster: &mut Cluster, now: i64, id: &str, bounds: [(i64, i64); 3]) -> u16 {
    let vertices: Vec<String> = cluster.spec().jobs[0].vertices.iter().map(|vertex| vertex.id.clone()).collect();
    let bound = |(lower, upper): (i64, i64)| json!({ "parallelism": { "lowerBound": lower, "upperBound": upper } });
    let map = vertices.into_iter().zip(bounds).map(|(vertex, bounds)| (vertex, bound(bounds)));
    let body = Value::Object(map.collect()).to_string();
    let request = Request::new("PUT", &format!("/jobs/{id}/resource-requirements")).with_body(body);
    cluster.handle(now, &request).status
}

fn post_checkpoint(cluster: &mut Cluster, now: i64, id: &str) -> u16 {
    cluster.handle(now, &Request::new("POST", &format!("/jobs/{id}/checkpoints"))).status
}

fn job(cluster: &Cluster) -> JobTruth {
    cluster.truth().jobs.remove(0)
}

/// First moment from `from` on, in steps, at which the job runs at `parallelism`; none within `most_ms`.
fn running_at(cluster: &mut Cluster, from: i64, most_ms: i64, parallelism: &[u32]) -> Option<i64> {
    (from..from + most_ms).step_by(20).find(|&now| {
        cluster.advance_to(now);
        let truth = job(cluster);
        truth.running && truth.parallelism() == parallelism
    })
}

fn read_records(answer: &Value) -> u64 {
    answer["vertices"][1]["metrics"]["read-records"].as_u64().unwrap()
}

#[test]
fn metrics_are_as_old_as_the_last_fetch_and_a_call_starts_the_next() {
    let (mut cluster, id) = wordcount(ClusterSpec { metrics_refresh_ms: 10_000, ..quick_cluster() });
    let path = format!("/jobs/{id}");
    get(&mut cluster, 10_000, &path);
    let first = read_records(&get(&mut cluster, 10_100, &path));
    assert!(first > 0, "80 ms after the first call the store is filled");
    assert_eq!(read_records(&get(&mut cluster, 19_900, &path)), first, "and stays so while nobody may fetch");
    // 13 s without a caller: the answer is as old as that, and the next one is fresh.
    assert_eq!(read_records(&get(&mut cluster, 33_000, &path)), first);
    let fresh = read_records(&get(&mut cluster, 33_100, &path));
    assert!(fresh - first > 23 * 240, "{fresh} follows {first}");
}

#[test]
fn only_some_calls_prime_the_fetcher() {
    let primes = |path: &str| {
        let (mut cluster, id) = wordcount(quick_cluster());
        let path = path.replace("JOB", &id);
        cluster.handle(10_000, &Request::get(&path));
        let names = cluster.handle(10_100, &Request::get(&format!("/jobs/{id}/metrics")));
        names.body != "[]"
    };
    for path in ["/taskmanagers/metrics", "/jobmanager/metrics", "/jobs/JOB", "/jobs/JOB/metrics"] {
        assert!(primes(path), "{path} primes");
    }
    for path in ["/jobs/overview", "/overview", "/taskmanagers", "/jobs/JOB/resource-requirements"] {
        assert!(!primes(path), "{path} does not prime");
    }
}

#[test]
fn one_unknown_name_empties_aggregates_but_not_raw_answers() {
    let (mut cluster, id) = wordcount(quick_cluster());
    let vertex = cluster.spec().jobs[0].vertices[2].id.clone();
    get(&mut cluster, 10_000, "/taskmanagers/metrics");
    let base = format!("/jobs/{id}/vertices/{vertex}");
    let mut at = 10_100;
    let mut ask = |path: &str| {
        at += 1;
        get(&mut cluster, at, &format!("{base}{path}"))
    };
    assert_eq!(ask("/subtasks/metrics?get=numRecordsIn,nothing&agg=sum"), json!([]));
    assert_eq!(ask("/subtasks/metrics?get=numRecordsIn&agg=sum")[0]["id"], "numRecordsIn");
    assert_eq!(ask("/subtasks/metrics?get=isBackPressured"), json!([]), "what is no number is skipped");
    assert_eq!(ask("/metrics?get=0.numRecordsIn,0.nothing").as_array().unwrap().len(), 1);
    assert_eq!(get(&mut cluster, 10_200, "/taskmanagers/metrics?get=Status.JVM.CPU.Load,nothing"), json!([]));
}

#[test]
fn meters_are_too_low_for_a_minute_while_counters_are_right() {
    let (mut cluster, id) = wordcount(quick_cluster());
    let vertex = cluster.spec().jobs[0].vertices[2].id.clone();
    let path = format!("/jobs/{id}/vertices/{vertex}/subtasks/metrics?get=numRecordsInPerSecond,busyTimeMsPerSecond");
    let mut at = |now: i64| {
        get(&mut cluster, now - 100, &path);
        let answer = get(&mut cluster, now, &path);
        (answer[0]["sum"].as_f64().unwrap(), answer[1]["sum"].as_f64().unwrap())
    };
    let (rate, busy) = at(21_000);
    assert!(rate < 200.0 && busy > 950.0, "after 20 s: {rate} records/s at {busy} ms/s");
    let (rate, busy) = at(90_000);
    assert!((rate - 500.0).abs() < 10.0 && busy > 990.0, "after 90 s: {rate} records/s at {busy} ms/s");
}

#[test]
fn before_2_0_a_rescale_is_immediate_and_replays_since_the_last_checkpoint() {
    let (mut cluster, id) = wordcount(ClusterSpec { version: FlinkVersion::V1_18, ..quick_cluster() });
    cluster.advance_to(20_000);
    assert_eq!(put(&mut cluster, 20_000, &id, [(1, 1), (1, 3), (1, 5)]), 200);
    let running = running_at(&mut cluster, 20_000, 10_000, &[1, 3, 5]).unwrap();
    assert!(running - 20_000 < 1_500, "running {} ms after the PUT", running - 20_000);
    assert!(job(&cluster).replayed > 0);
}

#[test]
fn a_cool_down_delays_the_next_rescale_since_1_20() {
    let spec = ClusterSpec { version: FlinkVersion::V1_20, cooldown_ms: 30_000, ..quick_cluster() };
    let (mut cluster, id) = wordcount(spec);
    cluster.advance_to(40_000);
    put(&mut cluster, 40_000, &id, [(1, 1), (1, 2), (1, 3)]);
    let first = running_at(&mut cluster, 40_000, 5_000, &[1, 2, 3]).unwrap();
    put(&mut cluster, first + 1_000, &id, [(1, 1), (1, 3), (1, 5)]);
    let second = running_at(&mut cluster, first + 1_000, 60_000, &[1, 3, 5]).unwrap();
    assert!((29_000..33_000).contains(&(second - first)), "{} ms later", second - first);
}

#[test]
fn since_2_0_a_rescale_waits_for_a_checkpoint_which_can_be_asked_for() {
    let slow = |post: bool| {
        let mut spec = ClusterSpec { jobs: vec![wordcount_job("w", &[(0.0, 200.0)], 0.0)], ..quick_cluster() };
        spec.jobs[0].checkpoint_interval_ms = Some(600_000);
        let id = spec.jobs[0].id.clone();
        // The first periodic checkpoint comes at a random moment; a seed puts it late.
        let mut cluster = Cluster::new(ClusterSpec { seed: 3, ..spec }, 0).unwrap();
        cluster.advance_to(20_000);
        put(&mut cluster, 20_000, &id, [(1, 1), (1, 3), (1, 5)]);
        if post {
            assert_eq!(post_checkpoint(&mut cluster, 20_010, &id), 202);
        }
        let running = running_at(&mut cluster, 20_000, 25_000, &[1, 3, 5]);
        (running, job(&cluster))
    };
    assert_eq!(slow(false).0, None, "not rescaled after 25 s");
    let (running, truth) = slow(true);
    assert!(running.unwrap() - 20_000 < 3_000, "rescaled {} ms after the PUT", running.unwrap() - 20_000);
    assert!(truth.replayed < 300, "hardly anything is read twice: {}", truth.replayed);
}

#[test]
fn without_a_checkpoint_the_longest_delay_triggers() {
    let spec = ClusterSpec { max_delay_ms: Some(4_000), ..quick_cluster() };
    let mut job_spec = wordcount_job("w", &[(0.0, 200.0)], 0.0);
    job_spec.checkpoint_interval_ms = None;
    let id = job_spec.id.clone();
    let mut cluster = Cluster::new(ClusterSpec { jobs: vec![job_spec], ..spec }, 0).unwrap();
    cluster.advance_to(20_000);
    put(&mut cluster, 20_000, &id, [(1, 1), (1, 2), (1, 2)]);
    let running = running_at(&mut cluster, 20_000, 20_000, &[1, 2, 2]).unwrap();
    assert!((4_000..5_500).contains(&(running - 20_000)), "{} ms later", running - 20_000);
    let truth = job(&cluster);
    assert_eq!((truth.rescales, truth.history[0].cause), (1, Cause::Requirements));
    assert!(truth.replayed > 3_000, "everything is read again: {}", truth.replayed);
}

#[test]
fn a_switch_shows_restarting_then_the_graphs_own_parallelism_then_the_new_one() {
    let mut spec = ClusterSpec { web_refresh_ms: 0, restart_ms: 2_000, ..quick_cluster() };
    let mut own = wordcount_job("w", &[(0.0, 800.0)], 0.0);
    own.vertices[1].parallelism = 2;
    let id = own.id.clone();
    spec.jobs.push(own);
    let mut cluster = Cluster::new(spec, 0).unwrap();
    cluster.advance_to(12_000);
    put(&mut cluster, 12_000, &id, [(1, 1), (1, 4), (1, 7)]);
    post_checkpoint(&mut cluster, 12_000, &id);
    let mut seen: Vec<(String, u64)> = Vec::new();
    for now in (12_000..30_000).step_by(50) {
        let answer = get(&mut cluster, now, &format!("/jobs/{id}"));
        let vertex = &answer["vertices"][1];
        let state = (answer["state"].as_str().unwrap().to_owned(), vertex["parallelism"].as_u64().unwrap());
        if seen.last() != Some(&state) {
            seen.push(state);
        }
    }
    let expected = [("RUNNING", 2), ("RESTARTING", 2), ("CREATED", 2), ("RUNNING", 4)];
    assert_eq!(seen, expected.map(|(state, parallelism)| (state.to_owned(), parallelism)));
}

#[test]
fn structure_is_served_from_a_cache() {
    let (mut cluster, id) = wordcount(ClusterSpec { web_refresh_ms: 3_000, ..quick_cluster() });
    let path = format!("/jobs/{id}");
    get(&mut cluster, 20_000, &path);
    cluster.fail_task(&id).unwrap();
    assert_eq!(get(&mut cluster, 20_200, &path)["state"], "RUNNING", "the cache does not know it yet");
    let overview = get(&mut cluster, 20_200, "/jobs/overview");
    assert_eq!(overview["jobs"][0]["state"], "RESTARTING", "the overview is not cached");
    assert_eq!(get(&mut cluster, 22_999, &path)["timestamps"]["CANCELLING"], 0);
}

#[test]
fn requirements_are_shown_as_asked_and_run_as_far_as_the_slots_reach() {
    let (mut cluster, id) = wordcount(ClusterSpec { slots_per_task_manager: 4, ..quick_cluster() });
    cluster.advance_to(15_000);
    assert_eq!(put(&mut cluster, 15_000, &id, [(1, 1), (1, 3), (1, 20)]), 200);
    // Only sufficient, not desired: the stabilisation time-out comes first.
    let running = running_at(&mut cluster, 15_000, 30_000, &[1, 3, 8]).unwrap();
    assert!(running - 15_000 >= 10_000, "{} ms later", running - 15_000);
    let count = cluster.spec().jobs[0].vertices[2].id.clone();
    let shown = get(&mut cluster, running, &format!("/jobs/{id}/resource-requirements"));
    assert_eq!(shown[&count]["parallelism"]["upperBound"], 20);
}

#[test]
fn a_lower_bound_above_all_slots_changes_nothing() {
    let (mut cluster, id) = wordcount(ClusterSpec { slots_per_task_manager: 4, ..quick_cluster() });
    cluster.advance_to(15_000);
    assert_eq!(put(&mut cluster, 15_000, &id, [(1, 1), (1, 3), (9, 20)]), 200);
    cluster.advance_to(60_000);
    assert_eq!((job(&cluster).restarts, job(&cluster).running), (0, true));
    cluster.fail_task(&id).unwrap();
    cluster.advance_to(120_000);
    assert_eq!(job(&cluster).status, "CREATED", "after a failure it waits for slots");
    cluster.advance_to(60_000 + 310_000);
    assert_eq!(job(&cluster).status, "FAILED");
}

#[test]
fn the_same_requirements_again_restart_nothing_and_the_last_of_several_wins() {
    let (mut cluster, id) = wordcount(quick_cluster());
    cluster.advance_to(12_000);
    assert_eq!(put(&mut cluster, 12_000, &id, [(1, 1), (1, 1), (1, 1)]), 200);
    cluster.advance_to(30_000);
    assert_eq!(job(&cluster).restarts, 0);
    assert_eq!(put(&mut cluster, 30_000, &id, [(1, 1), (1, 2), (1, 3)]), 200);
    assert_eq!(put(&mut cluster, 30_002, &id, [(1, 1), (1, 2), (1, 4)]), 409, "the update takes a moment");
    assert_eq!(put(&mut cluster, 30_100, &id, [(1, 1), (1, 3), (1, 5)]), 200);
    running_at(&mut cluster, 30_100, 10_000, &[1, 3, 5]).unwrap();
    assert_eq!(job(&cluster).restarts, 1);
}

#[test]
fn an_unset_upper_bound_kills_the_job_manager_of_2_3_and_is_stored_by_older_ones() {
    let (mut cluster, id) = wordcount(quick_cluster());
    cluster.advance_to(12_000);
    assert_eq!(put(&mut cluster, 12_000, &id, [(1, 1), (-1, 2), (1, -1)]), 200);
    cluster.advance_to(20_000);
    assert!(cluster.is_dead() && cluster.handle(20_000, &Request::get("/overview")).is_dropped());

    let (mut cluster, id) = wordcount(ClusterSpec { version: FlinkVersion::V2_0, ..quick_cluster() });
    let count = cluster.spec().jobs[0].vertices[2].id.clone();
    assert_eq!(put(&mut cluster, 12_000, &id, [(1, 1), (1, 2), (1, -1)]), 500);
    let shown = get(&mut cluster, 12_000, &format!("/jobs/{id}/resource-requirements"));
    assert_eq!(shown[&count]["parallelism"]["upperBound"], -1);
}

#[test]
fn attempt_numbers_belong_to_the_subtask() {
    let (mut cluster, id) =
        wordcount(ClusterSpec { version: FlinkVersion::V1_18, web_refresh_ms: 0, ..quick_cluster() });
    let flatmap = cluster.spec().jobs[0].vertices[1].id.clone();
    let mut now = 10_000;
    let mut rescaled_to = |upper: i64| {
        put(&mut cluster, now, &id, [(1, 1), (1, upper), (1, 1)]);
        now += 5_000;
        let detail = get(&mut cluster, now, &format!("/jobs/{id}/vertices/{flatmap}"));
        let attempts = detail["subtasks"].as_array().unwrap().iter().map(|s| s["attempt"].as_u64().unwrap());
        attempts.collect::<Vec<_>>()
    };
    assert_eq!(rescaled_to(3), [1, 0, 0], "new subtasks begin at 0");
    assert_eq!(rescaled_to(1), [2]);
    assert_eq!(rescaled_to(2), [3, 1], "a subtask that comes back goes on counting");
}

#[test]
fn counters_of_a_new_attempt_are_incomplete_until_a_fetch_has_them() {
    let (mut cluster, id) =
        wordcount(ClusterSpec { version: FlinkVersion::V1_18, web_refresh_ms: 0, ..quick_cluster() });
    let path = format!("/jobs/{id}");
    get(&mut cluster, 10_000, &path);
    assert!(read_records(&get(&mut cluster, 10_100, &path)) > 1_000);
    put(&mut cluster, 10_100, &id, [(1, 1), (1, 3), (1, 5)]);
    let running = running_at(&mut cluster, 10_100, 10_000, &[1, 3, 5]).unwrap();
    let metrics = get(&mut cluster, running + 200, &path)["vertices"][1]["metrics"].clone();
    assert_eq!((&metrics["read-records"], &metrics["read-records-complete"]), (&json!(0), &json!(false)));
    let metrics = get(&mut cluster, running + 400, &path)["vertices"][1]["metrics"].clone();
    assert_eq!(metrics["read-records-complete"], true);
}

#[test]
fn a_lost_task_manager_costs_its_slots_and_one_that_comes_gives_them_back() {
    for (kill, least, most) in [(false, 2_000, 5_000), (true, 12_000, 20_000)] {
        let (mut cluster, id) = wordcount(ClusterSpec { slots_per_task_manager: 4, ..quick_cluster() });
        put(&mut cluster, 12_000, &id, [(1, 1), (1, 3), (1, 8)]);
        let before = running_at(&mut cluster, 12_000, 20_000, &[1, 3, 8]).unwrap() + 1_000;
        cluster.advance_to(before);
        if kill {
            cluster.kill_task_manager("tm2").unwrap();
        } else {
            cluster.remove_task_manager("tm2").unwrap();
        }
        let smaller = running_at(&mut cluster, before + 20, 60_000, &[1, 3, 4]).unwrap() - before;
        assert!((least..most).contains(&smaller), "kill {kill}: {smaller} ms");
        assert_eq!(job(&cluster).restarts > 5, kill, "a silent loss is found out by failing attempts");
        cluster.add_task_manager();
        let added = cluster.now_ms();
        running_at(&mut cluster, added, 30_000, &[1, 3, 8]).unwrap();
        assert_eq!(job(&cluster).history.last().unwrap().cause, Cause::Resources);
    }
}

#[test]
fn reactive_jobs_take_all_slots_and_refuse_requirements() {
    let (mut cluster, id) = wordcount(ClusterSpec { scheduler: Scheduler::Reactive, ..quick_cluster() });
    running_at(&mut cluster, 20, 20_000, &[16, 16, 16]).unwrap();
    let now = cluster.now_ms();
    assert_eq!(put(&mut cluster, now, &id, [(1, 1), (1, 1), (1, 1)]), 500);
}

#[test]
fn the_busy_time_of_a_legacy_source_is_nan() {
    let mut own = wordcount_job("w", &[(0.0, 800.0)], 0.0);
    own.vertices[0] = own.vertices[0].clone().source_kind(SourceKind::Legacy);
    let (id, vertex) = (own.id.clone(), own.vertices[0].id.clone());
    let mut cluster = Cluster::new(ClusterSpec { jobs: vec![own], ..quick_cluster() }, 0).unwrap();
    get(&mut cluster, 10_000, "/jobmanager/metrics");
    let base = format!("/jobs/{id}/vertices/{vertex}");
    let detail = get(&mut cluster, 10_100, &base);
    assert_eq!(detail["subtasks"][0]["metrics"]["accumulated-busy-time"], "NaN");
    let aggregated = get(&mut cluster, 10_100, &format!("{base}/subtasks/metrics?get=busyTimeMsPerSecond"));
    assert_eq!((&aggregated[0]["sum"], &aggregated[0]["max"]), (&json!("NaN"), &json!("NaN")));
    let pending = get(&mut cluster, 10_100, &format!("{base}/subtasks/metrics?get=Source__source.pendingRecords"));
    assert_eq!(pending, json!([]));
}

#[test]
fn pending_records_are_the_backlog() {
    let (mut cluster, id) = wordcount(quick_cluster());
    let vertex = cluster.spec().jobs[0].vertices[0].id.clone();
    let path = format!("/jobs/{id}/vertices/{vertex}/subtasks/metrics?get=Source__source.pendingRecords&agg=sum");
    get(&mut cluster, 29_920, &path);
    cluster.advance_to(30_000);
    let backlog = job(&cluster).backlog;
    let shown = get(&mut cluster, 30_000, &path)[0]["sum"].as_f64().unwrap();
    assert!(backlog > 10_000 && (shown - f64::from(u32::try_from(backlog).unwrap())).abs() < 0.5);
}

#[test]
fn a_stop_takes_a_savepoint_and_a_resubmission_forgets_the_requirements() {
    let (mut cluster, id) = wordcount(quick_cluster());
    cluster.advance_to(12_000);
    put(&mut cluster, 12_000, &id, [(1, 1), (1, 3), (1, 5)]);
    let running = running_at(&mut cluster, 12_000, 20_000, &[1, 3, 5]).unwrap() + 3_000;
    let key = "0123456789abcdef0123456789abcdef";
    let body = json!({ "targetDirectory": "file:/keep", "drain": false, "triggerId": key }).to_string();
    let stop = Request::new("POST", &format!("/jobs/{id}/stop")).with_body(body);
    for _ in 0..2 {
        let answer = cluster.handle(running, &stop);
        assert_eq!((answer.status, answer.body), (202, format!("{{\"request-id\":\"{key}\"}}")));
    }
    let status = get(&mut cluster, running + 10_000, &format!("/jobs/{id}/savepoints/{key}"));
    assert_eq!(status["status"]["id"], "COMPLETED");
    assert!(status["operation"]["location"].as_str().unwrap().starts_with("file:/keep/savepoint-"));
    let stopped = job(&cluster);
    assert_eq!(stopped.status, "FINISHED");
    let again = cluster.resubmit(&id).unwrap();
    cluster.advance_to(running + 20_000);
    let truth = cluster.truth().jobs.remove(1);
    assert_eq!((truth.id.as_str(), truth.running, truth.parallelism()), (again.as_str(), true, vec![1, 1, 1]));
    assert!(truth.consumed > stopped.consumed, "it goes on from the savepoint");
    let restored = get(&mut cluster, running + 20_000, &format!("/jobs/{again}/checkpoints"));
    assert_eq!(restored["latest"]["restored"]["is_savepoint"], true);
}

#[test]
fn restarts_and_rescales_are_counted_as_the_version_counts_them() {
    for (version, rescales) in [(FlinkVersion::V1_20, None), (FlinkVersion::V2_3, Some("1"))] {
        let (mut cluster, id) = wordcount(ClusterSpec { version, ..quick_cluster() });
        cluster.advance_to(12_000);
        put(&mut cluster, 12_000, &id, [(1, 1), (1, 3), (1, 5)]);
        let running = running_at(&mut cluster, 12_000, 20_000, &[1, 3, 5]).unwrap();
        let path = format!("/jobs/{id}/metrics?get=numRestarts,numRescales");
        get(&mut cluster, running + 100, &path);
        let answer = get(&mut cluster, running + 300, &path);
        let value =
            |name: &str| answer.as_array().unwrap().iter().find(|m| m["id"] == name).map(|m| m["value"].clone());
        assert_eq!(value("numRestarts"), Some(json!("1")));
        assert_eq!(value("numRescales"), rescales.map(|count| json!(count)), "{version:?}");
    }
}

#[test]
fn slots_stay_taken_for_a_while_after_a_shrink() {
    let (mut cluster, id) = wordcount(quick_cluster());
    cluster.advance_to(12_000);
    put(&mut cluster, 12_000, &id, [(1, 1), (1, 8), (1, 16)]);
    let big = running_at(&mut cluster, 12_000, 20_000, &[1, 8, 16]).unwrap() + 6_000;
    put(&mut cluster, big, &id, [(1, 1), (1, 3), (1, 5)]);
    let small = running_at(&mut cluster, big, 20_000, &[1, 3, 5]).unwrap();
    assert_eq!(get(&mut cluster, small, "/overview")["slots-available"], 0);
    assert_eq!(get(&mut cluster, small + 75_000, "/overview")["slots-available"], 11);
}

#[test]
fn several_jobs_share_the_slots() {
    let mut spec = quick_cluster();
    for name in ["a", "b", "c"] {
        spec.jobs.push(wordcount_job(name, &[(0.0, 100.0)], 0.0));
    }
    let mut cluster = Cluster::new(spec, 0).unwrap();
    let overview = get(&mut cluster, 10_000, "/overview");
    assert_eq!((&overview["jobs-running"], &overview["slots-available"]), (&json!(3), &json!(13)));
    assert_eq!(get(&mut cluster, 10_000, "/jobs/overview")["jobs"].as_array().unwrap().len(), 3);
    cluster.cancel_job("b").unwrap();
    let overview = get(&mut cluster, 12_000, "/overview");
    assert_eq!((&overview["jobs-cancelled"], &overview["slots-available"]), (&json!(1), &json!(14)));
}

#[test]
fn hooks_refuse_what_does_not_exist() {
    let mut cluster = Cluster::new(scenario("calm").unwrap().spec, 0).unwrap();
    cluster.advance_to(10_000);
    assert!(cluster.set_rate("calm", "flatmap", 1.0).is_err(), "flatmap is no source");
    assert!(cluster.set_rate("nobody", "Source: source", 1.0).is_err());
    assert!(cluster.kill_task_manager("tm9").is_err());
    assert!(cluster.resubmit("calm").is_err(), "it still runs");
    let again = cluster.spec().jobs[0].clone();
    assert!(cluster.submit(again).is_err(), "its id is taken");
}
