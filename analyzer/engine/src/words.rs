//! A decision in one sentence.

use weir_schemas::decision::{Disposition, Plan, Verdict};
use weir_schemas::identity::JobKey;
use weir_schemas::num::short;
use weir_schemas::report::{Report, VertexSizing};

/// One sentence that can be pasted into a chat: what, and why.
pub fn sentence(job: &JobKey, verdict: &Verdict, disposition: &Disposition, report: &Report) -> String {
    let name = &job.name;
    match verdict {
        Verdict::Hold { because } => format!("{name}: holds ({}){}", because.replace('_', " "), hold_reason(report)),
        Verdict::CannotHelp { cause } => {
            format!("{name}: more subtasks cannot help ({}){}", cause.replace('_', " "), hold_reason(report))
        }
        Verdict::Rescale(plan) => {
            format!("{name}: {}, since {} ({disposition})", plan.arrows(), plan_reason(plan, report))
        }
    }
}

fn hold_reason(report: &Report) -> String {
    let grave = report.inputs().and_then(|inputs| inputs.problems.iter().find(|problem| problem.grave));
    if let Some(problem) = grave {
        return format!(": {}", problem.detail);
    }
    report.health().map_or_else(String::new, |health| format!(": {}", health.detail))
}

/// Why a plan is right: the vertex that decided it, with its numbers.
fn plan_reason(plan: &Plan, report: &Report) -> String {
    let arrival: f64 = report.demand().map_or(0.0, |demand| demand.sources.iter().map(|s| s.arrival_per_second).sum());
    let sizing = report.sizing().map(|sizing| sizing.vertices.as_slice()).unwrap_or_default();
    let changed = |vertex: &&VertexSizing| plan.vertices.iter().any(|v| v.id == vertex.vertex && v.from != v.to);
    // The tightest is the one whose need exceeds what runs by the largest factor.
    let pressure = |vertex: &VertexSizing| vertex.exact.unwrap_or(0.0) / f64::from(vertex.current.max(1));
    let tightest = sizing.iter().filter(changed).max_by(|a, b| pressure(a).total_cmp(&pressure(b)));
    let arrives = format!("{} records/s arrive", short(arrival));
    match tightest {
        Some(VertexSizing {
            name,
            current,
            capacity_per_subtask: Some(capacity),
            target_rate: Some(rate),
            exact: Some(exact),
            ..
        }) => format!(
            "{arrives}: {name} will get {}/s and its {current} subtask{} can do {}/s, {} needed at {:.0} % busy",
            short(*rate),
            if *current == 1 { "" } else { "s" },
            short(capacity * f64::from(*current)),
            short(*exact),
            report.sizing().map_or(0.0, |sizing| sizing.utilisation) * 100.0
        ),
        _ => arrives,
    }
}
