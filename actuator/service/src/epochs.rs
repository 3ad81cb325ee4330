//! Which analyzers were heard of.

use std::collections::BTreeMap;

use weir_schemas::identity::JobKey;

/// How long an epoch is remembered, in milliseconds. Whoever decided under an older one has lost its lease long before, and what
/// was claimed under a newer one is in the database.
const REMEMBERED_MS: i64 = 24 * 3_600_000;
/// How often it is looked for what can be forgotten, in milliseconds.
const LOOK_MS: i64 = 3_600_000;

/// The newest epoch of an analyzer that was heard of, by job, with the time. Jobs that nothing is heard of any more are forgotten.
#[derive(Default)]
pub(crate) struct Epochs {
    newest: BTreeMap<JobKey, (u64, i64)>,
    looked_ms: i64,
}

impl Epochs {
    /// Hears of the epoch that a decision on a job was made under.
    pub(crate) fn heard_of(&mut self, job: &JobKey, epoch: u64, now_ms: i64) {
        let (newest, heard_ms) = self.newest.entry(job.clone()).or_default();
        (*newest, *heard_ms) = (epoch.max(*newest), now_ms);
        if now_ms.saturating_sub(self.looked_ms) >= LOOK_MS {
            self.looked_ms = now_ms;
            self.newest.retain(|_, (_, heard_ms)| now_ms.saturating_sub(*heard_ms) < REMEMBERED_MS);
        }
    }

    /// The newest epoch of a job; 0 if nothing was heard of it.
    pub(crate) fn newest(&self, job: &JobKey) -> u64 {
        self.newest.get(job).map_or(0, |(epoch, _)| *epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_epoch_counts_and_jobs_that_are_gone_are_forgotten() {
        let (gone, there) = (JobKey::new("c", "gone"), JobKey::new("c", "there"));
        let mut epochs = Epochs::default();
        epochs.heard_of(&gone, 3, 0);
        epochs.heard_of(&there, 5, 0);
        epochs.heard_of(&there, 4, REMEMBERED_MS - 1);
        assert_eq!((epochs.newest(&gone), epochs.newest(&there)), (3, 5));
        epochs.heard_of(&there, 4, REMEMBERED_MS + LOOK_MS);
        assert_eq!((epochs.newest(&gone), epochs.newest(&there), epochs.newest.len()), (0, 5, 1));
    }
}
