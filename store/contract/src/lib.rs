//! The contract suite that the control database is run through on every kind of database.
//!
//! A kind of database brings its [`Homes`]; [`main`] runs it through every behaviour, each on a database of its own, with the
//! arguments and the output of Rust's own test runner. A failed check panics, as tests do.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code: a check that fails, or that cannot build its input, stops there"
)]

mod actions;
mod commit;
mod controls;
mod crash;
mod instances;
mod leases;
mod prune;
mod sharing;
pub mod support;

use std::any::Any;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use weir_store::{Address, BoxFuture, OpenOptions, Store};

/// A place for a database, where there is none yet. It goes away with it.
pub struct Site {
    /// Where it is. Children of the test open it too, by this address without a password.
    pub address: Address,
    /// Whatever has to live as long as it.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Makes places for databases.
pub trait Homes: Send + Sync {
    /// A new place.
    fn nothing(&self) -> BoxFuture<'_, Site>;
}

impl dyn Homes + '_ {
    /// A new database.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn fresh(&self) -> Home {
        let Site { address, keep } = self.nothing().await;
        let store = Store::open_at(&address, &patient()).await.unwrap();
        Home { store, address, keep }
    }
}

/// Waits longer than anything takes that is expected to happen: SQLite does not let writers in one after the other as they came.
#[must_use]
pub fn patient() -> OpenOptions {
    let (lock_wait, answer_wait) = (Duration::from_secs(120), Duration::from_secs(120));
    OpenOptions { lock_wait, answer_wait, ..OpenOptions::default() }
}

/// A database that goes away with it.
pub struct Home {
    /// The database.
    pub store: Store,
    /// Where it is.
    pub address: Address,
    #[expect(dead_code, reason = "it is held for what happens when it is dropped")]
    keep: Box<dyn Any + Send + Sync>,
}

impl Home {
    /// The same database as another process sees it.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub async fn other(&self) -> Store {
        let options = OpenOptions { create: false, ..patient() };
        Store::open_at(&self.address, &options).await.unwrap()
    }
}

/// Something that every kind of database has to show.
type Behaviour = for<'a> fn(&'a dyn Homes) -> BoxFuture<'a, ()>;

macro_rules! behaviours {
    ($($module:ident: $($name:ident),+;)+) => {
        &[$($((concat!(stringify!($module), "::", stringify!($name)), |homes| Box::pin($module::$name(homes))),)+)+]
    };
}

#[rustfmt::skip]
const BEHAVIOURS: &[(&str, Behaviour)] = behaviours! {
    actions: a_command_is_claimed_once_and_its_position_moves_either_way, an_action_that_is_over_is_never_reopened,
        an_action_follows_its_newest_owner_alone, restarts_are_counted_from_when_they_happened,
        positions_are_saved_all_or_none_and_never_by_an_older_epoch;
    commit: state_decisions_and_outbox_come_back_as_they_were_committed,
        each_commit_replaces_the_state_of_its_shard_alone, an_old_epoch_commits_nothing_at_all,
        a_shard_that_was_only_claimed_has_no_checkpoint, unchanged_decisions_replace_the_latest_and_add_no_row,
        decisions_are_found_by_job_by_time_and_by_the_beginning_of_their_id, plan_numbers_only_rise,
        what_is_published_leaves_the_outbox_of_its_owner_alone,
        a_decision_that_cannot_be_read_does_not_hide_the_others, ten_thousand_decisions_are_one_commit,
        state_may_be_kept_elsewhere_and_only_the_current_one_is;
    controls: a_job_keeps_when_it_was_first_seen_and_its_latest_run,
        every_word_of_people_raises_the_revision_and_is_written_down,
        requests_name_a_known_action_and_are_answered_once;
    crash: a_task_that_ends_within_a_write_leaves_all_or_nothing,
        a_process_that_dies_within_a_write_leaves_all_or_nothing;
    instances: whoever_is_heard_of_is_there_and_nobody_else, instances_are_seen_on_the_databases_clock;
    leases: a_lease_is_taken_over_once_it_has_expired_and_not_before,
        ones_own_expired_lease_comes_back_with_a_new_epoch, without_another_clock_leases_run_on_the_databases,
        whoever_has_lost_the_lease_writes_nothing_more, never_do_two_have_a_lease_and_epochs_rise;
    prune: what_is_old_goes_and_what_is_needed_stays, nothing_goes_before_its_time;
    sharing: many_processes_may_start_together_on_nothing,
        services_and_commands_write_at_the_same_time_and_lose_nothing, of_many_claims_exactly_one_succeeds;
};

/// The whole of a test binary: runs what `homes` makes through every behaviour.
///
/// `homes` is called only where a test runs, and what it gives is dropped before this returns.
///
/// # Panics
/// If there is no runtime.
pub fn main<H: Homes + 'static>(homes: impl FnOnce() -> H) -> ExitCode {
    if let Some((address, point)) = crash::child() {
        runtime().block_on(crash::dies_where_it_is_told(&address, point));
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let homes: Option<Arc<dyn Homes>> = (!arguments.list).then(|| Arc::new(homes()) as Arc<dyn Homes>);
    let trial = |&(name, behaviour): &(&'static str, Behaviour)| {
        let homes = homes.clone();
        Trial::test(name, move || {
            let homes = homes.ok_or("a list runs nothing")?;
            runtime().block_on(behaviour(&*homes));
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, BEHAVIOURS.iter().map(trial).collect()).exit_code()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
