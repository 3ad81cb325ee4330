//! The birth of a log: its streams, and the record that says what it is.
//!
//! The record is the first event of a stream of its own, `<prefix>-meta`, which nothing ever truncates. Whoever finds that
//! stream empty appends a record; when two do so at once, the one that came first counts, for both.

use std::collections::HashMap;
use std::time::Duration;

use pravega_client::client_factory::ClientFactoryAsync;
use pravega_client_shared::{
    Retention as StreamRetention, RetentionType, Scaling, Scope, ScopedSegment, ScopedStream, Stream,
    StreamConfiguration,
};
use serde::{Deserialize, Serialize};
use weir_streams::{Incarnation, LogError, LogInfo, PARTITION_HASH};

use crate::frame::{Frames, Seal, envelope};
use crate::link::{Client, Link};
use crate::options::{PravegaOptions, Retention};

/// The version of what is written into the streams. A higher one is refused.
const FORMAT: u64 = 1;

/// What a log is, as it was written down when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Birth {
    format: u64,
    created_ms: i64,
    pub info: LogInfo,
    /// The number of each partition's one segment. A stream that is deleted and made anew gets another one.
    pub segments: Vec<i64>,
}

#[cfg(test)]
impl Birth {
    pub fn rehearsed(info: LogInfo) -> Self {
        let segments = (0..info.partitions).map(|_| 0).collect();
        Self { format: FORMAT, created_ms: 0, info, segments }
    }

    /// The event that says it.
    pub fn event(&self) -> Vec<u8> {
        envelope(Seal::NONE, 0, &serde_json::to_vec(self).unwrap())
    }
}

/// The streams of a log.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    scope: String,
    prefix: String,
}

impl Streams {
    pub fn new(options: &PravegaOptions) -> Self {
        Self { scope: options.scope.clone(), prefix: options.prefix.clone() }
    }

    fn stream(&self, part: &str) -> ScopedStream {
        ScopedStream::new(Scope::from(self.scope.clone()), Stream::from(format!("{}-{part}", self.prefix)))
    }

    pub fn meta(&self) -> ScopedStream {
        self.stream("meta")
    }

    pub fn partition(&self, partition: u32) -> ScopedStream {
        self.stream(&format!("{partition:02}"))
    }
}

/// Makes what is missing, and says what the log is.
pub(crate) async fn open(
    client: &Client,
    link: &Link,
    options: &PravegaOptions,
    now_ms: i64,
) -> Result<Birth, LogError> {
    let streams = Streams::new(options);
    let opening = Opening { client, link, options, streams };
    if !options.create {
        return opening.look().await;
    }
    opening.make_scope().await?;
    opening.make_stream(&opening.streams.meta(), Retention::All).await?;
    let birth = match read(client, link, &opening.streams).await? {
        Some(birth) => birth,
        None => opening.give_birth(now_ms).await?,
    };
    opening.check_facts(&birth)?;
    opening.check_streams(&birth).await?;
    Ok(birth)
}

/// The birth record, if there is one.
pub(crate) async fn read(client: &Client, link: &Link, streams: &Streams) -> Result<Option<Birth>, LogError> {
    let meta = streams.meta();
    let name = meta.to_string();
    let factory = client.small.clone();
    let found = client.call("read what the log is", first_event(factory, meta)).await?;
    let payload = match found {
        FirstEvent::None => return Ok(None),
        FirstEvent::Payload(payload) => payload,
        FirstEvent::Foreign => return Err(link.occupied(&name, "its first event is not one of ours")),
    };
    #[derive(Deserialize)]
    struct Version {
        format: u64,
    }
    let unreadable = |why: serde_json::Error| link.occupied(&name, format!("its first event cannot be read: {why}"));
    let Version { format } = serde_json::from_slice(&payload).map_err(unreadable)?;
    if format > FORMAT {
        return Err(LogError::NewerFormat { path: name.into(), found: format, known: FORMAT });
    }
    serde_json::from_slice(&payload).map(Some).map_err(unreadable)
}

enum FirstEvent {
    None,
    Foreign,
    Payload(Vec<u8>),
}

async fn first_event(factory: ClientFactoryAsync, stream: ScopedStream) -> Result<FirstEvent, String> {
    let exists = factory.controller_client().check_stream_exists(&stream).await;
    if !exists.map_err(|why| format!("{why:?}"))? {
        return Err(format!("stream not found: {stream}"));
    }
    let mut reader = factory.create_byte_reader(stream).await;
    let tail = reader.current_tail().await.map_err(|why| why.to_string())?;
    if tail == 0 {
        return Ok(FirstEvent::None);
    }
    let mut frames = Frames::new(Some(Seal::NONE), 0);
    let mut buffer = vec![0; 4096];
    loop {
        match frames.next() {
            Some(Ok(frame)) => return Ok(FirstEvent::Payload(frame.payload)),
            Some(Err(_)) => return Ok(FirstEvent::Foreign),
            None if frames.end() >= tail => return Ok(FirstEvent::Foreign),
            None => {}
        }
        let length = reader.read(&mut buffer).await.map_err(|why| why.to_string())?;
        frames.push(&buffer[..length]);
        tokio::task::yield_now().await;
    }
}

/// So often a server may call itself at fault, over a stream that is just being made, until it is.
const MOST_FAULTS: u32 = 5;

/// The number of the one segment of a stream; nothing if there is no such stream, or if it has not exactly one.
enum Segment {
    Missing,
    One(i64),
    Several(usize),
}

/// The segments of a stream. One that somebody else is just making is waited for: it exists before it has any, and the server
/// calls it not found, or itself at fault.
async fn segments(factory: &ClientFactoryAsync, stream: &ScopedStream) -> Result<Vec<ScopedSegment>, String> {
    let mut faults = 0;
    loop {
        let found = factory.controller_client().get_current_segments(stream).await;
        let found = found.map_err(|why| format!("{why:?}"));
        faults += u32::from(found.as_ref().is_err_and(|why| why.contains("Internal")));
        match found {
            Ok(found) => return Ok(found.get_segments()),
            Err(why) if why.contains("NotFound") || (why.contains("Internal") && faults < MOST_FAULTS) => {
                let look_again = Duration::from_millis(100);
                let _elapsed = tokio::time::timeout(look_again, std::future::pending::<()>()).await;
            }
            Err(why) => return Err(why),
        }
    }
}

async fn segment(factory: ClientFactoryAsync, stream: ScopedStream) -> Result<Segment, String> {
    let controller = factory.controller_client();
    if !controller.check_stream_exists(&stream).await.map_err(|why| format!("{why:?}"))? {
        return Ok(Segment::Missing);
    }
    match segments(&factory, &stream).await?.as_slice() {
        [one] => Ok(Segment::One(one.segment.number)),
        several => Ok(Segment::Several(several.len())),
    }
}

struct Opening<'a> {
    client: &'a Client,
    link: &'a Link,
    options: &'a PravegaOptions,
    streams: Streams,
}

impl Opening<'_> {
    /// What the log is, without making or changing anything.
    async fn look(&self) -> Result<Birth, LogError> {
        let not_found = || LogError::NotFound {
            dir: format!("scope {} on {}", self.options.name(), self.options.controller).into(),
        };
        let (factory, meta) = (self.client.small.clone(), self.streams.meta());
        let exists = async move {
            let controller = factory.controller_client();
            let scope = controller.check_scope_exists(&meta.scope).await.map_err(|why| format!("{why:?}"))?;
            Ok(scope && controller.check_stream_exists(&meta).await.map_err(|why| format!("{why:?}"))?)
        };
        if !self.client.call("look for the log", exists).await? {
            return Err(not_found());
        }
        let birth = read(self.client, self.link, &self.streams).await?.ok_or_else(not_found)?;
        self.check_facts(&birth)?;
        Ok(birth)
    }

    /// Looks before it makes, so that the right to make scopes is not needed where somebody else has made it.
    async fn make_scope(&self) -> Result<(), LogError> {
        let (factory, scope) = (self.client.small.clone(), Scope::from(self.options.scope.clone()));
        let make = async move {
            let controller = factory.controller_client();
            if !controller.check_scope_exists(&scope).await.map_err(|why| format!("{why:?}"))? {
                controller.create_scope(&scope).await.map_err(|why| format!("{why:?}"))?;
            }
            Ok(())
        };
        self.client.call(&format!("make scope {}", self.options.scope), make).await
    }

    async fn make_stream(&self, stream: &ScopedStream, retention: Retention) -> Result<(), LogError> {
        let factory = self.client.small.clone();
        let wanted = configuration(stream, retention);
        let make = async move {
            let controller = factory.controller_client();
            if !controller.check_stream_exists(&wanted.scoped_stream).await.map_err(|why| format!("{why:?}"))? {
                controller.create_stream(&wanted).await.map_err(|why| format!("{why:?}"))?;
            }
            segments(&factory, &wanted.scoped_stream).await.map(|_| ())
        };
        self.client.call(&format!("make stream {stream}"), make).await
    }

    /// Makes the partitions and writes the record. What it gives may be the record of somebody who was faster.
    async fn give_birth(&self, now_ms: i64) -> Result<Birth, LogError> {
        let mut segments = Vec::new();
        for partition in 0..self.options.partitions {
            let stream = self.streams.partition(partition);
            self.make_stream(&stream, self.options.retention).await?;
            segments.push(self.one_segment(&stream).await?);
            if self.holds_something(&stream).await? {
                // Somebody who was faster may have written already; otherwise it is a stream of somebody else.
                let birth = read(self.client, self.link, &self.streams).await?;
                let foreign =
                    || self.link.occupied(&stream.to_string(), "it holds events, but there is no record of a log");
                return birth.ok_or_else(foreign);
            }
        }
        let info = LogInfo {
            name: self.options.name(),
            incarnation: Incarnation::generate(now_ms),
            partitions: self.options.partitions,
            hash: PARTITION_HASH.to_owned(),
        };
        self.write(&Birth { format: FORMAT, created_ms: now_ms, info, segments }, now_ms).await?;
        let meta = self.streams.meta().to_string();
        let birth = read(self.client, self.link, &self.streams).await?;
        birth.ok_or_else(|| self.link.lost(format!("what was written to {meta} is not there")))
    }

    async fn write(&self, birth: &Birth, now_ms: i64) -> Result<(), LogError> {
        let meta = self.streams.meta();
        let json =
            serde_json::to_vec(birth).map_err(|why| self.link.fault("write what the log is", &why.to_string()))?;
        let event = envelope(Seal::NONE, now_ms, &json);
        let factory = self.client.small.clone();
        let write = async move {
            let mut writer = factory.create_event_writer(meta);
            let acknowledged = writer.write_event(event).await;
            let acknowledged = acknowledged.await.map_err(|_| "the writer broke its connection off".to_owned())?;
            acknowledged.map_err(|why| why.to_string())
        };
        self.client.call("write what the log is", write).await
    }

    async fn one_segment(&self, stream: &ScopedStream) -> Result<i64, LogError> {
        let question = segment(self.client.small.clone(), stream.clone());
        match self.client.call(&format!("look at stream {stream}"), question).await? {
            Segment::One(number) => Ok(number),
            Segment::Missing => Err(self.link.lost(format!("stream {stream} is gone"))),
            Segment::Several(count) => {
                let problem = format!("it has {count} segments instead of one");
                Err(self.link.occupied(&stream.to_string(), problem))
            }
        }
    }

    async fn holds_something(&self, stream: &ScopedStream) -> Result<bool, LogError> {
        let (factory, of) = (self.client.small.clone(), stream.clone());
        let question = async move {
            let reader = factory.create_byte_reader(of).await;
            reader.current_tail().await.map_err(|why| why.to_string())
        };
        Ok(self.client.call(&format!("look at stream {stream}"), question).await? > 0)
    }

    fn check_facts(&self, birth: &Birth) -> Result<(), LogError> {
        let (log, info) = (self.options.name(), &birth.info);
        if info.partitions != self.options.partitions {
            return Err(LogError::PartitionCount { log, wanted: self.options.partitions, found: info.partitions });
        }
        if info.hash != PARTITION_HASH {
            return Err(LogError::PartitionHash { log, wanted: PARTITION_HASH.to_owned(), found: info.hash.clone() });
        }
        Ok(())
    }

    /// The streams must be those that were there at the birth; their retention is brought in line with what is asked for.
    async fn check_streams(&self, birth: &Birth) -> Result<(), LogError> {
        for partition in 0..birth.info.partitions {
            let stream = self.streams.partition(partition);
            let recorded = usize::try_from(partition).ok().and_then(|at| birth.segments.get(at)).copied();
            let question = segment(self.client.small.clone(), stream.clone());
            match self.client.call(&format!("look at stream {stream}"), question).await? {
                Segment::One(number) if Some(number) == recorded => {}
                Segment::Several(count) => {
                    let problem = format!("it has {count} segments instead of one");
                    return Err(self.link.occupied(&stream.to_string(), problem));
                }
                _ => {
                    let problem = format!(
                        "stream {stream} was deleted, or made anew, after the log was made; to begin anew, remove all its streams"
                    );
                    return Err(self.link.occupied(&self.streams.meta().to_string(), problem));
                }
            }
            self.adjust_retention(&stream).await?;
        }
        Ok(())
    }

    async fn adjust_retention(&self, stream: &ScopedStream) -> Result<(), LogError> {
        let factory = self.client.small.clone();
        let wanted = configuration(stream, self.options.retention);
        let adjust = async move {
            let controller = factory.controller_client();
            let found = controller.get_stream_configuration(&wanted.scoped_stream).await;
            let mut found = found.map_err(|why| format!("{why:?}"))?;
            if found.retention != wanted.retention {
                found.retention = wanted.retention;
                controller.update_stream(&found).await.map_err(|why| format!("{why:?}"))?;
            }
            Ok(())
        };
        self.client.call(&format!("set the retention of stream {stream}"), adjust).await
    }
}

fn configuration(stream: &ScopedStream, retention: Retention) -> StreamConfiguration {
    let (retention_type, retention_param) = match retention {
        Retention::All => (RetentionType::None, 0),
        Retention::Age(ms) => (RetentionType::Time, ms),
        Retention::Bytes(bytes) => (RetentionType::Size, i64::try_from(bytes).unwrap_or(i64::MAX)),
    };
    StreamConfiguration {
        scoped_stream: stream.clone(),
        scaling: Scaling::default(),
        retention: StreamRetention { retention_type, retention_param },
        tags: None,
    }
}

/// The place in one stream, as the server wants it for a truncation.
pub(crate) fn cut(segment: i64, offset: u64) -> HashMap<i64, i64> {
    HashMap::from([(segment, i64::try_from(offset).unwrap_or(i64::MAX))])
}
