//! Keeping leases while a pass lasts.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tracing::warn;
use weir_runtime::Clock;
use weir_store::{Lease, Store, StoreError};

use crate::holder::{LEASE_MS, Member, RENEW_MS, TRUST_MS};

/// How long a pass may go on before its leases are left to expire, in milliseconds of the monotonic clock: every call in it ends
/// by a time-out, so that one that is not done by then hangs, and another instance does better.
const LONGEST_PASS_MS: i64 = 120_000;

/// Renews leases beside a pass, so that neither a slow server nor a slow log costs an instance what it holds.
pub struct Keeper {
    store: Store,
    member: Member,
    held: Vec<Lease>,
    trusted_until_ms: Arc<AtomicI64>,
    every: Duration,
}

impl Keeper {
    pub(crate) fn new(store: Store, member: Member, held: Vec<Lease>, trusted_until_ms: Arc<AtomicI64>) -> Self {
        let every = Duration::from_millis(RENEW_MS.unsigned_abs());
        Self { store, member, held, trusted_until_ms, every }
    }

    /// Does `pass`, and renews the leases meanwhile. Once one of them is lost, none is renewed or relied on any more:
    /// the next turn of the holder finds out what is left.
    pub async fn during<T>(self, clock: &dyn Clock, pass: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            done = pass => done,
            never = self.go_on(clock) => match never {},
        }
    }

    async fn go_on(mut self, clock: &dyn Clock) -> Infallible {
        let began_ms = clock.monotonic_ms();
        loop {
            // By real time, as that of the database, also where the clock is a virtual one.
            let _elapsed = tokio::time::timeout(self.every, std::future::pending::<()>()).await;
            let now_ms = clock.monotonic_ms();
            if now_ms.saturating_sub(began_ms) > LONGEST_PASS_MS {
                warn!(role = self.member.role, "a pass does not come to its end; its leases are left to expire");
                return std::future::pending().await;
            }
            match self.renew().await {
                Ok(true) => {
                    self.trusted_until_ms.fetch_max(now_ms.saturating_add(TRUST_MS), Ordering::Relaxed);
                }
                Ok(false) => {
                    self.trusted_until_ms.store(i64::MIN, Ordering::Relaxed);
                    return std::future::pending().await;
                }
                Err(why) => warn!(code = why.code(), %why, "leases were not renewed; trying again"),
            }
        }
    }

    /// Says that this instance is alive, and renews. False once a lease is another's.
    async fn renew(&mut self) -> Result<bool, StoreError> {
        let Member { role, id, tags } = &self.member;
        self.store.register_instance(role, id, tags).await?;
        for lease in &mut self.held {
            let Some(renewed) = self.store.renew_lease(lease, LEASE_MS).await? else {
                warn!(lease = lease.name, "a lease was lost during a pass; another may have taken over");
                return Ok(false);
            };
            *lease = renewed;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Holder, Item};
    use weir_runtime::RealClock;

    struct World {
        _folder: tempfile::TempDir,
        store: Store,
        now_ms: Arc<AtomicI64>,
        clock: RealClock,
        holder: Holder,
    }

    impl World {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let now_ms = Arc::new(AtomicI64::new(1_000));
            let lease_clock = Arc::clone(&now_ms);
            let store = Store::open(&folder.path().join(Store::FILE)).await.unwrap();
            let store = store.with_lease_clock(Arc::new(move || lease_clock.load(Ordering::Relaxed)));
            let member = Member { role: "analyzer", id: "a".into(), tags: Vec::new() };
            let mut holder = Holder::new(store.clone(), member);
            let clock = RealClock::new();
            let items = [Item::plain("metrics-00"), Item::plain("metrics-01")];
            holder.turn(&items, clock.monotonic_ms()).await.unwrap();
            assert_eq!(holder.held().count(), 2);
            Self { _folder: folder, store, now_ms, clock, holder }
        }

        fn keeper(&self) -> Keeper {
            Keeper { every: Duration::from_millis(1), ..self.holder.keeper() }
        }

        /// A pass that lasts until something is seen.
        async fn pass_until(&self, seen: impl AsyncFn() -> bool) {
            let pass = async {
                while !seen().await {
                    self.clock.sleep_ms(1).await;
                }
            };
            let limited = tokio::time::timeout(Duration::from_secs(60), self.keeper().during(&self.clock, pass));
            limited.await.expect("it is never seen");
        }
    }

    #[tokio::test]
    async fn a_long_pass_costs_no_lease() {
        let world = World::new().await;
        let (first, until_ms) = (world.holder.trusted_until_ms(), AtomicI64::new(0));
        for _ in 0..3 {
            // Each time almost a lease goes by.
            until_ms
                .store(world.now_ms.fetch_add(LEASE_MS - 1, Ordering::Relaxed) + 2 * LEASE_MS - 1, Ordering::Relaxed);
            world
                .pass_until(async || {
                    let leases = world.store.leases().await.unwrap();
                    let alive = world.store.instances(1).await.unwrap().len() == 1;
                    alive && leases.iter().all(|lease| lease.expires_ms == until_ms.load(Ordering::Relaxed))
                })
                .await;
        }
        world.pass_until(async || world.holder.trusted_until_ms() > first).await;
    }

    #[tokio::test]
    async fn nothing_is_trusted_once_something_is_lost() {
        let world = World::new().await;
        world.now_ms.fetch_add(LEASE_MS, Ordering::Relaxed);
        assert!(world.store.acquire_lease("metrics-01", "b", LEASE_MS).await.unwrap().is_some());
        assert!(world.holder.trusted_until_ms() > 0);
        world.pass_until(async || world.holder.trusted_until_ms() == i64::MIN).await;
    }

    #[tokio::test]
    async fn a_pass_without_end_loses_its_leases() {
        struct Late(RealClock, AtomicI64);
        impl Clock for Late {
            fn now_ms(&self) -> i64 {
                self.0.now_ms()
            }
            fn monotonic_ms(&self) -> i64 {
                self.1.fetch_add(LONGEST_PASS_MS / 2 + 1, Ordering::Relaxed)
            }
            fn sleep_ms(&self, duration_ms: i64) -> futures::future::BoxFuture<'_, ()> {
                self.0.sleep_ms(duration_ms)
            }
        }
        let world = World::new().await;
        let late = Late(RealClock::new(), AtomicI64::new(0));
        let looks = || late.1.load(Ordering::Relaxed) / (LONGEST_PASS_MS / 2 + 1);
        let pass = async {
            let mut since = 0;
            while since < 20 {
                late.sleep_ms(1).await;
                since = if looks() >= 3 { since + 1 } else { 0 };
            }
        };
        world.keeper().during(&late, pass).await;
        assert_eq!(looks(), 3, "the start, one renewal, and then it is given up");
    }
}
