//! How many records, and which, in two numbers.

use serde::{Deserialize, Serialize};

/// Records of one producer: how many, and a digest of which. Two tallies are equal if the same records were added, in whatever
/// order (and with odds of one in 2^64 if not). So what was applied can be compared with what is stored without a list of either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// How many.
    pub records: u64,
    /// The sum of their hashed sequences.
    pub digest: u64,
}

impl Tally {
    /// Adds a record by its sequence. The caller makes sure that each is added once.
    pub fn add(&mut self, sequence: u64) {
        self.records += 1;
        self.digest = self.digest.wrapping_add(mix(sequence));
    }
}

/// SplitMix64's finalizer (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014, figure 16): a bijection, so
/// that different sequences never cancel out by being near each other.
fn mix(sequence: u64) -> u64 {
    let z = sequence.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(sequences: &[u64]) -> Tally {
        let mut tally = Tally::default();
        sequences.iter().for_each(|sequence| tally.add(*sequence));
        tally
    }

    #[test]
    fn the_order_does_not_matter_and_anything_else_does() {
        assert_eq!(tally(&[1, 2, 3]), tally(&[3, 1, 2]));
        for other in [&[1, 2][..], &[1, 2, 4], &[1, 2, 3, 3], &[0, 2, 4], &[2, 2, 2]] {
            assert_ne!(tally(other), tally(&[1, 2, 3]), "{other:?}");
        }
    }
}
