//! How jobs and runs are named.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What is escaped within a part of a job's key: what would end the part, or could not be typed in a shell unquoted.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'/').add(b'%').add(b' ').add(b'"').add(b'\'').add(b'\\').add(b'*').add(b'?');

/// The namespace of jobs whose cluster knows none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// A job: outlives resubmission, restarts and rescales.
///
/// Written as `cluster/namespace/name`, each part percent-escaped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct JobKey {
    /// The configured name of the cluster, never its address.
    pub cluster: String,
    /// The namespace, which is the tenant.
    pub namespace: String,
    /// The name that the job was submitted with.
    pub name: String,
}

/// Not a job's key.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not a job: write cluster/namespace/name, or a unique job name")]
pub struct JobKeyError(String);

impl JobKey {
    /// A job of a cluster in the default namespace.
    #[must_use]
    pub fn new(cluster: &str, name: &str) -> Self {
        Self { cluster: cluster.into(), namespace: DEFAULT_NAMESPACE.into(), name: name.into() }
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |text| utf8_percent_encode(text, ESCAPED);
        write!(f, "{}/{}/{}", part(&self.cluster), part(&self.namespace), part(&self.name))
    }
}

impl FromStr for JobKey {
    type Err = JobKeyError;

    fn from_str(text: &str) -> Result<Self, JobKeyError> {
        let refused = || JobKeyError(text.into());
        let part = |escaped: &str| -> Result<String, JobKeyError> {
            let decoded = percent_decode_str(escaped).decode_utf8().map_err(|_| refused())?;
            if decoded.is_empty() { Err(refused()) } else { Ok(decoded.into_owned()) }
        };
        let mut parts = text.split('/');
        let (Some(cluster), Some(namespace), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(refused());
        };
        Ok(Self { cluster: part(cluster)?, namespace: part(namespace)?, name: part(name)? })
    }
}

impl From<JobKey> for String {
    fn from(key: JobKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for JobKey {
    type Error = JobKeyError;

    fn try_from(text: String) -> Result<Self, JobKeyError> {
        text.parse()
    }
}

/// One submission of a job: Flink's job id with its start time, since ids can be all zeros or repeat.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId {
    /// Flink's job id, 32 hexadecimal digits.
    pub id: String,
    /// When it started, by the JobManager's clock, in milliseconds since 1970.
    pub start_ms: i64,
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id, self.start_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn awkward_names_are_escaped() {
        let key = JobKey { cluster: "prod".into(), namespace: "team a".into(), name: "orders/eu 100%".into() };
        assert_eq!(key.to_string(), "prod/team%20a/orders%2Feu%20100%25");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "name", "a/b", "a//c", "a/b/c/d", "a/b/%ff"] {
            assert!(text.parse::<JobKey>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_key_survives_being_written(cluster in ".+", namespace in ".+", name in ".+") {
            let key = JobKey { cluster, namespace, name };
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }
    }
}
