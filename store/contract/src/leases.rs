use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use proptest::prelude::*;
use weir_store::{Lease, Store, StoreError};

use crate::support::{action, job};
use crate::{Home, Homes};

/// Two processes on one database, and the clock that both believe in.
async fn pair(home: &Home) -> ([Store; 2], Arc<AtomicI64>) {
    let now = Arc::new(AtomicI64::new(1_000));
    let clock = |store: Store| {
        let now = Arc::clone(&now);
        store.with_lease_clock(Arc::new(move || now.load(Ordering::SeqCst)))
    };
    let stores = [clock(home.store.clone()), clock(home.other().await)];
    (stores, now)
}

pub(crate) async fn a_lease_is_taken_over_once_it_has_expired_and_not_before(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let ([a, b], now) = pair(&home).await;
    let first = a.acquire_lease("actuator/prod", "a", 100).await.unwrap().unwrap();
    assert_eq!((first.epoch, first.expires_ms), (1_000, 1_100));
    assert_eq!(b.acquire_lease("actuator/prod", "b", 100).await.unwrap(), None);
    assert_eq!(b.acquire_lease("actuator/test", "b", 100).await.unwrap().unwrap().epoch, 1_000);
    now.store(1_099, Ordering::SeqCst);
    let renewed = a.renew_lease(&first, 100).await.unwrap().unwrap();
    assert_eq!((renewed.epoch, renewed.expires_ms), (1_000, 1_199));
    assert_eq!(a.acquire_lease("actuator/prod", "a", 100).await.unwrap().unwrap().epoch, 1_000);

    now.store(1_199, Ordering::SeqCst);
    assert_eq!(a.renew_lease(&first, 100).await.unwrap(), None, "an expired lease is not renewed");
    let second = b.acquire_lease("actuator/prod", "b", 100).await.unwrap().unwrap();
    assert_eq!((second.epoch, second.owner.as_str()), (1_199, "b"));
    assert!(!a.release_lease(&first).await.unwrap(), "what is another's is not given back");
    assert_eq!(a.renew_lease(&first, 100).await.unwrap(), None);
    assert!(b.release_lease(&second).await.unwrap());
    assert_eq!(b.renew_lease(&second, 100).await.unwrap(), None);
    assert_eq!(a.acquire_lease("actuator/prod", "a", 100).await.unwrap().unwrap().epoch, 1_200, "at the same time");
    assert_eq!(a.leases().await.unwrap().len(), 2);
}

pub(crate) async fn ones_own_expired_lease_comes_back_with_a_new_epoch(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let ([a, _], now) = pair(&home).await;
    a.acquire_lease("x", "a", 100).await.unwrap().unwrap();
    now.store(1_100, Ordering::SeqCst);
    assert_eq!(a.acquire_lease("x", "a", 100).await.unwrap().unwrap().epoch, 1_100);
}

pub(crate) async fn without_another_clock_leases_run_on_the_databases(homes: &dyn Homes) {
    let home = homes.fresh().await;
    // 2025 to 2100: a clock in seconds, or in microseconds, would lie outside.
    let now = home.store.lease_now_ms().await.unwrap();
    assert!((1_735_689_600_000..4_102_444_800_000).contains(&now), "{now}");
    let lease = home.store.acquire_lease("x", "a", 3_600_000).await.unwrap().unwrap();
    assert!(lease.expires_ms >= now + 3_600_000, "{lease:?}");
    assert_eq!(home.store.acquire_lease("x", "b", 1).await.unwrap(), None);
    assert!(home.store.renew_lease(&lease, 3_600_000).await.unwrap().is_some());
}

pub(crate) async fn whoever_has_lost_the_lease_writes_nothing_more(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let ([a, b], now) = pair(&home).await;
    let lease = a.acquire_lease("actuator/prod", "a", 100).await.unwrap().unwrap();
    let guarded = a.clone().under_lease(&lease);
    assert!(guarded.claim_action(&action("c1", &job("orders"), 1), None, vec![]).await.unwrap());
    // Expired, but nobody else's: what is under way is still written down.
    now.store(2_000, Ordering::SeqCst);
    assert!(guarded.claim_action(&action("c2", &job("orders"), 1), None, vec![]).await.unwrap());

    b.acquire_lease("actuator/prod", "b", 100).await.unwrap().unwrap();
    let refused = guarded.claim_action(&action("c3", &job("orders"), 1), None, vec![]).await.unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { ours: 1_000, theirs: 2_000, .. }), "{refused}");
    assert_eq!(guarded.renew_lease(&lease, 100).await.unwrap(), None, "leases themselves are not guarded");
    assert_eq!(b.recent_actions(10).await.unwrap().len(), 2);
    assert_eq!(guarded.recent_actions(10).await.unwrap().len(), 2, "reading is not guarded");
}

/// One step of a process, which knows of the lease only what it was told.
#[derive(Debug, Clone, Copy)]
enum Step {
    Acquire { who: usize, ttl: i64 },
    Renew { who: usize, ttl: i64 },
    Release { who: usize },
    Pass { time: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4usize, 1..50i64).prop_map(|(who, ttl)| Step::Acquire { who, ttl }),
        (0..4usize, 1..50i64).prop_map(|(who, ttl)| Step::Renew { who, ttl }),
        (0..4usize).prop_map(|who| Step::Release { who }),
        (0..40i64).prop_map(|time| Step::Pass { time }),
    ]
}

/// Runs the steps; checks after each that at most one process believes that it has the lease.
async fn play(stores: &[Store; 2], now: &AtomicI64, name: &str, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut held: BTreeMap<usize, Lease> = BTreeMap::new();
    let mut newest: Option<Lease> = None;
    for step in steps {
        let told = match *step {
            Step::Pass { time } => {
                now.fetch_add(time, Ordering::SeqCst);
                None
            }
            Step::Acquire { who, ttl } => {
                let store = &stores[who % 2];
                store.acquire_lease(name, &format!("p{who}"), ttl).await.unwrap().map(|lease| (who, lease))
            }
            Step::Renew { who, ttl } => match held.remove(&who) {
                Some(lease) => stores[who % 2].renew_lease(&lease, ttl).await.unwrap().map(|lease| (who, lease)),
                None => None,
            },
            Step::Release { who } => {
                if let Some(lease) = held.remove(&who) {
                    stores[who % 2].release_lease(&lease).await.unwrap();
                }
                None
            }
        };
        if let Some((who, lease)) = told {
            if let Some(before) = &newest {
                let risen =
                    if before.owner == lease.owner { before.epoch <= lease.epoch } else { before.epoch < lease.epoch };
                prop_assert!(risen, "{before:?} then {lease:?}");
            }
            newest = Some(lease.clone());
            held.insert(who, lease);
        }
        let time = now.load(Ordering::SeqCst);
        let believers: Vec<&Lease> = held.values().filter(|lease| lease.expires_ms > time).collect();
        prop_assert!(believers.len() <= 1, "at {time}: {believers:?}");
    }
    Ok(())
}

pub(crate) async fn never_do_two_have_a_lease_and_epochs_rise(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let (stores, now) = pair(&home).await;
    let names = AtomicI64::new(0);
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        proptest!(ProptestConfig::with_cases(40), |(steps in proptest::collection::vec(step(), 1..40))| {
            let name = format!("lease-{}", names.fetch_add(1, Ordering::SeqCst));
            runtime.block_on(play(&stores, &now, &name, &steps))?;
        });
    });
}
