//! Rounds over simulated clusters, in virtual time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot build its input should stop there")]

mod common;

use std::collections::BTreeSet;

use common::{Fault, Sim, batches, batches_of, silences};
use weir_flink::FlinkClient;
use weir_ingest::{Options, first_contact};
use weir_schemas::records::{MetricBatch, Vertex};
use weir_schemas::wire;
use weir_simulator::{
    ClusterSpec, EdgeSpec, FlinkVersion, JobSpec, LoadTrace, Scheduler, SourceKind, VertexSpec, scenario,
};

fn calls(reports: &[weir_ingest::RoundReport], job: &str) -> Vec<u32> {
    reports.iter().filter_map(|report| report.job_calls.get(job).copied()).collect()
}

fn sum(vertex: &Vertex, column: fn(&weir_schemas::records::Subtasks) -> &weir_schemas::records::Column) -> Option<f64> {
    let subtasks = vertex.subtasks.as_ref()?;
    column(subtasks).unpack(subtasks.index.len()).into_iter().sum()
}

fn records_out(batch: &MetricBatch, vertex: usize) -> Option<f64> {
    sum(&batch.vertices[vertex], |subtasks| subtasks.records_out.as_ref().unwrap())
}

#[tokio::test]
async fn a_round_costs_v_plus_s_plus_3_calls_a_job_and_a_few_a_cluster() {
    let sim = Sim::of_jobs(vec![Sim::job("a"), Sim::job("b")]);
    let watch = sim.watch();
    let reports = watch.pass(20_000).await;
    assert!(reports.len() > 15, "{} rounds", reports.len());
    // Three vertices, one of them a source; the first contact with a run also lists names and reads configuration.
    for job in ["prod/default/a", "prod/default/b"] {
        let calls = calls(&reports, job);
        assert!(calls[0] <= 7 + 4, "{calls:?}");
        assert!(calls[3..].iter().all(|&calls| calls == 3 + 1 + 3), "{calls:?}");
    }
    // The list of jobs, the prime, the list of TaskManagers, and four of those.
    assert!(reports[3..].iter().all(|report| report.cluster_calls == 3 + 4), "{:?}", reports[3]);
    assert!(reports.iter().all(|report| report.failure.is_none() && report.refused.is_empty()));
}

#[tokio::test]
async fn jobs_are_shown_by_whoever_watches_them_and_by_nobody_else() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    let are_shown = |jobs: u32| recorder.handle().render().contains(&format!("weir_jobs{{cluster=\"prod\"}} {jobs}\n"));
    let sim = Sim::of_jobs(vec![Sim::job("a"), Sim::job("b")]);
    let watch = sim.watch();
    watch.pass(5_000).await;
    assert!(are_shown(2));
    watch.end().await;
    assert!(are_shown(0), "another may have the cluster now");
}

#[tokio::test]
async fn rounds_are_further_apart_than_flinks_refreshes_and_read_after_the_fetch() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let watch = sim.watch();
    watch.pass(20_000).await;
    let calls = sim.calls();
    let primes: Vec<i64> =
        calls.iter().filter(|(_, path)| path == "/taskmanagers/metrics").map(|(at, _)| *at).collect();
    assert!(primes.windows(2).all(|pair| pair[1] - pair[0] == 1_050), "{primes:?}");
    let details = calls
        .iter()
        .filter(|(_, path)| path.contains("/vertices/") || path.contains("/jobs/") && path.ends_with("checkpoints"));
    for (at, path) in details {
        let prime = primes.iter().rev().find(|prime| *prime <= at).unwrap();
        assert_eq!(at - prime, 150, "{path}");
    }
}

#[tokio::test]
async fn a_batch_says_all_that_is_known_of_a_job() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let watch = sim.watch();
    watch.pass(30_000).await;
    let records = watch.records();
    let sequences: Vec<u64> = records.iter().map(|record| record.sequence).collect();
    assert_eq!(sequences, (7..7 + u64::try_from(records.len()).unwrap()).collect::<Vec<_>>());
    assert!(records.iter().all(|record| wire::decode(&wire::encode(record).unwrap()).unwrap() == *record));
    let all = batches(&records);
    let (job, batch) = all.last().unwrap();
    assert_eq!((*job, batch.part, batch.parts, batch.same_name), ("prod/default/a", 0, 1, 1));
    assert_eq!((batch.job_state.as_str(), batch.period_ms, batch.refresh_ms), ("RUNNING", 1_050, 1_000));
    assert_eq!((batch.session.as_str(), batch.restarts), ("s1", Some(0)));
    assert!(batch.batch_id.contains(&batch.run_id) && batch.run_start_ms >= 1_000_000);
    assert_eq!(batch.fetched_at_ms - 1_000_000, batch.monotonic_ms);
    let names: Vec<(&str, bool, u32)> =
        batch.vertices.iter().map(|vertex| (vertex.name.as_str(), vertex.is_source, vertex.parallelism)).collect();
    assert_eq!(names, [("Source: source", true, 1), ("flatmap", false, 2), ("count -> sink", false, 2)]);
    assert!(batch.vertices.iter().all(|vertex| !vertex.source_is_chained && vertex.max_parallelism == 128));
    assert_eq!(batch.edges.iter().map(|edge| edge.ship_strategy.as_str()).collect::<Vec<_>>(), ["REBALANCE", "HASH"]);
    let source = &batch.vertices[0];
    assert!(source.pending_records.is_some_and(|pending| pending < 1_000.0), "{:?}", source.pending_records);
    for vertex in &batch.vertices {
        let subtasks = vertex.subtasks.as_ref().unwrap();
        assert!(subtasks.running.iter().all(|&running| running));
        assert!(subtasks.task_manager.iter().all(|&at| at > 0 && at <= 4), "{:?}", subtasks.task_manager);
        assert!(sum(vertex, |subtasks| subtasks.busy_ms.as_ref().unwrap()).is_some());
    }
    let cluster = batch.cluster.as_ref().unwrap();
    assert_eq!((cluster.scheduler.as_str(), cluster.flink_version.as_str()), ("Adaptive", "2.3.0"));
    assert_eq!((cluster.slots_total, cluster.slots_free, cluster.jobs_running), (32, 30, 1));
    assert_eq!(cluster.requirements.matches("=1..").count(), 3, "{}", cluster.requirements);
    let checkpoints = batch.checkpoints.as_ref().unwrap();
    assert_eq!((checkpoints.enabled, checkpoints.interval_ms), (true, Some(5_000)));
    assert!(checkpoints.completed > 2 && checkpoints.latest_trigger_ms.is_some());
    assert_eq!(batch.task_managers.len(), 4);
    assert!(batch.task_managers.iter().all(|manager| manager.slots == 8 && manager.heap_used_bytes.is_some()));
}

#[tokio::test]
async fn differences_of_counters_are_the_true_rates() {
    for version in [FlinkVersion::V1_18, FlinkVersion::V1_20, FlinkVersion::V2_0, FlinkVersion::V2_3] {
        let spec = ClusterSpec { version, jobs: vec![Sim::job("a")], ..scenario::quick_cluster() };
        let sim = Sim::new(spec);
        let watch = sim.watch();
        watch.pass(40_000).await;
        let records = watch.records();
        let all = batches(&records);
        let (first, last) = (all[all.len() - 12].1, all[all.len() - 1].1);
        let seconds = f64::from(u32::try_from(last.monotonic_ms - first.monotonic_ms).unwrap()) / 1_000.0;
        for (vertex, truth) in [(0, 400.0), (1, 800.0)] {
            let rate = (records_out(last, vertex).unwrap() - records_out(first, vertex).unwrap()) / seconds;
            assert!((rate - truth).abs() < truth * 0.02, "{version:?} vertex {vertex}: {rate}");
        }
        // What a source takes in is counted by some versions only; where it is not, it is absent and never 0.
        let taken = sum(&last.vertices[0], |subtasks| subtasks.records_in.as_ref().unwrap());
        assert!(taken.is_none_or(|taken| taken > 0.0), "{version:?} {taken:?}");
    }
}

#[tokio::test]
async fn somebody_before_flinks_page_does_not_bend_the_rates() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let watch = sim.watch();
    let (visitor, clock, page) = (sim.clone(), sim.clock.join(), format!("/jobs/{}", Sim::job("a").id));
    let visit = tokio::spawn(async move {
        loop {
            clock.sleep_ms(730).await;
            let _ = weir_flink::FlinkApi::call(&visitor, weir_flink::Request::get(page.clone())).await;
        }
    });
    // Between two rounds of a calm job there is time enough for a fetch of somebody else's, and then our wish is ignored.
    watch.pass(140_000).await;
    visit.abort();
    let records = watch.records();
    let all: Vec<&MetricBatch> = batches(&records).into_iter().map(|(_, batch)| batch).skip(8).collect();
    let calm = all.iter().filter(|batch| batch.period_ms == 2_100).count();
    let delayed = all.windows(2).filter(|pair| (pair[1].monotonic_ms - pair[0].monotonic_ms) % 1_050 > 100).count();
    assert!(calm > 20 && delayed > 5, "{calm} calm, {delayed} not at their time");
    for pair in all.windows(2) {
        let seconds = f64::from(u32::try_from(pair[1].monotonic_ms - pair[0].monotonic_ms).unwrap()) / 1_000.0;
        let rate = (records_out(pair[1], 0).unwrap() - records_out(pair[0], 0).unwrap()) / seconds;
        assert!((rate - 400.0).abs() < 20.0, "{rate} over {seconds} s");
    }
}

#[tokio::test]
async fn a_calm_job_is_read_half_as_often_until_it_changes() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let watch = sim.watch();
    watch.pass(60_000).await;
    let records = watch.records();
    assert!(batches(&records).iter().all(|(_, batch)| batch.period_ms == 1_050));
    watch.pass(60_000).await;
    let records = watch.records();
    let periods: Vec<u32> = batches(&records).iter().map(|(_, batch)| batch.period_ms).collect();
    let calm_from = periods.iter().position(|&period| period == 2_100).unwrap();
    assert!(periods[calm_from..].iter().all(|&period| period == 2_100), "{periods:?}");
    for pair in batches(&records).windows(2) {
        let apart = pair[1].1.monotonic_ms - pair[0].1.monotonic_ms;
        assert_eq!(apart, i64::from(pair[0].1.period_ms), "the next round comes when it was announced");
    }
    sim.with(|cluster| cluster.set_rate("a", "Source: source", 480.0).unwrap());
    watch.pass(20_000).await;
    let records = watch.records();
    let periods: Vec<u32> = batches(&records).iter().map(|(_, batch)| batch.period_ms).collect();
    let slow = periods.iter().take_while(|&&period| period == 2_100).count();
    assert!(slow <= 2 && periods[slow..].iter().all(|&period| period == 1_050), "{periods:?}");
}

#[tokio::test]
async fn a_rescale_is_seen_as_new_attempts_and_new_requirements() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let watch = sim.watch();
    watch.pass(20_000).await;
    let records = watch.records();
    let before = batches(&records).last().unwrap().1.clone();
    let bounds: Vec<String> = before
        .vertices
        .iter()
        .map(|vertex| format!(r#""{}":{{"parallelism":{{"lowerBound":1,"upperBound":3}}}}"#, vertex.id))
        .collect();
    let put = weir_simulator::Request::new("PUT", &format!("/jobs/{}/resource-requirements", before.run_id))
        .with_body(format!("{{{}}}", bounds.join(",")));
    let status = sim.with(|cluster| cluster.handle(cluster.now_ms(), &put).status);
    assert_eq!(status, 200);
    let reports = watch.pass(40_000).await;
    let records = watch.records();
    let all = batches(&records);
    let after = all.last().unwrap().1;
    assert!(after.vertices.iter().all(|vertex| vertex.parallelism == 3));
    let attempts = |batch: &MetricBatch| -> BTreeSet<u32> {
        batch.vertices.iter().flat_map(|vertex| vertex.subtasks.as_ref().unwrap().attempt.clone()).collect()
    };
    assert_ne!(attempts(&before), attempts(after));
    assert_eq!(after.rescales, Some(1));
    assert_eq!(after.cluster.as_ref().unwrap().requirements.matches("=1..3").count(), 3);
    for (_, batch) in &all {
        for vertex in &batch.vertices {
            let count = vertex.subtasks.as_ref().unwrap().index.len();
            assert_eq!(u32::try_from(count).unwrap(), vertex.parallelism, "{} {}", batch.round, vertex.name);
        }
    }
    // The requirements and the names were read again, once each, after the attempts had changed.
    let extra: u32 = calls(&reports, "prod/default/a").iter().map(|calls| calls.saturating_sub(7)).sum();
    assert!((1..=6).contains(&extra), "{extra}");
}

#[tokio::test]
async fn jobs_are_found_and_their_end_is_told_once() {
    let later = JobSpec { submit_after_ms: 10_000, ..Sim::job("late") };
    let sim = Sim::of_jobs(vec![Sim::job("a"), later]);
    let watch = sim.watch();
    watch.pass(9_000).await;
    assert_eq!(batches_of(&watch.records(), "prod/default/late"), 0);
    watch.pass(10_000).await;
    assert!(batches_of(&watch.records(), "prod/default/late") > 3);
    sim.with(|cluster| cluster.finish_job("late").unwrap());
    let reports = watch.pass(10_000).await;
    let records = watch.records();
    let told: Vec<(&str, &str)> = silences(&records).iter().map(|(job, s)| (*job, s.reason.as_str())).collect();
    assert_eq!(told, [("prod/default/late", "finished")]);
    assert_eq!(reports.last().unwrap().watched, 1);
    assert!(batches_of(&records, "prod/default/a") > 7);
}

#[tokio::test]
async fn a_job_that_ends_within_a_round_is_told_in_the_next() {
    let sim = Sim::of_jobs(vec![Sim::job("a"), Sim::job("b")]);
    let watch = sim.watch();
    watch.pass(10_000).await;
    watch.records();
    sim.spoil(|path, cluster| {
        if path == "/taskmanagers/metrics" {
            // Only the first time; afterwards the job has ended already.
            let _ = cluster.finish_job("a");
        }
        None
    });
    watch.pass(5_000).await;
    let records = watch.records();
    let told: Vec<(&str, &str)> = silences(&records).iter().map(|(job, s)| (*job, s.reason.as_str())).collect();
    assert_eq!(told, [("prod/default/a", "finished")]);
    assert!(batches(&records).iter().all(|(_, batch)| batch.job_state == "RUNNING"));
    assert!(batches_of(&records, "prod/default/b") >= 4);
}

#[tokio::test]
async fn a_job_that_vanishes_is_gone() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let watch = sim.watch();
    watch.pass(10_000).await;
    watch.records();
    sim.spoil(|path, _| (path == "/jobs/overview").then(|| Fault::Answer(200, b"{\"jobs\":[]}".to_vec())));
    watch.pass(10_000).await;
    let records = watch.records();
    let told: Vec<&str> = silences(&records).iter().map(|(_, silence)| silence.reason.as_str()).collect();
    assert_eq!(told, ["gone"]);
    sim.heal();
    watch.pass(10_000).await;
    assert!(batches_of(&watch.records(), "prod/default/a") > 3, "it is found again");
}

#[tokio::test]
async fn whatever_one_job_answers_the_others_are_read() {
    let unknown = br#"{"errors":["Internal server error.","<Exception on server side:\norg.apache.flink.runtime.messages.FlinkJobNotFoundException: Could not find Flink job\n"]}"#;
    let cases: [(&str, Fault, Option<&str>); 7] = [
        ("web page", Fault::Answer(200, b"<html>sign in</html>".to_vec()), Some("undecodable")),
        ("broken off", Fault::Answer(200, b"{\"jid\":\"".to_vec()), Some("undecodable")),
        ("unknown", Fault::Answer(500, unknown.to_vec()), Some("gone")),
        ("nobody", Fault::Unreachable, Some("unreachable")),
        ("hangs", Fault::Hang, Some("timeout")),
        ("a list", Fault::Answer(200, b"[]".to_vec()), Some("undecodable")),
        // Valid and empty: a job without vertices, about which nothing can be said.
        ("nothing in it", Fault::Answer(200, b"{}".to_vec()), None),
    ];
    for (what, fault, expected) in cases {
        let sim = Sim::of_jobs(vec![Sim::job("a"), Sim::job("b")]);
        let watch = sim.watch();
        watch.pass(10_000).await;
        watch.records();
        let bad = format!("/jobs/{}", Sim::job("a").id);
        sim.spoil(move |path, _| path.starts_with(&bad).then(|| fault.clone()));
        watch.pass(20_000).await;
        let records = watch.records();
        assert!(batches_of(&records, "prod/default/b") >= 13, "{what}: {}", batches_of(&records, "prod/default/b"));
        let told: BTreeSet<&str> = silences(&records).iter().map(|(_, silence)| silence.reason.as_str()).collect();
        assert_eq!(told, expected.into_iter().collect(), "{what}");
        assert!(silences(&records).iter().all(|(job, _)| *job == "prod/default/a"), "{what}");
        sim.heal();
        watch.pass(40_000).await;
        assert!(batches_of(&watch.records(), "prod/default/a") > 3, "{what}: it is read again");
    }
}

#[tokio::test]
async fn one_bad_vertex_leaves_the_others_of_its_job() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let flatmap = Sim::job("a").vertices[1].id.clone();
    sim.spoil(move |path, _| {
        path.ends_with(&format!("/vertices/{flatmap}")).then(|| Fault::Answer(200, b"<html>".to_vec()))
    });
    let watch = sim.watch();
    watch.pass(10_000).await;
    let records = watch.records();
    let (_, batch) = *batches(&records).last().unwrap();
    let known: Vec<bool> = batch.vertices.iter().map(|vertex| vertex.subtasks.is_some()).collect();
    assert_eq!(known, [true, false, true]);
    assert_eq!(batch.vertices[1].parallelism, 2, "from the job");
}

#[tokio::test]
async fn a_cluster_that_is_away_is_asked_later_and_later_and_its_jobs_are_silent() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let watch = sim.watch();
    watch.pass(10_000).await;
    watch.records();
    sim.calls();
    sim.spoil(|_, _| Some(Fault::Unreachable));
    let reports = watch.pass(120_000).await;
    let pauses: Vec<i64> =
        reports.iter().filter(|report| report.failure.is_some()).map(|report| report.next_ms).collect();
    assert!(pauses.len() >= 6, "{pauses:?}");
    // Each is drawn between half and all of its length, but for what is less than a round.
    for (pause_ms, longest_ms) in pauses.iter().zip([2_000, 4_000, 8_000, 16_000, 32_000, 60_000]) {
        assert!((longest_ms / 2..=longest_ms).contains(pause_ms), "{pauses:?}");
    }
    assert!(sim.calls().len() < 20);
    let records = watch.records();
    let told = silences(&records);
    assert!(told.iter().all(|(_, silence)| silence.reason == "unreachable") && told.len() >= pauses.len());
    let announced = |pause_ms: &i64| told.iter().any(|(_, silence)| i64::from(silence.period_ms) == *pause_ms);
    assert!(pauses.iter().all(announced), "{pauses:?}");
    sim.heal();
    let reports = watch.pass(90_000).await;
    // From the first answer on; how much of the last pause is left was drawn, and a job that is calm for long is asked less often.
    assert_eq!(reports[..10].iter().map(|report| report.next_ms).collect::<Vec<_>>(), [1_050; 10]);
    assert!(batches_of(&watch.records(), "prod/default/a") > 3);
}

#[tokio::test]
async fn a_slow_job_manager_is_asked_less_often() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let watch = sim.watch();
    watch.pass(10_000).await;
    // Fast enough to be read within one fetch, but that would take half of all the time.
    sim.spoil(|path, _| path.contains("/vertices/").then_some(Fault::Slow(400)));
    let reports = watch.pass(60_000).await;
    assert!(reports.last().unwrap().next_ms >= 1_600, "{:?}", reports.last());
    assert!(reports.iter().filter(|report| report.read == 1).count() > 10);
    // Too slow to be read within one fetch: vertices would come from different ones.
    watch.records();
    sim.spoil(|path, _| path.contains("/vertices/").then_some(Fault::Slow(2_500)));
    let reports = watch.pass(60_000).await;
    assert!(reports[1..].iter().all(|report| report.read == 0), "{reports:?}");
    let readings = reports.iter().filter(|report| report.due > 0).count();
    assert!(readings < 8, "{readings} readings in a minute");
    let records = watch.records();
    assert!(silences(&records).iter().any(|(_, silence)| silence.reason == "timeout"));
}

#[tokio::test]
async fn readings_of_different_fetches_are_refused() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let watch = sim.watch();
    watch.pass(10_000).await;
    watch.records();
    let count = Sim::job("a").vertices[2].id.clone();
    let path = format!("/jobs/{}/vertices/{count}", Sim::job("a").id);
    let old = sim.with(|cluster| cluster.handle(cluster.now_ms(), &weir_simulator::Request::get(&path)).body);
    sim.spoil(move |asked, _| (asked == path).then(|| Fault::Answer(200, old.clone().into_bytes())));
    let reports = watch.pass(10_000).await;
    let refused: Vec<&str> = reports.iter().flat_map(|report| &report.refused).map(|refusal| refusal.reason).collect();
    assert_eq!(refused[..2], ["mixed", "mixed"], "{refused:?}");
    let records = watch.records();
    let told = silences(&records);
    assert!(told[0].1.detail.contains("older than those of the others"), "{}", told[0].1.detail);
    // A vertex that stays behind for ever is not believed, and no reason to stay blind.
    let (_, batch) = *batches(&records).last().unwrap();
    assert_eq!(sum(&batch.vertices[2], |subtasks| subtasks.records_in.as_ref().unwrap()), None);
    assert!(sum(&batch.vertices[1], |subtasks| subtasks.records_in.as_ref().unwrap()).is_some());
}

#[tokio::test]
async fn metrics_that_are_not_fetched_anew_are_refused() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let watch = sim.watch();
    watch.pass(10_000).await;
    watch.records();
    let mut kept: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
    sim.spoil(move |path, cluster| {
        let vertex = path.contains("/vertices/") && !path.contains("metrics");
        let now_ms = cluster.now_ms();
        vertex.then(|| {
            let body = kept
                .entry(path.to_owned())
                .or_insert_with(|| cluster.handle(now_ms, &weir_simulator::Request::get(path)).body);
            Fault::Answer(200, body.clone().into_bytes())
        })
    });
    watch.pass(10_000).await;
    let records = watch.records();
    assert_eq!(batches(&records).len(), 1, "a rate of zero would be the wrong thing to read from it");
    assert!(silences(&records).iter().all(|(_, silence)| silence.reason == "mixed"));
}

#[tokio::test]
async fn names_that_are_no_longer_known_are_listed_again() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let watch = sim.watch();
    watch.pass(10_000).await;
    watch.records();
    let mut left = 2;
    sim.spoil(move |path, _| {
        let asks = path.contains("pendingRecords") && left > 0;
        left -= i32::from(asks);
        asks.then(|| Fault::Answer(200, b"[]".to_vec()))
    });
    let reports = watch.pass(5_000).await;
    let records = watch.records();
    let known: Vec<bool> =
        batches(&records).iter().map(|(_, batch)| batch.vertices[0].pending_records.is_some()).collect();
    assert_eq!(known[..4], [false, false, true, true], "{known:?}");
    assert_eq!(calls(&reports, "prod/default/a")[..4], [7, 8, 8, 7], "listed again twice");
}

#[tokio::test]
async fn splits_are_believed_once_they_have_settled() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let source = Sim::job("a").vertices[0].id.clone();
    let mut listings = 0;
    sim.spoil(move |path, cluster| {
        path.ends_with(&format!("{source}/subtasks/metrics")).then(|| {
            let body = cluster.handle(cluster.now_ms(), &weir_simulator::Request::get(path)).body;
            let mut names: Vec<serde_json::Value> = serde_json::from_str(&body).unwrap();
            listings += i32::from(!names.is_empty());
            // Splits are handed out bit by bit.
            for split in 0..listings.min(3) {
                names.push(
                    serde_json::json!({"id": format!("Source__source.split.s-{split}.watermark.currentWatermark")}),
                );
            }
            Fault::Answer(200, serde_json::to_vec(&names).unwrap())
        })
    });
    let watch = sim.watch();
    watch.pass(60_000).await;
    let records = watch.records();
    let splits: BTreeSet<Option<u32>> = batches(&records).iter().map(|(_, batch)| batch.vertices[0].splits).collect();
    assert!(splits.contains(&None) && !splits.contains(&Some(1)) && splits.len() == 2, "{splits:?}");
    let first = batches(&records).iter().position(|(_, batch)| batch.vertices[0].pending_records.is_some()).unwrap();
    assert!(first < 8, "what waits is known as soon as there are metrics: {first}");
}

#[tokio::test]
async fn sources_without_lag_and_of_the_old_interface_are_read_as_far_as_they_tell() {
    let job = |name: &str, kind: SourceKind| {
        let source = VertexSpec::source("Source: s", 2, LoadTrace::constant(300.0)).source_kind(kind);
        let sink = VertexSpec::operator("sink").capacity(900.0).selectivity(0.0);
        JobSpec::new(name).vertex(source).vertex(sink).edge(EdgeSpec::rebalance("Source: s", "sink"))
    };
    let sim = Sim::of_jobs(vec![job("legacy", SourceKind::Legacy), job("generator", SourceKind::Generator)]);
    let watch = sim.watch();
    let reports = watch.pass(20_000).await;
    let records = watch.records();
    let last = |job: &str| batches(&records).iter().rev().find(|(key, _)| *key == job).unwrap().1.clone();
    let (legacy, generator) = (last("prod/default/legacy"), last("prod/default/generator"));
    assert_eq!(sum(&legacy.vertices[0], |subtasks| subtasks.busy_ms.as_ref().unwrap()), None, "NaN is absent");
    assert!(records_out(&legacy, 0).is_some_and(|records| records > 0.0));
    assert_eq!(generator.vertices[0].pending_records, None);
    assert_eq!(sum(&generator.vertices[0], |subtasks| subtasks.records_in.as_ref().unwrap()), None);
    assert_eq!(*calls(&reports, "prod/default/generator").last().unwrap(), 2 + 3, "nobody asks for what is not there");
}

#[tokio::test]
async fn jobs_of_one_name_are_counted() {
    let twin = JobSpec { id: "0123456789abcdef0123456789abcdef".into(), ..Sim::job("a") };
    let sim = Sim::of_jobs(vec![Sim::job("a"), twin, Sim::job("b")]);
    let watch = sim.watch();
    watch.pass(10_000).await;
    let records = watch.records();
    let counted = |job: &str| -> BTreeSet<u32> {
        batches(&records).iter().filter(|(key, _)| *key == job).map(|(_, batch)| batch.same_name).collect()
    };
    assert_eq!(counted("prod/default/a"), BTreeSet::from([2]));
    assert_eq!(counted("prod/default/b"), BTreeSet::from([1]));
}

#[tokio::test]
async fn a_resubmitted_job_goes_on_without_having_ended() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let watch = sim.watch();
    watch.pass(10_000).await;
    let first = batches(&watch.records()).last().unwrap().1.run_id.clone();
    sim.with(|cluster| {
        cluster.cancel_job("a").unwrap();
        cluster.resubmit("a").unwrap();
    });
    watch.pass(20_000).await;
    let records = watch.records();
    assert_eq!(silences(&records).len(), 0, "{:?}", silences(&records));
    let last = batches(&records).last().unwrap().1;
    assert!(last.run_id != first || last.run_start_ms > 1_009_000, "another run");
}

#[tokio::test]
async fn only_wanted_jobs_are_watched() {
    let sim = Sim::of_jobs(vec![Sim::job("orders-eu"), Sim::job("orders-test"), Sim::job("clicks")]);
    let watch = sim.watch_with(Options::default(), |spec| {
        spec.include = vec!["orders-*".into()];
        spec.exclude = vec!["*-test".into()];
    });
    watch.pass(5_000).await;
    let records = watch.records();
    let jobs: BTreeSet<&str> = records.iter().map(|record| record.job.as_str()).collect();
    assert_eq!(jobs, BTreeSet::from(["prod/default/orders-eu"]));
}

#[tokio::test]
async fn large_jobs_are_cut_into_parts() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    let watch = sim.watch_with(Options { part_bytes: 1_000, ..Options::default() }, |_| {});
    watch.pass(3_000).await;
    let records = watch.records();
    let all = batches(&records);
    let id = &all.last().unwrap().1.batch_id;
    let parts: Vec<&MetricBatch> = all.iter().map(|(_, batch)| *batch).filter(|batch| batch.batch_id == *id).collect();
    assert!(parts.len() > 1);
    assert_eq!(parts.iter().map(|part| part.part).collect::<Vec<_>>(), (0..parts[0].parts).collect::<Vec<_>>());
    assert_eq!(parts.iter().map(|part| part.vertices.len()).sum::<usize>(), 3);
    assert!(parts[0].edges.len() == 2 && parts[1].edges.is_empty() && parts[1].cluster.is_none());
}

#[tokio::test]
async fn the_first_contact_is_told_in_plain_lines() {
    let sim = Sim::of_jobs(vec![Sim::job("a")]);
    sim.clock.run_until(1_020_000, None).await;
    let found = first_contact(FlinkClient::new(&sim)).await;
    let expected = "Flink        2.3.0\n\
                    scheduler    Adaptive\n\
                    refresh      metrics every 1.0 s\n\
                    slots        30 of 32 free on 4 TaskManagers\n\
                    owner        nobody else seen\n\
                    job          a RUNNING, checkpoints every 5.0 s\n";
    assert_eq!(found.to_string(), expected);
}

#[tokio::test]
async fn what_stands_in_the_way_is_said_with_what_to_do() {
    let blind = JobSpec { checkpoint_interval_ms: None, ..Sim::job("a") };
    let twin = JobSpec { id: "0123456789abcdef0123456789abcdef".into(), ..blind.clone() };
    let spec = ClusterSpec { scheduler: Scheduler::Default, jobs: vec![blind, twin], ..ClusterSpec::default() };
    let sim = Sim::new(spec);
    sim.clock.run_until(1_020_000, None).await;
    sim.spoil(|path, _| {
        let config = br#"{"execution-config":{"user-config":{"job.autoscaler.enabled":"true"}}}"#;
        path.ends_with("/config")
            .then_some(())
            .filter(|()| path.starts_with("/jobs/") && !path.contains("checkpoints"))?;
        Some(Fault::Answer(200, config.to_vec()))
    });
    let found = first_contact(FlinkClient::new(&sim)).await;
    for wanted in [
        "set jobmanager.scheduler: adaptive",
        "metrics.fetcher.update-interval: 1000",
        "job a takes no checkpoints",
        "2 jobs run under the name a",
        "Flink's autoscaler (job.autoscaler.enabled = true) is set for job a",
    ] {
        assert!(found.problems.iter().any(|problem| problem.contains(wanted)), "{wanted}: {:?}", found.problems);
    }
    sim.spoil(|_, _| Some(Fault::Answer(200, b"<html>".to_vec())));
    let found = first_contact(FlinkClient::new(&sim)).await;
    assert_eq!(found.problems.len(), 1);
    assert!(found.problems[0].starts_with("WR0316"), "{:?}", found.problems);
}
