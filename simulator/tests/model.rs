//! What the model must do whatever the job: keep every record, account for every moment, and match the algebra of queues.
#![allow(clippy::unwrap_used, reason = "a test that cannot build its input should stop there")]
#![allow(clippy::cast_precision_loss, reason = "counts are small")]

use proptest::prelude::*;
use weir_simulator::scenario::{quick_cluster, scenario, wordcount_job};
use weir_simulator::{Cluster, ClusterSpec, EdgeSpec, JobSpec, JobTruth, LoadTrace, Request, Ship, VertexSpec};

fn one_job(cluster: &Cluster) -> JobTruth {
    cluster.truth().jobs.remove(0)
}

fn cluster_of(job: JobSpec) -> Cluster {
    Cluster::new(ClusterSpec { jobs: vec![job], ..quick_cluster() }, 0).unwrap()
}

fn wordcount(rate: f64) -> Cluster {
    cluster_of(wordcount_job("w", &[(0.0, rate)], 0.0))
}

/// Shares of the time from `before` to `after` that a subtask was busy, idle and back-pressured.
fn shares(before: &JobTruth, after: &JobTruth, vertex: usize, subtask: usize, ms: f64) -> [f64; 3] {
    let (a, b) = (&before.vertices[vertex].subtasks[subtask], &after.vertices[vertex].subtasks[subtask]);
    [b.busy_ms - a.busy_ms, b.idle_ms - a.idle_ms, b.back_pressured_ms - a.back_pressured_ms].map(|part| part / ms)
}

fn close(measured: [f64; 3], expected: [f64; 3]) -> bool {
    measured.iter().zip(expected).all(|(m, e)| (m - e).abs() < 0.02)
}

#[test]
fn an_overloaded_chain_settles_where_the_algebra_says() {
    let mut cluster = wordcount(800.0);
    cluster.advance_to(60_000);
    let before = one_job(&cluster);
    cluster.advance_to(120_000);
    let after = one_job(&cluster);
    let slope = (after.backlog - before.backlog) as f64 / 60.0;
    // One count subtask takes 500 words, so 250 lines a second pass and 550 stay.
    assert!((slope - 550.0).abs() < 2.0, "backlog grows by {slope} a second");
    let share = |vertex| shares(&before, &after, vertex, 0, 60_000.0);
    assert!(close(share(2), [1.0, 0.0, 0.0]), "count is saturated: {:?}", share(2));
    assert!(close(share(1), [0.5, 0.0, 0.5]), "flatmap works half of the time: {:?}", share(1));
    assert!(close(share(0), [0.0, 0.0, 1.0]), "the source only waits: {:?}", share(0));
}

#[test]
fn a_job_that_is_sized_right_is_as_busy_as_the_algebra_says() {
    let mut cluster = Cluster::new(scenario("calm").unwrap().spec, 0).unwrap();
    cluster.advance_to(30_000);
    let before = one_job(&cluster);
    cluster.advance_to(90_000);
    let after = one_job(&cluster);
    assert!(after.backlog < 50, "no backlog stays: {}", after.backlog);
    let flatmap = shares(&before, &after, 1, 0, 60_000.0);
    assert!(close(flatmap, [800.0 / 1500.0, 1.0 - 800.0 / 1500.0, 0.0]), "{flatmap:?}");
    // Key groups: 26 of 128 for the first subtask, 25 for the third.
    for (subtask, groups) in [(0, 26.0), (2, 25.0)] {
        let busy = 1600.0 * groups / 128.0 / 500.0;
        let count = shares(&before, &after, 2, subtask, 60_000.0);
        assert!(close(count, [busy, 1.0 - busy, 0.0]), "count {subtask}: {count:?}, expected {busy}");
    }
}

#[test]
fn a_hot_key_stops_everybody_and_more_subtasks_do_not_help() {
    let mut job = wordcount_job("hot", &[(0.0, 600.0)], 0.5);
    job.vertices[1].parallelism = 3;
    job.vertices[2].parallelism = 16;
    let mut cluster = cluster_of(job);
    cluster.advance_to(60_000);
    let before = one_job(&cluster);
    cluster.advance_to(120_000);
    let after = one_job(&cluster);
    let hot = shares(&before, &after, 2, 0, 60_000.0);
    let cold = shares(&before, &after, 2, 9, 60_000.0);
    assert!(hot[0] > 0.99 && cold[0] < 0.1, "hot {hot:?}, cold {cold:?}");
    // The hot subtask gets 0.5 + 0.5 / 16 of the words and takes 500 of them, which is 470.6 lines a second.
    let passed = (after.consumed - before.consumed) as f64 / 60.0;
    assert!((passed - 250.0 / 0.531_25).abs() < 2.0, "{passed} lines a second pass");
}

#[test]
fn an_outside_limit_holds_whatever_the_parallelism() {
    for parallelism in [1, 4] {
        let mut spec = scenario("slow-sink").unwrap().spec;
        spec.jobs[0].vertices[2].parallelism = parallelism;
        let mut cluster = Cluster::new(spec, 0).unwrap();
        cluster.advance_to(60_000);
        let before = one_job(&cluster).consumed;
        cluster.advance_to(120_000);
        let passed = (one_job(&cluster).consumed - before) as f64 / 60.0;
        assert!((passed - 600.0).abs() < 3.0, "{passed} records a second pass at parallelism {parallelism}");
    }
}

#[test]
fn an_hour_is_quick_and_what_is_offered_is_exact() {
    let mut cluster = Cluster::new(scenario("day-and-night").unwrap().spec, 0).unwrap();
    cluster.advance_to(3_600_000);
    let job = one_job(&cluster);
    assert_eq!(job.produced, job.consumed + job.backlog);
    // Three whole waves around 800 lines a second.
    assert!(job.produced.abs_diff(2_880_000) < 20, "{}", job.produced);
}

#[test]
fn one_seed_gives_one_run() {
    let run = |seed| {
        let spec = ClusterSpec { seed, ..scenario("wordcount").unwrap().spec };
        let mut cluster = Cluster::new(spec, 1_700_000_000_000).unwrap();
        let job = cluster.spec().jobs[0].id.clone();
        let mut answers = String::new();
        for second in 1..90 {
            let now = 1_700_000_000_000 + second * 1_000;
            if second == 30 {
                let key = cluster.handle(now, &Request::new("POST", &format!("/jobs/{job}/checkpoints")));
                answers.push_str(&key.body);
            }
            for path in [format!("/jobs/{job}"), format!("/jobs/{job}/checkpoints"), "/taskmanagers".into()] {
                answers.push_str(&cluster.handle(now, &Request::get(&path)).body);
            }
        }
        answers
    };
    assert!(run(7) == run(7), "the same seed gives the same bytes");
    assert!(run(7) != run(8), "another seed gives another run");
}

#[test]
fn asking_changes_nothing_but_what_is_asked_for() {
    let spec = scenario("wordcount").unwrap().spec;
    let (mut quiet, mut asked) = (Cluster::new(spec.clone(), 0).unwrap(), Cluster::new(spec, 0).unwrap());
    quiet.advance_to(60_000);
    for now in (0..60_000).step_by(333) {
        asked.handle(now, &Request::get("/taskmanagers/metrics"));
    }
    asked.advance_to(60_000);
    assert_eq!(quiet.truth(), asked.truth());
}

/// A random job: one or two sources, then operators each of which is fed by one or two earlier vertices.
fn any_job() -> impl Strategy<Value = JobSpec> {
    let vertex = (1..4_u32, prop::option::of(50.0..2_000.0_f64), 0..3_u32, 0..3_usize, any::<prop::sample::Index>());
    let operators = prop::collection::vec((vertex, any::<prop::sample::Index>(), 0.0..0.6_f64, 1..100_u64), 1..5);
    (1..3_usize, 50.0..1_500.0_f64, operators).prop_map(|(sources, rate, operators)| {
        let mut job = JobSpec::new("random").checkpoints_every_ms(2_000);
        for source in 0..sources {
            job = job.vertex(VertexSpec::source(&format!("s{source}"), 3, LoadTrace::constant(rate)));
        }
        let mut unfed: Vec<usize> = (0..sources).collect();
        for (number, ((parallelism, capacity, selectivity, ship, first), second, hot, buffer)) in
            operators.into_iter().enumerate()
        {
            let name = format!("o{number}");
            let operator = VertexSpec::operator(&name).parallelism(parallelism).selectivity(f64::from(selectivity));
            let index = job.vertices.len();
            let mut inputs = vec![unfed.pop().unwrap_or_else(|| first.index(index)), second.index(index)];
            inputs.dedup();
            for input in inputs {
                unfed.retain(|vertex| *vertex != input);
                let ship = [Ship::Forward, Ship::Rebalance, Ship::Hash { hot_share: hot }][ship];
                let edge = EdgeSpec::new(&job.vertices[input].name, &name, ship).buffers(buffer, buffer);
                job = job.edge(edge);
            }
            job = job.vertex(VertexSpec { capacity, ..operator });
        }
        job
    })
}

fn check_books(spec: &JobSpec, job: &JobTruth, running_ms: f64) {
    assert_eq!(job.produced, job.consumed + job.backlog, "what is offered is read or waits");
    for vertex in &job.vertices {
        for subtask in &vertex.subtasks {
            let sum = subtask.busy_ms + subtask.idle_ms + subtask.back_pressured_ms;
            assert!((sum - running_ms).abs() < 1e-3, "{}: {sum} of {running_ms} ms are accounted for", vertex.name);
        }
    }
    let index = |name: &str| spec.vertices.iter().position(|vertex| vertex.name == name).unwrap();
    for (edge, seen) in spec.edges.iter().zip(&job.edges) {
        let sent: u64 = job.vertices[index(&edge.from)].subtasks.iter().map(|subtask| subtask.records_out).sum();
        assert_eq!(sent, seen.received, "{} -> {}: all that is sent arrives", edge.from, edge.to);
        let (up, down) = (index(&edge.from), index(&edge.to));
        let width = |vertex: usize| job.vertices[vertex].subtasks.len() as u64;
        let limit = edge.channel_records * width(up) + edge.floating_records;
        // A queue may be overrun by the output of one record of each upstream subtask.
        let most = (limit + 4 * width(up) + 4) * width(down);
        assert!(seen.queued <= most, "{} -> {}: {} of {most} are in flight", edge.from, edge.to, seen.queued);
    }
    for (number, vertex) in spec.vertices.iter().enumerate() {
        let taken: u64 = job.vertices[number].subtasks.iter().map(|subtask| subtask.records_in).sum();
        let inputs = spec.edges.iter().zip(&job.edges).filter(|(edge, _)| edge.to == vertex.name);
        let (received, queued) = inputs.fold((0, 0), |sum, (_, seen)| (sum.0 + seen.received, sum.1 + seen.queued));
        if spec.edges.iter().any(|edge| edge.to == vertex.name) {
            assert_eq!(taken + queued, received, "{}: what arrives is taken or waits", vertex.name);
        }
    }
}

/// What each vertex must have taken once all of `offered` records of each source have passed.
fn expected(spec: &JobSpec, produced: impl Fn(usize) -> u64) -> Vec<u64> {
    let mut taken: Vec<u64> = (0..spec.vertices.len()).map(produced).collect();
    // Vertices are listed in topological order here.
    for (number, vertex) in spec.vertices.iter().enumerate() {
        let inputs = spec.edges.iter().filter(|edge| edge.to == vertex.name);
        for edge in inputs {
            let from = spec.vertices.iter().position(|v| v.name == edge.from).unwrap();
            let selectivity = if spec.vertices[from].selectivity > 1.5 {
                2
            } else {
                u64::from(spec.vertices[from].selectivity > 0.5)
            };
            taken[number] += taken[from] * selectivity;
        }
    }
    taken
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_record_and_no_moment_is_lost_in_any_graph(job in any_job(), seconds in 3..15_i64) {
        let mut cluster = cluster_of(job.clone());
        let mut running_since = None;
        for step in 1..=seconds * 50 {
            cluster.advance_to(step * 20);
            let truth = one_job(&cluster);
            if truth.running {
                let since = *running_since.get_or_insert(step * 20);
                check_books(&job, &truth, (step * 20 - since) as f64);
            }
        }
        prop_assert!(running_since.is_some(), "the job runs at all");
    }

    #[test]
    fn rescales_and_failures_lose_nothing_and_count_nothing_twice(
        job in any_job(),
        events in prop::collection::vec((500..6_000_i64, 0..3_u8, prop::collection::vec(1..9_u32, 7)), 1..6),
    ) {
        let mut cluster = cluster_of(job.clone());
        let mut now = 3_000;
        for (pause, kind, uppers) in events {
            now += pause;
            cluster.advance_to(now);
            match kind {
                0 => cluster.fail_task(&job.name).unwrap(),
                1 => {
                    cluster.handle(now, &Request::new("POST", &format!("/jobs/{}/checkpoints", job.id)));
                }
                _ => {
                    let bounds = job.vertices.iter().zip(&uppers).map(|(vertex, upper)| {
                        let bounds = serde_json::json!({ "parallelism": { "lowerBound": 1, "upperBound": upper } });
                        (vertex.id.clone(), bounds)
                    });
                    let body = serde_json::Value::Object(bounds.collect()).to_string();
                    let put = Request::new("PUT", &format!("/jobs/{}/resource-requirements", job.id)).with_body(body);
                    prop_assert_eq!(cluster.handle(now, &put).status, 200);
                }
            }
        }
        // Drain: no more load, and time for everything to pass.
        for vertex in job.vertices.iter().filter(|vertex| vertex.name.starts_with('s')) {
            cluster.set_rate(&job.name, &vertex.name, 0.0).unwrap();
        }
        for _ in 0..400 {
            now += 10_000;
            cluster.advance_to(now);
            let truth = one_job(&cluster);
            if truth.running && truth.backlog == 0 && truth.in_flight == 0 {
                break;
            }
        }
        let truth = one_job(&cluster);
        prop_assert_eq!((truth.running, truth.backlog, truth.in_flight), (true, 0, 0), "it drains");
        let sources = job.vertices.iter().filter(|vertex| vertex.name.starts_with('s')).count() as u64;
        let each = truth.produced / sources;
        let wanted = expected(&job, |vertex| if job.vertices[vertex].name.starts_with('s') { each } else { 0 });
        let counted: Vec<u64> = truth.vertices.iter().map(|vertex| vertex.effective_in).collect();
        prop_assert_eq!(counted, wanted);
    }
}
