//! The real binary.

use std::process::Stdio;

use tokio::process::Command;

/// The binary, untouched by the environment that the tests run in.
pub fn weir() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let own = std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("WEIR") || name.contains("PROXY"));
    for name in own.chain(["http_proxy", "https_proxy", "all_proxy"].map(str::to_owned)) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}
