//! Why a decision is what it is: one typed step for each stage of the way, and the only thing that people are shown.

use serde::{Deserialize, Serialize};

/// Everything that a decision rests on.
#[must_use]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Rules that were looked at.
    #[serde(default)]
    pub rules: Vec<RuleOutcome>,
    /// The steps, in the order in which they were taken.
    pub steps: Vec<Step>,
}

/// One rule and whether it held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleOutcome {
    /// Name of the rule.
    pub rule: String,
    /// Whether its condition held.
    pub held: bool,
    /// What it looked at, as words and numbers.
    pub detail: String,
}

/// One step on the way to a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// What was measured, and how good it is.
    Inputs(Inputs),
    /// How the job is doing.
    Health(Health),
    /// What arrives at the sources, and the capacity that it takes.
    Demand(Demand),
    /// What every vertex needs, before limits.
    Sizing(Sizing),
    /// What cut the answer.
    Limits(Limits),
    /// What the action waits for.
    Gates(Gates),
    /// What the action costs.
    Cost(Cost),
    /// A step that a newer version wrote.
    #[serde(other)]
    Unknown,
}

/// What was measured, and how good it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Inputs {
    /// Start of the older half-window, in milliseconds since 1970.
    pub from_ms: i64,
    /// End of the newer half-window, in milliseconds since 1970.
    pub to_ms: i64,
    /// Rounds that the two half-windows rest on.
    pub rounds: u32,
    /// How often Flink refreshes its metrics, in milliseconds.
    pub refresh_ms: i64,
    /// Why the data are not good enough, or what is odd about them; empty when all is well.
    pub problems: Vec<Problem>,
}

/// A flaw in the data. While there is one nothing is shrunk; a grave one stops growth as well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// A stable word, such as `restarting`.
    pub word: String,
    /// One sentence.
    pub detail: String,
    /// Whether nothing at all can be said because of it.
    pub grave: bool,
}

/// How a job is doing, in one word and the numbers behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// One word.
    pub word: HealthWord,
    /// One sentence with the numbers behind the word.
    pub detail: String,
}

/// One word for how a job is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthWord {
    /// It keeps up, with room to spare.
    Healthy,
    /// It keeps up, but a vertex has little room left.
    Strained,
    /// It does not keep up: the backlog grows or sources are held back.
    Overloaded,
    /// It works off a backlog and keeps up.
    CatchingUp,
    /// Nothing arrives.
    Idle,
    /// It is not running as it should: restarting, failing, or gone.
    Down,
    /// Too little is known.
    #[serde(other)]
    Unknown,
}

/// What arrives at the sources.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Demand {
    /// One entry for each source.
    pub sources: Vec<SourceDemand>,
}

/// What arrives at one source, and the rate that the job has to be sized for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceDemand {
    /// Vertex id.
    pub vertex: String,
    /// Vertex name.
    pub name: String,
    /// Records a second that arrive: what was read plus the slope of the backlog.
    pub arrival_per_second: f64,
    /// The same over the older half-window: the two must agree.
    pub arrival_before_per_second: f64,
    /// Records that wait, where known.
    pub backlog: Option<f64>,
    /// Records a second by which the backlog grows, where known.
    pub backlog_slope_per_second: Option<f64>,
    /// Capacity that the arrivals take, in records a second, at the policy's utilisation:
    /// `max(T/u, T + (B + T·D)/(S − D))`.
    pub needed_per_second: f64,
    /// Which term of the formula decided.
    pub basis: DemandBasis,
}

/// Which term of the demand formula decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DemandBasis {
    /// `T/u`: the utilisation that the policy asks for.
    Utilisation,
    /// `T + (B + T·D)/(S − D)`: the backlog has to be gone in time.
    Recovery,
}

/// What every vertex needs, before limits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sizing {
    /// Utilisation that the sizes aim at.
    pub utilisation: f64,
    /// One entry for each vertex, in topological order.
    pub vertices: Vec<VertexSizing>,
}

/// What one vertex needs, and what that rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VertexSizing {
    /// Vertex id.
    pub vertex: String,
    /// Vertex name.
    pub name: String,
    /// Subtasks that it runs with.
    pub current: u32,
    /// Records a second that will arrive once everything upstream is sized right (sum in DS2's equation 7).
    pub target_rate: Option<f64>,
    /// Records a second that one subtask can process (equations 1 and 5).
    pub capacity_per_subtask: Option<f64>,
    /// Records out for each record in (equations 5 and 6).
    pub selectivity: Option<f64>,
    /// Share of time in which its subtasks worked, 0 to 1.
    pub busy: Option<f64>,
    /// Subtasks that it needs, as a fraction, before the ceiling.
    pub exact: Option<f64>,
    /// Subtasks that it needs.
    pub needed: Option<u32>,
    /// Why it keeps what it has although, or because, nothing can be said.
    pub held: Option<String>,
}

/// What cut the answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Limits in the order in which they were applied; those that changed nothing are left out.
    pub applied: Vec<LimitApplied>,
}

/// A limit that changed the answer for a vertex.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitApplied {
    /// Vertex id.
    pub vertex: String,
    /// Vertex name.
    pub name: String,
    /// Subtasks before.
    pub from: u32,
    /// Subtasks after.
    pub to: u32,
    /// A stable word: `max_parallelism`, `policy_max`, `policy_min`, `splits`, `SHORT_OF_SLOTS`, `untouched`.
    pub limit: String,
    /// One sentence.
    pub detail: String,
}

/// What the action waits for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Gates {
    /// Every gate that was looked at, open or closed.
    pub gates: Vec<Gate>,
}

/// A gate: a reason to wait although the verdict is clear.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// A stable word, such as `quiet_period`.
    pub gate: String,
    /// Whether it lets the action through.
    pub open: bool,
    /// When it opens by itself, in milliseconds since 1970, where known.
    pub opens_at_ms: Option<i64>,
    /// One sentence.
    pub detail: String,
}

/// What the action costs and brings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Slots that the job takes now.
    pub slots_before: u32,
    /// Slots that it will take.
    pub slots_after: u32,
    /// Expected length of the stop, in milliseconds.
    pub expected_stop_ms: i64,
    /// Records that will wait at the sources after the stop.
    pub backlog_after_stop: f64,
    /// Time until that backlog is gone, in milliseconds; absent when it never is, or nothing waits.
    pub recovery_ms: Option<i64>,
}

impl Report {
    /// The inputs step, where there is one.
    #[must_use]
    pub fn inputs(&self) -> Option<&Inputs> {
        self.steps.iter().find_map(|step| if let Step::Inputs(it) = step { Some(it) } else { None })
    }

    /// The health step, where there is one.
    #[must_use]
    pub fn health(&self) -> Option<&Health> {
        self.steps.iter().find_map(|step| if let Step::Health(it) = step { Some(it) } else { None })
    }

    /// The demand step, where there is one.
    #[must_use]
    pub fn demand(&self) -> Option<&Demand> {
        self.steps.iter().find_map(|step| if let Step::Demand(it) = step { Some(it) } else { None })
    }

    /// The sizing step, where there is one.
    #[must_use]
    pub fn sizing(&self) -> Option<&Sizing> {
        self.steps.iter().find_map(|step| if let Step::Sizing(it) = step { Some(it) } else { None })
    }

    /// The limits step, where there is one.
    #[must_use]
    pub fn limits(&self) -> Option<&Limits> {
        self.steps.iter().find_map(|step| if let Step::Limits(it) = step { Some(it) } else { None })
    }

    /// The gates step, where there is one.
    #[must_use]
    pub fn gates(&self) -> Option<&Gates> {
        self.steps.iter().find_map(|step| if let Step::Gates(it) = step { Some(it) } else { None })
    }

    /// The cost step, where there is one.
    #[must_use]
    pub fn cost(&self) -> Option<&Cost> {
        self.steps.iter().find_map(|step| if let Step::Cost(it) = step { Some(it) } else { None })
    }
}
