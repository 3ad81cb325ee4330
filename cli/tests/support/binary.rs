//! The real binary.

use std::process::Stdio;

use tokio::process::Command;

/// The binary, untouched by the environment that the tests run in.
pub fn weir() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    for name in ["WEIR_DATA", "WEIR_CONFIG", "WEIR_LOG"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}
