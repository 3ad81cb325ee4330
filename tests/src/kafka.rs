//! A real Kafka broker of our own.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Authority;
use crate::cluster::output;
use crate::kafka_rights::{self as rights, KafkaRight};

/// One real Kafka broker. It ends, with its folder, when this is dropped, and also when the test's process dies.
pub struct KafkaBroker {
    folder: PathBuf,
    address: String,
    guard: Child,
}

impl KafkaBroker {
    /// Who may log in at the secure listener, and do everything.
    pub const USER: &str = "weir";
    /// Who may log in there as well, and has no rights but those that were given by [`KafkaBroker::set_rights`].
    pub const GUEST: &str = "guest";
    /// The password of both.
    pub const PASSWORD: &str = "not-a-secret";

    /// Starts a broker and waits until it serves requests.
    ///
    /// # Panics
    /// If it does not start; the end of its log is shown.
    #[must_use]
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("weir-kafka-").tempdir().expect("a temporary folder").keep();
        let mut broker = Self { guard: guard(&folder), folder, address: String::new() };
        broker.write_certificates();
        broker.restart();
        broker
    }

    /// Starts it again after [`KafkaBroker::kill`], under the same addresses and with its data.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        let mut run = self.script("run.sh");
        run.env("SECURE", &self.folder);
        let login = |user: &str| format!("name={user},password={}", Self::PASSWORD);
        run.env("SECURE_USERS", format!("{} {}", login(Self::USER), login(Self::GUEST)));
        // For machines that are busy with something else.
        run.env("START_SECONDS", "180");
        // Dropping the broker shows its log.
        self.address = output(&mut run).unwrap_or_else(|why| panic!("Kafka did not start: {why}"));
    }

    /// Ends it as a crash does.
    pub fn kill(&self) {
        output(self.script("stop.sh").arg("KILL")).unwrap_or_else(|why| panic!("{why}"));
    }

    /// Stops it where it is, as a machine that hangs.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on after [`KafkaBroker::pause`].
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    /// `host:port` of the listener without encryption.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// `host:port` of the listener with TLS that wants a password: SCRAM-SHA-512, SCRAM-SHA-256, or PLAIN.
    ///
    /// # Panics
    /// If the broker never started.
    #[must_use]
    pub fn secure_address(&self) -> String {
        self.address_in("secure-port")
    }

    /// `host:port` of the listener with TLS that wants a certificate instead of a password.
    ///
    /// # Panics
    /// If the broker never started.
    #[must_use]
    pub fn mutual_address(&self) -> String {
        self.address_in("mutual-port")
    }

    /// The certificate of whoever signed those of the listeners with TLS, and the one of the user.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// The certificate of [`KafkaBroker::USER`], and its key.
    #[must_use]
    pub fn user_certificate(&self) -> (PathBuf, PathBuf) {
        (self.folder.join("user.pem"), self.folder.join("user.key"))
    }

    /// Gives [`KafkaBroker::GUEST`] these rights on the topics whose names begin with `prefix`, and takes all others.
    ///
    /// # Panics
    /// If the broker refuses.
    pub fn set_rights(&self, prefix: &str, rights: &[KafkaRight]) {
        rights::set(&self.address, Self::GUEST, prefix, rights).unwrap_or_else(|why| panic!("{why}"));
    }

    /// The folder with the broker's configuration, data and log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn write_certificates(&self) {
        let write = |name: &str, text: String| {
            fs::write(self.folder.join(name), text).expect("a file in the temporary folder");
        };
        let authority = Authority::make();
        let (broker, user) = (authority.server("127.0.0.1"), authority.user(Self::USER));
        write("broker.pem", format!("{}{}", broker.key, broker.certificate));
        write("user.pem", user.certificate);
        write("user.key", user.key);
        write("authority.pem", authority.pem());
    }

    fn address_in(&self, file: &str) -> String {
        format!("127.0.0.1:{}", fs::read_to_string(self.folder.join(file)).expect("a port").trim())
    }

    fn signal(&self, signal: &str) {
        let pid = fs::read_to_string(self.folder.join("pid")).expect("a broker that runs");
        output(Command::new("kill").args([signal, pid.trim()])).unwrap_or_else(|why| panic!("{why}"));
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new(script(name));
        command.env("DATA", &self.folder);
        command
    }
}

impl Drop for KafkaBroker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.join("broker.log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("--- end of the broker's log\n{}", lines[lines.len().saturating_sub(25)..].join("\n"));
        }
        // Closing its input is what the guard waits for.
        drop(self.guard.stdin.take());
        if !self.guard.wait().is_ok_and(|status| status.success()) {
            eprintln!("the broker in {} may not have ended", self.folder.display());
        }
    }
}

/// A process that ends the broker and removes its folder once this process lets go of it, or is gone. It is out of reach of
/// a Ctrl-C, which would otherwise leave the broker behind.
fn guard(folder: &Path) -> Child {
    let work = "cat > /dev/null; \"$1\" KILL; rm -rf \"$DATA\"";
    let mut command = Command::new("bash");
    command.args(["-c", work, "guard"]).arg(script("stop.sh")).env("DATA", folder);
    command.stdin(Stdio::piped()).process_group(0).spawn().expect("bash")
}

/// A script of `dev/kafka`.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dev/kafka").join(name)
}
