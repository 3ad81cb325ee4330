//! The `weir` command.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    weir::cli::main(std::env::args_os()).await.into()
}
