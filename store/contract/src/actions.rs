use weir_store::{PositionRow, StoreError};

use crate::Homes;
use crate::support::{action, job, publish};

fn position(partition: u32, position: u64) -> PositionRow {
    PositionRow { consumer: "actuator".into(), log: "decisions".into(), partition, incarnation: "i1".into(), position }
}

pub(crate) async fn a_command_is_claimed_once_and_its_position_moves_either_way(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let claim = action("c1", &job("orders"), 10);
    let store = &home.store;
    assert!(store.claim_action(&claim, Some(position(0, 5)), vec![publish("a")]).await.unwrap());
    assert!(!home.other().await.claim_action(&claim, Some(position(0, 9)), vec![publish("b")]).await.unwrap());
    assert_eq!(store.positions("actuator").await.unwrap(), [position(0, 9)]);
    assert_eq!(store.outbox_len("analyzer").await.unwrap(), 1);
    assert_eq!(store.action("c1").await.unwrap(), claim);
    assert_eq!(store.max_plan_number(&job("orders")).await.unwrap(), 1);
}

pub(crate) async fn an_action_that_is_over_is_never_reopened(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let store = &home.store;
    let mut it = action("c1", &job("orders"), 10);
    store.claim_action(&it, None, vec![]).await.unwrap();
    it.state = "rescaling".into();
    it.restarted = true;
    it.updated_ms = 20;
    store.update_action(&it, vec![publish("a")]).await.unwrap();
    assert_eq!(store.open_actions().await.unwrap(), [it.clone()]);

    it.state = "verified".into();
    it.open = false;
    it.restarted = false;
    it.updated_ms = 30;
    store.update_action(&it, vec![]).await.unwrap();
    let kept = store.action("c1").await.unwrap();
    assert!(kept.restarted, "what has restarted a job has done so for ever");
    assert!(store.open_actions().await.unwrap().is_empty());

    it.open = true;
    let refused = store.update_action(&it, vec![publish("b")]).await.unwrap_err();
    assert_eq!(refused.to_string(), "WR0411: action c1 is over (verified) and is not changed any more");
    assert_eq!(store.outbox_len("analyzer").await.unwrap(), 1);
    assert_eq!(store.action("c1").await.unwrap(), kept);
}

pub(crate) async fn an_action_follows_its_newest_owner_alone(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let store = &home.store;
    let old = action("c1", &job("orders"), 10);
    store.claim_action(&old, None, vec![]).await.unwrap();
    let mut young = old.clone();
    young.epoch = 2;
    store.update_action(&young, vec![]).await.unwrap();
    let refused = store.update_action(&old, vec![]).await.unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { ours: 1, theirs: 2, .. }), "{refused}");
    let unknown = store.update_action(&action("c2", &job("orders"), 10), vec![]).await.unwrap_err();
    assert_eq!(unknown.code(), "WR0409");
}

pub(crate) async fn restarts_are_counted_from_when_they_happened(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let store = &home.store;
    for (id, at) in [("c1", 10), ("c2", 20), ("c3", 30)] {
        let mut it = action(id, &job("orders"), at);
        it.plan_number = u64::try_from(at).unwrap();
        store.claim_action(&it, None, vec![]).await.unwrap();
        // The third never restarts the job; the first two do 5 ms later, and change once more after that.
        it.restarted = id != "c3";
        it.updated_ms = at + 5;
        store.update_action(&it, vec![]).await.unwrap();
        it.updated_ms = 1_000;
        store.update_action(&it, vec![]).await.unwrap();
    }
    let orders = job("orders");
    for (since, expected) in [(0, 2), (15, 2), (16, 1), (25, 1), (26, 0)] {
        assert_eq!(store.restarts_since(&orders, since).await.unwrap(), expected, "since {since}");
    }
    assert_eq!(store.restarts_since(&job("clicks"), 0).await.unwrap(), 0);
    let latest = store.actions(&orders, 2).await.unwrap();
    assert_eq!(latest.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["c3", "c2"]);
    assert_eq!(store.action("c").await.unwrap_err().code(), "WR0410");
    assert_eq!(store.max_plan_number(&orders).await.unwrap(), 30);
}

pub(crate) async fn positions_are_saved_all_or_none_and_never_by_an_older_epoch(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let store = &home.store;
    store.save_positions(&[position(0, 1), position(1, 1)], Some(2)).await.unwrap();
    store.save_positions(&[position(0, 2)], None).await.unwrap();
    store.save_positions(&[position(1, 2)], Some(3)).await.unwrap();
    let refused = store.save_positions(&[position(0, 9), position(1, 9)], Some(2)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { ours: 2, theirs: 3, .. }), "{refused}");
    assert_eq!(store.positions("actuator").await.unwrap(), [position(0, 2), position(1, 2)]);
    assert!(store.positions("nobody").await.unwrap().is_empty());
    let unfit = store.save_positions(&[position(0, u64::MAX)], None).await.unwrap_err();
    assert_eq!(unfit.code(), "WR0413");
}
