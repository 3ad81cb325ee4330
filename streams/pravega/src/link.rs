//! What all parts of one log share to talk to its server: where it is, how long things may take, what errors mean.

use std::sync::Arc;
use std::time::Duration;

use pravega_client::client_factory::ClientFactoryAsync;
use pravega_client_config::credentials::Credentials;
use pravega_client_config::{ClientConfig, ClientConfigBuilder};
use pravega_client_retry::retry_policy::RetryWithBackoff;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinError;
use weir_streams::{Counters, LogError};

use crate::options::{Address, Auth, PravegaOptions, Timeouts, setting};
use crate::panics::{THREAD_NAME, payload_text, shorten};

/// Bytes that a reader asks for at a time, twice.
const READ_BUFFER: usize = 1024 * 1024;
/// The same where only a few bytes, or none, are wanted.
const SMALL_BUFFER: usize = 4096;

/// What the client says of streams that are not there.
const GONE: [&str; 4] = ["no such segment", "nosuchsegment", "stream not found", "scope not found"];
/// What it says of a server that does not want us, or that we do not trust.
const DENIED: [&str; 6] =
    ["unauthenticated", "permissiondenied", "permission denied", "authtokencheckfailed", "auth token", "certificate"];
/// What it says of silence.
const SILENCE: [&str; 3] = ["requesttimeout", "deadlineexceeded", "timeout expired"];
/// What it says of a server that it cannot talk to.
const NETWORK: [&str; 15] = [
    "unavailable",
    "transport error",
    "refused",
    "could not connect",
    "establishconnection",
    "connectionerror",
    "broken pipe",
    "reset",
    "unable to resolve",
    "eof",
    "connection failed",
    "error trying to connect",
    "getconnectionfrompool",
    "writerequest",
    "readreply",
];

/// The server of a log, as errors name it.
#[derive(Debug)]
pub(crate) struct Link {
    pub server: String,
    pub log: String,
    pub timeouts: Timeouts,
    pub counters: Counters,
}

impl Link {
    pub fn new(options: &PravegaOptions) -> Self {
        Self {
            server: options.controller.clone(),
            log: options.name(),
            timeouts: options.timeouts,
            counters: Counters::default(),
        }
    }

    pub fn unreachable(&self, action: &str, cause: &str) -> LogError {
        LogError::Unreachable { server: self.server.clone(), action: action.to_owned(), cause: shorten(cause) }
    }

    pub fn timed_out(&self, action: &str, waited: Duration) -> LogError {
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        LogError::TimedOut { server: self.server.clone(), action: action.to_owned(), waited_ms }
    }

    pub fn lost(&self, problem: impl Into<String>) -> LogError {
        LogError::Lost { server: self.server.clone(), log: self.log.clone(), problem: problem.into() }
    }

    /// What is said of a log that may be lost, while that is not certain.
    pub fn in_doubt(&self, error: LogError) -> LogError {
        let LogError::Lost { problem, .. } = error else { return error };
        LogError::Server {
            server: self.server.clone(),
            action: "use the streams of the log".to_owned(),
            cause: problem,
        }
    }

    pub fn occupied(&self, name: &str, problem: impl Into<String>) -> LogError {
        LogError::Occupied { server: self.server.clone(), name: name.to_owned(), problem: problem.into() }
    }

    /// What the client says, sorted by what can be done about it. It gives text for most errors, so text is what is looked at.
    pub fn fault(&self, action: &str, text: &str) -> LogError {
        let low = text.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| low.contains(word));
        let (server, action, cause) = (self.server.clone(), action.to_owned(), shorten(text));
        if says(&GONE) {
            self.lost(format!("cannot {action}: {cause}"))
        } else if says(&DENIED) {
            LogError::Denied { server, action, cause }
        } else if says(&SILENCE) {
            self.timed_out(&action, self.timeouts.call)
        } else if says(&NETWORK) {
            LogError::Unreachable { server, action, cause }
        } else {
            LogError::Server { server, action, cause }
        }
    }

    /// What became of a task that did not end by itself.
    pub fn task_fault(&self, action: &str, ended: JoinError) -> LogError {
        match ended.try_into_panic() {
            Ok(payload) => {
                Counters::add(&self.counters.panics_contained, 1);
                self.fault(action, &payload_text(&*payload))
            }
            Err(_) => self.unreachable(action, "the client was closed"),
        }
    }
}

/// Connections, and the threads on which everything of the client runs. What the client spawns ends with it: an append that
/// nobody waits for any more is not sent later, behind its successors.
pub(crate) struct Client {
    runtime: Option<Runtime>,
    /// For questions and single records.
    pub small: ClientFactoryAsync,
    /// For readers and writers.
    pub large: ClientFactoryAsync,
    link: Arc<Link>,
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// Prepares connections; they are made when they are first used.
    pub async fn start(link: &Arc<Link>, settings: &Settings) -> Result<Self, LogError> {
        let action = "start the client";
        let made = Builder::new_multi_thread().worker_threads(1).thread_name(THREAD_NAME).enable_all().build();
        let runtime = made.map_err(|why| link.unreachable(action, &why.to_string()))?;
        let (small, large) = (settings.config(SMALL_BUFFER)?, settings.config(READ_BUFFER)?);
        let handle = runtime.handle().clone();
        // With a log-in, it blocks until it has it.
        let factories = runtime.spawn_blocking(move || {
            let factory = |config| ClientFactoryAsync::new(config, handle.clone());
            (factory(small), factory(large))
        });
        // From here on the runtime ends in the right way, whatever happens.
        let guard = Guard(Some(runtime));
        let limit = link.timeouts.call;
        let done = tokio::time::timeout(limit, factories).await.map_err(|_| link.timed_out(action, limit))?;
        let (small, large) = done.map_err(|ended| link.task_fault(action, ended))?;
        #[cfg(test)]
        settings.rehearse(&[&small, &large]).await;
        Ok(Self { runtime: guard.release(), small, large, link: Arc::clone(link) })
    }

    /// Where the client's tasks run.
    pub fn handle(&self) -> Handle {
        self.small.runtime_handle()
    }

    /// One question to the server: a panic, an error and silence each become a typed error. If this future is dropped, the
    /// question is still brought to its end, since half an answer would spoil the connection.
    pub async fn call<T: Send + 'static>(
        &self,
        action: &str,
        question: impl Future<Output = Result<T, String>> + Send + 'static,
    ) -> Result<T, LogError> {
        let limit = self.link.timeouts.call;
        let task = self.handle().spawn(tokio::time::timeout(limit, question));
        // The second limit is for a client that blocks its thread.
        let patience = limit + Duration::from_millis(500);
        let ended = tokio::time::timeout(patience, task).await.map_err(|_| self.link.timed_out(action, limit))?;
        let answer = ended.map_err(|ended| self.link.task_fault(action, ended))?;
        let answer = answer.map_err(|_| self.link.timed_out(action, limit))?;
        answer.map_err(|text| self.link.fault(action, &text))
    }
}

/// A runtime on its way into a [`Client`].
struct Guard(Option<Runtime>);

impl Guard {
    fn release(mut self) -> Option<Runtime> {
        self.0.take()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// What every client of one log is configured with.
#[derive(Clone)]
pub(crate) struct Settings {
    controller: String,
    tls: bool,
    trust: Vec<String>,
    auth: Auth,
    timeouts: Timeouts,
    /// Streams that the client's own imitation of a controller is to know.
    #[cfg(test)]
    pub rehearsed: Vec<pravega_client_shared::ScopedStream>,
}

#[cfg(test)]
impl Settings {
    async fn rehearse(&self, factories: &[&ClientFactoryAsync]) {
        use pravega_client_shared::{Retention, RetentionType, Scaling, StreamConfiguration};
        for controller in factories.iter().map(|factory| factory.controller_client()) {
            for stream in &self.rehearsed {
                let retention = Retention { retention_type: RetentionType::None, retention_param: 0 };
                let (scoped_stream, scaling) = (stream.clone(), Scaling::default());
                controller.create_scope(&stream.scope).await.unwrap();
                let configuration = StreamConfiguration { scoped_stream, scaling, retention, tags: None };
                controller.create_stream(&configuration).await.unwrap();
            }
        }
    }
}

impl Settings {
    pub fn new(options: &PravegaOptions, address: &Address) -> Result<Self, LogError> {
        Ok(Self {
            controller: format!("{}:{}", address.host, address.port),
            tls: address.tls,
            trust: options.trust()?,
            auth: options.auth.clone(),
            timeouts: options.timeouts,
            #[cfg(test)]
            rehearsed: Vec::new(),
        })
    }

    fn config(&self, buffer: usize) -> Result<ClientConfig, LogError> {
        // Without a last try, some calls would never come back.
        let tries = RetryWithBackoff::default_setting()
            .initial_delay(Duration::from_millis(20))
            .backoff_coefficient(2)
            .max_delay(Duration::from_secs(1))
            .max_attempt(6);
        let credentials = match &self.auth {
            Auth::None => Credentials::basic(String::new(), String::new()),
            Auth::Password { user, password } => Credentials::basic(user.clone(), password.clone()),
            Auth::Token(token) => Credentials::basic_with_token(token.clone()),
            Auth::Keycloak(path) => Credentials::keycloak(&path.display().to_string(), false),
        };
        // All of it is given, since the defaults come from the environment, and panic.
        let mut builder = ClientConfigBuilder::default();
        #[cfg(test)]
        builder.mock(!self.rehearsed.is_empty());
        let built = builder
            .controller_uri(self.controller.as_str())
            .max_controller_connections(1_u32)
            .retry_policy(tries)
            .is_tls_enabled(self.tls)
            .trustcerts(self.trust.clone())
            .is_auth_enabled(self.auth != Auth::None)
            .credentials(credentials)
            .reader_wrapper_buffer_size(buffer)
            .request_timeout(self.timeouts.call)
            .build();
        built.map_err(|why| setting("controller", &self.controller, &format!("is not taken by the client ({why})")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sorted_by_what_can_be_done() {
        let link = Link::new(&PravegaOptions::default());
        let cases = [
            ("SegmentIsTruncated { error_msg: \"No Such Segment\" }", "WR0226"),
            ("status: Unauthenticated, message: \"...\"", "WR0222"),
            ("OperationError { error_msg: \"Unavailable\" }", "WR0220"),
            ("ConnectionError { can_retry: true, error_msg: \"tcp connect error: Connection refused\" }", "WR0220"),
            ("RequestTimeout { source: Elapsed(()) }", "WR0221"),
            ("Operation failed", "WR0223"),
        ];
        for (text, code) in cases {
            assert_eq!(link.fault("look", text).code(), code, "{text}");
        }
    }
}
