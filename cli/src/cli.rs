//! From arguments to an exit code.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, Subcommand};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use weir_runtime::{Clock, RealClock, telemetry};
use weir_store::Address;

use crate::commands::{self, Command, Global};
use crate::config::Config;
use crate::demo::{self, DemoArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::run::{self, Listen, RunArgs, Service};
use crate::simulate::{self, SimulateArgs};
use crate::streams::{self, StreamsArgs};

/// Weir watches Apache Flink jobs, says in plain words how they are, and gives them the resources they need.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about, max_term_width = 100)]
struct Cli {
    /// Folder of the log and the control database.
    #[arg(long, global = true, value_name = "FOLDER", env = "WEIR_DATA")]
    data: Option<PathBuf>,
    /// Control database on a server, as postgres://USER@HOST/NAME, instead of a file in the folder of data.
    #[arg(long, global = true, value_name = "ADDRESS", env = "WEIR_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// Configuration file.
    #[arg(long, global = true, value_name = "FILE", env = "WEIR_CONFIG")]
    config: Option<PathBuf>,
    /// How answers are written.
    #[arg(long, global = true, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// What is logged: error, warn, info, debug, trace, or a filter such as `weir_ingest=debug`.
    #[arg(long, global = true, value_name = "LEVEL", env = "WEIR_LOG")]
    log: Option<String>,
    /// Log as JSON, one object a line.
    #[arg(long, global = true)]
    log_json: bool,
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(DemoArgs),
    Run(RunArgs),
    /// Collects the metrics of Flink clusters, as a process of its own.
    Ingest(RunArgs),
    /// Judges jobs and decides, as a process of its own.
    Analyzer(Listen),
    /// Carries decisions out, as a process of its own.
    Actuator(RunArgs),
    Simulate(SimulateArgs),
    Streams(StreamsArgs),
    #[command(flatten)]
    Data(Command),
}

/// Parses the arguments of the process, does what they say, and gives the exit code.
pub async fn main(arguments: impl Iterator<Item = OsString>) -> Exit {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(why) => {
            return if why.print().is_ok() { Exit::of_clap(&why) } else { Exit::Failure };
        }
    };
    if let Err(why) = start_logging(&cli) {
        eprintln!("weir: {why}");
        return why.exit();
    }
    let stop = CancellationToken::new();
    let terminated = Arc::new(AtomicBool::new(false));
    tokio::spawn(watch_signals(stop.clone(), Arc::clone(&terminated)));
    match dispatch(&cli, stop).await {
        // SIGTERM is how supervisors end a service in good order.
        Ok(Exit::Interrupted) if terminated.load(Ordering::Relaxed) => Exit::Ok,
        Ok(exit) => exit,
        Err(CliError::Io(why)) if why.kind() == std::io::ErrorKind::BrokenPipe => Exit::Ok,
        Err(why) => {
            eprintln!("weir: {why}");
            why.exit()
        }
    }
}

async fn dispatch(cli: &Cli, stop: CancellationToken) -> Result<Exit, CliError> {
    let mut out = std::io::stdout();
    match &cli.command {
        Verb::Demo(args) => demo::run(args, cli.output, &mut out, stop).await,
        Verb::Simulate(args) => simulate::run(args, &mut out, stop).await,
        Verb::Streams(args) => streams::run(args, &load(cli)?, cli.output, &mut out, stop).await,
        Verb::Run(args) => serve(cli, Service::All, &args.flink, &args.listen, &mut out, stop).await,
        Verb::Ingest(args) => serve(cli, Service::Ingest, &args.flink, &args.listen, &mut out, stop).await,
        Verb::Analyzer(listen) => serve(cli, Service::Analyzer, &[], listen, &mut out, stop).await,
        Verb::Actuator(args) => serve(cli, Service::Actuator, &args.flink, &args.listen, &mut out, stop).await,
        Verb::Data(command) => {
            let config = load(cli)?;
            let by = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".into());
            let global =
                Global { address: config.address(), output: cli.output, now_ms: RealClock::new().now_ms(), by };
            Ok(commands::run(command.clone(), &global, &mut out as &mut dyn Write).await?)
        }
    }
}

/// Runs services until they are told to stop.
async fn serve(
    cli: &Cli,
    service: Service,
    flink: &[String],
    listen: &Listen,
    out: &mut dyn Write,
    stop: CancellationToken,
) -> Result<Exit, CliError> {
    let config = run::configure(load(cli)?, service, flink, listen)?;
    let metrics = telemetry::install().map_err(|why| CliError::Failed(why.to_string()))?;
    run::run(&config, service, out, metrics, stop).await
}

/// The configuration, with the flags that count for every command laid over it.
fn load(cli: &Cli) -> Result<Config, CliError> {
    let mut config = Config::load(cli.config.as_deref(), std::env::vars())?;
    if let Some(data) = &cli.data {
        config.data.clone_from(data);
    }
    if let Some(database) = &cli.database {
        let address = Address::parse(database).map_err(|why| CliError::Usage(format!("database: {why}")))?;
        config.database = Some(address);
    }
    Ok(config)
}

/// Logs go to standard error, so that answers can be piped. Only services say more than warnings by itself.
///
/// # Errors
/// Refuses what is neither a level nor a filter.
fn start_logging(cli: &Cli) -> Result<(), CliError> {
    let usual = match &cli.command {
        Verb::Run(_) | Verb::Ingest(_) | Verb::Analyzer(_) | Verb::Actuator(_) => "info",
        Verb::Demo(_) => "off",
        _ => "warn",
    };
    let wanted = cli.log.as_deref().unwrap_or(usual);
    let filter = filter(wanted)?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second logger in one process is refused; the first goes on.
    let _already_logging = if cli.log_json {
        logs.json().try_init().is_err()
    } else {
        logs.with_ansi(std::io::stderr().is_terminal()).try_init().is_err()
    };
    Ok(())
}

/// A bare word that is no level would count as the name of a module, and silence everything else.
fn filter(wanted: &str) -> Result<EnvFilter, CliError> {
    let refused = |why: String| {
        CliError::Usage(format!(
            "--log {wanted:?} (or WEIR_LOG): {why}; give error, warn, info, debug, trace or off, or a filter such as \
             info,weir_ingest=debug"
        ))
    };
    for part in wanted.split(',') {
        let word = part.trim();
        if !word.contains(['=', '[']) && word.parse::<LevelFilter>().is_err() {
            return Err(refused(format!("{word:?} is no level")));
        }
    }
    EnvFilter::try_new(format!("{QUIET},{wanted}")).map_err(|why| refused(why.to_string()))
}

/// Libraries that tell of every step, and of every failure many times. What matters of that, the logs on them tell. A filter that
/// names them counts more.
const QUIET: &str =
    "pravega_client=off,pravega_connection_pool=off,pravega_controller_client=off,pravega_wire_protocol=off";

/// The first Ctrl-C, or SIGTERM, asks for an end; the second Ctrl-C is one.
async fn watch_signals(stop: CancellationToken, terminated: Arc<AtomicBool>) {
    let sigterm = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = sigterm => terminated.store(true, Ordering::Relaxed),
    }
    stop.cancel();
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(i32::from(Exit::Interrupted.code()));
    }
}
