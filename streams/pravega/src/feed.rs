//! The task that holds one reader of the client, and hands on what it reads.

use pravega_client::client_factory::ClientFactoryAsync;
use pravega_client_shared::ScopedStream;
use std::io::SeekFrom;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use weir_streams::LogError;

use crate::link::{Client, Link};

/// Bytes that are handed on together, at most.
const CHUNK: usize = 256 * 1024;
/// Room for what has not arrived yet.
const SOME: usize = 4 * 1024;
/// Chunks that may wait for whoever reads.
const WAITING: usize = 2;
/// What tells a stream that was cut from one that is gone: both come as the same error.
const TRUNCATED: &str = "Segment truncated";
const REMADE: &str = "no such segment any more, the stream was made anew";

/// Reads one stream from an offset on, until it is dropped.
pub(crate) struct Feed {
    chunks: mpsc::Receiver<Result<Vec<u8>, String>>,
    task: JoinHandle<()>,
}

/// Why a feed ended.
pub(crate) enum Ended {
    /// The offset is not there any more.
    Truncated,
    /// Anything else.
    Failed(LogError),
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Feed {
    pub fn start(client: &Client, stream: ScopedStream, segment: i64, from: u64) -> Self {
        let (sender, chunks) = mpsc::channel(WAITING);
        let factory = client.large.clone();
        let task = client.handle().spawn(async move {
            if let Err(why) = read_on(factory, stream, segment, from, &sender).await {
                let _gone = sender.send(Err(why)).await;
            }
        });
        Self { chunks, task }
    }

    /// What comes next. Nothing is lost if this future is dropped.
    pub async fn next(&mut self, link: &Link, action: &str) -> Result<Vec<u8>, Ended> {
        match self.chunks.recv().await {
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(text)) if text.contains(TRUNCATED) => Err(Ended::Truncated),
            Some(Err(text)) => Err(Ended::Failed(link.fault(action, &text))),
            None => Err(Ended::Failed(match (&mut self.task).await {
                Ok(()) => link.unreachable(action, "the client stopped reading"),
                Err(ended) => link.task_fault(action, ended),
            })),
        }
    }
}

async fn read_on(
    factory: ClientFactoryAsync,
    stream: ScopedStream,
    segment: i64,
    from: u64,
    chunks: &mpsc::Sender<Result<Vec<u8>, String>>,
) -> Result<(), String> {
    let mut reader = factory.create_byte_reader(stream).await;
    if reader.segment.segment.number != segment {
        return Err(REMADE.to_owned());
    }
    reader.seek(SeekFrom::Start(from)).await.map_err(|why| why.to_string())?;
    let mut nothing = weir_runtime::Backoff::new(10, 1_000, crate::pause::any_seed());
    loop {
        let mut chunk = vec![0; reader.available().clamp(SOME, CHUNK)];
        let length = reader.read(&mut chunk).await.map_err(|why| why.to_string())?;
        if length == 0 {
            // Nothing yet, or never again, if somebody sealed the stream.
            let pause = std::time::Duration::from_millis(u64::try_from(nothing.failed()).unwrap_or(0));
            let _elapsed = tokio::time::timeout(pause, std::future::pending::<()>()).await;
            continue;
        }
        nothing.succeeded();
        chunk.truncate(length);
        if chunks.send(Ok(chunk)).await.is_err() {
            return Ok(());
        }
    }
}
