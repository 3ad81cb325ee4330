//! The jobs of one partition, and the records that change them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_schemas::control::ControlState;
use weir_schemas::identity::JobKey;
use weir_schemas::outcome::Outcome;
use weir_schemas::records::Record;
use weir_schemas::records::record::Body;

use crate::job::JobState;
use crate::tally::Tally;

/// Version of the shard's serialised form.
pub const STATE_FORMAT: u32 = 1;
/// Lives of one producer that are remembered, by the names `PRODUCER#EPOCH`. What an older one has sent arrived long since, unless
/// it began anew 16 times while a server held records back.
const LIVES: usize = 16;

/// The jobs of one partition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Shard {
    /// The jobs, by key.
    pub jobs: BTreeMap<JobKey, JobState>,
    /// The last sequence of every producer: a repeated append is recognised by it.
    sequences: BTreeMap<String, u64>,
    /// What was taken in of every producer, once each.
    #[serde(default)]
    applied: BTreeMap<String, Tally>,
}

/// What a record brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Folded {
    /// A round is whole, or nothing came of one: the job is to be judged now.
    Judge(JobKey),
    /// The state changed; there is nothing to judge.
    Merged(JobKey),
    /// The record was refused, and changed nothing.
    Refused(Refusal),
}

/// Why a record was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A stable word: `duplicate`, `repeated`, `reordered`, `incomplete_round`, `bad_key`, `bad_body`.
    pub word: String,
    /// One sentence.
    pub detail: String,
}

fn refused(word: &str, detail: impl Into<String>) -> Folded {
    Folded::Refused(Refusal { word: word.into(), detail: detail.into() })
}

impl Shard {
    /// Takes a record in. Whatever is wrong with it, only it is lost.
    pub fn fold(&mut self, record: Record) -> Folded {
        let Record { producer, sequence, time_ms, job, body } = record;
        if self.sequences.get(&producer).is_some_and(|last| sequence <= *last) {
            return refused("duplicate", format!("record {sequence} of {producer} came again"));
        }
        self.applied.entry(producer.clone()).or_default().add(sequence);
        if self.sequences.insert(producer.clone(), sequence).is_none() {
            self.forget_lives_before(&producer);
        }
        let key: JobKey = match job.parse() {
            Ok(key) => key,
            Err(why) => return refused("bad_key", format!("{why}")),
        };
        let state = self.jobs.entry(key.clone()).or_default();
        match body {
            Some(Body::Metrics(part)) => match state.fold_part(part) {
                Ok(true) => Folded::Judge(key),
                Ok(false) => Folded::Merged(key),
                Err(word) => refused(&word, format!("a round of {key} was refused: {}", word.replace('_', " "))),
            },
            Some(Body::Silence(silence)) => {
                state.fold_silence(&silence, time_ms);
                Folded::Judge(key)
            }
            Some(Body::OutcomeJson(json)) => match serde_json::from_slice::<Outcome>(&json) {
                Ok(outcome) => {
                    state.fold_outcome(&outcome);
                    Folded::Merged(key)
                }
                Err(why) => refused("bad_body", format!("an outcome for {key} cannot be read: {why}")),
            },
            Some(Body::ControlJson(json)) => match serde_json::from_slice::<ControlState>(&json) {
                Ok(control) => {
                    state.control = Some(control);
                    Folded::Merged(key)
                }
                Err(why) => refused("bad_body", format!("a control record for {key} cannot be read: {why}")),
            },
            None => refused("bad_body", format!("a record for {key} says nothing that this version knows")),
        }
    }

    /// Forgets the oldest lives of a producer of which a new one has begun.
    fn forget_lives_before(&mut self, producer: &str) {
        let Some((name, _)) = producer.rsplit_once('#') else { return };
        let epochs = self.lives(name);
        let too_many = epochs.len().saturating_sub(LIVES);
        for epoch in epochs.into_iter().take(too_many) {
            let life = format!("{name}#{epoch}");
            self.sequences.remove(&life);
            self.applied.remove(&life);
        }
    }

    /// The epochs of the lives of a producer that are remembered, oldest first.
    fn lives(&self, name: &str) -> Vec<u64> {
        let epoch = |life: &String| life.strip_prefix(name)?.strip_prefix('#')?.parse().ok();
        let mut epochs: Vec<u64> = self.sequences.keys().filter_map(epoch).collect();
        epochs.sort_unstable();
        epochs
    }

    /// Whether this may be a life of a producer that was forgotten, since 16 newer ones are remembered.
    #[must_use]
    pub fn has_forgotten(&self, producer: &str) -> bool {
        let Some((name, epoch)) = producer.rsplit_once('#') else { return false };
        let Ok(epoch) = epoch.parse::<u64>() else { return false };
        let epochs = self.lives(name);
        epochs.len() >= LIVES && epochs.first().is_some_and(|oldest| epoch < *oldest)
    }

    /// What was taken in of every producer, of its last 16 lives, to be compared with what the log holds.
    #[must_use]
    pub fn applied(&self) -> &BTreeMap<String, Tally> {
        &self.applied
    }

    /// What was taken in so far lies in a log that is gone: from now on another one is counted.
    pub fn begin_with_another_log(&mut self) {
        self.applied.clear();
    }

    /// The bytes of the whole shard. The same state gives the same bytes.
    ///
    /// # Errors
    /// Only if the state held a number that JSON cannot; none is let in.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// The shard that `bytes` hold.
    ///
    /// # Errors
    /// Says where the bytes are not a shard.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_in(shard: &mut Shard, producer: &str, sequence: u64) -> Folded {
        let (producer, job) = (producer.to_owned(), "c/default/job".to_owned());
        shard.fold(Record { producer, sequence, time_ms: 0, job, body: Some(Body::OutcomeJson(Vec::new())) })
    }

    #[test]
    fn only_the_last_lives_of_a_producer_are_remembered() {
        let mut shard = Shard::default();
        for producer in ["ingest/c", "ingest/other#1", "ingest/c#x"] {
            take_in(&mut shard, producer, 1);
        }
        for epoch in 0..=LIVES {
            take_in(&mut shard, &format!("ingest/c#{epoch}"), 5);
        }
        assert_eq!(shard.applied().len(), 3 + LIVES);
        assert!(!shard.applied().contains_key("ingest/c#0"));
        assert!(shard.has_forgotten("ingest/c#0") && !shard.has_forgotten("ingest/c#1"));
        assert!(["ingest/c", "ingest/c#x", "ingest/other#0"].iter().all(|it| !shard.has_forgotten(it)));
        let again = take_in(&mut shard, "ingest/c#1", 5);
        assert!(matches!(&again, Folded::Refused(refusal) if refusal.word == "duplicate"), "{again:?}");
    }
}
