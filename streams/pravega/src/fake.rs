//! A segment store in this process that speaks the protocol of the real one, for faults that a real one does not produce on
//! demand. The controller is the client's own imitation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pravega_wire_protocol::commands::{
    AppendBlockEndCommand, AppendSetupCommand, DataAppendedCommand, HelloCommand, SegmentIsTruncatedCommand,
    SegmentReadCommand, StreamSegmentInfoCommand, WrongHostCommand,
};
use pravega_wire_protocol::wire_commands::{Decode, Encode, Replies, Requests};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::shared::lock;

/// What goes wrong, each as often as its number says.
#[derive(Debug, Default)]
pub struct Faults {
    /// Appends are stored and never acknowledged, on the same connection.
    pub hang: u32,
    /// Appends are stored, and the connection is cut before the acknowledgement.
    pub cut: u32,
    /// Appends and reads are answered as if the segment had moved elsewhere.
    pub moved: u32,
}

#[derive(Default)]
struct Segment {
    bytes: Vec<u8>,
    head: usize,
    /// The last event of each writer.
    writers: HashMap<u128, i64>,
}

/// The store.
pub struct FakeStore {
    pub port: u16,
    pub faults: Arc<Mutex<Faults>>,
    segments: Arc<Mutex<HashMap<String, Segment>>>,
    changed: watch::Sender<u64>,
}

impl FakeStore {
    pub async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let store = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            faults: Arc::default(),
            segments: Arc::default(),
            changed: watch::Sender::new(0),
        });
        let accepting = Arc::clone(&store);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&accepting).serve(socket));
            }
        });
        store
    }

    /// Puts bytes into a segment, as somebody else would.
    pub fn put(&self, segment: &str, bytes: &[u8]) {
        lock(&self.segments).entry(segment.to_owned()).or_default().bytes.extend_from_slice(bytes);
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// Takes everything out of a segment.
    pub fn empty(&self, segment: &str) {
        lock(&self.segments).remove(segment);
    }

    /// Cuts the beginning off.
    pub fn truncate(&self, segment: &str, head: usize) {
        lock(&self.segments).entry(segment.to_owned()).or_default().head = head;
    }

    fn takes(&self, fault: impl Fn(&mut Faults) -> &mut u32) -> bool {
        let mut faults = lock(&self.faults);
        let left = fault(&mut faults);
        let hit = *left > 0;
        *left = left.saturating_sub(1);
        hit
    }

    async fn serve(self: Arc<Self>, mut socket: TcpStream) {
        // Blocks do not name their segment: the set-up before them did.
        let mut writing = String::new();
        loop {
            let Ok(kind) = socket.read_i32().await else { return };
            let Ok(length) = socket.read_i32().await else { return };
            let mut body = vec![0; usize::try_from(length).unwrap()];
            socket.read_exact(&mut body).await.unwrap();
            let raw = [&kind.to_be_bytes()[..], &length.to_be_bytes(), &body].concat();
            let request = Requests::read_from(&raw).unwrap();
            let Some(reply) = self.answer(request, &mut writing).await else {
                if self.takes(|faults| &mut faults.cut) {
                    return;
                }
                continue;
            };
            if socket.write_all(&reply.write_fields().unwrap()).await.is_err() {
                return;
            }
        }
    }

    async fn answer(&self, request: Requests, writing: &mut String) -> Option<Replies> {
        Some(match request {
            Requests::Hello(_) => Replies::Hello(HelloCommand { high_version: 16, low_version: 5 }),
            Requests::SetupAppend(setup) => {
                writing.clone_from(&setup.segment);
                let mut segments = lock(&self.segments);
                let writers = &segments.entry(setup.segment.clone()).or_default().writers;
                let last_event_number = writers.get(&setup.writer_id).copied().unwrap_or(i64::MIN);
                let (request_id, segment, writer_id) = (setup.request_id, setup.segment, setup.writer_id);
                Replies::AppendSetup(AppendSetupCommand { request_id, segment, writer_id, last_event_number })
            }
            Requests::AppendBlockEnd(block) => return self.append(block, writing),
            Requests::ReadSegment(read) => return Some(self.read(read.segment, read.offset, read.request_id).await),
            Requests::GetStreamSegmentInfo(info) => {
                let segments = lock(&self.segments);
                let found = segments.get(&info.segment_name);
                Replies::StreamSegmentInfo(StreamSegmentInfoCommand {
                    request_id: info.request_id,
                    segment_name: info.segment_name.clone(),
                    exists: true,
                    is_sealed: false,
                    is_deleted: false,
                    last_modified: 0,
                    write_offset: found.map_or(0, |segment| signed(segment.bytes.len())),
                    start_offset: found.map_or(0, |segment| signed(segment.head)),
                })
            }
            Requests::KeepAlive(_) => return None,
            other => panic!("not expected here: {other:?}"),
        })
    }

    fn append(&self, block: AppendBlockEndCommand, segment: &str) -> Option<Replies> {
        let request_id = block.request_id;
        if self.takes(|faults| &mut faults.moved) {
            return Some(moved(request_id, segment));
        }
        let mut segments = lock(&self.segments);
        let place = segments.entry(segment.to_owned()).or_default();
        place.bytes.extend_from_slice(&block.data);
        let previous_event_number = place.writers.insert(block.writer_id, block.last_event_number).unwrap_or(i64::MIN);
        let current_segment_write_offset = signed(place.bytes.len());
        drop(segments);
        self.changed.send_modify(|changes| *changes += 1);
        let cut = lock(&self.faults).cut > 0;
        if cut || self.takes(|faults| &mut faults.hang) {
            return None;
        }
        let (writer_id, event_number) = (block.writer_id, block.last_event_number);
        Some(Replies::DataAppended(DataAppendedCommand {
            writer_id,
            event_number,
            previous_event_number,
            request_id,
            current_segment_write_offset,
        }))
    }

    /// Waits a little at the end, as the real one does.
    async fn read(&self, segment: String, offset: i64, request_id: i64) -> Replies {
        if self.takes(|faults| &mut faults.moved) {
            return moved(request_id, &segment);
        }
        let at = usize::try_from(offset).unwrap();
        let mut changed = self.changed.subscribe();
        let data = || {
            lock(&self.segments)
                .get(&segment)
                .map_or(Vec::new(), |found| found.bytes[at.min(found.bytes.len())..].to_vec())
        };
        if data().is_empty() {
            let _waited = tokio::time::timeout(Duration::from_millis(500), changed.changed()).await;
        }
        let head = lock(&self.segments).get(&segment).map_or(0, |found| found.head);
        if at < head {
            let (start_offset, server_stack_trace) = (signed(head), String::new());
            return Replies::SegmentIsTruncated(SegmentIsTruncatedCommand {
                request_id,
                segment,
                start_offset,
                server_stack_trace,
                offset,
            });
        }
        let data = data();
        let at_tail = data.is_empty();
        Replies::SegmentRead(SegmentReadCommand { segment, offset, at_tail, end_of_segment: false, data, request_id })
    }
}

fn moved(request_id: i64, segment: &str) -> Replies {
    Replies::WrongHost(WrongHostCommand {
        request_id,
        segment: segment.to_owned(),
        correct_host: String::new(),
        server_stack_trace: String::new(),
    })
}

fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap()
}
