//! Which segments a partition has, and where it ends. Pure.

use std::collections::VecDeque;

/// A segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The position of its first record.
    pub base: u64,
    /// The time of its first record.
    pub oldest_ms: Option<i64>,
    /// The latest time of its records. For a segment that was closed before the log was opened, the time of what follows it,
    /// which is at least as late: it is kept rather too long than too short.
    pub newest_ms: Option<i64>,
}

/// The segments of a partition in order, of which the last one is written to, and the end of what is durable.
#[derive(Debug)]
pub(crate) struct Index {
    segments: VecDeque<Segment>,
    tail: u64,
}

impl Index {
    pub fn new(segments: Vec<Segment>, tail: u64) -> Self {
        Self { segments: segments.into(), tail }
    }

    pub fn head(&self) -> u64 {
        self.segments.front().map_or(self.tail, |first| first.base)
    }

    pub fn tail(&self) -> u64 {
        self.tail
    }

    pub fn bytes(&self) -> u64 {
        self.tail.saturating_sub(self.head())
    }

    /// The segment that is written to.
    pub fn newest(&self) -> Segment {
        let none = Segment { base: self.tail, oldest_ms: None, newest_ms: None };
        self.segments.back().copied().unwrap_or(none)
    }

    /// Counts records in that became durable.
    pub fn advance(&mut self, tail: u64, oldest_ms: i64, newest_ms: i64) {
        self.tail = tail;
        if let Some(newest) = self.segments.back_mut() {
            newest.oldest_ms.get_or_insert(oldest_ms);
            newest.newest_ms = newest.newest_ms.max(Some(newest_ms));
        }
    }

    /// A segment was begun at the tail.
    pub fn rolled(&mut self) {
        self.segments.push_back(Segment { base: self.tail, oldest_ms: None, newest_ms: None });
    }

    /// The segment that holds the record at a position, with its end, and whether it is the newest one. The position must
    /// lie between head and tail.
    pub fn find(&self, position: u64) -> Option<(Segment, u64, bool)> {
        let after = self.segments.partition_point(|segment| segment.base <= position);
        let segment = *self.segments.get(after.checked_sub(1)?)?;
        let next = self.segments.get(after);
        Some((segment, next.map_or(self.tail, |next| next.base), next.is_none()))
    }

    /// The oldest segment with its end, unless it is the one that is written to.
    pub fn oldest_closed(&self) -> Option<(Segment, u64)> {
        Some((*self.segments.front()?, self.segments.get(1)?.base))
    }

    /// Forgets the oldest segment.
    pub fn drop_oldest(&mut self) {
        self.segments.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let segment = |base, newest| Segment { base, oldest_ms: Some(newest - 5), newest_ms: Some(newest) };
        Index::new(vec![segment(100, 10), segment(250, 20)], 300)
    }

    #[test]
    fn a_position_between_two_segments_belongs_to_the_later_one() {
        let index = index();
        let base = |position| index.find(position).map(|(segment, end, newest)| (segment.base, end, newest));
        assert_eq!(base(100), Some((100, 250, false)));
        assert_eq!(base(249), Some((100, 250, false)));
        assert_eq!(base(250), Some((250, 300, true)));
        assert_eq!(base(300), Some((250, 300, true)));
        assert_eq!(base(99), None);
    }

    #[test]
    fn the_newest_segment_is_never_given_up() {
        let mut index = index();
        assert_eq!(index.oldest_closed().map(|(segment, end)| (segment.base, end)), Some((100, 250)));
        index.drop_oldest();
        assert_eq!(index.oldest_closed(), None);
        assert_eq!((index.head(), index.bytes()), (250, 50));
    }

    #[test]
    fn times_follow_what_is_written() {
        let mut index = index();
        index.rolled();
        assert_eq!(index.newest(), Segment { base: 300, oldest_ms: None, newest_ms: None });
        index.advance(320, 30, 40);
        index.advance(340, 20, 25);
        assert_eq!(index.newest(), Segment { base: 300, oldest_ms: Some(30), newest_ms: Some(40) });
        assert_eq!(index.tail(), 340);
    }
}
