//! What the clients said about their connections, and what an error means.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::{ClientContext, consumer::ConsumerContext};
use tracing::{debug, warn};
use weir_streams::LogError;

/// What is wrong with the connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    Down(String),
    Denied(String),
}

/// What all clients of one log know of the server.
#[derive(Debug)]
pub(crate) struct Health {
    server: String,
    trouble: Mutex<Option<Trouble>>,
    troubled: AtomicBool,
    suspicions: AtomicU64,
}

impl Health {
    pub fn new(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            trouble: Mutex::default(),
            troubled: AtomicBool::new(false),
            suspicions: AtomicU64::new(0),
        }
    }

    pub fn server(&self) -> String {
        self.server.clone()
    }

    /// Rises whenever something happened after which the topic may be another one.
    pub fn suspicions(&self) -> u64 {
        self.suspicions.load(Ordering::Acquire)
    }

    pub fn suspect(&self) {
        self.suspicions.fetch_add(1, Ordering::AcqRel);
    }

    /// The server answered. Said with every record, hence cheap.
    pub fn good(&self) {
        if self.troubled.swap(false, Ordering::AcqRel) {
            *self.trouble() = None;
        }
    }

    pub fn current(&self) -> Option<Trouble> {
        self.trouble().clone()
    }

    fn trouble(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what a client says by itself.
    fn note(&self, code: Option<Code>, reason: &str) {
        self.suspect();
        let mut trouble = self.trouble();
        self.troubled.store(true, Ordering::Release);
        match code {
            Some(code) if is_denial(code, reason) => *trouble = Some(Trouble::Denied(reason.to_owned())),
            // It only sums up what was said before.
            Some(Code::AllBrokersDown) => {
                trouble.get_or_insert_with(|| Trouble::Down(reason.to_owned()));
            }
            Some(code) if is_outage(code) && !matches!(*trouble, Some(Trouble::Denied(_))) => {
                *trouble = Some(Trouble::Down(reason.to_owned()));
            }
            _ => {}
        }
    }

    /// What a failed call means. `waited` is how long it was given.
    pub fn explain(&self, action: &str, error: &KafkaError, waited: Duration) -> LogError {
        let (server, action) = (self.server(), action.to_owned());
        let cause = describe(error);
        let Some(code) = error.rdkafka_error_code() else { return self.explain_setting(error, action) };
        if is_denial(code, &cause) {
            return match self.current() {
                Some(Trouble::Denied(cause)) => LogError::Denied { server, action, cause },
                _ => LogError::Denied { server, action, cause },
            };
        }
        if is_outage(code) {
            return match self.current() {
                Some(trouble) => self.troubled(action, trouble),
                None => LogError::Unreachable { server, action, cause },
            };
        }
        if is_lateness(code) {
            return self.late(&action, waited);
        }
        LogError::Server { server, action, cause }
    }

    /// Something took too long: because of the connections, if they are in trouble.
    pub fn late(&self, action: &str, waited: Duration) -> LogError {
        match self.current() {
            Some(trouble) => self.troubled(action.to_owned(), trouble),
            None => LogError::TimedOut {
                server: self.server(),
                action: action.to_owned(),
                waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            },
        }
    }

    fn troubled(&self, action: String, trouble: Trouble) -> LogError {
        let server = self.server();
        match trouble {
            Trouble::Down(cause) => LogError::Unreachable { server, action, cause },
            Trouble::Denied(cause) => LogError::Denied { server, action, cause },
        }
    }

    /// Errors without a code: the client could not be made. Values are left out, since one of them is the password.
    fn explain_setting(&self, error: &KafkaError, action: String) -> LogError {
        let setting = |problem: &str| {
            let (setting, value) =
                if problem.contains("ssl") { ("tls", "its files".to_owned()) } else { ("brokers", self.server()) };
            LogError::Setting { setting, value, problem: format!("is not taken: {problem}") }
        };
        match error {
            KafkaError::ClientConfig(_, problem, key, _) => setting(&format!("{key}: {problem}")),
            KafkaError::ClientCreation(problem) => setting(problem),
            KafkaError::AdminOpCreation(problem) => {
                LogError::Server { server: self.server(), action, cause: problem.clone() }
            }
            other => LogError::Server { server: self.server(), action, cause: other.to_string() },
        }
    }
}

fn describe(error: &KafkaError) -> String {
    error.rdkafka_error_code().map_or_else(|| error.to_string(), |code| code.to_string())
}

/// Whether the server does not let us, so that waiting is in vain.
pub(crate) fn is_denied(error: &KafkaError) -> bool {
    error.rdkafka_error_code().is_some_and(|code| is_denial(code, &describe(error)))
}

/// Whether it is about the consumer group, which the client asks for and we have no use for.
pub(crate) fn is_of_group(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(Code::GroupAuthorizationFailed)
}

fn is_denial(code: Code, reason: &str) -> bool {
    match code {
        Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState
        | Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed => true,
        // A broken connection during the handshake is an outage; a certificate that somebody does not like is none.
        Code::SSL => reason.contains("certificate") || reason.contains("alert") || reason.contains("verify"),
        // What a server says of our certificate comes after the handshake, on a connection that it closes.
        Code::BrokerTransportFailure => reason.contains("SSL alert") && !reason.contains("internal error"),
        _ => false,
    }
}

fn is_outage(code: Code) -> bool {
    matches!(
        code,
        Code::BrokerTransportFailure
            | Code::Resolve
            | Code::AllBrokersDown
            | Code::SSL
            | Code::NetworkException
            | Code::BrokerNotAvailable
            | Code::UnknownBroker
    )
}

fn is_lateness(code: Code) -> bool {
    matches!(
        code,
        Code::OperationTimedOut
            | Code::RequestTimedOut
            | Code::MessageTimedOut
            | Code::TimedOutQueue
            | Code::LeaderNotAvailable
            | Code::WaitCache
            // Said by the client itself, while it does not know who leads.
            | Code::UnknownTopic
            | Code::UnknownPartition
    )
}

/// Whether the topic, or a partition of it, is not there.
pub(crate) fn is_gone(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicId)
    )
}

/// Listens to clients that only read and ask.
pub(crate) struct Listener(pub std::sync::Arc<Health>);

impl ClientContext for Listener {
    fn error(&self, error: KafkaError, reason: &str) {
        heard(&self.0, &error, reason);
    }

    fn log(&self, _: RDKafkaLogLevel, facility: &str, line: &str) {
        client_line(facility, line);
    }
}

impl ConsumerContext for Listener {}

/// A line that a client would log. What matters of it comes as an error as well, and is told once by whoever asked; all else is
/// advice about settings that are meant as they are.
pub(crate) fn client_line(facility: &str, line: &str) {
    debug!(facility, line, "Kafka client");
}

/// Takes note of an error that a client reports by itself.
pub(crate) fn heard(health: &Health, error: &KafkaError, reason: &str) {
    let code = error.rdkafka_error_code();
    // Said when nothing else is wrong too: an idle connection was closed.
    match code {
        Some(Code::Fatal) => warn!(server = %health.server, reason, "Kafka client stopped"),
        _ => debug!(server = %health.server, reason, "Kafka client reports"),
    }
    health.note(code, reason);
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITED: Duration = Duration::from_millis(1_500);

    fn code_of(health: &Health, code: Code) -> &'static str {
        health.explain("append", &KafkaError::MessageProduction(code), WAITED).code()
    }

    #[test]
    fn errors_are_told_apart() {
        let health = Health::new("kafka:9092");
        for (code, expected) in [
            (Code::BrokerTransportFailure, "WR0220"),
            (Code::Resolve, "WR0220"),
            (Code::OperationTimedOut, "WR0221"),
            (Code::RequestTimedOut, "WR0221"),
            (Code::Authentication, "WR0222"),
            (Code::TopicAuthorizationFailed, "WR0222"),
            (Code::ClusterAuthorizationFailed, "WR0222"),
            (Code::PolicyViolation, "WR0223"),
            (Code::NotEnoughReplicas, "WR0223"),
            (Code::Fatal, "WR0223"),
        ] {
            assert_eq!(code_of(&health, code), expected, "{code}");
        }
    }

    #[test]
    fn a_time_out_is_explained_by_what_the_connections_say() {
        let health = Health::new("kafka:9092");
        heard(&health, &KafkaError::Global(Code::BrokerTransportFailure), "Connection refused");
        heard(&health, &KafkaError::Global(Code::AllBrokersDown), "1/1 brokers are down");
        let error = health.late("append to log metrics", WAITED);
        assert_eq!(
            error.to_string(),
            "WR0220: cannot append to log metrics: kafka:9092 does not answer (Connection refused); check that it runs \
             and that its address is right"
        );
        heard(&health, &KafkaError::Global(Code::SSL), "certificate verify failed");
        heard(&health, &KafkaError::Global(Code::BrokerTransportFailure), "Disconnected");
        assert_eq!(health.late("append", WAITED).code(), "WR0222");
        health.good();
        assert_eq!(health.late("append", WAITED).code(), "WR0221");
        assert_eq!(health.suspicions(), 4);
        let alert = "Receive failed: error:0A000412:SSL routines::sslv3 alert bad certificate: SSL alert number 42";
        heard(&health, &KafkaError::Global(Code::BrokerTransportFailure), alert);
        assert_eq!(health.late("append", WAITED).code(), "WR0222");
    }

    #[test]
    fn a_client_that_cannot_be_made_is_a_setting_and_shows_no_value() {
        let health = Health::new("kafka:9092");
        let creation = KafkaError::ClientCreation("ssl.ca.location failed: no start line".into());
        let error = health.explain("open", &creation, WAITED);
        assert_eq!(error.code(), "WR0225");
        assert!(error.to_string().contains("no start line"), "{error}");
    }
}
