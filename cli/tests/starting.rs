//! How the real binary starts, and what it refuses to start with.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

#[path = "support/binary.rs"]
mod binary;

use std::time::Duration;

use binary::weir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpSocket;

#[tokio::test]
async fn what_cannot_be_understood_ends_with_64_and_what_cannot_be_used_with_78() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.toml");
    std::fs::write(&broken, "[default]\nutilisation = 7\n").unwrap();
    let broken = broken.to_str().unwrap();
    for (words, code, part) in [
        (vec!["--unheard-of"], 64, "--unheard-of"),
        (vec!["run"], 64, "no cluster to watch"),
        (vec!["run", "--flink", "http://localhost:1", "--listen", "everywhere"], 64, "127.0.0.1:9468"),
        (vec!["demo", "--scenario", "nightmare"], 64, "wordcount"),
        (vec!["demo", "--speed=-1"], 64, "0 or more"),
        (vec!["simulate", "--scenario", "nightmare"], 64, "wordcount"),
        (vec!["--config", broken, "run"], 78, "utilisation"),
        (vec!["--config", "/nowhere/weir.toml", "run"], 78, "/nowhere/weir.toml"),
        (vec!["--log", "nonsense", "status"], 64, "WR0651"),
        (vec!["--log", "weir_ingest=loud", "status"], 64, "WR0651"),
        (vec!["--database", "mysql://somewhere/weir", "status"], 64, "WR0417"),
    ] {
        let output = weir().args(&words).current_dir(folder.path()).output().await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(part), "{words:?}: {said}");
    }
}

#[cfg(not(feature = "pravega"))]
#[tokio::test]
async fn a_log_that_was_left_out_of_the_program_ends_it_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = weir();
    command.args(["analyzer", "--listen", "none"]).current_dir(folder.path());
    command.env("WEIR__LOG__KIND", "pravega").env("WEIR__PRAVEGA__CONTROLLER", "tcp://localhost:1");
    let output = command.output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("WR0656"), "{said}");
    assert!(said.contains("only processes of this machine"), "a database in a file is told of: {said}");
}

#[tokio::test]
async fn a_kafka_that_is_away_is_told_in_words_of_our_own() {
    let folder = tempfile::tempdir().unwrap();
    // Taken, so that nobody else gets it, and not listened on.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut command = weir();
    command.args(["analyzer", "--listen", "none"]).current_dir(folder.path());
    command.env("WEIR__LOG__KIND", "kafka").env("WEIR__KAFKA__BROKERS", format!("127.0.0.1:{port}"));
    command.env("WEIR__KAFKA__REQUEST_TIMEOUT_MS", "10000");
    let mut analyzer = command.spawn().unwrap();
    let mut lines = BufReader::new(analyzer.stderr.take().unwrap()).lines();
    let mut said = Vec::new();
    let told = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let done = line.contains("waiting for a server");
            said.push(line);
            if done {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(120), told).await.unwrap();
    analyzer.kill().await.unwrap();
    let troubles: Vec<&String> = said.iter().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    assert!(troubles.len() == 1 && troubles[0].contains("WR0220"), "{said:#?}");
}
