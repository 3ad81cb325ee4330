use weir_store::{Pruned, RequestKind, Retention};

use crate::Homes;
use crate::support::{action, commit, hold, job, new, rescale};

const DAY_MS: i64 = 86_400_000;

pub(crate) async fn what_is_old_goes_and_what_is_needed_stays(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let store = &home.store;
    let orders = job("orders");
    let mut of_action = rescale(&orders, "d2", 20, 4);
    of_action.decided_at_ms = 20;
    let history = vec![
        new(hold(&orders, "d1", 10)),
        new(of_action),
        new(hold(&orders, "d3", 30)),
        new(hold(&job("quiet"), "d4", 10)),
    ];
    store.commit(&commit(1, "s", history)).await.unwrap();
    for (id, decision, open) in [("c1", "d1", false), ("c2", "d2", true), ("c3", "d1", true)] {
        let mut it = action(id, &orders, 10);
        it.decision_id = decision.into();
        store.claim_action(&it, None, vec![]).await.unwrap();
        store.add_request(RequestKind::Approve, id, "ada", 10).await.unwrap();
        it.open = open;
        store.update_action(&it, vec![]).await.unwrap();
    }
    store.close_request(1, "Done.", 10).await.unwrap();
    store.set_frozen(true, "ada", 399 * DAY_MS).await.unwrap();
    let mut over = action("c3", &orders, 10);
    over.open = false;
    over.updated_ms = 399 * DAY_MS;
    over.decision_id = "d1".into();
    store.update_action(&over, vec![]).await.unwrap();

    let pruned = store.prune(400 * DAY_MS, Retention::default()).await.unwrap();
    // d1 is kept for c3, d2 for the open c2, d3 and d4 as the newest of their jobs.
    assert_eq!(pruned, Pruned { decisions: 0, actions: 1, requests: 1, audit: 3 });
    assert_eq!(store.open_actions().await.unwrap().len(), 1);
    assert_eq!(store.open_requests().await.unwrap().len(), 2);
    assert_eq!(store.outbox_len("analyzer").await.unwrap(), 4);
    assert_eq!(store.latest_decisions().await.unwrap().len(), 2);
    assert!(store.controls().await.unwrap().frozen);

    // A year later c3 goes, and with it d1.
    let pruned = store.prune(800 * DAY_MS, Retention::default()).await.unwrap();
    assert_eq!(pruned, Pruned { decisions: 1, actions: 1, requests: 0, audit: 1 });
    let left = store.decisions(&orders, 10, None).await.unwrap();
    assert_eq!(left.iter().map(|decision| decision.id.as_str()).collect::<Vec<_>>(), ["d3", "d2"]);
    assert_eq!(store.decisions(&job("quiet"), 10, None).await.unwrap().len(), 1);
    assert_eq!(store.max_plan_number(&orders).await.unwrap(), 4);
    assert_eq!(store.prune(800 * DAY_MS, Retention::default()).await.unwrap(), Pruned::default());
}

pub(crate) async fn nothing_goes_before_its_time(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let orders = job("orders");
    let writes = vec![new(hold(&orders, "d1", 0)), new(hold(&orders, "d2", 1))];
    home.store.commit(&commit(1, "s", writes)).await.unwrap();
    assert_eq!(home.store.prune(30 * DAY_MS, Retention::default()).await.unwrap(), Pruned::default());
    let pruned = home.store.prune(30 * DAY_MS + 1, Retention::default()).await.unwrap();
    assert_eq!(pruned, Pruned { decisions: 1, ..Pruned::default() });
}
