use weir_schemas::control::Mode;
use weir_schemas::decision::Disposition;

use crate::home::{Home, NOW, action, grow, hold, shrink, wordcount};

async fn eventful() -> Home {
    let home = Home::new().await;
    let store = &home.store;
    let mut old = grow(Disposition::Recommend);
    (old.id, old.decided_at_ms) = ("01d0000000000000".into(), NOW - 90_000);
    home.decided(&[old, grow(Disposition::AwaitsApproval), shrink()]).await;
    store.set_mode(&wordcount(), Mode::Approve, "ada", NOW - 80_000).await.unwrap();
    store.set_paused(&shrink().job, true, "bob", NOW - 79_000).await.unwrap();
    store.set_frozen(true, "bob", NOW - 78_000).await.unwrap();
    store.set_frozen(false, "bob", NOW - 77_000).await.unwrap();
    home.acted(&action("aa00000000000000", 1, "verified", "01d0000000000000")).await;
    home.acted(&action("bb00000000000000", 2, "rolled_back", "")).await;
    home.acted(&action("cc00000000000000", 3, "refused", "")).await;
    home.acted(&action("dd00000000000000", 4, "failed", "")).await;
    home.acted(&action("ee00000000000000", 5, "awaits_approval", "")).await;
    store.add_request(weir_store::RequestKind::Approve, "ee", "ada", NOW - 1_000).await.unwrap();
    home
}

#[tokio::test]
async fn everything_is_told_in_the_order_of_time() {
    let home = eventful().await;
    insta::assert_snapshot!(home.text("history wordcount").await);
}

#[tokio::test]
async fn programs_get_the_same_as_json() {
    let home = eventful().await;
    insta::assert_json_snapshot!(home.json("history wordcount --limit 4").await);
}

#[tokio::test]
async fn the_limit_keeps_the_newest() {
    let home = eventful().await;
    let all = home.text("history wordcount").await;
    let two = home.text("history wordcount -n 2").await;
    let tail = |text: &str| text.lines().rev().take(2).map(|line| line[..30].to_owned()).collect::<Vec<_>>();
    assert_eq!((two.lines().count(), tail(&two)), (3, tail(&all)));
}

#[tokio::test]
async fn an_action_that_another_version_wrote_is_told_by_its_row() {
    let home = Home::new().await;
    home.seen(&[&wordcount()]).await;
    let mut odd = action("aa00000000000000", 7, "half_done", "");
    odd.body = "{\"newer\": true}".into();
    home.acted(&odd).await;
    let text = home.text("history wordcount").await;
    assert!(text.contains("plan 7: half done"), "{text}");
}

#[tokio::test]
async fn nothing_is_a_history_too() {
    let home = Home::new().await;
    home.seen(&[&hold().job]).await;
    let text = home.text("history orders").await;
    assert!(text.starts_with("Nothing has happened to prod/default/orders yet"), "{text}");
}
