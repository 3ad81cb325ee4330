//! A server that is killed, stopped, paused; a process that is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_store::{OpenOptions, StoreError};
use weir_store_contract::support::{action, commit, job, publish};
use weir_tests::{PostgresServer, wait_until};

use crate::{Gate, SERVER, SOON, impatient, open};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_kill_and_the_store_goes_on_by_itself() {
    let server = PostgresServer::start();
    let url = server.url(&server.database().await);
    let store = open(&url, &impatient()).await;
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let writing = {
        let (store, acknowledged) = (store.clone(), Arc::clone(&acknowledged));
        tokio::spawn(async move {
            for n in 0.. {
                let id = format!("c{n:05}");
                match store.claim_action(&action(&id, &job("a"), 1), None, vec![publish(&id)]).await {
                    Ok(won) => assert!(won),
                    Err(why) => return why,
                }
                acknowledged.store(n + 1, Ordering::SeqCst);
            }
            unreachable!("it writes until it fails")
        })
    };
    wait_until("some commits", SOON, async || (acknowledged.load(Ordering::SeqCst) > 50).then_some(())).await;
    server.kill();
    let why = writing.await.unwrap();
    assert!(matches!(why, StoreError::Unreachable { .. }) && why.is_transient(), "{why}");
    let down = store.controls().await.unwrap_err();
    assert_eq!(down.code(), "WR0415", "{down}");
    server.restart();

    let actions = wait_until("the store to be back", SOON, async || store.open_actions().await.ok()).await;
    let kept = acknowledged.load(Ordering::SeqCst);
    // The one that was under way when the server died may be there or not, but then wholly.
    assert!(actions.len() == kept || actions.len() == kept + 1, "{} of {kept}", actions.len());
    assert_eq!(store.outbox_len("analyzer").await.unwrap(), u64::try_from(actions.len()).unwrap());
    store.commit(&commit(1, "on", vec![])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
    let server = PostgresServer::start();
    let url = server.url(&server.database().await);
    let options = OpenOptions { connections: 2, ..impatient() };
    let store = open(&url, &options).await;
    store.set_frozen(true, "ada", 1).await.unwrap();
    server.pause();
    // More often than there are connections: none of them is lost for good.
    for _ in 0..4 {
        let silent = store.set_frozen(false, "ada", 2).await.unwrap_err();
        assert_eq!(silent.code(), "WR0415", "{silent}");
    }
    server.resume();
    let controls = wait_until("the store to be back", SOON, async || store.controls().await.ok()).await;
    assert!(controls.frozen);
    store.set_frozen(false, "ada", 3).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_falls_silent_within_a_write_ends_it() {
    let server = PostgresServer::start();
    let url = server.url(&server.database().await);
    let gate = Gate::default();
    let store =
        open(&url, &OpenOptions { idle_wait: SOON, ..impatient() }).await.with_write_hook(Arc::new(gate.clone()));
    let writing = {
        let store = store.clone();
        tokio::spawn(async move { store.set_frozen(true, "ada", 1).await })
    };
    gate.reached().await;
    server.pause();
    gate.go.notify_one();
    let silent = writing.await.unwrap().unwrap_err();
    assert_eq!(silent.code(), "WR0415", "{silent}");
    server.resume();
    wait_until("the store to be back", SOON, async || store.controls().await.ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_stopped_within_a_write_is_taken_over_and_commits_nothing() {
    let url = SERVER.url(&SERVER.database().await);
    let gate = Gate::default();
    let (stalled, other) = (open(&url, &impatient()).await, open(&url, &OpenOptions::default()).await);
    let lease = stalled.acquire_lease("actuator/prod", "a", 100).await.unwrap().unwrap();
    let guarded = stalled.clone().under_lease(&lease);
    let held_up = guarded.clone().with_write_hook(Arc::new(gate.clone()));
    let writing =
        tokio::spawn(async move { held_up.claim_action(&action("c1", &job("orders"), 1), None, vec![]).await });
    gate.reached().await;

    // Nobody gets the lease in the middle of a write under it; the server ends that after a while.
    let taken =
        wait_until("the lease", SOON, async || other.acquire_lease("actuator/prod", "b", 60_000).await.unwrap());
    assert!(taken.await.epoch > lease.epoch);
    gate.go.notify_one();
    let late = writing.await.unwrap().unwrap_err();
    assert_eq!(late.code(), "WR0415", "{late}");
    assert!(other.claim_action(&action("c1", &job("orders"), 1), None, vec![]).await.unwrap());
    let fenced = guarded.claim_action(&action("c2", &job("orders"), 1), None, vec![]).await.unwrap_err();
    assert!(matches!(fenced, StoreError::Fenced { ours, theirs, .. } if ours < theirs), "{fenced}");
    assert_eq!(other.open_actions().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_was_claimed_meanwhile_refuses_who_was_stopped() {
    let url = SERVER.url(&SERVER.database().await);
    let gate = Gate::default();
    let (stalled, other) = (open(&url, &impatient()).await, open(&url, &OpenOptions::default()).await);
    stalled.commit(&commit(1, "old", vec![])).await.unwrap();
    let held_up = stalled.clone().with_write_hook(Arc::new(gate.clone()));
    let writing = tokio::spawn(async move { held_up.commit(&commit(1, "late", vec![])).await });
    gate.reached().await;
    let inherited = other.claim_shard("0", 2, 1).await.unwrap().unwrap();
    assert_eq!(inherited.state, b"old", "what was not committed does not count");
    gate.go.notify_one();
    assert!(writing.await.unwrap().is_err());
    let fenced = stalled.commit(&commit(1, "later", vec![])).await.unwrap_err();
    assert!(matches!(fenced, StoreError::Fenced { ours, theirs, .. } if ours < theirs), "{fenced}");
    assert_eq!(other.load_checkpoint("0").await.unwrap().unwrap().state, b"old");
}
