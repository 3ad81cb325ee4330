//! One contract for every Flink: whatever Weir relies on is asked of the simulator and of real clusters, in the same words.
//!
//! `WEIR_FLINK_VERSIONS` names the releases to start; the simulator answers for all that it knows.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should stop there"
)]

mod contract;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use weir_simulator::FlinkVersion;
use weir_tests::{FlinkOptions, RealFlink, Scheduler, SimulatedFlink, World, flink_versions};

/// A cluster as small as the contract allows, whose timers are short and which takes no checkpoint unless it is asked to.
fn adaptive(version: &str) -> FlinkOptions {
    let timers = ["resource-stabilization-timeout", "executing.resource-stabilization-timeout"];
    FlinkOptions {
        version: version.into(),
        task_managers: 1,
        slots: contract::SLOTS,
        checkpoint_ms: Some(contract::CHECKPOINT_MS),
        cooldown_ms: Some(contract::COOLDOWN_MS),
        extra: timers.map(|timer| (format!("jobmanager.adaptive-scheduler.{timer}"), "1s".to_owned())).to_vec(),
        ..FlinkOptions::default()
    }
}

fn default_scheduler(version: &str) -> FlinkOptions {
    FlinkOptions {
        slots: 1,
        checkpoint_ms: None,
        scheduler: Scheduler::Default,
        extra: Vec::new(),
        ..adaptive(version)
    }
}

/// A test of one cluster, which is started only when the test runs.
fn trial<W: World>(name: String, start: impl FnOnce() -> W + Send + 'static, adaptive: bool) -> Trial {
    Trial::test(name, move || {
        let world = start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            if adaptive {
                contract::adaptive_scheduler(&world).await;
            } else {
                contract::default_scheduler(&world).await;
            }
        });
        Ok(())
    })
}

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for version in flink_versions() {
        let options = adaptive(&version);
        trials.push(trial(format!("flink_{version}"), move || RealFlink::start(&options), true));
        // One release is enough for what has not changed since there is another scheduler.
        if version == "2.3.0" {
            let options = default_scheduler(&version);
            let name = format!("flink_{version}_default_scheduler");
            trials.push(trial(name, move || RealFlink::start(&options), false));
        }
    }
    for version in FlinkVersion::ALL.map(FlinkVersion::as_str) {
        let options = adaptive(version);
        trials.push(trial(format!("simulator_{version}"), move || SimulatedFlink::start(&options), true));
        let options = default_scheduler(version);
        let name = format!("simulator_{version}_default_scheduler");
        trials.push(trial(name, move || SimulatedFlink::start(&options), false));
    }
    // One cluster at a time is enough for a small machine.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials).exit_code()
}
