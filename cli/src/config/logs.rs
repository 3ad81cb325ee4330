//! Which log carries metrics and events, and how it is reached.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use weir_outbox::METRICS;
use weir_streams::{EmbeddedOptions, LogError};

use super::tables::Findings;

/// Where metrics and events are kept: `kind` in `[log]`, with a section of its own for each server.
#[derive(Debug, Clone)]
pub enum LogChoice {
    /// Files in the folder of data; one process alone may write them.
    Embedded(EmbeddedOptions),
    /// Topics of Kafka.
    Kafka(Box<Kafka>),
    /// Streams of Pravega.
    Pravega(Box<Pravega>),
}

impl Default for LogChoice {
    fn default() -> Self {
        Self::Embedded(EmbeddedOptions::default())
    }
}

/// The smallest limit of records, in bytes: decisions on jobs of many vertices have to pass, and parts of metric batches.
const LEAST_RECORD_BYTES: usize = 64 << 10;

/// What is kept free of a record for the names in its head.
const HEAD_BYTES: usize = 4 << 10;

/// What is wrong with a limit of records.
fn record_limit_problem(max_record_bytes: usize) -> Option<String> {
    // What no log takes at all is told by the log itself.
    (1..LEAST_RECORD_BYTES).contains(&max_record_bytes).then(|| {
        format!(
            "max_record_bytes = {max_record_bytes} must be at least {LEAST_RECORD_BYTES}: what is larger is not published"
        )
    })
}

impl LogChoice {
    /// Whether several processes can write to it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::Embedded(_))
    }

    /// Bytes that fit into one record, whatever its head says of the job.
    #[must_use]
    pub fn room_in_a_record(&self) -> usize {
        let max_record_bytes = match self {
            Self::Embedded(options) => options.max_record_bytes,
            Self::Kafka(kafka) => kafka.max_record_bytes,
            Self::Pravega(pravega) => pravega.max_record_bytes,
        };
        max_record_bytes.saturating_sub(HEAD_BYTES)
    }
}

/// `[kafka]`. The log `metrics` is the topic `<prefix>-metrics`, and so on.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kafka {
    /// Brokers to ask first, `host:port`, separated by commas.
    pub brokers: String,
    /// What the names of the topics begin with.
    pub prefix: String,
    /// Partitions of each log, fixed once it exists.
    pub partitions: u32,
    /// Copies of a new topic; absent: what the brokers make by default.
    pub replication_factor: Option<u16>,
    /// The largest record.
    pub max_record_bytes: usize,
    /// Bytes that the brokers keep of each log.
    pub retain_bytes: u64,
    /// Age up to which they keep records, in milliseconds.
    pub retain_age_ms: u64,
    /// Bytes of each log that may be on their way to the brokers.
    pub queue_bytes: u64,
    /// How long an append may go without any progress, in milliseconds.
    pub delivery_timeout_ms: u64,
    /// How long any other answer may take, in milliseconds.
    pub request_timeout_ms: u64,
    /// Encryption; absent: none.
    pub tls: Option<Tls>,
    /// Log-in; absent: none.
    pub sasl: Option<Sasl>,
}

impl Default for Kafka {
    fn default() -> Self {
        Self {
            brokers: String::new(),
            prefix: "weir".into(),
            partitions: 4,
            replication_factor: None,
            max_record_bytes: 1_000_000,
            retain_bytes: 1 << 30,
            retain_age_ms: 24 * 3_600_000,
            queue_bytes: 32 << 20,
            delivery_timeout_ms: 5_000,
            request_timeout_ms: 4_000,
            tls: None,
            sasl: None,
        }
    }
}

impl Kafka {
    /// What is wrong with it, one sentence each. Files that it names are looked at by whoever opens the log.
    fn problems(&self) -> Vec<String> {
        let mut found = Vec::from_iter(record_limit_problem(self.max_record_bytes));
        if self.brokers.is_empty() {
            found.push("say where it is, as in brokers = \"kafka-1:9092,kafka-2:9092\"".into());
        }
        if self.tls.is_none() && self.sasl.as_ref().is_some_and(|sasl| sasl.mechanism == Mechanism::Plain) {
            found.push(
                "sasl.mechanism = \"plain\" without tls: the password would be sent in the clear; set tls = {}, or use \
                 scram-sha-512"
                    .into(),
            );
        }
        found.extend(self.options(METRICS, false).problems().into_iter().filter_map(told));
        found
    }
}

/// Files for encrypted connections, PEM.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// The authorities to trust; absent: the system's.
    pub ca_file: Option<PathBuf>,
    /// Our own certificate, where brokers ask for one.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
}

/// How to log in at Kafka. The password is never shown.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sasl {
    /// How the password is proved.
    pub mechanism: Mechanism,
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl").field("mechanism", &self.mechanism).field("user", &self.user).finish_non_exhaustive()
    }
}

/// Ways to prove a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// It is sent itself: only with encryption.
    Plain,
    /// SCRAM with SHA-256.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// SCRAM with SHA-512.
    #[serde(rename = "scram-sha-512")]
    ScramSha512,
}

/// `[pravega]`. The log `metrics` is the streams `metrics-00`, `metrics-01` and so on of the scope.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pravega {
    /// The controller, `tcp://host:port` or `tls://host:port`.
    pub controller: String,
    /// The scope, which is made if it is not there.
    pub scope: String,
    /// Partitions of each log, fixed once it exists.
    pub partitions: u32,
    /// The largest record.
    pub max_record_bytes: usize,
    /// Age up to which records are kept, in milliseconds. Pravega takes one limit: this, or `retain_bytes`.
    pub retain_age_ms: Option<i64>,
    /// Bytes that are kept of each log, instead of an age.
    pub retain_bytes: Option<u64>,
    /// Bytes of each partition that may be on their way to the server.
    pub queue_bytes: usize,
    /// How long any answer may take, in milliseconds.
    pub call_timeout_ms: u64,
    /// How long a record may go without being acknowledged, in milliseconds.
    pub ack_timeout_ms: u64,
    /// The authorities to trust with `tls://`, PEM.
    pub ca_file: Option<PathBuf>,
    /// Log-in; absent: none.
    pub auth: Option<PravegaAuth>,
}

impl Default for Pravega {
    fn default() -> Self {
        Self {
            controller: String::new(),
            scope: "weir".into(),
            partitions: 4,
            max_record_bytes: 1 << 20,
            retain_age_ms: None,
            retain_bytes: None,
            queue_bytes: 8 << 20,
            call_timeout_ms: 4_000,
            ack_timeout_ms: 6_000,
            ca_file: None,
            auth: None,
        }
    }
}

impl Pravega {
    /// What is wrong with it, one sentence each. Files that it names are looked at by whoever opens the log.
    fn problems(&self) -> Vec<String> {
        let mut found = Vec::from_iter(record_limit_problem(self.max_record_bytes));
        if self.controller.is_empty() {
            found.push("say where it is, as in controller = \"tcp://pravega:9090\"".into());
        }
        if self.retain_age_ms.is_some() && self.retain_bytes.is_some() {
            found.push("retain_age_ms or retain_bytes: Pravega takes one of them".into());
        }
        #[cfg(feature = "pravega")]
        found.extend(self.options(METRICS, false).problems().into_iter().filter_map(told));
        found
    }
}

/// How to log in at Pravega. What is secret is never shown.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PravegaAuth {
    /// By name and password.
    Password {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// By a token.
    Token(String),
    /// By Keycloak, whose client file lies there.
    KeycloakFile(PathBuf),
}

impl fmt::Debug for PravegaAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { user, .. } => f.debug_struct("Password").field("user", user).finish_non_exhaustive(),
            Self::Token(_) => f.write_str("Token(..)"),
            Self::KeycloakFile(path) => f.debug_tuple("KeycloakFile").field(path).finish(),
        }
    }
}

/// What a log finds wrong with its options, as the configuration says it. That an address is missing was said already.
fn told(why: LogError) -> Option<String> {
    match why {
        LogError::Setting { setting: "brokers" | "controller", value, .. } if value.is_empty() => None,
        LogError::Setting { setting, value, problem } if value.parse::<i64>().is_ok() => {
            Some(format!("{setting} = {value} {problem}"))
        }
        LogError::Setting { setting, value, problem } => Some(format!("{setting} = {value:?} {problem}")),
        LogError::Options { option, value, problem } => Some(format!("{option} = {value} {problem}")),
        other => Some(other.to_string()),
    }
}

/// Takes `[log]`, `[kafka]` and `[pravega]` out of the file.
pub fn choice(table: &mut toml::Table, found: &mut Findings) -> LogChoice {
    let mut log = found.table(table, "log");
    let kind: String = found.take(&mut log, "kind", "[log]").unwrap_or_else(|| "embedded".into());
    let (has_kafka, has_pravega) = (table.contains_key("kafka"), table.contains_key("pravega"));
    let kafka = found.section::<Kafka>(table, "kafka");
    let pravega = found.section::<Pravega>(table, "pravega");
    // Of a section that cannot be read everything that is wrong was said already.
    let (kafka_unread, pravega_unread) = (has_kafka && kafka.is_none(), has_pravega && pravega.is_none());
    for (section, there) in [("kafka", has_kafka), ("pravega", has_pravega)] {
        if there && kind != section {
            let problem =
                format!("[{section}]: nothing uses it while kind = {kind:?} in [log]; set kind = \"{section}\"");
            found.problems.push(problem);
        }
    }
    if kind != "embedded" && !log.is_empty() {
        let keys: Vec<&str> = log.keys().map(String::as_str).collect();
        let keys = keys.join(", ");
        found.problems.push(format!("[log]: {keys} belong to the embedded log; with kind = {kind:?} see [{kind}]"));
    }
    match kind.as_str() {
        "embedded" => {
            let options = found.whole::<EmbeddedOptions>(log, "[log]").unwrap_or_default();
            let limit = record_limit_problem(options.max_record_bytes);
            found.all("[log]", options.problems().into_iter().filter_map(told).chain(limit));
            LogChoice::Embedded(options)
        }
        "kafka" => {
            let kafka = kafka.unwrap_or_default();
            found.all("[kafka]", kafka.problems().into_iter().filter(|_| !kafka_unread));
            LogChoice::Kafka(Box::new(kafka))
        }
        "pravega" => {
            let pravega = pravega.unwrap_or_default();
            found.all("[pravega]", pravega.problems().into_iter().filter(|_| !pravega_unread));
            LogChoice::Pravega(Box::new(pravega))
        }
        other => {
            found.problems.push(format!("[log]: kind = {other:?}: use embedded, kafka or pravega"));
            LogChoice::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(text: &str) -> (LogChoice, Vec<String>) {
        let mut found = Findings::default();
        let choice = choice(&mut text.parse().unwrap(), &mut found);
        (choice, found.problems)
    }

    #[test]
    fn a_server_has_a_section_of_its_own() {
        let (choice, problems) = chosen(
            "[log]\nkind = \"kafka\"\n[kafka]\nbrokers = \"a:1\"\nsasl = {mechanism = \"scram-sha-512\", user = \"u\", password = \"secret\"}",
        );
        assert!(problems.is_empty(), "{problems:?}");
        let shown = format!("{choice:?}");
        assert!(shown.contains("ScramSha512") && !shown.contains("secret"), "{shown}");
        let (choice, problems) = chosen(
            "[log]\nkind = \"pravega\"\n[pravega]\ncontroller = \"tcp://a:1\"\nauth = {password = {user = \"u\", password = \"secret\"}}",
        );
        assert!(problems.is_empty() && choice.is_shared(), "{problems:?}");
        assert!(!format!("{choice:?}").contains("secret"));
    }

    #[test]
    fn what_does_not_fit_together_is_said() {
        for (text, part) in [
            ("[kafka]\nbrokers = \"a:1\"", "set kind = \"kafka\""),
            ("[log]\nkind = \"kafka\"", "brokers"),
            ("[log]\nkind = \"pravega\"", "controller"),
            ("[log]\nkind = \"files\"", "embedded, kafka or pravega"),
            ("[log]\nkind = \"kafka\"\nsegment_bytes = 7\n[kafka]\nbrokers = \"a:1\"", "belong to the embedded log"),
            ("[log]\nkind = \"kafka\"\n[kafka]\nbroker = \"a:1\"", "did you mean brokers"),
            (
                "[log]\nkind = \"kafka\"\n[kafka]\nbrokers = \"a:1\"\n\
                 sasl = {mechanism = \"plain\", user = \"u\", password = \"p\"}",
                "sent in the clear",
            ),
            ("[log]\nmax_record_bytes = 65535", "must be at least 65536"),
            ("[log]\nkind = \"kafka\"\n[kafka]\nbrokers = \"a:1\"\nmax_record_bytes = 65535", "must be at least 65536"),
            (
                "[log]\nkind = \"pravega\"\n[pravega]\ncontroller = \"tcp://a:1\"\nmax_record_bytes = 65535",
                "must be at least 65536",
            ),
            (
                "[log]\nkind = \"pravega\"\n[pravega]\ncontroller = \"tcp://a:1\"\nretain_bytes = 1\nretain_age_ms = 1",
                "takes one of them",
            ),
        ] {
            let (_, problems) = chosen(text);
            assert!(problems.iter().any(|problem| problem.contains(part)), "{text}: {problems:?}");
        }
    }

    #[test]
    fn all_that_a_log_would_refuse_is_said_at_once() {
        let wrong = |text: &str| {
            let (_, problems) = chosen(text);
            problems.iter().map(|it| it.split(" = ").next().unwrap().to_owned()).collect::<Vec<String>>()
        };
        let kafka = "[log]\nkind = \"kafka\"\n[kafka]\nbrokers = \"a:1\"\nprefix = \"a b\"\npartitions = 0\nqueue_bytes = 1\n\
                     request_timeout_ms = 1\nretain_age_ms = 0\ntls = {ca_file = \"/no/such\", key_file = \"/no/such\"}";
        let keys = ["prefix", "partitions", "queue_bytes", "request_timeout_ms", "retain_age_ms", "tls.key_file"];
        assert_eq!(wrong(kafka), keys.map(|key| format!("[kafka]: {key}")));
        assert_eq!(wrong("[log]\npartitions = 0\npoll_ms = 0"), ["[log]: partitions", "[log]: poll_ms"]);
    }

    #[cfg(feature = "pravega")]
    #[test]
    fn all_that_a_log_on_pravega_would_refuse_is_said_at_once() {
        let (_, problems) = chosen(
            "[log]\nkind = \"pravega\"\n[pravega]\ncontroller = \"a:1\"\nscope = \"a b\"\npartitions = 0\nqueue_bytes = 1\nretain_age_ms = 0",
        );
        for key in ["controller", "scope", "partitions", "queue_bytes", "retain_age_ms"] {
            let said = problems.iter().filter(|problem| problem.starts_with(&format!("[pravega]: {key} = ")));
            assert_eq!(said.count(), 1, "{key}: {problems:#?}");
        }
        assert_eq!(problems.len(), 5, "{problems:#?}");
    }

    #[test]
    fn a_section_that_cannot_be_read_is_told_of_once() {
        for kind in ["kafka", "pravega"] {
            let (_, problems) = chosen(&format!("[log]\nkind = {kind:?}\n[{kind}]\npartitions = \"many\""));
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].contains("partitions"), "{problems:?}");
        }
    }
}
