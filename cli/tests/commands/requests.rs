use std::time::Duration;

use serde_json::{Value, json};
use weir::exit::Exit;
use weir::output::Output;
use weir_store::{ActionRow, RequestKind, Store};

use crate::home::{Home, NOW, action, run_in};

/// Waits for a request, lets `act` do what an actuator does, and answers.
async fn answer(store: Store, sentence: &str, act: impl AsyncFnOnce(&Store)) {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let asked = async {
        loop {
            ticks.tick().await;
            if let Some(request) = store.open_requests().await.unwrap().pop() {
                return request;
            }
        }
    };
    let request = tokio::time::timeout(Duration::from_secs(60), asked).await.expect("a request");
    act(&store).await;
    store.close_request(request.id, sentence, NOW).await.unwrap();
}

/// The action in another state, as the actuator writes it.
async fn becomes(store: &Store, id: &str, state: &str) {
    let row = store.action(id).await.unwrap();
    let changed = ActionRow { id: row.id.clone(), ..action(&row.id, row.plan_number, state, "") };
    store.update_action(&changed, Vec::new()).await.unwrap();
}

#[tokio::test]
async fn an_approval_that_is_answered_tells_the_answer() {
    let home = Home::new().await;
    home.acted(&action("c0ffee0011223344", 1, "awaits_approval", "")).await;
    let service = answer(home.store.clone(), "approved; it starts now", async |store| {
        becomes(store, "c0ffee", "planned").await;
    });
    let (ran, ()) = tokio::join!(home.run("approve c0ff --wait 60"), service);
    assert_eq!(ran.result.unwrap(), Exit::Ok);
    assert_eq!(ran.text, "action c0ffee00 of prod/default/wordcount: approved; it starts now\n");
    let request = home.store.request(1).await.unwrap();
    assert_eq!((request.kind, request.by.as_str()), (RequestKind::Approve, "ada"));
}

#[tokio::test]
async fn an_answer_that_declines_ends_as_refused() {
    let home = Home::new().await;
    home.acted(&action("c0ffee0011223344", 1, "awaits_approval", "")).await;
    let service = answer(home.store.clone(), "it is too old", async |store| {
        becomes(store, "c0ffee", "refused").await;
    });
    let line = "approve c0ffee0011223344 --wait 60";
    let (ran, ()) = tokio::join!(run_in(home.folder.path(), line, Output::Json), service);
    assert_eq!(ran.result.unwrap(), Exit::Refused);
    let said: Value = serde_json::from_str(&ran.text).unwrap();
    let expected = json!({
        "request": 1, "kind": "approve", "action": "c0ffee0011223344", "job": "prod/default/wordcount",
        "answered": true, "done": false, "result": "it is too old",
    });
    assert_eq!(said, expected);
}

#[tokio::test]
async fn a_rejection_is_done_once_the_action_is_refused() {
    let home = Home::new().await;
    home.acted(&action("c0ffee0011223344", 1, "awaits_approval", "")).await;
    let service = answer(home.store.clone(), "rejected", async |store| becomes(store, "c0ffee", "refused").await);
    let (ran, ()) = tokio::join!(home.run("reject c0ffee --wait 60"), service);
    assert_eq!(ran.result.unwrap(), Exit::Ok);
}

#[tokio::test]
async fn a_rollback_is_done_once_there_is_a_way_back() {
    let home = Home::new().await;
    home.acted(&action("c0ffee0011223344", 1, "verified", "d")).await;
    let declined = answer(home.store.clone(), "not done: the job is FINISHED", async |_| ());
    let (ran, ()) = tokio::join!(home.run("rollback c0ffee --wait 60"), declined);
    assert_eq!(ran.result.unwrap(), Exit::Refused);

    let service = answer(home.store.clone(), "going back: count 5 -> 1", async |store| {
        let way_back = action("ba00000000000000", 2, "planned", "");
        assert!(store.claim_action(&way_back, None, Vec::new()).await.unwrap());
    });
    let (ran, ()) = tokio::join!(home.run("rollback c0ffee --wait 60"), service);
    assert_eq!(ran.result.unwrap(), Exit::Ok);
    assert_eq!(ran.text, "action c0ffee00 of prod/default/wordcount: going back: count 5 -> 1\n");
}

#[tokio::test]
async fn without_a_service_the_request_is_queued() {
    let home = Home::new().await;
    home.acted(&action("c0ffee0011223344", 1, "awaits_approval", "")).await;
    let ran = home.run("reject c0ffee --wait 0").await;
    assert_eq!(ran.result.unwrap(), Exit::Failure, "a script must not take it for done");
    insta::assert_snapshot!(ran.text, @"action c0ffee00 of prod/default/wordcount: reject is queued and not answered after 0 s: either no actuator runs on this data (start `weir run`), or it waits for the job to settle; it stays asked for, and `weir history prod/default/wordcount` shows what comes of it");
    assert_eq!(home.store.open_requests().await.unwrap().len(), 1);
    let ran = run_in(home.folder.path(), "reject c0ffee --wait 0", Output::Json).await;
    let said: Value = serde_json::from_str(&ran.text).unwrap();
    assert_eq!((&said["answered"], &said["done"], &said["result"]), (&json!(false), &json!(false), &Value::Null));
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_before_anybody_is_asked() {
    let home = Home::new().await;
    for (id, number, state) in [
        ("a1", 1, "verified"),
        ("b2", 2, "rolled_back"),
        ("c3", 3, "refused"),
        ("d4", 4, "verified"),
        ("e5", 5, "awaits_approval"),
        ("f6", 6, "verifying"),
    ] {
        home.acted(&action(id, number, state, "")).await;
    }
    for (line, why) in [
        ("approve a1", "approve action a1: it is over (verified); `weir status` shows what awaits approval now"),
        (
            "approve f6",
            "approve action f6: it is under way already (verifying); `weir rollback` can undo it once it is over",
        ),
        ("reject c3", "reject action c3: it is over (refused); `weir status` shows what awaits approval now"),
        (
            "rollback a1",
            "rollback action a1: action f6 (verifying) changed the job after it; only the last action can be undone",
        ),
        ("rollback b2", "rollback action b2: it was undone already"),
        ("rollback c3", "rollback action c3: it was never carried out, so there is nothing to undo"),
        ("rollback e5", "rollback action e5: it was not carried out; `weir reject` drops it"),
        ("rollback f6", "rollback action f6: it is not over (verifying); wait for its outcome"),
    ] {
        let refused = home.error(line).await;
        assert_eq!((refused.code(), refused.exit()), ("WR0614", Exit::Refused), "{line}");
        assert_eq!(refused.to_string(), format!("WR0614: cannot {why}"), "{line}");
    }
    assert!(home.store.open_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_last_action_that_changed_the_job_may_be_undone() {
    let home = Home::new().await;
    for (id, number, state) in [("d4", 4, "verified"), ("e5", 5, "refused"), ("f6", 6, "awaits_approval")] {
        home.acted(&action(id, number, state, "d")).await;
    }
    let ran = home.run("rollback d4 --wait 0").await;
    assert_eq!(ran.result.unwrap(), Exit::Failure);
    assert_eq!(home.store.open_requests().await.unwrap()[0].action_id, "d4");
}

#[tokio::test]
async fn actions_are_found_by_a_unique_beginning() {
    let home = Home::new().await;
    home.acted(&action("ab01", 1, "awaits_approval", "")).await;
    home.acted(&action("ab02", 2, "awaits_approval", "")).await;
    let ambiguous = home.error("approve ab").await;
    assert_eq!((ambiguous.code(), ambiguous.exit()), ("WR0410", Exit::BadInput));
    let missing = home.error("rollback zz").await;
    assert_eq!((missing.code(), missing.exit()), ("WR0409", Exit::NotFound));
}
