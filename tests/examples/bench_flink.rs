//! Measures the scenario on a real Flink cluster, once with metrics refreshed each second and once at Flink's defaults, and
//! prints a row for each phase. Fails on nothing: it measures. An argument picks the part whose name contains it.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on should stop there")]

use std::time::Duration;

use weir_tests::scenario::{RATES, Scenario, TABLE_HEAD};
use weir_tests::{FlinkCluster, FlinkOptions};

#[tokio::main]
async fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let parts = [("metrics every second", Some(1_000)), ("Flink's default refresh (10 s, 3 s)", None)];
    for (name, refresh_ms) in parts.into_iter().filter(|(name, _)| name.contains(&only)) {
        let cluster = FlinkCluster::start(&FlinkOptions { refresh_ms, ..FlinkOptions::default() });
        let scenario = Scenario::submit(&cluster);
        let mut weir = scenario.weir();
        weir.start();
        scenario.running().await;
        println!("\n{name}\n\n{TABLE_HEAD}");
        for (number, rate) in RATES.into_iter().enumerate() {
            if number > 0 {
                scenario.job.set_rate(rate);
            }
            println!("{}", scenario.watch(rate, Duration::from_secs(150), |_, _| {}).await);
        }
        println!("\n{}", scenario.finish().await);
        weir.stop().await;
    }
}
