//! Appending.

use std::sync::Arc;

use tracing::debug;
use weir_streams::{BoxFuture, Counters, LogError, LogWriter};

use crate::core::Core;
use crate::options::length;
use crate::producer::Place;
use crate::record::key_of;

pub(crate) struct KafkaWriter {
    core: Arc<Core>,
    partition: i32,
    producer: String,
}

impl KafkaWriter {
    pub fn new(core: Arc<Core>, partition: i32, producer: &str) -> Self {
        debug!(log = core.info.name, partition, producer, "writer opened");
        Self { core, partition, producer: producer.to_owned() }
    }

    /// Refuses a batch before any of it is sent.
    fn check(&self, payloads: &[&[u8]]) -> Result<(), LogError> {
        let limit = self.core.server.options.max_record_bytes;
        let refusal = match payloads.iter().find(|payload| payload.len() > limit) {
            Some(large) => {
                let log = self.core.info.name.clone();
                Err(LogError::RecordTooLarge { log, bytes: length(large.len()), limit: length(limit) })
            }
            None => self.core.check_lost(),
        };
        if let Err(error) = &refusal {
            Counters::add(&self.core.server.known().counters.appends_refused, 1);
            debug!(log = self.core.info.name, producer = self.producer, %error, "append refused");
        }
        refusal
    }

    async fn append_all(&self, payloads: &[&[u8]], now_ms: i64) -> Result<(), LogError> {
        self.check(payloads)?;
        if payloads.is_empty() {
            return Ok(());
        }
        self.core.check_life_soon();
        let server = &self.core.server;
        let place = Place { topic: &self.core.info.name, partition: self.partition, counted: true };
        let sent = server.producers.send(place, &key_of(now_ms), payloads).await;
        // An acknowledgement of another log is none.
        let Err(error) = sent else { return self.core.check_lost() };
        let counters = &server.known().counters;
        Counters::add(&counters.appends_failed, 1);
        Counters::add(&counters.acknowledgements_timed_out, error.is_late().into());
        let failure = server.explain_send(&self.core.info.name, &error);
        if failure.gone {
            self.core.verify().await?;
        }
        self.core.check_lost()?;
        Err(failure.error)
    }
}

impl LogWriter for KafkaWriter {
    fn append<'a>(&'a mut self, payload: &'a [u8], now_ms: i64) -> BoxFuture<'a, Result<(), LogError>> {
        Box::pin(async move { self.append_all(&[payload], now_ms).await })
    }

    fn append_batch<'a>(&'a mut self, payloads: &'a [&'a [u8]], now_ms: i64) -> BoxFuture<'a, Result<(), LogError>> {
        Box::pin(self.append_all(payloads, now_ms))
    }
}
