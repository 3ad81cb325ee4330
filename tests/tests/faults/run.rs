//! The run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weir_runtime::{Clock, RealClock};
use weir_simulator::{Cluster, ClusterSpec, JobTruth, scenario};
use weir_store::{Address, OpenOptions, Store};
use weir_streams::partition_of;
use weir_tests::{Installation, PostgresServer, Service, wait_until};

use crate::servers::LogServer;

/// The load of the job in lines a second, and from when on at the earliest, in seconds.
const PHASES: [(f64, f64); 3] = [(0.0, 800.0), (80.0, 1600.0), (190.0, 400.0)];
/// What it needs under each: source, flatmap, count.
const SIZES: [[u32; 3]; 3] = [[1, 3, 5], [1, 5, 10], [1, 2, 3]];
/// How long anything may take, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How long it may take until others have what a process had that died. It is a promise, not a matter of the machine: the lease
/// lasts 9 s, and is looked at every 2.
const TAKE_OVER: Duration = Duration::from_secs(15);
/// How long the server stands still.
const PAUSE: Duration = Duration::from_secs(20);
/// Partitions of the logs, as they are without being configured.
const PARTITIONS: u32 = 4;

/// A simulated cluster behind a socket, in real time.
pub struct Sim {
    cluster: Arc<Mutex<Cluster>>,
    url: String,
    began: Instant,
    stop: CancellationToken,
}

impl Sim {
    pub async fn start() -> Self {
        let mut jobs = vec![scenario::wordcount_job("wordcount", &PHASES[..1], 0.0)];
        // Jobs that are sized right, so that every partition has something to carry.
        jobs.extend(["alpha", "beta", "gamma", "delta"].map(|name| {
            let mut job = scenario::wordcount_job(name, &[(0.0, 150.0)], 0.0);
            job.vertices[1].parallelism = 1;
            job
        }));
        let spec = ClusterSpec { jobs, task_managers: 8, slots_per_task_manager: 8, ..scenario::quick_cluster() };
        let clock = Arc::new(RealClock::new());
        let cluster = Arc::new(Mutex::new(Cluster::new(spec, clock.now_ms()).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let now = move || clock.now_ms();
        tokio::spawn(weir_simulator::serve(Arc::clone(&cluster), listener, now, stop.clone()));
        Self { cluster, url, began: Instant::now(), stop }
    }

    /// The job, once it is known.
    fn job(&self) -> Option<JobTruth> {
        let mut cluster = self.cluster.lock().unwrap();
        cluster.advance_to(RealClock::new().now_ms());
        cluster.truth().jobs.into_iter().find(|job| job.name == "wordcount")
    }

    /// Waits until the job runs at a size, after the load that asks for it has come.
    async fn runs_at(&self, phase: usize) {
        let what = format!("size {:?}", SIZES[phase]);
        let since = Duration::from_secs_f64(PHASES[phase].0);
        wait_until(&what, PATIENCE + since, async || {
            let job = self.job()?;
            (job.running && job.parallelism() == SIZES[phase]).then_some(())
        })
        .await;
        self.tell(&what);
    }

    /// Brings the next load. Not by the clock alone, since the run may be late.
    async fn load_of(&self, phase: usize) {
        let (at, rate) = PHASES[phase];
        let at = Duration::from_secs_f64(at);
        wait_until("the next load", PATIENCE + at, async || (self.began.elapsed() >= at).then_some(())).await;
        let mut cluster = self.cluster.lock().unwrap();
        cluster.advance_to(RealClock::new().now_ms());
        cluster.set_rate("wordcount", "Source: source", rate).unwrap();
    }

    pub fn end(&self) {
        self.stop.cancel();
    }

    pub fn tell(&self, what: &str) {
        eprintln!("{:>4} s  {what}", self.began.elapsed().as_secs());
    }
}

pub async fn run(mut server: Box<dyn LogServer>) {
    let postgres = PostgresServer::start();
    let database = postgres.url(&postgres.database().await);
    let folder = tempfile::tempdir().unwrap();
    let sim = Sim::start().await;
    let weir = Installation::prepare(folder.path(), &configuration(&sim, server.as_ref(), &database));
    let store = Store::open_at(&Address::parse(&database).unwrap(), &OpenOptions::default()).await.unwrap();
    let mut ingest = weir.start("ingest", "ingest");
    let mut analyzers = [weir.start("analyzer", "analyzer-a"), weir.start("analyzer", "analyzer-b")];
    let mut actuator = weir.start("actuator", "actuator");
    sim.runs_at(0).await;

    dropped_none(&ingest).await;
    ingest.kill();
    ingest.start(&weir);
    sampled_anew(&sim, &weir, "a new collector").await;
    actuator.kill();
    actuator.start(&weir);
    server.kill();
    sim.tell("the server is killed");
    server.restart();
    sampled_anew(&sim, &weir, "the server is back").await;

    // The analyzer that has to answer the new load dies just when that comes.
    sim.load_of(1).await;
    all_work(&store, &analyzers).await;
    let first = owner(&store, &analyzers).await;
    hand_over(&sim, &store, &mut analyzers, first).await;
    sim.runs_at(1).await;
    analyzers[first].start(&weir);

    server.pause();
    sim.tell("the server stands still");
    standing_still().await;
    server.resume();
    sampled_anew(&sim, &weir, "the server goes on").await;
    postgres.kill();
    sim.tell("the database is killed");
    postgres.restart();
    sampled_anew(&sim, &weir, "the database is back").await;

    // Now the other one, while the job has to shrink.
    sim.load_of(2).await;
    all_work(&store, &analyzers).await;
    hand_over(&sim, &store, &mut analyzers, 1 - first).await;
    analyzers[1 - first].start(&weir);
    sim.runs_at(2).await;
    verified(&weir, 3).await;

    dropped_none(&ingest).await;
    assert_eq!(ingest.stop().await, Some(0));
    let everything = "everything to be read";
    wait_until(everything, PATIENCE, async || weir.is_read().then_some(())).await;
    sim.tell(everything);
    nothing_is_lost(&weir);
    each_action_was_done_once(&sim, &weir);
    for service in analyzers.iter_mut().chain([&mut actuator]) {
        assert_eq!(service.stop().await, Some(0), "{}", service.name());
    }
    sim.tell("done");
    sim.end();
}

pub fn configuration(sim: &Sim, server: &dyn LogServer, database: &str) -> String {
    format!(
        "database = {database:?}\n{}[[cluster]]\nname = \"sim\"\nurl = {:?}\n[default]\nmode = \"auto\"\n\
         shrink_after_ms = 20000\n[http]\nlisten = \"127.0.0.1:0\"\n",
        server.configuration(),
        sim.url,
    )
}

/// Waits until decisions rest on samples that were taken after now.
pub async fn sampled_anew(sim: &Sim, weir: &Installation, what: &str) {
    let now_ms = RealClock::new().now_ms();
    wait_until(what, PATIENCE, async || {
        let status = weir.ask(&["status"])?;
        let job = status["jobs"].as_array()?.iter().find(|it| it["job"] == "sim/default/wordcount")?.clone();
        (job["sampled_at_ms"].as_i64()? > now_ms).then_some(())
    })
    .await;
    sim.tell(what);
}

/// Who has each partition of the metrics, by its lease. The database is asked: the server of the log may be busy with itself.
async fn owners(store: &Store) -> Option<BTreeMap<String, String>> {
    let now_ms = store.lease_now_ms().await.ok()?;
    let leases = store.leases().await.ok()?.into_iter();
    let held = leases.filter(|lease| lease.name.starts_with("metrics-") && lease.expires_ms > now_ms);
    Some(held.map(|lease| (lease.name, lease.owner)).collect())
}

/// Which analyzer has the partition of the job.
async fn owner(store: &Store, analyzers: &[Service; 2]) -> usize {
    let partition = format!("metrics-{:02}", partition_of("sim/default/wordcount", PARTITIONS));
    wait_until("an owner", PATIENCE, async || {
        let owners = owners(store).await?;
        let owner = owners.get(&partition)?;
        analyzers.iter().position(|it| owner.starts_with(it.name()))
    })
    .await
}

/// Waits until both analyzers have partitions.
async fn all_work(store: &Store, analyzers: &[Service; 2]) {
    wait_until("both analyzers to have work", PATIENCE, async || {
        let owners = owners(store).await?;
        let works = |it: &Service| owners.values().any(|owner| owner.starts_with(it.name()));
        analyzers.iter().all(works).then_some(())
    })
    .await;
}

/// Kills an analyzer and waits until the other one has all of its partitions.
async fn hand_over(sim: &Sim, store: &Store, analyzers: &mut [Service; 2], which: usize) {
    let analyzer = &mut analyzers[which];
    analyzer.kill();
    let killed = Instant::now();
    let what = format!("{} is replaced", analyzer.name());
    // The answer itself may take its time.
    let mut took = Duration::ZERO;
    wait_until(&what, PATIENCE, async || {
        took = killed.elapsed();
        let owners = owners(store).await?;
        let others = owners.values().filter(|owner| !owner.starts_with(analyzer.name())).count();
        (others == usize::try_from(PARTITIONS).ok()?).then_some(())
    })
    .await;
    sim.tell(&format!("{what} after {:.1} s", took.as_secs_f64()));
    assert!(took <= TAKE_OVER, "{took:?}");
}

async fn standing_still() {
    let until = Instant::now() + PAUSE;
    wait_until("the end of the pause", PAUSE * 2, async || (Instant::now() >= until).then_some(())).await;
}

/// Whatever happened to the servers, what had to wait for them found room.
async fn dropped_none(ingest: &Service) {
    let (acknowledged, dropped) = wait_until("a page of metrics", PATIENCE, async || {
        let counted = |what: &str| ingest.counted(&format!("weir_ingest_records_{what}_total"));
        Some((counted("acknowledged")?, counted("dropped")?))
    })
    .await;
    assert!(acknowledged > 0.0 && dropped < 0.5, "{acknowledged} records acknowledged, {dropped} dropped");
}

/// Waits until so many actions have ended well.
async fn verified(weir: &Installation, count: usize) {
    wait_until("the last action to be verified", PATIENCE, async || (actions(weir) >= count).then_some(())).await;
}

/// Actions that have ended, whatever they came to.
fn actions(weir: &Installation) -> usize {
    let history = weir.ask(&["history", "wordcount", "-n", "1000"]).unwrap_or_default();
    history.as_array().into_iter().flatten().filter(|entry| entry["kind"] == "outcome").count()
}

fn nothing_is_lost(weir: &Installation) {
    let (acknowledged, stored) = (weir.acknowledged(), weir.stored(PARTITIONS));
    let lost: BTreeSet<_> = acknowledged.difference(&stored).collect();
    assert!(lost.is_empty(), "acknowledged and not stored: {lost:?}");
    assert!(acknowledged.len() > 500, "{} records", acknowledged.len());
    // Every record that is stored was taken in, once: the command compares the two.
    let checked = weir.demand(&["streams", "verify"]);
    assert_eq!(checked["problems"], serde_json::json!([]), "{checked:#}");
    let producers = checked["producers"].as_array().unwrap();
    let due: u64 = producers.iter().map(|it| it["applied"]["records"].as_u64().unwrap()).sum();
    assert_eq!(due, u64::try_from(stored.len()).unwrap(), "{checked:#}");
    let repeated: u64 = producers.iter().map(|it| it["repeated"].as_u64().unwrap()).sum();
    eprintln!(
        "{} acknowledged, {} stored and taken in, {repeated} of them sent twice",
        acknowledged.len(),
        stored.len()
    );
    for name in ["ingest", "analyzer-a", "analyzer-b", "actuator"] {
        let lines = weir.logged(name);
        let dropped = lines.iter().filter(|line| line["fields"]["message"].to_string().contains("records are dropped"));
        // What is left when a collector is stopped has its last seconds, and no more.
        let dropped = dropped.filter(|line| line["fields"]["reason"] != "stopped");
        assert_eq!(dropped.count(), 0, "{name} dropped records");
    }
}

fn each_action_was_done_once(sim: &Sim, weir: &Installation) {
    let job = sim.job().unwrap();
    let history = weir.demand(&["history", "wordcount", "-n", "1000"]);
    assert_eq!(job.parallelism(), SIZES[2], "{history:#}");
    assert_eq!(job.rescales, 3, "{history:#}");
    assert_eq!(actions(weir), 3, "{history:#}");
}
