use weir_schemas::control::Mode;
use weir_schemas::identity::RunId;
use weir_store::{JobControl, RequestKind, StoreError};

use crate::Homes;
use crate::support::{action, job, run};

pub(crate) async fn a_job_keeps_when_it_was_first_seen_and_its_latest_run(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let later = RunId { id: "f".repeat(32), start_ms: 2_000 };
    home.store.seen_job(&job("orders"), &run(), 10).await.unwrap();
    home.store.seen_job(&job("orders"), &later, 20).await.unwrap();
    home.store.seen_job(&job("orders"), &run(), 15).await.unwrap();
    home.store.seen_jobs([(&job("a"), &run()), (&job("b"), &run())], 30).await.unwrap();
    let jobs = home.store.jobs().await.unwrap();
    let names: Vec<&str> = jobs.iter().map(|row| row.job.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "orders"]);
    assert_eq!((jobs[2].first_seen_ms, jobs[2].last_seen_ms, &jobs[2].run), (10, 20, &later));
}

pub(crate) async fn every_word_of_people_raises_the_revision_and_is_written_down(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let store = &home.store;
    assert_eq!(store.control_revision().await.unwrap(), 0);
    assert_eq!(store.set_mode(&job("unseen"), Mode::Auto, "ada", 1).await.unwrap(), 1);
    assert_eq!(store.set_paused(&job("unseen"), true, "bob", 2).await.unwrap(), 2);
    assert_eq!(store.set_paused(&job("other"), true, "bob", 3).await.unwrap(), 3);
    assert_eq!(store.set_frozen(true, "ada", 4).await.unwrap(), 4);
    let controls = store.controls().await.unwrap();
    assert_eq!((controls.revision, controls.frozen), (4, true));
    assert_eq!(controls.jobs[&job("unseen")], JobControl { mode: Some(Mode::Auto), paused: true });
    assert_eq!(controls.jobs[&job("other")], JobControl { mode: None, paused: true });
    assert!(store.jobs().await.unwrap().is_empty(), "what is said about a job does not make it seen");

    store.set_paused(&job("unseen"), false, "ada", 5).await.unwrap();
    assert_eq!(store.controls().await.unwrap().jobs[&job("unseen")].mode, Some(Mode::Auto));
    let audit = store.audit(2).await.unwrap();
    assert_eq!((audit[0].what.as_str(), audit[0].detail.as_str(), audit[0].at_ms), ("paused", "false", 5));
    assert_eq!((audit[1].what.as_str(), &audit[1].job, audit[1].who.as_str()), ("frozen", &None, "ada"));
    assert_eq!(store.audit(100).await.unwrap().len(), 5);
}

pub(crate) async fn requests_name_a_known_action_and_are_answered_once(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let store = &home.store;
    let missing = store.add_request(RequestKind::Approve, "c0ffee", "ada", 1).await.unwrap_err();
    assert_eq!(missing.code(), "WR0409");
    store.claim_action(&action("c0ffee00", &job("orders"), 1), None, vec![]).await.unwrap();

    let approve = store.add_request(RequestKind::Approve, "c0ff", "ada", 2).await.unwrap();
    let rollback = store.add_request(RequestKind::Rollback, "c0ffee00", "bob", 3).await.unwrap();
    let open = store.open_requests().await.unwrap();
    assert_eq!(open.iter().map(|request| request.id).collect::<Vec<_>>(), [approve, rollback]);
    assert_eq!(
        (open[0].action_id.as_str(), open[0].kind, &open[0].job),
        ("c0ffee00", RequestKind::Approve, &job("orders"))
    );

    store.close_request(approve, "It is on its way.", 4).await.unwrap();
    let answered = store.request(approve).await.unwrap();
    assert_eq!((answered.result.as_deref(), answered.closed_ms), (Some("It is on its way."), Some(4)));
    assert_eq!(store.open_requests().await.unwrap().len(), 1);
    let twice = store.close_request(approve, "No.", 5).await.unwrap_err();
    assert!(matches!(&twice, StoreError::Closed { state, .. } if state == "It is on its way."), "{twice}");
    assert_eq!(store.close_request(99, "No.", 5).await.unwrap_err().code(), "WR0409");
    assert_eq!(store.audit(1).await.unwrap()[0].what, "rollback");
}
