//! A real Flink cluster of our own.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_flink::{HttpApi, HttpOptions};

use crate::job::{Files, FlinkJob, Load, submit_arguments};

/// Who decides a job's parallelism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// `jobmanager.scheduler: adaptive`.
    Adaptive,
    /// The default scheduler.
    Default,
}

/// How a process is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// In good order.
    Term,
    /// As a crash does.
    Kill,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Term => "TERM",
            Self::Kill => "KILL",
        }
    }
}

/// A cluster to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlinkOptions {
    /// Version of Flink, such as `2.3.0`.
    pub version: String,
    /// `TaskManager`s.
    pub task_managers: u32,
    /// Slots of each.
    pub slots: u32,
    /// `metrics.fetcher.update-interval` and `web.refresh-interval`; absent: Flink's own 10 s and 3 s.
    pub refresh_ms: Option<u32>,
    /// Checkpoint interval; absent: no checkpoints.
    pub checkpoint_ms: Option<u32>,
    /// Least time between two rescales (Flink 1.18 has none); absent: Flink's own 30 s.
    pub cooldown_ms: Option<u32>,
    /// Who decides a job's parallelism.
    pub scheduler: Scheduler,
    /// Further keys of Flink's configuration; they win over the ones above.
    pub extra: Vec<(String, String)>,
}

impl Default for FlinkOptions {
    fn default() -> Self {
        Self {
            version: "2.3.0".into(),
            task_managers: 2,
            slots: 8,
            refresh_ms: Some(1_000),
            checkpoint_ms: Some(5_000),
            cooldown_ms: Some(5_000),
            scheduler: Scheduler::Adaptive,
            extra: Vec::new(),
        }
    }
}

/// A real Flink cluster. It ends, with its folder, when this is dropped, and also when the test's process dies.
pub struct FlinkCluster {
    folder: PathBuf,
    url: String,
    guard: Child,
    jobs: AtomicUsize,
}

impl FlinkCluster {
    /// Starts a cluster and waits for its slots.
    ///
    /// # Panics
    /// If it does not start; the ends of its logs are shown.
    #[must_use]
    pub fn start(options: &FlinkOptions) -> Self {
        let folder = tempfile::Builder::new().prefix("weir-flink-").tempdir().expect("a temporary folder").keep();
        let guard = guard(&script("cluster.sh"), &folder);
        let mut cluster = Self { folder, url: String::new(), guard, jobs: AtomicUsize::new(0) };
        let extra = cluster.folder.join("extra.yaml");
        let lines: String = options.extra.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
        fs::write(&extra, lines).expect("a file in the temporary folder");
        let ms = |ms: Option<u32>| ms.map(|ms| ms.to_string()).unwrap_or_default();
        let scheduler = match options.scheduler {
            Scheduler::Adaptive => "adaptive",
            Scheduler::Default => "default",
        };
        let mut start = cluster.script();
        start.arg("start").envs([
            ("VERSION", options.version.clone()),
            ("TMS", options.task_managers.to_string()),
            ("SLOTS", options.slots.to_string()),
            ("REFRESH_MS", ms(options.refresh_ms)),
            ("CHECKPOINT_MS", ms(options.checkpoint_ms)),
            ("COOLDOWN", options.cooldown_ms.map(|ms| format!("{ms}ms")).unwrap_or_default()),
            ("SCHEDULER", scheduler.to_owned()),
            ("EXTRA", extra.display().to_string()),
            // For machines that are busy with something else.
            ("START_SECONDS", "180".to_owned()),
        ]);
        match output(&mut start) {
            Ok(url) => cluster.url = url,
            // Dropping the cluster shows its logs.
            Err(why) => panic!("Flink {} did not start: {why}", options.version),
        }
        cluster
    }

    /// Address of the REST API.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The REST API, with time limits for a busy machine.
    #[must_use]
    pub fn api(&self) -> HttpApi {
        let options = HttpOptions { url: self.url.clone(), read_timeout_ms: 20_000, ..HttpOptions::default() };
        HttpApi::new(&options).expect("an address of our own")
    }

    /// Submits our job under `load`, with further `arguments` of it such as `--count-p 2`.
    ///
    /// # Panics
    /// If Flink does not take it.
    pub fn submit(&self, load: &Load, arguments: &[&str]) -> FlinkJob {
        let number = self.jobs.fetch_add(1, Ordering::Relaxed);
        let (rate, results) = (format!("rate-{number}"), format!("results-{number}"));
        let files = Files { rate: self.folder.join(rate), results: self.folder.join(results) };
        let mut submit = self.script();
        submit.arg("submit").args(submit_arguments(load, &files, arguments));
        let id = output(&mut submit).unwrap_or_else(|why| panic!("the job was not submitted: {why}"));
        FlinkJob::new(id, load.clone(), files)
    }

    /// Ends a `TaskManager`; they are named `tm1`, `tm2` and so on.
    pub fn kill_task_manager(&self, name: &str, signal: Signal) {
        self.run(&["kill-tm", name, signal.name()]);
    }

    /// Starts one more `TaskManager`; its name.
    #[must_use]
    pub fn add_task_manager(&self) -> String {
        self.run(&["add-tm"])
    }

    /// Ends the `JobManager`: without high availability its jobs are lost.
    pub fn kill_job_manager(&self, signal: Signal) {
        self.run(&["kill-jm", signal.name()]);
    }

    /// Starts the `JobManager` again, under the same address.
    pub fn start_job_manager(&self) {
        self.run(&["start-jm"]);
    }

    /// The folder with the cluster's configuration, logs and checkpoints.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn run(&self, arguments: &[&str]) -> String {
        output(self.script().args(arguments)).unwrap_or_else(|why| panic!("{why}"))
    }

    fn script(&self) -> Command {
        let mut command = Command::new(script("cluster.sh"));
        command.env("RUN_DIR", &self.folder);
        command
    }

    /// The last lines of every log.
    fn logs(&self) -> String {
        let mut shown = String::new();
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|kind| kind == "log" || kind == "out")).collect();
        files.sort();
        for path in files {
            let text = fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(25)..].join("\n");
            if !tail.is_empty() {
                let _ = writeln!(shown, "--- end of {}\n{tail}", path.display());
            }
        }
        shown
    }
}

impl Drop for FlinkCluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        // Closing its input is what the guard waits for.
        drop(self.guard.stdin.take());
        if !self.guard.wait().is_ok_and(|status| status.success()) {
            eprintln!("the cluster in {} may not have ended", self.folder.display());
        }
    }
}

/// A process that runs `script stop` and removes the folder once this process lets go of it, or is gone. It is out of reach of
/// a Ctrl-C, which would otherwise leave the servers behind.
pub(crate) fn guard(script: &Path, folder: &Path) -> Child {
    let work = "cat > /dev/null; \"$1\" stop; rm -rf \"$RUN_DIR\"";
    let mut command = Command::new("bash");
    command.args(["-c", work, "guard"]).arg(script).env("RUN_DIR", folder);
    command.stdin(Stdio::piped()).process_group(0).spawn().expect("bash")
}

/// A script of `dev/flink`.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dev/flink").join(name)
}

/// What a command prints, or all of what it says when it fails.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let done = command.stdin(Stdio::null()).output().map_err(|why| format!("{command:?}: {why}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if done.status.success() {
        return Ok(text(&done.stdout));
    }
    Err(format!("{command:?} ended with {}: {} {}", done.status, text(&done.stdout), text(&done.stderr)))
}
