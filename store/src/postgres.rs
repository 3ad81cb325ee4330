//! What is peculiar to PostgreSQL: a server that may be slow, gone or back again, locks by name, and errors by SQLSTATE.
//!
//! Everything runs at READ COMMITTED. Whatever depends on what was read is either one conditional statement, which looks
//! again at a row that it had to wait for, or is done under a named lock; the names are taken in one order.

use std::future::Future;
use std::io;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{Connection, Postgres};

use crate::address::{Address, OpenOptions, Place as At};
use crate::error::{Named, StoreError};
use crate::migrations::{Dialect, Found, check, migrate};
use crate::sql::{Row, Run, Statement, sql};

/// The database's clock in milliseconds since 1970: not `now()`, which stands still within a transaction.
pub(crate) const NOW_MS: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)";
/// How much longer than the server itself we wait for its word that a statement took too long.
const GRACE: Duration = Duration::from_secs(1);

/// What errors have to know.
struct Place {
    name: String,
    /// Whether the server is reached by a file, which is there while it runs.
    by_socket: bool,
    lock_wait_ms: u128,
    answer_wait_ms: u128,
}

/// A database on a server.
pub(crate) struct Server {
    place: Place,
    pool: PgPool,
    limit: Duration,
}

impl Server {
    /// Connects to the database, checks and migrates it.
    pub(crate) async fn open(at: PgConnectOptions, options: &OpenOptions) -> Result<Self, StoreError> {
        let place = Place {
            name: Address(At::Server(Box::new(at.clone()))).to_string(),
            by_socket: at.get_socket().is_some(),
            lock_wait_ms: options.lock_wait.as_millis(),
            answer_wait_ms: options.answer_wait.as_millis(),
        };
        let statement_ms = place.lock_wait_ms.saturating_add(place.answer_wait_ms);
        let at = if at.get_application_name().is_some() { at } else { at.application_name("weir") };
        let at = at.options([
            ("search_path", "weir".to_owned()),
            ("lock_timeout", place.lock_wait_ms.to_string()),
            ("statement_timeout", statement_ms.to_string()),
            ("idle_in_transaction_session_timeout", options.idle_wait.as_millis().to_string()),
            // What a commit says is durable, whatever the server's default is, and decided on what others committed.
            ("synchronous_commit", "on".to_owned()),
            ("default_transaction_isolation", "read committed".to_owned()),
        ]);
        let pool = PgPoolOptions::new()
            .max_connections(options.connections.max(1))
            .acquire_timeout(options.answer_wait)
            .connect_lazy_with(at);
        let limit = options.lock_wait.saturating_add(options.answer_wait).saturating_add(GRACE);
        let server = Self { place, pool, limit };
        server.prepare(options.create).await?;
        Ok(server)
    }

    /// Checks the data format, and brings the tables up to date.
    async fn prepare(&self, create: bool) -> Result<(), StoreError> {
        let mut session = self.session().await.map_err(|error| self.error(error))?;
        let found = check(&mut session, Dialect::Postgres, self).await?;
        if found == Found::Nothing && !create {
            return Err(StoreError::NoData { database: self.name() });
        }
        if found != Found::Current {
            let limit = session.limit;
            let migrated = self.migrate(session.connection().map_err(|error| self.error(error))?);
            tokio::time::timeout(limit, migrated).await.unwrap_or_else(|_| Err(self.error(too_late())))?;
        }
        session.give_back();
        Ok(())
    }

    /// One transaction for all: of two processes that start together, one migrates, and the other finds it done.
    async fn migrate(&self, connection: &mut PgConnection) -> Result<(), StoreError> {
        let failed = |error| self.error(error);
        let mut transaction = connection.begin().await.map_err(failed)?;
        transaction.run(lock("migrations", false)).await.map_err(failed)?;
        if check(&mut *transaction, Dialect::Postgres, self).await? != Found::Current {
            // Asked before, since whoever may not make schemas may not even do so where there is one already.
            let schema = sql("SELECT CAST(1 AS BIGINT) FROM pg_namespace WHERE nspname = 'weir'");
            if transaction.one(schema).await.map_err(failed)?.is_none() {
                transaction.run(sql("CREATE SCHEMA weir")).await.map_err(failed)?;
            }
            migrate(&mut *transaction, Dialect::Postgres).await.map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)
    }

    async fn session(&self) -> Result<Session, sqlx::Error> {
        Ok(Session { connection: Some(self.pool.acquire().await?), limit: self.limit })
    }

    /// All rows of a statement outside any transaction.
    pub(crate) async fn all(&self, statement: Statement<'_>) -> Result<Vec<Row>, sqlx::Error> {
        let mut session = self.session().await?;
        let rows = session.all(statement).await?;
        session.give_back();
        Ok(rows)
    }

    /// The first row of a statement outside any transaction.
    pub(crate) async fn one(&self, statement: Statement<'_>) -> Result<Option<Row>, sqlx::Error> {
        let mut session = self.session().await?;
        let row = session.one(statement).await?;
        session.give_back();
        Ok(row)
    }

    /// Begins a transaction.
    pub(crate) async fn begin(&self) -> Result<Session, sqlx::Error> {
        let mut session = self.session().await?;
        session.run(sql("BEGIN")).await?;
        Ok(session)
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }
}

/// A connection that is closed, which undoes its transaction, unless everything on it ended well: one that waits for an
/// answer that may never come is of no use to anybody.
pub(crate) struct Session {
    connection: Option<PoolConnection<Postgres>>,
    limit: Duration,
}

impl Session {
    fn connection(&mut self) -> Result<&mut PgConnection, sqlx::Error> {
        self.connection.as_deref_mut().ok_or(sqlx::Error::PoolClosed)
    }

    fn give_back(mut self) {
        drop(self.connection.take());
    }

    /// Takes a lock by its name until the transaction ends.
    pub(crate) async fn lock(&mut self, name: &str, shared: bool) -> Result<(), sqlx::Error> {
        self.run(lock(name, shared)).await.map(drop)
    }

    pub(crate) async fn commit(mut self) -> Result<(), sqlx::Error> {
        self.run(sql("COMMIT")).await?;
        self.give_back();
        Ok(())
    }
}

impl Run for Session {
    async fn run(&mut self, statement: Statement<'_>) -> Result<u64, sqlx::Error> {
        let limit = self.limit;
        within(limit, self.connection()?.run(statement)).await
    }

    async fn all(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, sqlx::Error> {
        let limit = self.limit;
        within(limit, self.connection()?.all(statement)).await
    }

    async fn one(&mut self, statement: Statement<'_>) -> Result<Option<Row>, sqlx::Error> {
        let limit = self.limit;
        within(limit, self.connection()?.one(statement)).await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection.detach());
        }
    }
}

fn lock(name: &str, shared: bool) -> Statement<'_> {
    let text = if shared {
        "SELECT pg_advisory_xact_lock_shared(hashtextextended('weir/' || $1, 0))"
    } else {
        "SELECT pg_advisory_xact_lock(hashtextextended('weir/' || $1, 0))"
    };
    sql(text).bind(name)
}

/// The server's own limits come first; this one is for a server that says nothing any more.
async fn within<T>(limit: Duration, answer: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(too_late()))
}

fn too_late() -> sqlx::Error {
    sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))
}

impl Named for Server {
    fn name(&self) -> String {
        self.place.name.clone()
    }

    fn error(&self, error: sqlx::Error) -> StoreError {
        self.place.error(error)
    }
}

impl Named for Place {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn error(&self, error: sqlx::Error) -> StoreError {
        let database = self.name();
        match &error {
            sqlx::Error::Database(said) => {
                let detail = said.message().to_owned();
                let code = said.code().map(std::borrow::Cow::into_owned).unwrap_or_default();
                self.of_state(&code, detail).unwrap_or_else(|| StoreError::of_sql(error, database))
            }
            sqlx::Error::PoolTimedOut => {
                StoreError::Unreachable { database, detail: format!("no connection within {} ms", self.answer_wait_ms) }
            }
            // What rustls does not like comes as an error of reading.
            sqlx::Error::Io(io) if io.kind() == io::ErrorKind::InvalidData => {
                StoreError::Refused { database, detail: io.to_string() }
            }
            // No connection over the network fails like this.
            sqlx::Error::Io(io) if is_about_a_file(io) && !self.by_socket => {
                let detail = format!("a file that `sslrootcert`, `sslcert` or `sslkey` names cannot be read: {io}");
                StoreError::Refused { database, detail }
            }
            sqlx::Error::Tls(_) | sqlx::Error::Configuration(_) => {
                StoreError::Refused { database, detail: error.to_string() }
            }
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => {
                StoreError::Unreachable { database, detail: error.to_string() }
            }
            _ => StoreError::of_sql(error, database),
        }
    }
}

fn is_about_a_file(error: &io::Error) -> bool {
    /// A file that we may not read. A firewall that lets nobody out, for a moment perhaps, has another word for it (EPERM).
    const EACCES: i32 = 13;
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory)
        || error.raw_os_error() == Some(EACCES)
}

impl Place {
    /// What the server means (<https://www.postgresql.org/docs/current/errcodes-appendix.html>), where we have a word for it.
    fn of_state(&self, state: &str, detail: String) -> Option<StoreError> {
        let database = self.name();
        Some(match state {
            // Serialisation failure, deadlock.
            "40001" | "40P01" => StoreError::Conflict { database, detail },
            // Lock not available.
            "55P03" => StoreError::Locked { database, waited_ms: u64::try_from(self.lock_wait_ms).unwrap_or(u64::MAX) },
            "53100" => StoreError::DiskFull { database },
            // Damaged data, damaged index.
            "XX001" | "XX002" => StoreError::damaged(database, "a page", detail),
            // A character that the database does not have.
            "22021" | "22P05" => StoreError::Unfit { what: "a text", detail },
            // No such database, no permission, a server that only reads, too few rights; and all about passwords (28).
            "3D000" | "42501" | "25006" | "0LP01" => StoreError::Refused { database, detail },
            _ if state.starts_with("28") => StoreError::Refused { database, detail },
            // Cancelled, told to stop or starting, out of connections or memory, idle for too long; connections lost (08).
            "57014" | "57P01" | "57P02" | "57P03" | "57P05" | "53200" | "53300" | "25P03" => {
                StoreError::Unreachable { database, detail }
            }
            _ if state.starts_with("08") => StoreError::Unreachable { database, detail },
            _ => return None,
        })
    }
}
