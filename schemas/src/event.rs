//! The envelope of everything that is published: CloudEvents 1.0 in JSON (structured mode).

use serde::{Deserialize, Serialize};

use crate::decision::Decision;
use crate::outcome::Outcome;

/// A decision that is new, or differs from the job's last.
pub const TYPE_DECISION: &str = "io.weir.decision.v1";
/// What became of a command.
pub const TYPE_OUTCOME: &str = "io.weir.outcome.v1";

/// A CloudEvent, version 1.0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CloudEvent {
    /// Version of CloudEvents: `1.0`.
    pub specversion: String,
    /// With `source` unique: the same event sent twice has the same id.
    pub id: String,
    /// What it came from: `/weir/<cluster>`.
    pub source: String,
    /// Which kind of event it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// The job's key.
    pub subject: String,
    /// When it happened, as RFC 3339 in UTC.
    pub time: String,
    /// `application/json`.
    pub datacontenttype: String,
    /// A decision or an outcome.
    pub data: serde_json::Value,
}

impl CloudEvent {
    /// Publishes a decision.
    ///
    /// # Errors
    /// Only if the decision holds a number that JSON cannot (none is let into a report).
    pub fn of_decision(decision: &Decision) -> Result<Self, serde_json::Error> {
        let data = serde_json::to_value(decision)?;
        Ok(Self::new(
            TYPE_DECISION,
            &decision.id,
            &decision.job.cluster,
            &decision.job.to_string(),
            decision.decided_at_ms,
            data,
        ))
    }

    /// Publishes an outcome.
    ///
    /// # Errors
    /// As [`CloudEvent::of_decision`].
    pub fn of_outcome(outcome: &Outcome) -> Result<Self, serde_json::Error> {
        let data = serde_json::to_value(outcome)?;
        let id = format!("{}-{}", outcome.command, outcome.result.word());
        Ok(Self::new(TYPE_OUTCOME, &id, &outcome.job.cluster, &outcome.job.to_string(), outcome.at_ms, data))
    }

    fn new(kind: &str, id: &str, cluster: &str, subject: &str, at_ms: i64, data: serde_json::Value) -> Self {
        Self {
            specversion: "1.0".into(),
            id: id.into(),
            source: format!("/weir/{cluster}"),
            kind: kind.into(),
            subject: subject.into(),
            time: rfc3339(at_ms),
            datacontenttype: "application/json".into(),
            data,
        }
    }
}

/// A moment as RFC 3339 in UTC with milliseconds, such as `2026-01-31T08:15:30.250Z`.
#[must_use]
pub fn rfc3339(at_ms: i64) -> String {
    let (days, in_day) = (at_ms.div_euclid(86_400_000), at_ms.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (second, milli) = (in_day / 1000, in_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{milli:03}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of a day counted from 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_rfc_3339() {
        for (at_ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_767_225_599_999, "2025-12-31T23:59:59.999Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339(at_ms), expected);
        }
    }
}
