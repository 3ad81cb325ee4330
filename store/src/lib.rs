//! The control database: small things that must survive, and that processes share. Metrics never go there.
//!
//! A [`Store`] is a cheap handle on one database, which services and commands use at the same time: either an SQLite file,
//! for the processes of one machine (never put it on a network file system: its locks do not hold there), or a database on
//! a PostgreSQL server, for those of many ([`Address`]). Every write is one durable transaction. SQLite's holds the only
//! write lock from its first statement on; PostgreSQL's run side by side, and what must not is a conditional statement or
//! done under a named lock.
//!
//! - jobs that were seen, and what people have said: [`Store::seen_jobs`], [`Store::controls`], [`Store::audit`];
//! - the analyzer's commit of state, decisions and what to publish, on condition of its epoch: [`Store::commit`];
//! - the actuator's claims: [`Store::claim_action`], and what people ask it to do: [`Store::add_request`];
//! - who may act: [`Store::acquire_lease`], [`Store::under_lease`];
//! - who is there: [`Store::register_instance`], [`Store::instances`];
//! - an end to growth: [`Store::prune`].
//!
//! The statements are one text for SQLite and PostgreSQL; what is peculiar to
//! one of them lives in `sqlite` and `postgres`.

mod actions;
mod address;
mod checkpoint;
mod controls;
mod database;
mod decisions;
mod error;
mod instances;
mod jobs;
mod leases;
mod migrations;
mod outbox;
mod positions;
mod postgres;
mod prefix;
mod prune;
mod requests;
mod rows;
mod sql;
mod sqlite;
mod store;

pub use actions::ActionRow;
pub use address::{Address, OpenOptions};
pub use checkpoint::{BlobRef, Checkpoint, CheckpointStore, Commit, DecisionWrite};
pub use controls::{AuditRow, Controls, JobControl};
pub use error::StoreError;
pub use instances::Instance;
pub use jobs::JobRow;
pub use leases::Lease;
pub use outbox::{OutboxRow, OutboxWrite};
pub use positions::PositionRow;
pub use prune::{Pruned, Retention};
pub use requests::{RequestKind, RequestRow};
pub use store::{BoxFuture, LeaseClock, Store, WriteHook};
