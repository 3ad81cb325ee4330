//! `weir status`: one line for each job.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;
use weir_placement::LEASE_MS;
use weir_schemas::control::Mode;
use weir_schemas::decision::{Decision, Disposition, Verdict};
use weir_schemas::identity::JobKey;
use weir_schemas::report::HealthWord;
use weir_store::{ActionRow, JobRow, Store};

use super::action::{AWAITS_APPROVAL, Brief};
use super::{CommandError, Global};
use crate::output::{Output, Sheet, age, json, short_id, table, words};

/// Samples older than this are stale, in milliseconds.
pub(super) const STALE_AFTER_MS: i64 = 60_000;
/// Vertices, or changes of vertices, that a line shows; the rest is counted.
const SHOWN: usize = 6;
const HEADER: [&str; 7] = ["JOB", "HEALTH", "PARALLELISM", "MODE", "VERDICT", "SAMPLED", "ACTION"];

/// Everything that `status` tells. The keys of its JSON are stable.
#[derive(Debug, Serialize)]
struct Status {
    frozen: bool,
    services: Vec<ServiceStatus>,
    jobs: Vec<JobStatus>,
}

/// A process of Weir that is alive.
#[derive(Debug, Serialize)]
struct ServiceStatus {
    role: String,
    id: String,
    tags: Vec<String>,
    seen_ms: i64,
}

#[derive(Debug, Serialize)]
struct JobStatus {
    job: JobKey,
    health: Option<HealthWord>,
    parallelism: Vec<VertexStatus>,
    mode: Option<Mode>,
    paused: bool,
    verdict: Option<String>,
    disposition: Option<&'static str>,
    gate: Option<String>,
    sentence: Option<String>,
    decision: Option<String>,
    decided_at_ms: Option<i64>,
    sampled_at_ms: i64,
    stale: bool,
    action: Option<Brief>,
    /// For the table alone.
    #[serde(skip)]
    short_verdict: String,
}

#[derive(Debug, Serialize)]
struct VertexStatus {
    vertex: String,
    parallelism: u32,
}

/// Lists all jobs.
pub(super) async fn run(store: &Store, global: &Global, out: &mut dyn Write) -> Result<(), CommandError> {
    let status = gather(store, global).await?;
    if global.output == Output::Json {
        return Ok(json(out, &status)?);
    }
    Ok(out.write_all(sheet(&status, global.now_ms).text().as_bytes())?)
}

async fn gather(store: &Store, global: &Global) -> Result<Status, CommandError> {
    let controls = store.controls().await?;
    let latest = store.latest_decisions().await?.into_iter().map(|decision| (decision.job.clone(), decision));
    let latest: BTreeMap<JobKey, Decision> = latest.collect();
    let mut open: BTreeMap<JobKey, ActionRow> = BTreeMap::new();
    for row in store.open_actions().await? {
        // What is under way counts more than what waits for somebody.
        if row.state != AWAITS_APPROVAL || !open.contains_key(&row.job) {
            open.insert(row.job.clone(), row);
        }
    }
    let mut jobs = Vec::new();
    for seen in store.jobs().await? {
        let action = match open.get(&seen.job) {
            Some(open) => Some(Brief::from(open)),
            None => store.actions(&seen.job, 1).await?.first().map(Brief::from),
        };
        let control = controls.jobs.get(&seen.job).copied().unwrap_or_default();
        let told =
            JobStatus { mode: control.mode, paused: control.paused, action, ..judged(&seen, latest.get(&seen.job)) };
        let stale = global.now_ms.saturating_sub(told.sampled_at_ms) > STALE_AFTER_MS;
        jobs.push(JobStatus { stale, ..told });
    }
    let services = store.instances(LEASE_MS).await?.into_iter().map(|it| ServiceStatus {
        role: it.role,
        id: it.id,
        tags: it.tags,
        seen_ms: it.seen_ms,
    });
    Ok(Status { frozen: controls.frozen, services: services.collect(), jobs })
}

/// What the latest decision tells of a job.
fn judged(seen: &JobRow, decision: Option<&Decision>) -> JobStatus {
    JobStatus {
        job: seen.job.clone(),
        health: decision.and_then(|it| it.report.health()).map(|health| health.word),
        parallelism: decision.map(parallelism).unwrap_or_default(),
        mode: None,
        paused: false,
        verdict: decision.map(|it| it.verdict.word()),
        disposition: decision.map(|it| disposition_word(&it.disposition)),
        gate: decision.and_then(|it| {
            if let Disposition::Withheld { gate } = &it.disposition { Some(gate.clone()) } else { None }
        }),
        sentence: decision.map(|it| it.sentence.clone()),
        decision: decision.map(|it| it.id.clone()),
        decided_at_ms: decision.map(|it| it.decided_at_ms),
        sampled_at_ms: decision.map_or(seen.last_seen_ms, sampled_at_ms),
        stale: false,
        action: None,
        short_verdict: decision.map_or("not judged yet".into(), short_verdict),
    }
}

/// What runs, by vertex in topological order; empty where the decision rests on too little to tell.
fn parallelism(decision: &Decision) -> Vec<VertexStatus> {
    if let Some(plan) = decision.verdict.plan() {
        let vertices = plan.vertices.iter();
        return vertices.map(|it| VertexStatus { vertex: it.name.clone(), parallelism: it.from }).collect();
    }
    let vertices = decision.report.sizing().map(|sizing| sizing.vertices.as_slice()).unwrap_or_default();
    vertices.iter().map(|it| VertexStatus { vertex: it.name.clone(), parallelism: it.current }).collect()
}

/// The end of the newest window that was measured, else the record that was decided on.
fn sampled_at_ms(decision: &Decision) -> i64 {
    let measured = decision.report.inputs().map(|inputs| inputs.to_ms).filter(|to_ms| *to_ms > 0);
    measured.unwrap_or(decision.decided_at_ms)
}

fn short_verdict(decision: &Decision) -> String {
    match &decision.verdict {
        Verdict::Hold { because } => words(because),
        Verdict::CannotHelp { cause } => format!("more cannot help: {}", words(cause)),
        Verdict::Rescale(plan) => {
            let changed: Vec<String> = plan
                .vertices
                .iter()
                .filter(|vertex| vertex.from != vertex.to)
                .map(|vertex| format!("{} {} -> {}", vertex.name, vertex.from, vertex.to))
                .collect();
            let becomes = match &decision.disposition {
                Disposition::Nothing => String::new(),
                other => format!(" ({other})"),
            };
            format!("{}{becomes}", few(&changed, ", "))
        }
    }
}

/// The first few, and how many more there are.
fn few(texts: &[String], between: &str) -> String {
    let shown = texts.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(between);
    match texts.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}{between}{more} more"),
    }
}

fn sheet(status: &Status, now_ms: i64) -> Sheet {
    let mut sheet = Sheet::default();
    if status.frozen {
        sheet.title("FROZEN: no action is started on any job until `weir unfreeze`.");
    }
    if status.jobs.is_empty() {
        sheet.title("No job was seen yet: `weir run --flink NAME=http://host:8081` watches the jobs of a cluster.");
        return sheet;
    }
    let rows: Vec<Vec<String>> = status.jobs.iter().map(|job| row(job, now_ms)).collect();
    sheet.block(&table(&HEADER, &rows, &[]));
    if status.jobs.iter().all(|job| job.stale) {
        sheet.title(if status.services.is_empty() {
            "All samples are stale, and no service of Weir is alive on this data: start `weir run`."
        } else {
            "All samples are stale, although services are alive: see that they reach their clusters."
        });
    }
    sheet
}

fn row(job: &JobStatus, now_ms: i64) -> Vec<String> {
    let sizes: Vec<String> = job.parallelism.iter().map(|vertex| vertex.parallelism.to_string()).collect();
    let mode = job.mode.map_or("default".into(), |mode| mode.to_string());
    let sampled = age(job.sampled_at_ms, now_ms);
    vec![
        job.job.to_string(),
        job.health.map_or("-", health_word).into(),
        if sizes.is_empty() { "-".into() } else { few(&sizes, "/") },
        if job.paused { format!("{mode}, paused") } else { mode },
        job.short_verdict.clone(),
        if job.stale { format!("{sampled} (stale)") } else { sampled },
        job.action.as_ref().map_or("-".into(), |action| brief(action, now_ms)),
    ]
}

fn brief(action: &Brief, now_ms: i64) -> String {
    let (id, state) = (short_id(&action.id), words(&action.state));
    if action.open {
        format!("{state} ({id})")
    } else {
        format!("{state} {} ago ({id})", age(action.updated_ms, now_ms))
    }
}

/// The word that decisions carry for it.
fn disposition_word(disposition: &Disposition) -> &'static str {
    match disposition {
        Disposition::Nothing => "nothing",
        Disposition::Act => "act",
        Disposition::Recommend => "recommend",
        Disposition::AwaitsApproval => "awaits_approval",
        Disposition::Withheld { .. } => "withheld",
    }
}

/// One word for how a job is doing.
pub(super) fn health_word(word: HealthWord) -> &'static str {
    match word {
        HealthWord::Healthy => "healthy",
        HealthWord::Strained => "strained",
        HealthWord::Overloaded => "overloaded",
        HealthWord::CatchingUp => "catching up",
        HealthWord::Idle => "idle",
        HealthWord::Down => "down",
        HealthWord::Unknown => "unknown",
    }
}
