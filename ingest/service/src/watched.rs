//! What is remembered of a job from round to round. Pure.

use std::collections::BTreeMap;

use weir_flink::VertexId;
use weir_flink::decode::VertexDetail;
use weir_runtime::Backoff;
use weir_schemas::identity::{JobKey, RunId};

use crate::calm::{Calm, Pulse};
use crate::movement::{Fetch, Movement};
use crate::once::Once;
use crate::options::Options;
use crate::read::{JobReading, Pending, ReadPlan, SourceNames};

/// A run of a job that is watched.
pub(crate) struct Watched {
    /// The job's key, written.
    pub(crate) key: String,
    /// The run.
    pub(crate) run: RunId,
    /// The first tick at which it is due.
    pub(crate) due_tick: u64,
    /// Whether its end was told already.
    pub(crate) told_gone: bool,
    /// What was listed of each source, as far as it is believed.
    pub(crate) sources: BTreeMap<VertexId, SourceNames>,
    /// Interval of periodic checkpoints, in milliseconds.
    pub(crate) checkpoint_interval_ms: Option<u64>,
    /// Another autoscaler that the job is configured for.
    pub(crate) rival: Option<String>,
    /// Digest of the requirements when they were last read.
    pub(crate) requirements: Option<String>,
    /// Errors of it.
    pub(crate) once: Once,
    pub(crate) backoff: Backoff,
    configured: bool,
    requirements_due: bool,
    listings: Listings,
    shape: Option<Shape>,
    movement: Movement,
    calm: Calm,
    refusals: u32,
}

/// When the names of a run's sources were listed.
#[derive(Debug, Default)]
struct Listings {
    count: u32,
    last_ms: i64,
    again: bool,
}

/// State of the job, and of each subtask its index, attempt and whether it runs. Any change of it ends the calm.
type Shape = (String, Vec<(VertexId, Vec<(u32, Option<u32>, bool)>)>);

/// Sources name their metrics bit by bit after a start: the second listing comes this much later, and only then are the splits
/// believed.
const SECOND_LISTING_MS: i64 = 30_000;
/// Names are listed this often at once while a source tells no backlog; then it is believed to have none.
const QUICK_LISTINGS: u32 = 5;
/// Readings in a row that may be refused for being mixed; then what stands still in them counts as unknown.
const MIXED_IN_A_ROW: u32 = 2;

/// Whether a reading is to be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Yes, except for the counters of these subtasks.
    Use(std::collections::BTreeSet<(VertexId, u32)>),
    /// No, and why.
    Refuse(String),
}

/// What a reading tells beside what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Absorbed {
    /// Whether the job is calm.
    pub(crate) calm: bool,
    /// How long before it was asked for the fetch was, in milliseconds.
    pub(crate) delay_ms: i64,
}

impl Watched {
    pub(crate) fn new(key: &JobKey, run: RunId, tick: u64, backoff: Backoff) -> Self {
        Self {
            key: key.to_string(),
            run,
            due_tick: tick,
            told_gone: false,
            sources: BTreeMap::new(),
            checkpoint_interval_ms: None,
            rival: None,
            requirements: None,
            once: Once::default(),
            backoff,
            configured: false,
            requirements_due: true,
            listings: Listings::default(),
            shape: None,
            movement: Movement::default(),
            calm: Calm::default(),
            refusals: 0,
        }
    }

    /// What to read now.
    pub(crate) fn plan(&self, now_ms: i64, requirements_exist: bool, options: &Options) -> ReadPlan {
        let since_listing = now_ms - self.listings.last_ms;
        // A source that has just started names its backlog a round or two later than its first metrics.
        let unnamed = self.sources.values().any(|names| names.pending.is_empty());
        let list_names = match self.listings.count {
            0 => true,
            count if unnamed && count <= QUICK_LISTINGS => true,
            1 => self.listings.again || since_listing >= SECOND_LISTING_MS,
            _ => self.listings.again || since_listing >= options.facts_every_ms,
        };
        ReadPlan {
            id: self.run.id.clone(),
            sources: self.sources.clone(),
            list_names,
            configuration: !self.configured,
            requirements: requirements_exist && self.requirements_due,
        }
    }

    /// Whether the reading comes from one fetch, and a new one.
    pub(crate) fn judge(&mut self, reading: &JobReading) -> Judgement {
        if let Some(vertex) = switching(reading) {
            return self.refuse(format!("vertex {vertex} changed its parallelism while the job was read"));
        }
        match self.movement.judge(&reading.vertices) {
            Fetch::New(stale) => {
                self.refusals = 0;
                Judgement::Use(stale)
            }
            Fetch::Repeated => Judgement::Refuse("Flink served the metrics of the last round once more".into()),
            Fetch::Mixed(_, stale) if self.refusals >= MIXED_IN_A_ROW => Judgement::Use(stale),
            Fetch::Mixed(vertices, _) => {
                self.refuse(format!("metrics of {} vertices are older than those of the others", vertices.len()))
            }
        }
    }

    fn refuse(&mut self, why: String) -> Judgement {
        self.refusals += 1;
        Judgement::Refuse(why)
    }

    /// Takes a reading that is used, whose fetch was asked for at `asked_ms`.
    pub(crate) fn absorb(
        &mut self,
        reading: &mut JobReading,
        asked_ms: i64,
        now_ms: i64,
        options: &Options,
    ) -> Absorbed {
        let delay_ms = self.movement.remember(&reading.vertices, asked_ms);
        self.absorb_configuration(reading);
        self.absorb_names(reading, now_ms);
        let shape = shape(reading);
        if self.shape.as_ref() != Some(&shape) {
            if self.shape.is_some() {
                self.requirements_due = true;
                // New attempts may read other splits.
                (self.listings.count, self.listings.last_ms) = (self.listings.count.min(1), now_ms);
            }
            self.shape = Some(shape);
            self.calm.disturb();
        }
        let at_ms = asked_ms - delay_ms;
        let pulse = Pulse { at_ms, source_records: source_records(reading), pending: pending(reading) };
        let calm = self.calm.feel(pulse, options.calm_after_ms) && reading.detail.state == "RUNNING";
        Absorbed { calm, delay_ms }
    }

    /// Nothing came of it: what it did meanwhile is unknown.
    pub(crate) fn fell_silent(&mut self) {
        self.calm.disturb();
    }

    fn absorb_configuration(&mut self, reading: &mut JobReading) {
        if let Some(config) = reading.checkpoints_config.take() {
            self.checkpoint_interval_ms = config.and_then(|config| config.interval_ms);
            self.configured = true;
        }
        if let Some(rival) = reading.rival.take() {
            self.rival = rival;
        }
        if let Some(requirements) = reading.requirements.take() {
            self.requirements = Some(requirements);
            self.requirements_due = false;
        }
    }

    fn absorb_names(&mut self, reading: &mut JobReading, now_ms: i64) {
        self.listings.again = reading.pending.values().any(|pending| *pending == Pending::NamesChanged);
        if reading.listed.is_empty() {
            return;
        }
        if reading.listed.values().all(|names| names.ready) {
            self.listings.count += 1;
        }
        self.listings.last_ms = now_ms;
        for (source, mut names) in std::mem::take(&mut reading.listed) {
            if self.listings.count < 2 {
                names.splits = None;
            }
            self.sources.insert(source, names);
        }
    }
}

/// The name of a vertex whose parallelism differs between the job and the vertex itself.
fn switching(reading: &JobReading) -> Option<&str> {
    let differs = |summary: &&weir_flink::decode::JobVertex| {
        let detail = reading.vertices.get(&summary.id).and_then(|vertex| vertex.parallelism);
        detail.is_some() && summary.parallelism.is_some() && detail != summary.parallelism
    };
    reading.detail.vertices.iter().find(differs).map(|summary| summary.name.as_str())
}

fn shape(reading: &JobReading) -> Shape {
    let subtasks = |vertex: &VertexDetail| {
        vertex.subtasks.iter().map(|subtask| (subtask.index, subtask.attempt, subtask.running())).collect()
    };
    let vertices = reading.vertices.iter().map(|(id, vertex)| (id.clone(), subtasks(vertex))).collect();
    (reading.detail.state.clone(), vertices)
}

/// Records that all sources handed out; unknown if one does not say.
fn source_records(reading: &JobReading) -> Option<f64> {
    let sources: Option<Vec<&VertexDetail>> =
        reading.detail.sources.iter().map(|source| reading.vertices.get(source)).collect();
    let sources = sources.filter(|sources| !sources.is_empty())?;
    sources.iter().flat_map(|source| &source.subtasks).map(|subtask| subtask.metrics.records_out).sum()
}

/// Records that wait in front of all sources; unknown if one does not say.
fn pending(reading: &JobReading) -> Option<f64> {
    let each = reading.pending.values().map(|pending| match pending {
        Pending::Records(records) => Some(*records),
        Pending::Unknown | Pending::NamesChanged => None,
    });
    each.sum()
}
