use weir_schemas::decision::{Disposition, command_id};
use weir_schemas::report::Step;

use crate::home::{Home, action, cannot_help, grow, hold, shrink, wordcount};

#[tokio::test]
async fn growth_that_awaits_approval_says_how_to_give_it() {
    let home = Home::new().await;
    let grow = grow(Disposition::AwaitsApproval);
    home.decided(std::slice::from_ref(&grow)).await;
    home.acted(&action("d00d1e0011223344", 1, "awaits_approval", &grow.id)).await;
    insta::assert_snapshot!(home.text("explain wordcount").await);
}

#[tokio::test]
async fn growth_that_was_carried_out_tells_its_outcome() {
    let home = Home::new().await;
    let grow = grow(Disposition::Act);
    home.decided(std::slice::from_ref(&grow)).await;
    home.acted(&action("d00d1e0011223344", 1, "verified", &grow.id)).await;
    let text = home.text("explain wordcount").await;
    let last = text.lines().last().unwrap();
    insta::assert_snapshot!(last, @"action       d00d1e00 flatmap 1 -> 3, count 1 -> 5 verified after a stop of 12 s (30 s expected), throughput 1600/s (800/s before), 40 s ago");
}

#[tokio::test]
async fn a_withheld_shrink_says_what_it_waits_for() {
    let home = Home::new().await;
    home.decided(&[shrink()]).await;
    insta::assert_snapshot!(home.text("explain clicks").await);
}

#[tokio::test]
async fn a_hold_says_what_stands_against_judging() {
    let home = Home::new().await;
    home.decided(&[hold()]).await;
    insta::assert_snapshot!(home.text("explain orders").await);
}

#[tokio::test]
async fn what_cannot_be_helped_says_why() {
    let home = Home::new().await;
    home.decided(&[cannot_help()]).await;
    insta::assert_snapshot!(home.text("explain orders").await);
}

#[tokio::test]
async fn programs_get_the_stored_decision() {
    let home = Home::new().await;
    for decision in [grow(Disposition::Act), shrink(), hold(), cannot_help()] {
        home.decided(std::slice::from_ref(&decision)).await;
        let printed = home.json(&format!("explain {}", decision.job)).await;
        assert_eq!(printed, serde_json::to_value(&decision).unwrap());
    }
}

#[tokio::test]
async fn the_json_of_a_decision_keeps_its_keys() {
    let home = Home::new().await;
    home.decided(&[grow(Disposition::Act)]).await;
    insta::assert_json_snapshot!(home.json("explain wordcount").await);
}

#[tokio::test]
async fn steps_of_a_newer_version_are_passed_over_with_a_note() {
    let home = Home::new().await;
    let mut odd = hold();
    odd.report.steps.insert(1, Step::Unknown);
    home.decided(&[odd]).await;
    let text = home.text("explain orders").await;
    assert_eq!(text.matches("a newer version wrote a step").count(), 1, "{text}");
    assert!(text.contains("health       down"), "what follows is still shown: {text}");
}

#[tokio::test]
async fn an_older_decision_is_found_by_the_beginning_of_its_id() {
    let home = Home::new().await;
    let (mut old, new) = (grow(Disposition::Recommend), grow(Disposition::Act));
    old.id = "01d0000000000000".into();
    home.decided(&[old, new, shrink()]).await;
    assert!(home.text("explain wordcount --decision 01d").await.contains("(recommended)"));
    assert!(home.text("explain wordcount").await.contains("(acting)"));

    let other = home.error("explain clicks --decision 01d").await;
    assert_eq!((other.code(), other.exit().code()), ("WR0613", 65));
    let expected = "WR0613: decision 01d00000 is about prod/default/wordcount, not prod/default/clicks: name that job, \
                    or leave --decision out";
    assert_eq!(other.to_string(), expected);
    let none = home.error("explain wordcount --decision 0e").await;
    assert_eq!((none.code(), none.exit().code()), ("WR0409", 66));
}

#[tokio::test]
async fn a_job_that_was_not_judged_yet_says_so() {
    let home = Home::new().await;
    home.seen(&[&hold().job]).await;
    let refused = home.error("explain orders").await;
    assert_eq!((refused.code(), refused.exit().code()), ("WR0612", 66));
    assert!(
        refused.to_string().starts_with("WR0612: nothing was decided about prod/default/orders yet: "),
        "{refused}"
    );
}

#[tokio::test]
async fn a_latest_decision_that_is_old_says_that_nobody_judges_any_more() {
    let home = Home::new().await;
    let mut old = hold();
    old.decided_at_ms -= 60_000;
    home.decided(std::slice::from_ref(&old)).await;
    assert!(home.text("explain orders").await.contains("stale        nothing newer was decided"));
    // Whoever asks for a decision by its id knows that it is old.
    let asked = home.text(&format!("explain orders --decision {}", old.id)).await;
    assert!(!asked.contains("stale"), "{asked}");
}

#[tokio::test]
async fn a_plan_that_is_told_again_keeps_its_action() {
    let home = Home::new().await;
    let again = grow(Disposition::AwaitsApproval);
    let (id, older) = (command_id(&again.job, again.verdict.plan().unwrap()), "01d0000000000000");
    home.acted(&action("aa00000000000000", 7, "verified", "")).await;
    home.acted(&action(&id, 1, "awaits_approval", older)).await;
    home.decided(&[again]).await;
    let text = home.text("explain wordcount").await;
    assert!(text.contains(&format!("action       {} awaits approval", &id[..8])), "{text}");
}

#[tokio::test]
async fn what_is_under_way_is_told_with_the_latest_decision_alone() {
    let home = Home::new().await;
    let mut held = hold();
    held.job = wordcount();
    let id = held.id.clone();
    home.decided(&[held]).await;
    home.acted(&action("aa00000000000000", 1, "verifying", "01d0000000000000")).await;
    assert!(
        home.text("explain wordcount").await.contains("action       aa000000 flatmap 1 -> 3, count 1 -> 5: verifying")
    );
    assert!(!home.text(&format!("explain wordcount --decision {id}")).await.contains("verifying"));
}
