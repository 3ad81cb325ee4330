//! Everything that Weir does to the outside, counted: appends, write transactions, calls that change a cluster. A process
//! can be made to stop for ever around any of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use weir::sim_api::SimApi;
use weir_flink::{CallError, FlinkApi, Method, Request, Response};
use weir_runtime::VirtualClock;
use weir_store::WriteHook;
use weir_streams::{Distance, Log, LogError, LogInfo, LogReader, LogStats, LogWriter, Position};

/// What kind of effect it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A call that changes something in the cluster.
    Rest,
    /// An append to a log.
    Append,
    /// A write transaction of the control database.
    Write,
}

/// On which side of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Nothing was done yet.
    Before,
    /// All is written and nothing committed; write transactions alone have this.
    Within,
    /// It is done, and the process does not learn of it.
    After,
}

/// Where a process stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    pub kind: Kind,
    /// The how manieth effect of its kind, from 1 on, over all processes.
    pub number: usize,
    pub when: When,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} {}", self.when, self.kind, self.number)
    }
}

/// A call that changes something in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub at_ms: i64,
    pub method: Method,
    pub path: String,
    pub body: String,
    /// The answer's status; `None`: no answer came.
    pub status: Option<u16>,
}

/// What was done so far, and where the process is to stop.
#[derive(Clone, Default)]
pub struct Effects {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// What each effect was, by kind, in order.
    done: Mutex<BTreeMap<Kind, Vec<String>>>,
    points: Mutex<Vec<Point>>,
    stopped: Notify,
    changes: Mutex<Vec<Change>>,
}

impl Effects {
    /// Stops a process at each of these points; one that is reached is over.
    pub fn stop_at(&self, points: &[Point]) {
        *self.shared.points.lock().unwrap() = points.to_vec();
    }

    /// Points that were not reached.
    pub fn not_reached(&self) -> Vec<Point> {
        self.shared.points.lock().unwrap().clone()
    }

    /// Waits until a process has stopped.
    pub async fn stopped(&self) {
        self.shared.stopped.notified().await;
    }

    /// Effects of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.shared.done.lock().unwrap().get(&kind).map_or(0, Vec::len)
    }

    /// What an effect was.
    pub fn name(&self, point: &Point) -> String {
        let done = self.shared.done.lock().unwrap();
        done.get(&point.kind).and_then(|all| all.get(point.number - 1)).cloned().unwrap_or_default()
    }

    /// All calls that changed something.
    pub fn changes(&self) -> Vec<Change> {
        self.shared.changes.lock().unwrap().clone()
    }

    /// The changes of requirements that Flink took.
    pub fn puts(&self) -> Vec<Change> {
        let taken = |change: &Change| change.method == Method::Put && change.status.is_none_or(|status| status < 300);
        self.changes().into_iter().filter(taken).collect()
    }

    fn begin(&self, kind: Kind, what: String) -> usize {
        let mut done = self.shared.done.lock().unwrap();
        let all = done.entry(kind).or_default();
        all.push(what);
        all.len()
    }

    /// The number of the write transaction of this name that was begun last. Others may be waiting for their turn behind it:
    /// leases are renewed beside everything else, on a slow machine at any time.
    fn latest_write(&self, what: &str) -> usize {
        let done = self.shared.done.lock().unwrap();
        let writes = done.get(&Kind::Write).map_or(&[][..], Vec::as_slice);
        writes.iter().rposition(|name| name == what).map_or(0, |at| at + 1)
    }

    async fn pass(&self, kind: Kind, number: usize, when: When) {
        let here = Point { kind, number, when };
        let stops = {
            let mut points = self.shared.points.lock().unwrap();
            let before = points.len();
            points.retain(|point| *point != here);
            points.len() < before
        };
        if stops {
            self.shared.stopped.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

impl WriteHook for Effects {
    fn before(&self, what: &'static str) -> BoxFuture<'_, ()> {
        let number = self.begin(Kind::Write, what.into());
        Box::pin(self.pass(Kind::Write, number, When::Before))
    }

    fn within(&self, what: &'static str) -> BoxFuture<'_, ()> {
        Box::pin(self.pass(Kind::Write, self.latest_write(what), When::Within))
    }

    fn after(&self, what: &'static str) -> BoxFuture<'_, ()> {
        Box::pin(self.pass(Kind::Write, self.latest_write(what), When::After))
    }
}

/// A simulated cluster whose changes are counted.
pub struct CountedApi {
    pub sim: SimApi,
    pub effects: Effects,
    pub clock: VirtualClock,
}

impl FlinkApi for CountedApi {
    fn call<'a>(&'a self, request: Request) -> BoxFuture<'a, Result<Response, CallError>> {
        if request.method == Method::Get {
            return self.sim.call(request);
        }
        Box::pin(async move {
            let (method, path) = (request.method, request.path.clone());
            let body = request.body.clone().unwrap_or_default();
            let number = self.effects.begin(Kind::Rest, format!("{} {path}", method.as_str()));
            self.effects.pass(Kind::Rest, number, When::Before).await;
            let answer = self.sim.call(request).await;
            let status = answer.as_ref().ok().map(|answer| answer.status);
            let change = Change { at_ms: self.clock.now_ms(), method, path, body, status };
            self.effects.shared.changes.lock().unwrap().push(change);
            self.effects.pass(Kind::Rest, number, When::After).await;
            answer
        })
    }
}

/// A log whose appends are counted.
pub struct CountedLog {
    pub log: Arc<dyn Log>,
    pub name: &'static str,
    pub effects: Effects,
}

impl Log for CountedLog {
    fn info(&self) -> &LogInfo {
        self.log.info()
    }

    fn writer<'a>(&'a self, partition: u32, producer: &'a str) -> BoxFuture<'a, Result<Box<dyn LogWriter>, LogError>> {
        Box::pin(async move {
            let writer = self.log.writer(partition, producer).await?;
            let name = format!("{} {partition} by {producer}", self.name);
            Ok(Box::new(CountedWriter { writer, name, effects: self.effects.clone() }) as Box<dyn LogWriter>)
        })
    }

    fn reader(&self, partition: u32, from: Position) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        self.log.reader(partition, from)
    }

    fn head(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        self.log.head(partition)
    }

    fn tail(&self, partition: u32) -> BoxFuture<'_, Result<Position, LogError>> {
        self.log.tail(partition)
    }

    fn truncate_before(&self, partition: u32, before: Position) -> BoxFuture<'_, Result<Position, LogError>> {
        self.log.truncate_before(partition, before)
    }

    fn retain(&self, now_ms: i64) -> BoxFuture<'_, Result<u64, LogError>> {
        self.log.retain(now_ms)
    }

    fn distance(&self, partition: u32, from: Position, to: Position) -> Result<Distance, LogError> {
        self.log.distance(partition, from, to)
    }

    fn stats(&self) -> LogStats {
        self.log.stats()
    }
}

struct CountedWriter {
    writer: Box<dyn LogWriter>,
    name: String,
    effects: Effects,
}

impl LogWriter for CountedWriter {
    fn append<'a>(&'a mut self, payload: &'a [u8], now_ms: i64) -> BoxFuture<'a, Result<(), LogError>> {
        Box::pin(async move {
            let number = self.effects.begin(Kind::Append, self.name.clone());
            self.effects.pass(Kind::Append, number, When::Before).await;
            let done = self.writer.append(payload, now_ms).await;
            self.effects.pass(Kind::Append, number, When::After).await;
            done
        })
    }

    fn append_batch<'a>(&'a mut self, payloads: &'a [&'a [u8]], now_ms: i64) -> BoxFuture<'a, Result<(), LogError>> {
        Box::pin(async move {
            let number = self.effects.begin(Kind::Append, self.name.clone());
            self.effects.pass(Kind::Append, number, When::Before).await;
            let done = self.writer.append_batch(payloads, now_ms).await;
            self.effects.pass(Kind::Append, number, When::After).await;
            done
        })
    }
}

/// How long a test waits for time to move before it says that it stands still.
pub const PATIENCE: Duration = Duration::from_secs(90);
