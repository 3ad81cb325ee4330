//! A source: splits with offsets, read by the subtasks that own them.

use crate::num::{real_len, whole, wide};
use crate::spec::{Load, SourceKind, SourceSpec, of_split};

/// One split of a source.
#[derive(Debug, Clone, Default)]
struct Split {
    /// Records offered up to now.
    produced: u64,
    /// Records read, counted from the first; goes back at a restore.
    offset: u64,
    /// Records that nobody can read any more (generators only).
    skipped: u64,
}

impl Split {
    fn waiting(&self) -> u64 {
        self.produced.saturating_sub(self.offset + self.skipped)
    }
}

/// A source's outside system and its reading positions; outlives the job's attempts.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    kind: SourceKind,
    load: Load,
    splits: Vec<Split>,
    /// Splits of each subtask of the current attempt.
    owned: Vec<Vec<usize>>,
    /// Records read twice because of restores.
    replayed: u64,
}

impl Source {
    pub(crate) fn new(spec: &SourceSpec, start_ms: i64) -> Self {
        Self {
            kind: spec.kind,
            load: Load::new(&spec.load, start_ms),
            splits: vec![Split::default(); spec.splits],
            owned: Vec::new(),
            replayed: 0,
        }
    }

    pub(crate) fn kind(&self) -> SourceKind {
        self.kind
    }

    pub(crate) fn load(&mut self) -> &mut Load {
        &mut self.load
    }

    /// Spreads the splits over the subtasks of a new attempt.
    pub(crate) fn assign(&mut self, parallelism: usize) {
        self.owned = vec![Vec::new(); parallelism];
        for split in 0..self.splits.len() {
            self.owned[split % parallelism.max(1)].push(split);
        }
    }

    /// Brings what is offered up to `now_ms`.
    pub(crate) fn produce(&mut self, now_ms: i64) {
        let total = self.load.produced(now_ms);
        let count = wide(self.splits.len());
        let share = of_split(total, count);
        for split in &mut self.splits {
            split.produced = share;
        }
    }

    /// Drops what a generator could not hand out in the last moments: it never existed.
    pub(crate) fn forget_unread(&mut self, moments_ms: f64) {
        if self.kind != SourceKind::Generator {
            return;
        }
        let kept = 1 + whole(self.load.rate() * moments_ms / 1000.0 / real_len(self.splits.len()));
        for split in &mut self.splits {
            split.skipped += split.waiting().saturating_sub(kept);
        }
    }

    /// Records that subtask `subtask` could read now.
    pub(crate) fn waiting(&self, subtask: usize) -> u64 {
        self.owned[subtask].iter().map(|&split| self.splits[split].waiting()).sum()
    }

    /// Reads `records` from the splits of `subtask`, evenly where they have enough.
    pub(crate) fn take(&mut self, subtask: usize, records: u64) {
        let owned = &self.owned[subtask];
        let mut left = records;
        for (position, &split) in owned.iter().enumerate() {
            let fair = left.div_ceil(wide(owned.len() - position));
            let taken = fair.min(self.splits[split].waiting());
            self.splits[split].offset += taken;
            left -= taken;
        }
        for &split in owned {
            let taken = left.min(self.splits[split].waiting());
            self.splits[split].offset += taken;
            left -= taken;
        }
    }

    /// Reading positions, to be kept in a checkpoint.
    pub(crate) fn offsets(&self) -> Vec<u64> {
        self.splits.iter().map(|split| split.offset).collect()
    }

    /// Goes back to `offsets`; to the beginning where there are none. Returns the records that will be read again.
    pub(crate) fn restore(&mut self, offsets: Option<&[u64]>) -> u64 {
        let mut again = 0;
        for (index, split) in self.splits.iter_mut().enumerate() {
            let target = offsets.and_then(|o| o.get(index)).copied().unwrap_or(0);
            again += split.offset.saturating_sub(target);
            split.offset = target;
        }
        self.replayed += again;
        again
    }

    /// Records offered so far, without those that a generator never made.
    pub(crate) fn produced(&self) -> u64 {
        self.splits.iter().map(|split| split.produced.saturating_sub(split.skipped)).sum()
    }

    /// Records read so far, each once.
    pub(crate) fn consumed(&self) -> u64 {
        self.splits.iter().map(|split| split.offset).sum()
    }

    /// Records offered and not read.
    pub(crate) fn backlog(&self) -> u64 {
        self.splits.iter().map(Split::waiting).sum()
    }

    /// Records read twice because of restores.
    pub(crate) fn replayed(&self) -> u64 {
        self.replayed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::LoadTrace;

    fn queue(splits: usize, rate: f64) -> Source {
        let mut source =
            Source::new(&SourceSpec { kind: SourceKind::Queue, splits, load: LoadTrace::constant(rate) }, 0);
        source.assign(1);
        source
    }

    #[test]
    fn what_is_offered_is_read_or_waits() {
        let mut source = queue(4, 800.0);
        source.produce(1_000);
        source.take(0, 301);
        assert_eq!((source.produced(), source.consumed(), source.backlog()), (800, 301, 499));
    }

    #[test]
    fn a_restore_reads_again_from_the_checkpoint() {
        let mut source = queue(2, 100.0);
        source.produce(1_000);
        source.take(0, 60);
        let checkpoint = source.offsets();
        source.take(0, 40);
        assert_eq!(source.restore(Some(&checkpoint)), 40);
        assert_eq!((source.backlog(), source.replayed()), (40, 40));
    }

    #[test]
    fn subtasks_beyond_the_splits_have_nothing_to_read() {
        let mut source = queue(2, 100.0);
        source.assign(3);
        source.produce(1_000);
        assert_eq!((source.waiting(0), source.waiting(1), source.waiting(2)), (50, 50, 0));
    }

    #[test]
    fn a_generator_forgets_what_was_not_taken() {
        let spec = SourceSpec { kind: SourceKind::Generator, splits: 1, load: LoadTrace::constant(1_000.0) };
        let mut source = Source::new(&spec, 0);
        source.assign(1);
        source.produce(1_000);
        source.forget_unread(20.0);
        assert_eq!((source.produced(), source.backlog()), (21, 21));
    }
}
