//! Opening a database on a server, and what is refused.

use sqlx::Executor;
use weir_store::{Address, OpenOptions, Store, StoreError};
use weir_tests::PostgresServer;

use crate::{SERVER, open};

async fn refused(url: &str, options: &OpenOptions) -> StoreError {
    Store::open_at(&Address::parse(url).unwrap(), options).await.unwrap_err()
}

#[tokio::test]
async fn a_password_opens_and_a_wrong_one_is_refused_without_being_repeated() {
    let database = SERVER.database().await;
    open(&SERVER.url_with("open%20sesame", &database), &OpenOptions::default()).await;
    for url in [SERVER.url_with("s3cret", &database), SERVER.url_with("open%20sesame", "missing")] {
        let why = refused(&url, &OpenOptions::default()).await;
        assert_eq!(why.code(), "WR0416", "{why}");
        let said = format!("{why} {why:?}");
        assert!(!said.contains("s3cret") && !said.contains("sesame"), "{said}");
        assert!(why.to_string().contains("postgres://guarded@127.0.0.1:"), "{why}");
    }
    let elsewhere = Address::parse(&SERVER.url_with("s3cret", &database)).unwrap().with_password("open sesame");
    Store::open_at(&elsewhere, &OpenOptions::default()).await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_does_not_answer() {
    let server = PostgresServer::start();
    let url = server.url_with("s3cret", "postgres");
    server.stop();
    let why = refused(&url, &OpenOptions::default()).await;
    assert!(matches!(why, StoreError::Unreachable { .. }), "{why}");
    assert!(!why.to_string().contains("s3cret"), "{why}");
}

#[tokio::test]
async fn tls_that_the_server_does_not_have_is_not_done_without() {
    let why = refused(&(SERVER.url("postgres") + "?sslmode=require"), &OpenOptions::default()).await;
    assert_eq!(why.code(), "WR0416", "{why}");
}

#[tokio::test]
async fn commands_make_no_tables() {
    let database = SERVER.database().await;
    let why = refused(&SERVER.url(&database), &OpenOptions { create: false, ..OpenOptions::default() }).await;
    assert_eq!(why.code(), "WR0402", "{why}");
    let mut connection = SERVER.connect(&database).await;
    let (schemas,): (i64,) = sqlx::query_as("SELECT count(*) FROM pg_namespace WHERE nspname = 'weir'")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(schemas, 0);
}

#[tokio::test]
async fn newer_formats_are_refused_and_added_tables_are_not() {
    let database = SERVER.database().await;
    let url = SERVER.url(&database);
    open(&url, &OpenOptions::default()).await.close().await;
    let mut connection = SERVER.connect(&database).await;
    let later = "INSERT INTO weir._sqlx_migrations (version, description, success, checksum, execution_time)
        VALUES (999, 'later', TRUE, '', 0)";
    connection.execute(later).await.unwrap();
    open(&url, &OpenOptions { create: false, ..OpenOptions::default() }).await;
    connection.execute("UPDATE weir.data_format SET version = 7").await.unwrap();
    let why = refused(&url, &OpenOptions::default()).await;
    assert!(matches!(why, StoreError::NewerFormat { found: 7, known: 1, .. }), "{why}");
}

#[tokio::test]
async fn what_others_have_in_the_database_is_left_alone() {
    let database = SERVER.database().await;
    let mut connection = SERVER.connect(&database).await;
    connection.execute("CREATE TABLE jobs (id INT)").await.unwrap();
    let store = open(&SERVER.url(&database), &OpenOptions::default()).await;
    assert!(store.jobs().await.unwrap().is_empty());
    connection.execute("SELECT id FROM public.jobs").await.unwrap();

    let other = SERVER.database().await;
    let mut connection = SERVER.connect(&other).await;
    connection.execute("CREATE SCHEMA weir; CREATE TABLE weir.customers (id INT)").await.unwrap();
    assert_eq!(refused(&SERVER.url(&other), &OpenOptions::default()).await.code(), "WR0405");
}

#[tokio::test]
async fn texts_sort_by_their_bytes_whatever_the_database_does() {
    let database = SERVER.database().await;
    let store = open(&SERVER.url(&database), &OpenOptions::default()).await;
    let run = weir_store_contract::support::run();
    let job = weir_store_contract::support::job;
    store.seen_jobs([(&job("b"), &run), (&job("C"), &run), (&job("~"), &run), (&job("ä"), &run)], 1).await.unwrap();
    let jobs = store.jobs().await.unwrap();
    assert_eq!(jobs.iter().map(|row| row.job.name.as_str()).collect::<Vec<_>>(), ["C", "b", "~", "ä"]);
    assert_eq!(store.seen_job(&job("a\0b"), &run, 1).await.unwrap_err().code(), "WR0413");
}
