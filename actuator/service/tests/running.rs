//! The service as it runs for good.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

mod common;

use std::sync::Arc;

use common::{Rig, words};
use tokio_util::sync::CancellationToken;
use weir_runtime::VirtualClock;
use weir_schemas::decision::Disposition;
use weir_simulator::scenario::scenario;

#[tokio::test]
async fn it_runs_in_virtual_time_and_gives_its_leases_back_when_it_is_told_to_stop() {
    let rig = Rig::new(scenario("wordcount").unwrap().spec).await;
    let decision = rig.decision(Disposition::Act, &[1, 3, 5]).await;
    rig.publish(&decision).await;
    let time = VirtualClock::new(rig.now_ms());
    let follower = time.clone();
    *rig.sim().now.lock().unwrap() = Arc::new(move || follower.now_ms());
    let follower = time.clone();
    let store = rig.store.clone().with_lease_clock(Arc::new(move || follower.now_ms()));
    let stop = CancellationToken::new();
    let running = tokio::spawn(rig.actuator_in(store, time.join()).run(stop.clone()));
    time.run_until(rig.now_ms() + 60_000, None).await;
    assert_eq!(words(&rig.outcomes().await), ["started", "verified"]);
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(rig.store.leases().await.unwrap().iter().all(|lease| lease.expires_ms == 0));
}
