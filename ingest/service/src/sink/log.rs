//! The metrics log as a sink.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use weir_runtime::Clock;
use weir_schemas::records::Record;
use weir_schemas::wire;
use weir_streams::{Log, LogError, LogWriter, partition_of};

use super::{RecordSink, SinkError};

/// Appends records to the partitions of a log, each job's to the partition that its key belongs to.
pub struct LogSink {
    log: Arc<dyn Log>,
    clock: Arc<dyn Clock>,
    producer: String,
    writers: BTreeMap<u32, Box<dyn LogWriter>>,
}

impl LogSink {
    /// Writes to `log` as `producer`. Partitions are opened when something is written to them.
    #[must_use]
    pub fn new(log: Arc<dyn Log>, clock: Arc<dyn Clock>, producer: impl Into<String>) -> Self {
        Self { log, clock, producer: producer.into(), writers: BTreeMap::new() }
    }

    async fn append(&mut self, records: &[Record]) -> Result<(), SinkError> {
        let partitions = self.log.info().partitions;
        let mut payloads: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
        for record in records {
            // Only its own content can be at fault: it would be no different the next time.
            let refused = |why: wire::WireError| SinkError { why: why.to_string(), retryable: false, reopen: false };
            let bytes = wire::encode(record).map_err(refused)?;
            payloads.entry(partition_of(&record.job, partitions)).or_default().push(bytes);
        }
        for (partition, payloads) in payloads {
            let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
            let now_ms = self.clock.now_ms();
            let appended = self.writer(partition).await?.append_batch(&payloads, now_ms).await;
            if let Err(why) = appended {
                // A handle that failed may have come to its end; the next attempt takes a fresh one.
                self.writers.remove(&partition);
                return Err(failed(&why));
            }
        }
        Ok(())
    }

    async fn writer(&mut self, partition: u32) -> Result<&mut Box<dyn LogWriter>, SinkError> {
        if !self.writers.contains_key(&partition) {
            let writer = self.log.writer(partition, &self.producer).await.map_err(|why| failed(&why))?;
            self.writers.insert(partition, writer);
        }
        let missing =
            || SinkError { why: format!("no writer for partition {partition}"), retryable: true, reopen: false };
        self.writers.get_mut(&partition).ok_or_else(missing)
    }
}

fn failed(why: &LogError) -> SinkError {
    // Whatever else is wrong with the log, it is not the record's fault: nothing is given up for it.
    let retryable = !matches!(why, LogError::RecordTooLarge { .. });
    SinkError { why: why.to_string(), retryable, reopen: why.needs_reopening() }
}

impl RecordSink for LogSink {
    fn write<'a>(&'a mut self, records: &'a [Record]) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(self.append(records))
    }
}
