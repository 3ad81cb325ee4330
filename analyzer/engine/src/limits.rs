//! What cuts the answer: max parallelism, the policy's bounds, vertices that are not to be touched, slots.

use std::collections::BTreeMap;

use weir_schemas::policy::{Policy, fits};
use weir_schemas::report::{LimitApplied, Limits, Sizing};

use crate::sample::{Sample, VertexSample};

/// The limit of a vertex whose last growth brought nothing.
pub const NO_GAIN: &str = "no_gain";

/// The answer after limits.
pub struct Limited {
    /// Subtasks for each vertex, in topological order.
    pub target: Vec<u32>,
    /// What was cut.
    pub limits: Limits,
    /// Whether there are too few slots for what is needed.
    pub short_of_slots: bool,
}

/// Applies all limits to what is needed; a vertex of which nothing is known keeps what it has. `no_gain` tells of vertices whose
/// last growth brought nothing, by id, in one sentence.
pub fn apply(
    sample: &Sample,
    sizing: &Sizing,
    wanted: &[u32],
    no_gain: &BTreeMap<String, String>,
    policy: &Policy,
) -> Limited {
    let mut limits = Limits::default();
    let mut target = Vec::with_capacity(wanted.len());
    for (vertex, &wanted) in sample.vertices.iter().zip(wanted) {
        let in_vain = no_gain.get(&vertex.id).filter(|_| wanted > vertex.parallelism);
        if let Some(detail) = in_vain {
            limits.applied.push(LimitApplied {
                vertex: vertex.id.clone(),
                name: vertex.name.clone(),
                from: wanted,
                to: vertex.parallelism,
                limit: NO_GAIN.into(),
                detail: detail.clone(),
            });
        }
        let wanted = if in_vain.is_some() { vertex.parallelism } else { wanted };
        target.push(bounded(vertex, wanted, policy, &mut limits));
    }
    let short_of_slots = fit_into_slots(sample, sizing, &mut target, &mut limits);
    Limited { target, limits, short_of_slots }
}

/// One vertex within the bounds of its graph and its policy.
fn bounded(vertex: &VertexSample, wanted: u32, policy: &Policy, limits: &mut Limits) -> u32 {
    let mut value = wanted;
    let mut limit = |to: u32, word: &str, detail: String| {
        if to != value {
            limits.applied.push(LimitApplied {
                vertex: vertex.id.clone(),
                name: vertex.name.clone(),
                from: value,
                to,
                limit: word.into(),
                detail,
            });
            value = to;
        }
        value
    };
    if wanted == vertex.parallelism {
        return wanted;
    }
    if let Some(pattern) = policy.untouched_vertices.iter().find(|pattern| fits(pattern, &vertex.name)) {
        return limit(vertex.parallelism, "untouched", format!("the policy says never to touch {pattern:?}"));
    }
    let value = limit(wanted.max(policy.min_parallelism), "policy_min", "the policy asks for no fewer".into());
    let most = policy.max_parallelism.unwrap_or(u32::MAX);
    let value = limit(value.min(most), "policy_max", "the policy allows no more".into());
    if vertex.max_parallelism == 0 {
        return value;
    }
    let detail = format!("the job was built with {} key groups, its max parallelism", vertex.max_parallelism);
    limit(value.min(vertex.max_parallelism), "max_parallelism", detail)
}

/// Slots that this many subtasks take: one slot holds a subtask of each vertex of its slot-sharing group.
pub fn slots(sample: &Sample, parallelism: &[u32]) -> u32 {
    let mut groups: BTreeMap<&str, u32> = BTreeMap::new();
    for (vertex, &subtasks) in sample.vertices.iter().zip(parallelism) {
        let largest = groups.entry(&vertex.group).or_default();
        *largest = subtasks.max(*largest);
    }
    groups.values().fold(0, |sum: u32, &group| sum.saturating_add(group))
}

/// Slots that the job may take. Slots stay allocated for about a minute after a shrink, so the count of free ones is believed
/// only where other jobs compete for them.
fn available(sample: &Sample) -> u32 {
    let facts = &sample.facts;
    let own = slots(sample, &sample.parallelism());
    if facts.jobs_running <= 1 { facts.slots_total } else { facts.slots_free.saturating_add(own) }.max(own)
}

/// Takes subtasks away, where they are missed least, until the plan fits. True if it had to.
fn fit_into_slots(sample: &Sample, sizing: &Sizing, target: &mut [u32], limits: &mut Limits) -> bool {
    let available = available(sample);
    if sample.facts.slots_total == 0 || slots(sample, target) <= available {
        return false;
    }
    let wanted = target.to_vec();
    // How much work each subtask would have, with one subtask less.
    let load = |vertex: usize, subtasks: u32| {
        let exact = sizing.vertices.get(vertex).and_then(|it| it.exact).unwrap_or(f64::from(wanted[vertex]));
        exact / f64::from(subtasks.saturating_sub(1).max(1))
    };
    while slots(sample, target) > available {
        let group_max = |group: &str, target: &[u32]| {
            let members = sample.vertices.iter().zip(target).filter(|(vertex, _)| vertex.group == group);
            members.map(|(_, &subtasks)| subtasks).max().unwrap_or(0)
        };
        // Only the largest vertices of a group decide how many slots it takes.
        let largest = (0..target.len()).filter(|&vertex| {
            target[vertex] > 1 && target[vertex] == group_max(&sample.vertices[vertex].group, target)
        });
        let Some(victim) = largest.min_by(|&a, &b| load(a, target[a]).total_cmp(&load(b, target[b]))) else { break };
        target[victim] -= 1;
    }
    for (index, vertex) in sample.vertices.iter().enumerate().filter(|(index, _)| wanted[*index] != target[*index]) {
        limits.applied.push(LimitApplied {
            vertex: vertex.id.clone(),
            name: vertex.name.clone(),
            from: wanted[index],
            to: target[index],
            limit: "SHORT_OF_SLOTS".into(),
            detail: format!("the cluster has {available} slots for this job: add TaskManagers"),
        });
    }
    true
}
