//! `weir explain`: a decision with everything that it rests on, from what was measured to what becomes of it.

use std::io::Write;

use weir_schemas::decision::{Decision, Verdict, command_id};
use weir_schemas::identity::JobKey;
use weir_schemas::num::{short, short_time};
use weir_schemas::report::{
    Cost, Demand, DemandBasis, Gate, Gates, Health, Inputs, LimitApplied, Limits, Report, RuleOutcome, Sizing,
    SourceDemand, Step, VertexSizing,
};
use weir_store::{ActionRow, Store};

use super::action::{AWAITS_APPROVAL, progress};
use super::status::{STALE_AFTER_MS, health_word};
use super::{CommandError, Global, names};
use crate::output::{Output, Sheet, age, json, moment, short_id, table, words};

/// Actions of a job among which the one of the decision is looked for.
const LOOKED_AT: u32 = 100;
const VERTEX_HEADER: [&str; 10] =
    ["vertex", "now", "busy", "will get", "one subtask does", "out/in", "exact", "needed", "target", ""];
/// Columns of numbers.
const NUMBERS: [&str; 8] = ["now", "busy", "will get", "one subtask does", "out/in", "exact", "needed", "target"];

/// Explains the latest decision about a job, or the one with an id.
pub(super) async fn run(
    store: &Store,
    global: &Global,
    text: &str,
    id: Option<&str>,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let job = names::known(store, text).await?;
    let decision = match id {
        Some(id) => of_job(store.decision(id).await?, &job)?,
        None => store.latest_decision(&job).await?.ok_or_else(|| no_decision(&job))?,
    };
    if global.output == Output::Json {
        return Ok(json(out, &decision)?);
    }
    let actions = store.actions(&job, LOOKED_AT).await?;
    let action = actions.iter().find(|row| is_of(row, &decision));
    // What is under way concerns whoever asks how the job is now, whichever decision it came from.
    let action = action.or_else(|| actions.iter().find(|row| row.open && id.is_none()));
    let mut sheet = sheet(&decision, action, global.now_ms);
    if id.is_none() && global.now_ms.saturating_sub(decision.decided_at_ms) > STALE_AFTER_MS {
        sheet
            .line("stale", "nothing newer was decided: see that `weir run` runs on this data, and reaches the cluster");
    }
    Ok(out.write_all(sheet.text().as_bytes())?)
}

fn of_job(decision: Decision, job: &JobKey) -> Result<Decision, CommandError> {
    if decision.job == *job {
        return Ok(decision);
    }
    let id = short_id(&decision.id).into();
    Err(CommandError::OtherJob { id, actual: decision.job.to_string(), job: job.to_string() })
}

/// Whether an action carries a decision out. While a plan waits, later decisions say the same, so that the plan counts.
fn is_of(action: &ActionRow, decision: &Decision) -> bool {
    let command = decision.verdict.plan().map(|plan| command_id(&decision.job, plan));
    action.decision_id == decision.id || command.as_ref() == Some(&action.id)
}

fn no_decision(job: &JobKey) -> CommandError {
    CommandError::NoDecision {
        job: job.to_string(),
        hint: "see that `weir run` runs on this data; a first decision takes a few rounds of metrics",
    }
}

fn sheet(decision: &Decision, action: Option<&ActionRow>, now_ms: i64) -> Sheet {
    let mut sheet = Sheet::default();
    let report = &decision.report;
    let measured = report.inputs().filter(|inputs| inputs.rounds > 0).map(rounds).unwrap_or_default();
    sheet.title(format!("{}   decided {} ago{measured}", decision.job, age(decision.decided_at_ms, now_ms)));
    sheet.line("decision", format!("{}, {} UTC", short_id(&decision.id), moment(decision.decided_at_ms)));
    sheet.line("verdict", verdict(decision));
    sheet.line("because", &decision.sentence);
    for step in &report.steps {
        match step {
            Step::Inputs(inputs) => data(&mut sheet, inputs),
            Step::Health(health) => health_line(&mut sheet, health),
            Step::Demand(demand) => demand_lines(&mut sheet, demand, report),
            Step::Sizing(sizing) => sheet.block(&vertices(sizing, decision)),
            Step::Limits(limits) => limit_lines(&mut sheet, limits),
            Step::Gates(gates) => gate_lines(&mut sheet, gates, now_ms),
            Step::Cost(cost) => sheet.line("cost", cost_text(cost)),
            Step::Unknown => sheet.line("(a step)", "a newer version wrote a step that this one cannot show"),
        }
        // Limits are left out of a report where nothing was cut, and belong after the sizes.
        if matches!(step, Step::Sizing(_)) && report.limits().is_none() {
            sheet.line("limits", "none");
        }
    }
    if !report.rules.is_empty() {
        sheet.lines("rules", report.rules.iter().map(rule));
    }
    if let Some(action) = action {
        sheet.line("action", action_text(action, now_ms));
    }
    sheet
}

/// `on 12 rounds (6.0 s), Flink refreshes every 1.0 s`.
fn rounds(inputs: &Inputs) -> String {
    let length = short_time(inputs.to_ms.saturating_sub(inputs.from_ms));
    format!(" on {} rounds ({length}), Flink refreshes every {}", inputs.rounds, short_time(inputs.refresh_ms))
}

fn verdict(decision: &Decision) -> String {
    match &decision.verdict {
        Verdict::Hold { because } => format!("hold: {}", words(because)),
        Verdict::CannotHelp { cause } => format!("cannot help: {}", words(cause)),
        Verdict::Rescale(plan) => {
            let short = if plan.short_of_slots { ", as far as slots allow" } else { "" };
            format!("rescale: {}{short} ({})", plan.arrows(), decision.disposition)
        }
    }
}

fn data(sheet: &mut Sheet, inputs: &Inputs) {
    if inputs.problems.is_empty() {
        return;
    }
    sheet.lines(
        "data",
        inputs.problems.iter().map(|problem| {
            let weight = if problem.grave { "nothing can be said" } else { "nothing is shrunk" };
            format!("{}: {} ({weight})", words(&problem.word), problem.detail)
        }),
    );
}

fn health_line(sheet: &mut Sheet, health: &Health) {
    sheet.line("health", format!("{}: {}", health_word(health.word), health.detail));
}

fn demand_lines(sheet: &mut Sheet, demand: &Demand, report: &Report) {
    let utilisation = report.sizing().map(|sizing| sizing.utilisation);
    sheet.lines("demand", demand.sources.iter().map(|source| demand_text(source, utilisation)));
}

fn demand_text(source: &SourceDemand, utilisation: Option<f64>) -> String {
    let backlog = match (source.backlog, source.backlog_slope_per_second) {
        (Some(backlog), Some(slope)) => format!("backlog {} ({}/s)", short(backlog), signed(slope)),
        (Some(backlog), None) => format!("backlog {}", short(backlog)),
        (None, _) => "backlog unknown".into(),
    };
    let basis = match (source.basis, utilisation) {
        (DemandBasis::Utilisation, Some(share)) => format!("{} utilisation", percent(share)),
        (DemandBasis::Utilisation, None) => "the policy's utilisation".into(),
        (DemandBasis::Recovery, _) => "to work the backlog off in time".into(),
    };
    format!(
        "{}  {}/s arrive ({}/s in the half-window before), {backlog}, capacity needed {}/s ({basis})",
        source.name,
        short(source.arrival_per_second),
        short(source.arrival_before_per_second),
        short(source.needed_per_second),
    )
}

fn vertices(sizing: &Sizing, decision: &Decision) -> String {
    let rows: Vec<Vec<String>> = sizing.vertices.iter().map(|vertex| vertex_row(vertex, decision)).collect();
    table(&VERTEX_HEADER, &rows, &NUMBERS)
}

fn vertex_row(vertex: &VertexSizing, decision: &Decision) -> Vec<String> {
    let rate = |rate: Option<f64>| rate.map_or("-".into(), |rate| format!("{}/s", short(rate)));
    let planned = decision.verdict.plan().and_then(|plan| plan.vertices.iter().find(|it| it.id == vertex.vertex));
    vec![
        vertex.name.clone(),
        vertex.current.to_string(),
        vertex.busy.map_or("-".into(), percent),
        rate(vertex.target_rate),
        rate(vertex.capacity_per_subtask),
        vertex.selectivity.map_or("-".into(), |ratio| format!("{ratio:.2}")),
        vertex.exact.map_or("-".into(), |exact| format!("{exact:.2}")),
        vertex.needed.map_or("-".into(), |needed| needed.to_string()),
        planned.map_or(vertex.current, |vertex| vertex.to).to_string(),
        vertex.held.clone().unwrap_or_default(),
    ]
}

fn limit_lines(sheet: &mut Sheet, limits: &Limits) {
    let text =
        |it: &LimitApplied| format!("{} {} -> {}: {} ({})", it.name, it.from, it.to, it.detail, words(&it.limit));
    sheet.lines("limits", limits.applied.iter().map(text));
}

/// Closed gates one by one, since each says what to wait for; open ones together.
fn gate_lines(sheet: &mut Sheet, gates: &Gates, now_ms: i64) {
    let (open, closed): (Vec<&Gate>, Vec<&Gate>) = gates.gates.iter().partition(|gate| gate.open);
    let closed = closed.into_iter().map(|gate| {
        let opens = gate.opens_at_ms.map(|at_ms| opens(at_ms, now_ms)).unwrap_or_default();
        format!("{} closed{opens}: {}", words(&gate.gate), gate.detail)
    });
    let open: Vec<String> = open.into_iter().map(|gate| words(&gate.gate)).collect();
    let open = (!open.is_empty()).then(|| format!("open: {}", open.join(", ")));
    sheet.lines("gates", closed.chain(open));
}

fn opens(at_ms: i64, now_ms: i64) -> String {
    match at_ms.saturating_sub(now_ms) {
        left if left > 0 => format!(" until {} UTC (in {})", moment(at_ms), short_time(left)),
        _ => format!(" until {} UTC", moment(at_ms)),
    }
}

fn cost_text(cost: &Cost) -> String {
    let gone = cost.recovery_ms.map_or(String::new(), |recovery| format!(", gone after {}", short_time(recovery)));
    format!(
        "slots {} -> {}, expected stop {}, backlog after it {}{gone}",
        cost.slots_before,
        cost.slots_after,
        short_time(cost.expected_stop_ms),
        short(cost.backlog_after_stop),
    )
}

fn rule(rule: &RuleOutcome) -> String {
    let held = if rule.held { "held   " } else { "broken " };
    format!("{held} {}: {}", words(&rule.rule), rule.detail)
}

fn action_text(action: &ActionRow, now_ms: i64) -> String {
    let id = short_id(&action.id);
    if action.state == AWAITS_APPROVAL {
        return format!("{id} awaits approval: `weir approve {id}` or `weir reject {id}`");
    }
    format!("{id} {}, {} ago", progress(action), age(action.updated_ms, now_ms))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn signed(value: f64) -> String {
    if value > 0.0 { format!("+{}", short(value)) } else { short(value) }
}
