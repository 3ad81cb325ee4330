//! The scenario of [`weir_tests::scenario`] on a real Flink cluster, with Weir as a process of its own that is killed once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should stop there"
)]

use std::time::Duration;

use weir_tests::scenario::{Phase, RATES, Scenario, TABLE_HEAD, carries, exact, is_right};
use weir_tests::{FlinkCluster, FlinkOptions, Weir};

/// How long a phase lasts, and how long nothing may happen at its end.
const PHASE: Duration = Duration::from_secs(120);
const QUIET: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_cold_start_a_step_and_a_fall_on_real_flink() {
    let cluster = FlinkCluster::start(&FlinkOptions::default());
    let scenario = Scenario::submit(&cluster);
    let mut weir = scenario.weir();
    weir.start();
    scenario.running().await;
    println!("{TABLE_HEAD}");
    for (number, rate) in RATES.into_iter().enumerate() {
        if number > 0 {
            scenario.job.set_rate(rate);
        }
        // In the last one Weir is killed, and may change the size once more.
        let length = if number == 2 { PHASE + QUIET } else { PHASE };
        let mut killed = number != 2;
        let phase = scenario
            .watch(rate, length, |_, _| {
                if !killed && action_is_open(&weir) {
                    weir.kill();
                    weir.start();
                    killed = true;
                }
            })
            .await;
        println!("{phase}");
        assert!(killed, "the shrink was never seen under way, so that nothing was killed");
        check(&phase, if number == 2 { 2 } else { 1 });
    }
    let verified = weir.ask(&["history", "wordcount", "--limit", "1000"]);
    let outcomes: Vec<&str> = verified
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["kind"] == "outcome")
        .map(|entry| entry["sentence"].as_str().unwrap())
        .collect();
    let restarts = scenario.restarts().await;
    println!("{}", scenario.finish().await);
    assert!(
        (restarts - f64::from(u32::try_from(outcomes.len()).unwrap())).abs() < 0.5,
        "{restarts} restarts, {outcomes:#?}"
    );
    assert!(outcomes.iter().all(|sentence| sentence.contains("verified")), "{outcomes:#?}");
    assert_eq!(weir.stop().await, Some(130));
}

fn action_is_open(weir: &Weir) -> bool {
    weir.ask(&["status"])["jobs"][0]["action"]["open"] == true
}

fn check(phase: &Phase, most_changes: usize) {
    let [_, flatmap, count] = phase.end();
    let [need_flatmap, need_count] = exact(phase.rate, 0.7);
    assert!(is_right(flatmap, need_flatmap) && is_right(count, need_count), "not DS2's answer: {phase}");
    assert!(carries(phase.end(), phase.rate), "less than the load needs: {phase}");
    assert!((1..=most_changes).contains(&phase.changes()), "{} changes: {phase}", phase.changes());
    assert!(phase.last_change() <= phase.length - QUIET, "a change within the last minute: {phase}");
    assert!(phase.end_lag < f64::from(phase.rate), "{} lines wait at the end: {phase}", phase.end_lag);
}
