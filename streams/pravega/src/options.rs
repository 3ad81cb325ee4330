//! How a log on Pravega is opened.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_streams::LogError;

use crate::frame::LARGEST_PAYLOAD;

/// How long records are kept. The server applies it in its own time (every half an hour unless it is told otherwise).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retention {
    /// For ever, or until they are truncated.
    #[default]
    All,
    /// For this many milliseconds.
    Age(i64),
    /// As long as a partition holds no more than this many bytes.
    Bytes(u64),
}

/// How this program makes itself known to the server. What is secret is never shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum Auth {
    /// Not at all.
    #[default]
    None,
    /// By name and password.
    Password {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// By a token: base64 of `name:password`, or whatever the server's handler of `Basic` takes.
    Token(String),
    /// By Keycloak, whose client file (`keycloak.json`) lies there.
    Keycloak(PathBuf),
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Password { user, .. } => f.debug_struct("Password").field("user", user).finish_non_exhaustive(),
            Self::Token(_) => f.write_str("Token(..)"),
            Self::Keycloak(path) => f.debug_tuple("Keycloak").field(path).finish(),
        }
    }
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// A question to the server: heads, tails, streams, truncation.
    pub call: Duration,
    /// From the hand-over of a record to its acknowledgement. The client itself would wait for ever.
    pub acknowledgement: Duration,
    /// How long a connection may be quiet before it is asked whether the log is still the one that was opened.
    pub quiet: Duration,
    /// How long the streams have to be missing until the log counts as lost. A server that is just starting may say for some
    /// seconds that they are not there; one that says that the name belongs to another log is believed at once.
    pub gone: Duration,
    /// The first pause before a writer or reader that failed is made anew. It doubles with each failure.
    pub first_pause: Duration,
    /// The longest such pause.
    pub longest_pause: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(15),
            acknowledgement: Duration::from_secs(15),
            quiet: Duration::from_secs(5),
            gone: Duration::from_secs(20),
            first_pause: Duration::from_millis(200),
            longest_pause: Duration::from_secs(5),
        }
    }
}

impl Timeouts {
    /// Without time for an answer every question fails, and with more than anybody waits for none ever does.
    fn problems(&self) -> impl Iterator<Item = LogError> {
        let both = [("call_timeout_ms", self.call), ("ack_timeout_ms", self.acknowledgement)];
        let wrong = both.into_iter().filter(|(_, value)| !(100..=600_000).contains(&value.as_millis()));
        wrong.map(|(name, value)| setting(name, value.as_millis(), "has to be between 100 and 600000"))
    }
}

/// What [`crate::PravegaLog::open`] needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PravegaOptions {
    /// The address of the controller: `tcp://host:port`, or `tls://host:port`.
    pub controller: String,
    /// The scope, which is made if it is not there.
    pub scope: String,
    /// The streams are `<prefix>-meta`, `<prefix>-00`, `<prefix>-01` and so on.
    pub prefix: String,
    /// How many partitions the log has. Fixed when it is made.
    pub partitions: u32,
    /// Whether a log is made where there is none, and its retention brought in line. Without it nothing is changed: for whoever only
    /// looks.
    pub create: bool,
    /// The largest record that is taken, at most 8 MiB less 1 KiB.
    pub max_record_bytes: usize,
    /// How long records are kept.
    pub retention: Retention,
    /// How this program makes itself known.
    pub auth: Auth,
    /// The certificates to trust, a PEM file. Needed with `tls://`, and only then.
    pub tls: Option<PathBuf>,
    /// Bytes of one partition that may wait for their acknowledgement; appends beyond wait. Between 1 and 14 MiB.
    pub max_waiting_bytes: usize,
    /// How long things may take.
    pub timeouts: Timeouts,
}

impl Default for PravegaOptions {
    fn default() -> Self {
        Self {
            controller: "tcp://127.0.0.1:9090".to_owned(),
            scope: "weir".to_owned(),
            prefix: "log".to_owned(),
            partitions: 4,
            create: true,
            max_record_bytes: 1024 * 1024,
            retention: Retention::All,
            auth: Auth::None,
            tls: None,
            max_waiting_bytes: 8 * 1024 * 1024,
            timeouts: Timeouts::default(),
        }
    }
}

/// The address of a controller, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub tls: bool,
    pub host: String,
    pub port: u16,
}

impl PravegaOptions {
    /// The name of the log, for messages.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.scope, self.prefix)
    }

    /// Refuses what the client would panic about, or the server refuse with fewer words.
    pub(crate) fn check(&self) -> Result<Address, LogError> {
        if let Some(problem) = self.problems().into_iter().next() {
            return Err(problem);
        }
        if let Auth::Keycloak(path) = &self.auth {
            check_keycloak(path)?;
        }
        self.address()
    }

    /// Everything that cannot be followed, before any file is looked at. Settings are called as in the configuration.
    #[must_use]
    pub fn problems(&self) -> Vec<LogError> {
        let checks = [
            check_name(&self.scope, &self.scope),
            check_name(&self.prefix, &self.name()),
            self.check_partitions(),
            self.check_record_bytes(),
            self.check_queue_bytes(),
            self.check_retention(),
            self.check_token(),
            self.address().and_then(|address| self.check_tls(&address)),
        ];
        checks.into_iter().filter_map(Result::err).chain(self.timeouts.problems()).collect()
    }

    /// The client panics over what cannot stand in a header.
    fn check_token(&self) -> Result<(), LogError> {
        match &self.auth {
            Auth::Token(token) if token.is_empty() || !token.chars().all(|it| it.is_ascii_graphic()) => {
                let problem = "must be one word without blanks or line breaks: base64 of `user:password`";
                Err(setting("auth.token", "(hidden)", problem))
            }
            _ => Ok(()),
        }
    }

    fn check_partitions(&self) -> Result<(), LogError> {
        if (1..=100).contains(&self.partitions) {
            return Ok(());
        }
        Err(setting("partitions", self.partitions, "must lie between 1 and 100"))
    }

    fn check_record_bytes(&self) -> Result<(), LogError> {
        if (1..=LARGEST_PAYLOAD).contains(&self.max_record_bytes) {
            return Ok(());
        }
        let problem = format!("must lie between 1 and {LARGEST_PAYLOAD}: Pravega appends 8 MiB in one piece at most");
        Err(setting("max_record_bytes", self.max_record_bytes, &problem))
    }

    fn check_queue_bytes(&self) -> Result<(), LogError> {
        if (1 << 20..=14 << 20).contains(&self.max_waiting_bytes) {
            return Ok(());
        }
        Err(setting("queue_bytes", self.max_waiting_bytes, "must lie between 1 and 14 MiB"))
    }

    fn check_retention(&self) -> Result<(), LogError> {
        match self.retention {
            Retention::Age(ms) if ms <= 0 => Err(setting("retain_age_ms", ms, "must be positive")),
            Retention::Bytes(bytes) if bytes == 0 || i64::try_from(bytes).is_err() => {
                Err(setting("retain_bytes", bytes, "is no size that the server can keep to"))
            }
            _ => Ok(()),
        }
    }

    fn address(&self) -> Result<Address, LogError> {
        let wrong = |problem: &str| setting("controller", &self.controller, problem);
        let (tls, rest) = match self.controller.split_once("://") {
            Some(("tcp" | "pravega", rest)) => (false, rest),
            Some(("tls" | "ssl" | "tcps" | "pravegas", rest)) => (true, rest),
            _ => return Err(wrong("must begin with tcp:// or tls://")),
        };
        if rest.contains(',') {
            return Err(wrong(
                "names several controllers: the client uses one only; put a name that leads to all in front",
            ));
        }
        let Some((host, port)) = rest.rsplit_once(':') else { return Err(wrong("must end with a port, as :9090")) };
        let Ok(port) = port.parse() else { return Err(wrong("must end with a port, as :9090")) };
        let name_characters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let good = literal.map_or_else(|| host.chars().all(name_characters), |v6| v6.parse::<IpAddr>().is_ok());
        if host.is_empty() || !good {
            return Err(wrong("holds no name or address of a host"));
        }
        if tls && host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
            return Err(wrong(
                "is an IP address: the client checks certificates against host names only; use the name",
            ));
        }
        Ok(Address { tls, host: host.to_owned(), port })
    }

    fn check_tls(&self, address: &Address) -> Result<(), LogError> {
        match &self.tls {
            None if address.tls => {
                Err(setting("ca_file", "", "is missing: with tls:// it names the certificates to trust (PEM)"))
            }
            Some(path) if !address.tls => Err(setting(
                "ca_file",
                path.display(),
                "is given, but the controller's address does not begin with tls://",
            )),
            _ => Ok(()),
        }
    }

    /// The certificates to trust.
    pub(crate) fn trust(&self) -> Result<Vec<String>, LogError> {
        let Some(path) = &self.tls else { return Ok(Vec::new()) };
        let text = read(path).map_err(|why| setting("ca_file", path.display(), &format!("cannot be read ({why})")))?;
        if !text.contains("-----BEGIN CERTIFICATE-----") {
            return Err(setting("ca_file", path.display(), "holds no certificate in PEM form"));
        }
        Ok(vec![text])
    }
}

/// The client panics over a file that it cannot use.
fn check_keycloak(path: &Path) -> Result<(), LogError> {
    let wrong = |problem: String| setting("auth.keycloak_file", path.display(), &problem);
    let text = read(path).map_err(|why| wrong(format!("cannot be read ({why})")))?;
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|why| wrong(format!("is not JSON ({why})")))?;
    for key in ["realm", "auth-server-url", "resource", "credentials"] {
        if json.get(key).is_none() {
            return Err(wrong(format!("has no `{key}`: it is not the client file of a Keycloak")));
        }
    }
    Ok(())
}

fn read(path: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}

/// `shown`: what the server would call it.
fn check_name(name: &str, shown: &str) -> Result<(), LogError> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if !name.is_empty() && name.len() <= 200 && name.chars().all(good) {
        return Ok(());
    }
    Err(setting("scope", shown, "must consist of letters, digits, `-` and `.`"))
}

pub(crate) fn setting(setting: &'static str, value: impl fmt::Display, problem: &str) -> LogError {
    LogError::Setting { setting, value: value.to_string(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut PravegaOptions)) -> String {
        let mut options = PravegaOptions::default();
        change(&mut options);
        let error = options.check().expect_err("a refusal");
        assert_eq!(error.code(), "WR0225");
        error.to_string()
    }

    type Change = fn(&mut PravegaOptions);

    #[test]
    fn what_cannot_be_followed_is_refused_with_the_setting() {
        let cases: [(&str, Change); 16] = [
            ("scope", |options| options.scope = "a/b".into()),
            ("scope", |options| options.prefix = String::new()),
            ("partitions", |options| options.partitions = 0),
            ("max_record_bytes", |options| options.max_record_bytes = 8 << 20),
            ("queue_bytes", |options| options.max_waiting_bytes = 16 << 20),
            ("retain_age_ms", |options| options.retention = Retention::Age(0)),
            ("retain_bytes", |options| options.retention = Retention::Bytes(u64::MAX)),
            ("call_timeout_ms", |options| options.timeouts.call = Duration::ZERO),
            ("call_timeout_ms", |options| options.timeouts.call = Duration::from_secs(601)),
            ("ack_timeout_ms", |options| options.timeouts.acknowledgement = Duration::from_millis(99)),
            ("ack_timeout_ms", |options| options.timeouts.acknowledgement = Duration::from_millis(u64::MAX)),
            ("controller", |options| options.controller = "localhost:9090".into()),
            ("controller", |options| options.controller = "tcp://localhost".into()),
            ("controller", |options| options.controller = "tcp://a:1,b:2".into()),
            ("ca_file", |options| options.controller = "tls://localhost:9090".into()),
            ("ca_file", |options| options.tls = Some("ca.pem".into())),
        ];
        for (name, change) in cases {
            let text = refused(change);
            assert!(text.contains(&format!("log setting {name} = ")), "{text}");
        }
    }

    #[test]
    fn addresses_that_make_the_client_panic_are_refused() {
        for host in ["127.0.0.1", "[::1]"] {
            let text = refused(|options| {
                options.controller = format!("tls://{host}:9090");
                options.tls = Some("ca.pem".into());
            });
            assert!(text.contains("use the name"), "{text}");
        }
        let options = PravegaOptions { tls: Some("/nowhere/ca.pem".into()), ..PravegaOptions::default() };
        assert_eq!(options.trust().expect_err("a refusal").code(), "WR0225");
        for token in ["", "two words", "d2Vpcjp4\n"] {
            let text = refused(|options| options.auth = Auth::Token(token.into()));
            assert!(text.contains("log setting auth.token = ") && !text.contains("d2Vp"), "{text}");
        }
        let text = refused(|options| options.auth = Auth::Keycloak("/nowhere/keycloak.json".into()));
        assert!(text.contains("cannot be read"), "{text}");
    }

    #[test]
    fn addresses_are_taken_apart() {
        let at =
            |controller: &str| PravegaOptions { controller: controller.into(), ..PravegaOptions::default() }.address();
        let address = |tls, host: &str, port| Address { tls, host: host.into(), port };
        assert_eq!(at("tcp://127.0.0.1:9090").unwrap(), address(false, "127.0.0.1", 9090));
        assert_eq!(at("tcp://[::1]:9090").unwrap(), address(false, "[::1]", 9090));
        assert_eq!(at("tls://pravega.example.com:443").unwrap(), address(true, "pravega.example.com", 443));
    }

    #[test]
    fn secrets_are_not_shown() {
        let password = Auth::Password { user: "weir".into(), password: "hunter2".into() };
        for auth in [password, Auth::Token("hunter2".into())] {
            let shown = format!("{:?}", PravegaOptions { auth, ..PravegaOptions::default() });
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
