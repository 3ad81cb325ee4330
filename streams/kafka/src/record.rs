//! How records lie in the topics.
//!
//! A record's value is the payload. Its key is a mark and the time that the writer gave, since the record's own time is the
//! server's. One record of partition 0, the first one as a rule, is no payload: it is the birth of the log.

use rdkafka::message::{BorrowedMessage, Message};
use serde::{Deserialize, Serialize};
use weir_streams::{Incarnation, PARTITION_HASH};

/// The version of all this.
pub(crate) const FORMAT: u64 = 1;
/// What the keys of all our records begin with.
const MARK: &[u8; 4] = b"weir";
/// The key of births.
pub(crate) const BIRTH_KEY: &[u8] = b"weir.birth";
/// Length of the keys of payloads.
pub(crate) const KEY_BYTES: usize = 12;

/// One life of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Life {
    pub weir_log: u64,
    pub incarnation: Incarnation,
    pub partitions: u32,
    pub hash: String,
    /// Where its birth lies in partition 0. Said where lives are remembered, not in the birth itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born_at: Option<u64>,
}

impl Life {
    pub fn begin(partitions: u32, now_ms: i64) -> Self {
        let incarnation = Incarnation::generate(now_ms);
        Self { weir_log: FORMAT, incarnation, partitions, hash: PARTITION_HASH.to_owned(), born_at: None }
    }

    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn decode(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }
}

/// The key of a payload.
pub(crate) fn key_of(now_ms: i64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let (mark, time) = key.split_at_mut(MARK.len());
    mark.copy_from_slice(MARK);
    time.copy_from_slice(&now_ms.to_be_bytes());
    key
}

/// The time in the key of a payload.
fn time_in(key: &[u8]) -> Option<i64> {
    let time = key.strip_prefix(MARK)?;
    Some(i64::from_be_bytes(<[u8; 8]>::try_from(time).ok()?))
}

/// Whether a record was put there by a log, as payload or as birth.
pub(crate) fn is_ours(message: &BorrowedMessage<'_>) -> bool {
    message.key().is_some_and(|key| key == BIRTH_KEY || time_in(key).is_some())
}

/// The birth in a record, if it is one.
pub(crate) fn birth_in(message: &BorrowedMessage<'_>) -> Option<Life> {
    if !is_hidden(message) {
        return None;
    }
    Life::decode(message.payload().unwrap_or_default())
}

/// Whether a record of the log is none of a writer.
pub(crate) fn is_hidden(message: &BorrowedMessage<'_>) -> bool {
    message.key() == Some(BIRTH_KEY)
}

/// The time that the writer gave; the server's, for what others put there.
pub(crate) fn time_of(message: &BorrowedMessage<'_>) -> i64 {
    message.key().and_then(time_in).or_else(|| message.timestamp().to_millis()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written once, read for ever.
    #[test]
    fn births_stay_readable() {
        let text =
            r#"{"weir_log":1,"incarnation":"00000000000000000000000000000abc","partitions":3,"hash":"xxh3-64-v1"}"#;
        let life = Life::decode(text.as_bytes()).unwrap();
        assert_eq!((life.incarnation, life.born_at), (Incarnation::from_raw(0xabc), None));
        assert_eq!(life.encode(), text.as_bytes());
        let later =
            r#"{"weir_log":2,"incarnation":"00000000000000000000000000000abc","partitions":3,"hash":"x","new":1}"#;
        assert_eq!(Life::decode(later.as_bytes()).map(|life| life.weir_log), Some(2));
        assert_eq!(Life::decode(b"{\"order\":17}"), None);
    }

    #[test]
    fn keys_carry_the_time_of_the_writer() {
        assert_eq!(key_of(1), *b"weir\0\0\0\0\0\0\0\x01");
        for time_ms in [0, 1_700_000_000_000, -5, i64::MAX, i64::MIN] {
            assert_eq!(time_in(&key_of(time_ms)), Some(time_ms));
        }
        for foreign in [&b"weir"[..], BIRTH_KEY, b"order-17-abc", b""] {
            assert_eq!(time_in(foreign), None);
        }
    }
}
