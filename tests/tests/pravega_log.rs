//! The log on real Pravega servers: the contract of all logs, and what happens when a server dies, stops, forgets, or refuses.
//!
//! The tests run one after the other, since most of them share one server, and some of them kill it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should stop there"
)]

mod pravega;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

use pravega::Servers;

type Test = (&'static str, fn(&Servers));

/// In this order: a server that stood still loses its sessions, and some seconds later its controller starts anew within it.
/// Who comes after such a test has to bear that.
const TESTS: [Test; 16] = [
    ("opens_at_once_agree", pravega::facts::opens_at_once_agree),
    ("other_facts_are_refused", pravega::facts::other_facts_are_refused),
    ("foreign_streams_are_left_alone", pravega::facts::foreign_streams_are_left_alone),
    ("retention_is_handed_to_the_server", pravega::facts::retention_is_handed_to_the_server),
    ("events_of_others_are_skipped_and_told", pravega::facts::events_of_others_are_skipped_and_told),
    ("stock_readers_read_our_events", pravega::facts::stock_readers_read_our_events),
    ("batches_are_fast_and_bounded", pravega::facts::batches_are_fast_and_bounded),
    ("deleted_under_open_handles", pravega::faults::deleted_under_open_handles),
    ("no_server_at_all", pravega::faults::no_server_at_all),
    ("contract", pravega::facts::contract),
    ("killed_while_writing", pravega::faults::killed_while_writing),
    ("stopped_for_20_seconds", pravega::faults::stopped_for_20_seconds),
    ("tls_and_password", pravega::secured::tls_and_password),
    ("a_token_is_name_and_password_in_base64", pravega::secured::a_token_is_name_and_password_in_base64),
    ("refusals_have_their_own_code", pravega::secured::refusals_have_their_own_code),
    ("a_server_that_forgets", pravega::secured::a_server_that_forgets),
];

fn main() -> ExitCode {
    weir_pravega::contain_client_panics();
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let all = arguments.filter.is_none() && !arguments.list;
    let servers = Arc::new(Servers::new(all));
    let trial = |(name, test): Test| {
        let servers = Arc::clone(&servers);
        Trial::test(name, move || {
            let began = tokio::time::Instant::now();
            test(&servers);
            eprint!("[{:.1} s] ", began.elapsed().as_secs_f64());
            Ok(())
        })
    };
    let trials = TESTS.into_iter().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
