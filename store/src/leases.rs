//! Leases: who may do what alone, until when, on the database's clock.

use crate::error::StoreError;
use crate::rows;
use crate::sql::{FromRow, Row, sql};
use crate::store::{Store, Write};

/// The right to do something alone for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// What for, such as `actuator/prod`.
    pub name: String,
    /// Who has it.
    pub owner: String,
    /// Rises each time that it is taken anew: what is done under an older one is refused.
    pub epoch: u64,
    /// Until when, by the clock of leases, in milliseconds since 1970. 0: it was released.
    pub expires_ms: i64,
}

impl FromRow for Lease {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self {
            name: row.try_get("name")?,
            owner: row.try_get("owner")?,
            epoch: rows::unsigned(row, "epoch")?,
            expires_ms: row.try_get("expires_ms")?,
        })
    }
}

impl Store {
    /// Takes a lease if it is free, was released, has expired, or is `owner`'s already; `None` while another has it.
    ///
    /// `owner` must name this process and no other, also none after a restart: two processes of one name would both
    /// have it.
    /// The epoch stays only where one's own lease has not expired. A new one is the time by the clock of leases, or one more than
    /// the last: so it rises also against leases of other names, and against those that a restored backup has forgotten.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn acquire_lease(&self, name: &str, owner: &str, ttl_ms: i64) -> Result<Option<Lease>, StoreError> {
        self.retried(move || async move {
            let mut write = self.write_unguarded("acquire_lease").await?;
            // Not while somebody writes under it.
            write.alone_with(&lock_of(name)).await?;
            let now_ms = write.now_ms(self).await?;
            let query = sql("INSERT INTO leases (name, owner, epoch, expires_ms) VALUES ($1, $2, $4, $3)
             ON CONFLICT (name) DO UPDATE SET
                 epoch = CASE WHEN leases.owner = excluded.owner AND leases.expires_ms > $4 THEN leases.epoch
                         WHEN leases.epoch >= $4 THEN leases.epoch + 1 ELSE $4 END,
                 owner = excluded.owner, expires_ms = excluded.expires_ms
             WHERE leases.owner = excluded.owner OR leases.expires_ms <= $4
             RETURNING name, owner, epoch, expires_ms");
            let query = query.bind(name).bind(owner).bind(now_ms.saturating_add(ttl_ms)).bind(now_ms);
            let lease = write.one(query).await?;
            write.commit().await?;
            Ok(lease)
        })
        .await
    }

    /// Prolongs a lease that is still held; `None` once it has expired, was released, or is another's: then stop.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn renew_lease(&self, lease: &Lease, ttl_ms: i64) -> Result<Option<Lease>, StoreError> {
        self.retried(move || async move {
            let mut write = self.write_unguarded("renew_lease").await?;
            let now_ms = write.now_ms(self).await?;
            let query = sql(
                "UPDATE leases SET expires_ms = $1 WHERE name = $2 AND owner = $3 AND epoch = $4 AND expires_ms > $5
             RETURNING name, owner, epoch, expires_ms",
            );
            let query = query.bind(now_ms.saturating_add(ttl_ms)).bind(&lease.name).bind(&lease.owner);
            let renewed = write.one(query.bind(rows::stored("an epoch", lease.epoch)?).bind(now_ms)).await?;
            write.commit().await?;
            Ok(renewed)
        })
        .await
    }

    /// Gives a lease back. False if it was another's already.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn release_lease(&self, lease: &Lease) -> Result<bool, StoreError> {
        self.retried(move || async move {
            let mut write = self.write_unguarded("release_lease").await?;
            let query = sql("UPDATE leases SET expires_ms = 0 WHERE name = $1 AND owner = $2 AND epoch = $3");
            let query = query.bind(&lease.name).bind(&lease.owner).bind(rows::stored("an epoch", lease.epoch)?);
            let changed = write.run(query).await?;
            write.commit().await?;
            Ok(changed == 1)
        })
        .await
    }

    /// All leases, also those that have expired, by name.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn leases(&self) -> Result<Vec<Lease>, StoreError> {
        self.all(sql("SELECT name, owner, epoch, expires_ms FROM leases ORDER BY name")).await
    }

    /// The time by which leases expire.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn lease_now_ms(&self) -> Result<i64, StoreError> {
        if let Some(clock) = &self.lease_clock {
            return Ok(clock());
        }
        let row: Option<(i64,)> = self.one(self.database.now_ms()).await?;
        row.map(|(now,)| now).ok_or_else(|| self.failed(sqlx::Error::RowNotFound))
    }
}

fn lock_of(lease: &str) -> String {
    format!("lease/{lease}")
}

impl Write {
    /// Makes sure that nobody else has taken the lease, nor takes it before this transaction ends.
    pub(crate) async fn check_lease(&mut self, lease: &Lease) -> Result<(), StoreError> {
        self.together_with(&lock_of(&lease.name)).await?;
        let query = sql("SELECT name, owner, epoch, expires_ms FROM leases WHERE name = $1");
        let now: Option<Lease> = self.one(query.bind(&lease.name)).await?;
        match now {
            Some(now) if now.owner == lease.owner && now.epoch == lease.epoch => Ok(()),
            other => Err(StoreError::Fenced {
                what: format!("the lease {}", lease.name),
                ours: lease.epoch,
                theirs: other.map_or(0, |other| other.epoch),
            }),
        }
    }

    /// As [`Store::lease_now_ms`], once the lock is held. To have waited for a row after that is harmless: too early a
    /// time takes nothing over too early, and prolongs by too little.
    pub(crate) async fn now_ms(&mut self, store: &Store) -> Result<i64, StoreError> {
        if let Some(clock) = &store.lease_clock {
            return Ok(clock());
        }
        let row: Option<(i64,)> = self.one(store.database.now_ms()).await?;
        row.map(|(now,)| now).ok_or_else(|| store.failed(sqlx::Error::RowNotFound))
    }
}
