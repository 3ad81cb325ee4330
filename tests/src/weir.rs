//! The `weir` binary as a process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::cluster::output;
use crate::wait_until;

/// A running `weir run`, with its folder of data. It is killed when this is dropped.
pub struct Weir {
    folder: PathBuf,
    child: Option<Child>,
    starts: u32,
}

impl Weir {
    /// Prepares a folder with `configuration` (TOML); nothing runs yet.
    ///
    /// # Panics
    /// If the folder cannot be written to.
    #[must_use]
    pub fn prepare(folder: &Path, configuration: &str) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        std::fs::write(folder.join("weir.toml"), configuration).expect("a file");
        Self { folder: folder.into(), child: None, starts: 0 }
    }

    /// Starts it, or starts it again on the same data.
    ///
    /// # Panics
    /// If the binary is not there.
    pub fn start(&mut self) {
        self.starts += 1;
        let log = File::create(self.folder.join(format!("weir-{}.log", self.starts))).expect("a log file");
        let mut command = Command::new(binary());
        command.args(["run", "--config"]).arg(self.folder.join("weir.toml")).arg("--data").arg(self.data());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().expect("weir starts"));
    }

    /// Kills it, as a crash of the machine would.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("weir runs");
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }

    /// Asks it to end, and waits until it has; its exit code.
    ///
    /// # Panics
    /// If it does not run, or not end within 60 s.
    pub async fn stop(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("weir runs");
        output(Command::new("kill").args(["-INT", &child.id().to_string()])).expect("it is ours");
        wait_until("the end of weir", Duration::from_secs(60), async || child.try_wait().expect("it is ours"))
            .await
            .code()
    }

    /// What a command on its data says, as JSON.
    ///
    /// # Panics
    /// If the command fails.
    #[must_use]
    pub fn ask(&self, arguments: &[&str]) -> Value {
        let mut command = Command::new(binary());
        command.args(arguments).args(["--output", "json", "--data"]).arg(self.data());
        let answer = output(&mut command).unwrap_or_else(|why| panic!("{why}"));
        serde_json::from_str(&answer).unwrap_or_else(|why| panic!("{why}: {answer}"))
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _already_gone = child.kill().is_err();
            let _status = child.wait();
        }
        if std::thread::panicking() {
            for start in 1..=self.starts {
                let log = std::fs::read_to_string(self.folder.join(format!("weir-{start}.log"))).unwrap_or_default();
                eprintln!("--- weir, start {start}\n{log}");
            }
        }
    }
}

/// The binary that was built beside this test.
pub(crate) fn binary() -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let folder = own.ancestors().find(|folder| folder.join("weir").is_file());
    folder.map(|folder| folder.join("weir")).expect("the weir binary: build it with `cargo build --bin weir`")
}
