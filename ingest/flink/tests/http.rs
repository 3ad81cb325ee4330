//! The HTTP client against servers that behave and servers that do not, on loopback.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its input should stop there")]

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weir_flink::{Auth, CallError, FlinkApi, HttpApi, HttpOptions, Method, Request};

/// What a server does with a request.
#[derive(Clone)]
enum Answer {
    /// Sends these bytes and waits for the next request.
    Send(String),
    /// Sends these bytes and closes.
    SendAndClose(String),
    /// Says nothing for ever.
    Hang,
}

struct Server {
    address: String,
    /// Head of each request, with the number of the connection that it came on.
    seen: Arc<Mutex<Vec<(usize, String)>>>,
}

async fn serve(answer: Answer) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    tokio::spawn(async move {
        for connection in 0.. {
            let Ok((stream, _)) = listener.accept().await else { return };
            tokio::spawn(talk(stream, connection, answer.clone(), Arc::clone(&log)));
        }
    });
    Server { address, seen }
}

async fn talk(mut stream: TcpStream, connection: usize, answer: Answer, log: Arc<Mutex<Vec<(usize, String)>>>) {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        received.extend_from_slice(&buffer[..count]);
        if !received[0].is_ascii_uppercase() {
            stream.write_all(b"HTTP/1.1 400 This is no HTTP\r\n\r\n").await.unwrap();
            return;
        }
        let text = String::from_utf8_lossy(&received).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        if body.len() < length {
            continue;
        }
        log.lock().unwrap().push((connection, text.clone()));
        received.clear();
        match &answer {
            Answer::Send(bytes) => stream.write_all(bytes.as_bytes()).await.unwrap(),
            Answer::SendAndClose(bytes) => {
                stream.write_all(bytes.as_bytes()).await.unwrap();
                return;
            }
            Answer::Hang => std::future::pending().await,
        }
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn options(server: &Server) -> HttpOptions {
    HttpOptions { url: server.address.clone(), ..HttpOptions::default() }
}

#[tokio::test]
async fn connections_are_kept_and_requests_are_what_flink_expects() {
    let server = serve(Answer::Send(ok("{}"))).await;
    let url = format!("{}/proxy/flink/", server.address);
    let auth = Auth::Basic { user: "me".into(), password: "secret".into() };
    let api = HttpApi::new(&HttpOptions { url, auth, ..HttpOptions::default() }).unwrap();
    let answer = api.call(Request::get("/jobs/a/metrics?get=x%20y,z")).await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"{}".as_slice()));
    let put =
        Request { method: Method::Put, path: "/jobs/a/resource-requirements".into(), body: Some("{\"v\":1}".into()) };
    api.call(put).await.unwrap();
    let seen = server.seen.lock().unwrap().clone();
    let (first, second) = (&seen[0].1, &seen[1].1);
    assert!(first.starts_with("GET /proxy/flink/jobs/a/metrics?get=x%20y,z HTTP/1.1\r\n"), "{first}");
    assert!(first.contains("authorization: Basic bWU6c2VjcmV0") && first.contains("user-agent: weir/"), "{first}");
    assert!(second.starts_with("PUT ") && second.ends_with("\r\n\r\n{\"v\":1}"), "{second}");
    assert!(second.contains("content-type: application/json"));
    assert_eq!(seen[0].0, seen[1].0, "both on one connection");
}

#[tokio::test]
async fn any_status_is_an_answer() {
    let server = serve(Answer::Send("HTTP/1.1 500 X\r\ncontent-length: 2\r\n\r\n{}".into())).await;
    let answer = HttpApi::new(&options(&server)).unwrap().call(Request::get("/config")).await.unwrap();
    assert_eq!(answer.status, 500);
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_read() {
    let server = serve(Answer::Send(ok(&"x".repeat(100_000)))).await;
    let api = HttpApi::new(&HttpOptions { max_response_bytes: 10_000, ..options(&server) }).unwrap();
    assert_eq!(api.call(Request::get("/jobs")).await, Err(CallError::TooLarge(10_000)));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"jobs\":";
    let server = serve(Answer::SendAndClose(cut.into())).await;
    let error = HttpApi::new(&options(&server)).unwrap().call(Request::get("/jobs")).await.unwrap_err();
    assert!(matches!(error, CallError::Truncated(_)) && error.retryable(), "{error:?}");
}

#[tokio::test]
async fn silence_ends_at_the_deadline() {
    let server = serve(Answer::Hang).await;
    let slow = HttpOptions { read_timeout_ms: 50, call_timeout_ms: 100, ..options(&server) };
    let error = HttpApi::new(&slow).unwrap().call(Request::get("/jobs")).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout(1..)) && error.retryable(), "{error:?}");
}

#[tokio::test]
async fn nobody_there_is_said_with_the_reason() {
    // Taken, so that nobody else gets it, and not listened on.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", taken.local_addr().unwrap());
    let api = HttpApi::new(&HttpOptions { url, ..HttpOptions::default() }).unwrap();
    let error = api.call(Request::get("/jobs")).await.unwrap_err();
    assert!(matches!(&error, CallError::Unreachable(why) if why.contains("refused")), "{error:?}");
    assert!(error.retryable());
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_not_trusted() {
    let server = serve(Answer::SendAndClose(ok("{}"))).await;
    let url = server.address.replace("http:", "https:");
    let api = HttpApi::new(&HttpOptions { url, ..HttpOptions::default() }).unwrap();
    let error = api.call(Request::get("/jobs")).await.unwrap_err();
    assert!(matches!(error, CallError::Untrusted(_)), "{error:?}");
}

#[tokio::test]
async fn redirects_stay_on_the_host_and_keep_the_request() {
    let target = serve(Answer::Send(ok("{\"from\":\"target\"}"))).await;
    let moved = |status: u16, to: &str| format!("HTTP/1.1 {status} X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
    let elsewhere = serve(Answer::Send(moved(307, &format!("{}/jobs", target.address)))).await;
    let error = HttpApi::new(&options(&elsewhere)).unwrap().call(Request::get("/jobs")).await.unwrap_err();
    assert_eq!(error, CallError::Redirected(format!("{}/jobs", target.address)));
    assert!(target.seen.lock().unwrap().is_empty(), "credentials never follow to another host");

    let circle = serve(Answer::Send(moved(307, "/again"))).await;
    let put = Request { method: Method::Put, path: "/jobs".into(), body: Some("{}".into()) };
    let error = HttpApi::new(&options(&circle)).unwrap().call(put.clone()).await.unwrap_err();
    assert!(matches!(error, CallError::Redirected(_)));
    let seen = circle.seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|(_, request)| request.starts_with("PUT ")) && seen[1].1.starts_with("PUT /again"));

    let found = serve(Answer::Send(moved(302, "/login"))).await;
    let error = HttpApi::new(&options(&found)).unwrap().call(put).await.unwrap_err();
    assert!(matches!(error, CallError::Redirected(_)));
    assert_eq!(found.seen.lock().unwrap().len(), 1, "a change never becomes a question");
}
