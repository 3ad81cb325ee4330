//! Reads what is published, from every partition of the log of events.

use std::sync::Arc;
use std::time::Duration;

use weir_schemas::event::CloudEvent;
use weir_streams::{Log, LogError, LogReader};

/// Events that are read from a partition at once.
const AT_ONCE: usize = 256;

/// Reads all partitions of the log of events from where it was opened.
pub struct Tail {
    readers: Vec<Box<dyn LogReader>>,
}

impl Tail {
    /// Begins at the head.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn open(log: &Arc<dyn Log>) -> Result<Self, LogError> {
        let mut readers = Vec::new();
        for partition in 0..log.info().partitions {
            readers.push(log.reader(partition, log.head(partition).await?).await?);
        }
        Ok(Self { readers })
    }

    /// What has come since; of each job in order. What is no event is left out.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn read(&mut self) -> Result<Vec<CloudEvent>, LogError> {
        let mut events = Vec::new();
        for reader in &mut self.readers {
            let records = reader.read(AT_ONCE, Duration::ZERO).await?;
            events
                .extend(records.iter().filter_map(|record| serde_json::from_slice::<CloudEvent>(&record.payload).ok()));
        }
        Ok(events)
    }
}
