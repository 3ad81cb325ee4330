//! Decisions, as they come in on the log of events.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics::counter;
use tracing::{debug, error, warn};
use weir_governor::{Action, Command, awaits_approval};
use weir_outbox::{EVENTS, after_gap};
use weir_placement::Holder;
use weir_runtime::telemetry;
use weir_schemas::decision::{Decision, Disposition};
use weir_schemas::event::{CloudEvent, TYPE_DECISION};
use weir_store::{Lease, PositionRow};
use weir_streams::{LogReader, Position};

use crate::ActuatorError;
use crate::clusters;
use crate::office::Office;

/// Events that are read from a partition at once.
const AT_ONCE: usize = 256;

/// Where the log of events has been read to.
///
/// One reader a partition serves all clusters that this process acts on; how far each cluster has got is kept apart, since
/// another process may take it over.
#[derive(Default)]
pub(crate) struct Inbox {
    partitions: Vec<Partition>,
    /// The leases under which it was opened: cluster and epoch.
    opened_for: Vec<(String, u64)>,
}

struct Partition {
    number: u32,
    reader: Box<dyn LogReader>,
    /// After the last event that was dealt with.
    done: Position,
    /// What of that is stored, by cluster. Events before it were dealt with already.
    saved: BTreeMap<String, Position>,
}

impl Inbox {
    /// Forgets where it stood: the database knows.
    pub(crate) fn close(&mut self) {
        self.partitions.clear();
        self.opened_for.clear();
    }

    /// Reads what has come, claims what is to be carried out, and says how many commands that were.
    pub(crate) async fn read(&mut self, office: &mut Office, holder: &Holder) -> Result<u64, ActuatorError> {
        let held: Vec<(String, u64)> = holder.held().map(|lease| (lease.name.clone(), lease.epoch)).collect();
        if self.opened_for != held {
            self.close();
            self.partitions = open(office, holder).await?;
            self.opened_for = held;
        }
        let mut claimed = 0;
        for partition in &mut self.partitions {
            let read = partition.read(office, holder, &mut claimed).await;
            // What was read and not dealt with is to come again.
            if partition.reader.position() != partition.done {
                partition.reader.seek(partition.done);
            }
            read?;
        }
        for lease in holder.held() {
            self.save(office, lease).await?;
        }
        Ok(claimed)
    }

    /// Stores how far a cluster has got, all partitions at once.
    async fn save(&mut self, office: &Office, lease: &Lease) -> Result<(), ActuatorError> {
        let moved = |partition: &&mut Partition| partition.saved.get(&lease.name) != Some(&partition.done);
        let moved: Vec<&mut Partition> = self.partitions.iter_mut().filter(moved).collect();
        if moved.is_empty() {
            return Ok(());
        }
        let rows: Vec<PositionRow> = moved.iter().map(|it| row(office, lease, it.number, it.done)).collect();
        office.store.clone().under_lease(lease).save_positions(&rows, None).await?;
        for partition in moved {
            partition.saved.insert(lease.name.clone(), partition.done);
        }
        Ok(())
    }
}

async fn open(office: &Office, holder: &Holder) -> Result<Vec<Partition>, ActuatorError> {
    let log = &office.logs.events;
    let mut stored = BTreeMap::new();
    for lease in holder.held() {
        stored.insert(lease.name.clone(), office.store.positions(&lease.name).await?);
    }
    let mut partitions = Vec::new();
    for number in 0..log.info().partitions {
        let head = log.head(number).await?;
        let mut saved = BTreeMap::new();
        for (cluster, rows) in &stored {
            let known = rows.iter().find(|row| row.log == EVENTS && row.partition == number);
            let same = known.filter(|row| row.incarnation == log.info().incarnation.to_string());
            if known.is_some() && same.is_none() {
                error!(partition = number, cluster, "the log of events was made anew; reading it from its head");
                counter!(telemetry::LOG_GAPS, "log" => EVENTS, "reason" => "other_incarnation").increment(1);
            }
            saved.insert(cluster.clone(), same.map_or(head, |row| Position::from_raw(row.position)));
        }
        let from = saved.values().min().copied().unwrap_or(head);
        partitions.push(Partition { number, reader: log.reader(number, from).await?, done: from, saved });
    }
    Ok(partitions)
}

fn row(office: &Office, lease: &Lease, partition: u32, position: Position) -> PositionRow {
    PositionRow {
        consumer: lease.name.clone(),
        log: EVENTS.into(),
        partition,
        incarnation: office.logs.events.info().incarnation.to_string(),
        position: position.to_raw(),
    }
}

impl Partition {
    async fn read(&mut self, office: &mut Office, holder: &Holder, claimed: &mut u64) -> Result<(), ActuatorError> {
        let records = match self.reader.read(AT_ONCE, Duration::ZERO).await {
            Ok(records) => records,
            Err(failed) => {
                self.done = after_gap(office.logs.events.as_ref(), EVENTS, self.number, failed).await?;
                // A position after the end is none: whoever was there goes on from here as well.
                self.saved.values_mut().for_each(|saved| *saved = self.done.min(*saved));
                Vec::new()
            }
        };
        for record in records {
            if let Some(decision) = decision(&record.payload) {
                office.epochs.heard_of(&decision.job, decision.epoch, office.clock.monotonic_ms());
                *claimed += u64::from(self.take(office, holder, &decision, record.next).await?);
            }
            self.done = record.next;
        }
        Ok(())
    }

    /// Claims the command of a decision, if it is one for this process. True if it had not been claimed before.
    async fn take(
        &mut self,
        office: &Office,
        holder: &Holder,
        decision: &Decision,
        next: Position,
    ) -> Result<bool, ActuatorError> {
        let Some(command) = Command::of_decision(decision, office.numbers(&decision.job)) else { return Ok(false) };
        let Some(lease) = holder.of(&clusters::lease_name(&decision.job.cluster)) else {
            debug!(job = %decision.job, "a decision for a cluster that this process does not act on");
            return Ok(false);
        };
        if self.saved.get(&lease.name).is_some_and(|saved| next <= *saved) {
            return Ok(false);
        }
        let position = Some(row(office, lease, self.number, next));
        let claimed = if decision.disposition == Disposition::AwaitsApproval {
            let action = Action::awaiting_approval(command);
            let outcome = awaits_approval(&action, office.clock.now_ms());
            office.claim(lease, &action, position, Some(&outcome)).await?
        } else {
            office.claim(lease, &Action::planned(command), position, None).await?
        };
        if claimed {
            self.saved.insert(lease.name.clone(), next);
        }
        Ok(claimed)
    }
}

/// The decision in an event, if it holds one.
fn decision(payload: &[u8]) -> Option<Decision> {
    let refused = |why: serde_json::Error| {
        warn!(%why, "an event was refused");
        counter!(telemetry::RECORDS_REFUSED, "reason" => "undecodable_event").increment(1);
    };
    let event: CloudEvent = serde_json::from_slice(payload).map_err(refused).ok()?;
    if event.kind != TYPE_DECISION {
        return None;
    }
    serde_json::from_value(event.data).map_err(refused).ok()
}
