//! What the writers of one partition share: one event writer of the client, watched by a task of its own.
//!
//! The client never gives up by itself: an acknowledgement may stay out for ever. So there is a deadline, after which the
//! client's writer is ended with everything that it still meant to send, and made anew by the next append.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pravega_client::error::Error;
use pravega_client::event::EventWriter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};
use weir_streams::{Counters, LogError};

use crate::link::Client;
use crate::pause::Pause;
use crate::shared::{Shared, lock};

/// An acknowledgement that takes this long may come from a server that was away meanwhile.
const SLOW: Duration = Duration::from_secs(1);

/// Events that are appended together.
pub(crate) struct Job {
    /// The generation of the lane that the first events of the same append saw. What belongs to an append whose beginning has
    /// failed must not be stored.
    pub generation: u64,
    pub events: Vec<Vec<u8>>,
    pub bytes: u64,
    pub deadline: Instant,
    pub done: oneshot::Sender<Result<(), LogError>>,
    /// Its share of the bytes that may wait.
    pub permit: OwnedSemaphorePermit,
}

/// The way into a lane. It ends when all of these are gone.
#[derive(Clone)]
pub(crate) struct Lane {
    jobs: mpsc::UnboundedSender<Job>,
    pub budget: Arc<Semaphore>,
    generation: watch::Receiver<u64>,
}

/// A way into a lane that does not keep it open.
pub(crate) struct WeakLane {
    jobs: mpsc::WeakUnboundedSender<Job>,
    budget: Arc<Semaphore>,
    generation: watch::Receiver<u64>,
}

impl Lane {
    /// The lane of a partition; a new one if there is none, or if it has ended.
    pub fn of(shared: &Arc<Shared>, partition: u32) -> Result<Self, LogError> {
        let mut slot = lock(&shared.partition(partition)?.lane);
        if let Some(lane) = slot.as_ref().and_then(WeakLane::upgrade) {
            return Ok(lane);
        }
        let (jobs, arriving) = mpsc::unbounded_channel();
        let (generation, seen) = watch::channel(0);
        let budget = Arc::new(Semaphore::new(shared.max_waiting_bytes));
        let lane = Self { jobs, budget, generation: seen };
        *slot = Some(WeakLane {
            jobs: lane.jobs.downgrade(),
            budget: Arc::clone(&lane.budget),
            generation: lane.generation.clone(),
        });
        tokio::spawn(Keeper::new(Arc::clone(shared), partition, generation).run(arriving));
        Ok(lane)
    }

    pub fn generation(&self) -> u64 {
        *self.generation.borrow()
    }

    /// Hands a job over. It is given back if the lane has ended.
    pub fn send(&self, job: Job) -> Result<(), ()> {
        self.jobs.send(job).map_err(|_| ())
    }
}

impl WeakLane {
    fn upgrade(&self) -> Option<Lane> {
        let jobs = self.jobs.upgrade().filter(|jobs| !jobs.is_closed())?;
        Some(Lane { jobs, budget: Arc::clone(&self.budget), generation: self.generation.clone() })
    }
}

type Acknowledgement = oneshot::Receiver<Result<(), Error>>;

/// A job whose events have been handed to the client.
struct Flying {
    acknowledgements: VecDeque<Acknowledgement>,
    records: usize,
    bytes: u64,
    since: Instant,
    deadline: Instant,
    done: oneshot::Sender<Result<(), LogError>>,
    _permit: OwnedSemaphorePermit,
}

/// How a writer of the client failed.
enum Failure {
    /// No acknowledgement came in time.
    Late,
    /// Its task is gone.
    Died,
    /// It said why.
    Said(String),
}

/// The client's writer, and the threads that it runs on.
struct Writer {
    events: EventWriter,
    _client: Client,
}

/// The task of a lane.
struct Keeper {
    shared: Arc<Shared>,
    partition: u32,
    writer: Option<Writer>,
    made: u64,
    flying: VecDeque<Flying>,
    pause: Pause,
    generation: watch::Sender<u64>,
    last_failure: Option<LogError>,
    last_acknowledged: Instant,
    /// A writer failed since the log was last seen to be the one that was opened.
    in_doubt: bool,
}

impl Keeper {
    fn new(shared: Arc<Shared>, partition: u32, generation: watch::Sender<u64>) -> Self {
        let pause = Pause::new(&shared.link.timeouts);
        Self {
            shared,
            partition,
            writer: None,
            made: 0,
            flying: VecDeque::new(),
            pause,
            generation,
            last_failure: None,
            last_acknowledged: Instant::now(),
            in_doubt: false,
        }
    }

    async fn run(mut self, mut arriving: mpsc::UnboundedReceiver<Job>) {
        let mut open = true;
        while open || !self.flying.is_empty() {
            tokio::select! {
                biased;
                landed = landing(&mut self.flying) => match landed {
                    Ok(()) => self.landed().await,
                    Err(failure) => self.fail(failure).await,
                },
                job = arriving.recv(), if open => match job {
                    Some(job) => if let Err(failure) = self.take(job).await {
                        self.fail(failure).await;
                    },
                    None => open = false,
                },
            }
        }
    }

    /// Hands the events of a job to the client.
    async fn take(&mut self, job: Job) -> Result<(), Failure> {
        if job.done.is_closed() {
            return Ok(());
        }
        if job.generation != *self.generation.borrow() {
            let why = self.last_failure.clone().unwrap_or_else(|| self.broken("an earlier part of it was not stored"));
            let _gone = job.done.send(Err(why));
            return Ok(());
        }
        if let Err(why) = self.prepare(&job).await {
            self.pause.failed();
            let _gone = job.done.send(Err(why));
            return Ok(());
        }
        let Some(writer) = &mut self.writer else { return Err(Failure::Died) };
        let mut flying = Flying {
            acknowledgements: VecDeque::with_capacity(job.events.len()),
            records: job.events.len(),
            bytes: job.bytes,
            since: Instant::now(),
            deadline: job.deadline,
            done: job.done,
            _permit: job.permit,
        };
        let mut failed = None;
        for event in job.events {
            match timeout_at(job.deadline, writer.events.write_event(event)).await {
                Ok(acknowledgement) => flying.acknowledgements.push_back(acknowledgement),
                Err(_) => failed = Some(Failure::Late),
            }
            if failed.is_some() {
                break;
            }
        }
        self.flying.push_back(flying);
        failed.map_or(Ok(()), Err)
    }

    /// Makes the client's writer if there is none, and looks whether the log is still there if it was quiet for long.
    async fn prepare(&mut self, job: &Job) -> Result<(), LogError> {
        self.shared.check_alive()?;
        let quiet = self.shared.link.timeouts.quiet;
        if self.flying.is_empty() && self.last_acknowledged.elapsed() >= quiet {
            self.shared.confirm(quiet).await?;
        }
        if self.writer.is_some() {
            return Ok(());
        }
        let late = self.shared.link.timed_out(&self.action(), self.shared.link.timeouts.acknowledgement);
        timeout_at(job.deadline, self.pause.over()).await.map_err(|_| late)?;
        if self.in_doubt {
            // A writer on streams that are not there would wait until somebody makes them anew, and write into those.
            self.shared.confirm(Duration::ZERO).await?;
        }
        let client = Client::start(&self.shared.link, &self.shared.settings).await?;
        let stream = self.shared.partition(self.partition)?.stream.clone();
        let events = client.large.create_event_writer(stream);
        self.writer = Some(Writer { events, _client: client });
        if self.made > 0 {
            Counters::add(&self.shared.link.counters.writers_recreated, 1);
        }
        self.made += 1;
        Ok(())
    }

    /// The first job is acknowledged.
    async fn landed(&mut self) {
        let Some(job) = self.flying.pop_front() else { return };
        let mut answer = Ok(());
        if self.in_doubt || job.since.elapsed() >= SLOW.min(self.shared.link.timeouts.quiet) {
            // It may have been another server that took it, or another log of the same name: nobody would ever read it there.
            answer = self.shared.confirm(Duration::ZERO).await;
            self.in_doubt = answer.is_err();
        }
        let counters = &self.shared.link.counters;
        if answer.is_ok() {
            Counters::add(&counters.records_appended, crate::frame::count(job.records));
            Counters::add(&counters.bytes_appended, job.bytes);
        }
        self.last_acknowledged = Instant::now();
        if let Ok(place) = self.shared.partition(self.partition) {
            place.missing.found();
        }
        self.pause.succeeded();
        let _gone = job.done.send(answer);
    }

    /// Ends the client's writer, and tells everybody who waits for an acknowledgement. Jobs that have not been taken yet are told
    /// apart by their generation then: later parts of what has failed are refused, what begins now is welcome.
    async fn fail(&mut self, failure: Failure) {
        // Before anything else: what it has not sent yet must not be sent any more.
        self.writer = None;
        self.in_doubt = true;
        self.pause.failed();
        let counters = &self.shared.link.counters;
        match &failure {
            Failure::Late => Counters::add(&counters.acknowledgements_timed_out, 1),
            Failure::Died => Counters::add(&counters.panics_contained, 1),
            Failure::Said(_) => {}
        }
        let why = self.reason(failure).await;
        tracing::warn!(log = %self.shared.info.name, partition = self.partition, "a writer is made anew: {why}");
        self.last_failure = Some(why.clone());
        self.generation.send_modify(|generation| *generation += 1);
        for job in std::mem::take(&mut self.flying) {
            let _gone = job.done.send(Err(why.clone()));
        }
    }

    /// What the server looks like now says more than the client's writer does.
    async fn reason(&self, failure: Failure) -> LogError {
        let timeouts = &self.shared.link.timeouts;
        let looked = timeout_at(Instant::now() + timeouts.quiet, self.shared.confirm(Duration::ZERO)).await;
        match (failure, looked) {
            (_, Ok(Err(error @ (LogError::Lost { .. } | LogError::Denied { .. })))) => error,
            (Failure::Late, _) => self.shared.link.timed_out(&self.action(), timeouts.acknowledgement),
            (_, Ok(Err(error))) => error,
            (Failure::Said(text), _) => self.missing_or(self.shared.link.fault(&self.action(), &text)),
            (Failure::Died, _) => self.broken("the client broke its connection off"),
        }
    }

    /// A server that is just starting may say of a stream that it is not there.
    fn missing_or(&self, error: LogError) -> LogError {
        match self.shared.partition(self.partition) {
            Ok(place) => self.shared.note(&place.missing, error),
            Err(_) => error,
        }
    }

    fn action(&self) -> String {
        format!("append to partition {}", self.partition)
    }

    fn broken(&self, cause: &str) -> LogError {
        self.shared.link.unreachable(&self.action(), cause)
    }
}

/// Waits for the acknowledgement of the first job. Nothing is lost if this future is dropped.
async fn landing(flying: &mut VecDeque<Flying>) -> Result<(), Failure> {
    let Some(first) = flying.front_mut() else { return std::future::pending().await };
    let waiting = &mut first.acknowledgements;
    let all = async {
        while let Some(next) = waiting.front_mut() {
            match next.await {
                Ok(Ok(())) => waiting.pop_front(),
                Ok(Err(why)) => return Err(Failure::Said(why.to_string())),
                Err(_) => return Err(Failure::Died),
            };
        }
        Ok(())
    };
    timeout_at(first.deadline, all).await.unwrap_or(Err(Failure::Late))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault_tests::rehearsal;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_stream_that_the_client_misses_is_lost_only_if_it_stays_away() {
        let (_store, log) = rehearsal().await;
        let keeper = Keeper::new(Arc::clone(&log.shared), 0, watch::channel(0).0);
        let said = async || keeper.reason(Failure::Said("No such segment".to_owned())).await;
        let first = said().await;
        assert!(matches!(first, LogError::Server { .. }), "{first}");
        let lost = async {
            loop {
                match said().await {
                    LogError::Server { .. } => {}
                    other => return other,
                }
            }
        };
        let lost = tokio::time::timeout(Duration::from_secs(60), lost).await.unwrap();
        assert!(matches!(lost, LogError::Lost { .. }), "{lost}");
    }
}
