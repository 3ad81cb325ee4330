//! `weir demo`: the whole of Weir on a simulated cluster, in virtual time, on stores that are gone afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use weir_flink::FlinkApi;
use weir_ingest::ClusterSpec;
use weir_runtime::{Health, Tasks, VirtualClock};
use weir_schemas::control::{Mode, PolicyBook, PolicyEntry};
use weir_schemas::decision::{Decision, Verdict};
use weir_schemas::event::{CloudEvent, TYPE_DECISION, TYPE_OUTCOME};
use weir_schemas::num::{float_signed, short};
use weir_schemas::outcome::{Outcome, OutcomeResult};
use weir_schemas::policy::Policy;
use weir_simulator::scenario::{Scenario, list_scenarios, scenario};
use weir_simulator::{Cluster, Truth};

use crate::assembly::{self, Data, Process, Reopen, Roles, Watched};
use crate::config::Config;
use crate::error::CliError;
use crate::events::Tail;
use crate::exit::Exit;
use crate::load::offered_per_second;
use crate::output::Output;
use crate::sim_api::SimApi;

/// When the demo begins, in milliseconds since 1970: always the same moment, so that each run is the same.
const START_MS: i64 = 1_767_225_600_000;
/// Virtual seconds a second, unless said otherwise.
const DEFAULT_SPEED: f64 = 20.0;

/// Shows Weir scaling a simulated job.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Virtual seconds to show; without it as long as the scenario takes (360 for wordcount).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: Option<u32>,
    /// Virtual seconds that pass in a second; 0 is as fast as the machine can.
    #[arg(long, default_value_t = DEFAULT_SPEED, value_parser = speed)]
    pub speed: f64,
    /// What happens in it; `list` tells which there are.
    #[arg(long, default_value = "wordcount")]
    pub scenario: String,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if speed.is_finite() && speed >= 0.0 { Ok(speed) } else { Err("must be 0 or more".into()) }
}

/// Runs the demo.
///
/// # Errors
/// Scenarios that there are not; a temporary folder that cannot be used.
pub async fn run(
    args: &DemoArgs,
    output: Output,
    out: &mut dyn Write,
    stop: CancellationToken,
) -> Result<Exit, CliError> {
    if args.scenario == "list" {
        for (name, about) in list_scenarios() {
            writeln!(out, "{name:<16}{about}")?;
        }
        return Ok(Exit::Ok);
    }
    let found = scenario(&args.scenario).ok_or_else(|| {
        let names: Vec<&str> = list_scenarios().into_iter().map(|(name, _)| name).collect();
        CliError::Usage(format!("there is no scenario {}; there are {}", args.scenario, names.join(", ")))
    })?;
    let folder = tempfile::Builder::new().prefix("weir-demo-").tempdir()?;
    let clock = VirtualClock::new(START_MS);
    let cluster = Cluster::new(found.spec.clone(), START_MS).map_err(|why| CliError::Failed(why.to_string()))?;
    let sim = SimApi::new(cluster, clock.clone());
    let config = Config { data: folder.path().into(), book: demo_book(), ..Config::default() };
    let data = open(&config, &clock).await?;

    let all_stop = stop.child_token();
    let mut tasks = Tasks::new(all_stop.clone());
    let api: Arc<dyn FlinkApi> = Arc::new(sim.clone());
    let watched = Watched { spec: ClusterSpec::new("demo", Arc::clone(&api)), api, tags: BTreeSet::new() };
    let process = Process {
        data: &data,
        config: &config,
        clusters: vec![watched],
        clock: &|| clock.join(),
        id: "demo",
        roles: Roles::ALL,
        health: Health::unwatched(),
        background: false,
        reopen: Reopen::default(),
    };
    assembly::start(&mut tasks, &all_stop, &process);

    let mut show = Show { out, output, found: &found, told: Told::default(), rates: BTreeMap::new() };
    show.begin()?;
    let seconds = i64::from(args.seconds.unwrap_or(found.seconds));
    let ended = play(&mut show, args, seconds, &clock, &sim, &data, &stop).await?;
    all_stop.cancel();
    // Whoever sleeps on the virtual clock wakes by the stop; time itself stands still from here on.
    tasks.join().await.map_err(|why| CliError::Failed(why.to_string()))?;
    // Nothing may write to the folder any more when it is removed.
    data.store.close().await;
    show.end(&sim.with(|cluster| cluster.truth()))?;
    Ok(ended)
}

async fn open(config: &Config, clock: &VirtualClock) -> Result<Data, CliError> {
    let mut data = Data::open(config, START_MS).await?;
    let lease_clock = clock.clone();
    data.store = data.store.with_lease_clock(Arc::new(move || lease_clock.now_ms()));
    Ok(data)
}

/// Everything may be acted on, and a shrink waits for half a minute instead of five.
fn demo_book() -> PolicyBook {
    let policy = Policy { shrink_after_ms: 30_000, ..Policy::default() };
    PolicyBook {
        default: PolicyEntry { jobs: "*".into(), mode: Mode::Auto, policy, ..PolicyEntry::default() },
        entries: Vec::new(),
    }
}

/// Moves time second by second, and tells what has happened in each.
async fn play(
    show: &mut Show<'_>,
    args: &DemoArgs,
    seconds: i64,
    clock: &VirtualClock,
    sim: &SimApi,
    data: &Data,
    stop: &CancellationToken,
) -> Result<Exit, CliError> {
    let mut tail = Tail::open(&data.logs.events).await?;
    let pace = (args.speed > 0.0).then_some(args.speed);
    for second in 1..=seconds {
        let until = START_MS + second * 1000;
        if stop.run_until_cancelled(clock.run_until(until, pace)).await.is_none() {
            return Ok(Exit::Interrupted);
        }
        show.load(second, sim)?;
        for event in tail.read().await? {
            show.event(second, &event)?;
        }
    }
    Ok(Exit::Ok)
}

/// What was told, counted.
#[derive(Default)]
struct Told {
    events: u64,
    verified: u64,
    rolled_back: u64,
}

/// What people see.
struct Show<'a> {
    out: &'a mut dyn Write,
    output: Output,
    found: &'a Scenario,
    told: Told,
    rates: BTreeMap<String, f64>,
}

impl Show<'_> {
    fn line(&mut self, second: i64, text: &str) -> Result<(), CliError> {
        writeln!(self.out, "{:>4} s  {text}", second)?;
        self.out.flush()?;
        Ok(())
    }

    fn begin(&mut self) -> Result<(), CliError> {
        if self.output == Output::Json {
            return Ok(());
        }
        writeln!(self.out, "{}: {}", self.found.name, self.found.about)?;
        writeln!(self.out, "a simulated Flink cluster; Weir reads its REST API, decides and acts (mode auto)\n")?;
        Ok(())
    }

    /// Tells when the offered load has changed.
    fn load(&mut self, second: i64, sim: &SimApi) -> Result<(), CliError> {
        let jobs = sim.with(|cluster| cluster.truth().jobs);
        for (job, spec) in jobs.iter().zip(&self.found.spec.jobs) {
            let rate = offered_per_second(spec, float_signed(second - 1));
            let told = self.rates.get(&job.name).copied();
            if told.is_some_and(|told| (told - rate).abs() < 0.25 * told.max(1.0)) {
                continue;
            }
            self.rates.insert(job.name.clone(), rate);
            if self.output == Output::Json {
                writeln!(self.out, "{}", json!({"second": second, "job": job.name, "offered_per_second": rate}))?;
            } else {
                self.line(second, &format!("load    {}: {} records/s are offered", job.name, short(rate)))?;
            }
        }
        Ok(())
    }

    fn event(&mut self, second: i64, event: &CloudEvent) -> Result<(), CliError> {
        self.told.events += 1;
        let outcome = (event.kind == TYPE_OUTCOME).then(|| serde_json::from_value::<Outcome>(event.data.clone()));
        if let Some(Ok(outcome)) = &outcome {
            match outcome.result {
                OutcomeResult::Verified => self.told.verified += 1,
                OutcomeResult::RolledBack { .. } => self.told.rolled_back += 1,
                _ => {}
            }
        }
        if self.output == Output::Json {
            writeln!(self.out, "{}", serde_json::to_string(event)?)?;
            return Ok(());
        }
        if let Some(Ok(outcome)) = outcome {
            if outcome.result != OutcomeResult::Started {
                self.line(second, &format!("{:<7} {}", outcome.result.word().replace('_', " "), outcome.sentence))?;
            }
        } else if event.kind == TYPE_DECISION {
            let decision: Decision = serde_json::from_value(event.data.clone())?;
            let word = match &decision.verdict {
                Verdict::Hold { .. } => "hold",
                Verdict::Rescale(_) => "decide",
                Verdict::CannotHelp { .. } => "advise",
            };
            self.line(second, &format!("{word:<7} {}", decision.sentence))?;
        }
        Ok(())
    }

    fn end(&mut self, truth: &Truth) -> Result<(), CliError> {
        let rescales: u64 = truth.jobs.iter().map(|job| job.rescales).sum();
        let sizes = final_parallelism(truth);
        let Told { events, verified, rolled_back } = self.told;
        if self.output == Output::Json {
            let summary = json!({
                "scenario": self.found.name,
                "final_parallelism": sizes,
                "rescales": rescales,
                "verified": verified,
                "rolled_back": rolled_back,
                "events": events,
            });
            writeln!(self.out, "{summary}")?;
            return Ok(());
        }
        writeln!(self.out)?;
        for job in &truth.jobs {
            let vertices: Vec<String> = job.vertices.iter().map(|v| format!("{} {}", v.name, v.parallelism)).collect();
            writeln!(self.out, "{} ends at {}; {} records wait", job.name, vertices.join(", "), job.backlog)?;
        }
        writeln!(self.out, "{rescales} rescales, {verified} verified, {rolled_back} rolled back, {events} events")?;
        Ok(())
    }
}

/// Parallelism by vertex name over all jobs; a name that comes again gets `#2`, `#3`...
fn final_parallelism(truth: &Truth) -> serde_json::Map<String, serde_json::Value> {
    let mut sizes = serde_json::Map::new();
    for vertex in truth.jobs.iter().flat_map(|job| &job.vertices) {
        let mut name = vertex.name.clone();
        let mut number = 1;
        while sizes.contains_key(&name) {
            number += 1;
            name = format!("{}#{number}", vertex.name);
        }
        sizes.insert(name, vertex.parallelism.into());
    }
    sizes
}
