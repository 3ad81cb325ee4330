//! What is peculiar to opening a database in a file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tempfile::TempDir;
use weir_store::{OpenOptions, Store, StoreError};

/// A database that goes away with it.
struct Home {
    folder: TempDir,
    store: Store,
}

impl Home {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("data").join(Store::FILE)).await.unwrap();
        Self { folder, store }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("data").join(Store::FILE)
    }
}

async fn raw(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.unwrap()
}

#[tokio::test]
async fn commands_do_not_make_a_database_but_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none").join(Store::FILE);
    let refused = Store::open_existing(&path).await.unwrap_err();
    assert_eq!(refused.code(), "WR0402");
    assert!(refused.to_string().contains("start `weir run`"), "{refused}");
    assert!(!path.exists() && !folder.path().join("none").exists());
}

#[tokio::test]
async fn a_newer_data_format_is_refused_and_left_alone() {
    let home = Home::new().await;
    home.store.close().await;
    let mut connection = raw(&home.path()).await;
    sqlx::query("UPDATE data_format SET version = 7").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let refused = Store::open(&home.path()).await.unwrap_err();
    assert!(matches!(refused, StoreError::NewerFormat { found: 7, known: 1, .. }), "{refused}");
}

#[tokio::test]
async fn a_newer_version_that_only_added_tables_does_not_disturb() {
    let home = Home::new().await;
    home.store.close().await;
    let mut connection = raw(&home.path()).await;
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (999, 'later', TRUE, X'00', 0)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    let store = Store::open_existing(&home.path()).await.unwrap();
    assert_eq!(store.control_revision().await.unwrap(), 0);
}

#[tokio::test]
async fn what_is_no_database_of_ours_is_refused_unharmed() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "These are notes, which are longer than the header of a database. ".repeat(20)).unwrap();
    let foreign = folder.path().join("foreign.db");
    let mut connection = raw(&foreign).await;
    sqlx::query("CREATE TABLE customers (id BIGINT)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    for path in [text.as_path(), foreign.as_path(), folder.path()] {
        let before = std::fs::read(path).ok();
        let refused = Store::open(path).await.unwrap_err();
        assert_eq!(refused.code(), "WR0405", "{refused}");
        assert_eq!(std::fs::read(path).ok(), before);
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let refused = Store::open(&folder.path().join("file").join("data").join(Store::FILE)).await.unwrap_err();
    assert_eq!(refused.code(), "WR0401");
    assert!(refused.to_string().contains("file/data"), "{refused}");
}

#[tokio::test]
async fn a_lock_that_is_held_too_long_is_told_with_the_file() {
    let home = Home::new().await;
    let options = OpenOptions { create: false, lock_wait: Duration::from_secs(2), ..OpenOptions::default() };
    let impatient = Store::open_with(&home.path(), options).await.unwrap();
    let mut holder = raw(&home.path()).await;
    let lock = holder.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let refused = impatient.set_frozen(true, "ada", 1).await.unwrap_err();
    assert!(matches!(refused, StoreError::Locked { waited_ms: 2_000, .. }) && refused.is_transient(), "{refused}");
    assert!(refused.to_string().contains("control.db"), "{refused}");
    assert!(!impatient.controls().await.unwrap().frozen, "readers do not wait for a writer");
    lock.rollback().await.unwrap();
    assert_eq!(impatient.set_frozen(true, "ada", 2).await.unwrap(), 1);
}

#[tokio::test]
async fn a_transaction_that_the_database_ends_by_itself_leaves_a_usable_handle() {
    let home = Home::new().await;
    let store = &home.store;
    store.set_frozen(true, "ada", 1).await.unwrap();
    let mut connection = raw(&home.path()).await;
    sqlx::query("CREATE TRIGGER stop BEFORE INSERT ON audit BEGIN SELECT RAISE(ROLLBACK, 'no'); END")
        .execute(&mut connection)
        .await
        .unwrap();
    let refused = store.set_frozen(false, "ada", 2).await.unwrap_err();
    assert_eq!(refused.code(), "WR0414", "{refused}");
    sqlx::query("DROP TRIGGER stop").execute(&mut connection).await.unwrap();
    assert!(store.controls().await.unwrap().frozen);
    assert_eq!(store.set_frozen(false, "ada", 3).await.unwrap(), 2);
}

#[tokio::test]
async fn changes_are_logged_ahead_so_that_readers_need_not_wait() {
    let home = Home::new().await;
    let mut connection = raw(&home.path()).await;
    let (mode,): (String,) = sqlx::query_as("PRAGMA journal_mode").fetch_one(&mut connection).await.unwrap();
    assert_eq!(mode, "wal");
}

#[test]
fn every_code_is_within_the_range_of_the_crate_and_there_once() {
    let codes: std::collections::BTreeSet<&str> = StoreError::CODES.into_iter().collect();
    assert_eq!(codes.len(), StoreError::CODES.len());
    assert!(codes.iter().all(|code| ("WR0400".."WR0450").contains(code)), "{codes:?}");
}
