//! `weir run`, and each service by itself: until it is told to stop.

use std::io::Write;
use std::sync::Arc;

use clap::Args;
use metrics::counter;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use weir_flink::{FlinkApi, FlinkClient, HttpApi, HttpOptionsError};
use weir_ingest::{ClusterSpec, first_contact};
use weir_outbox::{EVENTS, METRICS};
use weir_runtime::{Backoff, Clock, Health, RealClock, TaskFailure, Tasks, seed_of, telemetry};

use crate::assembly::{self, Data, DataError, LogMeter, Process, Reopen, Roles, Watched};
use crate::config::{Config, ConfigError};
use crate::error::CliError;
use crate::exit::Exit;
use crate::http::{self, Pages};

/// Watches Flink clusters and, where it may, acts: all services in one process.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A cluster to watch, by the address of its JobManager; the name becomes part of the key of every job on it. May be given
    /// several times.
    #[arg(long = "flink", value_name = "[NAME=]URL")]
    pub flink: Vec<String>,
    /// Where it tells how it is.
    #[command(flatten)]
    pub listen: Listen,
}

/// Where a process tells how it is.
#[derive(Debug, Args)]
pub struct Listen {
    /// Address for /metrics and /health; `none` opens none. Unless configured otherwise: 127.0.0.1:9468 for run, 9469 for
    /// ingest, 9470 for analyzer, 9471 for actuator.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
}

/// Services that can run as processes of their own, over logs on Kafka or Pravega.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// All of them in one process.
    All,
    /// Collects metrics.
    Ingest,
    /// Judges and decides.
    Analyzer,
    /// Acts.
    Actuator,
}

impl Service {
    fn roles(self) -> Roles {
        match self {
            Self::All => Roles::ALL,
            Self::Ingest => Roles::INGEST,
            Self::Analyzer => Roles::ANALYZER,
            Self::Actuator => Roles::ACTUATOR,
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::All => "run",
            Self::Ingest => "ingest",
            Self::Analyzer => "analyzer",
            Self::Actuator => "actuator",
        }
    }

    fn usual_address(self) -> &'static str {
        match self {
            Self::All => "127.0.0.1:9468",
            Self::Ingest => "127.0.0.1:9469",
            Self::Analyzer => "127.0.0.1:9470",
            Self::Actuator => "127.0.0.1:9471",
        }
    }
}

/// Lays the flags over the configuration.
///
/// # Errors
/// Names everything that cannot be followed.
pub fn configure(mut config: Config, service: Service, flink: &[String], listen: &Listen) -> Result<Config, CliError> {
    for given in flink {
        config.add_cluster(given)?;
    }
    if listen.listen.is_some() {
        config.http.listen.clone_from(&listen.listen);
        if let Some(problem) = config.http.problem() {
            return Err(CliError::Usage(format!("--{problem}")));
        }
    }
    let command = service.command();
    if service != Service::All && !config.log.is_shared() {
        let how = format!(
            "weir {command} needs a log that other processes can write to as well: set kind = \"kafka\" or \"pravega\" in \
             [log] of the configuration file; without one, `weir run` is all services in one process"
        );
        return Err(CliError::Usage(how));
    }
    if config.clusters.is_empty() && service != Service::Analyzer {
        let how = format!(
            "no cluster to watch: give one as in `weir {command} --flink prod=http://localhost:8081`, or in a configuration file"
        );
        return Err(CliError::Usage(how));
    }
    Ok(config)
}

/// Runs until it is told to stop.
///
/// # Errors
/// Folders that cannot be used, addresses that cannot be listened on, a service that stopped.
pub async fn run(
    config: &Config,
    service: Service,
    out: &mut dyn Write,
    metrics: PrometheusHandle,
    stop: CancellationToken,
) -> Result<Exit, CliError> {
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    // Everything that may be refused comes before the folder is made.
    let clusters = clusters(config)?;
    let told = Arc::clone(&clock);
    let health = Health::new(move || told.monotonic_ms());
    let meter = LogMeter::start();
    let mut tasks = Tasks::new(stop.clone());
    let pages = Pages { metrics, meter: meter.clone(), health: health.clone() };
    listen(config, service, &mut tasks, pages, &stop, out).await?;
    let pauses = Pauses::new(seed_of(&config.instance.id(clock.now_ms())));
    let life = Life { config, service, clusters, clock, health, meter, id: String::new(), pauses };
    let serving = async { tasks.join().await.map_err(|why| CliError::Failed(why.to_string())) };
    let living = async {
        let lived = life.lives(out, &stop).await;
        stop.cancel();
        lived
    };
    tokio::try_join!(serving, living)?;
    Ok(Exit::Interrupted)
}

/// The services from one opening of the logs to the next.
struct Life<'a> {
    config: &'a Config,
    service: Service,
    clusters: Vec<Watched>,
    clock: Arc<dyn Clock>,
    health: Health,
    meter: LogMeter,
    id: String,
    pauses: Pauses,
}

/// How long a life of this length has to be for the next one to begin as if nothing had happened, in milliseconds.
const LONG_LIFE_MS: i64 = 60_000;

/// Pauses between lives: a log that is lost again and again is not opened without end, nor by all processes at once.
struct Pauses(Backoff);

impl Pauses {
    fn new(seed: u64) -> Self {
        Self(Backoff::new(500, 10_000, seed))
    }

    /// How long to wait after a life of this length.
    fn after(&mut self, lived_ms: i64) -> i64 {
        if lived_ms >= LONG_LIFE_MS {
            self.0.succeeded();
        }
        self.0.failed()
    }
}

impl Life<'_> {
    /// One life after the other: another follows only if the logs have to be opened again.
    async fn lives(mut self, out: &mut dyn Write, stop: &CancellationToken) -> Result<(), CliError> {
        self.tell_of_limits();
        self.show_zeros();
        loop {
            let Some(data) = self.open(stop).await? else { return Ok(()) };
            self.meter.watch(&data.logs);
            if self.id.is_empty() {
                self.greet(out, stop).await?;
            }
            // Another life is another process to whoever shares work with it: its leases are new.
            self.id = self.config.instance.id(self.clock.now_ms());
            let reopen = Reopen::default();
            let tasks = self.start(&data, &reopen, stop);
            let began_ms = self.clock.monotonic_ms();
            let ended = tasks.join().await;
            self.meter.let_go();
            data.store.close().await;
            match ended {
                Ok(()) => {
                    writeln!(out, "stopped; everything is kept")?;
                    return Ok(());
                }
                Err(why) if reopen.is_asked() && !stop.is_cancelled() => {
                    self.rest(&why, self.clock.monotonic_ms() - began_ms, stop).await;
                }
                Err(why) => return Err(CliError::Failed(why.to_string())),
            }
        }
    }

    /// Starts the services of one life.
    fn start(&self, data: &Data, reopen: &Reopen, stop: &CancellationToken) -> Tasks {
        let life = stop.child_token();
        let mut tasks = Tasks::new(life.clone());
        let process = Process {
            data,
            config: self.config,
            clusters: self.clusters.clone(),
            clock: &|| Arc::clone(&self.clock),
            id: &self.id,
            roles: self.service.roles(),
            health: self.health.clone(),
            background: true,
            reopen: reopen.clone(),
        };
        // Nobody is to be ready before all of them are there.
        let starting = self.health.service(format!("weir {}", self.service.command()));
        assembly::start(&mut tasks, &life, &process);
        drop(starting);
        info!(service = self.service.command(), id = self.id, database = data.store.name(), "started");
        tasks
    }

    /// The pause between a life of so many milliseconds, which ended because of `why`, and the next one.
    async fn rest(&mut self, why: &TaskFailure, lived_ms: i64, stop: &CancellationToken) {
        let pulse = self.health.service("opening logs and database");
        pulse.failed(why);
        let pause_ms = self.pauses.after(lived_ms);
        warn!(%why, pause_ms, "the logs are opened again");
        counter!(telemetry::LOG_REOPENED).increment(1);
        // If it is told to stop, whoever opens the logs sees it as well.
        stop.run_until_cancelled(self.clock.sleep_ms(pause_ms)).await;
    }

    /// Opens everything; servers that are not there are waited for. `None`: it is told to stop.
    async fn open(&self, stop: &CancellationToken) -> Result<Option<Data>, CliError> {
        let pulse = self.health.service("opening logs and database");
        let mut backoff = Backoff::new(500, 10_000, seed_of(&self.config.instance.id(self.clock.now_ms())));
        loop {
            let opened = stop.run_until_cancelled(Data::open(self.config, self.clock.now_ms())).await;
            let why: DataError = match opened {
                None => return Ok(None),
                Some(Ok(data)) => return Ok(Some(data)),
                Some(Err(why)) if !why.is_transient() => return Err(why.into()),
                Some(Err(why)) => why,
            };
            pulse.failed(&why);
            let pause_ms = backoff.failed();
            warn!(%why, pause_ms, "waiting for a server");
            if stop.run_until_cancelled(self.clock.sleep_ms(pause_ms)).await.is_none() {
                return Ok(None);
            }
        }
    }

    /// What alerts watch is there before anything is opened.
    fn show_zeros(&self) {
        let roles = self.service.roles();
        let watched = self.clusters.iter().filter(|_| roles.ingest).map(|it| it.spec.name.as_str());
        let reads = roles.analyzer || roles.actuator;
        telemetry::show_zeros(&watched.collect::<Vec<_>>(), if reads { &[METRICS, EVENTS] } else { &[] });
    }

    /// Says which other processes this one can work with, where that is fewer than it may seem.
    fn tell_of_limits(&self) {
        let on_server = self.config.address().is_server();
        if self.config.log.is_shared() && !on_server {
            let file = self.config.address().to_string();
            info!(
                file,
                "the control database is a file: only processes of this machine that name the same one work together"
            );
        }
        if !self.config.log.is_shared() && on_server {
            info!("the log belongs to this process alone: no other `weir run` may use the same control database");
        }
    }

    /// Says what was found, before anything is done.
    async fn greet(&self, out: &mut dyn Write, stop: &CancellationToken) -> Result<(), CliError> {
        let looked_at: &[Watched] = if self.service.roles().ingest { &self.clusters } else { &[] };
        for Watched { spec, api, .. } in looked_at {
            let contact = stop.run_until_cancelled(first_contact(FlinkClient::new(api.as_ref()))).await;
            let Some(contact) = contact else { return Ok(()) };
            writeln!(out, "{}\n{contact}", spec.name)?;
            if !contact.problems.is_empty() {
                writeln!(out, "it is tried again and again; what is read of it is told by weir status")?;
            }
        }
        let place = match &self.config.database {
            None => format!("data in {}", self.config.data.display()),
            Some(address) => format!("control database {address}"),
        };
        writeln!(out, "{place}; weir status, weir explain JOB and weir mode JOB auto work from there")?;
        Ok(out.flush()?)
    }
}

async fn listen(
    config: &Config,
    service: Service,
    tasks: &mut Tasks,
    pages: Pages,
    stop: &CancellationToken,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let address = config.http.listen.as_deref().unwrap_or_else(|| service.usual_address());
    if address == "none" {
        return Ok(());
    }
    let listener = TcpListener::bind(address).await.map_err(|why| {
        CliError::Failed(format!("cannot listen on {address} ({why}): choose another address with --listen, or none"))
    })?;
    writeln!(out, "metrics and health on http://{}", listener.local_addr()?)?;
    out.flush()?;
    tasks.spawn("metrics and health", http::serve(listener, pages, stop.clone()));
    Ok(())
}

fn clusters(config: &Config) -> Result<Vec<Watched>, CliError> {
    let watched = |cluster: &crate::config::Cluster| {
        let refused =
            |why: HttpOptionsError| ConfigError { problems: vec![format!("cluster {}: {why}", cluster.name)] };
        let http = HttpApi::new(&cluster.http).map_err(refused)?;
        let api: Arc<dyn FlinkApi> = Arc::new(http);
        let spec = ClusterSpec {
            include: cluster.include.clone(),
            exclude: cluster.exclude.clone(),
            ..ClusterSpec::new(cluster.name.clone(), Arc::clone(&api))
        };
        Ok(Watched { spec, api, tags: cluster.tags.clone() })
    };
    config.clusters.iter().map(watched).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_lost_again_and_again_is_opened_later_and_later() {
        let mut pauses = Pauses::new(7);
        let of_short: Vec<i64> = (0..10).map(|_| pauses.after(LONG_LIFE_MS - 1)).collect();
        assert!(of_short.iter().all(|pause_ms| *pause_ms >= 250), "{of_short:?}");
        assert!(of_short[9] >= 5_000, "{of_short:?}");
        assert!(pauses.after(LONG_LIFE_MS) <= 500, "it was well for long");
    }
}
