use weir_schemas::control::Mode;
use weir_schemas::decision::{Disposition, Verdict};
use weir_schemas::identity::JobKey;

use crate::home::{Home, NOW, action, cannot_help, grow, hold, run_id, shrink, wordcount};

async fn four_jobs() -> Home {
    let home = Home::new().await;
    home.decided(&[grow(Disposition::AwaitsApproval), shrink(), hold(), cannot_help()]).await;
    home.store.set_mode(&wordcount(), Mode::Approve, "ada", 1).await.unwrap();
    home.store.set_paused(&shrink().job, true, "ada", 2).await.unwrap();
    home.acted(&action("c0ffee0011223344", 1, "verified", "")).await;
    home.acted(&action("d00d1e0011223344", 2, "awaits_approval", &grow(Disposition::Act).id)).await;
    home
}

#[tokio::test]
async fn every_job_is_one_line() {
    let home = four_jobs().await;
    insta::assert_snapshot!(home.text("status").await);
}

#[tokio::test]
async fn programs_get_the_same_as_json() {
    let home = four_jobs().await;
    insta::assert_json_snapshot!(home.json("status").await);
}

#[tokio::test]
async fn a_freeze_is_the_first_thing_to_be_told() {
    let home = Home::new().await;
    home.store.set_frozen(true, "ada", 1).await.unwrap();
    insta::assert_snapshot!(home.text("status").await, @r"
    FROZEN: no action is started on any job until `weir unfreeze`.
    No job was seen yet: `weir run --flink NAME=http://host:8081` watches the jobs of a cluster.
    ");
}

#[tokio::test]
async fn what_is_under_way_counts_more_than_what_waits() {
    let home = Home::new().await;
    home.decided(&[grow(Disposition::Act)]).await;
    home.acted(&action("aa00000000000000", 1, "verifying", "")).await;
    home.acted(&action("bb00000000000000", 2, "awaits_approval", "")).await;
    let text = home.text("status").await;
    assert!(text.contains("verifying (aa000000)") && !text.contains("bb000000"), "{text}");
}

#[tokio::test]
async fn old_samples_are_stale_and_a_job_without_a_decision_is_listed() {
    let home = Home::new().await;
    home.store.seen_job(&JobKey::new("prod", "new"), &run_id(), NOW - 61_000).await.unwrap();
    insta::assert_snapshot!(home.text("status").await, @r"
    JOB               HEALTH  PARALLELISM  MODE     VERDICT         SAMPLED       ACTION
    prod/default/new  -       -            default  not judged yet  61 s (stale)  -
    All samples are stale, and no service of Weir is alive on this data: start `weir run`.
    ");
    let mut fresh = hold();
    fresh.decided_at_ms = NOW - 60_000;
    home.decided(&[fresh]).await;
    let text = home.text("status").await;
    assert!(text.contains("60 s  ") && !text.contains("All samples"), "{text}");
}

#[tokio::test]
async fn long_plans_are_cut_and_counted() {
    let home = Home::new().await;
    let mut large = grow(Disposition::Recommend);
    if let Verdict::Rescale(plan) = &mut large.verdict {
        let template = plan.vertices[1].clone();
        plan.vertices = (0..9)
            .map(|index| {
                let mut vertex = template.clone();
                vertex.name = format!("v{index}");
                vertex
            })
            .collect();
    }
    home.decided(&[large]).await;
    let text = home.text("status").await;
    assert!(text.contains("1/1/1/1/1/1/3 more") && text.contains("v5 1 -> 3, 3 more (recommended)"), "{text}");
}
