//! The log on Kafka, on a real broker: the contract of all logs, and what can go wrong with a server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should stop there"
)]

mod kafka;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use weir_tests::KafkaBroker;

use kafka::{Rig, failures, lives, outages, secure};

/// A test that shares the broker, which is started by the first one that runs.
fn trial<F>(shared: &Arc<Mutex<Option<KafkaBroker>>>, name: &str, test: F) -> Trial
where
    F: AsyncFnOnce(&mut Rig<'_>) + Send + 'static,
{
    let (shared, prefix) = (Arc::clone(shared), name.replace('_', "-"));
    Trial::test(name, move || {
        // A test that failed has not harmed the broker, or the next one will say so.
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let broker = shared.get_or_insert_with(KafkaBroker::start);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        // What is waited for inside may never come; a test must end.
        let limit = Duration::from_secs(900);
        runtime.block_on(async { tokio::time::timeout(limit, test(&mut Rig::new(broker, prefix))).await })?;
        Ok(())
    })
}

fn main() -> ExitCode {
    let shared = Arc::new(Mutex::new(None));
    let trials = vec![
        trial(&shared, "contract", kafka::contract),
        trial(&shared, "processes_that_open_at_once_agree", lives::processes_that_open_at_once_agree),
        trial(&shared, "remade_topic_is_noticed_while_open", lives::remade_topic_is_noticed_while_open),
        trial(&shared, "remade_log_is_noticed_by_an_idle_reader", lives::remade_log_is_noticed_by_an_idle_reader),
        trial(
            &shared,
            "other_log_is_noticed_by_readers_that_were_told_nothing",
            lives::other_log_is_noticed_by_readers_that_were_told_nothing,
        ),
        trial(&shared, "deleted_topic_is_noticed_while_open", lives::deleted_topic_is_noticed_while_open),
        trial(&shared, "life_is_remembered_when_its_birth_is_gone", lives::life_is_remembered_when_its_birth_is_gone),
        trial(&shared, "foreign_topics_are_left_alone", lives::foreign_topics_are_left_alone),
        trial(&shared, "other_partition_counts_are_refused", lives::other_partition_counts_are_refused),
        trial(&shared, "settings_of_the_topic_follow_the_options", lives::settings_of_the_topic_follow_the_options),
        trial(&shared, "large_records_and_large_batches", failures::large_records_and_large_batches),
        trial(&shared, "broker_that_is_down_is_told", failures::broker_that_is_down_is_told),
        trial(&shared, "lost_births_are_not_waited_for", failures::lost_births_are_not_waited_for),
        trial(&shared, "positions_past_the_tail_are_refused", failures::positions_past_the_tail_are_refused),
        trial(&shared, "secure_listener", secure::secure_listener),
        trial(&shared, "certificates_instead_of_passwords", secure::certificates_instead_of_passwords),
        trial(&shared, "wrong_secrets_are_denied", secure::wrong_secrets_are_denied),
        trial(&shared, "missing_rights_are_denied", secure::missing_rights_are_denied),
        trial(&shared, "killed_broker_loses_nothing", outages::killed_broker_loses_nothing),
        trial(&shared, "paused_broker_costs_no_memory", outages::paused_broker_costs_no_memory),
    ];
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials).exit_code()
}
