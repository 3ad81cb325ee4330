//! A real Pravega of our own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::cluster::{guard, output};

/// Whether a server keeps what it acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// On disk: it goes on where it was after a crash.
    Durable,
    /// In its process only: it comes back empty.
    Forgetful,
}

/// TLS and a log-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PravegaSecurity {
    /// Folder with `cert.pem` (for the name `localhost`), `key.pem`, and `ca.pem`, which signed it.
    pub certificates: PathBuf,
    /// The user's name.
    pub user: String,
    /// The user's password.
    pub password: String,
}

/// A real Pravega in one process. It ends, with its folder, when this is dropped, and also when the test's process dies.
pub struct PravegaServer {
    folder: PathBuf,
    memory: Memory,
    security: Option<PravegaSecurity>,
    url: String,
    guard: Child,
}

impl PravegaServer {
    /// Starts a server on free ports and waits until it serves.
    ///
    /// # Panics
    /// If it does not start; the end of its log is shown.
    #[must_use]
    pub fn start(memory: Memory) -> Self {
        Self::begin(memory, None)
    }

    /// The same with TLS and a log-in. What it holds is lost when it ends.
    ///
    /// # Panics
    /// If it does not start; the end of its log is shown.
    #[must_use]
    pub fn start_secured(security: PravegaSecurity) -> Self {
        Self::begin(Memory::Forgetful, Some(security))
    }

    fn begin(memory: Memory, security: Option<PravegaSecurity>) -> Self {
        let folder = tempfile::Builder::new().prefix("weir-pravega-").tempdir().expect("a temporary folder").keep();
        let guard = guard(&script(), &folder);
        let mut server = Self { folder, memory, security, url: String::new(), guard };
        server.restart();
        server
    }

    /// Starts it again after [`PravegaServer::kill`], on the same ports and the same data, and waits until it serves.
    ///
    /// # Panics
    /// If it does not start; the end of its log is shown.
    pub fn restart(&mut self) {
        let mode = match self.memory {
            Memory::Durable => "durable",
            Memory::Forgetful => "memory",
        };
        let mut start = self.script("start");
        // For machines that are busy with something else.
        start.env("MODE", mode).env("START_SECONDS", "240");
        if let Some(PravegaSecurity { certificates, user, password }) = &self.security {
            start.env("TLS_DIR", certificates).env("USER_NAME", user).env("USER_PASSWORD", password);
        }
        self.url = output(&mut start).unwrap_or_else(|why| panic!("Pravega did not start: {why}\n{}", self.log()));
    }

    /// The controller's address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it, as a crash does.
    pub fn kill(&self) {
        self.run("kill");
    }

    /// Stops it in its tracks: connections stay, answers do not come.
    pub fn pause(&self) {
        self.run("pause");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.run("resume");
    }

    /// The management interface.
    #[must_use]
    pub fn management(&self) -> Management {
        Management { folder: self.folder.clone() }
    }

    /// The folder with its data and its log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn run(&self, command: &str) {
        output(&mut self.script(command)).unwrap_or_else(|why| panic!("{why}"));
    }

    fn script(&self, command: &str) -> Command {
        script_in(&self.folder, command)
    }

    /// The last lines of its log.
    fn log(&self) -> String {
        let text = fs::read(self.folder.join("server.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

/// The management interface of a server, as an operator uses it. It may outlive the server, and then fails.
#[derive(Debug, Clone)]
pub struct Management {
    folder: PathBuf,
}

impl Management {
    /// Asks the management interface, such as `DELETE`, `v1/scopes/a/streams/b`.
    ///
    /// # Panics
    /// If it refuses.
    #[must_use]
    pub fn rest(&self, method: &str, path: &str, json: &str) -> String {
        let mut rest = script_in(&self.folder, "rest");
        output(rest.args([method, path, json]).env("ASK_SECONDS", "90")).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Deletes a stream.
    ///
    /// # Panics
    /// If it cannot be deleted.
    pub fn delete_stream(&self, scope: &str, stream: &str) {
        let path = format!("v1/scopes/{scope}/streams/{stream}");
        let _answer = self.rest("PUT", &format!("{path}/state"), r#"{"streamState":"SEALED"}"#);
        let _answer = self.rest("DELETE", &path, "");
    }
}

impl Drop for PravegaServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- end of Pravega's log\n{}", self.log());
        }
        // Closing its input is what the guard waits for.
        drop(self.guard.stdin.take());
        if !self.guard.wait().is_ok_and(|status| status.success()) {
            eprintln!("the server in {} may not have ended", self.folder.display());
        }
    }
}

fn script_in(folder: &Path, command: &str) -> Command {
    let mut script = Command::new(script());
    script.arg(command).env("RUN_DIR", folder);
    script
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dev/pravega/run.sh")
}
