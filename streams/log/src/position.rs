//! Where something lies in a log, and in which log.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// A place between two records of one partition.
///
/// Positions of one partition are ordered; that is all that may be done with them. Some logs count records, some count
/// bytes, so a difference means nothing: ask [`crate::Log::distance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Position(u64);

impl Position {
    /// Restores a position from the number that [`Position::to_raw`] gave.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The number to store. It must not be calculated with.
    #[must_use]
    pub const fn to_raw(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which life of a log: a log that was deleted and made anew under the same name has another incarnation.
///
/// Without it, a position of the old log would point somewhere into the new one as soon as that has grown past it.
/// It is written as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(u128);

/// Text that is no incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no log incarnation; it has to be 32 hexadecimal digits")]
pub struct ParseIncarnationError(String);

impl Incarnation {
    /// Draws a new one from the randomness that the standard library gets from the operating system.
    #[must_use]
    pub fn generate(created_ms: i64) -> Self {
        let draw = |salt: u8| u128::from(RandomState::new().hash_one((created_ms, salt)));
        Self((draw(0) << 64) | draw(1))
    }

    /// An incarnation with a given number, for tests and for logs whose server gives them one.
    #[must_use]
    pub const fn from_raw(raw: u128) -> Self {
        Self(raw)
    }

    /// The number inside.
    #[must_use]
    pub const fn to_raw(self) -> u128 {
        self.0
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Incarnation {
    type Err = ParseIncarnationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseIncarnationError(text.to_owned());
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(refused());
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| refused())
    }
}

impl Serialize for Incarnation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Incarnation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A position as it is kept beside state, to resume from later.
///
/// [`crate::LogInfo::resume`] turns it back into a position and refuses those of another incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StoredPosition {
    /// The life of the log that the position belongs to.
    pub incarnation: Incarnation,
    /// The partition of that log.
    pub partition: u32,
    /// The position inside the partition.
    pub position: Position,
}

/// How much lies between two positions, in whatever the log can count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Distance {
    /// Bytes as the log stores them, its own overhead included.
    pub bytes: Option<u64>,
    /// Records.
    pub records: Option<u64>,
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.records, self.bytes) {
            (Some(records), Some(bytes)) => write!(f, "{records} records ({bytes} bytes)"),
            (Some(records), None) => write!(f, "{records} records"),
            (None, Some(bytes)) => write!(f, "{bytes} bytes"),
            (None, None) => f.write_str("an unknown amount"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incarnations_differ_from_each_other_and_survive_text_and_json() {
        let first = Incarnation::generate(7);
        assert_ne!(first, Incarnation::generate(7));
        assert_eq!(first.to_string().parse(), Ok(first));
        let stored = StoredPosition { incarnation: Incarnation(0xabc), partition: 3, position: Position(1 << 40) };
        let json = serde_json::to_string(&stored).unwrap();
        assert_eq!(
            json,
            r#"{"incarnation":"00000000000000000000000000000abc","partition":3,"position":1099511627776}"#
        );
        assert_eq!(serde_json::from_str::<StoredPosition>(&json).unwrap(), stored);
    }

    #[test]
    fn text_that_is_no_incarnation_is_refused() {
        for text in ["", "abc", "+0000000000000000000000000000abc", "0000000000000000000000000000000g"] {
            assert!(text.parse::<Incarnation>().is_err(), "{text}");
        }
    }
}
