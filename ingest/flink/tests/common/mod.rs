//! Recorded answers, and something that gives them again.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use futures::executor::block_on;
use futures::future::BoxFuture;
use serde::Deserialize;
use weir_flink::{CallError, FlinkApi, FlinkClient, FlinkError, Request, Response};

/// An answer.
pub struct Recorded {
    pub name: String,
    pub method: String,
    pub path: String,
    pub status: u16,
    pub body: Vec<u8>,
}

/// All answers of a version.
pub struct Version {
    pub name: String,
    /// Id of the job that most of them are about.
    pub job: String,
    pub files: Vec<Recorded>,
}

#[derive(Deserialize)]
struct Entry {
    file: String,
    method: String,
    path: String,
    status: u16,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

pub fn versions() -> Vec<Version> {
    let folders = fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<Version> =
        folders.filter(|path| path.join("index.json").exists()).map(|path| read(&path)).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(all.len() >= 2);
    all
}

fn read(folder: &Path) -> Version {
    let index = fs::read(folder.join("index.json")).unwrap();
    let entries: Vec<Entry> = serde_json::from_slice(&index).unwrap();
    let files: Vec<Recorded> = entries
        .into_iter()
        .map(|entry| Recorded {
            name: entry.file.trim_end_matches(".json").to_owned(),
            method: entry.method,
            path: entry.path,
            status: entry.status,
            body: fs::read(folder.join(&entry.file)).unwrap(),
        })
        .collect();
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let job = files.iter().find(|file| file.name == "job").unwrap().path.rsplit('/').next().unwrap().to_owned();
    Version { name, job, files }
}

impl Version {
    pub fn file(&self, name: &str) -> &Recorded {
        self.files.iter().find(|file| file.name == name).unwrap_or_else(|| panic!("{} has no {name}", self.name))
    }

    /// What a client makes of a refusal.
    pub fn error(&self, name: &str) -> FlinkError {
        let file = self.file(name);
        let fixed = Fixed(file.status, file.body.clone());
        block_on(FlinkClient::new(&fixed).job_manager_config()).unwrap_err()
    }
}

/// Answers everything the same.
pub struct Fixed(pub u16, pub Vec<u8>);

impl FlinkApi for Fixed {
    fn call<'a>(&'a self, _: Request) -> BoxFuture<'a, Result<Response, CallError>> {
        Box::pin(async move { Ok(Response { status: self.0, body: self.1.clone() }) })
    }
}

/// Gives a version's answers to the questions that they were recorded for.
pub struct Replay<'a> {
    version: &'a Version,
    sent: Mutex<Vec<Request>>,
}

impl<'a> Replay<'a> {
    pub fn of(version: &'a Version) -> Self {
        Self { version, sent: Mutex::new(Vec::new()) }
    }

    pub fn sent(&self) -> Vec<Request> {
        self.sent.lock().unwrap().clone()
    }
}

/// Files that stand for a question that was recorded several times.
const USUAL: [&str; 7] =
    ["job", "jobs-overview", "overview", "put-valid", "requirements", "checkpoints", "job-metrics"];

impl FlinkApi for Replay<'_> {
    fn call<'a>(&'a self, request: Request) -> BoxFuture<'a, Result<Response, CallError>> {
        self.sent.lock().unwrap().push(request.clone());
        let fits =
            |file: &&Recorded| file.method == request.method.as_str() && file.path == request.path && file.status < 300;
        let mut found: Vec<&Recorded> = self.version.files.iter().filter(fits).collect();
        found.sort_by_key(|file| !USUAL.contains(&file.name.as_str()));
        let answer = found.first().map(|file| Response { status: file.status, body: file.body.clone() });
        let answer = answer.unwrap_or_else(|| Response {
            status: 404,
            body: format!("{{\"errors\":[\"Unable to load requested file {}.\"]}}", request.path).into_bytes(),
        });
        Box::pin(async move { Ok(answer) })
    }
}
