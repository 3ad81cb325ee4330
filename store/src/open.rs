//! Opening the database. With `dialect`, all that is peculiar to SQLite.

use std::path::Path;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqlSafeStr, SqliteConnection};

use crate::error::{StoreError, is_busy};
use crate::store::Pools;

/// The newest data format that this version knows.
pub(crate) const DATA_FORMAT: i64 = 1;

/// Every migration, in order. Those that were released are never changed.
const MIGRATIONS: &[(i64, &str, &str)] = &[(1, "first", include_str!("../../migrations/sqlite/0001_first.sql"))];

/// Connections that read at the same time.
const READERS: u32 = 3;
/// Bytes that the write-ahead log may keep on disk once it is copied into the database.
const WAL_KEPT_BYTES: &str = "67108864";
/// How often changing to write-ahead logging is tried while other processes do the same.
const WAL_ATTEMPTS: u32 = 20;

/// How to open.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Whether a database is made where there is none.
    pub create: bool,
    /// How long to wait for a lock that another process holds.
    pub lock_wait: Duration,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { create: true, lock_wait: Duration::from_secs(10) }
    }
}

/// Opens, checks and migrates the database.
pub(crate) async fn open(path: &Path, options: OpenOptions) -> Result<Pools, StoreError> {
    prepare_file(path, options.create).await?;
    let lock_wait_ms = u64::try_from(options.lock_wait.as_millis()).unwrap_or(u64::MAX);
    let sql = |error| StoreError::of_sql(error, path, lock_wait_ms);
    let connect = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(options.create)
        .foreign_keys(true)
        .busy_timeout(options.lock_wait)
        .synchronous(SqliteSynchronous::Full)
        .pragma("journal_size_limit", WAL_KEPT_BYTES);
    let mut first = connect.clone().connect().await.map_err(sql)?;
    prepare_database(&mut first, path, lock_wait_ms).await?;
    first.close().await.map_err(sql)?;

    let pool = SqlitePoolOptions::new()
        .acquire_timeout(options.lock_wait.saturating_mul(2))
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        // A failure may end SQLite's transaction and leave the connection believing in it: that one is not used again.
        .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }));
    let writes = pool.clone().max_connections(1).connect_with(connect.clone()).await.map_err(sql)?;
    let reads = pool.max_connections(READERS).connect_lazy_with(connect.pragma("query_only", "ON"));
    Ok(Pools { path: path.to_path_buf(), lock_wait_ms, writes, reads })
}

/// Makes the folder, or makes sure that the file is there.
async fn prepare_file(path: &Path, create: bool) -> Result<(), StoreError> {
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| StoreError::Io { path, source }
    };
    if path.is_dir() {
        return Err(StoreError::NotADatabase { path: path.to_path_buf(), detail: "it is a folder".into() });
    }
    if create {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            tokio::fs::create_dir_all(folder).await.map_err(io(folder))?;
        }
        return Ok(());
    }
    let there = tokio::fs::try_exists(path).await.map_err(io(path))?;
    if there { Ok(()) } else { Err(StoreError::NoData { path: path.to_path_buf() }) }
}

/// Checks the data format, and brings the tables up to date.
async fn prepare_database(first: &mut SqliteConnection, path: &Path, lock_wait_ms: u64) -> Result<(), StoreError> {
    let sql = |error| StoreError::of_sql(error, path, lock_wait_ms);
    if check_format(first, path, lock_wait_ms).await? {
        return Ok(());
    }
    write_ahead(first).await.map_err(sql)?;
    // One transaction for all: of two processes that start together, one migrates, and the other finds it done.
    let mut transaction = first.begin_with("BEGIN IMMEDIATE").await.map_err(sql)?;
    if !check_format(&mut transaction, path, lock_wait_ms).await? {
        migrator().run_direct(None, &mut *transaction, false).await.map_err(|error| match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => sql(error),
            other => sql(sqlx::Error::Migrate(Box::new(other))),
        })?;
    }
    transaction.commit().await.map_err(sql)
}

fn migrator() -> Migrator {
    let migrations = MIGRATIONS.iter().map(|&(version, name, text)| {
        Migration::new(version, name.into(), MigrationType::Simple, text.into_sql_str(), false)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    // An older version may go on with tables that a newer one has only added to; the data format says when it may not.
    migrator.set_ignore_missing(true);
    migrator
}

/// Whether everything is up to date. What a newer version or another program wrote is refused.
async fn check_format(connection: &mut SqliteConnection, path: &Path, lock_wait_ms: u64) -> Result<bool, StoreError> {
    let sql = |error| StoreError::of_sql(error, path, lock_wait_ms);
    let tables: Vec<(String,)> = sqlx::query_as("SELECT name FROM sqlite_master WHERE type = 'table'")
        .fetch_all(&mut *connection)
        .await
        .map_err(sql)?;
    if tables.is_empty() {
        return Ok(false);
    }
    if !tables.iter().any(|(name,)| name == "data_format") {
        let detail = format!("it has a table {:?} of another program", tables[0].0);
        return Err(StoreError::NotADatabase { path: path.to_path_buf(), detail });
    }
    let (found,): (i64,) = sqlx::query_as("SELECT version FROM data_format WHERE id = 1")
        .fetch_one(&mut *connection)
        .await
        .map_err(sql)?;
    if found > DATA_FORMAT {
        return Err(StoreError::NewerFormat { path: path.to_path_buf(), found, known: DATA_FORMAT });
    }
    let (newest,): (Option<i64>,) =
        sqlx::query_as("SELECT MAX(version) FROM _sqlx_migrations").fetch_one(&mut *connection).await.map_err(sql)?;
    Ok(newest >= MIGRATIONS.last().map(|&(version, ..)| version))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_migration_in_the_folder_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations/sqlite");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".sql"))
            .collect();
        files.sort();
        let embedded: Vec<String> =
            MIGRATIONS.iter().map(|(version, name, _)| format!("{version:04}_{name}.sql")).collect();
        assert_eq!(files, embedded);
    }
}
