//! Whether growing a vertex brought anything. A slow system behind a sink, or a lock, takes no more records from more subtasks.

use std::collections::BTreeMap;

use weir_schemas::decision::Plan;
use weir_schemas::num::short;
use weir_schemas::report::{Sizing, VertexSizing};

use crate::job::Grown;

/// A vertex that works this share of its time is saturated: what it does is all that it can.
const SATURATED: f64 = 0.9;
/// Of what the added subtasks should have brought, at least this share has to have come.
const LEAST_GAIN: f64 = 0.25;

/// Remembers what the saturated vertices that `plan` grows can do before it.
pub fn remember(grown: &mut BTreeMap<String, Grown>, plan: &Plan, sizing: Option<&Sizing>) {
    for vertex in plan.vertices.iter().filter(|vertex| vertex.to > vertex.from) {
        let sized = sizing.and_then(|sizing| sizing.vertices.iter().find(|sized| sized.vertex == vertex.id));
        match sized.and_then(saturated_per_second) {
            Some(per_second) => grown.insert(vertex.id.clone(), Grown { subtasks: vertex.from, per_second }),
            None => grown.remove(&vertex.id),
        };
    }
}

/// Vertices whose last growth brought nothing, by id, with a sentence that says so.
pub fn none(grown: &BTreeMap<String, Grown>, sizing: &Sizing) -> BTreeMap<String, String> {
    let in_vain = |vertex: &VertexSizing| {
        let before = grown.get(&vertex.vertex).filter(|before| before.subtasks < vertex.current)?;
        let now = saturated_per_second(vertex)?;
        let added = f64::from(vertex.current - before.subtasks) / f64::from(before.subtasks.max(1));
        let expected = before.per_second * added;
        (now - before.per_second < LEAST_GAIN * expected).then(|| {
            let sentence = format!(
                "{} did {}/s with {} and does {}/s with {} subtasks: what it waits for is elsewhere",
                vertex.name,
                short(before.per_second),
                before.subtasks,
                short(now),
                vertex.current
            );
            (vertex.vertex.clone(), sentence)
        })
    };
    sizing.vertices.iter().filter_map(in_vain).collect()
}

/// Records a second that all subtasks of a saturated vertex do together.
fn saturated_per_second(vertex: &VertexSizing) -> Option<f64> {
    vertex.busy.filter(|busy| *busy > SATURATED)?;
    Some(vertex.capacity_per_subtask? * f64::from(vertex.current))
}
