use serde_json::json;
use weir_schemas::control::Mode;
use weir_schemas::decision::Disposition;
use weir_schemas::identity::JobKey;

use crate::home::{Home, action, grow, hold, wordcount};

#[tokio::test]
async fn a_mode_is_set_and_the_one_before_told() {
    let home = Home::new().await;
    home.decided(&[grow(Disposition::Act)]).await;
    let first = home.text("mode wordcount approve").await;
    assert_eq!(first, "prod/default/wordcount is in mode approve now; it was what the configuration says.\n");
    let second = home.text("mode prod/default/wordcount auto").await;
    assert_eq!(second, "prod/default/wordcount is in mode auto now; it was approve.\n");
    let audit = home.store.audit(1).await.unwrap();
    assert_eq!((audit[0].who.as_str(), audit[0].detail.as_str()), ("ada", "auto"));
}

#[tokio::test]
async fn a_mode_that_has_no_effect_yet_says_why() {
    let home = Home::new().await;
    home.decided(&[grow(Disposition::Act)]).await;
    home.store.set_paused(&wordcount(), true, "bob", 1).await.unwrap();
    home.store.set_frozen(true, "bob", 2).await.unwrap();
    insta::assert_snapshot!(home.text("mode wordcount auto").await, @r"
    prod/default/wordcount is in mode auto now; it was what the configuration says.
    It is paused: nothing is done until `weir resume prod/default/wordcount`.
    Everything is frozen: nothing is done until `weir unfreeze`.
    ");
    assert_eq!(home.text("mode wordcount observe").await.lines().count(), 1);
}

#[tokio::test]
async fn a_full_key_may_name_a_job_that_was_not_seen_yet() {
    let home = Home::new().await;
    home.decided(&[grow(Disposition::Act)]).await;
    insta::assert_snapshot!(home.text("mode prod/default/wordcuont auto").await, @r"
    prod/default/wordcuont is in mode auto now; it was what the configuration says.
    Note: prod/default/wordcuont was not seen yet, so this counts once it is: did you mean prod/default/wordcount?
    ");
    let later = JobKey::new("prod", "wordcuont");
    assert_eq!(home.store.controls().await.unwrap().jobs[&later].mode, Some(Mode::Auto));
    let said = home.json("pause prod/default/new").await;
    assert_eq!(said, json!({"job": "prod/default/new", "paused": true, "seen": false, "revision": 2}));
    // What was said of it once can be taken back.
    let said = home.json("resume new").await;
    assert_eq!(said, json!({"job": "prod/default/new", "paused": false, "seen": false, "revision": 3}));
}

#[tokio::test]
async fn a_job_is_paused_and_resumed() {
    let home = Home::new().await;
    home.decided(&[hold()]).await;
    insta::assert_snapshot!(home.text("pause orders").await, @"prod/default/orders is paused: it is judged, and not acted on until `weir resume prod/default/orders`.");
    assert!(home.store.controls().await.unwrap().jobs[&hold().job].paused);
    insta::assert_snapshot!(home.text("resume orders").await, @"prod/default/orders is not paused any more; its mode says how far Weir may go.");
    assert!(!home.store.controls().await.unwrap().jobs[&hold().job].paused);
}

#[tokio::test]
async fn a_freeze_names_what_is_under_way() {
    let home = Home::new().await;
    home.acted(&action("aa00000000000000", 1, "verifying", "")).await;
    home.acted(&action("bb00000000000000", 2, "awaits_approval", "")).await;
    insta::assert_snapshot!(home.text("freeze").await, @r"
    Everything is frozen: no action is started until `weir unfreeze`.
    prod/default/wordcount is at it already: flatmap 1 -> 3, count 1 -> 5: verifying.
    ");
    assert!(home.store.controls().await.unwrap().frozen);
    assert_eq!(home.json("unfreeze").await, json!({"frozen": false, "revision": 2}));
    assert!(!home.store.controls().await.unwrap().frozen);
    assert_eq!(
        home.text("unfreeze").await,
        "Nothing is frozen any more; the modes of the jobs say how far Weir may go.\n"
    );
}
