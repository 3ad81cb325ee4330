//! SQLite shows every behaviour of the control database.
#![allow(clippy::unwrap_used, reason = "a test that cannot build its input should stop there")]

use std::process::ExitCode;

use weir_store::{Address, BoxFuture, Store};
use weir_store_contract::{Homes, Site};

/// Files in temporary folders.
struct Files;

impl Homes for Files {
    fn nothing(&self) -> BoxFuture<'_, Site> {
        Box::pin(async {
            let folder = tempfile::tempdir().unwrap();
            let address = Address::file(&folder.path().join("data").join(Store::FILE));
            Site { address, keep: Box::new(folder) }
        })
    }
}

fn main() -> ExitCode {
    weir_store_contract::main(|| Files)
}
