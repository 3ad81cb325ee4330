//! `/jobs/:id/resource-requirements` and the timers of `/jobs/:id/rescales/config`.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::lenient::{Entries, Loose, Number, Object, document};
use super::{DecodeError, Decoded, Problems};
use crate::VertexId;

/// Bounds of a vertex's parallelism as the JobManager holds them; what is not positive is unset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Fewest subtasks.
    pub lower: Option<u32>,
    /// Most subtasks.
    pub upper: Option<u32>,
}

/// What the JobManager was asked to give a job; not what runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requirements(pub BTreeMap<VertexId, Bounds>);

impl Requirements {
    /// The requirements on one line, `vertex=lower..upper` sorted by vertex and separated by commas; unset is `?`.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut line = String::new();
        for (vertex, bounds) in &self.0 {
            let shown = |bound: Option<u32>| bound.map_or_else(|| "?".to_owned(), |bound| bound.to_string());
            let comma = if line.is_empty() { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(line, "{comma}{vertex}={}..{}", shown(bounds.lower), shown(bounds.upper));
        }
        line
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawVertex {
    parallelism: Loose<Object<RawBounds>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawBounds {
    lower_bound: Loose<Number>,
    upper_bound: Loose<Number>,
}

/// Reads `/jobs/:id/resource-requirements`.
///
/// # Errors
/// If it is no JSON object.
pub fn requirements(body: &[u8]) -> Result<Decoded<Requirements>, DecodeError> {
    let raw: Entries<Object<RawVertex>> = document(body, "resource requirements")?;
    let mut problems = Problems::default();
    let mut value = Requirements::default();
    for (vertex, Object(raw)) in Loose::Value(raw).entries("vertex", &mut problems) {
        problems.enter(format!("vertex {vertex}"));
        let bounds = raw.parallelism.object("parallelism", &mut problems).unwrap_or_default();
        let mut bound = |raw: Loose<Number>, name: &str| {
            // -1 stands for unset in Flink's own code; `millis` reads it as absent.
            let whole = raw.millis(name, &mut problems).and_then(|bound| u32::try_from(bound).ok());
            whole.filter(|&bound| bound > 0)
        };
        let bounds =
            Bounds { lower: bound(bounds.lower_bound, "lowerBound"), upper: bound(bounds.upper_bound, "upperBound") };
        value.0.insert(vertex, bounds);
    }
    Ok(Decoded { value, problems })
}

#[derive(Serialize)]
struct BodyVertex {
    parallelism: BodyBounds,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BodyBounds {
    lower_bound: u32,
    upper_bound: u32,
}

/// The body that asks for requirements. The caller has checked the bounds.
#[must_use]
pub fn requirements_body(bounds: &BTreeMap<VertexId, (u32, u32)>) -> String {
    let body: BTreeMap<&str, BodyVertex> = bounds
        .iter()
        .map(|(vertex, &(lower_bound, upper_bound))| {
            (vertex.as_str(), BodyVertex { parallelism: BodyBounds { lower_bound, upper_bound } })
        })
        .collect();
    // Text and numbers only, so that writing it as JSON cannot fail.
    serde_json::to_string(&body).unwrap_or_default()
}

/// The timers that really apply to a job's rescales (Flink 2.3 on), in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RescaleTimers {
    /// Between two rescales.
    pub cooldown_ms: Option<i64>,
    /// For more slots, once there are enough to go on.
    pub stabilization_ms: Option<i64>,
    /// For a checkpoint, at most.
    pub max_delay_ms: Option<i64>,
    /// Until unused slots are given back.
    pub slot_idle_ms: Option<i64>,
    /// Failed checkpoints after which a rescale no longer waits.
    pub max_checkpoint_failures: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawTimers {
    executing_cooldown_timeout_in_millis: Loose<Number>,
    executing_resource_stabilization_timeout_in_millis: Loose<Number>,
    maximum_delay_for_triggering_rescale_in_millis: Loose<Number>,
    slot_idle_timeout_in_millis: Loose<Number>,
    rescale_on_failed_checkpoint_count: Loose<Number>,
}

/// Reads `/jobs/:id/rescales/config`.
///
/// # Errors
/// If it is no JSON object.
pub fn rescale_timers(body: &[u8]) -> Result<Decoded<RescaleTimers>, DecodeError> {
    let raw: RawTimers = document::<Object<_>>(body, "timers of rescales")?.0;
    let mut problems = Problems::default();
    let value = RescaleTimers {
        cooldown_ms: raw.executing_cooldown_timeout_in_millis.millis("cooldown", &mut problems),
        stabilization_ms: raw.executing_resource_stabilization_timeout_in_millis.millis("stabilization", &mut problems),
        max_delay_ms: raw.maximum_delay_for_triggering_rescale_in_millis.millis("maximumDelay", &mut problems),
        slot_idle_ms: raw.slot_idle_timeout_in_millis.millis("slotIdleTimeout", &mut problems),
        max_checkpoint_failures: raw.rescale_on_failed_checkpoint_count.small("failedCheckpoints", &mut problems),
    };
    Ok(Decoded { value, problems })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_bounds_are_told_apart_from_real_ones() {
        let body = br#"{"b":{"parallelism":{"lowerBound":-1,"upperBound":6}},"a":{"parallelism":{"lowerBound":1,"upperBound":2}},"c":7}"#;
        let read = requirements(body).unwrap();
        assert_eq!(read.digest(), "a=1..2,b=?..6");
        assert_eq!(read.problems.count(), 1);
        assert_eq!(Requirements::default().digest(), "");
    }

    #[test]
    fn the_body_is_a_bare_map() {
        let bounds = BTreeMap::from([("bc76".to_owned(), (1, 6))]);
        assert_eq!(requirements_body(&bounds), r#"{"bc76":{"parallelism":{"lowerBound":1,"upperBound":6}}}"#);
    }
}
