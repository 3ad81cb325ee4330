//! Our own job on a real cluster: its load, and the proof that it counted right.

use std::path::PathBuf;
use std::process::Command;

use crate::cluster::{output, script};

/// What the job is loaded with, which decides what it must have counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Lines a second from the start.
    pub lines_per_second: u32,
    /// Words of each line.
    pub words: u32,
    /// Distinct words.
    pub keys: u32,
    /// Share of words that are one hot word.
    pub hot_share: f64,
}

impl Default for Load {
    fn default() -> Self {
        Self { lines_per_second: 200, words: 2, keys: 500, hot_share: 0.0 }
    }
}

impl Load {
    fn arguments(&self) -> Vec<String> {
        [
            ("--rate", self.lines_per_second.to_string()),
            ("--words", self.words.to_string()),
            ("--keys", self.keys.to_string()),
            ("--hot", self.hot_share.to_string()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
    }
}

/// A job that was submitted to a [`FlinkCluster`](crate::FlinkCluster).
#[derive(Debug, Clone)]
pub struct FlinkJob {
    /// Flink's job id.
    pub id: String,
    load: Load,
    files: Files,
}

/// Where the job reads its load from and writes its results to.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub rate: PathBuf,
    pub results: PathBuf,
}

impl FlinkJob {
    pub(crate) fn new(id: String, load: Load, files: Files) -> Self {
        Self { id, load, files }
    }

    /// Changes the offered load, half a second from now.
    pub fn set_rate(&self, lines_per_second: u32) {
        self.change_rate(&lines_per_second.to_string());
    }

    /// Ends the load, half a second from now: the job finishes once it has read what there is.
    pub fn end(&self) {
        self.change_rate("end");
    }

    fn change_rate(&self, to: &str) {
        output(Command::new(script("rate.sh")).arg(&self.files.rate).arg(to)).unwrap_or_else(|why| panic!("{why}"));
    }

    /// Proves that the job, which has finished, counted every word of its load exactly as often as it was offered; the
    /// sentence that says so.
    ///
    /// # Panics
    /// If it did not.
    #[must_use]
    pub fn check_counts(&self) -> String {
        let mut check = Command::new("python3");
        check.arg(script("check_counts.py")).arg(&self.files.results).args(self.load.arguments());
        check.arg("--rate-file").arg(&self.files.rate);
        output(&mut check).unwrap_or_else(|why| panic!("job {} counted wrong: {why}", self.id))
    }
}

/// The arguments that the job is submitted with.
pub(crate) fn submit_arguments(load: &Load, files: &Files, more: &[&str]) -> Vec<String> {
    let mut arguments = load.arguments();
    for (name, path) in [("--rate-file", &files.rate), ("--result-dir", &files.results)] {
        arguments.extend([name.to_owned(), path.display().to_string()]);
    }
    arguments.extend(more.iter().map(|&argument| argument.to_owned()));
    arguments
}
