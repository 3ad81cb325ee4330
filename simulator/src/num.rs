//! Conversions between counts and fluid quantities, in one place.
//!
//! Counts in the model stay far below 2^53, so that each of them is exact as a float.

/// A count as a float.
#[expect(clippy::cast_precision_loss, reason = "counts of the model stay below 2^53")]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}

/// A length or an index as a float.
pub(crate) fn real_len(length: usize) -> f64 {
    real(wide(length))
}

/// A time in milliseconds as a float.
#[expect(clippy::cast_precision_loss, reason = "milliseconds of an epoch stay below 2^53")]
pub(crate) fn real_ms(ms: i64) -> f64 {
    ms as f64
}

/// A length as a count.
pub(crate) fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// A count as a length.
pub(crate) fn narrow(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// A parallelism from a length.
pub(crate) fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Whole part of a quantity that is not negative; zero for negative numbers and NaN.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate, and NaN gives zero")]
pub(crate) fn whole(quantity: f64) -> u64 {
    quantity as u64
}

/// A count as a signed time.
pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
