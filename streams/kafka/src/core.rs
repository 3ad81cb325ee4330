//! What the handles of one log share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use weir_streams::{Distance, LogError, LogInfo, Position};

use crate::birth;
use crate::record::Life;
use crate::server::{Bounds, Failure, Server, pause};

/// How often a log in use is compared with its birth, when nothing happened that would call for it.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(10);
/// Looks that have to agree before a topic counts as gone, or shortened: a cluster that changes leaders may say so for a moment.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// An open log.
pub(crate) struct Core {
    pub server: Arc<Server>,
    pub info: LogInfo,
    pub life: Life,
    opened: Instant,
    /// Suspicions that have been looked into.
    verified: AtomicU64,
    /// When that was, in milliseconds since the log was opened.
    verified_ms: AtomicU64,
    verifying: AtomicBool,
    /// The last look without an answer. Locked while somebody looks.
    last_failure: tokio::sync::Mutex<Option<(Instant, LogError)>>,
}

impl Core {
    pub fn new(server: Arc<Server>, info: LogInfo, life: Life) -> Self {
        let verified = AtomicU64::new(server.health().suspicions());
        let (verified_ms, verifying) = (AtomicU64::new(0), AtomicBool::new(false));
        let (opened, last_failure) = (Instant::now(), tokio::sync::Mutex::default());
        Self { server, info, life, opened, verified, verified_ms, verifying, last_failure }
    }

    /// Refuses partitions that do not exist; else their number as clients want it.
    pub fn check_partition(&self, partition: u32) -> Result<i32, LogError> {
        let number = i32::try_from(partition).ok().filter(|_| partition < self.info.partitions);
        number.ok_or_else(|| LogError::NoSuchPartition {
            log: self.info.name.clone(),
            partition,
            partitions: self.info.partitions,
        })
    }

    /// Refuses everything once the log is known to be lost.
    pub fn check_lost(&self) -> Result<(), LogError> {
        let Some(problem) = self.server.known().lost() else { return Ok(()) };
        let (server, log) = (self.server.health().server(), self.info.name.clone());
        Err(LogError::Lost { server, log, problem: problem.clone() })
    }

    fn is_due(&self) -> bool {
        let verified = Duration::from_millis(self.verified_ms.load(Ordering::Acquire));
        self.verified.load(Ordering::Acquire) != self.server.health().suspicions()
            || self.opened.elapsed().saturating_sub(verified) > CHECK_EVERY
    }

    /// Makes sure that the topic is still the one that was opened, if there is any reason to doubt it.
    /// Of all who ask at a time one looks, and the others take what it finds.
    pub async fn check_life(&self) -> Result<(), LogError> {
        self.check_lost()?;
        if !self.is_due() {
            return Ok(());
        }
        let asked = Instant::now();
        let mut last = self.last_failure.lock().await;
        if !self.is_due() {
            return self.check_lost();
        }
        if let Some((_, error)) = last.as_ref().filter(|(failed, _)| *failed >= asked) {
            return Err(error.clone());
        }
        let found = self.verify().await;
        *last = found.as_ref().err().map(|error| (Instant::now(), error.clone()));
        found
    }

    /// The same beside everything else: only a finding matters.
    pub fn check_life_soon(self: &Arc<Self>) {
        if !self.is_due() || self.verifying.swap(true, Ordering::AcqRel) {
            return;
        }
        let core = Arc::clone(self);
        tokio::spawn(async move {
            // Without an answer there is no finding; whoever needs the server is told anyway.
            let _finding = core.check_life().await;
            core.verifying.store(false, Ordering::Release);
        });
    }

    /// Compares the topic with the life that was opened.
    pub async fn verify(&self) -> Result<(), LogError> {
        let suspicions = self.server.health().suspicions();
        let mut looks = 1;
        let problem = loop {
            let problem = match birth::is_still(&self.server, &self.life).await {
                Ok(Ok(())) => break None,
                Ok(Err(problem)) => problem,
                // Clients say so as well while a partition has no leader: only the brokers' own word counts.
                Err(Failure { gone: true, error }) => match self.server.describe(&self.info.name).await? {
                    Some(_) => return Err(error),
                    None => "its topic is gone".to_owned(),
                },
                Err(Failure { error, .. }) => return Err(error),
            };
            if looks >= LOOKS {
                break Some(problem);
            }
            looks += 1;
            pause(BETWEEN_LOOKS).await;
        };
        if let Some(problem) = problem {
            self.server.known().lose(problem);
        }
        self.verified.store(suspicions, Ordering::Release);
        let now_ms = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.verified_ms.store(now_ms, Ordering::Release);
        self.check_lost()
    }

    /// Where a partition begins and ends for readers. What was acknowledged or read lies before the end, or the log is lost.
    pub async fn bounds(&self, partition: u32) -> Result<Bounds, LogError> {
        let number = self.check_partition(partition)?;
        self.check_lost()?;
        let mut looks = 1;
        loop {
            let least = self.server.known().tail(partition);
            let bounds = match self.server.bounds(&self.info.name, number).await {
                Ok(bounds) => bounds,
                Err(Failure { gone: true, error }) => {
                    self.verify().await?;
                    return Err(error);
                }
                Err(Failure { error, .. }) => return Err(error),
            };
            if bounds.high >= least {
                // The birth is nothing to be read.
                let hidden = partition == 0 && self.life.born_at == Some(bounds.low) && bounds.low < bounds.high;
                return Ok(Bounds { low: bounds.low + u64::from(hidden), ..bounds });
            }
            if looks >= LOOKS {
                let problem = format!("partition {partition} ends at {}, it ended at {least}", bounds.high);
                self.server.known().lose(problem);
                self.check_lost()?;
            }
            looks += 1;
            pause(BETWEEN_LOOKS).await;
        }
    }

    /// Records between two positions. Positions count records, except for the birth.
    pub fn distance(&self, partition: u32, from: Position, to: Position) -> Distance {
        let (from, to) = (from.to_raw(), to.to_raw());
        let hidden = partition == 0 && self.life.born_at.is_some_and(|born_at| (from..to).contains(&born_at));
        Distance { bytes: None, records: Some(to.saturating_sub(from) - u64::from(hidden)) }
    }
}
