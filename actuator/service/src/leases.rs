//! One lease for each cluster: all of them, or none.

use std::collections::BTreeMap;

use tracing::{info, warn};
use weir_store::{Lease, Store, StoreError};

/// How long a cluster is held without being heard of, in milliseconds: a take-over is done within 15 s of a kill.
const LEASE_MS: i64 = 9_000;
/// Leases are renewed this often, in milliseconds.
const RENEW_MS: i64 = 3_000;
/// What was begun this long after the last renewal is not done any more, in milliseconds: another may have taken over.
const TRUST_MS: i64 = 6_000;

/// The leases of the clusters that this process acts on.
///
/// The events of all clusters are read from one log, and the outbox is published by one process. So a process acts on
/// all of its clusters or on none; asked for in the same order by everybody, leases cannot be split between two that
/// wait for each other.
pub(crate) struct Leases {
    owner: String,
    clusters: Vec<String>,
    held: BTreeMap<String, Lease>,
    renewed_ms: Option<i64>,
}

impl Leases {
    pub(crate) fn new(owner: String, clusters: impl Iterator<Item = String>) -> Self {
        let mut clusters: Vec<String> = clusters.collect();
        clusters.sort_unstable();
        Self { owner, clusters, held: BTreeMap::new(), renewed_ms: None }
    }

    /// Takes or renews the leases where that is due, and says whether they are held. Times are monotonic.
    pub(crate) async fn hold(&mut self, store: &Store, now_ms: i64) -> Result<bool, StoreError> {
        let due = self.renewed_ms.is_none_or(|at_ms| now_ms.saturating_sub(at_ms) >= RENEW_MS);
        if !due {
            return Ok(!self.held.is_empty());
        }
        let led = !self.held.is_empty();
        let all = if led { self.renew(store).await? } else { self.acquire(store).await? };
        self.renewed_ms = Some(now_ms);
        match (led, all) {
            (true, false) => warn!("the lease of a cluster was lost; another actuator has taken over"),
            (false, true) => info!(clusters = ?self.clusters, "this actuator acts on its clusters now"),
            _ => {}
        }
        if !all {
            self.give_back(store).await?;
        }
        Ok(all)
    }

    async fn acquire(&mut self, store: &Store) -> Result<bool, StoreError> {
        for cluster in &self.clusters {
            match store.acquire_lease(&name(cluster), &self.owner, LEASE_MS).await? {
                Some(lease) => self.held.insert(cluster.clone(), lease),
                None => return Ok(false),
            };
        }
        Ok(!self.held.is_empty())
    }

    async fn renew(&mut self, store: &Store) -> Result<bool, StoreError> {
        for lease in self.held.values_mut() {
            match store.renew_lease(lease, LEASE_MS).await? {
                Some(renewed) => *lease = renewed,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Gives all leases back.
    pub(crate) async fn give_back(&mut self, store: &Store) -> Result<(), StoreError> {
        while let Some((_, lease)) = self.held.pop_first() {
            store.release_lease(&lease).await?;
        }
        self.renewed_ms = None;
        Ok(())
    }

    /// Another has taken over: nothing is held any more.
    pub(crate) fn forget(&mut self) {
        self.held.clear();
        self.renewed_ms = None;
    }

    pub(crate) fn of(&self, cluster: &str) -> Option<&Lease> {
        self.held.get(cluster)
    }

    /// Any of them, for what concerns no single cluster.
    pub(crate) fn any(&self) -> Option<&Lease> {
        self.held.values().next()
    }

    /// Until when the leases can be relied on without asking, by the monotonic clock.
    pub(crate) fn trusted_until_ms(&self) -> i64 {
        self.renewed_ms.unwrap_or(i64::MIN).saturating_add(TRUST_MS)
    }
}

fn name(cluster: &str) -> String {
    format!("actuator/{cluster}")
}
