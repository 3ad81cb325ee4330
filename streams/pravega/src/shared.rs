//! The state of an open log, and the questions that all its handles ask.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use pravega_client::byte::ByteReader;
use pravega_client_shared::{ScopedStream, StreamCut};
use tokio::time::Instant;
use weir_streams::{Counters, LogError, LogInfo, Position};

use crate::birth::{self, Birth, Streams, cut};
use crate::frame::Seal;
use crate::lane::WeakLane;
use crate::link::{Client, Link, Settings};
use crate::options::PravegaOptions;

/// An open log.
pub(crate) struct Shared {
    pub link: Arc<Link>,
    pub settings: Settings,
    pub client: Client,
    pub info: LogInfo,
    pub seal: Seal,
    pub max_record_bytes: usize,
    pub max_waiting_bytes: usize,
    streams: Streams,
    partitions: Vec<Partition>,
    /// Why nothing can be done with this log any more.
    lost: OnceLock<LogError>,
    /// Since when the record of what it is has been missing.
    missing: Missing,
    /// When the log was last seen to be the one that was opened. Locked while somebody looks.
    confirmed: tokio::sync::Mutex<Instant>,
}

/// One partition.
pub(crate) struct Partition {
    pub stream: ScopedStream,
    pub segment: i64,
    /// What its writers share while there are any.
    pub lane: Mutex<Option<WeakLane>>,
    /// Knows where the segment lives. Kept, since finding out takes several questions.
    probe: tokio::sync::Mutex<Option<Arc<ByteReader>>>,
    truncating: tokio::sync::Mutex<()>,
    /// Since when the stream has been missing.
    pub missing: Missing,
}

/// Since when something has been missing, if it is.
#[derive(Debug, Default)]
pub(crate) struct Missing(Mutex<Option<Instant>>);

impl Missing {
    fn for_how_long(&self) -> Duration {
        lock(&self.0).get_or_insert_with(Instant::now).elapsed()
    }

    pub fn found(&self) {
        *lock(&self.0) = None;
    }
}

/// Where a partition begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub head: u64,
    pub tail: u64,
}

impl Shared {
    pub fn new(link: Arc<Link>, settings: Settings, client: Client, birth: &Birth, options: &PravegaOptions) -> Self {
        let streams = Streams::new(options);
        let partition = |(number, segment): (u32, &i64)| Partition {
            stream: streams.partition(number),
            segment: *segment,
            lane: Mutex::new(None),
            probe: tokio::sync::Mutex::new(None),
            truncating: tokio::sync::Mutex::new(()),
            missing: Missing::default(),
        };
        Self {
            seal: Seal::of(birth.info.incarnation),
            info: birth.info.clone(),
            max_record_bytes: options.max_record_bytes,
            max_waiting_bytes: options.max_waiting_bytes,
            partitions: (0..).zip(&birth.segments).map(partition).collect(),
            lost: OnceLock::new(),
            missing: Missing::default(),
            confirmed: tokio::sync::Mutex::new(Instant::now()),
            link,
            settings,
            client,
            streams,
        }
    }

    pub fn partition(&self, partition: u32) -> Result<&Partition, LogError> {
        let found = usize::try_from(partition).ok().and_then(|at| self.partitions.get(at));
        found.ok_or_else(|| LogError::NoSuchPartition {
            log: self.info.name.clone(),
            partition,
            partitions: self.info.partitions,
        })
    }

    /// Refuses further work once the log is known to be lost.
    pub fn check_alive(&self) -> Result<(), LogError> {
        self.lost.get().map_or(Ok(()), |lost| Err(lost.clone()))
    }

    /// Makes of an error what is to be said. Streams that are missing are in doubt at first, and then lost for good: a server that
    /// is just starting does not find them either.
    pub fn note(&self, missing: &Missing, error: LogError) -> LogError {
        let LogError::Lost { .. } = error else { return error };
        if missing.for_how_long() < self.link.timeouts.gone {
            return self.link.in_doubt(error);
        }
        self.declare_lost(error)
    }

    fn declare_lost(&self, error: LogError) -> LogError {
        let lost = self.lost.get_or_init(|| {
            tracing::error!("{error}");
            error
        });
        lost.clone()
    }

    /// Asks whether the log is still the one that was opened, unless that was seen not long ago. A server that came back empty
    /// and got a log of the same name from somebody else looks the same in every other way.
    pub async fn confirm(&self, not_older_than: Duration) -> Result<(), LogError> {
        self.check_alive()?;
        let mut confirmed = self.confirmed.lock().await;
        if confirmed.elapsed() < not_older_than {
            return self.check_alive();
        }
        let found = birth::read(&self.client, &self.link, &self.streams).await;
        let problem = match found {
            Ok(Some(birth)) if birth.info == self.info => {
                *confirmed = Instant::now();
                self.missing.found();
                return Ok(());
            }
            Ok(Some(birth)) => {
                format!("it is now incarnation {}, not {}", birth.info.incarnation, self.info.incarnation)
            }
            Ok(None) => return Err(self.note(&self.missing, self.link.lost("the record of what it is has gone"))),
            Err(LogError::Occupied { problem, .. }) => problem,
            Err(other) => return Err(self.note(&self.missing, other)),
        };
        // A server that is just starting does not say this.
        Err(self.declare_lost(self.link.lost(problem)))
    }

    /// Where a partition begins and ends.
    pub async fn bounds(&self, partition: u32) -> Result<Bounds, LogError> {
        self.check_alive()?;
        let place = self.partition(partition)?;
        let asked = self.ask_bounds(place).await;
        match asked {
            Ok(bounds) => {
                place.missing.found();
                Ok(bounds)
            }
            Err(error) => {
                // The next question finds out anew where the segment lives.
                *place.probe.lock().await = None;
                Err(self.note(&place.missing, error))
            }
        }
    }

    async fn ask_bounds(&self, place: &Partition) -> Result<Bounds, LogError> {
        let action = format!("ask where stream {} begins and ends", place.stream);
        let probe = self.probe(place, &action).await?;
        let question = async move {
            let head = probe.current_head().await.map_err(|why| why.to_string())?;
            let tail = probe.current_tail().await.map_err(|why| why.to_string())?;
            Ok(Bounds { head, tail })
        };
        self.client.call(&action, question).await
    }

    async fn probe(&self, place: &Partition, action: &str) -> Result<Arc<ByteReader>, LogError> {
        let mut slot = place.probe.lock().await;
        if let Some(probe) = &*slot {
            return Ok(Arc::clone(probe));
        }
        let (factory, stream) = (self.client.small.clone(), place.stream.clone());
        let make = async move {
            let exists = factory.controller_client().check_stream_exists(&stream).await;
            if !exists.map_err(|why| format!("{why:?}"))? {
                return Err(format!("stream not found: {stream}"));
            }
            Ok(Arc::new(factory.create_byte_reader(stream).await))
        };
        let probe = self.client.call(action, make).await?;
        if probe.segment.segment.number != place.segment {
            return Err(self.link.lost(format!("stream {} was made anew", place.stream)));
        }
        *slot = Some(Arc::clone(&probe));
        Ok(probe)
    }

    /// Cuts a partition, never past its end: the server would take that, and then refuse every cut until it is reached.
    pub async fn truncate(&self, partition: u32, before: Position) -> Result<Position, LogError> {
        let place = self.partition(partition)?;
        let _one_at_a_time = place.truncating.lock().await;
        let bounds = self.bounds(partition).await?;
        let target = before.to_raw().min(bounds.tail);
        if target <= bounds.head {
            return Ok(Position::from_raw(bounds.head));
        }
        let cut = StreamCut::new(place.stream.clone(), cut(place.segment, target));
        let factory = self.client.small.clone();
        let order =
            async move { factory.controller_client().truncate_stream(&cut).await.map_err(|why| format!("{why:?}")) };
        let done = self.client.call(&format!("truncate stream {}", place.stream), order).await;
        let now = self.bounds(partition).await?;
        Counters::add(&self.link.counters.bytes_removed, now.head.saturating_sub(bounds.head));
        if now.head < target {
            done.map_err(|error| self.note(&place.missing, error))?;
        }
        Ok(Position::from_raw(now.head))
    }
}

/// A lock whose holders do not panic between two states.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
