//! Crashes around the commit: a transaction is wholly there, or not at all.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use weir_store::{Address, BoxFuture, OpenOptions, Store, WriteHook};

use crate::support::{action, commit, hold, job, new, publish};
use crate::{Home, Homes};

/// Tells a child where the database is.
const ADDRESS: &str = "WEIR_TEST_CRASH_ADDRESS";
/// Tells a child where to die.
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
async fn found(home: &Home) -> (bool, bool) {
    let store = home.other().await;
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

pub(crate) async fn a_task_that_ends_within_a_write_leaves_all_or_nothing(homes: &dyn Homes) {
    for (point, expected) in POINTS {
        let home = homes.fresh().await;
        begin(&home.store).await;
        let reached = Arc::new(Notify::new());
        let tell = Arc::clone(&reached);
        let act = move || -> BoxFuture<'static, ()> {
            tell.notify_one();
            Box::pin(std::future::pending())
        };
        let store = home.other().await.with_write_hook(Arc::new(At { point: point.into(), act }));
        let task = tokio::spawn(async move { work(&store).await });
        let reached = tokio::time::timeout(Duration::from_secs(120), reached.notified()).await;
        assert!(reached.is_ok(), "{point} was not reached");
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(found(&home).await, expected, "{point}");
    }
}

pub(crate) async fn a_process_that_dies_within_a_write_leaves_all_or_nothing(homes: &dyn Homes) {
    for (point, expected) in POINTS {
        let home = homes.fresh().await;
        begin(&home.store).await;
        let child = Command::new(std::env::current_exe().unwrap())
            .env(ADDRESS, home.address.to_string())
            .env(POINT, point)
            .output()
            .unwrap();
        assert!(!child.status.success(), "{point}: it did not die");
        assert_eq!(found(&home).await, expected, "{point}");
    }
}

/// Where a child is told to die, if this process is one.
pub(crate) fn child() -> Option<(String, String)> {
    Some((std::env::var(ADDRESS).ok()?, std::env::var(POINT).ok()?))
}

pub(crate) async fn dies_where_it_is_told(address: &str, point: String) {
    let address = Address::parse(address).unwrap();
    let store = Store::open_at(&address, &OpenOptions::default()).await.unwrap();
    let act = || -> BoxFuture<'static, ()> { std::process::abort() };
    work(&store.with_write_hook(Arc::new(At { point, act }))).await;
}
