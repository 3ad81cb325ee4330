//! Episodes in which more came than could be kept.

/// From the first record that is dropped until half of the room is free again. Each is told of twice, however much is dropped.
#[derive(Debug, Default)]
pub(super) struct Overflow {
    dropped: u64,
}

impl Overflow {
    /// Counts what had to go. True if an episode begins with it.
    pub(super) fn count(&mut self, records: u64) -> bool {
        let begins = self.dropped == 0 && records > 0;
        self.dropped = self.dropped.saturating_add(records);
        begins
    }

    /// How much was dropped, if an episode ends, now that `bytes` of `most_bytes` wait.
    pub(super) fn ends(&mut self, bytes: usize, most_bytes: usize) -> Option<u64> {
        (self.dropped > 0 && bytes <= most_bytes / 2).then(|| std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_begins_with_the_first_drop_and_ends_when_half_is_free() {
        let mut overflow = Overflow::default();
        assert_eq!((overflow.count(0), overflow.ends(0, 100)), (false, None), "nothing was dropped");
        assert_eq!((overflow.count(2), overflow.count(3)), (true, false));
        assert_eq!(overflow.ends(51, 100), None, "it would be full again at once");
        assert_eq!(overflow.ends(50, 100), Some(5));
        assert_eq!((overflow.ends(50, 100), overflow.count(1)), (None, true), "the next one");
    }
}
