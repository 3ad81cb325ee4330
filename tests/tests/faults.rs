//! One continuous run for each log on a server: the scenario of a word count that has to grow, grow again and shrink, with every
//! service a process of its own over a real server and a real PostgreSQL. Everything is killed or stopped on the way, one after
//! the other. At the end nothing that was acknowledged is lost, all that is stored was taken in once, and the job is what it would
//! be without any of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should stop there"
)]

#[path = "faults/forgetful.rs"]
mod forgetful;
#[path = "faults/run.rs"]
mod run;
#[path = "faults/servers.rs"]
mod servers;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use weir_tests::{KafkaBroker, Memory, PravegaServer};

use servers::LogServer;

fn trial<F: Future<Output = ()>>(name: &str, test: impl FnOnce() -> F + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(test());
        Ok(())
    })
}

fn kafka() -> Box<dyn LogServer> {
    Box::new(KafkaBroker::start())
}

fn pravega() -> Box<dyn LogServer> {
    Box::new(PravegaServer::start(Memory::Durable))
}

fn main() -> ExitCode {
    let trials = vec![
        trial("everything_is_killed_once_on_kafka", || run::run(kafka())),
        trial("everything_is_killed_once_on_pravega", || run::run(pravega())),
        trial("a_server_that_comes_back_empty_is_noticed", forgetful::run),
    ];
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials).exit_code()
}
