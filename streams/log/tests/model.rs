//! Random interleavings against a model: a list of records and an index of the first one that is kept.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

use std::path::Path;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use weir_streams::{EmbeddedLog, EmbeddedOptions, Log, LogError, LogReader, Position, Record};

const PARTITIONS: u32 = 2;
const READERS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Append { partition: usize, sizes: Vec<usize> },
    Read { reader: usize, max_records: usize },
    Rewind { reader: usize, to: prop::sample::Index },
    Truncate { partition: usize, before: prop::sample::Index },
    Retain { forward_ms: i64 },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let partition = 0..usize::try_from(PARTITIONS).unwrap();
    prop_oneof![
        6 => (partition.clone(), vec(0_usize..200, 0..6)).prop_map(|(partition, sizes)| Step::Append { partition, sizes }),
        6 => (0..READERS, 0_usize..8).prop_map(|(reader, max_records)| Step::Read { reader, max_records }),
        1 => (0..READERS, any::<prop::sample::Index>()).prop_map(|(reader, to)| Step::Rewind { reader, to }),
        1 => (partition, any::<prop::sample::Index>()).prop_map(|(partition, before)| Step::Truncate { partition, before }),
        1 => (0_i64..3_000).prop_map(|forward_ms| Step::Retain { forward_ms }),
        1 => Just(Step::Reopen),
    ]
}

#[derive(Default)]
struct Model {
    records: Vec<(Vec<u8>, i64)>,
    /// Positions before each record, as far as they were seen, and at the end.
    positions: Vec<Option<Position>>,
    kept_from: usize,
}

struct Reading {
    partition: usize,
    next: usize,
    handle: Box<dyn LogReader>,
}

struct Run<'a> {
    dir: &'a Path,
    log: Option<EmbeddedLog>,
    models: Vec<Model>,
    readers: Vec<Reading>,
    now_ms: i64,
    written: usize,
    reopened: bool,
}

fn options() -> EmbeddedOptions {
    EmbeddedOptions {
        partitions: PARTITIONS,
        segment_bytes: 300,
        segment_age_ms: 500,
        retain_bytes: 4_000,
        retain_age_ms: 2_000,
        ..EmbeddedOptions::default()
    }
}

fn number(partition: usize) -> u32 {
    u32::try_from(partition).unwrap()
}

impl<'a> Run<'a> {
    async fn new(dir: &'a Path) -> Self {
        let log = EmbeddedLog::open(dir, options(), 0).await.unwrap();
        let mut models = Vec::new();
        for partition in 0..PARTITIONS {
            let start = log.head(partition).await.unwrap();
            models.push(Model { positions: vec![Some(start)], ..Model::default() });
        }
        let mut run = Self { dir, log: Some(log), models, readers: Vec::new(), now_ms: 0, written: 0, reopened: false };
        for reader in 0..READERS {
            let partition = reader % run.models.len();
            let handle = run.reader(partition, 0).await;
            run.readers.push(Reading { partition, next: 0, handle });
        }
        run
    }

    fn log(&self) -> &EmbeddedLog {
        self.log.as_ref().unwrap()
    }

    async fn reader(&self, partition: usize, next: usize) -> Box<dyn LogReader> {
        let from = self.models[partition].positions[next].expect("a position that was seen");
        self.log().reader(number(partition), from).await.unwrap()
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Append { partition, sizes } => self.append(*partition, sizes).await,
            Step::Read { reader, max_records } => self.read(*reader, *max_records).await,
            Step::Rewind { reader, to } => {
                let reading = &mut self.readers[*reader];
                let model = &self.models[reading.partition];
                let seen: Vec<usize> = (0..model.positions.len()).filter(|at| model.positions[*at].is_some()).collect();
                reading.next = seen[to.index(seen.len())];
                reading.handle.seek(model.positions[reading.next].unwrap());
            }
            Step::Truncate { partition, before } => self.truncate(*partition, before).await,
            Step::Retain { forward_ms } => {
                self.now_ms += forward_ms;
                self.log().retain(self.now_ms).await.unwrap();
                self.follow_heads().await;
                self.check_retained();
            }
            Step::Reopen => self.reopen().await,
        }
    }

    async fn append(&mut self, partition: usize, sizes: &[usize]) {
        self.now_ms += 50;
        let mut payloads = Vec::new();
        for size in sizes {
            self.written += 1;
            payloads.push(format!("{}:{}", self.written, "p".repeat(*size)).into_bytes());
        }
        let borrowed: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        let mut writer = self.log().writer(number(partition), "model").await.unwrap();
        writer.append_batch(&borrowed, self.now_ms).await.unwrap();
        let tail = self.log().tail(number(partition)).await.unwrap();
        let model = &mut self.models[partition];
        for payload in payloads {
            model.records.push((payload, self.now_ms));
            model.positions.push(None);
        }
        *model.positions.last_mut().unwrap() = Some(tail);
    }

    async fn read(&mut self, reader: usize, max_records: usize) {
        let Reading { partition, next, handle } = &mut self.readers[reader];
        let model = &mut self.models[*partition];
        match handle.read(max_records, Duration::ZERO).await {
            Ok(records) => {
                let (read, there) = (records.len(), model.records.len() - *next);
                for Record { payload, next: after, appended_at_ms } in records {
                    assert_eq!((payload, appended_at_ms), model.records[*next]);
                    *next += 1;
                    let known = model.positions[*next].get_or_insert(after);
                    assert_eq!(*known, after, "a record always ends at the same position");
                }
                assert_eq!(handle.position(), model.positions[*next].unwrap());
                // A segment that is open can be read to its end although it was given up; then comes the gap.
                let before_gap = read > 0 && *next < model.kept_from;
                assert!(
                    read == max_records.min(there) || before_gap,
                    "{read} of {there} records, {max_records} wanted"
                );
            }
            Err(LogError::Truncated { wanted, head, lost, .. }) => {
                assert!(*next < model.kept_from, "record {next} is kept, from {} on", model.kept_from);
                assert_eq!(wanted, model.positions[*next].unwrap());
                assert_eq!(Some(head), model.positions[model.kept_from]);
                assert_eq!(lost.bytes, Some(head.to_raw() - wanted.to_raw()));
                handle.seek(head);
                *next = model.kept_from;
            }
            Err(error) => panic!("unexpected: {error}"),
        }
    }

    async fn truncate(&mut self, partition: usize, before: &prop::sample::Index) {
        let model = &self.models[partition];
        let seen: Vec<usize> = (0..model.positions.len()).filter(|at| model.positions[*at].is_some()).collect();
        let cut = seen[before.index(seen.len())];
        let position = model.positions[cut].unwrap();
        let kept_before = model.kept_from;
        self.log().truncate_before(number(partition), position).await.unwrap();
        self.follow_heads().await;
        let kept_from = self.models[partition].kept_from;
        assert!(kept_from <= cut.max(kept_before), "{kept_from} is past the cut at {cut}");
        assert!(cut < self.models[partition].records.len() || kept_from == cut, "a cut at the end empties");
    }

    /// Learns from the log where it begins, and finds that place among the records by reading.
    async fn follow_heads(&mut self) {
        for partition in 0..self.models.len() {
            let head = self.log().head(number(partition)).await.unwrap();
            let mut reader = self.log().reader(number(partition), head).await.unwrap();
            let first = reader.read(1, Duration::ZERO).await.unwrap();
            let model = &mut self.models[partition];
            let kept_from = match first.first() {
                Some(record) => model.records.iter().position(|(payload, _)| *payload == record.payload).unwrap(),
                None => model.records.len(),
            };
            assert!(kept_from >= model.kept_from, "the head never moves back");
            model.kept_from = kept_from;
            assert_eq!(*model.positions[kept_from].get_or_insert(head), head);
        }
    }

    /// Whether no more is left than the options allow.
    fn check_retained(&self) {
        let size = |(payload, _): &(Vec<u8>, i64)| payload.len() + 16;
        let kept = |model: &Model| model.records[model.kept_from..].iter().map(size).sum::<usize>();
        let total: usize = self.models.iter().map(kept).sum();
        // The newest segment of each partition stays, and a batch may overfill it.
        assert!(u64::try_from(total).unwrap() <= options().retain_bytes + 2 * 1_300, "{total} bytes are left");
        let oldest_kept_ms = self.now_ms - options().retain_age_ms;
        for model in &self.models {
            let kept = &model.records[model.kept_from..];
            assert!(kept.last().is_none_or(|(_, at_ms)| *at_ms >= oldest_kept_ms), "all that is left is old");
            // Segments that were closed before the log was opened are taken to be as young as what follows them.
            let bound_ms = oldest_kept_ms - options().segment_age_ms - 50;
            assert!(self.reopened || kept.iter().all(|(_, at_ms)| *at_ms >= bound_ms), "old records are left");
        }
    }

    async fn reopen(&mut self) {
        let stored: Vec<(usize, usize)> =
            self.readers.iter().map(|reading| (reading.partition, reading.next)).collect();
        let info = self.log().info().clone();
        self.readers.clear();
        self.reopened = true;
        drop(self.log.take());
        let log = EmbeddedLog::open(self.dir, options(), self.now_ms).await.unwrap();
        assert_eq!(*log.info(), info);
        assert!(log.recovery().iter().all(weir_streams::RecoveryReport::is_clean));
        for (model, partition) in self.models.iter().zip(0..) {
            assert_eq!(model.positions[model.records.len()], Some(log.tail(partition).await.unwrap()));
        }
        self.log = Some(log);
        for (partition, next) in stored {
            let handle = self.reader(partition, next).await;
            self.readers.push(Reading { partition, next, handle });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_log_behaves_like_a_list(steps in vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let parent = tempfile::tempdir().unwrap();
            let dir = parent.path().join("log");
            let mut run = Run::new(&dir).await;
            for step in &steps {
                run.step(step).await;
            }
        });
    }
}
