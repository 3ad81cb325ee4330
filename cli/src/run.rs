//! `weir run`: every service in one process, until it is told to stop.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;
use weir_flink::{FlinkApi, FlinkClient, HttpApi, HttpOptionsError};
use weir_ingest::{ClusterSpec, first_contact};
use weir_runtime::{Clock, RealClock, Tasks};

use crate::assembly::{self, Data, Watched};
use crate::config::{Config, ConfigError};
use crate::error::CliError;
use crate::exit::Exit;
use crate::http::{self, Ready};

/// Watches Flink clusters and, where it may, acts.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A cluster to watch, by the address of its JobManager; the name becomes part of the key of every job on it. May be given
    /// several times.
    #[arg(long = "flink", value_name = "[NAME=]URL")]
    pub flink: Vec<String>,
    /// Address for /metrics and /health, 127.0.0.1:9468 unless configured otherwise; `none` opens none.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
}

/// Lays the flags over the configuration.
///
/// # Errors
/// Names everything that cannot be followed.
pub fn configure(mut config: Config, args: &RunArgs, data: Option<PathBuf>) -> Result<Config, CliError> {
    for given in &args.flink {
        config.add_cluster(given)?;
    }
    if let Some(data) = data {
        config.data = data;
    }
    if let Some(listen) = &args.listen {
        config.http.listen.clone_from(listen);
        if let Some(problem) = config.http.problem() {
            return Err(CliError::Usage(format!("--{problem}")));
        }
    }
    if config.clusters.is_empty() {
        let how = "no cluster to watch: give one as in `weir run --flink prod=http://localhost:8081`, or in a configuration file";
        return Err(CliError::Usage(how.into()));
    }
    Ok(config)
}

/// Runs until it is told to stop.
///
/// # Errors
/// Folders that cannot be used, addresses that cannot be listened on, a service that stopped.
pub async fn run(
    config: &Config,
    out: &mut dyn Write,
    metrics: PrometheusHandle,
    stop: CancellationToken,
) -> Result<Exit, CliError> {
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    // Everything that may be refused comes before the folder is made.
    let clusters = clusters(config)?;
    let mut tasks = Tasks::new(stop.clone());
    let ready = Ready::default();
    listen(config, &mut tasks, metrics, ready.clone(), &stop, out).await?;
    let data = Data::open(&config.data, &config.log, clock.now_ms()).await?;
    for Watched { spec, api } in &clusters {
        let contact = stop.run_until_cancelled(first_contact(FlinkClient::new(api.as_ref()))).await;
        let Some(contact) = contact else { return Ok(Exit::Interrupted) };
        writeln!(out, "{}\n{contact}", spec.name)?;
        if !contact.problems.is_empty() {
            writeln!(out, "it is tried again and again; what is read of it is told by weir status")?;
        }
    }
    writeln!(
        out,
        "data in {}; weir status, weir explain JOB and weir mode JOB auto work from there",
        config.data.display()
    )?;
    out.flush()?;
    let process = format!("{}-{}", std::process::id(), clock.now_ms());
    assembly::start(&mut tasks, &stop, &data, config, clusters, &|| Arc::clone(&clock), &process);
    ready.set();
    info!(data = %config.data.display(), "started");
    tasks.join().await.map_err(|why| CliError::Failed(why.to_string()))?;
    data.store.close().await;
    writeln!(out, "stopped; everything is kept in {}", config.data.display())?;
    Ok(Exit::Interrupted)
}

async fn listen(
    config: &Config,
    tasks: &mut Tasks,
    metrics: PrometheusHandle,
    ready: Ready,
    stop: &CancellationToken,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let address = &config.http.listen;
    if address == "none" {
        return Ok(());
    }
    let listener = TcpListener::bind(address).await.map_err(|why| {
        CliError::Failed(format!("cannot listen on {address} ({why}): choose another address with --listen, or none"))
    })?;
    writeln!(out, "metrics and health on http://{}", listener.local_addr()?)?;
    tasks.spawn("metrics and health", http::serve(listener, metrics, ready, stop.clone()));
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
        Ok(Watched { spec, api })
    };
    config.clusters.iter().map(watched).collect()
}
