//! The simulator behind its server, with faults on the way.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weir_flink::{FlinkClient, HttpApi, HttpOptions};
use weir_simulator::scenario::scenario;
use weir_simulator::{Cluster, FaultPlan, serve_with_faults};

use super::calls::Subject;

/// A simulated cluster that has run for a while, and a client of it.
pub struct Rig {
    pub url: String,
    pub api: Arc<HttpApi>,
    pub cluster: Arc<Mutex<Cluster>>,
    faults: Arc<Mutex<FaultPlan>>,
    now: Arc<AtomicI64>,
    stop: CancellationToken,
    serving: JoinHandle<std::io::Result<()>>,
}

/// A client with the default limits.
pub fn client(url: &str) -> HttpApi {
    HttpApi::new(&HttpOptions { url: url.into(), ..HttpOptions::default() }).unwrap()
}

/// A client that gives up soon.
pub fn impatient(url: &str) -> HttpApi {
    HttpApi::new(&HttpOptions { url: url.into(), read_timeout_ms: 60, ..HttpOptions::default() }).unwrap()
}

impl Rig {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let cluster = Arc::new(Mutex::new(Cluster::new(scenario("calm").unwrap().spec, 0).unwrap()));
        let faults = Arc::new(Mutex::new(FaultPlan::none()));
        let (now, stop) = (Arc::new(AtomicI64::new(20_000)), CancellationToken::new());
        let clock = Arc::clone(&now);
        let serving = tokio::spawn(serve_with_faults(
            Arc::clone(&cluster),
            Arc::clone(&faults),
            listener,
            move || clock.load(Ordering::SeqCst),
            stop.clone(),
        ));
        let rig = Self { api: Arc::new(client(&url)), url, cluster, faults, now, stop, serving };
        // The first call makes the cluster fetch its metrics, the next one finds them.
        FlinkClient::new(rig.api.as_ref()).prime().await.unwrap();
        rig.pass(2_000);
        rig
    }

    /// Replaces all faults.
    pub fn plan(&self, plan: FaultPlan) {
        *self.faults.lock().unwrap() = plan;
    }

    /// Requests that reached the server.
    pub fn requests(&self) -> u64 {
        self.faults.lock().unwrap().requests()
    }

    /// Lets the cluster's time go on.
    pub fn pass(&self, ms: i64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
    }

    /// What is there to be asked about.
    pub async fn subject(&self) -> Subject {
        let client = FlinkClient::new(self.api.as_ref());
        let id = client.jobs().await.unwrap()[0].id.clone();
        let detail = client.job(&id).await.unwrap().value;
        let task_manager = client.task_managers().await.unwrap()[0].id.clone();
        Subject { vertex: detail.vertices[0].id.clone(), detail, task_manager }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.serving.await.unwrap().unwrap();
    }
}
