//! `weir simulate`: a simulated Flink cluster behind a real socket, for trying Weir out without Java.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weir_runtime::{Clock, RealClock};
use weir_simulator::Cluster;
use weir_simulator::scenario::{list_scenarios, scenario};

use crate::error::CliError;
use crate::exit::Exit;

/// Serves a simulated Flink cluster, in real time.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// What happens in it; `weir demo --scenario list` tells which there are.
    #[arg(long, default_value = "wordcount")]
    pub scenario: String,
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8081")]
    pub listen: SocketAddr,
}

/// Serves until it is told to stop.
///
/// # Errors
/// Scenarios that there are not; addresses that cannot be listened on.
pub async fn run(args: &SimulateArgs, out: &mut dyn Write, stop: CancellationToken) -> Result<Exit, CliError> {
    let found = scenario(&args.scenario).ok_or_else(|| {
        let names: Vec<&str> = list_scenarios().into_iter().map(|(name, _)| name).collect();
        CliError::Usage(format!("there is no scenario {}; there are {}", args.scenario, names.join(", ")))
    })?;
    let clock = Arc::new(RealClock::new());
    let cluster = Cluster::new(found.spec, clock.now_ms()).map_err(|why| CliError::Failed(why.to_string()))?;
    let listener = TcpListener::bind(args.listen).await.map_err(|why| {
        CliError::Failed(format!("cannot listen on {} ({why}): choose another address with --listen", args.listen))
    })?;
    writeln!(out, "a simulated Flink cluster ({}) on http://{}", found.about, listener.local_addr()?)?;
    out.flush()?;
    let now = move || clock.now_ms();
    weir_simulator::serve(Arc::new(Mutex::new(cluster)), listener, now, stop).await?;
    Ok(Exit::Interrupted)
}
