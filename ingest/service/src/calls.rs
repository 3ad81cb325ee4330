//! Calls to a JobManager: bounded, counted, their problems counted.

use std::sync::atomic::{AtomicU32, Ordering};

use metrics::counter;
use tokio::sync::Semaphore;
use weir_flink::decode::Decoded;
use weir_flink::{CallError, FlinkClient, FlinkError};
use weir_runtime::telemetry;

/// The typed client with everything that is counted around it.
pub(crate) struct Calls<'a> {
    /// The client; its calls are to be made within [`Calls::ask`].
    pub(crate) client: FlinkClient<'a>,
    cluster: &'a str,
    permits: &'a Semaphore,
    made: AtomicU32,
}

impl<'a> Calls<'a> {
    pub(crate) fn new(client: FlinkClient<'a>, cluster: &'a str, permits: &'a Semaphore) -> Self {
        Self { client, cluster, permits, made: AtomicU32::new(0) }
    }

    /// Calls that were made.
    pub(crate) fn made(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// Makes a call when its turn comes, and counts it and what it refused.
    pub(crate) async fn ask<T>(
        &self,
        call: impl Future<Output = Result<Decoded<T>, FlinkError>>,
    ) -> Result<T, FlinkError> {
        let Decoded { value, problems } = self.counted(call).await?;
        if problems.count() > 0 {
            counter!(telemetry::INPUT_PROBLEMS, "cluster" => self.cluster.to_owned(), "reason" => "value")
                .increment(problems.count());
            tracing::debug!(cluster = self.cluster, count = problems.count(), examples = ?problems.examples(), "values refused");
        }
        Ok(value)
    }

    /// As [`Calls::ask`], for calls whose answer may be that there is nothing.
    pub(crate) async fn ask_for_some<T>(
        &self,
        call: impl Future<Output = Result<Option<Decoded<T>>, FlinkError>>,
    ) -> Result<Option<T>, FlinkError> {
        Ok(self.counted(call).await?.map(|decoded| decoded.value))
    }

    async fn counted<T>(&self, call: impl Future<Output = Result<T, FlinkError>>) -> Result<T, FlinkError> {
        // The semaphore is never closed; without a permit the call is made all the same.
        let _permit = self.permits.acquire().await.ok();
        self.made.fetch_add(1, Ordering::Relaxed);
        let answer = call.await;
        let result = answer.as_ref().map_or_else(result_word, |_| "ok");
        counter!(telemetry::FLINK_CALLS, "cluster" => self.cluster.to_owned(), "result" => result).increment(1);
        answer
    }
}

/// How a failed call is counted.
fn result_word(error: &FlinkError) -> &'static str {
    match error {
        FlinkError::Call { source: CallError::Timeout(_), .. } => "timeout",
        FlinkError::Call { .. } => "unreachable",
        FlinkError::NotFlink { .. } | FlinkError::Undecodable { .. } => "undecodable",
        _ => "refused",
    }
}

/// Why nothing came of a job, as records carry it.
pub(crate) fn silence_reason(error: &FlinkError) -> &'static str {
    match error {
        FlinkError::NotFound { .. } => "gone",
        FlinkError::Call { source: CallError::Timeout(_), .. } => "timeout",
        FlinkError::Call { .. } | FlinkError::Unavailable { .. } | FlinkError::Denied { .. } => "unreachable",
        _ => "undecodable",
    }
}
