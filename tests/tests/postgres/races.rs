//! Writers side by side: exactly one wins what only one may have, and nothing is lost.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use weir_store::{OpenOptions, PositionRow, Store, StoreError};
use weir_store_contract::support::{action, commit, job, new, publish, rescale};
use weir_tests::wait_until;

use crate::{Gate, SERVER, SOON, open};

/// Processes that race.
const RACERS: usize = 16;
/// How often they do.
const ROUNDS: usize = 10;

/// Whether somebody in the database waits for a lock.
async fn is_waiting(watcher: &mut PgConnection) -> bool {
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let (waiting,): (i64,) = sqlx::query_as(waiting).fetch_one(watcher).await.unwrap();
    waiting > 0
}

async fn racers() -> Vec<Store> {
    let url = SERVER.url(&SERVER.database().await);
    let options = OpenOptions { connections: 4, ..OpenOptions::default() };
    let mut stores = Vec::new();
    for _ in 0..RACERS {
        stores.push(open(&url, &options).await);
    }
    stores
}

/// What each of them comes to when all begin at once.
async fn race<T, F>(stores: &[Store], run: impl Fn(usize, Store) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let running: Vec<_> = stores.iter().enumerate().map(|(n, store)| tokio::spawn(run(n, store.clone()))).collect();
    futures::future::join_all(running).await.into_iter().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_want_a_lease_one_gets_it_and_epochs_rise() {
    let stores = racers().await;
    let mut last = 0;
    for _ in 1..=ROUNDS {
        // The one of the round before has expired by the server's clock, or was never there.
        let now = stores[0].lease_now_ms().await.unwrap();
        wait_until("a later millisecond", Duration::from_secs(5), async || {
            (stores[0].lease_now_ms().await.unwrap() > now + 1).then_some(())
        })
        .await;
        let won =
            race(&stores, |n, store| async move { store.acquire_lease("x", &n.to_string(), 60_000).await.unwrap() });
        let won: Vec<_> = won.await.into_iter().flatten().collect();
        assert_eq!(won.len(), 1, "{won:?}");
        assert!(won[0].epoch > last, "{} after {last}", won[0].epoch);
        last = won[0].epoch;
        assert!(stores[0].renew_lease(&won[0], 1).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_claim_a_command_one_carries_it_out() {
    let stores = racers().await;
    for round in 0..ROUNDS {
        let id = format!("c{round}");
        let won = race(&stores, |n, store| {
            let mut it = action(&id, &job("orders"), 1);
            it.plan_number = u64::try_from(n).unwrap();
            async move { store.claim_action(&it, None, vec![publish("claimed")]).await.unwrap() }
        });
        assert_eq!(won.await.into_iter().filter(|won| *won).count(), 1);
        assert_eq!(stores[0].outbox_len("analyzer").await.unwrap(), u64::try_from(round + 1).unwrap());
    }
    assert_eq!(stores[0].open_actions().await.unwrap().len(), ROUNDS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_ends_with_its_newest_epoch_and_what_was_fenced_left_nothing() {
    let stores = racers().await;
    for round in 0..ROUNDS {
        let orders = job(&format!("orders-{round}"));
        let outcomes = race(&stores, |n, store| {
            let epoch = u64::try_from(round * RACERS + n + 1).unwrap();
            let decision = rescale(&orders, &format!("d{epoch}"), 1, epoch);
            async move {
                store.claim_shard("0", epoch, 1).await?;
                store.commit(&commit(epoch, &epoch.to_string(), vec![new(decision)])).await
            }
        });
        let outcomes = outcomes.await;
        assert!(outcomes.iter().all(|it| matches!(it, Ok(()) | Err(StoreError::Fenced { .. }))), "{outcomes:?}");
        let newest = u64::try_from((round + 1) * RACERS).unwrap();
        let last = stores[0].load_checkpoint("0").await.unwrap().unwrap();
        assert_eq!((last.epoch, last.state), (newest, newest.to_string().into_bytes()));
        assert_eq!(stores[0].max_plan_number(&orders).await.unwrap(), newest);
        let kept = stores[0].decisions(&orders, 100, None).await.unwrap().len();
        assert_eq!(kept, outcomes.iter().filter(|it| it.is_ok()).count());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_committed_while_others_publish_is_published_once() {
    let stores = racers().await;
    let mut seen = BTreeSet::new();
    let publishing = wait_until("everything to be published", Duration::from_secs(60), async || {
        let rows = stores[0].outbox("analyzer", 7).await.unwrap();
        let last = rows.last()?.sequence;
        for row in rows {
            assert!(seen.insert(row.payload), "it was published before");
        }
        stores[0].published("analyzer", last).await.unwrap();
        (seen.len() == RACERS * ROUNDS).then_some(())
    });
    let committing = race(&stores, |n, store| async move {
        for round in 0..ROUNDS {
            let id = format!("{n}-{round}");
            assert!(store.claim_action(&action(&id, &job(&id), 1), None, vec![publish(&id)]).await.unwrap());
        }
    });
    futures::future::join(publishing, committing).await;
    assert_eq!(stores[0].outbox_len("analyzer").await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_committed_late_is_published_all_the_same() {
    let database = SERVER.database().await;
    let mut watcher = SERVER.connect(&database).await;
    let options = OpenOptions { idle_wait: SOON, lock_wait: SOON, ..OpenOptions::default() };
    let store = open(&SERVER.url(&database), &options).await;
    let gate = Gate::default();
    let late = store.clone().with_write_hook(Arc::new(gate.clone()));
    let claim = |store: Store, id: &'static str| async move {
        store.claim_action(&action(id, &job(id), 1), None, vec![publish(id)]).await.unwrap()
    };
    let first = tokio::spawn(claim(late, "first"));
    gate.reached().await;
    let second = tokio::spawn(claim(store.clone(), "second"));
    wait_until("the second to wait or to be done", SOON, async || {
        (second.is_finished() || is_waiting(&mut watcher).await).then_some(())
    })
    .await;
    // Whoever publishes now has the first behind it, if it sees the second.
    let mut seen = store.outbox("analyzer", 10).await.unwrap();
    gate.go.notify_one();
    assert!(first.await.unwrap() && second.await.unwrap());
    store.published("analyzer", seen.last().map_or(0, |row| row.sequence)).await.unwrap();
    seen.extend(store.outbox("analyzer", 10).await.unwrap());
    let seen: Vec<_> = seen.iter().map(|row| String::from_utf8_lossy(&row.payload)).collect();
    assert_eq!(seen, ["first", "second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_word_of_people_has_a_revision_of_its_own() {
    let stores = racers().await;
    let revisions = race(&stores, |n, store| async move {
        let mut revisions = Vec::new();
        for round in 0..ROUNDS {
            revisions.push(if n % 2 == 0 {
                store.set_frozen(round % 2 == 0, "ada", 1).await.unwrap()
            } else {
                store.set_paused(&job(&format!("job-{}", round % 3)), n % 3 == 0, "bob", 1).await.unwrap()
            });
        }
        revisions
    });
    let all: BTreeSet<u64> = revisions.await.into_iter().flatten().collect();
    assert_eq!(all.len(), RACERS * ROUNDS);
    assert_eq!(stores[0].control_revision().await.unwrap(), u64::try_from(RACERS * ROUNDS).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_gave_way_is_done_again() {
    let database = SERVER.database().await;
    let (mut other, mut watcher) = (SERVER.connect(&database).await, SERVER.connect(&database).await);
    // Whoever waits looks for a deadlock once, after this time: it has to be there by then.
    let patiently = format!("ALTER DATABASE {database} SET deadlock_timeout = '8s'");
    other.execute(sqlx::AssertSqlSafe(patiently)).await.unwrap();
    let options = OpenOptions { lock_wait: SOON, ..OpenOptions::default() };
    let store = open(&SERVER.url(&database), &options).await;
    let position = |partition| PositionRow {
        consumer: "c".into(),
        log: "l".into(),
        partition,
        incarnation: "i".into(),
        position: 1,
    };
    store.save_positions(&[position(0), position(1)], None).await.unwrap();

    // Another writer holds the second row, and wants the first once the store has that and waits for the second. It is
    // patient, so that the store is told to give way.
    let touch = |partition: i64| {
        sqlx::query("UPDATE weir.consumer_positions SET position = 7 WHERE log_part = $1").bind(partition)
    };
    other.execute("SET deadlock_timeout = '10min'").await.unwrap();
    let mut transaction = other.begin().await.unwrap();
    transaction.execute(touch(1)).await.unwrap();
    let saving = {
        let store = store.clone();
        tokio::spawn(async move { store.save_positions(&[position(0), position(1)], None).await })
    };
    wait_until("the store to wait", SOON, async || is_waiting(&mut watcher).await.then_some(())).await;
    transaction.execute(touch(0)).await.unwrap();
    transaction.commit().await.unwrap();
    saving.await.unwrap().unwrap();
    let kept = store.positions("c").await.unwrap();
    assert!(kept.iter().all(|row| row.position == 1), "{kept:?}");
}
