//! A set of numbers that mostly follow each other.

use std::collections::BTreeMap;

/// Numbers by the word of 64 that they lie in, a bit for each: a quarter of a byte where they follow each other. One partition
/// holds every n-th number of a collector or so, of which neither a list nor ranges would be small.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    words: BTreeMap<u64, u64>,
}

impl Numbers {
    /// Adds a number. False if it was there.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = (self.words.entry(number / 64).or_default(), 1 << (number % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Its numbers as ranges, first and last of each, with at least one number missing between two.
    pub(super) fn ranges(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in self.words.iter().flat_map(|(word, bits)| numbers(*word, *bits)) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        ranges
    }
}

fn numbers(word: u64, bits: u64) -> impl Iterator<Item = u64> {
    (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![0..200_u64, 1_000..1_100_u64, u64::MAX - 70..=u64::MAX]
    }

    proptest! {
        #[test]
        fn it_knows_what_a_set_knows(added in prop::collection::vec(number(), 0..400)) {
            let (mut numbers, mut set) = (Numbers::default(), BTreeSet::new());
            for number in added {
                prop_assert_eq!(numbers.insert(number), set.insert(number));
            }
            let ranges = numbers.ranges();
            let all: Vec<u64> = ranges.iter().flat_map(|(first, last)| *first..=*last).collect();
            prop_assert_eq!(all, set.into_iter().collect::<Vec<u64>>());
            prop_assert!(ranges.windows(2).all(|pair| pair[1].0 - pair[0].1 > 1));
        }
    }

    #[test]
    fn what_follows_each_other_takes_a_bit_each_in_whatever_order_it_comes() {
        let mut numbers = Numbers::default();
        for start in [3, 0, 2, 1] {
            (start..1 << 20).step_by(4).for_each(|number| assert!(numbers.insert(number)));
        }
        assert_eq!((numbers.words.len(), numbers.ranges()), (1 << 14, vec![(0, (1 << 20) - 1)]));
    }
}
