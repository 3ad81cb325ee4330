//! The client library of Pravega, as its documentation uses it.

use std::io::SeekFrom;

use pravega_client::client_factory::ClientFactoryAsync;
use pravega_client::event::EventWriter;
use pravega_client_config::ClientConfigBuilder;
use pravega_client_shared::ScopedStream;
use tokio::runtime::Handle;
use tokio::time::timeout;
use weir_streams::BoxFuture;
use weir_tests::PravegaServer;

use crate::{PATIENCE, Subject};

/// What the client puts before every event.
const HEADER: usize = 8;
/// Bytes of one read.
const READ: usize = 1 << 18;

pub struct Bare {
    factory: ClientFactoryAsync,
    stream: ScopedStream,
    writer: EventWriter,
    appended: usize,
    read: usize,
}

impl Bare {
    pub fn new(server: &PravegaServer) -> Self {
        let _answer = server.management().rest("POST", "v1/scopes", r#"{"scopeName":"bare"}"#);
        let stream = r#"{"streamName":"bare","scalingPolicy":{"type":"FIXED_NUM_SEGMENTS","minSegments":1}}"#;
        let _answer = server.management().rest("POST", "v1/scopes/bare/streams", stream);
        let address = server.url().trim_start_matches("tcp://").to_owned();
        let config = ClientConfigBuilder::default().controller_uri(address).build().unwrap();
        let factory = ClientFactoryAsync::new(config, Handle::current());
        let stream = ScopedStream::from("bare/bare");
        let writer = factory.create_event_writer(stream.clone());
        Self { factory, stream, writer, appended: 0, read: 0 }
    }

    async fn read_all(&mut self) {
        let mut reader = self.factory.create_byte_reader(self.stream.clone()).await;
        reader.seek(SeekFrom::Start(self.read.try_into().unwrap())).await.unwrap();
        let mut buffer = vec![0; READ];
        while self.read < self.appended {
            self.read += reader.read(&mut buffer).await.unwrap();
        }
    }
}

impl Subject for Bare {
    fn append<'a>(&'a mut self, batch: &'a [&'a [u8]]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut acknowledgements = Vec::with_capacity(batch.len());
            for payload in batch {
                acknowledgements.push(self.writer.write_event(payload.to_vec()).await);
            }
            for acknowledgement in acknowledgements {
                acknowledgement.await.unwrap().unwrap();
            }
            self.appended += batch.iter().map(|payload| payload.len() + HEADER).sum::<usize>();
        })
    }

    fn read(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async { timeout(PATIENCE, self.read_all()).await.expect("all that was appended") })
    }
}
