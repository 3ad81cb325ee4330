//! Puts the services together: all of them in one process, or those that it was asked for.

mod collectors;
mod data;
mod logs;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;
use tracing::warn;
use weir_actuator::{Actuator, ActuatorError};
use weir_analyzer::{Analyzer, AnalyzerError};
use weir_drivers::{Driver, FlinkRest, FlinkRestOptions};
use weir_flink::FlinkApi;
use weir_ingest::{ClusterSpec, SinkError};
use weir_runtime::{Clock, Health, Tasks};
use weir_store::{Retention, StoreError};

use crate::config::Config;

pub use data::{Data, DataError};
pub use logs::LogMeter;

/// How often old data are given up, in milliseconds.
const HOUSEKEEPING_MS: i64 = 60_000;

/// A cluster and how it is reached.
#[derive(Clone)]
pub struct Watched {
    /// Which jobs are watched, and through what.
    pub spec: ClusterSpec,
    /// The same cluster, as actions reach it.
    pub api: Arc<dyn FlinkApi>,
    /// Tags of the instances that should work for it.
    pub tags: BTreeSet<String>,
}

/// The services that a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// Collects metrics.
    pub ingest: bool,
    /// Judges and decides.
    pub analyzer: bool,
    /// Acts.
    pub actuator: bool,
}

impl Roles {
    /// Everything in one process.
    pub const ALL: Self = Self { ingest: true, analyzer: true, actuator: true };
    /// `weir ingest`.
    pub const INGEST: Self = Self { ingest: true, analyzer: false, actuator: false };
    /// `weir analyzer`.
    pub const ANALYZER: Self = Self { ingest: false, analyzer: true, actuator: false };
    /// `weir actuator`.
    pub const ACTUATOR: Self = Self { ingest: false, analyzer: false, actuator: true };
}

/// Whether the logs have to be opened again, since the server has lost them.
#[derive(Clone, Default)]
pub struct Reopen(Arc<AtomicBool>);

impl Reopen {
    /// Whether they have to.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits for a service, and notes if it ended because of this.
    async fn note<T, E: NeedsReopening>(self, service: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let ended = service.await;
        if ended.as_ref().is_err_and(NeedsReopening::needs_reopening) {
            self.0.store(true, Ordering::Relaxed);
        }
        ended
    }
}

/// What may end because the logs have to be opened again.
trait NeedsReopening: Display {
    fn needs_reopening(&self) -> bool;
}

impl NeedsReopening for AnalyzerError {
    fn needs_reopening(&self) -> bool {
        self.needs_reopening()
    }
}

impl NeedsReopening for ActuatorError {
    fn needs_reopening(&self) -> bool {
        self.needs_reopening()
    }
}

impl NeedsReopening for SinkError {
    fn needs_reopening(&self) -> bool {
        self.reopen
    }
}

/// A process, as far as its services need to know.
pub struct Process<'a> {
    /// Where everything is kept.
    pub data: &'a Data,
    /// What was wished.
    pub config: &'a Config,
    /// The clusters; without them nothing is collected and nothing done.
    pub clusters: Vec<Watched>,
    /// Gives each service a handle of its own.
    pub clock: &'a dyn Fn() -> Arc<dyn Clock>,
    /// Names this process and no other, also none after a restart.
    pub id: &'a str,
    /// What it does.
    pub roles: Roles,
    /// Where services say how they are.
    pub health: Health,
    /// Whether records are handed to the log in the background, so that a log that stalls does not keep the collector from
    /// collecting. Not in virtual time, which would pass meanwhile.
    pub background: bool,
    /// Set by a service that ends because the logs have to be opened again.
    pub reopen: Reopen,
}

impl Process<'_> {
    fn tags(&self) -> Vec<String> {
        self.config.instance.tags.iter().cloned().collect()
    }
}

/// Starts the services of a process as tasks.
pub fn start(tasks: &mut Tasks, stop: &CancellationToken, process: &Process<'_>) {
    if process.roles.ingest {
        collectors::start(tasks, stop, process);
    }
    if process.roles.analyzer {
        start_analyzer(tasks, stop, process);
    }
    if process.roles.actuator {
        start_actuator(tasks, stop, process);
    }
    if process.roles.analyzer {
        let kept = process.config.retention;
        tasks.spawn("housekeeping", housekeeping(process.data.clone(), kept, (process.clock)(), stop.clone()));
    }
}

fn start_analyzer(tasks: &mut Tasks, stop: &CancellationToken, process: &Process<'_>) {
    let parts = weir_analyzer::Parts {
        store: process.data.store.clone(),
        logs: process.data.logs.clone(),
        clock: (process.clock)(),
        book: process.config.book.clone(),
        owner: process.id.into(),
        tags: process.tags(),
        pulse: process.health.service("the analyzer"),
    };
    let analyzer = Analyzer::new(process.config.analyzer.clone(), parts);
    tasks.spawn("the analyzer", process.reopen.clone().note(analyzer.run(stop.clone())));
}

fn start_actuator(tasks: &mut Tasks, stop: &CancellationToken, process: &Process<'_>) {
    let clock = (process.clock)();
    let mut drivers: BTreeMap<String, Arc<dyn Driver>> = BTreeMap::new();
    let mut wants = BTreeMap::new();
    for Watched { spec, api, tags } in &process.clusters {
        let driver = FlinkRest::new(Arc::clone(api), Arc::clone(&clock), FlinkRestOptions::default());
        drivers.insert(spec.name.clone(), Arc::new(driver));
        wants.insert(spec.name.clone(), tags.clone());
    }
    let parts = weir_actuator::Parts {
        store: process.data.store.clone(),
        logs: process.data.logs.clone(),
        clock,
        book: process.config.book.clone(),
        drivers,
        wants,
        owner: process.id.into(),
        tags: process.tags(),
        pulse: process.health.service("the actuator"),
    };
    let actuator = Actuator::new(process.config.actuator.clone(), parts);
    tasks.spawn("the actuator", process.reopen.clone().note(actuator.run(stop.clone())));
}

/// Gives up what is older or more than what is to be kept.
async fn housekeeping(
    data: Data,
    retention: Retention,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) -> Result<(), StoreError> {
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
        if let Err(why) = data.store.prune_instances(HOUSEKEEPING_MS).await {
            warn!(%why, "instances that are gone could not be forgotten");
        }
    }
    Ok(())
}
