//! Which partition a key belongs to.

use xxhash_rust::xxh3::xxh3_64;

/// The name of the rule that [`partition_of`] follows. A log records it, and refuses to be used under another rule, since
/// records of one key would then lie in two partitions.
pub const PARTITION_HASH: &str = "xxh3-64-v1";

/// The partition of a key: the 64-bit XXH3 of its UTF-8 bytes (seed 0), modulo the number of partitions.
///
/// No partitions at all count as one.
#[must_use]
pub fn partition_of(key: &str, partitions: u32) -> u32 {
    let remainder = xxh3_64(key.as_bytes()) % u64::from(partitions.max(1));
    u32::try_from(remainder).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors pin the rule: were one of them to change, records of existing logs would be looked for in the wrong place.
    #[test]
    fn keys_keep_their_partitions() {
        let vectors = include_str!("hash_vectors.txt");
        let mut seen = 0;
        for line in vectors.lines().filter(|line| !line.starts_with('#')) {
            let mut fields = line.split('\t');
            let key = fields.next().unwrap();
            for partitions in [1, 4, 8, 12, 64] {
                let expected: u32 = fields.next().unwrap().parse().unwrap();
                assert_eq!(partition_of(key, partitions), expected, "{key} in {partitions}");
            }
            seen += 1;
        }
        assert_eq!(seen, 8);
    }

    #[test]
    fn keys_spread_evenly() {
        let mut counts = [0_u32; 8];
        for job in 0..8_000 {
            counts[usize::try_from(partition_of(&format!("prod/default/job-{job}"), 8)).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn no_partitions_count_as_one() {
        assert_eq!(partition_of("a/b/c", 0), 0);
    }
}
