use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use weir_store::{BlobRef, BoxFuture, CheckpointStore, Commit, Store, StoreError};

use crate::Homes;
use crate::support::{commit, hold, job, new, rescale, same};

pub(crate) async fn state_decisions_and_outbox_come_back_as_they_were_committed(homes: &dyn Homes) {
    let home = homes.fresh().await;
    assert_eq!(home.store.load_checkpoint("0").await.unwrap(), None);
    let decision = rescale(&job("orders"), "d1", 10, 1);
    home.store.commit(&commit(1, "one", vec![new(decision.clone())])).await.unwrap();

    let other = home.other().await;
    let checkpoint = other.load_checkpoint("0").await.unwrap().unwrap();
    assert_eq!((checkpoint.epoch, checkpoint.format, checkpoint.state.as_slice()), (1, 1, b"one".as_slice()));
    assert_eq!((checkpoint.positions.as_str(), checkpoint.decided_through.as_str()), ("{\"after\":\"one\"}", "{}"));
    assert_eq!(other.decision("d1").await.unwrap(), decision);
    let outbox = other.outbox("analyzer", 10).await.unwrap();
    assert_eq!((outbox.len(), outbox[0].payload.as_slice(), outbox[0].partition), (1, b"d1".as_slice(), 3));
    assert_eq!(outbox[0].key, "prod/default/orders");
}

pub(crate) async fn each_commit_replaces_the_state_of_its_shard_alone(homes: &dyn Homes) {
    let home = homes.fresh().await;
    for state in ["one", "two", "three"] {
        home.store.commit(&commit(1, state, vec![])).await.unwrap();
    }
    home.store.commit(&Commit { shard: "1".into(), ..commit(1, "other", vec![]) }).await.unwrap();
    assert_eq!(home.store.load_checkpoint("0").await.unwrap().unwrap().state, b"three");
    assert_eq!(home.store.load_checkpoint("1").await.unwrap().unwrap().state, b"other");
    // The first three blobs were numbered from 1 on; only the last one of each shard is left.
    for (number, kept) in [(1, false), (2, false), (3, true), (4, true)] {
        let blob = CheckpointStore::get(&home.store, &BlobRef(format!("db:{number}"))).await;
        assert_eq!(blob.is_ok(), kept, "blob {number}");
    }
}

pub(crate) async fn an_old_epoch_commits_nothing_at_all(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let (old, young) = (&home.store, home.other().await);
    old.commit(&commit(1, "old", vec![])).await.unwrap();
    let inherited = young.claim_shard("0", 2, 6_000).await.unwrap().unwrap();
    assert_eq!((inherited.epoch, inherited.state.as_slice()), (2, b"old".as_slice()));

    let refused = old.commit(&commit(1, "late", vec![new(hold(&job("orders"), "d1", 10))])).await.unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { ours: 1, theirs: 2, .. }), "{refused}");
    assert_eq!(young.load_checkpoint("0").await.unwrap().unwrap().state, b"old");
    assert_eq!(young.outbox_len("analyzer").await.unwrap(), 0);
    assert_eq!(young.latest_decision(&job("orders")).await.unwrap(), None);

    young.commit(&commit(2, "new", vec![])).await.unwrap();
    let refused = old.claim_shard("0", 1, 7_000).await.unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { ours: 1, theirs: 2, .. }), "{refused}");
    assert_eq!(young.load_checkpoint("0").await.unwrap().unwrap().state, b"new");
}

pub(crate) async fn a_shard_that_was_only_claimed_has_no_checkpoint(homes: &dyn Homes) {
    let home = homes.fresh().await;
    assert_eq!(home.store.claim_shard("0", 3, 1).await.unwrap(), None);
    assert_eq!(home.store.load_checkpoint("0").await.unwrap(), None);
    assert_eq!(home.store.commit(&commit(2, "late", vec![])).await.unwrap_err().code(), "WR0408");
    home.store.commit(&commit(3, "mine", vec![])).await.unwrap();
    assert_eq!(home.store.load_checkpoint("0").await.unwrap().unwrap().state, b"mine");
}

pub(crate) async fn unchanged_decisions_replace_the_latest_and_add_no_row(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let orders = job("orders");
    let first = hold(&orders, "d1", 10);
    let second = hold(&orders, "d2", 20);
    home.store.commit(&commit(1, "s", vec![new(first.clone()), same(second.clone())])).await.unwrap();
    // A replay decides the same again.
    home.store.commit(&commit(1, "s", vec![new(first.clone()), same(second.clone())])).await.unwrap();
    assert_eq!(home.store.latest_decision(&orders).await.unwrap().unwrap(), second);
    assert_eq!(home.store.decisions(&orders, 10, None).await.unwrap(), [first]);
    assert_eq!(home.store.decision("d2").await.unwrap(), second);
}

pub(crate) async fn decisions_are_found_by_job_by_time_and_by_the_beginning_of_their_id(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let decisions = [("aa11", "orders", 10), ("aa12", "orders", 20), ("bb", "orders", 30), ("bbc", "clicks", 40)];
    let writes = decisions.iter().map(|&(id, name, at)| new(hold(&job(name), id, at))).collect();
    home.store.commit(&commit(1, "s", writes)).await.unwrap();
    let ids = |found: Vec<weir_schemas::decision::Decision>| found.into_iter().map(|d| d.id).collect::<Vec<_>>();
    let orders = job("orders");
    assert_eq!(ids(home.store.decisions(&orders, 2, None).await.unwrap()), ["bb", "aa12"]);
    assert_eq!(ids(home.store.decisions(&orders, 10, Some(20)).await.unwrap()), ["aa11"]);
    assert_eq!(ids(home.store.latest_decisions().await.unwrap()), ["bbc", "bb"]);

    assert_eq!(home.store.decision("aa11").await.unwrap().id, "aa11");
    assert_eq!(home.store.decision("bb").await.unwrap().id, "bb", "an exact id is not ambiguous");
    let ambiguous = home.store.decision("aa").await.unwrap_err();
    assert_eq!(ambiguous.to_string(), "WR0410: several decisions begin with \"aa\" (aa11, aa12): give more of the id");
    for missing in ["cc", "", "a%", "~"] {
        assert_eq!(home.store.decision(missing).await.unwrap_err().code(), "WR0409", "{missing:?}");
    }
}

pub(crate) async fn plan_numbers_only_rise(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let orders = job("orders");
    assert_eq!(home.store.max_plan_number(&orders).await.unwrap(), 0);
    home.store.commit(&commit(1, "s", vec![new(rescale(&orders, "d1", 10, 7))])).await.unwrap();
    home.store.commit(&commit(1, "s", vec![same(rescale(&orders, "d2", 20, 5))])).await.unwrap();
    assert_eq!(home.store.max_plan_number(&orders).await.unwrap(), 7);
    assert_eq!(home.store.max_plan_number(&job("clicks")).await.unwrap(), 0);
}

pub(crate) async fn what_is_published_leaves_the_outbox_of_its_owner_alone(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let writes = (0..5).map(|n| new(hold(&job("orders"), &format!("d{n}"), n))).collect();
    let mut both = commit(1, "s", writes);
    both.outbox[2].owner = "actuator".into();
    home.store.commit(&both).await.unwrap();
    let rows = home.store.outbox("analyzer", 3).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.payload.as_slice()).collect::<Vec<_>>(), [b"d0", b"d1", b"d3"]);
    assert_eq!(home.store.published("analyzer", rows[1].sequence).await.unwrap(), 2);
    assert_eq!(home.store.published("analyzer", rows[1].sequence).await.unwrap(), 0);
    assert_eq!(home.store.outbox("analyzer", 10).await.unwrap()[0], rows[2]);
    let theirs = home.store.outbox("actuator", 10).await.unwrap();
    home.store.published("analyzer", i64::MAX).await.unwrap();
    assert_eq!(home.store.outbox_len("actuator").await.unwrap(), 1);

    home.store.commit(&commit(1, "s", vec![new(hold(&job("orders"), "d9", 9))])).await.unwrap();
    let next = home.store.outbox("analyzer", 10).await.unwrap();
    assert!(next[0].sequence > rows[2].sequence && next[0].sequence > theirs[0].sequence, "{next:?}");
}

pub(crate) async fn a_decision_that_cannot_be_read_does_not_hide_the_others(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let mut broken = rescale(&job("broken"), "d1", 10, 1);
    if let weir_schemas::decision::Verdict::Rescale(plan) = &mut broken.verdict {
        plan.throughput_per_second = f64::NAN;
    }
    let sound = hold(&job("sound"), "d2", 10);
    home.store.commit(&commit(1, "s", vec![new(broken), new(sound.clone())])).await.unwrap();
    assert_eq!(home.store.latest_decisions().await.unwrap(), [sound]);
    assert_eq!(home.store.decision("d1").await.unwrap_err().code(), "WR0412");
}

pub(crate) async fn ten_thousand_decisions_are_one_commit(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let decision = |n: i64| new(hold(&job(&format!("job-{}", n % 500)), &format!("{n:08}"), n));
    let writes = (0..10_000).map(decision).collect();
    home.store.commit(&commit(1, &"x".repeat(5 << 20), writes)).await.unwrap();
    assert_eq!(home.store.outbox_len("analyzer").await.unwrap(), 10_000);
    assert_eq!(home.store.latest_decisions().await.unwrap().len(), 500);
    assert_eq!(home.store.decisions(&job("job-7"), 100, None).await.unwrap().len(), 20);
    assert_eq!(home.store.decision("00009999").await.unwrap().decided_at_ms, 9_999);
    assert_eq!(home.store.load_checkpoint("0").await.unwrap().unwrap().state.len(), 5 << 20);
}

/// Blobs outside the database.
#[derive(Default)]
struct Shelf(Mutex<HashMap<String, Vec<u8>>>);

impl CheckpointStore for Shelf {
    fn put<'a>(&'a self, shard: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<BlobRef, StoreError>> {
        let blob = BlobRef(format!("shelf/{shard}/{}", String::from_utf8_lossy(bytes)));
        self.0.lock().unwrap().insert(blob.0.clone(), bytes.to_vec());
        Box::pin(std::future::ready(Ok(blob)))
    }

    fn get<'a>(&'a self, blob: &'a BlobRef) -> BoxFuture<'a, Result<Vec<u8>, StoreError>> {
        Box::pin(std::future::ready(Ok(self.0.lock().unwrap()[&blob.0].clone())))
    }

    fn remove<'a>(&'a self, blob: &'a BlobRef) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.lock().unwrap().remove(&blob.0);
        Box::pin(std::future::ready(Ok(())))
    }
}

pub(crate) async fn state_may_be_kept_elsewhere_and_only_the_current_one_is(homes: &dyn Homes) {
    let home = homes.fresh().await;
    home.store.commit(&commit(1, "inside", vec![])).await.unwrap();
    let shelf = Arc::new(Shelf::default());
    let store: Store = home.store.clone().with_checkpoints(shelf.clone());
    assert_eq!(store.load_checkpoint("0").await.unwrap().unwrap().state, b"inside");
    store.commit(&commit(1, "one", vec![])).await.unwrap();
    store.commit(&commit(2, "two", vec![])).await.unwrap();
    assert_eq!(store.commit(&commit(1, "late", vec![])).await.unwrap_err().code(), "WR0408");
    assert_eq!(store.load_checkpoint("0").await.unwrap().unwrap().state, b"two");
    assert_eq!(shelf.0.lock().unwrap().keys().collect::<Vec<_>>(), ["shelf/0/two"]);
    // Without the shelf the state is missed, not replaced by nothing.
    assert_eq!(home.store.load_checkpoint("0").await.unwrap_err().code(), "WR0412");
}
