//! Records on their way to the sink.

use std::collections::VecDeque;

use tracing::warn;
use weir_schemas::records::Record;

use super::{RecordSink, SinkError};

/// Holds records until the sink has taken them. It is bounded: what is oldest goes first, and is counted.
pub(crate) struct Outbox {
    sink: Box<dyn RecordSink>,
    waiting: VecDeque<Record>,
    most: usize,
    dropped: u64,
}

impl Outbox {
    pub(crate) fn new(sink: Box<dyn RecordSink>, most: usize) -> Self {
        Self { sink, waiting: VecDeque::new(), most, dropped: 0 }
    }

    pub(crate) fn push(&mut self, record: Record) {
        self.waiting.push_back(record);
    }

    /// Records that were given up since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Writes all that waits; says how many records that were. What is not taken waits on, in its order.
    pub(crate) async fn flush(&mut self) -> Result<usize, SinkError> {
        if self.waiting.is_empty() {
            return Ok(0);
        }
        let records: Vec<Record> = self.waiting.iter().cloned().collect();
        let count = records.len();
        match self.sink.write(records).await {
            Ok(()) => {
                self.waiting.clear();
                Ok(count)
            }
            // What can never be taken would hold everything behind it up.
            Err(why) if !why.retryable => {
                let taken = self.one_by_one().await;
                warn!(given_up = count - taken, why = why.why, "records were refused for good and are dropped");
                Ok(taken)
            }
            Err(why) => {
                let excess = self.waiting.len().saturating_sub(self.most);
                self.waiting.drain(..excess);
                self.dropped += u64::try_from(excess).unwrap_or(u64::MAX);
                Err(why)
            }
        }
    }

    /// Offers each record alone and drops those that are refused for good.
    async fn one_by_one(&mut self) -> usize {
        let mut taken = 0;
        for record in std::mem::take(&mut self.waiting) {
            match self.sink.write(vec![record.clone()]).await {
                Ok(()) => taken += 1,
                Err(why) if why.retryable => self.waiting.push_back(record),
                Err(_) => self.dropped += 1,
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use futures::future::BoxFuture;
    use std::sync::{Arc, Mutex};

    #[derive(Default)]
    struct State {
        taken: Vec<u64>,
        full: bool,
    }

    /// Refuses record 13 for good, and everything while it is full.
    struct Moody(Arc<Mutex<State>>);

    impl RecordSink for Moody {
        fn write<'a>(&'a mut self, records: Vec<Record>) -> BoxFuture<'a, Result<(), SinkError>> {
            let mut state = self.0.lock().unwrap();
            let refused = |retryable| Box::pin(async move { Err(SinkError { why: "no".into(), retryable }) });
            if state.full {
                return refused(true);
            }
            if records.iter().any(|record| record.sequence == 13) {
                return refused(false);
            }
            state.taken.extend(records.iter().map(|record| record.sequence));
            Box::pin(async { Ok(()) })
        }
    }

    fn outbox(most: usize) -> (Outbox, Arc<Mutex<State>>) {
        let state = Arc::new(Mutex::new(State::default()));
        (Outbox::new(Box::new(Moody(Arc::clone(&state))), most), state)
    }

    fn push(outbox: &mut Outbox, sequences: std::ops::Range<u64>) {
        sequences.for_each(|sequence| outbox.push(Record { sequence, ..Record::default() }));
    }

    #[test]
    fn what_is_not_taken_is_offered_again_in_order_up_to_a_bound() {
        let (mut outbox, state) = outbox(3);
        state.lock().unwrap().full = true;
        push(&mut outbox, 0..5);
        assert!(block_on(outbox.flush()).is_err());
        assert_eq!(outbox.dropped(), 2, "the oldest");
        state.lock().unwrap().full = false;
        push(&mut outbox, 5..6);
        assert_eq!(block_on(outbox.flush()), Ok(4));
        assert_eq!(state.lock().unwrap().taken, [2, 3, 4, 5]);
        assert_eq!(block_on(outbox.flush()), Ok(0));
    }

    #[test]
    fn a_record_that_is_refused_for_good_never_holds_up_the_others() {
        let (mut outbox, state) = outbox(100);
        push(&mut outbox, 12..15);
        assert_eq!(block_on(outbox.flush()), Ok(2));
        assert_eq!(state.lock().unwrap().taken, [12, 14]);
        assert_eq!(outbox.dropped(), 1);
    }
}
