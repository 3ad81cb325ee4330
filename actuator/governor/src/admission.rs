//! Whether a command may be started now.

use std::collections::BTreeMap;
use std::fmt;

use weir_schemas::control::Mode;

use crate::Action;
use crate::command::Command;
use crate::observation::{Observation, Scheduler};

/// What people have said about the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controls {
    /// How far Weir may go.
    pub mode: Mode,
    /// The job is paused.
    pub paused: bool,
    /// Everything is frozen.
    pub frozen: bool,
    /// A person approved the command, or asked for it.
    pub approved: bool,
}

/// What a command is compared with, besides the job itself.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
    /// What people have said.
    pub controls: Controls,
    /// Another action of the same job that is under way.
    pub under_way: Option<&'a Action>,
    /// Newest epoch of an analyzer that was seen for the job.
    pub newest_epoch: u64,
    /// Upper bounds that Weir set last in this run, by vertex id, where it did.
    pub ours: Option<&'a BTreeMap<String, u32>>,
}

/// The answer to a command.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It may be started.
    Go,
    /// It may be started later.
    Wait(Refusal),
    /// It may not be started any more.
    Refuse(Refusal),
}

/// Why a command is not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A stable word.
    pub word: &'static str,
    /// What stands against it and what to do, as a clause without a full stop.
    pub why: String,
}

impl Refusal {
    pub(crate) fn new(word: &'static str, why: String) -> Self {
        Self { word, why }
    }

    /// It has waited for too long.
    pub(crate) fn expired() -> Self {
        Self::new("expired", "it is too old to be started; the next plan is made from fresh numbers".into())
    }

    /// A person does not want it.
    #[must_use]
    pub fn rejected(by: &str) -> Self {
        Self::new("rejected", format!("{by} rejected it"))
    }

    /// A newer plan took its place while it waited.
    #[must_use]
    pub fn superseded() -> Self {
        Self::new("superseded", "a newer plan has taken its place".into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// The first Flink that has requirements.
const FIRST_WITH_REQUIREMENTS: (u32, u32) = (1, 18);

/// Says whether a command may be started: what people said first, then whose command it is, then what Flink can do,
/// then whether the job is still the one that the plan was made for.
pub fn admit(command: &Command, context: &Context<'_>, seen: &Observation) -> Admission {
    let checks =
        [of_people(command, context), of_age(command, context), of_cluster(seen), of_job(command, seen)].into_iter();
    if let Some(refusal) = checks.flatten().next() {
        return Admission::Refuse(refusal);
    }
    if let Some(waiting) = of_moment(context, seen) {
        return Admission::Wait(waiting);
    }
    match of_parent(command, context, seen).or_else(|| of_target(command, seen)) {
        Some(refusal) => Admission::Refuse(refusal),
        None => Admission::Go,
    }
}

/// What people said.
fn of_people(command: &Command, context: &Context<'_>) -> Option<Refusal> {
    let Controls { mode, paused, frozen, approved } = context.controls;
    if frozen {
        return refuse("frozen", "everything is frozen; `weir unfreeze` lets Weir act again");
    }
    // A person who asks for something by name wants it now, whatever Weir may do by itself.
    if command.is_from_person() {
        return None;
    }
    if paused {
        return refuse("paused", "the job is paused; `weir resume` lets Weir act on it again");
    }
    match mode {
        Mode::Auto => None,
        Mode::Approve if approved => None,
        Mode::Approve => refuse("mode", "the job's mode is approve and nobody approved this; approve the next plan"),
        Mode::Observe | Mode::Recommend => {
            refuse("mode", format!("the job's mode is {mode}; set it to approve or auto to let Weir act"))
        }
    }
}

/// Whose command it is, and how old.
fn of_age(command: &Command, context: &Context<'_>) -> Option<Refusal> {
    if !command.is_from_person() && command.epoch < context.newest_epoch {
        let (old, new) = (command.epoch, context.newest_epoch);
        return refuse("old_epoch", format!("an analyzer of epoch {old} decided it and epoch {new} has taken over"));
    }
    if context.now_ms >= command.expires_at_ms {
        return Some(Refusal::expired());
    }
    None
}

/// What Flink can do.
fn of_cluster(seen: &Observation) -> Option<Refusal> {
    if seen.version().is_some_and(|version| version < FIRST_WITH_REQUIREMENTS) {
        let version = &seen.flink_version;
        return refuse("flink_too_old", format!("Flink {version} cannot change a running job; it takes 1.18 or newer"));
    }
    match seen.scheduler {
        Scheduler::Default => refuse(
            "default_scheduler",
            "the cluster runs the default scheduler, which cannot rescale; set jobmanager.scheduler: adaptive",
        ),
        Scheduler::Reactive => refuse(
            "reactive_mode",
            "the cluster runs in reactive mode, which takes all slots; change the number of TaskManagers instead",
        ),
        Scheduler::Adaptive | Scheduler::Unknown => None,
    }
}

/// What the job is, whatever it does at the moment.
fn of_job(command: &Command, seen: &Observation) -> Option<Refusal> {
    if seen.run != command.run {
        return refuse(
            "parent_gone",
            "the job was submitted again since the plan was made; the next plan is for the new run",
        );
    }
    if seen.has_ended() {
        return refuse("job_not_running", format!("the job is {}; there is nothing to rescale", seen.job_state));
    }
    if let Some(rival) = &seen.rival {
        return refuse("rival_autoscaler", format!("{rival} scales this job as well; switch one of the two off"));
    }
    if seen.same_name > 1 {
        return refuse(
            "ambiguous_name",
            format!("{} running jobs have this name; give each its own to let Weir act", seen.same_name),
        );
    }
    if !seen.checkpoints.enabled {
        return refuse(
            "no_checkpointing",
            "the job has no checkpoints, so a rescale would lose its state; switch them on",
        );
    }
    None
}

/// What may be better in a moment.
fn of_moment(context: &Context<'_>, seen: &Observation) -> Option<Refusal> {
    if let Some(other) = context.under_way {
        return refuse("another_action", format!("another action of the job is {}", other.phase.word()));
    }
    if !seen.is_settled() {
        return refuse("job_not_running", format!("the job is {} and not all subtasks run yet", seen.job_state));
    }
    if seen.requirements.is_none() {
        return refuse("requirements_unknown", "the requirements that Flink holds cannot be read at the moment");
    }
    None
}

/// Whether the job is still what the plan was made for.
fn of_parent(command: &Command, context: &Context<'_>, seen: &Observation) -> Option<Refusal> {
    let planned = &command.plan.parent.parallelism;
    let target = command.plan.target();
    if let Some(vertex) = target.keys().find(|vertex| !seen.vertices.contains_key(*vertex)) {
        return refuse("unknown_vertex", format!("the job has no vertex {vertex}; the next plan knows the new graph"));
    }
    if let Some((_, vertex)) = seen.vertices.iter().find(|(id, _)| !target.contains_key(*id)) {
        return refuse("missing_vertex", format!("the plan says nothing of vertex {}; Flink wants all", vertex.name));
    }
    let requirements = &command.plan.parent.requirements;
    if !requirements.is_empty() && *requirements != seen.requirements_digest {
        return Some(changed_requirements(context, seen));
    }
    if *planned != seen.parallelism() {
        return refuse("parent_gone", "the job runs at another size than the plan was made for; the next plan sees it");
    }
    None
}

/// Somebody changed the requirements: Weir itself, or somebody whom it does not know.
fn changed_requirements(context: &Context<'_>, seen: &Observation) -> Refusal {
    if context.ours.is_some() && context.ours == seen.upper_bounds().as_ref() {
        let why = "Weir itself has rescaled the job since the plan was made; the next plan sees it";
        return Refusal::new("parent_gone", why.into());
    }
    let why =
        "somebody else has changed the job's requirements since the plan was made; make sure that one party scales it";
    Refusal::new("rival_autoscaler", why.into())
}

/// Whether the target can be had at all.
fn of_target(command: &Command, seen: &Observation) -> Option<Refusal> {
    if seen.checkpoints.completed == 0 && !seen.checkpoints.restored {
        return refuse(
            "no_completed_checkpoint",
            "no checkpoint of the job has completed yet, so a rescale would lose its state; see why none completes",
        );
    }
    for (id, to) in command.plan.target() {
        let most = seen.vertices.get(&id).map_or(0, |vertex| vertex.max_parallelism);
        if to == 0 || (most > 0 && to > most) {
            return refuse(
                "impossible_target",
                format!("vertex {id} cannot run with {to} subtasks; it allows 1 to {most}"),
            );
        }
    }
    None
}

#[expect(clippy::unnecessary_wraps, reason = "what every check gives")]
fn refuse(word: &'static str, why: impl Into<String>) -> Option<Refusal> {
    Some(Refusal::new(word, why.into()))
}
