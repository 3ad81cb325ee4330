//! The actuator: one pass, and pass after pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use weir_drivers::Driver;
use weir_outbox::{Logs, Publisher};
use weir_placement::{Holder, Item, Member, cluster_tag};
use weir_runtime::{Backoff, Clock, Pulse, seed_of};
use weir_schemas::control::PolicyBook;
use weir_schemas::identity::JobKey;
use weir_store::{Controls, Store};

use crate::ActuatorError;
use crate::carry::{Carried, Carrier};
use crate::clusters;
use crate::epochs::Epochs;
use crate::inbox::Inbox;
use crate::office::{Held, Office};
use crate::requests::Requests;
use crate::rows;

/// The actuator's section of the configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How long to wait before looking again when nothing was to be done, in milliseconds.
    pub poll_ms: i64,
    /// Jobs that are acted on at the same time.
    pub concurrency: usize,
}

impl Options {
    /// Everything that is wrong with the options, one sentence each; empty when they are sound.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.poll_ms < 1 {
            found.push(format!("poll_ms = {} must be at least 1", self.poll_ms));
        }
        if self.concurrency == 0 {
            found.push("concurrency = 0 must be at least 1".into());
        }
        found
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { poll_ms: 150, concurrency: 16 }
    }
}

/// What the actuator is put together from.
pub struct Parts {
    /// The control database.
    pub store: Store,
    /// The logs.
    pub logs: Logs,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Policies and modes of the configuration.
    pub book: PolicyBook,
    /// The clusters that it may act on, by name.
    pub drivers: BTreeMap<String, Arc<dyn Driver>>,
    /// Tags that clusters ask for, by name; a cluster that is not here asks for none.
    pub wants: BTreeMap<String, BTreeSet<String>>,
    /// Names this process and no other, also none after a restart.
    pub owner: String,
    /// Tags that this instance carries.
    pub tags: Vec<String>,
    /// Where it says how it is.
    pub pulse: Pulse,
}

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepReport {
    /// Whether this process has the lease of any cluster; without one it does nothing.
    pub leads: bool,
    /// Commands that were claimed.
    pub claimed: u64,
    /// Requests of people that were answered.
    pub answered: u64,
    /// Actions that were looked at.
    pub looked: u64,
    /// Rows that were published.
    pub published: u64,
}

/// Claims commands, carries them out, tells what became of them.
pub struct Actuator {
    options: Options,
    office: Office,
    holder: Holder,
    items: Vec<Item>,
    pulse: Pulse,
    inbox: Inbox,
    requests: Requests,
    /// One for each cluster that this process acts on, by lease.
    publishers: BTreeMap<String, Publisher>,
    /// When actions are to be looked at again, by the monotonic clock; those that are not here are due.
    due: BTreeMap<String, i64>,
    backoff: Backoff,
}

impl Actuator {
    /// An actuator that holds no lease yet.
    #[must_use]
    pub fn new(options: Options, parts: Parts) -> Self {
        let Parts { store, logs, clock, book, drivers, wants, owner, tags, pulse } = parts;
        let wanted = |name: &String| (name.clone(), wants.get(name).cloned().unwrap_or_default());
        let items = clusters::items(&drivers.keys().map(wanted).collect());
        let tags = tags.into_iter().chain(drivers.keys().map(|name| cluster_tag(name))).collect();
        // A pause fits into what a lease has left after the last renewal.
        let backoff = Backoff::new(200, 1_000, seed_of(&owner));
        let holder = Holder::new(store.clone(), Member { role: "actuator", id: owner, tags });
        let office = Office { store, logs, clock, book, drivers, said: Controls::default(), epochs: Epochs::default() };
        Self {
            options,
            holder,
            items,
            pulse,
            office,
            inbox: Inbox::default(),
            requests: Requests::default(),
            publishers: BTreeMap::new(),
            due: BTreeMap::new(),
            backoff,
        }
    }

    /// Goes on until it is told to stop. A pass that fails is tried again, later and later.
    ///
    /// An action that is under way is left as it is: whoever takes the lease next goes on with it.
    ///
    /// # Errors
    /// If the logs have to be opened again.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), ActuatorError> {
        let clock = Arc::clone(&self.office.clock);
        while !stop.is_cancelled() {
            let Some(passed) = stop.run_until_cancelled(self.step()).await else { break };
            let pause_ms = match passed {
                Ok(report) => {
                    self.backoff.succeeded();
                    self.pulse.well();
                    if report.claimed + report.answered > 0 { 1 } else { self.options.poll_ms.max(1) }
                }
                Err(why) if why.needs_reopening() => return Err(why),
                Err(why) => {
                    self.pulse.failed(&why);
                    let pause_ms = self.backoff.failed();
                    warn!(code = why.code(), %why, pause_ms, "a pass of the actuator failed; trying again");
                    pause_ms
                }
            };
            stop.run_until_cancelled(clock.sleep_ms(pause_ms)).await;
        }
        if let Err(why) = self.holder.leave().await {
            warn!(code = why.code(), %why, "the leases were not given back; they expire");
        }
        Ok(())
    }

    /// One pass: leases, decisions, requests, actions, what is to be told.
    ///
    /// # Errors
    /// What failed first. A job that fails does not keep the others from being dealt with; the next pass goes on from
    /// there.
    pub async fn step(&mut self) -> Result<StepReport, ActuatorError> {
        let passed = self.lead().await;
        if passed.as_ref().is_err_and(ActuatorError::is_fenced) {
            self.holder.hurry();
            self.stand_by();
        }
        passed
    }

    async fn lead(&mut self) -> Result<StepReport, ActuatorError> {
        self.hold_clusters().await?;
        if self.holder.held().next().is_none() {
            self.stand_by();
            return Ok(StepReport::default());
        }
        let (keeper, clock) = (self.holder.keeper(), Arc::clone(&self.office.clock));
        keeper.during(clock.as_ref(), self.pass()).await
    }

    async fn pass(&mut self) -> Result<StepReport, ActuatorError> {
        let mut report = StepReport { leads: true, ..StepReport::default() };
        self.office.listen().await?;
        // Without new decisions, what is under way goes on all the same.
        let read = self.inbox.read(&mut self.office, &self.holder).await;
        report.claimed = *read.as_ref().unwrap_or(&0);
        report.answered = self.requests.answer(&self.office, &self.holder).await?;
        let (looked, failed) = self.carry_on().await?;
        report.looked = looked;
        for publisher in self.publishers.values_mut() {
            let until_ms = self.holder.trusted_until_ms();
            report.published += publisher.publish(self.office.clock.as_ref(), until_ms).await?;
        }
        read?;
        failed.map_or(Ok(report), Err)
    }

    /// Renews the leases where that is due, takes the clusters that are this instance's, and gives up those that are not. Nothing
    /// is under way between passes: whoever has a cluster next goes on from what is stored.
    async fn hold_clusters(&mut self) -> Result<(), ActuatorError> {
        self.holder.turn(&self.items, self.office.clock.monotonic_ms()).await?;
        for name in self.holder.surplus() {
            self.holder.release(&name).await?;
        }
        let holder = &self.holder;
        self.publishers.retain(|name, _| holder.of(name).is_some());
        for lease in self.holder.held() {
            let office = &self.office;
            let publisher = || Publisher::new(office.store.clone(), lease.name.clone(), office.logs.clone());
            self.publishers.entry(lease.name.clone()).or_insert_with(publisher);
        }
        Ok(())
    }

    /// Whoever leads meanwhile moves everything on: only the database knows then.
    fn stand_by(&mut self) {
        self.inbox.close();
        self.due.clear();
    }

    /// Carries all open actions on, several jobs at a time. How many were looked at, and what failed first.
    async fn carry_on(&mut self) -> Result<(u64, Option<ActuatorError>), ActuatorError> {
        let jobs = self.open_actions().await?;
        let now_ms = self.office.clock.monotonic_ms();
        let (office, holder, due) = (&self.office, &self.holder, &self.due);
        let is_due = |id: &str| due.get(id).is_none_or(|at_ms| *at_ms <= now_ms);
        let passes = jobs.into_iter().filter_map(|(job, open)| {
            let lease = holder.of(&clusters::lease_name(&job.cluster))?;
            let carrier = Carrier { office, lease, trusted_until_ms: holder.trusted_until_ms() };
            Some(async move { carrier.job(open, is_due).await })
        });
        let done: Vec<Result<Carried, ActuatorError>> =
            futures::stream::iter(passes).buffer_unordered(self.options.concurrency.max(1)).collect().await;
        let (mut looked, mut failed) = (0, None);
        for job in done {
            match job {
                Ok(carried) => {
                    for (id, look_again_ms) in carried.looked {
                        looked += 1;
                        self.due.insert(id, self.office.clock.monotonic_ms().saturating_add(look_again_ms));
                    }
                }
                Err(why) => failed = failed.or(Some(why)),
            }
        }
        Ok((looked, failed))
    }

    /// All open actions, by job, oldest first. A job with an action that cannot be read is left alone.
    async fn open_actions(&mut self) -> Result<BTreeMap<JobKey, Vec<Held>>, ActuatorError> {
        let rows = self.office.store.open_actions().await?;
        self.due.retain(|id, _| rows.iter().any(|row| row.id == *id));
        let mut jobs: BTreeMap<JobKey, Option<Vec<Held>>> = BTreeMap::new();
        for row in rows {
            let held = jobs.entry(row.job.clone()).or_insert_with(|| Some(Vec::new()));
            match rows::action(&row) {
                Ok(action) => {
                    if let Some(held) = held {
                        held.push(Held { action, created_ms: row.created_ms });
                    }
                }
                Err(why) => {
                    error!(job = %row.job, code = why.code(), %why, "the job is left alone");
                    *held = None;
                }
            }
        }
        Ok(jobs.into_iter().filter_map(|(job, held)| Some((job, held?))).collect())
    }
}
