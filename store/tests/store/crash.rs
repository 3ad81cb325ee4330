//! Crashes around the commit: a transaction is wholly there, or not at all.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tokio::sync::Notify;
use weir_store::{BoxFuture, Store, WriteHook};

use crate::support::{Home, action, commit, hold, job, new, publish};

const PATH: &str = "WEIR_TEST_CRASH_PATH";
const POINT: &str = "WEIR_TEST_CRASH_POINT";

/// What is done when a write reaches a point, such as `within commit`.
struct At<F> {
    point: String,
    act: F,
}

impl<F: Fn() -> BoxFuture<'static, ()> + Send + Sync> At<F> {
    fn reach(&self, when: &str, what: &str) -> BoxFuture<'static, ()> {
        if format!("{when} {what}") == self.point { (self.act)() } else { Box::pin(std::future::ready(())) }
    }
}

impl<F: Fn() -> BoxFuture<'static, ()> + Send + Sync> WriteHook for At<F> {
    fn before(&self, what: &'static str) -> BoxFuture<'_, ()> {
        self.reach("before", what)
    }

    fn within(&self, what: &'static str) -> BoxFuture<'_, ()> {
        self.reach("within", what)
    }

    fn after(&self, what: &'static str) -> BoxFuture<'_, ()> {
        self.reach("after", what)
    }
}

/// The two transactions that matter most.
async fn work(store: &Store) {
    let writes = vec![new(hold(&job("orders"), "d2", 20)), new(hold(&job("clicks"), "d3", 20))];
    store.commit(&commit(1, "two", writes)).await.unwrap();
    store.claim_action(&action("c1", &job("orders"), 30), None, vec![publish("c1")]).await.unwrap();
}

async fn begin(store: &Store) {
    store.commit(&commit(1, "one", vec![new(hold(&job("orders"), "d1", 10))])).await.unwrap();
}

/// Whether the commit and the claim are there; each must be so wholly.
async fn found(path: &Path) -> (bool, bool) {
    let store = Store::open_existing(path).await.unwrap();
    let state = store.load_checkpoint("0").await.unwrap().unwrap().state;
    let committed = state == b"two";
    assert!(committed || state == b"one", "{state:?}");
    let claimed = store.action("c1").await.is_ok();
    let (mut outbox, mut latest) = (vec!["d1"], vec!["d1"]);
    if committed {
        outbox.extend(["d2", "d3"]);
        latest = vec!["d3", "d2"];
    }
    if claimed {
        outbox.push("c1");
    }
    let rows = store.outbox("analyzer", 10).await.unwrap();
    assert_eq!(rows.iter().map(|row| String::from_utf8_lossy(&row.payload)).collect::<Vec<_>>(), outbox);
    let decisions = store.latest_decisions().await.unwrap();
    assert_eq!(decisions.iter().map(|decision| decision.id.as_str()).collect::<Vec<_>>(), latest);
    // And it goes on from there.
    store.set_frozen(true, "ada", 40).await.unwrap();
    (committed, claimed)
}

const POINTS: [(&str, (bool, bool)); 6] = [
    ("before commit", (false, false)),
    ("within commit", (false, false)),
    ("after commit", (true, false)),
    ("before claim_action", (true, false)),
    ("within claim_action", (true, false)),
    ("after claim_action", (true, true)),
];

#[tokio::test]
async fn a_task_that_ends_within_a_write_leaves_all_or_nothing() {
    for (point, expected) in POINTS {
        let home = Home::new().await;
        begin(&home.store).await;
        let reached = Arc::new(Notify::new());
        let tell = Arc::clone(&reached);
        let act = move || -> BoxFuture<'static, ()> {
            tell.notify_one();
            Box::pin(std::future::pending())
        };
        let store = home.other().await.with_write_hook(Arc::new(At { point: point.into(), act }));
        let task = tokio::spawn(async move { work(&store).await });
        reached.notified().await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(found(&home.path()).await, expected, "{point}");
    }
}

#[tokio::test]
async fn a_process_that_dies_within_a_write_leaves_all_or_nothing() {
    for (point, expected) in POINTS {
        let home = Home::new().await;
        begin(&home.store).await;
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "crash::dies_where_it_is_told"])
            .env(PATH, home.path())
            .env(POINT, point)
            .output()
            .unwrap();
        assert!(!child.status.success(), "{point}: it did not die");
        assert_eq!(found(&home.path()).await, expected, "{point}");
    }
}

#[tokio::test]
#[ignore = "run by the test above, as a process of its own"]
async fn dies_where_it_is_told() {
    let store = Store::open_existing(Path::new(&std::env::var(PATH).unwrap())).await.unwrap();
    let act = || -> BoxFuture<'static, ()> { std::process::abort() };
    work(&store.with_write_hook(Arc::new(At { point: std::env::var(POINT).unwrap(), act }))).await;
}
