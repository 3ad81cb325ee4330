//! The handle, its transactions, and the hook around them.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use tracing::debug;

use crate::address::{Address, OpenOptions};
use crate::checkpoint::CheckpointStore;
use crate::database::{Database, Transaction};
use crate::error::{Named, StoreError};
use crate::leases::Lease;
use crate::sql::{FromRow, Run, Statement};

/// How often a write is tried that the server undid for the sake of another.
const ATTEMPTS: u32 = 5;

/// A boxed future, as traits need it that are used as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Told about every write transaction. Tests stop the process there, at a point of their choice, by never returning.
pub trait WriteHook: Send + Sync {
    /// Before the transaction begins.
    fn before(&self, _what: &'static str) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// When everything is written, and nothing committed yet. Its locks are held.
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
    pub(crate) database: Arc<Database>,
    pub(crate) lease_clock: Option<LeaseClock>,
    pub(crate) checkpoints: Option<Arc<dyn CheckpointStore>>,
    hook: Option<Arc<dyn WriteHook>>,
    guard: Option<Arc<Lease>>,
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

    /// Opens the file with options.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open_with(path: &Path, options: OpenOptions) -> Result<Self, StoreError> {
        Self::open_at(&Address::file(path), &options).await
    }

    /// Opens the database at an address, on a server or in a file.
    ///
    /// # Errors
    /// As [`Store::open`]; [`StoreError::Unreachable`] or [`StoreError::Refused`] if the server cannot be used.
    pub async fn open_at(address: &Address, options: &OpenOptions) -> Result<Self, StoreError> {
        let database = Arc::new(Database::open(address, options).await?);
        Ok(Self { database, lease_clock: None, checkpoints: None, hook: None, guard: None })
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

    /// What people call the database: its file, or its address without the password.
    #[must_use]
    pub fn name(&self) -> String {
        self.database.name()
    }

    /// Closes all connections of this handle and its clones, once they are unused. Without it nothing is lost.
    pub async fn close(&self) {
        self.database.close().await;
    }

    /// Writes, and does so again if the server undid it for the sake of another.
    pub(crate) async fn retried<T, F>(&self, write: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        for _ in 1..ATTEMPTS {
            match write().await {
                Err(error @ StoreError::Conflict { .. }) => debug!(%error, "a write is tried again"),
                done => return done,
            }
        }
        write().await
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
        let begun = self.database.begin().await;
        let transaction = begun.map_err(|error| self.failed(error))?;
        Ok(Write { transaction, what, hook: self.hook.clone(), database: Arc::clone(&self.database) })
    }

    /// All rows of a statement outside any transaction.
    pub(crate) async fn all<T: FromRow>(&self, statement: Statement<'_>) -> Result<Vec<T>, StoreError> {
        let rows = self.database.all(statement).await.map_err(|error| self.failed(error))?;
        rows.iter().map(T::from_row).collect::<Result<_, _>>().map_err(|error| self.failed(error))
    }

    /// The only row of a statement, or none, outside any transaction.
    pub(crate) async fn one<T: FromRow>(&self, statement: Statement<'_>) -> Result<Option<T>, StoreError> {
        let row = self.database.one(statement).await.map_err(|error| self.failed(error))?;
        row.as_ref().map(T::from_row).transpose().map_err(|error| self.failed(error))
    }

    pub(crate) fn failed(&self, error: sqlx::Error) -> StoreError {
        self.database.error(error)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("database", &self.name()).finish_non_exhaustive()
    }
}

/// A write transaction.
pub(crate) struct Write {
    transaction: Transaction,
    what: &'static str,
    hook: Option<Arc<dyn WriteHook>>,
    database: Arc<Database>,
}

impl Write {
    /// Runs a statement; how many rows it changed.
    pub(crate) async fn run(&mut self, statement: Statement<'_>) -> Result<u64, StoreError> {
        self.transaction.run(statement).await.map_err(|error| self.database.error(error))
    }

    /// The only row of a statement, or none.
    pub(crate) async fn one<T: FromRow>(&mut self, statement: Statement<'_>) -> Result<Option<T>, StoreError> {
        let row = self.transaction.one(statement).await.map_err(|error| self.database.error(error))?;
        row.as_ref().map(T::from_row).transpose().map_err(|error| self.database.error(error))
    }

    /// Until this transaction ends, no other gets past the same name.
    pub(crate) async fn alone_with(&mut self, name: &str) -> Result<(), StoreError> {
        self.transaction.lock(name, false).await.map_err(|error| self.database.error(error))
    }

    /// Until this transaction ends, none that has to be alone gets past the same name.
    pub(crate) async fn together_with(&mut self, name: &str) -> Result<(), StoreError> {
        self.transaction.lock(name, true).await.map_err(|error| self.database.error(error))
    }

    /// Makes everything durable, or nothing.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        let Self { transaction, what, hook, database } = self;
        if let Some(hook) = &hook {
            hook.within(what).await;
        }
        transaction.commit().await.map_err(|error| database.error(error))?;
        if let Some(hook) = &hook {
            hook.after(what).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::SqlitePool;

    async fn home() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join(Store::FILE)).await.unwrap();
        (folder, store)
    }

    fn file(store: &Store) -> &crate::sqlite::File {
        match &*store.database {
            Database::Sqlite(file) => file,
            Database::Postgres(_) => panic!("it was opened in a file"),
        }
    }

    #[tokio::test]
    async fn commits_are_durable_and_readers_cannot_write() {
        let (_folder, store) = home().await;
        let pragma = |pool: SqlitePool, text: &'static str| async move {
            let (value,): (i64,) = sqlx::query_as(text).fetch_one(&pool).await.unwrap();
            value
        };
        assert_eq!(pragma(file(&store).writes.clone(), "PRAGMA synchronous").await, 2, "FULL");
        assert_eq!(pragma(file(&store).writes.clone(), "PRAGMA foreign_keys").await, 1);
        assert_eq!(pragma(file(&store).writes.clone(), "PRAGMA busy_timeout").await, 10_000);
        assert_eq!(pragma(file(&store).reads.clone(), "PRAGMA query_only").await, 1);
        assert!(sqlx::query("DELETE FROM jobs").execute(&file(&store).reads).await.is_err());
    }

    #[tokio::test]
    async fn a_full_disk_keeps_what_was_there_and_is_got_over() {
        let (_folder, store) = home().await;
        store.set_frozen(true, "ada", 1).await.unwrap();
        let limit = |pages: &'static str| sqlx::query(pages).execute(&file(&store).writes);
        limit("PRAGMA max_page_count = 1").await.unwrap();
        let refused = store.set_frozen(false, &"x".repeat(1 << 20), 2).await.unwrap_err();
        assert!(matches!(refused, StoreError::DiskFull { .. }) && refused.is_transient(), "{refused}");
        assert!(store.controls().await.unwrap().frozen);
        limit("PRAGMA max_page_count = 100000").await.unwrap();
        assert_eq!(store.set_frozen(false, &"x".repeat(1 << 20), 3).await.unwrap(), 2);
    }
}
