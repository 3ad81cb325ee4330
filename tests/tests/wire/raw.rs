//! A server that sends what it is told to, byte for byte.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

/// What a server does with every request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Sends these bytes, and closes.
    Send(String),
    /// Closes at once.
    Close,
}

/// The answer that `body` came in order.
pub fn ok(body: &str) -> Answer {
    Answer::Send(format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

/// An answer that sends the client elsewhere.
pub fn moved(status: u16, to: &str) -> Answer {
    Answer::Send(format!("HTTP/1.1 {status} X\r\nconnection: close\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"))
}

/// A server of one answer.
pub struct Raw {
    pub url: String,
    /// Heads of the requests that came.
    pub seen: Arc<Mutex<Vec<String>>>,
}

impl Raw {
    pub async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(talk(stream, answer.clone(), Arc::clone(&log)));
            }
        });
        Self { url, seen }
    }
}

/// Reads the head of one request and answers it.
pub async fn talk(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: Answer, log: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    log.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
    if let Answer::Send(bytes) = answer {
        // The client may have had enough before all of it is sent.
        let _ = stream.write_all(bytes.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}
