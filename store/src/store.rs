//! The handle, its transactions, and the hook around them.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use sqlx::query::{Query, QueryAs};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{FromRow, Sqlite, SqlitePool, Transaction};

use crate::checkpoint::CheckpointStore;
use crate::error::StoreError;
use crate::leases::Lease;
use crate::open::{OpenOptions, open};

/// A boxed future, as traits need it that are used as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Told about every write transaction. Tests stop the process there, at a point of their choice, by never returning.
pub trait WriteHook: Send + Sync {
    /// Before the transaction begins.
    fn before(&self, _what: &'static str) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// When everything is written, and nothing committed yet. The write lock is held.
    fn within(&self, _what: &'static str) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// After it is committed durably, and before the caller learns of it.
    fn after(&self, _what: &'static str) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The clock of leases: milliseconds since 1970.
pub type LeaseClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Access to the control database. Cheap to clone; all clones share one small set of connections.
#[derive(Clone)]
pub struct Store {
    pub(crate) pools: Arc<Pools>,
    pub(crate) lease_clock: Option<LeaseClock>,
    pub(crate) checkpoints: Option<Arc<dyn CheckpointStore>>,
    hook: Option<Arc<dyn WriteHook>>,
    guard: Option<Arc<Lease>>,
}

/// The connections: one writes, so that writers of one process queue up instead of fighting for the lock; few read.
pub(crate) struct Pools {
    pub(crate) path: PathBuf,
    pub(crate) lock_wait_ms: u64,
    pub(crate) writes: SqlitePool,
    pub(crate) reads: SqlitePool,
}

impl Store {
    /// Usual name of the database within the folder of data.
    pub const FILE: &'static str = "control.db";

    /// Opens the database in the file `path`, and makes it, its folder and its tables where they are missing.
    ///
    /// # Errors
    /// See [`StoreError`]; most of all a database that a newer version wrote is refused.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, OpenOptions::default()).await
    }

    /// Opens a database that must be there already, as commands do.
    ///
    /// # Errors
    /// [`StoreError::NoData`] if there is none; else as [`Store::open`].
    pub async fn open_existing(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, OpenOptions { create: false, ..OpenOptions::default() }).await
    }

    /// Opens with options.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open_with(path: &Path, options: OpenOptions) -> Result<Self, StoreError> {
        let pools = Arc::new(open(path, options).await?);
        Ok(Self { pools, lease_clock: None, checkpoints: None, hook: None, guard: None })
    }

    /// Tells `hook` about every write transaction of this handle and its clones.
    #[must_use]
    pub fn with_write_hook(mut self, hook: Arc<dyn WriteHook>) -> Self {
        self.hook = Some(hook);
        self
    }

    /// Leases run on `clock` instead of the database's: for tests, and for the demo, whose time is not ours. All
    /// handles that share leases must use the same clock.
    #[must_use]
    pub fn with_lease_clock(mut self, clock: LeaseClock) -> Self {
        self.lease_clock = Some(clock);
        self
    }

    /// Keeps the analyzer's state in `checkpoints` instead of the database.
    #[must_use]
    pub fn with_checkpoints(mut self, checkpoints: Arc<dyn CheckpointStore>) -> Self {
        self.checkpoints = Some(checkpoints);
        self
    }

    /// A handle that writes only while nobody else has taken `lease` over, checked within each transaction. What a
    /// process does after it has lost its lease unawares ends in [`StoreError::Fenced`]. Leases themselves are not
    /// guarded.
    #[must_use]
    pub fn under_lease(mut self, lease: &Lease) -> Self {
        self.guard = Some(Arc::new(lease.clone()));
        self
    }

    /// The database's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.pools.path
    }

    /// Closes all connections of this handle and its clones, once they are unused. Without it nothing is lost.
    pub async fn close(&self) {
        self.pools.reads.close().await;
        self.pools.writes.close().await;
    }

    /// Begins a write transaction, which ends with [`Write::commit`], or is undone when dropped.
    pub(crate) async fn write(&self, what: &'static str) -> Result<Write, StoreError> {
        let mut write = self.write_unguarded(what).await?;
        if let Some(lease) = &self.guard {
            write.check_lease(lease).await?;
        }
        Ok(write)
    }

    /// As [`Store::write`], whether the lease is still held or not.
    pub(crate) async fn write_unguarded(&self, what: &'static str) -> Result<Write, StoreError> {
        if let Some(hook) = &self.hook {
            hook.before(what).await;
        }
        // The lock is taken at once: a transaction that first reads and then wants to write could not wait for it.
        let begun = self.pools.writes.begin_with("BEGIN IMMEDIATE").await;
        let transaction = begun.map_err(|error| self.sql(error))?;
        Ok(Write { transaction, what, hook: self.hook.clone(), pools: Arc::clone(&self.pools) })
    }

    /// All rows of a query outside any transaction.
    pub(crate) async fn all<T>(&self, query: QueryAs<'_, Sqlite, T, SqliteArguments>) -> Result<Vec<T>, StoreError>
    where
        T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
    {
        query.fetch_all(&self.pools.reads).await.map_err(|error| self.sql(error))
    }

    /// The only row of a query, or none, outside any transaction.
    pub(crate) async fn one<T>(&self, query: QueryAs<'_, Sqlite, T, SqliteArguments>) -> Result<Option<T>, StoreError>
    where
        T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
    {
        query.fetch_optional(&self.pools.reads).await.map_err(|error| self.sql(error))
    }

    pub(crate) fn sql(&self, error: sqlx::Error) -> StoreError {
        self.pools.sql(error)
    }
}

impl Pools {
    pub(crate) fn sql(&self, error: sqlx::Error) -> StoreError {
        StoreError::of_sql(error, &self.path, self.lock_wait_ms)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.pools.path).finish_non_exhaustive()
    }
}

/// A write transaction.
pub(crate) struct Write {
    transaction: Transaction<'static, Sqlite>,
    what: &'static str,
    hook: Option<Arc<dyn WriteHook>>,
    pools: Arc<Pools>,
}

impl Write {
    /// Runs a statement; how many rows it changed.
    pub(crate) async fn run(&mut self, query: Query<'_, Sqlite, SqliteArguments>) -> Result<u64, StoreError> {
        let done = query.execute(&mut *self.transaction).await;
        Ok(done.map_err(|error| self.pools.sql(error))?.rows_affected())
    }

    /// The only row of a query, or none.
    pub(crate) async fn one<T>(
        &mut self,
        query: QueryAs<'_, Sqlite, T, SqliteArguments>,
    ) -> Result<Option<T>, StoreError>
    where
        T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
    {
        query.fetch_optional(&mut *self.transaction).await.map_err(|error| self.pools.sql(error))
    }

    /// Makes everything durable, or nothing.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        let Self { transaction, what, hook, pools } = self;
        if let Some(hook) = &hook {
            hook.within(what).await;
        }
        transaction.commit().await.map_err(|error| pools.sql(error))?;
        if let Some(hook) = &hook {
            hook.after(what).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn home() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join(Store::FILE)).await.unwrap();
        (folder, store)
    }

    #[tokio::test]
    async fn commits_are_durable_and_readers_cannot_write() {
        let (_folder, store) = home().await;
        let pragma = |pool: SqlitePool, text: &'static str| async move {
            let (value,): (i64,) = sqlx::query_as(text).fetch_one(&pool).await.unwrap();
            value
        };
        assert_eq!(pragma(store.pools.writes.clone(), "PRAGMA synchronous").await, 2, "FULL");
        assert_eq!(pragma(store.pools.writes.clone(), "PRAGMA foreign_keys").await, 1);
        assert_eq!(pragma(store.pools.writes.clone(), "PRAGMA busy_timeout").await, 10_000);
        assert_eq!(pragma(store.pools.reads.clone(), "PRAGMA query_only").await, 1);
        assert!(sqlx::query("DELETE FROM jobs").execute(&store.pools.reads).await.is_err());
    }

    #[tokio::test]
    async fn a_full_disk_keeps_what_was_there_and_is_got_over() {
        let (_folder, store) = home().await;
        store.set_frozen(true, "ada", 1).await.unwrap();
        let limit = |pages: &'static str| sqlx::query(pages).execute(&store.pools.writes);
        limit("PRAGMA max_page_count = 1").await.unwrap();
        let refused = store.set_frozen(false, &"x".repeat(1 << 20), 2).await.unwrap_err();
        assert!(matches!(refused, StoreError::DiskFull { .. }) && refused.is_transient(), "{refused}");
        assert!(store.controls().await.unwrap().frozen);
        limit("PRAGMA max_page_count = 100000").await.unwrap();
        assert_eq!(store.set_frozen(false, &"x".repeat(1 << 20), 3).await.unwrap(), 2);
    }
}
