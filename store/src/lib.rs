//! The control database: small things that must survive, and that processes share. Metrics never go there.
//!
//! A [`Store`] is a cheap handle on one SQLite file, which services and commands of one machine use at the same time
//! (never put it on a network file system: its locks do not hold there). Every write is one durable transaction, and
//! holds the only write lock from its first statement on.
//!
//! - jobs that were seen, and what people have said: [`Store::seen_jobs`], [`Store::controls`], [`Store::audit`];
//! - the analyzer's commit of state, decisions and what to publish, on condition of its epoch: [`Store::commit`];
//! - the actuator's claims: [`Store::claim_action`], and what people ask it to do: [`Store::add_request`];
//! - who may act: [`Store::acquire_lease`], [`Store::under_lease`];
//! - an end to growth: [`Store::prune`].
//!
//! The statements are one text for SQLite and PostgreSQL; what is peculiar to SQLite lives in `open` and `dialect`.

mod actions;
mod checkpoint;
mod controls;
mod decisions;
mod dialect;
mod error;
mod jobs;
mod leases;
mod open;
mod outbox;
mod positions;
mod prefix;
mod prune;
mod requests;
mod rows;
mod store;

pub use actions::ActionRow;
pub use checkpoint::{BlobRef, Checkpoint, CheckpointStore, Commit, DecisionWrite};
pub use controls::{AuditRow, Controls, JobControl};
pub use error::StoreError;
pub use jobs::JobRow;
pub use leases::Lease;
pub use open::OpenOptions;
pub use outbox::{OutboxRow, OutboxWrite};
pub use positions::PositionRow;
pub use prune::{Pruned, Retention};
pub use requests::{RequestKind, RequestRow};
pub use store::{BoxFuture, LeaseClock, Store, WriteHook};
