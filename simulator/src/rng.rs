//! A small seeded generator, so that one seed gives one run.

/// `SplitMix64`: a counter through a mixing function.
#[derive(Debug, Clone)]
pub(crate) struct Rng {
    state: u64,
}

impl Rng {
    /// A generator for `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// A number from `low` to `high`, both included; `low` if the range is empty.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = high.saturating_sub(low).saturating_add(1);
        let Ok(span) = u64::try_from(span) else { return low };
        if span == 0 {
            return low;
        }
        low.saturating_add(crate::num::signed(self.next() % span))
    }

    /// 128 bits as 32 hex digits, the form of Flink's ids.
    pub(crate) fn hex_id(&mut self) -> String {
        format!("{:016x}{:016x}", self.next(), self.next())
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// The id that a name always gets: 32 hex digits, the form of Flink's ids.
#[must_use]
pub fn hex_id(name: &str) -> String {
    let seed = name
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    Rng::new(seed).hex_id()
}
