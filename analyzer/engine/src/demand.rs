//! What arrives at the sources.

use weir_schemas::policy::Policy;
use weir_schemas::report::{DemandBasis, SourceDemand};
use weir_sizing::{Basis, SourceTarget, needed_rate};

use crate::interval::Interval;
use crate::sample::Sample;
use crate::window::{Halves, Totals, Window};

/// Above this share of time in which a source waits for its consumers it is held back.
const HELD_BACK: f64 = 0.1;
/// A backlog that falls by less than this share of the arrivals is level.
const LEVEL: f64 = 0.05;

/// What arrives at every source, and how far it can be relied on.
pub struct Arrivals {
    /// One entry for each source, with its index.
    pub sources: Vec<(usize, SourceDemand)>,
    /// Sources that are held back and tell no backlog: more arrives than what is known.
    pub at_least: Vec<String>,
    /// Sources whose halves do not agree.
    pub unsettled: Vec<String>,
}

/// Records a second that arrived at source `vertex`, counted as it hands them out: what it handed out plus the growth of its
/// backlog. What it took in stands in for what it handed out where that is not counted.
fn arrival(window: &Window, vertex: usize) -> Option<f64> {
    let totals = window.vertices.get(vertex)?;
    let growth = totals.pending.map_or(0.0, |(start, end)| end - start) * out_for_each_in(totals);
    Some(((read(totals)? + growth) / window.seconds).max(0.0))
}

/// Records that a source put through.
fn read(totals: &Totals) -> Option<f64> {
    totals.records_out.or(totals.records_in)
}

/// Records that a source hands out for each that waits in front of it: 1, unless it is chained to operators that make more or
/// fewer of them.
fn out_for_each_in(totals: &Totals) -> f64 {
    let counted = totals.records_out.zip(totals.records_in).filter(|(_, taken_in)| *taken_in > 0.0);
    counted.map_or(1.0, |(out, taken_in)| out / taken_in)
}

impl Arrivals {
    /// Measures every source over a pair of half-windows. `None` if one of them cannot be measured at all.
    pub fn measure(sample: &Sample, halves: &Halves, policy: &Policy) -> Option<Self> {
        let mut found = Self { sources: Vec::new(), at_least: Vec::new(), unsettled: Vec::new() };
        let sources = sample.vertices.iter().enumerate().filter(|(index, _)| sample.inputs[*index].is_empty());
        for (index, vertex) in sources {
            let demand = source_demand(sample, halves, policy, index)?;
            let held_back = halves.newer.share(index, |totals| totals.backpressured_ms).is_none_or(|s| s > HELD_BACK);
            // Behind a chain the backlog counts other records than the source hands out; without a count of both it says little.
            let counted = !vertex.is_chained || halves.newer.vertices[index].records_in.is_some();
            if held_back && (demand.backlog.is_none() || !counted) {
                found.at_least.push(vertex.name.clone());
            }
            if !agree(&demand, halves, policy) {
                found.unsettled.push(vertex.name.clone());
            }
            found.sources.push((index, demand));
        }
        Some(found)
    }

    /// The targets of the sources, by index of the vertex.
    pub fn targets(&self, vertices: usize) -> Vec<Option<SourceTarget>> {
        let mut targets = vec![None; vertices];
        for (index, demand) in &self.sources {
            let target = SourceTarget { arrival: demand.arrival_per_second, needed: demand.needed_per_second };
            if let Some(slot) = targets.get_mut(*index) {
                *slot = Some(target);
            }
        }
        targets
    }

    /// Records a second that arrive at all sources together.
    pub fn total(&self) -> f64 {
        self.sources.iter().map(|(_, demand)| demand.arrival_per_second).sum()
    }
}

fn source_demand(sample: &Sample, halves: &Halves, policy: &Policy, index: usize) -> Option<SourceDemand> {
    let vertex = &sample.vertices[index];
    let arrival_per_second = arrival(&halves.newer, index)?;
    let totals = &halves.newer.vertices[index];
    let pending = totals.pending;
    let seconds = |milliseconds: i64| weir_schemas::num::float_signed(milliseconds) / 1000.0;
    let needed = needed_rate(
        arrival_per_second,
        vertex.pending.unwrap_or(0.0) * out_for_each_in(totals),
        seconds(policy.expected_stop_ms),
        seconds(policy.recovery_objective_ms),
        policy.utilisation,
    );
    Some(SourceDemand {
        vertex: vertex.id.clone(),
        name: vertex.name.clone(),
        arrival_per_second,
        arrival_before_per_second: arrival(&halves.older, index)?,
        backlog: vertex.pending,
        backlog_slope_per_second: pending.map(|(start, end)| (end - start) / halves.newer.seconds),
        needed_per_second: needed.per_second,
        basis: match needed.basis {
            Basis::Utilisation => DemandBasis::Utilisation,
            Basis::Recovery => DemandBasis::Recovery,
        },
    })
}

/// Whether the two halves agree on the arrivals: within the policy's share, widened by what chance alone makes of few records.
fn agree(demand: &SourceDemand, halves: &Halves, policy: &Policy) -> bool {
    let (newer, older) = (demand.arrival_per_second, demand.arrival_before_per_second);
    let larger = newer.max(older);
    let records = larger * halves.newer.seconds.min(halves.older.seconds);
    records < 1.0 || (newer - older).abs() <= larger * (policy.agreement + 1.0 / records.sqrt())
}

/// Whether the job works off a backlog of more than a second's arrivals.
pub fn works_off_backlog(sample: &Sample, interval: &Interval) -> bool {
    let Some(window) = Window::over([interval]) else { return false };
    (0..sample.vertices.len()).filter(|index| sample.inputs[*index].is_empty()).any(|index| {
        let Some(((start, end), arriving)) = window.vertices[index].pending.zip(arrival(&window, index)) else {
            return false;
        };
        start > arriving && (start - end) / window.seconds > LEVEL * arriving
    })
}
