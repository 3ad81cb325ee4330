//! One edge of a running attempt: how records are spread, and the finite queues in front of the subtasks.

use crate::num::{real, real_len, whole, wide};
use crate::spec::{EdgeSpec, Ship};

/// An edge between two vertices of a running attempt.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    /// Subtask `i` feeds subtask `i` alone.
    pub(crate) forward: bool,
    share: f64,
    /// Fraction of a record that is owed to the edge.
    owed: f64,
    /// Share of the records for each downstream subtask.
    weights: Vec<f64>,
    /// What each downstream subtask is ahead or behind its share, within a record.
    due: Vec<f64>,
    /// Records in front of each downstream subtask.
    queue: Vec<u64>,
    limit: u64,
    received: u64,
    /// Records in front of each downstream subtask that lie before a checkpoint's barrier.
    ahead: Option<Vec<u64>>,
    /// Whether what lies behind the barrier must wait for it.
    holds: bool,
    /// Where the next remainder begins, so that nobody is favoured.
    turn: usize,
}

impl Channel {
    /// The edge `spec` between `upstream` and `downstream` subtasks with `key_groups` key groups.
    pub(crate) fn new(spec: &EdgeSpec, upstream: usize, downstream: usize, key_groups: u32) -> Self {
        let forward = spec.ship == Ship::Forward && upstream == downstream;
        let channels = if forward { 1 } else { wide(upstream) };
        let weights = match spec.ship {
            Ship::Hash { hot_share } => key_weights(downstream, key_groups, hot_share),
            Ship::Forward | Ship::Rebalance => vec![1.0 / real_len(downstream); downstream],
        };
        Self {
            forward,
            share: spec.share,
            owed: 0.0,
            weights,
            due: vec![0.0; downstream],
            queue: vec![0; downstream],
            limit: (spec.channel_records * channels + spec.floating_records).max(1),
            received: 0,
            ahead: None,
            holds: false,
            turn: 0,
        }
    }

    /// Records waiting in front of `subtask`.
    pub(crate) fn queued(&self, subtask: usize) -> u64 {
        self.queue[subtask]
    }

    /// Records that `subtask` may take: those before a barrier, if there is one that holds the others back.
    pub(crate) fn open(&self, subtask: usize) -> u64 {
        match &self.ahead {
            Some(ahead) if self.holds => ahead[subtask],
            _ => self.queue[subtask],
        }
    }

    /// A checkpoint's barrier enters behind all that is queued.
    pub(crate) fn enter_barrier(&mut self, holds: bool) {
        self.ahead = Some(self.queue.clone());
        self.holds = holds;
    }

    /// The barrier is gone.
    pub(crate) fn drop_barrier(&mut self) {
        self.ahead = None;
    }

    /// Records before the barrier; none if there is no barrier.
    pub(crate) fn before_barrier(&self) -> Option<u64> {
        self.ahead.as_ref().map(|ahead| ahead.iter().sum())
    }

    /// Records waiting in front of all subtasks.
    pub(crate) fn in_flight(&self) -> u64 {
        self.queue.iter().sum()
    }

    /// Records that ever entered the queues.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// How full the queue in front of `subtask` is, from 0 to 1.
    pub(crate) fn usage(&self, subtask: usize) -> f64 {
        (real(self.queue[subtask]) / real(self.limit)).min(1.0)
    }

    /// How full the fullest queue is, from 0 to 1.
    pub(crate) fn fullest(&self) -> f64 {
        (0..self.queue.len()).map(|subtask| self.usage(subtask)).fold(0.0, f64::max)
    }

    /// Takes `records` out of the queue in front of `subtask`.
    pub(crate) fn take(&mut self, subtask: usize, records: u64) {
        self.queue[subtask] -= records.min(self.queue[subtask]);
        if let Some(ahead) = &mut self.ahead {
            ahead[subtask] = ahead[subtask].saturating_sub(records);
        }
    }

    /// Output records of the whole upstream vertex that fit in: one full queue stops all of them.
    pub(crate) fn room(&self) -> u64 {
        let mut room = f64::INFINITY;
        for (target, &weight) in self.weights.iter().enumerate() {
            if weight > 0.0 {
                room = room.min((real(self.limit.saturating_sub(self.queue[target])) - self.due[target]) / weight);
            }
        }
        self.of_output(room)
    }

    /// Output records of upstream subtask `subtask` that fit in, on a forward edge.
    pub(crate) fn forward_room(&self, subtask: usize) -> u64 {
        self.of_output(real(self.limit.saturating_sub(self.queue[subtask])))
    }

    fn of_output(&self, room: f64) -> u64 {
        if self.share > 0.0 { whole(room / self.share) } else { u64::MAX }
    }

    /// Spreads the edge's share of `output` records of the upstream vertex.
    pub(crate) fn spread(&mut self, output: u64) {
        let records = self.count(output);
        if records == 0 {
            return;
        }
        let mut left = records;
        for target in 0..self.weights.len() {
            self.due[target] += real(records) * self.weights[target];
            left -= self.give(target, whole(self.due[target]).min(left));
        }
        let targets = self.weights.len();
        // What is due adds up to the remainder, each less than one record: one round places all of it.
        for step in 0..targets {
            let target = (self.turn + step) % targets;
            if left > 0 && self.due[target] > 1e-9 {
                left -= self.give(target, 1);
            }
        }
        if left > 0 {
            self.give(self.turn, left);
        }
        self.turn = (self.turn + 1) % targets;
    }

    /// Hands the edge's share of `output` records to downstream subtask `subtask`, on a forward edge.
    pub(crate) fn pass(&mut self, subtask: usize, output: u64) {
        let records = self.count(output);
        self.give(subtask, records);
        self.due[subtask] = 0.0;
    }

    fn count(&mut self, output: u64) -> u64 {
        self.owed += real(output) * self.share;
        // A hair above, so that ten tenths are a whole record.
        let records = whole(self.owed + 1e-9);
        self.owed -= real(records);
        records
    }

    fn give(&mut self, target: usize, records: u64) -> u64 {
        self.queue[target] += records;
        self.due[target] -= real(records);
        self.received += records;
        records
    }
}

/// Shares of the records under Flink's key groups: group `g` of `n` goes to subtask `g * p / n`. A hot key adds its share to
/// the subtask of the first group.
fn key_weights(subtasks: usize, key_groups: u32, hot_share: f64) -> Vec<f64> {
    let groups = u64::from(key_groups.max(1));
    let mut weights = vec![0.0; subtasks];
    for group in 0..groups {
        let target = usize::try_from(group * wide(subtasks) / groups).unwrap_or(0);
        weights[target] += (1.0 - hot_share) / real(groups);
    }
    if let Some(first) = weights.first_mut() {
        *first += hot_share;
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(channel: &Channel) -> Vec<u64> {
        channel.queue.clone()
    }

    #[test]
    fn records_in_turn_are_spread_evenly_and_none_is_lost() {
        let mut channel = Channel::new(&EdgeSpec::rebalance("a", "b"), 1, 3, 128);
        for _ in 0..100 {
            channel.spread(1);
        }
        assert_eq!(channel.in_flight(), 100);
        assert!(queues(&channel).iter().all(|&records| (33..=34).contains(&records)), "{:?}", queues(&channel));
    }

    #[test]
    fn key_groups_that_do_not_divide_give_some_subtasks_more() {
        let mut channel = Channel::new(&EdgeSpec::hash("a", "b"), 1, 5, 128);
        channel.spread(1280);
        assert_eq!(queues(&channel), [260, 260, 250, 260, 250]);
    }

    #[test]
    fn a_hot_key_goes_to_one_subtask_and_its_queue_stops_everybody() {
        let edge = EdgeSpec::new("a", "b", Ship::Hash { hot_share: 0.5 }).buffers(0, 100);
        let mut channel = Channel::new(&edge, 1, 2, 128);
        assert_eq!(channel.room(), 133);
        channel.spread(133);
        assert_eq!(queues(&channel), [100, 33]);
        assert_eq!(channel.room(), 0);
        channel.take(0, 75);
        assert_eq!(channel.room(), 100);
    }

    #[test]
    fn what_comes_behind_a_barrier_waits_for_it() {
        let mut channel = Channel::new(&EdgeSpec::rebalance("a", "b"), 1, 2, 128);
        channel.spread(4);
        channel.enter_barrier(true);
        channel.spread(2);
        channel.take(0, 2);
        assert_eq!((channel.open(0), channel.open(1), channel.before_barrier()), (0, 2, Some(2)));
        channel.drop_barrier();
        assert_eq!((channel.open(0), channel.open(1), channel.before_barrier()), (1, 3, None));
    }

    #[test]
    fn a_tenth_of_the_output_is_exactly_a_tenth() {
        let mut channel = Channel::new(&EdgeSpec::rebalance("a", "b").share(0.1), 1, 2, 128);
        for _ in 0..1_000 {
            channel.spread(3);
        }
        assert_eq!(channel.received(), 300);
    }
}
