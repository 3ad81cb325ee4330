//! What is right for a job now.

use std::collections::BTreeMap;

use weir_schemas::control::Mode;
use weir_schemas::decision::{
    DECISION_SCHEMA, Decision, Direction, Disposition, Parent, Plan, PlannedVertex, Verdict, command_id, decision_id,
};
use weir_schemas::identity::{JobKey, RunId};
use weir_schemas::policy::Policy;
use weir_schemas::report::{Cost, Demand, Gates, Inputs, Problem, Report, Sizing, Step};

use crate::demand::Arrivals;
use crate::gain;
use crate::gates::{self, Asked};
use crate::health;
use crate::interval::Interval;
use crate::job::{InFlight, JobState};
use crate::limits::{self, Limited};
use crate::need;
use crate::sample::Sample;
use crate::window::{self, Halves};
use crate::words;

/// Reasons to hold that pass by themselves, and are told only if they have not after [`PATIENCE_MS`].
const PASSING: [&str; 6] = ["measuring", LOAD_UNSETTLED, "not_measured", "not_running", "action_in_flight", "mixed"];
/// The half-windows do not agree on the load.
const LOAD_UNSETTLED: &str = "load_unsettled";
/// See [`PASSING`]; in milliseconds.
const PATIENCE_MS: i64 = 30_000;

/// Where and when a decision is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Time of the record that is decided on, in milliseconds since 1970.
    pub now_ms: i64,
    /// Incarnation of the log that the record was read from.
    pub incarnation: String,
    /// Position after the record.
    pub position: u64,
    /// Epoch of the analyzer.
    pub epoch: u64,
}

/// A decision, and whether people are to be told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The decision.
    pub decision: Decision,
    /// Whether its verdict, reason or disposition differ from the last one that was told.
    pub changed: bool,
}

/// What was found on the way, before there is a verdict.
struct Findings {
    verdict: Verdict,
    disposition: Disposition,
    report: Report,
}

impl JobState {
    /// Decides on what is known now. The answer depends on the state and the arguments alone; what it commits the job to is
    /// remembered in the state. `None` as long as nobody has told the job's mode and policy, or no round has come.
    pub fn decide(&mut self, job: &JobKey, context: &Context) -> Option<Judged> {
        let control = self.control.clone()?;
        let run = self.run()?.clone();
        let policy = control.policy.digest();
        let id = decision_id(job, &run, &context.incarnation, context.position, &policy);
        if self.in_flight.as_ref().is_some_and(|action| action.is_lost(context.now_ms)) {
            self.in_flight = None;
        }
        let findings = self.look(context, &run);
        let Findings { verdict, disposition, report } = findings;
        let sentence = words::sentence(job, &verdict, &disposition, &report);
        let decision = Decision {
            schema: DECISION_SCHEMA,
            id,
            job: job.clone(),
            run,
            decided_at_ms: context.now_ms,
            epoch: context.epoch,
            policy,
            verdict,
            disposition,
            report,
            sentence,
        };
        let changed = self.is_news(&decision);
        self.commit_to(&decision);
        Some(Judged { decision, changed })
    }

    /// Whether people are to be told: the verdict, its reason or its disposition differ from what they were told last. A reason
    /// that passes by itself is told only when it does not.
    fn is_news(&mut self, decision: &Decision) -> bool {
        let passing = match (&decision.verdict, &decision.disposition) {
            (Verdict::Hold { because }, _) => PASSING.contains(&because.as_str()),
            (_, Disposition::Withheld { gate }) => gate == "quiet_period",
            _ => false,
        };
        let since_ms = *self.passing_since_ms.get_or_insert(decision.decided_at_ms);
        if !passing {
            self.passing_since_ms = None;
        } else if decision.decided_at_ms - since_ms < PATIENCE_MS {
            return false;
        }
        let told = format!("{} / {}", decision.verdict.word(), decision.disposition);
        let changed = self.told.as_ref() != Some(&told);
        self.told = Some(told);
        changed
    }

    /// Remembers what a decision sets in motion.
    fn commit_to(&mut self, decision: &Decision) {
        let awaits_approval = decision.disposition == Disposition::AwaitsApproval;
        let Some(plan) = decision.verdict.plan() else { return };
        if !awaits_approval && decision.disposition != Disposition::Act {
            return;
        }
        self.plans = self.plans.max(plan.number);
        gain::remember(&mut self.grown, plan, decision.report.sizing());
        self.released_shrink = None;
        self.in_flight = Some(InFlight {
            command: command_id(&decision.job, plan),
            awaits_approval,
            since_ms: decision.decided_at_ms,
            plan: plan.number,
            target: plan.target(),
            started: false,
        });
    }

    fn look(&mut self, context: &Context, run: &RunId) -> Findings {
        let policy = self.policy();
        let mut inputs = Inputs { problems: self.problems(), ..Inputs::default() };
        let halves = self.measure(&policy, &mut inputs);
        let hold = |because: &str| Verdict::Hold { because: because.into() };
        let grave = inputs.problems.iter().find(|problem| problem.grave).cloned();
        let sample = self.newest.clone();
        let (None, Some((halves, arrivals)), Some(sample)) = (&grave, halves, sample) else {
            // A load that does not agree for a moment says neither that more nor that less is needed: what was needed before it
            // stays known. Anything else is a gap.
            if grave.as_ref().is_none_or(|problem| problem.word != LOAD_UNSETTLED) {
                self.needed.forget();
            }
            let (word, detail) =
                grave.map_or(("measuring".into(), "too few rounds yet".into()), |it| (it.word, it.detail));
            let health = health::unknown(self.newest.as_ref(), &detail);
            let steps = vec![Step::Inputs(inputs), Step::Health(health)];
            let report = Report { rules: Vec::new(), steps };
            return Findings { verdict: hold(&word), disposition: Disposition::Nothing, report };
        };
        self.weigh(context, run, &sample, &halves, arrivals, inputs, &policy)
    }

    /// The shortest pair of half-windows that agrees on the load, with what arrived in it.
    fn measure(&self, policy: &Policy, inputs: &mut Inputs) -> Option<(Halves, Arrivals)> {
        let sample = self.newest.as_ref()?;
        inputs.refresh_ms = sample.facts.refresh_ms;
        let intervals: Vec<Interval> = self.intervals.iter().cloned().collect();
        let half_ms = window::half_window_ms(policy, sample.facts.refresh_ms.max(sample.facts.period_ms.min(1_000)));
        let mut found: Option<(Halves, Arrivals)> = None;
        for halves in window::pairs(&intervals, half_ms) {
            let arrivals = Arrivals::measure(sample, &halves, policy)?;
            let settled = arrivals.unsettled.is_empty();
            if found.is_none() || settled {
                found = Some((halves, arrivals));
            }
            if settled {
                break;
            }
        }
        let (halves, arrivals) = found?;
        inputs.from_ms = halves.older.from_ms;
        inputs.to_ms = halves.newer.to_ms;
        inputs.rounds = halves.older.rounds + halves.newer.rounds;
        for source in &arrivals.at_least {
            inputs.problems.push(Problem {
                word: "backlog_unknown".into(),
                detail: format!("{source} is held back and its connector tells no backlog: at least this much arrives"),
                grave: false,
            });
        }
        let told_before = Interval::everything_told(&intervals);
        if intervals.last().zip(told_before).is_some_and(|(newest, before)| !newest.tells_as_much_as(&before)) {
            inputs.problems.push(Problem {
                word: "incomplete".into(),
                detail: "the newest round lacks counters that were told before".into(),
                grave: false,
            });
        }
        if let Some(source) = arrivals.unsettled.first() {
            inputs.problems.push(Problem {
                word: LOAD_UNSETTLED.into(),
                detail: format!("the load of {source} is changing; it is believed once two half-windows agree"),
                grave: true,
            });
        }
        Some((halves, arrivals))
    }

    /// What stands against judging at all.
    fn problems(&self) -> Vec<Problem> {
        let mut found: Vec<Problem> = self
            .flaws
            .iter()
            .map(|(word, detail)| Problem { word: word.clone(), detail: detail.clone(), grave: true })
            .collect();
        let mut grave = |word: &str, detail: String| found.push(Problem { word: word.into(), detail, grave: true });
        // Rounds of the two come by turns, so that nothing can be said of either.
        if self.newest.as_ref().is_some_and(|sample| sample.facts.same_name > 1) {
            grave("ambiguous_name", "several running jobs share this name: give each its own".into());
        }
        if let Some(action) = self.in_flight.as_ref().filter(|action| !action.awaits_approval) {
            grave("action_in_flight", format!("plan {} is being carried out", action.plan));
        }
        if let Some(sample) = self.newest.as_ref().filter(|sample| !sample.all_running()) {
            grave("not_running", format!("the job is {}, or not all its subtasks run", sample.facts.job_state));
        }
        found
    }

    #[expect(clippy::too_many_arguments, reason = "one stage of a pipeline whose stages hand everything on")]
    fn weigh(
        &mut self,
        context: &Context,
        run: &RunId,
        sample: &Sample,
        halves: &Halves,
        arrivals: Arrivals,
        inputs: Inputs,
        policy: &Policy,
    ) -> Findings {
        let intervals: Vec<Interval> = self.intervals.iter().cloned().collect();
        let targets = arrivals.targets(sample.vertices.len());
        let since = self.running_since_ms.unwrap_or(i64::MAX);
        let sizing =
            need::of_every_vertex(sample, &intervals, &halves.newer, &targets, since, policy).unwrap_or_default();
        let (health, rules) = health::judge(&arrivals, &sizing, &halves.newer, policy);
        let wanted = self.wanted(context.now_ms, sample, &sizing, &inputs, policy);
        let limited = limits::apply(sample, &sizing, &wanted, &gain::none(&self.grown, &sizing), policy);
        let demand = Demand { sources: arrivals.sources.into_iter().map(|(_, source)| source).collect() };
        let data_complete = inputs.problems.is_empty() && self.needed.quiet_at_ms(&sample.parallelism(), 0).is_some();
        let mut report = Report {
            rules,
            steps: vec![Step::Inputs(inputs), Step::Health(health), Step::Demand(demand), Step::Sizing(sizing)],
        };
        let current = sample.parallelism();
        let waits = self.is_worth_waiting(sample, &report, context.now_ms);
        if limited.target == current || waits {
            let not_yet = || Verdict::Hold { because: "not_measured".into() };
            let settled = self.running_since_ms.is_some_and(|since| context.now_ms - since >= PATIENCE_MS);
            let verdict = if waits { not_yet() } else { unchanged(sample, &report, &limited, settled) };
            push_limits(&mut report, limited);
            return Findings { verdict, disposition: Disposition::Nothing, report };
        }
        let plan = self.plan(run, sample, &report, &limited, policy);
        let cost = cost(sample, &report, &limited.target, policy);
        let asked = Asked {
            now_ms: context.now_ms,
            direction: plan.direction,
            target: &plan.target(),
            slots_before: cost.slots_before,
            slots_after: cost.slots_after,
            quiet_at_ms: self.needed.due_at_ms(&current, policy.shrink_after_ms),
            released: plan.direction == Direction::Shrink && self.released_shrink.as_ref() == Some(&limited.target),
            data_complete,
        };
        let looked = gates::look(self, &sample.facts, &asked);
        let disposition = gates::disposition(&self.control.clone().unwrap_or_default(), &looked);
        push_limits(&mut report, limited);
        report.steps.push(Step::Gates(Gates { gates: looked }));
        report.steps.push(Step::Cost(cost));
        Findings { verdict: Verdict::Rescale(plan), disposition, report }
    }

    /// Subtasks to aim at, before limits: growth at once, a shrink only to the most that was needed of late.
    fn wanted(&mut self, now_ms: i64, sample: &Sample, sizing: &Sizing, inputs: &Inputs, policy: &Policy) -> Vec<u32> {
        let current = sample.parallelism();
        let needed: Option<Vec<u32>> = sizing
            .vertices
            .iter()
            .zip(&sample.inputs)
            .map(|(vertex, inputs)| if inputs.is_empty() { Some(vertex.current) } else { vertex.needed })
            .collect();
        match needed.filter(|_| inputs.problems.is_empty()) {
            Some(needed) => self.needed.learn(now_ms, &needed, policy.shrink_after_ms),
            None => self.needed.forget(),
        }
        let known = || sizing.vertices.iter().zip(&current).map(|(vertex, &runs)| vertex.needed.unwrap_or(runs));
        if known().zip(&current).any(|(needed, &runs)| needed > runs) {
            // A vertex with room to spare keeps it: shrinking is never urgent.
            return known().zip(&current).map(|(needed, &runs)| needed.max(runs)).collect();
        }
        let most = self.needed.most();
        if most.len() != current.len() {
            self.released_shrink = None;
            return current;
        }
        let quiet = self.needed.due_at_ms(&current, policy.shrink_after_ms).is_some_and(|at| at <= now_ms);
        if let Some(released) = &self.released_shrink {
            if released.len() == most.len() && most.iter().zip(released).all(|(most, released)| most <= released) {
                return released.clone();
            }
            self.released_shrink = None;
        }
        // Until the quiet period is over, what is needed now is what is told.
        let latest: Vec<u32> = known().collect();
        if quiet { most } else { latest }
    }

    /// Whether a vertex that is not measured yet may well be in a moment: to grow without it would cost a second restart.
    fn is_worth_waiting(&self, sample: &Sample, report: &Report, now_ms: i64) -> bool {
        let running_ms = self.running_since_ms.map_or(0, |since| now_ms - since);
        running_ms < PATIENCE_MS && has_unknown(sample, report)
    }

    fn plan(&self, run: &RunId, sample: &Sample, report: &Report, limited: &Limited, policy: &Policy) -> Plan {
        let vertices: Vec<PlannedVertex> = sample
            .vertices
            .iter()
            .zip(&limited.target)
            .map(|(vertex, &to)| PlannedVertex {
                id: vertex.id.clone(),
                name: vertex.name.clone(),
                from: vertex.parallelism,
                to,
            })
            .collect();
        let grows = vertices.iter().any(|vertex| vertex.to > vertex.from);
        let parallelism: BTreeMap<String, u32> =
            sample.vertices.iter().map(|vertex| (vertex.id.clone(), vertex.parallelism)).collect();
        let sources = report.demand().map(|demand| demand.sources.as_slice()).unwrap_or_default();
        let read = |source: &weir_schemas::report::SourceDemand| {
            source.arrival_per_second - source.backlog_slope_per_second.unwrap_or(0.0)
        };
        let target: BTreeMap<String, u32> = vertices.iter().map(|vertex| (vertex.id.clone(), vertex.to)).collect();
        // The same target that already awaits approval is the same plan, as long as approval is what is asked for. In another mode
        // it is a new one, which takes the place of the one that waits.
        let asks = self.control.as_ref().is_some_and(|control| control.mode == Mode::Approve);
        let waits = |action: &&InFlight| asks && action.awaits_approval && action.target == target;
        let awaiting = self.in_flight.as_ref().filter(waits);
        Plan {
            number: awaiting.map_or(self.plans + 1, |action| action.plan),
            parent: Parent { run: run.clone(), parallelism, requirements: sample.facts.requirements.clone() },
            vertices,
            direction: if grows { Direction::Grow } else { Direction::Shrink },
            short_of_slots: limited.short_of_slots,
            expected_stop_ms: policy.expected_stop_ms,
            throughput_per_second: sources.iter().map(read).sum(),
            backlog: sources.iter().map(|source| source.backlog).try_fold(0.0, |sum, backlog| Some(sum + backlog?)),
        }
    }
}

/// Why nothing is to be changed.
fn unchanged(sample: &Sample, report: &Report, limited: &Limited, settled: bool) -> Verdict {
    let cannot_help = |cause: &str| Verdict::CannotHelp { cause: cause.into() };
    let overloaded = report.rules.iter().any(|rule| rule.rule == "keeps_up" && !rule.held);
    let chained_source = sample.vertices.iter().any(|vertex| vertex.is_source && vertex.is_chained);
    if limited.limits.applied.iter().any(|limit| limit.limit == limits::NO_GAIN) {
        return cannot_help("more_will_not_help");
    }
    if limited.short_of_slots {
        return cannot_help("short_of_slots");
    }
    if let Some(limit) = limited.limits.applied.first() {
        return Verdict::Hold { because: format!("at_limit_{}", limit.limit) };
    }
    if overloaded && chained_source {
        return cannot_help("source_not_sized");
    }
    if has_unknown(sample, report) {
        return Verdict::Hold { because: "not_measured".into() };
    }
    if overloaded && settled {
        let uneven = report.rules.iter().any(|rule| rule.rule == health::IS_EVEN && !rule.held);
        return cannot_help(if uneven { "uneven_load" } else { "more_will_not_help" });
    }
    Verdict::Hold { because: "right_size".into() }
}

/// Whether there is a vertex, other than a source, of which it cannot be said what it needs.
fn has_unknown(sample: &Sample, report: &Report) -> bool {
    let sizes = report.sizing().map(|sizing| sizing.vertices.as_slice()).unwrap_or_default();
    sizes.len() < sample.inputs.len()
        || sizes.iter().zip(&sample.inputs).any(|(vertex, inputs)| !inputs.is_empty() && vertex.needed.is_none())
}

fn push_limits(report: &mut Report, limited: Limited) {
    if !limited.limits.applied.is_empty() {
        report.steps.push(Step::Limits(limited.limits));
    }
}

/// What a plan costs and brings.
fn cost(sample: &Sample, report: &Report, target: &[u32], policy: &Policy) -> Cost {
    let sources = report.demand().map(|demand| demand.sources.as_slice()).unwrap_or_default();
    let arrival: f64 = sources.iter().map(|source| source.arrival_per_second).sum();
    let backlog: f64 = sources.iter().filter_map(|source| source.backlog).sum();
    let stop_s = weir_schemas::num::float_signed(policy.expected_stop_ms) / 1000.0;
    let after_stop = backlog + arrival * stop_s;
    // How many times the arrivals the tightest vertex can take at the planned size.
    let sizes = report.sizing().map(|sizing| sizing.vertices.as_slice()).unwrap_or_default();
    let headroom = sizes
        .iter()
        .zip(target)
        .filter_map(|(vertex, &to)| Some(f64::from(to) * vertex.capacity_per_subtask? / vertex.target_rate?))
        .fold(f64::INFINITY, f64::min);
    let spare = arrival * (headroom - 1.0);
    let recovers = spare.is_finite() && spare > 0.0;
    Cost {
        slots_before: limits::slots(sample, &sample.parallelism()),
        slots_after: limits::slots(sample, target),
        expected_stop_ms: policy.expected_stop_ms,
        backlog_after_stop: after_stop,
        recovery_ms: recovers.then(|| weir_schemas::num::round_i64(after_stop / spare * 1000.0)),
    }
}
