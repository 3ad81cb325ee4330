//! Records on their way to the log.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{counter, gauge};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use weir_runtime::{Backoff, Clock, Pulse, telemetry};
use weir_schemas::num::float_len;
use weir_schemas::records::Record;
use weir_schemas::wire;

use super::overflow::Overflow;
use super::{RecordSink, SinkError};

/// Records that are handed to the sink at once.
const AT_ONCE: usize = 64;
/// How long records that are left may take once everything stops, in milliseconds.
const LAST_MS: i64 = 2_000;

/// Holds records until the log has taken them. It is bounded: what is oldest goes first, and is counted.
///
/// It is emptied by a [`Drain`]: within [`Outbox::flush`], or in the background, so that a log that stalls does not keep the
/// collector from collecting.
pub(crate) struct Outbox {
    queue: Arc<Queue>,
    drain: Option<Drain>,
}

/// Hands the records of a collector to its sink.
pub struct Drain {
    queue: Arc<Queue>,
    sink: Box<dyn RecordSink>,
    /// Taken out of the queue and not acknowledged yet.
    in_flight: Vec<Record>,
    backoff: Backoff,
}

/// What the two share.
struct Queue {
    cluster: String,
    most_bytes: usize,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Record>,
    /// Of all records, those in flight included.
    bytes: usize,
    dropped: u64,
    overflow: Overflow,
    /// Nothing will be added any more.
    closed: bool,
}

impl State {
    /// Keeps nothing any more, and says how many records waited.
    fn give_up(&mut self) -> usize {
        self.bytes = 0;
        std::mem::take(&mut self.waiting).len()
    }
}

impl Queue {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let done = act(&mut state);
        gauge!(telemetry::SPILL_BYTES, "cluster" => self.cluster.clone()).set(float_len(state.bytes));
        done
    }

    /// Counts the oldest records, which had to go. They may be many: only the first of an episode is told of.
    fn overflowed(&self, records: usize) {
        self.count_dropped(records, "spill_full");
        if self.with(|state| state.overflow.count(number(records))) {
            let most_bytes = self.most_bytes;
            warn!(cluster = self.cluster, most_bytes, "no more can wait for the log: the oldest records are dropped");
        }
    }

    /// Tells how much an episode of overflow has cost, if it is over.
    fn tell_of_room(&self) {
        if let Some(dropped) = self.with(|state| state.overflow.ends(state.bytes, self.most_bytes)) {
            info!(cluster = self.cluster, dropped, "records find room again; so many were dropped");
        }
    }

    fn count_dropped(&self, records: usize, reason: &'static str) {
        let records = number(records);
        self.with(|state| state.dropped += records);
        counter!(telemetry::RECORDS_DROPPED, "cluster" => self.cluster.clone(), "reason" => reason).increment(records);
    }
}

impl Drop for Queue {
    /// Whatever was left is not here any more; another process may have the cluster now.
    fn drop(&mut self) {
        self.with(State::give_up);
    }
}

impl Outbox {
    /// Nothing waits yet. `most_bytes` is the most that may, before compression; `seed` that of its pauses.
    pub(crate) fn new(cluster: &str, sink: Box<dyn RecordSink>, most_bytes: usize, seed: u64) -> Self {
        let (state, changed) = (Mutex::default(), Notify::new());
        let queue = Arc::new(Queue { cluster: cluster.into(), most_bytes, state, changed });
        let backoff = Backoff::new(100, 5_000, seed);
        let drain = Drain { queue: Arc::clone(&queue), sink, in_flight: Vec::new(), backoff };
        Self { queue, drain: Some(drain) }
    }

    /// From now on the records are handed over by whoever runs the result.
    pub(crate) fn in_background(&mut self) -> Option<Drain> {
        self.drain.take()
    }

    pub(crate) fn push(&mut self, record: Record) {
        let bytes = wire::size(&record);
        let excess = self.queue.with(|state| {
            state.waiting.push_back(record);
            state.bytes += bytes;
            let mut excess = 0;
            // What came just now stays, however large it is.
            while state.bytes > self.queue.most_bytes && state.waiting.len() > 1 {
                let Some(oldest) = state.waiting.pop_front() else { break };
                state.bytes = state.bytes.saturating_sub(wire::size(&oldest));
                excess += 1;
            }
            excess
        });
        if excess > 0 {
            self.queue.overflowed(excess);
        }
    }

    /// Records that were given up since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.queue.with(|state| state.dropped)
    }

    /// Sees to it that all that waits is written; says how many records that were, if it did so itself. What is not taken waits
    /// on, in its order.
    pub(crate) async fn flush(&mut self) -> Result<usize, SinkError> {
        match &mut self.drain {
            Some(drain) => drain.drain().await,
            None => {
                self.queue.changed.notify_one();
                Ok(0)
            }
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.queue.with(|state| state.closed = true);
        self.queue.changed.notify_one();
    }
}

impl Drain {
    /// Hands records over as they come, until there will be no more. When all is told to stop, what is left has a moment.
    ///
    /// # Errors
    /// If the log has to be opened again; what waited for it is counted as dropped.
    pub async fn run(mut self, clock: Arc<dyn Clock>, pulse: Pulse, stop: CancellationToken) -> Result<(), SinkError> {
        let done = async {
            loop {
                match self.drain().await {
                    Ok(_) => {
                        self.backoff.succeeded();
                        pulse.well();
                        if self.queue.with(|state| state.closed && state.waiting.is_empty()) {
                            return Ok(());
                        }
                        // Woken now and then, so that the log is known to be well even if there is nothing to write.
                        tokio::select! {
                            () = self.queue.changed.notified() => {}
                            () = clock.sleep_ms(10_000) => {}
                        }
                    }
                    Err(why) if why.reopen => return Err(why),
                    Err(why) => {
                        pulse.failed(&why);
                        let pause_ms = self.backoff.failed();
                        warn!(cluster = self.queue.cluster, %why, pause_ms, "records wait for the log");
                        clock.sleep_ms(pause_ms).await;
                    }
                }
            }
        };
        let late = async {
            stop.cancelled().await;
            clock.sleep_ms(LAST_MS).await;
        };
        let ended = tokio::select! {
            ended = done => ended,
            () = late => Ok(()),
        };
        let left = self.in_flight.len() + self.queue.with(State::give_up);
        if left > 0 {
            let reason = if ended.is_err() { "log_lost" } else { "stopped" };
            warn!(cluster = self.queue.cluster, left, reason, "records are dropped");
            self.queue.count_dropped(left, reason);
        }
        ended
    }

    /// Writes all that waits, and says how many records that were.
    async fn drain(&mut self) -> Result<usize, SinkError> {
        let mut taken = 0;
        loop {
            if self.in_flight.is_empty() {
                self.in_flight = self.queue.with(|state| {
                    let some = state.waiting.len().min(AT_ONCE);
                    state.waiting.drain(..some).collect()
                });
            }
            if self.in_flight.is_empty() {
                return Ok(taken);
            }
            match self.sink.write(&self.in_flight).await {
                Ok(()) => {
                    taken += self.in_flight.len();
                    self.acknowledged(self.in_flight.len());
                    self.in_flight.clear();
                }
                // What can never be taken would hold everything behind it up.
                Err(why) if !why.retryable && !why.reopen => taken += self.one_by_one().await?,
                Err(why) => return Err(why),
            }
        }
    }

    /// Offers each record alone and drops those that are refused for good.
    async fn one_by_one(&mut self) -> Result<usize, SinkError> {
        let mut taken = 0;
        while let Some(record) = self.in_flight.first() {
            match self.sink.write(std::slice::from_ref(record)).await {
                Ok(()) => {
                    taken += 1;
                    self.acknowledged(1);
                }
                Err(why) if why.retryable || why.reopen => return Err(why),
                Err(why) => {
                    warn!(job = record.job, sequence = record.sequence, %why, "a record is refused for good and dropped");
                    self.queue.count_dropped(1, "refused");
                    self.forget(1);
                }
            }
            self.in_flight.remove(0);
        }
        Ok(taken)
    }

    /// The first so many in flight are durable.
    fn acknowledged(&self, count: usize) {
        for record in self.in_flight.iter().take(count) {
            debug!(producer = record.producer, sequence = record.sequence, "acknowledged");
        }
        let records = number(count);
        counter!(telemetry::RECORDS_ACKNOWLEDGED, "cluster" => self.queue.cluster.clone()).increment(records);
        self.forget(count);
    }

    fn forget(&self, count: usize) {
        let bytes: usize = self.in_flight.iter().take(count).map(wire::size).sum();
        self.queue.with(|state| state.bytes = state.bytes.saturating_sub(bytes));
        self.queue.tell_of_room();
    }
}

fn number(records: usize) -> u64 {
    u64::try_from(records).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use futures::future::BoxFuture;
    use metrics_exporter_prometheus::PrometheusBuilder;

    #[derive(Default)]
    struct Seen {
        taken: Vec<u64>,
        full: bool,
        lost: bool,
    }

    /// Refuses record 13 for good, and everything while it is full.
    struct Moody(Arc<Mutex<Seen>>);

    impl RecordSink for Moody {
        fn write<'a>(&'a mut self, records: &'a [Record]) -> BoxFuture<'a, Result<(), SinkError>> {
            let mut seen = self.0.lock().unwrap();
            let refused =
                |retryable, reopen| Box::pin(async move { Err(SinkError { why: "no".into(), retryable, reopen }) });
            if seen.full || seen.lost {
                return refused(seen.full, seen.lost);
            }
            if records.iter().any(|record| record.sequence == 13) {
                return refused(false, false);
            }
            seen.taken.extend(records.iter().map(|record| record.sequence));
            Box::pin(async { Ok(()) })
        }
    }

    fn outbox(most_bytes: usize) -> (Outbox, Arc<Mutex<Seen>>) {
        let seen = Arc::new(Mutex::new(Seen::default()));
        (Outbox::new("c", Box::new(Moody(Arc::clone(&seen))), most_bytes, 7), seen)
    }

    fn record(sequence: u64) -> Record {
        Record { sequence, job: "x".repeat(96), ..Record::default() }
    }

    fn push(outbox: &mut Outbox, sequences: std::ops::Range<u64>) {
        sequences.for_each(|sequence| outbox.push(record(sequence)));
    }

    #[test]
    fn what_is_not_taken_is_offered_again_in_order_up_to_a_bound() {
        let (mut outbox, seen) = outbox(3 * wire::size(&record(1)));
        seen.lock().unwrap().full = true;
        push(&mut outbox, 1..6);
        assert_eq!(outbox.dropped(), 2, "the oldest");
        let is_told = |outbox: &Outbox| outbox.queue.with(|state| !state.overflow.count(1));
        assert!(is_told(&outbox), "the overflow goes on");
        assert!(block_on(outbox.flush()).is_err());
        seen.lock().unwrap().full = false;
        assert_eq!(block_on(outbox.flush()), Ok(3));
        assert_eq!(seen.lock().unwrap().taken, [3, 4, 5]);
        assert_eq!(block_on(outbox.flush()), Ok(0));
        assert!(!is_told(&outbox), "it is over");
    }

    #[test]
    fn a_record_that_is_refused_for_good_never_holds_up_the_others() {
        let (mut outbox, seen) = outbox(100_000);
        push(&mut outbox, 12..15);
        assert_eq!(block_on(outbox.flush()), Ok(2));
        assert_eq!(seen.lock().unwrap().taken, [12, 14]);
        assert_eq!(outbox.dropped(), 1);
    }

    #[tokio::test]
    async fn a_log_that_stalls_never_keeps_the_collector_waiting_and_memory_stays_bounded() {
        let (mut outbox, seen) = outbox(10 * wire::size(&record(1)));
        let drain = outbox.in_background().unwrap();
        seen.lock().unwrap().full = true;
        let clock: Arc<dyn Clock> = Arc::new(weir_runtime::RealClock::new());
        let pulse = weir_runtime::Health::unwatched().service("drain");
        let running = tokio::spawn(drain.run(clock, pulse, CancellationToken::new()));
        for sequence in 1..=1_000 {
            outbox.push(record(sequence));
            outbox.flush().await.unwrap();
        }
        assert!(outbox.queue.with(|state| state.bytes) <= 10 * wire::size(&record(1)));
        let dropped = outbox.dropped();
        assert!(dropped >= 980, "{dropped}");
        seen.lock().unwrap().full = false;
        drop(outbox);
        running.await.unwrap().unwrap();
        let taken = seen.lock().unwrap().taken.clone();
        assert_eq!(u64::try_from(taken.len()).unwrap() + dropped, 1_000);
        assert_eq!(taken.last(), Some(&1_000), "the newest are kept");
        assert!(taken.is_sorted());
    }

    #[test]
    fn nothing_waits_any_more_where_a_collector_was() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let is_empty = || recorder.handle().render().contains("weir_ingest_spill_bytes{cluster=\"c\"} 0\n");
        metrics::with_local_recorder(&recorder, || {
            let (mut outbox, seen) = outbox(100_000);
            let drain = outbox.in_background().unwrap();
            seen.lock().unwrap().lost = true;
            push(&mut outbox, 0..3);
            assert!(!is_empty());
            let clock: Arc<dyn Clock> = Arc::new(weir_runtime::RealClock::new());
            let pulse = weir_runtime::Health::unwatched().service("drain");
            assert!(block_on(drain.run(clock, pulse, CancellationToken::new())).is_err());
            assert!(is_empty(), "all is given up");
            push(&mut outbox, 3..4);
            assert!(!is_empty());
            drop(outbox);
            assert!(is_empty(), "nobody is left to whom it could be handed");
        });
    }

    #[tokio::test]
    async fn a_log_that_is_lost_ends_the_handing_over_and_what_waited_is_counted() {
        let (mut outbox, seen) = outbox(100_000);
        let drain = outbox.in_background().unwrap();
        seen.lock().unwrap().lost = true;
        push(&mut outbox, 0..3);
        let clock: Arc<dyn Clock> = Arc::new(weir_runtime::RealClock::new());
        let pulse = weir_runtime::Health::unwatched().service("drain");
        assert!(drain.run(clock, pulse, CancellationToken::new()).await.unwrap_err().reopen);
        assert_eq!(outbox.dropped(), 3);
    }
}
