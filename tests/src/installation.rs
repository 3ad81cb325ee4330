//! An installation of Weir whose services are processes of their own.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::cluster::output;
use crate::wait_until;
use crate::weir::binary;

/// A record, as it is told apart from others: its producer and its number.
pub type RecordName = (String, u64);

/// A folder with the configuration that all processes share, and with their logs.
pub struct Installation {
    folder: PathBuf,
}

impl Installation {
    /// Prepares it; nothing runs yet.
    ///
    /// # Panics
    /// If the folder cannot be written to.
    #[must_use]
    pub fn prepare(folder: &Path, configuration: &str) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        std::fs::write(folder.join("weir.toml"), configuration).expect("a file");
        Self { folder: folder.into() }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(binary());
        command.arg("--config").arg(self.folder.join("weir.toml")).stdin(Stdio::null());
        command
    }

    /// Starts a service under a name of its own.
    ///
    /// # Panics
    /// If the binary is not there.
    #[must_use]
    pub fn start(&self, role: &'static str, name: &str) -> Service {
        let mut service = Service { role, name: name.into(), folder: self.folder.clone(), child: None, starts: 0 };
        service.start(self);
        service
    }

    /// What a command says, as JSON; nothing while it fails.
    #[must_use]
    pub fn ask(&self, words: &[&str]) -> Option<Value> {
        let answer = output(self.command().args(words).args(["--output", "json", "--log", "error"])).ok()?;
        serde_json::from_str(&answer).ok()
    }

    /// The same, where nothing but an answer will do.
    ///
    /// # Panics
    /// If the command fails; what it said is shown.
    #[must_use]
    pub fn demand(&self, words: &[&str]) -> Value {
        let mut command = self.command();
        command.args(words).args(["--output", "json", "--log", "error"]);
        let answer = output(&mut command).unwrap_or_else(|why| panic!("{why}"));
        serde_json::from_str(&answer).unwrap_or_else(|why| panic!("{why}: {answer}"))
    }

    /// Every record of the stream of metrics.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn stored(&self, partitions: u32) -> BTreeSet<RecordName> {
        let mut stored = BTreeSet::new();
        for partition in 0..partitions {
            let place = format!("metrics/{partition}");
            let lines = output(self.command().args(["streams", "tail", &place, "--log", "error"]));
            for line in lines.unwrap_or_else(|why| panic!("{why}")).lines() {
                let line: Value = serde_json::from_str(line).expect(line);
                let record = line.get("record").unwrap_or_else(|| panic!("no record: {line}"));
                stored.insert(name_of(record));
            }
        }
        stored
    }

    /// Every record of which a collector logged that it was acknowledged.
    ///
    /// # Panics
    /// If a log cannot be read.
    #[must_use]
    pub fn acknowledged(&self) -> BTreeSet<RecordName> {
        let lines = self.logged("ingest");
        let acknowledged = lines.iter().filter(|line| line["fields"]["message"] == "acknowledged");
        acknowledged.map(|line| name_of(&line["fields"])).collect()
    }

    /// All lines that processes of a name have logged.
    ///
    /// # Panics
    /// If a log cannot be read.
    #[must_use]
    pub fn logged(&self, name: &str) -> Vec<Value> {
        let mut lines = Vec::new();
        for entry in std::fs::read_dir(&self.folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let is_of_name = path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name));
            if is_of_name && path.extension().is_some_and(|extension| extension == "log") {
                // A process that is killed may leave half a line, or half a letter.
                let text = std::fs::read(&path).expect("a log");
                let text = String::from_utf8_lossy(&text);
                lines.extend(text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()));
            }
        }
        lines
    }

    /// Whether everything is read of the stream of metrics, and its state committed.
    #[must_use]
    pub fn is_read(&self) -> bool {
        let Some(streams) = self.ask(&["streams"]) else { return false };
        let behind = |it: &Value| {
            let empty = it["head"] == it["tail"];
            it["stream"] == "metrics" && !empty && it["consumers"][0]["position"] != it["tail"]
        };
        !streams.as_array().is_none_or(|all| all.iter().any(behind))
    }
}

fn name_of(record: &Value) -> RecordName {
    let producer = record["producer"].as_str().unwrap_or_else(|| panic!("no producer: {record}"));
    (producer.to_owned(), record["sequence"].as_u64().unwrap_or_else(|| panic!("no number: {record}")))
}

/// A process of an installation. It is killed when this is dropped.
pub struct Service {
    role: &'static str,
    name: String,
    folder: PathBuf,
    child: Option<Child>,
    starts: u32,
}

impl Service {
    /// Starts it, or starts it again.
    ///
    /// # Panics
    /// If the binary is not there.
    pub fn start(&mut self, installation: &Installation) {
        self.starts += 1;
        let log = File::create(self.log(self.starts)).expect("a log file");
        let said = File::create(self.said()).expect("a file");
        let mut command = installation.command();
        command.args([self.role, "--log", "info,weir_ingest::sink=debug", "--log-json"]);
        command.env("WEIR__INSTANCE__NAME", &self.name).stdout(said).stderr(log);
        self.child = Some(command.spawn().expect("weir starts"));
    }

    fn log(&self, start: u32) -> PathBuf {
        self.folder.join(format!("{}-{start}.log", self.name))
    }

    /// Where what it says is kept since it was started last.
    fn said(&self) -> PathBuf {
        self.folder.join(format!("{}.out", self.name))
    }

    /// The sum of all that its page of metrics says of a counter; nothing while there is no page.
    #[must_use]
    pub fn counted(&self, counter: &str) -> Option<f64> {
        let said = std::fs::read_to_string(self.said()).ok()?;
        let address = said.lines().find_map(|line| line.strip_prefix("metrics and health on http://"))?;
        let page = page(address).ok()?;
        let of_counter = |line: &str| line.strip_prefix(counter).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let values =
            page.lines().filter(|line| of_counter(line)).map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Kills it, as a crash of the machine would.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        assert!(child.try_wait().expect("it is ours").is_none(), "{} ended by itself", self.name);
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }

    /// Asks it to end, as supervisors do, and waits until it has; its exit code.
    ///
    /// # Panics
    /// If it does not run, or not end within 60 s.
    pub async fn stop(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("it runs");
        output(Command::new("kill").args(["-TERM", &child.id().to_string()])).expect("it is ours");
        let what = format!("the end of {}", self.name);
        wait_until(&what, Duration::from_secs(60), async || child.try_wait().expect("it is ours")).await.code()
    }
}

/// The page of metrics that is shown at an address.
fn page(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _already_gone = child.kill().is_err();
            let _status = child.wait();
        }
        if std::thread::panicking() {
            for start in 1..=self.starts {
                let log = std::fs::read_to_string(self.log(start)).unwrap_or_default();
                let told = log.lines().filter(|line| !line.contains("\"acknowledged\""));
                let told: Vec<&str> = told.collect();
                let last = &told[told.len().saturating_sub(60)..];
                eprintln!("--- {}, start {start}, its last lines\n{}", self.name, last.join("\n"));
            }
        }
    }
}
