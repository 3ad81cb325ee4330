//! Both logs of this crate, run through the contract suite.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot build its input should stop there")]

use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use weir_log_contract::{Abilities, LogFactory, Setup, Site, check_all};
use weir_streams::{BoxFuture, EmbeddedLog, EmbeddedOptions, Log, MemoryLog, MemoryOptions};

const EVERYTHING: Abilities = Abilities { reopens: true, remakes: true, retains: true, stalls: false };

struct Memory;

struct MemorySite {
    options: MemoryOptions,
    log: Mutex<MemoryLog>,
}

impl LogFactory for Memory {
    fn abilities(&self) -> Abilities {
        EVERYTHING
    }

    fn site<'a>(&'a self, setup: &'a Setup) -> BoxFuture<'a, Box<dyn Site>> {
        let options = MemoryOptions {
            partitions: setup.partitions,
            max_record_bytes: setup.max_record_bytes,
            retain_bytes: setup.retain_bytes,
            retain_age_ms: setup.retain_age_ms,
            ..MemoryOptions::default()
        };
        let log = Mutex::new(MemoryLog::new(options.clone()));
        Box::pin(async move { Box::new(MemorySite { options, log }) as Box<dyn Site> })
    }
}

impl Site for MemorySite {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Log>> {
        let log: Arc<dyn Log> = Arc::new(self.log.lock().unwrap().clone());
        Box::pin(async move { log })
    }

    fn remake(&self) -> BoxFuture<'_, ()> {
        *self.log.lock().unwrap() = MemoryLog::new(self.options.clone());
        Box::pin(async {})
    }
}

struct Embedded;

struct EmbeddedSite {
    options: EmbeddedOptions,
    dir: TempDir,
}

impl LogFactory for Embedded {
    fn abilities(&self) -> Abilities {
        EVERYTHING
    }

    fn site<'a>(&'a self, setup: &'a Setup) -> BoxFuture<'a, Box<dyn Site>> {
        let options = EmbeddedOptions {
            partitions: setup.partitions,
            max_record_bytes: setup.max_record_bytes,
            segment_bytes: setup.segment_bytes,
            retain_bytes: setup.retain_bytes,
            retain_age_ms: setup.retain_age_ms,
            ..EmbeddedOptions::default()
        };
        let site = EmbeddedSite { options, dir: tempfile::tempdir().unwrap() };
        Box::pin(async move { Box::new(site) as Box<dyn Site> })
    }
}

impl Site for EmbeddedSite {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Log>> {
        Box::pin(async move {
            let log = EmbeddedLog::open(self.dir.path().join("log"), self.options.clone(), 0).await.unwrap();
            Arc::new(log) as Arc<dyn Log>
        })
    }

    fn remake(&self) -> BoxFuture<'_, ()> {
        std::fs::remove_dir_all(self.dir.path().join("log")).unwrap();
        Box::pin(async {})
    }
}

#[tokio::test]
async fn the_memory_log_keeps_the_contract() {
    check_all(&Memory).await;
}

#[tokio::test]
async fn the_embedded_log_keeps_the_contract() {
    check_all(&Embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_embedded_log_keeps_the_contract_on_several_threads() {
    check_all(&Embedded).await;
}
