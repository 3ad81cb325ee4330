//! The whole of Weir over a simulated cluster, in virtual time.

#![allow(dead_code, reason = "every test file takes what it needs")]

pub mod effects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use weir::assembly::{self, Data, DataError, Process, Reopen, Roles, Watched};
use weir::config::Config;
use weir::events::Tail;
use weir::sim_api::SimApi;
use weir_flink::FlinkApi;
use weir_ingest::ClusterSpec as WatchedSpec;
use weir_outbox::Logs;
use weir_runtime::{Health, Tasks, VirtualClock};
use weir_schemas::control::{Mode, PolicyBook, PolicyEntry};
use weir_schemas::decision::{Decision, Disposition, Verdict};
use weir_schemas::event::{CloudEvent, TYPE_DECISION, TYPE_OUTCOME};
use weir_schemas::identity::JobKey;
use weir_schemas::outcome::Outcome;
use weir_schemas::policy::Policy;
use weir_simulator::{Cluster, ClusterSpec, JobTruth};
use weir_store::Store;
use weir_streams::{Log, LogError};

use effects::{CountedApi, CountedLog, Effects, PATIENCE};

/// When every world begins, in milliseconds since 1970.
pub const START_MS: i64 = 1_767_225_600_000;
/// Name of the cluster.
pub const CLUSTER: &str = "sim";

/// Mode auto, and a shrink that waits for 20 seconds.
pub fn auto_book() -> PolicyBook {
    book(Mode::Auto)
}

/// The same in another mode.
pub fn book(mode: Mode) -> PolicyBook {
    let policy = Policy { shrink_after_ms: 20_000, ..Policy::default() };
    PolicyBook {
        default: PolicyEntry { jobs: "*".into(), mode, policy, ..PolicyEntry::default() },
        entries: Vec::new(),
    }
}

/// What a job was like at the end of a second.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    pub second: i64,
    pub parallelism: Vec<u32>,
    pub rescales: u64,
    pub backlog: u64,
    pub running: bool,
}

/// A process of Weir.
struct Life {
    tasks: Tasks,
    stop: CancellationToken,
    data: Data,
    tail: Tail,
}

/// A simulated cluster, a folder of data, and a process of Weir that watches the one and keeps its data in the other.
pub struct World {
    pub clock: VirtualClock,
    pub sim: SimApi,
    pub effects: Effects,
    pub config: Config,
    /// All that was published, with the second in which it was read. A new process reads it all once more.
    pub events: Vec<(i64, CloudEvent)>,
    /// What each job was like, by name.
    pub history: BTreeMap<String, Vec<Moment>>,
    pub second: i64,
    /// Processes so far.
    pub lives: u32,
    life: Option<Life>,
    _folder: TempDir,
}

impl World {
    /// A world in which nothing happens yet; jobs are in mode auto.
    pub fn new(spec: ClusterSpec) -> Self {
        Self::with(spec, auto_book())
    }

    /// A world with other policies.
    pub fn with(spec: ClusterSpec, book: PolicyBook) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = VirtualClock::new(START_MS);
        let sim = SimApi::new(Cluster::new(spec, START_MS).unwrap(), clock.clone());
        Self {
            clock,
            sim,
            effects: Effects::default(),
            config: Config { book, data: folder.path().into(), ..Config::default() },
            events: Vec::new(),
            history: BTreeMap::new(),
            second: 0,
            lives: 0,
            life: None,
            _folder: folder,
        }
    }

    /// Starts a process on the folder of data.
    pub async fn start(&mut self) {
        assert!(self.life.is_none(), "one process at a time");
        self.lives += 1;
        let mut data = self.open().await;
        let (clock, effects) = (self.clock.clone(), self.effects.clone());
        let store = data.store.with_lease_clock(Arc::new(move || clock.now_ms()));
        data.store = store.with_write_hook(Arc::new(effects));
        let counted = |name, log| Arc::new(CountedLog { log, name, effects: self.effects.clone() }) as Arc<dyn Log>;
        data.logs =
            Logs { metrics: counted("metrics", data.logs.metrics), events: counted("events", data.logs.events) };
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        let (sim, effects, clock) = (self.sim.clone(), self.effects.clone(), self.clock.clone());
        let api: Arc<dyn FlinkApi> = Arc::new(CountedApi { sim, effects, clock });
        let watched = Watched { spec: WatchedSpec::new(CLUSTER, Arc::clone(&api)), api, tags: BTreeSet::new() };
        let process = Process {
            data: &data,
            config: &self.config,
            clusters: vec![watched],
            clock: &|| self.clock.join(),
            id: &format!("process-{}", self.lives),
            roles: Roles::ALL,
            health: Health::unwatched(),
            background: false,
            reopen: Reopen::default(),
        };
        assembly::start(&mut tasks, &stop, &process);
        let tail = Tail::open(&data.logs.events).await.unwrap();
        self.life = Some(Life { tasks, stop, data, tail });
    }

    /// Opens the folder; a process that was killed gives its locks back only once all of its tasks are gone.
    async fn open(&self) -> Data {
        let opening = async {
            loop {
                match Data::open(&self.config, self.clock.now_ms()).await {
                    Ok(data) => return data,
                    Err(DataError::Log(LogError::Locked { .. })) => tokio::task::yield_now().await,
                    Err(why) => panic!("the folder of data cannot be opened: {why}"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, opening).await.expect("the locks are never given back")
    }

    /// The control database, as a command opens it.
    pub fn store(&self) -> &Store {
        &self.life.as_ref().expect("a process runs").data.store
    }

    /// Ends the process in good order.
    pub async fn stop(&mut self) {
        let life = self.life.take().expect("a process runs");
        life.stop.cancel();
        life.tasks.join().await.unwrap();
    }

    /// Ends the process where it stands. Nobody in it is told.
    pub async fn kill(&mut self) {
        let Life { tasks, data, tail, .. } = self.life.take().expect("a process runs");
        let pools = data.store.clone();
        drop((tasks, data, tail));
        pools.close().await;
    }

    /// Lets time pass up to a second, and looks at everything in each. A process that stops is followed by another.
    pub async fn run_to(&mut self, second: i64) {
        while self.second < second {
            self.second += 1;
            let until_ms = START_MS + self.second * 1000;
            while tokio::time::timeout(PATIENCE, self.pass(until_ms)).await.expect("time stands still") {
                self.kill().await;
                self.start().await;
            }
            self.look().await;
        }
    }

    /// True if the process stopped meanwhile.
    async fn pass(&self, until_ms: i64) -> bool {
        tokio::select! {
            biased;
            () = self.effects.stopped() => true,
            () = self.clock.run_until(until_ms, None) => false,
        }
    }

    async fn look(&mut self) {
        if let Some(life) = &mut self.life {
            loop {
                let events = life.tail.read().await.unwrap();
                if events.is_empty() {
                    break;
                }
                self.events.extend(events.into_iter().map(|event| (self.second, event)));
            }
        }
        for job in self.sim.with(|cluster| cluster.truth().jobs) {
            let moment = Moment {
                second: self.second,
                parallelism: job.parallelism(),
                rescales: job.rescales,
                backlog: job.backlog,
                running: job.running,
            };
            self.history.entry(job.name).or_default().push(moment);
        }
    }

    /// The truth about the newest job of a name.
    pub fn job(&self, name: &str) -> JobTruth {
        let jobs = self.sim.with(|cluster| cluster.truth().jobs);
        jobs.into_iter().rev().find(|job| job.name == name).unwrap_or_else(|| panic!("no job {name}"))
    }

    /// The key of a job.
    pub fn key(name: &str) -> JobKey {
        JobKey::new(CLUSTER, name)
    }

    /// Published decisions about a job, each once, with the second in which they were first read.
    pub fn decisions(&self, job: &str) -> Vec<(i64, Decision)> {
        self.published(TYPE_DECISION, job)
    }

    /// Published outcomes of a job, each once.
    pub fn outcomes(&self, job: &str) -> Vec<(i64, Outcome)> {
        self.published(TYPE_OUTCOME, job)
    }

    fn published<T: serde::de::DeserializeOwned>(&self, kind: &str, job: &str) -> Vec<(i64, T)> {
        let (subject, mut seen) = (Self::key(job).to_string(), Vec::new());
        let mut found = Vec::new();
        for (second, event) in &self.events {
            if event.kind == kind && event.subject == subject && !seen.contains(&&event.id) {
                seen.push(&event.id);
                found.push((*second, serde_json::from_value(event.data.clone()).unwrap()));
            }
        }
        found
    }

    /// Words of the final outcomes of a job, in order.
    pub fn ends(&self, job: &str) -> Vec<String> {
        let ends = self.outcomes(job).into_iter().filter(|(_, outcome)| outcome.result.is_final());
        ends.map(|(_, outcome)| outcome.result.word().to_owned()).collect()
    }

    /// Verdicts that differ, with what became of them, for messages of failing tests.
    pub fn story(&self, job: &str) -> String {
        let mut lines: Vec<(i64, String)> =
            self.decisions(job).iter().map(|(second, decision)| (*second, decision.sentence.clone())).collect();
        let outcomes = self.outcomes(job);
        lines.extend(outcomes.iter().map(|(second, it)| (*second, format!("[{}] {}", it.result.word(), it.sentence))));
        lines.sort();
        let mut text = format!("\n{:?}\n", self.effects.puts());
        for (second, line) in lines {
            text.push_str(&format!("{second:>5} s  {line}\n"));
        }
        text
    }

    /// What a job was like at the end of a second.
    pub fn at(&self, job: &str, second: i64) -> Moment {
        self.history[job].iter().find(|moment| moment.second == second).expect("a second that has passed").clone()
    }

    /// Rescales of a job from the end of one second to the end of another.
    pub fn rescales(&self, job: &str, from: i64, to: i64) -> u64 {
        let before = if from == 0 { 0 } else { self.at(job, from).rescales };
        self.at(job, to).rescales - before
    }

    /// The first second after `from` at whose end the job ran at least so wide.
    pub fn wide_enough(&self, job: &str, from: i64, wanted: &[u32]) -> Option<i64> {
        let enough = |moment: &&Moment| {
            moment.second > from
                && moment.running
                && moment.parallelism.iter().zip(wanted).all(|(runs, wanted)| runs >= wanted)
        };
        self.history[job].iter().find(enough).map(|moment| moment.second)
    }
}

/// Whether a decision is to rescale, and what becomes of it.
pub fn planned(decision: &Decision) -> Option<(Vec<u32>, &Disposition)> {
    let plan = decision.verdict.plan()?;
    Some((plan.vertices.iter().map(|vertex| vertex.to).collect(), &decision.disposition))
}

/// The word for what cannot be helped.
pub fn cannot_help(decision: &Decision) -> Option<&str> {
    if let Verdict::CannotHelp { cause } = &decision.verdict { Some(cause) } else { None }
}
