//! The `weir` command.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    #[cfg(feature = "pravega")]
    weir_pravega::contain_client_panics();
    weir::cli::main(std::env::args_os()).await.into()
}
