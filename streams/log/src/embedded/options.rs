//! The embedded log's section of the configuration.

use serde::Deserialize;

use super::frame::{FRAME_HEADER, MAX_PAYLOAD};
use super::storage::length_of;
use crate::LogError;

/// How an embedded log is kept. Unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddedOptions {
    /// Partitions of a log that is made; an existing log must have as many.
    pub partitions: u32,
    /// The largest record that is taken, in bytes.
    pub max_record_bytes: usize,
    /// Size at which a segment file is closed and the next one begun. Storage is given back by whole segments.
    pub segment_bytes: u64,
    /// Age of its first record at which a segment file is closed, in milliseconds, so that slow partitions age as well.
    pub segment_age_ms: i64,
    /// Bytes that retention keeps, over all partitions.
    pub retain_bytes: u64,
    /// Age up to which retention keeps records, in milliseconds.
    pub retain_age_ms: i64,
    /// Bytes of a partition that may wait to be written before appends have to wait.
    pub queue_bytes: u32,
    /// How often a reader without the writer's process looks for new records, in milliseconds.
    pub poll_ms: u64,
}

const MIB: u32 = 1024 * 1024;
/// Two digits in a directory name are enough for this many, and a process has no use for more.
const MAX_PARTITIONS: u32 = 100;

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            partitions: 4,
            max_record_bytes: 1024 * 1024 - FRAME_HEADER,
            segment_bytes: u64::from(64 * MIB),
            segment_age_ms: 60 * 60 * 1000,
            retain_bytes: u64::from(1024 * MIB),
            retain_age_ms: 24 * 60 * 60 * 1000,
            queue_bytes: 16 * MIB,
            poll_ms: 100,
        }
    }
}

impl EmbeddedOptions {
    /// Checks the options against each other.
    ///
    /// # Errors
    /// Names the first option that cannot be followed, and what it may be.
    pub fn check(&self) -> Result<(), LogError> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// Everything that cannot be followed, each with what it may be.
    #[must_use]
    pub fn problems(&self) -> Vec<LogError> {
        let max_record_bytes = length_of(self.max_record_bytes);
        let needed = max_record_bytes.saturating_add(length_of(FRAME_HEADER));
        let age = |age_ms: i64| u64::try_from(age_ms).unwrap_or(0);
        let ranges = [
            ("partitions", u64::from(self.partitions), 1, u64::from(MAX_PARTITIONS)),
            ("max_record_bytes", max_record_bytes, 1, length_of(MAX_PAYLOAD)),
            ("segment_bytes", self.segment_bytes, 1, u64::MAX),
            ("segment_age_ms", age(self.segment_age_ms), 1, u64::MAX),
            ("retain_bytes", self.retain_bytes, 1, u64::MAX),
            ("retain_age_ms", age(self.retain_age_ms), 1, u64::MAX),
            ("queue_bytes", u64::from(self.queue_bytes), needed, u64::from(1024 * MIB)),
            ("poll_ms", self.poll_ms, 1, u64::MAX),
        ];
        let outside = ranges.into_iter().filter(|(_, value, least, most)| value < least || value > most);
        let problem = |(option, value, least, most)| {
            let problem = match most {
                u64::MAX => format!("must be at least {least}"),
                most => format!("must lie between {least} and {most}"),
            };
            LogError::Options { option, value, problem }
        };
        outside.map(problem).collect()
    }

    /// The size at which segments are closed: small enough that `retain_bytes` can be kept although the segment that is
    /// being written never is deleted.
    pub(crate) fn roll_bytes(&self) -> u64 {
        let share = self.retain_bytes / (2 * u64::from(self.partitions.max(1)));
        self.segment_bytes.min(share).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_fine() {
        assert!(EmbeddedOptions::default().check().is_ok());
        assert_eq!(EmbeddedOptions::default().roll_bytes(), 64 * 1024 * 1024);
    }

    #[test]
    fn contradictions_are_named() {
        let options = EmbeddedOptions { queue_bytes: 100, max_record_bytes: 1_000, ..EmbeddedOptions::default() };
        assert_eq!(
            options.check().unwrap_err().to_string(),
            "WR0217: log option queue_bytes = 100 must lie between 1016 and 1073741824"
        );
        let options = EmbeddedOptions { retain_age_ms: -5, ..EmbeddedOptions::default() };
        assert!(options.check().unwrap_err().to_string().contains("retain_age_ms"));
    }

    #[test]
    fn segments_are_small_enough_for_the_retention() {
        let options = EmbeddedOptions { retain_bytes: 8_000, partitions: 4, ..EmbeddedOptions::default() };
        assert_eq!(options.roll_bytes(), 1_000);
    }
}
