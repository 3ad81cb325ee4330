//! Puts the services together: all of them in one process, over the embedded log and the control database.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use metrics::counter;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use weir_actuator::Actuator;
use weir_analyzer::Analyzer;
use weir_drivers::{Driver, FlinkRest, FlinkRestOptions};
use weir_flink::FlinkApi;
use weir_ingest::{ClusterSpec, Collector, LogSink, Producer};
use weir_outbox::{EVENTS, Logs, METRICS};
use weir_runtime::{Clock, Tasks, telemetry};
use weir_store::{Retention, Store, StoreError};
use weir_streams::{EmbeddedLog, EmbeddedOptions, LogError};

use crate::config::Config;

/// How often old data are given up, in milliseconds.
const HOUSEKEEPING_MS: i64 = 60_000;

/// Where everything is kept.
#[derive(Clone)]
pub struct Data {
    /// The control database.
    pub store: Store,
    /// The logs.
    pub logs: Logs,
}

/// The folder of data cannot be used.
#[derive(Debug, Error)]
pub enum DataError {
    /// The control database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A log.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl Data {
    /// Opens the folder, and makes it where it is missing.
    ///
    /// # Errors
    /// Folders of newer versions, or that another process writes to, are refused.
    pub async fn open(folder: &Path, options: &EmbeddedOptions, now_ms: i64) -> Result<Self, DataError> {
        make_private(folder);
        let store = Store::open(&folder.join(Store::FILE)).await?;
        let metrics = EmbeddedLog::open(folder.join(METRICS), options.clone(), now_ms).await?;
        let events = EmbeddedLog::open(folder.join(EVENTS), options.clone(), now_ms).await?;
        for report in metrics.recovery().iter().chain(events.recovery()) {
            if report.torn_bytes > 0 || !report.damage.is_empty() {
                warn!(?report, "a log was damaged; what could not be read is lost");
                counter!(telemetry::LOG_BYTES_LOST, "reason" => "torn").increment(report.torn_bytes);
            }
        }
        Ok(Self { store, logs: Logs { metrics: Arc::new(metrics), events: Arc::new(events) } })
    }
}

/// Makes the folder, where it is missing, for its own user alone: whoever can write to it can approve actions. A folder that is
/// there already keeps what it allows, and one that cannot be made is told of by whoever opens it next.
fn make_private(folder: &Path) {
    if let Err(why) = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        warn!(folder = %folder.display(), %why, "the folder of data cannot be made");
    }
}

/// A cluster and how it is reached.
#[derive(Clone)]
pub struct Watched {
    /// Which jobs are watched, and through what.
    pub spec: ClusterSpec,
    /// The same cluster, as actions reach it.
    pub api: Arc<dyn FlinkApi>,
}

/// Starts every service as a task. `clock` gives each its own handle; `process` names this process and no other.
pub fn start(
    tasks: &mut Tasks,
    stop: &CancellationToken,
    data: &Data,
    config: &Config,
    clusters: Vec<Watched>,
    clock: &dyn Fn() -> Arc<dyn Clock>,
    process: &str,
) {
    let mut drivers: BTreeMap<String, Arc<dyn Driver>> = BTreeMap::new();
    let actuator_clock = clock();
    for Watched { spec, api } in clusters {
        let driver = FlinkRest::new(api, Arc::clone(&actuator_clock), FlinkRestOptions::default());
        drivers.insert(spec.name.clone(), Arc::new(driver));
        let collector = collector(spec, data, config, clock(), process);
        let stop = stop.clone();
        tasks.spawn("the collector", async move {
            collector.run(stop).await;
            Ok::<(), DataError>(())
        });
    }
    let analyzer = Analyzer::new(
        config.analyzer.clone(),
        data.store.clone(),
        data.logs.clone(),
        clock(),
        config.book.clone(),
        process.into(),
    );
    tasks.spawn("the analyzer", analyzer.run(stop.clone()));
    let parts = weir_actuator::Parts {
        store: data.store.clone(),
        logs: data.logs.clone(),
        clock: actuator_clock,
        book: config.book.clone(),
        drivers,
        owner: process.into(),
    };
    tasks.spawn("the actuator", Actuator::new(config.actuator.clone(), parts).run(stop.clone()));
    tasks.spawn("housekeeping", housekeeping(data.clone(), config.retention, clock(), stop.clone()));
}

fn collector(spec: ClusterSpec, data: &Data, config: &Config, clock: Arc<dyn Clock>, process: &str) -> Collector {
    let name = format!("ingest/{}", spec.name);
    let producer = Producer {
        // Room for a thousand records a millisecond before the next start would use a number again.
        next_sequence: u64::try_from(clock.now_ms()).unwrap_or(0) << 10,
        session: process.into(),
        name: name.clone(),
    };
    let sink = LogSink::new(Arc::clone(&data.logs.metrics), Arc::clone(&clock), name);
    Collector::new(spec, config.collector.clone(), clock, Box::new(sink), producer)
}

/// Gives up what is older or more than what is to be kept.
async fn housekeeping(
    data: Data,
    retention: Retention,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) -> Result<(), DataError> {
    while stop.run_until_cancelled(clock.sleep_ms(HOUSEKEEPING_MS)).await.is_some() {
        let now_ms = clock.now_ms();
        for log in [&data.logs.metrics, &data.logs.events] {
            if let Err(why) = log.retain(now_ms).await {
                warn!(%why, log = log.info().name, "old records could not be given up");
            }
        }
        if let Err(why) = data.store.prune(now_ms, retention).await {
            warn!(%why, "old rows could not be given up");
        }
    }
    Ok(())
}
