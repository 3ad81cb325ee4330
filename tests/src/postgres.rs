//! A real PostgreSQL server of our own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

use crate::cluster::{guard, output};

/// A real PostgreSQL server, on a port that it keeps when it is started again. It ends, with its folder, when this is
/// dropped, and also when the test's process dies.
///
/// The user `weir` may do everything and needs no password; `guarded` needs `open sesame`, and `certified` a certificate.
pub struct PostgresServer {
    folder: PathBuf,
    url: String,
    guard: Child,
    databases: AtomicUsize,
}

impl PostgresServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::begin(None)
    }

    /// The same with TLS. `certificates` is a folder with `cert.pem` and `key.pem`, which are the server's, and `ca.pem`, who
    /// signed it and its users.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start_with_tls(certificates: &Path) -> Self {
        Self::begin(Some(certificates))
    }

    fn begin(certificates: Option<&Path>) -> Self {
        let folder = tempfile::Builder::new().prefix("weir-postgres-").tempdir().expect("a temporary folder").keep();
        let guard = guard(&script(), &folder);
        let mut server = Self { folder, url: String::new(), guard, databases: AtomicUsize::new(0) };
        let mut start = server.script("start");
        start.envs(certificates.map(|folder| ("TLS_DIR", folder)));
        server.url = output(&mut start).unwrap_or_else(|why| panic!("{why}"));
        server
    }

    /// Address of a database, as the user who needs no password.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("{}/{database}", self.url)
    }

    /// Address of a database, as the user who needs `password`.
    #[must_use]
    pub fn url_with(&self, password: &str, database: &str) -> String {
        self.url(database).replace("weir@", &format!("guarded:{password}@"))
    }

    /// Makes an empty database; its name.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let mut connection = self.connect("postgres").await;
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}")))
            .execute(&mut connection)
            .await
            .expect("a database");
        connection.close().await.expect("it answers");
        name
    }

    /// Connects to a database, around Weir.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn connect(&self, database: &str) -> PgConnection {
        PgConnection::connect(&self.url(database)).await.expect("a server of our own")
    }

    /// Ends the server as a crash of its machine would: all of its processes, at once.
    pub fn kill(&self) {
        self.run("kill");
    }

    /// Starts it again, after [`PostgresServer::kill`] or [`PostgresServer::stop`].
    pub fn restart(&self) {
        self.run("start");
    }

    /// Ends it in good order, whoever is connected.
    pub fn stop(&self) {
        self.run("stop");
    }

    /// Stops all of its processes, so that it is there and says nothing.
    pub fn pause(&self) {
        self.run("pause");
    }

    /// Lets them go on.
    pub fn resume(&self) {
        self.run("resume");
    }

    fn run(&self, command: &str) -> String {
        output(&mut self.script(command)).unwrap_or_else(|why| panic!("{why}"))
    }

    fn script(&self, command: &str) -> Command {
        let mut script = Command::new(script());
        // For machines that are busy with something else.
        script.arg(command).env("RUN_DIR", &self.folder).env("START_SECONDS", "180");
        script
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.join("postgres.log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("--- end of the server's log\n{}", lines[lines.len().saturating_sub(25)..].join("\n"));
        }
        // Closing its input is what the guard waits for.
        drop(self.guard.stdin.take());
        if !self.guard.wait().is_ok_and(|status| status.success()) {
            eprintln!("the server in {} may not have ended", self.folder.display());
        }
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dev/postgres/run.sh")
}
