//! PostgreSQL shows every behaviour of the control database.
#![allow(clippy::unwrap_used, reason = "a test that cannot build its input should stop there")]

use std::process::ExitCode;

use weir_store::{Address, BoxFuture};
use weir_store_contract::{Homes, Site};
use weir_tests::PostgresServer;

/// Databases on one server.
struct Databases(PostgresServer);

impl Homes for Databases {
    fn nothing(&self) -> BoxFuture<'_, Site> {
        Box::pin(async {
            let name = self.0.database().await;
            Site { address: Address::parse(&self.0.url(&name)).unwrap(), keep: Box::new(()) }
        })
    }
}

fn main() -> ExitCode {
    weir_store_contract::main(|| Databases(PostgresServer::start()))
}
