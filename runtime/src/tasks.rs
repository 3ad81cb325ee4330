//! Named tasks that end together.

use std::time::Duration;

use thiserror::Error;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

/// Tasks of one process: when one fails all are told to stop, and when all have ended so has the process.
pub struct Tasks {
    stop: CancellationToken,
    running: JoinSet<(&'static str, Result<(), String>)>,
}

/// A task ended badly, and took the others with it.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{task} stopped: {why}")]
pub struct TaskFailure {
    /// Name of the task.
    pub task: &'static str,
    /// Why it stopped.
    pub why: String,
}

/// How long tasks may take to end once they are told to.
const GRACE: Duration = Duration::from_secs(4);

impl Tasks {
    /// No tasks yet; all will stop once `stop` is cancelled.
    #[must_use]
    pub fn new(stop: CancellationToken) -> Self {
        Self { stop, running: JoinSet::new() }
    }

    /// Starts a task. Its name is told when it fails.
    pub fn spawn<E: std::fmt::Display>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.running.spawn(async move { (name, task.await.map_err(|why| why.to_string())) });
    }

    /// Waits until all tasks have ended. Once they are told to stop they have a few seconds, then they are dropped.
    ///
    /// # Errors
    /// The first failure, also a panic, of any of them.
    pub async fn join(mut self) -> Result<(), TaskFailure> {
        let mut first_failure = None;
        loop {
            let ended = tokio::select! {
                ended = self.running.join_next() => ended,
                () = out_of_patience(&self.stop) => {
                    error!("some tasks did not end in time and are dropped");
                    self.running.shutdown().await;
                    None
                }
            };
            let failure = match ended {
                None => return first_failure.map_or(Ok(()), Err),
                Some(Ok((task, Ok(())))) => {
                    debug!(task, "task ended");
                    continue;
                }
                Some(Ok((task, Err(why)))) => TaskFailure { task, why },
                Some(Err(panic)) => TaskFailure { task: "a task", why: panic.to_string() },
            };
            error!(task = failure.task, why = failure.why, "task failed");
            first_failure.get_or_insert(failure);
            self.stop.cancel();
        }
    }
}

/// Ends a while after the stop.
async fn out_of_patience(stop: &CancellationToken) {
    stop.cancelled().await;
    #[expect(clippy::disallowed_methods, reason = "a stop is a matter of the real process, whatever its clock shows")]
    tokio::time::sleep(GRACE).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn one_failure_stops_all_and_is_told() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        let told = stop.clone();
        tasks.spawn("patient", async move {
            told.cancelled().await;
            Ok::<(), String>(())
        });
        tasks.spawn("broken", async { Err("disk full") });
        assert_eq!(tasks.join().await, Err(TaskFailure { task: "broken", why: "disk full".into() }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_hangs_does_not_hold_the_stop_up() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        tasks.spawn("deaf", pending::<Result<(), String>>());
        stop.cancel();
        assert_eq!(tasks.join().await, Ok(()));
    }
}
