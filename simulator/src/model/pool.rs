//! `TaskManager`s and their slots.

use crate::num::{small, wide};

/// One `TaskManager`.
#[derive(Debug, Clone)]
pub(crate) struct TaskManager {
    /// Its resource id.
    pub(crate) id: String,
    pub(crate) slots: usize,
    /// Whether the `JobManager` believes that it is there.
    pub(crate) registered: bool,
    /// Whether it really is there.
    pub(crate) alive: bool,
    /// When a silent loss is noticed.
    lost_at_ms: Option<i64>,
    held: Vec<Held>,
    /// Busy time of attempts that ended here.
    pub(crate) past_busy_ms: f64,
    pub(crate) started_ms: i64,
}

#[derive(Debug, Clone, PartialEq)]
struct Held {
    job: usize,
    /// In use while `None`, otherwise released at that time.
    until_ms: Option<i64>,
}

impl TaskManager {
    /// Slots that nobody holds.
    pub(crate) fn free(&self) -> usize {
        self.slots.saturating_sub(self.held.len())
    }

    fn open_for(&self, job: usize) -> usize {
        self.slots.saturating_sub(self.held.iter().filter(|held| held.job != job).count())
    }

    fn holds(&self, job: usize) -> usize {
        self.held.iter().filter(|held| held.job == job).count()
    }
}

/// All `TaskManager`s that the cluster ever had.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    pub(crate) members: Vec<TaskManager>,
}

impl Pool {
    /// Registers one more `TaskManager`.
    pub(crate) fn add(&mut self, slots: usize, now_ms: i64) -> String {
        let number = self.members.len() + 1;
        let id = format!("tm{number}");
        self.members.push(TaskManager {
            id: id.clone(),
            slots,
            registered: true,
            alive: true,
            lost_at_ms: None,
            held: Vec::new(),
            past_busy_ms: 0.0,
            started_ms: now_ms,
        });
        id
    }

    /// Stops a `TaskManager`, which the `JobManager` notices at `notice_ms`. Whether there was such a one.
    pub(crate) fn stop(&mut self, id: &str, notice_ms: i64) -> bool {
        let Some(member) = self.members.iter_mut().find(|m| m.id == id && m.alive) else { return false };
        member.alive = false;
        member.lost_at_ms = Some(notice_ms);
        true
    }

    /// Unregisters what was lost, and releases slots whose time is over. Whether anything changed.
    pub(crate) fn tick(&mut self, now_ms: i64) -> bool {
        let mut changed = false;
        for member in &mut self.members {
            if member.lost_at_ms.is_some_and(|at| at <= now_ms) {
                member.lost_at_ms = None;
                member.registered = false;
                member.held.clear();
                changed = true;
            }
            let before = member.held.len();
            member.held.retain(|held| held.until_ms.is_none_or(|until| until > now_ms));
            changed |= member.held.len() != before;
        }
        changed
    }

    /// Members that the `JobManager` believes in.
    pub(crate) fn registered(&self) -> impl Iterator<Item = (usize, &TaskManager)> {
        self.members.iter().enumerate().filter(|(_, member)| member.registered)
    }

    /// Slots that job `job` could have, its own included.
    pub(crate) fn open_for(&self, job: usize) -> u32 {
        small(self.registered().map(|(_, member)| member.open_for(job)).sum())
    }

    /// All slots.
    pub(crate) fn total(&self) -> usize {
        self.registered().map(|(_, member)| member.slots).sum()
    }

    /// Slots that nobody holds.
    pub(crate) fn free(&self) -> usize {
        self.registered().map(|(_, member)| member.free()).sum()
    }

    /// Gives job `job` exactly `count` slots; those that it no longer needs stay its own until `idle_until_ms`.
    ///
    /// Few slots are packed on one `TaskManager`, more are spread evenly, which is how a shrink often frees none.
    pub(crate) fn assign(&mut self, job: usize, count: usize, idle_until_ms: i64) -> Option<Vec<usize>> {
        if wide(count) > u64::from(self.open_for(job)) {
            return None;
        }
        let before: Vec<usize> = self.members.iter().map(|member| member.holds(job)).collect();
        let chosen = self.pack(job, count).unwrap_or_else(|| self.spread(job, count));
        for (index, member) in self.members.iter_mut().enumerate() {
            let used = chosen.iter().filter(|&&c| c == index).count();
            let idle = before[index].saturating_sub(used);
            member.held.retain(|held| held.job != job);
            member.held.extend((0..used).map(|_| Held { job, until_ms: None }));
            member.held.extend((0..idle).map(|_| Held { job, until_ms: Some(idle_until_ms) }));
        }
        Some(chosen)
    }

    fn pack(&self, job: usize, count: usize) -> Option<Vec<usize>> {
        let fits = self.registered().filter(|(_, m)| count * 2 <= m.slots && m.open_for(job) >= count);
        let best = fits.max_by_key(|&(index, member)| (member.holds(job), usize::MAX - index))?;
        Some(vec![best.0; count])
    }

    fn spread(&self, job: usize, count: usize) -> Vec<usize> {
        let mut open: Vec<(usize, usize)> = self.registered().map(|(i, m)| (i, m.open_for(job))).collect();
        let mut chosen = Vec::with_capacity(count);
        for _ in 0..count {
            if let Some(most) = open.iter_mut().max_by_key(|(index, left)| (*left, usize::MAX - *index)) {
                chosen.push(most.0);
                most.1 = most.1.saturating_sub(1);
            }
        }
        chosen.sort_unstable();
        chosen
    }

    /// Takes all slots from job `job`.
    pub(crate) fn release(&mut self, job: usize) {
        for member in &mut self.members {
            member.held.retain(|held| held.job != job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(members: usize, slots: usize) -> Pool {
        let mut pool = Pool::default();
        for _ in 0..members {
            pool.add(slots, 0);
        }
        pool
    }

    fn used(pool: &Pool) -> Vec<usize> {
        pool.members.iter().map(|m| m.held.iter().filter(|h| h.until_ms.is_none()).count()).collect()
    }

    #[test]
    fn a_shrink_frees_no_task_manager_unless_it_is_small() {
        for (count, expected) in [(4, [2, 2]), (3, [2, 1]), (2, [2, 0])] {
            let mut pool = pool(2, 4);
            assert!(pool.assign(0, 8, 0).is_some());
            assert!(pool.assign(0, count, 70_000).is_some());
            assert_eq!(used(&pool), expected, "8 to {count}");
            assert_eq!(pool.free(), 0, "unneeded slots linger");
            assert!(pool.tick(70_000));
            assert_eq!(pool.free(), 8 - count);
        }
    }

    #[test]
    fn lingering_slots_are_no_one_elses() {
        let mut pool = pool(1, 4);
        assert!(pool.assign(0, 4, 0).is_some());
        assert!(pool.assign(0, 1, 70_000).is_some());
        assert_eq!((pool.open_for(0), pool.open_for(1)), (4, 0));
        assert_eq!(pool.assign(1, 1, 0), None);
    }

    #[test]
    fn a_silent_loss_is_noticed_later() {
        let mut pool = pool(2, 2);
        assert!(pool.stop("tm2", 5_000));
        assert!(!pool.tick(4_999));
        assert_eq!(pool.total(), 4);
        assert!(pool.tick(5_000));
        assert_eq!(pool.total(), 2);
        assert!(!pool.stop("tm2", 9_000));
    }
}
