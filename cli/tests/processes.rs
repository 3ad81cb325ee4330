//! The real binary: processes that are killed, stopped, refused; what they write and what they leave.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

#[path = "support/binary.rs"]
mod binary;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use weir_flink::{FlinkApi, HttpApi, HttpOptions, Method, Request};

use binary::weir;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(100);

/// A process that goes on until it is told to stop.
struct Process {
    child: Child,
    out: tokio::io::Lines<BufReader<ChildStdout>>,
    errors: tokio::io::Lines<BufReader<ChildStderr>>,
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let errors = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, out, errors }
    }

    /// The rest of the first line of the answer that holds `before`, from there on.
    async fn line_after(&mut self, before: &str) -> String {
        let found = async {
            while let Some(line) = self.out.next_line().await.unwrap() {
                if let Some((_, rest)) = line.split_once(before) {
                    return rest.to_owned();
                }
            }
            panic!("it ended without a line with {before:?}")
        };
        tokio::time::timeout(PATIENCE, found).await.expect(before)
    }

    /// Waits until a line of the log holds `part`.
    async fn logged(&mut self, part: &str) -> String {
        let found = async {
            while let Some(line) = self.errors.next_line().await.unwrap() {
                if line.contains(part) {
                    return line;
                }
            }
            panic!("it ended without logging {part:?}")
        };
        tokio::time::timeout(PATIENCE, found).await.expect(part)
    }

    async fn signal(&self, name: &str) {
        let id = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args([name, &id]).status().await.unwrap().success());
    }

    async fn exit_code(&mut self) -> Option<i32> {
        tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it does not end").unwrap().code()
    }
}

/// Calls a server that may be busy with something else.
fn patient(url: String) -> HttpApi {
    let (connect_timeout_ms, read_timeout_ms, call_timeout_ms) = (100_000, 100_000, 100_000);
    HttpApi::new(&HttpOptions { url, connect_timeout_ms, read_timeout_ms, call_timeout_ms, ..HttpOptions::default() })
        .unwrap()
}

/// A simulated cluster behind a socket.
struct Simulator {
    process: Process,
    url: String,
    api: HttpApi,
}

impl Simulator {
    async fn start(scenario: &str) -> Self {
        let mut process = Process::start(weir().args(["simulate", "--scenario", scenario, "--listen", "127.0.0.1:0"]));
        let url = process.line_after(" on ").await;
        let api = patient(url.clone());
        Self { process, url, api }
    }

    async fn ask(&self, path: &str) -> Value {
        let answer = self.api.call(Request { method: Method::Get, path: path.into(), body: None }).await.unwrap();
        assert_eq!(answer.status, 200, "{path}");
        serde_json::from_slice(&answer.body).unwrap()
    }

    async fn job(&self) -> String {
        self.ask("/jobs/overview").await["jobs"][0]["jid"].as_str().unwrap().to_owned()
    }

    /// Parallelism of the running job, in the order of its graph.
    async fn parallelism(&self) -> Vec<u64> {
        let detail = self.ask(&format!("/jobs/{}", self.job().await)).await;
        detail["vertices"].as_array().unwrap().iter().map(|it| it["parallelism"].as_u64().unwrap()).collect()
    }

    /// Restarts because of a change of requirements.
    async fn rescales(&self) -> usize {
        let history = self.ask(&format!("/jobs/{}/rescales/history", self.job().await)).await;
        let text = history.to_string();
        text.matches("UPDATE_REQUIREMENT").count()
    }

    /// Upper bounds that the JobManager holds, largest first.
    async fn uppers(&self) -> Vec<u64> {
        let held = self.ask(&format!("/jobs/{}/resource-requirements", self.job().await)).await;
        let upper = |bounds: &Value| bounds["parallelism"]["upperBound"].as_u64().unwrap();
        let mut uppers: Vec<u64> = held.as_object().unwrap().values().map(upper).collect();
        uppers.sort_unstable_by(|a, b| b.cmp(a));
        uppers
    }
}

/// A folder of data with a configuration.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new(url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "data = {data:?}\n[[cluster]]\nname = \"sim\"\nurl = {url:?}\n\
             read_timeout_ms = 100000\ncall_timeout_ms = 100000\n[default]\nmode = \"auto\"\n\
             shrink_after_ms = 20000\n[http]\nlisten = \"127.0.0.1:0\"\n",
            data = folder.path().join("data")
        );
        std::fs::write(folder.path().join("weir.toml"), text).unwrap();
        Self { folder }
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("weir.toml")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = weir();
        command.arg("--config").arg(self.config()).args(words);
        command
    }

    /// A process that has got as far as its services.
    async fn run(&self) -> Process {
        let mut process = Process::start(&mut self.command(&["run"]));
        process.line_after("data in ").await;
        process
    }

    /// The answer of a command; nothing while it does not succeed.
    async fn answer(&self, words: &[&str]) -> Option<Value> {
        let mut words = words.to_vec();
        words.extend(["--output", "json"]);
        let output = self.command(&words).output().await.unwrap();
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    async fn status(&self) -> Value {
        let status = self.answer(&["status"]).await;
        status.map_or(Value::Null, |status| status["jobs"][0].clone())
    }

    /// Sentences of what happened to the job.
    async fn history(&self) -> Vec<(String, String)> {
        let Some(history) = self.answer(&["history", "wordcount"]).await else { return Vec::new() };
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
        history.as_array().unwrap().iter().map(|entry| (text(entry, "kind"), text(entry, "sentence"))).collect()
    }
}

/// Asks again and again until the answer is yes.
async fn until<F: Future<Output = bool>>(what: &str, ask: impl Fn() -> F) {
    let asked = async {
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        while !ask().await {
            pace.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test]
async fn kill_9_three_times_within_a_growth_leads_to_the_right_size_by_one_rescale() {
    let simulator = Simulator::start("cold-start").await;
    let home = Home::new(&simulator.url);
    // The first dies as soon as the cluster holds what it asked for.
    let mut run = home.run().await;
    until("requirements are set", || async { simulator.uppers().await == [5, 3, 1] }).await;
    run.child.kill().await.unwrap();
    // The second while it waits for the leases of the first.
    let mut run = home.run().await;
    until("the job runs at its new size", || async { simulator.parallelism().await == [1, 3, 5] }).await;
    run.child.kill().await.unwrap();
    let updated = || async { home.status().await["action"]["updated_ms"].as_i64() };
    until("what became of the action so far", || async { updated().await.is_some() }).await;
    let before = updated().await.unwrap();
    // The third once it has gone on with the action.
    let mut run = home.run().await;
    until("the action is carried on", || async { updated().await.is_some_and(|at| at > before) }).await;
    run.child.kill().await.unwrap();
    let mut run = home.run().await;
    let ended = |entries: &[(String, String)]| entries.iter().filter(|entry| entry.0 == "outcome").count();
    until("it is verified", || async { ended(&home.history().await) > 0 }).await;
    // It goes on watching, and leaves the job alone.
    let sampled = home.status().await["sampled_at_ms"].as_i64().unwrap();
    until("six seconds later", || async {
        home.status().await["sampled_at_ms"].as_i64().is_some_and(|at| at > sampled + 6_000)
    })
    .await;
    let history = home.history().await;
    assert_eq!((simulator.parallelism().await, simulator.rescales().await), (vec![1, 3, 5], 1), "{history:#?}");
    assert_eq!(ended(&history), 1, "{history:#?}");
    run.signal("-INT").await;
    assert_eq!(run.exit_code().await, Some(130));
}

#[tokio::test]
async fn a_running_process_tells_how_it_is_and_ends_at_ctrl_c() {
    let mut simulator = Simulator::start("calm").await;
    let home = Home::new(&simulator.url);
    let mut run = Process::start(&mut home.command(&["run"]));
    let address = run.line_after("metrics and health on ").await;
    run.line_after("data in ").await;
    let http = patient(address);
    let page = |path: &'static str| {
        let http = &http;
        async move {
            let answer = http.call(Request::get(path)).await.unwrap();
            (answer.status, String::from_utf8(answer.body).unwrap())
        }
    };
    assert_eq!(page("/health/live").await, (200, "live\n".into()));
    until("it is ready", || async { page("/health/ready").await == (200, "ready\n".into()) }).await;
    until("it counts what it does", || async {
        let (status, text) = page("/metrics").await;
        status == 200 && text.contains("weir_") && text.contains("cluster=\"sim\"")
    })
    .await;
    until("it says how old its state is", || async {
        let (_, text) = page("/metrics").await;
        let age = text.lines().find_map(|line| line.strip_prefix("weir_analyzer_state_age_seconds{partition="));
        age.and_then(|age| age.split_once(' ')?.1.parse::<f64>().ok()).is_some_and(|age| age < 60.0)
    })
    .await;
    until("it says what its logs did", || async {
        let (_, text) = page("/metrics").await;
        let of = |name: &str, log: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}{{log=\"{log}\"}} ")));
            line.unwrap_or_else(|| panic!("no {name} of {log} in {text}")).parse::<u64>().unwrap()
        };
        for log in ["metrics", "events"] {
            assert_eq!(of("weir_log_appends_failed_total", log), 0);
            assert_eq!(of("weir_log_writers_recreated_total", log), 0);
        }
        of("weir_log_bytes_appended_total", "metrics") > 0
    })
    .await;
    // Another process on the same data is refused, and says by what.
    let second = home.command(&["run"]).output().await.unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("lock"), "{said}");
    run.signal("-INT").await;
    assert_eq!(run.exit_code().await, Some(130));
    simulator.process.signal("-TERM").await;
    assert_eq!(simulator.process.exit_code().await, Some(0));
}

#[tokio::test]
async fn a_process_is_not_ready_while_it_is_still_getting_to_know_its_cluster() {
    // It takes connections, and says nothing.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let home = Home::new(&format!("http://{}", mute.local_addr().unwrap()));
    let mut run = Process::start(&mut home.command(&["run"]));
    let url = run.line_after("metrics and health on ").await;
    let http = patient(url);
    let folder = home.folder.path().join("data/events");
    for opened in [false, true] {
        until("the logs are opened", || async { !opened || folder.exists() }).await;
        let answer = http.call(Request::get("/health/ready")).await.unwrap();
        let said = String::from_utf8(answer.body).unwrap();
        assert_eq!(answer.status, 503, "{said}");
        assert!(said.contains("starting"), "{said}");
    }
    let alive = http.call(Request::get("/health/live")).await.unwrap();
    assert_eq!(alive.status, 200);
    run.signal("-INT").await;
    assert_eq!(run.exit_code().await, Some(130));
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_is_said_once_and_waited_for() {
    // Taken, so that nobody else gets it, and not listened on.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    let home = Home::new(&format!("http://127.0.0.1:{port}"));
    let mut run = Process::start(&mut home.command(&["--log", "info", "run"]));
    run.line_after("data in ").await;
    let told = run.logged("cannot be read").await;
    assert!(told.contains("sim") && told.contains("nobody answers"), "{told}");
    run.signal("-INT").await;
    assert_eq!(run.exit_code().await, Some(130));
    let mut again = 0;
    while let Some(line) = run.errors.next_line().await.unwrap() {
        again += usize::from(line.contains("cannot be read"));
    }
    assert_eq!(again, 0, "once is enough");
}

#[tokio::test]
async fn the_demo_writes_nothing_but_json_and_leaves_nothing_behind() {
    let temp = tempfile::tempdir().unwrap();
    let args = ["demo", "--seconds", "30", "--speed", "0", "--output", "json"];
    let output = weir().args(args).env("TMPDIR", temp.path()).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let last = lines.last().unwrap();
    assert_eq!(last["scenario"], "wordcount");
    assert_eq!(
        last["final_parallelism"],
        serde_json::json!({"Source: source": 1, "flatmap": 3, "count -> sink": 5}),
        "{text}"
    );
    assert_eq!((&last["rescales"], &last["verified"], &last["rolled_back"]), (&1.into(), &1.into(), &0.into()));
    let events = lines.iter().filter(|line| line["specversion"] == "1.0").count();
    assert_eq!(last["events"], events, "all that was told was counted");
    assert_eq!(left_in(temp.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_demo_that_is_interrupted_leaves_nothing_behind_either() {
    let temp = tempfile::tempdir().unwrap();
    let mut demo = Process::start(weir().args(["demo", "--speed", "1"]).env("TMPDIR", temp.path()));
    demo.line_after("load ").await;
    demo.signal("-INT").await;
    assert_eq!(demo.exit_code().await, Some(130));
    assert_eq!(left_in(temp.path()), Vec::<PathBuf>::new());
}

fn left_in(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}
