//! What is peculiar to SQLite: one file, one writer at a time, and errors by number.

use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Sqlite, SqliteConnection, SqlitePool};

use crate::address::OpenOptions;
use crate::error::{Named, StoreError};
use crate::migrations::{Dialect, Found, check, migrate};
use crate::sql::{Row, Run, Statement};

/// The database's clock in milliseconds since 1970.
pub(crate) const NOW_MS: &str = "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)";
/// Connections that read at the same time.
const READERS: u32 = 3;
/// Bytes that the write-ahead log may keep on disk once it is copied into the database.
const WAL_KEPT_BYTES: &str = "67108864";
/// How often changing to write-ahead logging is tried while other processes do the same.
const WAL_ATTEMPTS: u32 = 20;

/// Primary result codes of SQLite (<https://www.sqlite.org/rescode.html>). Extended codes carry them in their lowest
/// byte.
mod code {
    pub(super) const PERM: u32 = 3;
    pub(super) const BUSY: u32 = 5;
    pub(super) const LOCKED: u32 = 6;
    pub(super) const READONLY: u32 = 8;
    pub(super) const CORRUPT: u32 = 11;
    pub(super) const FULL: u32 = 13;
    pub(super) const CANTOPEN: u32 = 14;
    pub(super) const NOTADB: u32 = 26;
}

/// What errors have to know.
struct Place {
    path: PathBuf,
    lock_wait_ms: u64,
}

/// A file. One connection writes, so that writers of one process queue up instead of fighting for the lock; few read.
pub(crate) struct File {
    place: Place,
    pub(crate) writes: SqlitePool,
    pub(crate) reads: SqlitePool,
}

impl File {
    /// Opens, checks and migrates the database.
    pub(crate) async fn open(path: &Path, options: &OpenOptions) -> Result<Self, StoreError> {
        prepare_file(path, options.create).await?;
        let lock_wait_ms = u64::try_from(options.lock_wait.as_millis()).unwrap_or(u64::MAX);
        let place = Place { path: path.into(), lock_wait_ms };
        let failed = |error| place.error(error);
        let connect = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(options.create)
            .foreign_keys(true)
            .busy_timeout(options.lock_wait)
            .synchronous(SqliteSynchronous::Full)
            .pragma("journal_size_limit", WAL_KEPT_BYTES);
        let mut first = connect.clone().connect().await.map_err(failed)?;
        prepare_database(&mut first, &place).await?;
        first.close().await.map_err(failed)?;

        let pool = SqlitePoolOptions::new()
            .acquire_timeout(options.lock_wait.saturating_mul(2))
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            // A failure may end SQLite's transaction and leave the connection believing in it: that one is not used again.
            .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }));
        let writes = pool.clone().max_connections(1).connect_with(connect.clone()).await.map_err(failed)?;
        let reads = pool.max_connections(READERS).connect_lazy_with(connect.pragma("query_only", "ON"));
        Ok(Self { place, writes, reads })
    }

    /// All rows of a statement outside any transaction.
    pub(crate) async fn all(&self, statement: Statement<'_>) -> Result<Vec<Row>, sqlx::Error> {
        self.reads.acquire().await?.all(statement).await
    }

    /// The first row of a statement outside any transaction.
    pub(crate) async fn one(&self, statement: Statement<'_>) -> Result<Option<Row>, sqlx::Error> {
        self.reads.acquire().await?.one(statement).await
    }

    /// Begins a transaction. It takes the lock at once: one that first reads and then wants to write could not wait for it.
    pub(crate) async fn begin(&self) -> Result<sqlx::Transaction<'static, Sqlite>, sqlx::Error> {
        self.writes.begin_with("BEGIN IMMEDIATE").await
    }

    pub(crate) async fn close(&self) {
        self.reads.close().await;
        self.writes.close().await;
    }
}

impl Named for File {
    fn name(&self) -> String {
        self.place.name()
    }

    fn error(&self, error: sqlx::Error) -> StoreError {
        self.place.error(error)
    }
}

impl Named for Place {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn error(&self, error: sqlx::Error) -> StoreError {
        let (database, detail) = (self.name(), error.to_string());
        match (&error, primary_code(&error)) {
            (sqlx::Error::PoolTimedOut, _) | (_, Some(code::BUSY | code::LOCKED)) => {
                StoreError::Locked { database, waited_ms: self.lock_wait_ms }
            }
            (_, Some(code::FULL)) => StoreError::DiskFull { database },
            (_, Some(code::NOTADB)) => StoreError::NotADatabase { database, detail },
            (_, Some(code::PERM | code::READONLY | code::CANTOPEN)) => StoreError::Denied { database, detail },
            (_, Some(code::CORRUPT)) => StoreError::damaged(database, "a page", detail),
            _ => StoreError::of_sql(error, database),
        }
    }
}

/// SQLite's primary result code, if the error came from there.
fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code: u32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

/// Whether somebody else holds a lock.
fn is_busy(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(code::BUSY | code::LOCKED))
}

/// Makes the folder, or makes sure that the file is there.
async fn prepare_file(path: &Path, create: bool) -> Result<(), StoreError> {
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| StoreError::Io { path, source }
    };
    let database = || path.display().to_string();
    if path.is_dir() {
        return Err(StoreError::NotADatabase { database: database(), detail: "it is a folder".into() });
    }
    if create {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            tokio::fs::create_dir_all(folder).await.map_err(io(folder))?;
        }
        return Ok(());
    }
    let there = tokio::fs::try_exists(path).await.map_err(io(path))?;
    if there { Ok(()) } else { Err(StoreError::NoData { database: database() }) }
}

/// Checks the data format, and brings the tables up to date.
async fn prepare_database(first: &mut SqliteConnection, place: &Place) -> Result<(), StoreError> {
    let failed = |error| place.error(error);
    if check(first, Dialect::Sqlite, place).await? == Found::Current {
        return Ok(());
    }
    write_ahead(first).await.map_err(failed)?;
    // One transaction for all: of two processes that start together, one migrates, and the other finds it done.
    let mut transaction = first.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    if check(&mut *transaction, Dialect::Sqlite, place).await? != Found::Current {
        migrate(&mut *transaction, Dialect::Sqlite).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

/// Changes the database to write-ahead logging, under which readers and the writer do not wait for each other.
async fn write_ahead(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let mut attempts = 0;
    loop {
        let mode: Result<(String,), _> = sqlx::query_as("PRAGMA journal_mode = WAL").fetch_one(&mut *connection).await;
        attempts += 1;
        match mode {
            Ok(_) => return Ok(()),
            // SQLite does not wait for the lock here; an empty transaction does.
            Err(error) if is_busy(&error) && attempts < WAL_ATTEMPTS => {
                connection.begin_with("BEGIN IMMEDIATE").await?.rollback().await?;
            }
            Err(error) => return Err(error),
        }
    }
}
