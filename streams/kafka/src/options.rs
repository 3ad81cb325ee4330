//! How a log on Kafka is opened.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rdkafka::ClientConfig;
use weir_streams::LogError;

/// What the server counts for a record beside its payload, at most: lengths, offset, time, and the head of a batch of one.
const RECORD_OVERHEAD: usize = 1024;
/// The largest batch that brokers take by default. A topic takes at least that, so that small records travel together.
const BATCH_BYTES: usize = 1024 * 1024;
const MIB: u64 = 1024 * 1024;

/// How a [`crate::KafkaLog`] is opened, and how its topic is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaOptions {
    /// Brokers to ask first, `host:port`, separated by commas.
    pub brokers: String,
    /// The topic. Beside it lies another one, `<topic>-meta`, that remembers the lives of the log.
    pub topic: String,
    /// Partitions. Fixed when the log is made.
    pub partitions: u32,
    /// Whether a log is made where there is none, and its settings brought in line. Without it nothing is changed: for whoever only
    /// looks.
    pub create: bool,
    /// Copies of a new topic; absent: what the brokers make by default.
    pub replication_factor: Option<u16>,
    /// The largest record that is taken.
    pub max_record_bytes: usize,
    /// Bytes that the server keeps, over all partitions.
    pub retain_bytes: u64,
    /// Age up to which the server keeps records, in milliseconds, by the server's clock.
    pub retain_ms: u64,
    /// Bytes that may be on their way to the server; appends wait while there are more.
    pub queue_bytes: u64,
    /// How long an append may go without any progress, in milliseconds.
    pub delivery_timeout_ms: u64,
    /// How long any other answer of the server may take, in milliseconds.
    pub request_timeout_ms: u64,
    /// Encryption; absent: none.
    pub tls: Option<KafkaTls>,
    /// Log-in; absent: none.
    pub sasl: Option<KafkaSasl>,
}

impl Default for KafkaOptions {
    fn default() -> Self {
        Self {
            brokers: "127.0.0.1:9092".to_owned(),
            topic: "weir-metrics".to_owned(),
            partitions: 4,
            create: true,
            replication_factor: None,
            max_record_bytes: BATCH_BYTES - RECORD_OVERHEAD,
            retain_bytes: 1024 * MIB,
            retain_ms: 24 * 60 * 60 * 1000,
            queue_bytes: 32 * MIB,
            delivery_timeout_ms: 30_000,
            request_timeout_ms: 10_000,
            tls: None,
            sasl: None,
        }
    }
}

/// Files for encrypted connections, all PEM.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KafkaTls {
    /// Who signed the certificates of the brokers; absent: whom this machine trusts.
    pub ca: Option<PathBuf>,
    /// Our own certificate, where brokers ask for one.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

/// How to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaSasl {
    /// In which way the password is proved.
    pub mechanism: SaslMechanism,
    /// The user.
    pub user: String,
    /// The password. It is never shown.
    pub password: String,
}

impl fmt::Debug for KafkaSasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mechanism, user, password: _ } = self;
        f.debug_struct("KafkaSasl").field("mechanism", mechanism).field("user", user).finish_non_exhaustive()
    }
}

/// Ways to prove a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    /// The password itself is sent: only with encryption.
    Plain,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
}

impl SaslMechanism {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl KafkaOptions {
    /// Refuses what cannot be followed, before anybody is asked.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        self.problems().into_iter().next().map_or(Ok(()), Err)?;
        self.check_files()
    }

    /// Everything that cannot be followed, before any file is looked at. Settings are called as in the configuration.
    #[must_use]
    pub fn problems(&self) -> Vec<LogError> {
        let mut found = Vec::new();
        let mut refuse = |setting, value: String, problem: &str| {
            found.push(LogError::Setting { setting, value, problem: problem.to_owned() });
        };
        if self.brokers.split(',').any(|broker| broker.trim().is_empty()) {
            refuse("brokers", self.brokers.clone(), "has to name brokers as host:port, separated by commas");
        }
        if !is_topic_name(&self.topic) {
            let problem =
                "would be the topic: that has to be 1 to 240 letters, digits, `.`, `_` or `-`, and not only dots";
            refuse("prefix", self.topic.clone(), problem);
        }
        if self.partitions == 0 || self.partitions > 10_000 {
            refuse("partitions", self.partitions.to_string(), "has to be between 1 and 10000");
        }
        if self.replication_factor == Some(0) {
            refuse("replication_factor", "0".to_owned(), "has to be at least 1");
        }
        if self.max_record_bytes == 0 || self.max_record_bytes > 512 * BATCH_BYTES {
            refuse("max_record_bytes", self.max_record_bytes.to_string(), "has to be between 1 and 512 MiB");
        }
        let least = length(self.max_record_bytes).saturating_add(length(RECORD_OVERHEAD));
        if self.queue_bytes < least || self.queue_bytes > 1024 * MIB {
            let problem = "has to be at least `max_record_bytes` + 1024, and at most 1 GiB";
            refuse("queue_bytes", self.queue_bytes.to_string(), problem);
        }
        found.extend(self.range_problems());
        found.extend(self.pair_problem());
        found
    }

    /// Times and what is kept.
    fn range_problems(&self) -> impl Iterator<Item = LogError> {
        let most = i64::MAX.unsigned_abs();
        let ranges = [
            ("delivery_timeout_ms", self.delivery_timeout_ms, 100, 600_000),
            ("request_timeout_ms", self.request_timeout_ms, 100, 600_000),
            ("retain_bytes", self.retain_bytes, 1, most),
            ("retain_age_ms", self.retain_ms, 1, most),
        ];
        let outside = ranges.into_iter().filter(|(_, value, least, most)| value < least || value > most);
        outside.map(|(setting, value, least, most)| LogError::Setting {
            setting,
            value: value.to_string(),
            problem: format!("has to be between {least} and {most}"),
        })
    }

    /// A certificate without its key, or the other way round.
    fn pair_problem(&self) -> Option<LogError> {
        let tls = self.tls.as_ref()?;
        match (&tls.cert, &tls.key) {
            (Some(cert), None) => {
                Some(refused_file("tls.cert_file", cert, "needs `tls.key_file` beside it".to_owned()))
            }
            (None, Some(key)) => Some(refused_file("tls.key_file", key, "needs `tls.cert_file` beside it".to_owned())),
            _ => None,
        }
    }

    fn check_files(&self) -> Result<(), LogError> {
        let Some(tls) = &self.tls else { return Ok(()) };
        for (setting, path) in [("tls.ca_file", &tls.ca), ("tls.cert_file", &tls.cert), ("tls.key_file", &tls.key)] {
            let Some(path) = path else { continue };
            if let Err(why) = std::fs::File::open(path) {
                return Err(refused_file(setting, path, format!("cannot be read: {why}")));
            }
        }
        Ok(())
    }

    pub(crate) fn meta_topic(&self) -> String {
        format!("{}-meta", self.topic)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    pub(crate) fn delivery_timeout(&self) -> Duration {
        Duration::from_millis(self.delivery_timeout_ms)
    }

    /// What a batch may be as large as.
    fn message_bytes(&self) -> usize {
        BATCH_BYTES.max(self.max_record_bytes + RECORD_OVERHEAD)
    }

    /// What the topic has to be like, beside its number of partitions.
    pub(crate) fn topic_settings(&self) -> Vec<(&'static str, String)> {
        let partition_bytes = (self.retain_bytes / u64::from(self.partitions.max(1))).max(1);
        // Only whole segments are given up; the one that is written to is never.
        let segment_bytes = (partition_bytes / 8).clamp(length(self.message_bytes()).max(MIB), 1024 * MIB);
        let segment_ms = (self.retain_ms / 8).clamp(600_000, 7 * 24 * 60 * 60 * 1000);
        vec![
            ("cleanup.policy", "delete".to_owned()),
            ("max.message.bytes", self.message_bytes().to_string()),
            // The server's own time: retention then cannot be misled by the clocks of writers, and the server can tell
            // repetitions for as long as it promises. The writer's time travels in the record.
            ("message.timestamp.type", "LogAppendTime".to_owned()),
            ("retention.bytes", partition_bytes.to_string()),
            ("retention.ms", self.retain_ms.to_string()),
            ("segment.bytes", segment_bytes.to_string()),
            ("segment.ms", segment_ms.to_string()),
        ]
    }

    /// What every client is told.
    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", "weir")
            // A topic is made by us, with all of its settings, or not at all.
            .set("allow.auto.create.topics", "false")
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "2000")
            .set("socket.timeout.ms", self.request_timeout_ms.max(10_000).to_string())
            .set("socket.connection.setup.timeout.ms", self.request_timeout_ms.max(1_000).to_string())
            .set("topic.metadata.refresh.interval.ms", "60000");
        let protocol = match (&self.tls, &self.sasl) {
            (None, None) => "plaintext",
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        if let Some(KafkaTls { ca, cert, key }) = &self.tls {
            let files = [("ssl.ca.location", ca), ("ssl.certificate.location", cert), ("ssl.key.location", key)];
            for (name, path) in files {
                if let Some(path) = path {
                    config.set(name, path.display().to_string());
                }
            }
        }
        if let Some(KafkaSasl { mechanism, user, password }) = &self.sasl {
            config.set("sasl.mechanism", mechanism.name()).set("sasl.username", user).set("sasl.password", password);
        }
        config
    }

    pub(crate) fn admin_client(&self) -> ClientConfig {
        let mut config = self.client();
        // Nobody takes the log lines of this kind of client.
        config.set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
        config
    }

    pub(crate) fn producer_client(&self) -> ClientConfig {
        let mut config = self.client();
        config
            .set("acks", "all")
            .set("enable.idempotence", "true")
            // A record that fails must not be followed by later ones of its batch.
            .set("enable.gapless.guarantee", "true")
            // Without end, for the same reason: those that were sent first would time out first. Appends have a limit of
            // their own.
            .set("message.timeout.ms", "0")
            .set("message.max.bytes", self.message_bytes().to_string())
            .set("batch.size", self.message_bytes().min(BATCH_BYTES).to_string())
            .set("linger.ms", "1")
            // Ours is the bound that counts.
            .set("queue.buffering.max.kbytes", (self.queue_bytes / 1024 * 2 + 1024).to_string())
            .set("queue.buffering.max.messages", "10000000")
            .set("topic.metadata.propagation.max.ms", self.request_timeout_ms.to_string());
        config
    }

    pub(crate) fn consumer_client(&self) -> ClientConfig {
        let mut config = self.client();
        let ahead = (self.message_bytes() / 1024 * 4).max(4096);
        config
            // The client wants a name here. Nothing is ever committed under it, and nobody joins.
            .set("group.id", "weir")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("fetch.wait.max.ms", "500")
            .set("fetch.error.backoff.ms", "100")
            .set("fetch.queue.backoff.ms", "20")
            .set("fetch.message.max.bytes", self.message_bytes().to_string())
            .set("fetch.max.bytes", (self.message_bytes() * 4).to_string())
            .set("queued.max.messages.kbytes", ahead.to_string());
        config
    }
}

fn refused_file(setting: &'static str, path: &Path, problem: String) -> LogError {
    LogError::Setting { setting, value: path.display().to_string(), problem }
}

fn is_topic_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=240).contains(&name.len()) && name.bytes().all(good) && !name.bytes().all(|byte| byte == b'.')
}

pub(crate) fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_can_be_followed_and_nothing_shows_the_password() {
        let sasl = KafkaSasl { mechanism: SaslMechanism::Plain, user: "ann".into(), password: "hush!".into() };
        let options = KafkaOptions { sasl: Some(sasl), ..KafkaOptions::default() };
        options.check().unwrap();
        let shown = format!("{options:?}");
        assert!(shown.contains("ann") && !shown.contains("hush!"), "{shown}");
    }

    #[test]
    fn settings_that_cannot_be_followed_are_named() {
        let with = |change: fn(&mut KafkaOptions)| {
            let mut options = KafkaOptions::default();
            change(&mut options);
            match options.check() {
                Err(LogError::Setting { setting, .. }) => setting,
                other => panic!("unexpected: {other:?}"),
            }
        };
        assert_eq!(with(|options| options.brokers = "a:1,,b:2".into()), "brokers");
        assert_eq!(with(|options| options.topic = "a topic".into()), "prefix");
        assert_eq!(with(|options| options.topic = "..".into()), "prefix");
        assert_eq!(with(|options| options.partitions = 0), "partitions");
        assert_eq!(with(|options| options.replication_factor = Some(0)), "replication_factor");
        assert_eq!(with(|options| options.max_record_bytes = 0), "max_record_bytes");
        assert_eq!(with(|options| options.queue_bytes = 10), "queue_bytes");
        assert_eq!(with(|options| options.retain_ms = 0), "retain_age_ms");
        assert_eq!(with(|options| options.request_timeout_ms = 1), "request_timeout_ms");
        let missing = |options: &mut KafkaOptions| {
            options.tls = Some(KafkaTls { ca: Some("/no/such/file".into()), ..KafkaTls::default() });
        };
        assert_eq!(with(missing), "tls.ca_file");
    }

    #[test]
    fn settings_of_the_topic_follow_from_the_options() {
        let options = KafkaOptions { partitions: 8, retain_bytes: 8 * 64 * MIB, ..KafkaOptions::default() };
        let settings = options.topic_settings();
        let of = |name: &str| settings.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
        assert_eq!(of("retention.bytes"), Some((64 * MIB).to_string()));
        assert_eq!(of("segment.bytes"), Some((8 * MIB).to_string()));
        assert_eq!(of("max.message.bytes"), Some(BATCH_BYTES.to_string()));
    }
}
