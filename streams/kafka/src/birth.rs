//! Whose topic it is, and which life of the log it holds.
//!
//! A log is born with a record in partition 0 of its topic. Several processes may try at once: the first record of that
//! kind is the one that counts. Since the server gives up old records, the other topic remembers each birth and where it
//! lies; a topic that does not hold the birth which is remembered last was made anew.

use std::path::PathBuf;
use std::sync::Arc;

use rdkafka::message::Message;
use tracing::info;
use weir_streams::{LogError, PARTITION_HASH};

use crate::record::{BIRTH_KEY, FORMAT, Life, birth_in, is_ours};
use crate::server::{Bounds, Failure, Server};
use crate::topic;

/// Rounds of looking and writing. Each is a race lost to another process.
const ROUNDS: usize = 10;

/// What a look at the topics says.
#[derive(Debug)]
enum Look {
    /// This life is remembered, and it is what the topic holds.
    Known(Life),
    /// The topic holds this birth, which is not the one remembered last.
    Unremembered(Life),
    /// There is no birth. It is for us to write one.
    Unborn,
    /// Another process was at work between our questions. It is for us to look again.
    Overtaken,
}

/// The life that the topic holds; it begins now if there was none.
pub(crate) async fn settle(server: &Arc<Server>, partitions: u32, now_ms: i64) -> Result<Life, LogError> {
    let log = &server.options.topic;
    for _ in 0..ROUNDS {
        match look(server, partitions).await? {
            Look::Overtaken => {}
            Look::Known(life) => return check(server, life, partitions),
            Look::Unremembered(life) if !server.options.create => return check(server, life, partitions),
            Look::Unborn if !server.options.create => return Err(topic::not_found(server, log)),
            Look::Unremembered(life) => {
                topic::ensure_meta(server).await?;
                let key = life.incarnation.to_string();
                server.note(&server.options.meta_topic(), key.as_bytes(), &life.encode()).await?;
            }
            Look::Unborn if partitions != server.options.partitions => {
                return Err(LogError::PartitionCount {
                    log: log.clone(),
                    wanted: server.options.partitions,
                    found: partitions,
                });
            }
            Look::Unborn => {
                let life = Life::begin(partitions, now_ms);
                info!(log, incarnation = %life.incarnation, "log made");
                server.note(log, BIRTH_KEY, &life.encode()).await?;
            }
        }
    }
    let cause = format!("topic {log} changes all the time");
    Err(LogError::Server { server: server.health().server(), action: format!("open log {log}"), cause })
}

/// Refuses lives that this program cannot go on with.
fn check(server: &Server, life: Life, partitions: u32) -> Result<Life, LogError> {
    let options = &server.options;
    let log = options.topic.clone();
    if life.weir_log > FORMAT {
        return Err(LogError::NewerFormat { path: PathBuf::from(log), found: life.weir_log, known: FORMAT });
    }
    if life.partitions != partitions {
        let problem = format!("it was made with {} partitions and has {partitions}", life.partitions);
        return Err(occupied(server, &log, problem));
    }
    if life.partitions != options.partitions {
        return Err(LogError::PartitionCount { log, wanted: options.partitions, found: life.partitions });
    }
    if life.hash != PARTITION_HASH {
        return Err(LogError::PartitionHash { log, wanted: PARTITION_HASH.to_owned(), found: life.hash });
    }
    Ok(life)
}

/// Whether the topic still holds this life; if not, what it holds.
pub(crate) async fn is_still(server: &Arc<Server>, life: &Life) -> Result<Result<(), String>, Failure> {
    let topic = &server.options.topic;
    let bounds = server.bounds(topic, 0).await?;
    let born_at = life.born_at.unwrap_or(0);
    if bounds.high <= born_at {
        return Ok(Err(format!("partition 0 ends at {}", bounds.high)));
    }
    let current = if bounds.low <= born_at { birth_at(server, born_at).await? } else { remembered(server).await? };
    Ok(match current {
        Some(current) if current.incarnation == life.incarnation => Ok(()),
        Some(current) => Err(format!("it is incarnation {} now, it was {}", current.incarnation, life.incarnation)),
        None => Err("its birth record is gone".to_owned()),
    })
}

async fn look(server: &Arc<Server>, partitions: u32) -> Result<Look, LogError> {
    let topic = &server.options.topic;
    let last = remembered(server).await?;
    let bounds = server.bounds(topic, 0).await?;
    if let Some(life) = &last
        && let Some(born_at) = life.born_at.filter(|born_at| *born_at < bounds.high)
    {
        let gone = born_at < bounds.low;
        if gone || birth_at(server, born_at).await?.is_some_and(|birth| birth.incarnation == life.incarnation) {
            return Ok(Look::Known(life.clone()));
        }
    }
    if bounds.low == bounds.high {
        // Nothing to go by. What was ours may have lost its records; anything else has to be unused.
        let problem = if last.is_none() { find_use(server, partitions, bounds).await? } else { None };
        let Some(problem) = problem else { return Ok(Look::Unborn) };
        // Births come before all else: were it the work of another process, its birth would be seen by now, or be
        // remembered if it has been given up already.
        if server.bounds(topic, 0).await? != bounds || remembered(server).await?.is_some() {
            return Ok(Look::Overtaken);
        }
        return Err(occupied(server, topic, problem));
    }
    let first = server.scan(topic, bounds, |message, found| {
        found.push(is_ours(message));
        true
    });
    if !first.await?.contains(&true) {
        let problem = format!("its first record, at {}, is not of Weir", bounds.low);
        return Err(occupied(server, topic, problem));
    }
    let births = server.scan(topic, bounds, |message, found| {
        let birth = birth_in(message);
        found.extend(birth.map(|birth| Life { born_at: u64::try_from(message.offset()).ok(), ..birth }));
        !found.is_empty()
    });
    Ok(births.await?.pop().map_or(Look::Unborn, Look::Unremembered))
}

/// What shows that a topic was used whose partition 0 is empty.
async fn find_use(server: &Arc<Server>, partitions: u32, first: Bounds) -> Result<Option<String>, LogError> {
    let topic = &server.options.topic;
    for partition in 0..partitions {
        let number = i32::try_from(partition).unwrap_or(i32::MAX);
        let Bounds { high, .. } = if partition == 0 { first } else { server.bounds(topic, number).await? };
        if high > 0 {
            return Ok(Some(format!("partition {partition} was written to, and there is no birth record")));
        }
    }
    Ok(None)
}

async fn birth_at(server: &Arc<Server>, offset: u64) -> Result<Option<Life>, Failure> {
    let span = Bounds { low: offset, high: offset.saturating_add(1) };
    let found = server.scan(&server.options.topic, span, |message, found| {
        found.extend(birth_in(message));
        true
    });
    Ok(found.await?.pop())
}

/// The life that is remembered last.
async fn remembered(server: &Arc<Server>) -> Result<Option<Life>, Failure> {
    let topic = server.options.meta_topic();
    // Not made before there is something to remember, so that nothing is left beside topics that are not ours.
    if server.describe(&topic).await?.is_none() {
        return Ok(None);
    }
    let bounds = server.bounds(&topic, 0).await?;
    let found = server.scan(&topic, bounds, |message, found| {
        found.push(Life::decode(message.payload().unwrap_or_default()).ok_or(message.offset()));
        false
    });
    let mut last = None;
    for life in found.await? {
        let strange = |offset| occupied(server, &topic, format!("its record at {offset} is not of Weir"));
        last = Some(life.map_err(strange)?);
    }
    Ok(last)
}

fn occupied(server: &Server, name: &str, problem: String) -> LogError {
    LogError::Occupied { server: server.health().server(), name: name.to_owned(), problem }
}
