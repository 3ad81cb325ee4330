//! Who is there: the processes of an installation, each heard of now and then, on the clock of leases.

use crate::error::StoreError;
use crate::rows;
use crate::sql::{FromRow, Row, sql};
use crate::store::Store;

/// A process that was heard of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// What it does, such as `analyzer`.
    pub role: String,
    /// Its name, which no other has, also none after a restart.
    pub id: String,
    /// What marks it, such as `zone=a`, in the order in which it was given.
    pub tags: Vec<String>,
    /// When it was registered, by the clock of leases, in milliseconds since 1970.
    pub started_ms: i64,
    /// When it was heard of last, by the same clock.
    pub seen_ms: i64,
}

impl FromRow for Instance {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        let tags: String = row.try_get("tags")?;
        Ok(Self {
            role: row.try_get("role")?,
            id: row.try_get("id")?,
            tags: rows::decoded("tags", serde_json::from_str(&tags))?,
            started_ms: row.try_get("started_ms")?,
            seen_ms: row.try_get("seen_ms")?,
        })
    }
}

impl Store {
    /// A process is there, or still is: to be said again now and then. New tags replace the old; when it was registered
    /// stays.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn register_instance(&self, role: &str, id: &str, tags: &[String]) -> Result<Instance, StoreError> {
        let tags = serde_json::to_string(tags)
            .map_err(|error| StoreError::Unfit { what: "a list of tags", detail: error.to_string() })?;
        let tags = &tags;
        self.retried(move || async move {
            let mut write = self.write_unguarded("register_instance").await?;
            let now_ms = write.now_ms(self).await?;
            let query = sql("INSERT INTO instances (role, id, tags, started_ms, seen_ms) VALUES ($1, $2, $3, $4, $4)
                 ON CONFLICT (role, id) DO UPDATE SET tags = excluded.tags, seen_ms = excluded.seen_ms
                 RETURNING role, id, tags, started_ms, seen_ms");
            let instance = write.one(query.bind(role).bind(id).bind(tags).bind(now_ms)).await?;
            write.commit().await?;
            instance.ok_or_else(|| self.failed(sqlx::Error::RowNotFound))
        })
        .await
    }

    /// A process ends. False if it was not there.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn remove_instance(&self, role: &str, id: &str) -> Result<bool, StoreError> {
        self.retried(move || async move {
            let mut write = self.write_unguarded("remove_instance").await?;
            let query = sql("DELETE FROM instances WHERE role = $1 AND id = $2");
            let removed = write.run(query.bind(role).bind(id)).await?;
            write.commit().await?;
            Ok(removed == 1)
        })
        .await
    }

    /// Processes that were heard of within `within_ms`, by role and name.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn instances(&self, within_ms: i64) -> Result<Vec<Instance>, StoreError> {
        let since_ms = self.lease_now_ms().await?.saturating_sub(within_ms);
        let query = sql("SELECT role, id, tags, started_ms, seen_ms FROM instances
             WHERE seen_ms > $1 ORDER BY role, id");
        self.all(query.bind(since_ms)).await
    }

    /// Forgets processes that were not heard of for `older_than_ms`. How many there were.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn prune_instances(&self, older_than_ms: i64) -> Result<u64, StoreError> {
        self.retried(move || async move {
            let mut write = self.write_unguarded("prune_instances").await?;
            let before_ms = write.now_ms(self).await?.saturating_sub(older_than_ms);
            let removed = write.run(sql("DELETE FROM instances WHERE seen_ms <= $1").bind(before_ms)).await?;
            write.commit().await?;
            Ok(removed)
        })
        .await
    }
}
