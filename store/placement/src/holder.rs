//! The leases that one instance holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tracing::{info, warn};
use weir_store::{Instance, Lease, Store, StoreError};

use crate::assign::{Item, assign};
use crate::keeper::Keeper;

/// How long an item is held, and an instance counts as alive, without being heard of, in milliseconds: a take-over is done within
/// 15 s of a kill.
pub const LEASE_MS: i64 = 9_000;
/// Leases are renewed this often, in milliseconds.
pub(crate) const RENEW_MS: i64 = 2_000;
/// What was begun this long after the last renewal is not done any more, in milliseconds: another may have taken over.
pub(crate) const TRUST_MS: i64 = 6_000;

/// Who an instance is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The service: `analyzer`, `actuator`, `ingest`.
    pub role: &'static str,
    /// Names this process and no other, also none after a restart.
    pub id: String,
    /// Tags that it carries.
    pub tags: Vec<String>,
}

/// The leases of one instance.
pub struct Holder {
    store: Store,
    member: Member,
    held: BTreeMap<String, Lease>,
    surplus: BTreeSet<String>,
    turned_ms: Option<i64>,
    /// Until when the leases can be relied on; moved on by a [`Keeper`] too.
    trusted_until_ms: Arc<AtomicI64>,
}

impl Holder {
    /// Holds nothing yet.
    #[must_use]
    pub fn new(store: Store, member: Member) -> Self {
        let trusted_until_ms = Arc::new(AtomicI64::new(i64::MIN));
        Self { store, member, held: BTreeMap::new(), surplus: BTreeSet::new(), turned_ms: None, trusted_until_ms }
    }

    /// Where that is due: says that this instance is alive, renews its leases, and takes what is assigned to it and free.
    /// `now_ms` is monotonic. What has changed is seen from [`Holder::held`] and [`Holder::surplus`]; a lease that was lost and
    /// taken again has another epoch.
    ///
    /// # Errors
    /// See [`StoreError`]. The next turn goes on from there.
    pub async fn turn(&mut self, items: &[Item], now_ms: i64) -> Result<(), StoreError> {
        if !self.is_due(now_ms) {
            return Ok(());
        }
        self.renew().await?;
        let Member { role, id, tags } = &self.member;
        self.store.register_instance(role, id, tags).await?;
        let mut instances = self.store.instances(LEASE_MS).await?;
        instances.retain(|instance| instance.role == *role);
        let mine = self.assigned(items, &instances).await?;
        self.surplus = self.held.keys().filter(|name| !mine.contains(*name)).cloned().collect();
        for name in mine {
            if self.held.contains_key(&name) {
                continue;
            }
            if let Some(lease) = self.store.acquire_lease(&name, &self.member.id, LEASE_MS).await? {
                info!(lease = name, epoch = lease.epoch, "took a lease");
                self.held.insert(name, lease);
            }
        }
        self.turned_ms = Some(now_ms);
        self.trusted_until_ms.store(now_ms.saturating_add(TRUST_MS), Ordering::Relaxed);
        Ok(())
    }

    /// Renews what is held now, beside a pass that may last longer than a lease.
    #[must_use]
    pub fn keeper(&self) -> Keeper {
        let held = self.held.values().cloned().collect();
        Keeper::new(self.store.clone(), self.member.clone(), held, Arc::clone(&self.trusted_until_ms))
    }

    /// Renews what is held, and lets go of what is not any more.
    async fn renew(&mut self) -> Result<(), StoreError> {
        for name in self.held.keys().cloned().collect::<Vec<_>>() {
            let Some(lease) = self.held.get_mut(&name) else { continue };
            if let Some(renewed) = self.store.renew_lease(lease, LEASE_MS).await? {
                *lease = renewed;
            } else {
                warn!(lease = name, "a lease was lost; another may have taken over");
                self.held.remove(&name);
            }
        }
        Ok(())
    }

    /// The items that are assigned to this instance.
    async fn assigned(&self, items: &[Item], instances: &[Instance]) -> Result<BTreeSet<String>, StoreError> {
        let now_ms = self.store.lease_now_ms().await?;
        let leases = self.store.leases().await?;
        let live = leases.iter().filter(|lease| lease.expires_ms > now_ms);
        let owners = live.map(|lease| (lease.name.as_str(), lease.owner.as_str())).collect();
        let all = assign(items, instances, &owners);
        let mine = all.into_iter().filter(|(_, id)| *id == self.member.id);
        Ok(mine.map(|(name, _)| name.to_owned()).collect())
    }

    /// What is held and has become another's: to be given up with [`Holder::release`] once it is in good order.
    #[must_use]
    pub fn surplus(&self) -> Vec<String> {
        self.surplus.iter().filter(|name| self.held.contains_key(*name)).cloned().collect()
    }

    /// Gives one lease back.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn release(&mut self, name: &str) -> Result<(), StoreError> {
        if let Some(lease) = self.held.remove(name) {
            self.store.release_lease(&lease).await?;
            info!(lease = name, "gave a lease back");
        }
        Ok(())
    }

    /// Gives all leases back and leaves.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn leave(&mut self) -> Result<(), StoreError> {
        while let Some(name) = self.held.keys().next().cloned() {
            self.release(&name).await?;
        }
        self.hurry();
        self.store.remove_instance(self.member.role, &self.member.id).await?;
        Ok(())
    }

    /// Something was refused since another has taken over: nothing is relied on before the next turn, which is due at once and
    /// finds out what.
    pub fn hurry(&mut self) {
        self.turned_ms = None;
        self.trusted_until_ms.store(i64::MIN, Ordering::Relaxed);
    }

    /// Whether it is time for a [`Holder::turn`]. `now_ms` is monotonic.
    #[must_use]
    pub fn is_due(&self, now_ms: i64) -> bool {
        self.turned_ms.is_none_or(|at_ms| now_ms.saturating_sub(at_ms) >= RENEW_MS)
    }

    /// The lease of an item, if it is held.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&Lease> {
        self.held.get(name)
    }

    /// All leases that are held.
    pub fn held(&self) -> impl Iterator<Item = &Lease> {
        self.held.values()
    }

    /// Until when the leases can be relied on without asking, by the monotonic clock.
    #[must_use]
    pub fn trusted_until_ms(&self) -> i64 {
        self.trusted_until_ms.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    struct World {
        _folder: tempfile::TempDir,
        store: Store,
        now_ms: Arc<AtomicI64>,
        items: Vec<Item>,
    }

    impl World {
        async fn new(items: usize) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let now_ms = Arc::new(AtomicI64::new(1_000));
            let clock = Arc::clone(&now_ms);
            let store = Store::open(&folder.path().join(Store::FILE)).await.unwrap();
            let store = store.with_lease_clock(Arc::new(move || clock.load(Ordering::Relaxed)));
            let items = (0..items).map(|number| Item::plain(format!("metrics-{number:02}"))).collect();
            Self { _folder: folder, store, now_ms, items }
        }

        fn holder(&self, id: &str) -> Holder {
            Holder::new(self.store.clone(), Member { role: "analyzer", id: id.into(), tags: Vec::new() })
        }

        /// How many it holds after a turn, and how many of those it gave up then.
        async fn turn(&self, holder: &mut Holder) -> (usize, usize) {
            let now_ms = self.now_ms.fetch_add(RENEW_MS, Ordering::Relaxed) + RENEW_MS;
            holder.turn(&self.items, now_ms).await.unwrap();
            let (held, surplus) = (holder.held().count(), holder.surplus());
            for name in &surplus {
                holder.release(name).await.unwrap();
            }
            (held, surplus.len())
        }
    }

    #[tokio::test]
    async fn two_share_what_one_had_and_one_takes_all_when_the_other_is_gone() {
        let world = World::new(4).await;
        let (mut a, mut b) = (world.holder("a"), world.holder("b"));
        assert_eq!(world.turn(&mut a).await, (4, 0));
        assert_eq!(world.turn(&mut b).await, (0, 0), "all are held");
        assert_eq!(world.turn(&mut a).await, (4, 2), "b is there");
        assert_eq!(world.turn(&mut b).await, (2, 0));
        // b is heard of no more: after its lease everything is a's, under a higher epoch.
        for _ in 0..6 {
            world.turn(&mut a).await;
        }
        let epochs: BTreeSet<u64> = a.held().map(|lease| lease.epoch).collect();
        assert_eq!(epochs.len(), 2, "{epochs:?}");
        assert_eq!((a.held().count(), world.turn(&mut b).await), (4, (0, 0)), "b learns of it when it comes back");
    }

    #[tokio::test]
    async fn whoever_leaves_in_good_order_is_replaced_at_once() {
        let world = World::new(2).await;
        let (mut a, mut b) = (world.holder("a"), world.holder("b"));
        world.turn(&mut a).await;
        a.leave().await.unwrap();
        assert_eq!(world.turn(&mut b).await, (2, 0));
    }
}
