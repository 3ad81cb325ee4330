//! The collectors: one for each cluster, alone in the whole installation.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use weir_ingest::{Collector, LogSink, Options, Producer, SinkError};
use weir_outbox::Logs;
use weir_placement::{Holder, Item, Member, cluster_tag};
use weir_runtime::{Clock, Health, Pulse, Tasks};
use weir_store::{Lease, Store, StoreError};

use super::{Process, Watched};

/// How often the leases are looked at, in milliseconds.
const LOOK_MS: i64 = 500;

/// Starts collecting. Where the log is this process's alone, so are the clusters; else collectors share them by lease.
pub(super) fn start(tasks: &mut Tasks, stop: &CancellationToken, process: &Process<'_>) {
    if process.config.log.is_shared() {
        let shared = Shared {
            store: process.data.store.clone(),
            logs: process.data.logs.clone(),
            options: process.config.collector.clone(),
            clock: (process.clock)(),
            id: process.id.to_owned(),
            health: process.health.clone(),
            clusters: process.clusters.clone(),
            pulse: process.health.service("the collectors"),
        };
        let known = process.clusters.iter().map(|it| cluster_tag(&it.spec.name));
        let tags = process.tags().into_iter().chain(known).collect();
        let member = Member { role: "ingest", id: process.id.to_owned(), tags };
        let holder = Holder::new(process.data.store.clone(), member);
        tasks.spawn("the collectors", process.reopen.clone().note(shared.run(holder, stop.clone())));
        return;
    }
    for watched in &process.clusters {
        let clock = (process.clock)();
        let (logs, options) = (&process.data.logs, &process.config.collector);
        let name = lease_name(&watched.spec.name);
        let mut collector = collector(watched, name, logs, options, &clock, process.id, clock.now_ms());
        if process.background
            && let Some(drain) = collector.in_background()
        {
            let pulse = process.health.service(drain_name(&watched.spec.name));
            tasks.spawn("the writer", process.reopen.clone().note(drain.run((process.clock)(), pulse, stop.clone())));
        }
        let stop = stop.clone();
        tasks.spawn("the collector", async move {
            collector.run(stop).await;
            Ok::<(), SinkError>(())
        });
    }
}

fn drain_name(cluster: &str) -> String {
    format!("the writer of {cluster}")
}

/// `started_ms` is later than the start of any collector of the cluster before, by one clock for all of them.
fn collector(
    watched: &Watched,
    name: String,
    logs: &Logs,
    options: &Options,
    clock: &Arc<dyn Clock>,
    id: &str,
    started_ms: i64,
) -> Collector {
    let spec = watched.spec.clone();
    let producer = Producer {
        // Room for a thousand records a millisecond before the next start would use a number again.
        next_sequence: u64::try_from(started_ms).unwrap_or(0) << 10,
        session: id.into(),
        name: name.clone(),
    };
    let sink = LogSink::new(Arc::clone(&logs.metrics), Arc::clone(clock), name);
    Collector::new(spec, options.clone(), Arc::clone(clock), Box::new(sink), producer)
}

/// Collectors that share clusters with those of other processes.
struct Shared {
    store: Store,
    logs: Logs,
    options: Options,
    clock: Arc<dyn Clock>,
    id: String,
    health: Health,
    clusters: Vec<Watched>,
    pulse: Pulse,
}

/// A collector that runs.
struct Running {
    epoch: u64,
    stop: CancellationToken,
    /// The collector, then what it has left for the log.
    ended: tokio::sync::oneshot::Receiver<()>,
}

impl Shared {
    async fn run(self, mut holder: Holder, stop: CancellationToken) -> Result<(), SinkError> {
        let item = |it: &Watched| {
            let wants = it.tags.iter().cloned().chain([cluster_tag(&it.spec.name)]).collect();
            Item { name: lease_name(&it.spec.name), wants }
        };
        let items: Vec<Item> = self.clusters.iter().map(item).collect();
        let mut running: BTreeMap<String, Running> = BTreeMap::new();
        let mut tasks: JoinSet<Result<(), SinkError>> = JoinSet::new();
        let mut failed = None;
        while failed.is_none() {
            // A database that hangs must not take the time in which the collectors count what they leave.
            let look = self.look(&mut holder, &items, &mut running, &mut tasks);
            match stop.run_until_cancelled(look).await {
                None => break,
                Some(Ok(())) => self.pulse.well(),
                // The leases that are held stay valid as long as nobody can take them, and nobody can without the database.
                Some(Err(why)) => {
                    self.pulse.failed(&why);
                    warn!(code = why.code(), %why, "the leases of the collectors cannot be seen to; trying again");
                }
            }
            tokio::select! {
                Some(ended) = tasks.join_next() => failed = ended.unwrap_or_else(panicked).err(),
                () = stop.cancelled() => {}
                () = self.clock.sleep_ms(LOOK_MS) => {}
            }
        }
        running.values().for_each(|it| it.stop.cancel());
        // All of them are waited for: each counts what it could not hand over.
        while let Some(ended) = tasks.join_next().await {
            failed = failed.or(ended.unwrap_or_else(panicked).err());
        }
        if let Err(why) = holder.leave().await {
            warn!(code = why.code(), %why, "the leases of the collectors were not given back; they expire");
        }
        failed.map_or(Ok(()), Err)
    }

    /// Sees to the leases, stops what is not this process's any more, starts what is.
    async fn look(
        &self,
        holder: &mut Holder,
        items: &[Item],
        running: &mut BTreeMap<String, Running>,
        tasks: &mut JoinSet<Result<(), SinkError>>,
    ) -> Result<(), StoreError> {
        holder.turn(items, self.clock.monotonic_ms()).await?;
        let surplus = holder.surplus();
        end_all(&surplus, running).await;
        for name in &surplus {
            holder.release(name).await?;
        }
        let lost = |(name, it): (&String, &Running)| {
            let held = holder.of(name).is_some_and(|lease| lease.epoch == it.epoch);
            (!held).then(|| name.clone())
        };
        let lost: Vec<String> = running.iter().filter_map(lost).collect();
        end_all(&lost, running).await;
        let gained: Vec<Lease> = holder.held().filter(|lease| !running.contains_key(&lease.name)).cloned().collect();
        for lease in gained {
            let Some(watched) = self.clusters.iter().find(|it| lease_name(&it.spec.name) == lease.name) else {
                continue;
            };
            let started_ms = self.store.lease_now_ms().await?;
            info!(cluster = watched.spec.name, "collecting");
            running.insert(lease.name.clone(), self.start(watched, &lease, started_ms, tasks));
        }
        Ok(())
    }

    fn start(
        &self,
        watched: &Watched,
        lease: &Lease,
        started_ms: i64,
        tasks: &mut JoinSet<Result<(), SinkError>>,
    ) -> Running {
        let stop = CancellationToken::new();
        let until = stop.clone();
        // What an older life has left in the log's queues may come after what this one writes: each life is a producer of its own.
        let name = format!("{}#{}", lease.name, lease.epoch);
        let mut collector = collector(watched, name, &self.logs, &self.options, &self.clock, &self.id, started_ms);
        let drain = collector.in_background();
        let pulse = self.health.service(drain_name(&watched.spec.name));
        let clock = Arc::clone(&self.clock);
        let (over, ended) = tokio::sync::oneshot::channel();
        tasks.spawn(async move {
            let collecting = collector.run(until.clone());
            let draining = async {
                let drained = match drain {
                    Some(drain) => drain.run(clock, pulse, until.clone()).await,
                    None => Ok(()),
                };
                // Without a log there is nothing to collect for.
                until.cancel();
                drained
            };
            // Whoever waits for the end may be gone.
            let ((), drained) = tokio::join!(collecting, draining);
            let _nobody_waits = over.send(()).is_err();
            drained
        });
        Running { epoch: lease.epoch, stop, ended }
    }
}

/// Ends collectors, all at once: meanwhile the leases of the others are not renewed.
async fn end_all(names: &[String], running: &mut BTreeMap<String, Running>) {
    join_all(names.iter().map(|name| end(running.remove(name)))).await;
}

/// Ends a collector, and waits until what it has left is handed over, or its time for that is up.
async fn end(running: Option<Running>) {
    if let Some(Running { stop, ended, .. }) = running {
        stop.cancel();
        let _it_ended_already = ended.await.is_err();
    }
}

fn panicked(why: JoinError) -> Result<(), SinkError> {
    Err(SinkError { why: format!("a collector ended: {why}"), retryable: false, reopen: false })
}

fn lease_name(cluster: &str) -> String {
    format!("ingest/{cluster}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::BoxFuture;
    use std::time::Duration;
    use tokio::sync::Notify;
    use weir_runtime::RealClock;
    use weir_store::WriteHook;
    use weir_streams::{MemoryLog, MemoryOptions};

    /// A database that hangs when an instance says that it is there.
    #[derive(Default)]
    struct Hangs(Notify);

    impl WriteHook for Hangs {
        fn before(&self, what: &'static str) -> BoxFuture<'_, ()> {
            if what != "register_instance" {
                return Box::pin(std::future::ready(()));
            }
            self.0.notify_one();
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn a_database_that_hangs_does_not_keep_the_collectors_from_their_end() {
        let folder = tempfile::tempdir().unwrap();
        let hangs = Arc::new(Hangs::default());
        let store = Store::open(&folder.path().join(Store::FILE)).await.unwrap();
        let store = store.with_write_hook(Arc::clone(&hangs) as Arc<dyn WriteHook>);
        let log = || Arc::new(MemoryLog::new(MemoryOptions::default()));
        let shared = Shared {
            store: store.clone(),
            logs: Logs { metrics: log(), events: log() },
            options: Options::default(),
            clock: Arc::new(RealClock::new()),
            id: "process".into(),
            health: Health::unwatched(),
            clusters: Vec::new(),
            pulse: Health::unwatched().service("the collectors"),
        };
        let holder = Holder::new(store, Member { role: "ingest", id: "process".into(), tags: Vec::new() });
        let stop = CancellationToken::new();
        let running = tokio::spawn(shared.run(holder, stop.clone()));
        let limit = Duration::from_secs(60);
        tokio::time::timeout(limit, hangs.0.notified()).await.expect("it asks the database");
        stop.cancel();
        let ended = tokio::time::timeout(limit, running).await;
        assert!(ended.expect("it waits for the database").unwrap().is_ok());
    }
}
