//! The model behind a socket.
#![allow(clippy::unwrap_used, reason = "a test that cannot build its input should stop there")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use weir_simulator::scenario::scenario;
use weir_simulator::{Cluster, Fault, FaultPlan, serve_with_faults};

struct Server {
    address: std::net::SocketAddr,
    cluster: Arc<Mutex<Cluster>>,
    faults: Arc<Mutex<FaultPlan>>,
    now: Arc<AtomicI64>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn start(plan: FaultPlan) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let cluster = Arc::new(Mutex::new(Cluster::new(scenario("calm").unwrap().spec, 0).unwrap()));
    let (faults, now, stop) = (Arc::new(Mutex::new(plan)), Arc::new(AtomicI64::new(10_000)), CancellationToken::new());
    let clock = Arc::clone(&now);
    let serving = serve_with_faults(
        Arc::clone(&cluster),
        Arc::clone(&faults),
        listener,
        move || clock.load(Ordering::SeqCst),
        stop.clone(),
    );
    Server { address, cluster, faults, now, stop, task: tokio::spawn(serving) }
}

/// Sends a request as it is on the wire; everything that comes back until the connection is closed.
async fn send(server: &Server, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let length = body.len();
    let text = format!("{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap_or_default();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn requests_reach_the_cluster_with_their_method_query_and_body() {
    let server = start(FaultPlan::none()).await;
    let overview = send(&server, "GET /overview", "").await;
    assert!(overview.starts_with("HTTP/1.1 200") && overview.contains("application/json"), "{overview}");
    let job = server.cluster.lock().unwrap().truth().jobs[0].id.clone();
    let refused = send(&server, &format!("PUT /jobs/{job}/resource-requirements"), "{}").await;
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    let cancelled = send(&server, &format!("PATCH /jobs/{job}?mode=cancel"), "").await;
    assert!(cancelled.starts_with("HTTP/1.1 202"), "{cancelled}");
    server.now.store(20_000, Ordering::SeqCst);
    assert!(send(&server, "GET /jobs/overview", "").await.contains("CANCELED"));
    server.stop.cancel();
    server.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn dropped_connections_and_refusals_are_seen_on_the_wire() {
    let refusal = Fault::Answer { status: 503, body: "{}".into() };
    let plan = FaultPlan::none().times(1, "/overview", Fault::DropBefore).times(1, "/overview", refusal);
    let server = start(plan).await;
    let dropped = send(&server, "GET /overview", "").await;
    assert!(!dropped.contains("taskmanagers"), "no whole answer comes: {dropped}");
    assert!(send(&server, "GET /overview", "").await.starts_with("HTTP/1.1 503"));
    assert!(send(&server, "GET /overview", "").await.starts_with("HTTP/1.1 200"));
    assert_eq!(server.faults.lock().unwrap().requests(), 3);
    server.stop.cancel();
    server.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_request_that_hangs_does_not_keep_the_server_from_stopping() {
    let server = start(FaultPlan::none().on("/config", Fault::Hang)).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /config HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    // Another request is answered meanwhile, and shows that the first one has arrived.
    while server.faults.lock().unwrap().hits("/config") == 0 {
        send(&server, "GET /overview", "").await;
    }
    server.stop.cancel();
    server.task.await.unwrap().unwrap();
}
