//! What the model must do whatever the job: keep every record, account for every moment, and match the algebra of queues.
#![allow(clippy::unwrap_used, reason = "a test that cannot build its input should stop there")]
#![allow(clippy::cast_precision_loss, reason = "counts are small")]

use weir_simulator::scenario::{quick_cluster, scenario, wordcount_job};
use weir_simulator::{Cluster, ClusterSpec, JobTruth};

fn one_job(cluster: &Cluster) -> JobTruth {
    cluster.truth().jobs.remove(0)
}

fn wordcount(rate: f64) -> Cluster {
    let spec = ClusterSpec { jobs: vec![wordcount_job("w", &[(0.0, rate)], 0.0)], ..quick_cluster() };
    Cluster::new(spec, 0).unwrap()
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
    let share = |vertex: usize| {
        let (a, b) = (&before.vertices[vertex].subtasks[0], &after.vertices[vertex].subtasks[0]);
        [(a.busy_ms, b.busy_ms), (a.idle_ms, b.idle_ms), (a.back_pressured_ms, b.back_pressured_ms)]
            .map(|(from, to)| (to - from) / 60_000.0)
    };
    let close =
        |measured: [f64; 3], expected: [f64; 3]| measured.iter().zip(expected).all(|(m, e)| (m - e).abs() < 0.02);
    assert!(close(share(2), [1.0, 0.0, 0.0]), "count is saturated: {:?}", share(2));
    assert!(close(share(1), [0.5, 0.0, 0.5]), "flatmap works half of the time: {:?}", share(1));
    assert!(close(share(0), [0.0, 0.0, 1.0]), "the source only waits: {:?}", share(0));
}

#[test]
fn an_hour_is_quick() {
    let found = scenario("day-and-night").unwrap();
    let mut cluster = Cluster::new(found.spec, 0).unwrap();
    cluster.advance_to(3_600_000);
    assert!(one_job(&cluster).consumed > 100_000);
}
