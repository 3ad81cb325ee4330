//! Either database behind one face.

use sqlx::Sqlite;

use crate::address::{Address, OpenOptions, Place};
use crate::error::{Named, StoreError};
use crate::sql::{Row, Run, Statement, sql};
use crate::{postgres, sqlite};

/// A database.
pub(crate) enum Database {
    Sqlite(sqlite::File),
    Postgres(postgres::Server),
}

impl Database {
    pub(crate) async fn open(address: &Address, options: &OpenOptions) -> Result<Self, StoreError> {
        Ok(match &address.0 {
            Place::File(path) => Self::Sqlite(sqlite::File::open(path, options).await?),
            Place::Server(at) => Self::Postgres(postgres::Server::open((**at).clone(), options).await?),
        })
    }

    /// All rows of a statement outside any transaction.
    pub(crate) async fn all(&self, statement: Statement<'_>) -> Result<Vec<Row>, sqlx::Error> {
        match self {
            Self::Sqlite(file) => file.all(statement).await,
            Self::Postgres(server) => server.all(statement).await,
        }
    }

    /// The first row of a statement outside any transaction.
    pub(crate) async fn one(&self, statement: Statement<'_>) -> Result<Option<Row>, sqlx::Error> {
        match self {
            Self::Sqlite(file) => file.one(statement).await,
            Self::Postgres(server) => server.one(statement).await,
        }
    }

    pub(crate) async fn begin(&self) -> Result<Transaction, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(file) => Transaction::Sqlite(file.begin().await?),
            Self::Postgres(server) => Transaction::Postgres(server.begin().await?),
        })
    }

    /// Asks for the database's clock.
    pub(crate) fn now_ms(&self) -> Statement<'static> {
        sql(match self {
            Self::Sqlite(_) => sqlite::NOW_MS,
            Self::Postgres(_) => postgres::NOW_MS,
        })
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(file) => file.close().await,
            Self::Postgres(server) => server.close().await,
        }
    }
}

impl Named for Database {
    fn name(&self) -> String {
        match self {
            Self::Sqlite(file) => file.name(),
            Self::Postgres(server) => server.name(),
        }
    }

    fn error(&self, error: sqlx::Error) -> StoreError {
        match self {
            Self::Sqlite(file) => file.error(error),
            Self::Postgres(server) => server.error(error),
        }
    }
}

/// A transaction. It is undone when it is dropped.
pub(crate) enum Transaction {
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    Postgres(postgres::Session),
}

impl Transaction {
    /// Takes a lock by its name until the transaction ends. SQLite's transactions have the only lock there is already.
    pub(crate) async fn lock(&mut self, name: &str, shared: bool) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(session) => session.lock(name, shared).await,
        }
    }

    pub(crate) async fn commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(transaction) => transaction.commit().await,
            Self::Postgres(session) => session.commit().await,
        }
    }
}

impl Run for Transaction {
    async fn run(&mut self, statement: Statement<'_>) -> Result<u64, sqlx::Error> {
        match self {
            Self::Sqlite(transaction) => transaction.run(statement).await,
            Self::Postgres(session) => session.run(statement).await,
        }
    }

    async fn all(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, sqlx::Error> {
        match self {
            Self::Sqlite(transaction) => transaction.all(statement).await,
            Self::Postgres(session) => session.all(statement).await,
        }
    }

    async fn one(&mut self, statement: Statement<'_>) -> Result<Option<Row>, sqlx::Error> {
        match self {
            Self::Sqlite(transaction) => transaction.one(statement).await,
            Self::Postgres(session) => session.one(statement).await,
        }
    }
}
