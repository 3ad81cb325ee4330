//! Decisions, as they come in on the log of events.

use std::time::Duration;

use metrics::counter;
use tracing::{debug, error, warn};
use weir_governor::{Action, Command, awaits_approval};
use weir_outbox::EVENTS;
use weir_runtime::telemetry;
use weir_schemas::decision::{Decision, Disposition};
use weir_schemas::event::{CloudEvent, TYPE_DECISION};
use weir_store::PositionRow;
use weir_streams::{Log, LogError, LogReader, Position};

use crate::ActuatorError;
use crate::leases::Leases;
use crate::office::Office;
use crate::rows::OWNER;

/// Events that are read from a partition at once.
const AT_ONCE: usize = 256;

/// Where the log of events has been read to.
#[derive(Default)]
pub(crate) struct Inbox {
    partitions: Vec<Partition>,
}

struct Partition {
    number: u32,
    reader: Box<dyn LogReader>,
    /// After the last event that was dealt with.
    done: Position,
    /// What of that is stored.
    saved: Position,
}

impl Inbox {
    /// Forgets where it stood: the database knows.
    pub(crate) fn close(&mut self) {
        self.partitions.clear();
    }

    /// Reads what has come, claims what is to be carried out, and says how many commands that were.
    pub(crate) async fn read(&mut self, office: &mut Office, leases: &Leases) -> Result<u64, ActuatorError> {
        if self.partitions.is_empty() {
            self.partitions = open(office).await?;
        }
        let mut claimed = 0;
        for partition in &mut self.partitions {
            let read = partition.read(office, leases, &mut claimed).await;
            // What was read and not dealt with is to come again.
            partition.reader.seek(partition.done);
            read?;
        }
        Ok(claimed)
    }
}

async fn open(office: &Office) -> Result<Vec<Partition>, ActuatorError> {
    let log = &office.logs.events;
    let stored = office.store.positions(OWNER).await?;
    let mut partitions = Vec::new();
    for number in 0..log.info().partitions {
        let known = stored.iter().find(|row| row.log == EVENTS && row.partition == number);
        let resumed = known.filter(|row| row.incarnation == log.info().incarnation.to_string());
        if known.is_some() && resumed.is_none() {
            error!(partition = number, "the log of events was made anew; reading it from its head");
        }
        let from = match resumed {
            Some(row) => Position::from_raw(row.position),
            None => log.head(number).await?,
        };
        let reader = log.reader(number, from).await?;
        partitions.push(Partition { number, reader, done: from, saved: from });
    }
    Ok(partitions)
}

impl Partition {
    async fn read(&mut self, office: &mut Office, leases: &Leases, claimed: &mut u64) -> Result<(), ActuatorError> {
        let records = match self.reader.read(AT_ONCE, Duration::ZERO).await {
            Ok(records) => records,
            Err(gap @ (LogError::Truncated { .. } | LogError::Corrupt { .. } | LogError::BeyondTail { .. })) => {
                self.done = after_gap(office.logs.events.as_ref(), self.number, &gap).await?;
                Vec::new()
            }
            Err(why) => return Err(why.into()),
        };
        for record in records {
            if let Some(decision) = decision(&record.payload) {
                office.heard_of(&decision.job, decision.epoch);
                if take(office, leases, &decision, self.position(office, record.next)).await? {
                    *claimed += 1;
                    self.saved = record.next;
                }
            }
            self.done = record.next;
        }
        if let Some(lease) = leases.any().filter(|_| self.done != self.saved) {
            let row = self.position(office, self.done);
            office.store.clone().under_lease(lease).save_positions(&[row], None).await?;
            self.saved = self.done;
        }
        Ok(())
    }

    fn position(&self, office: &Office, position: Position) -> PositionRow {
        PositionRow {
            consumer: OWNER.into(),
            log: EVENTS.into(),
            partition: self.number,
            incarnation: office.logs.events.info().incarnation.to_string(),
            position: position.to_raw(),
        }
    }
}

/// Where to go on after a gap, which is told and counted, and never stops the reading.
async fn after_gap(log: &dyn Log, partition: u32, gap: &LogError) -> Result<Position, LogError> {
    let (to, reason, lost) = match gap {
        LogError::Truncated { head, lost, .. } => (*head, "truncated", lost.bytes.unwrap_or(0)),
        LogError::Corrupt { resume, lost_bytes, .. } => (*resume, "corrupt", *lost_bytes),
        _ => (log.head(partition).await?, "beyond_tail", 0),
    };
    error!(partition, code = gap.code(), %gap, "a gap in the log of events; reading on after it");
    counter!(telemetry::LOG_BYTES_LOST, "log" => EVENTS, "reason" => reason).increment(lost);
    Ok(to)
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

/// Claims the command of a decision, if it is one for this process. True if it had not been claimed before.
async fn take(
    office: &Office,
    leases: &Leases,
    decision: &Decision,
    position: PositionRow,
) -> Result<bool, ActuatorError> {
    let Some(command) = Command::of_decision(decision, office.numbers(&decision.job)) else { return Ok(false) };
    let Some(lease) = leases.of(&decision.job.cluster) else {
        debug!(job = %decision.job, "a decision for a cluster that this process does not act on");
        return Ok(false);
    };
    if decision.disposition == Disposition::AwaitsApproval {
        let action = Action::awaiting_approval(command);
        let outcome = awaits_approval(&action, office.clock.now_ms());
        return office.claim(lease, &action, Some(position), Some(&outcome)).await;
    }
    office.claim(lease, &Action::planned(command), Some(position), None).await
}
