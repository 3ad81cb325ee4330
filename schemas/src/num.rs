//! Conversions between number types that say what they lose.

/// A count as a floating-point number. Exact up to 2^53, which no counter of ours reaches.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "that is what this function is for")]
pub fn float(count: u64) -> f64 {
    count as f64
}

/// A signed time or difference as a floating-point number. Exact up to 2^53.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "that is what this function is for")]
pub fn float_signed(value: i64) -> f64 {
    value as f64
}

/// A length as a floating-point number. Exact up to 2^53.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "that is what this function is for")]
pub fn float_len(length: usize) -> f64 {
    length as f64
}

/// The whole number nearest to `value`, within the range of `u32`; NaN becomes 0.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range first")]
pub fn round_u32(value: f64) -> u32 {
    value.round().clamp(0.0, f64::from(u32::MAX)) as u32
}

/// The whole number nearest to `value`, within the range of `i64`; NaN becomes 0.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "float to integer casts saturate")]
pub fn round_i64(value: f64) -> i64 {
    value.round() as i64
}

/// A length as `u32`, at most the largest one.
#[must_use]
pub fn count_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// A number with about three significant digits and a unit prefix, for people: 950, 1.2 k, 45 k, 3.4 M.
#[must_use]
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    let (scaled, prefix) = match magnitude {
        m if m >= 1e9 => (value / 1e9, " G"),
        m if m >= 1e6 => (value / 1e6, " M"),
        m if m >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = if scaled.abs() >= 100.0 || (prefix.is_empty() && scaled.fract().abs() < 0.05) {
        0
    } else {
        usize::from(scaled.abs() < 100.0)
    };
    format!("{scaled:.digits$}{prefix}")
}

/// A length of time for people: 0.4 s, 12 s, 5 min, 3 h.
#[must_use]
pub fn short_time(milliseconds: i64) -> String {
    let seconds = float_signed(milliseconds) / 1000.0;
    match seconds.abs() {
        s if s < 10.0 => format!("{seconds:.1} s"),
        s if s < 120.0 => format!("{seconds:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", seconds / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people_have_sensible_digits() {
        let shown: Vec<String> =
            [0.0, 0.5, 4.57, 950.0, 1600.0, 12_345.0, 123_456.0, 3_400_000.0].into_iter().map(short).collect();
        assert_eq!(shown, ["0", "0.5", "4.6", "950", "1600", "12.3 k", "123 k", "3.4 M"]);
    }

    #[test]
    fn times_for_people_have_sensible_units() {
        let shown: Vec<String> = [400, 12_000, 300_000, 7_200_000].into_iter().map(short_time).collect();
        assert_eq!(shown, ["0.4 s", "12 s", "5 min", "2 h"]);
    }

    #[test]
    fn conversions_clamp_instead_of_wrapping() {
        assert_eq!((round_u32(-3.0), round_u32(f64::NAN), round_u32(1e20)), (0, 0, u32::MAX));
        assert_eq!((round_i64(2.6), round_i64(f64::INFINITY)), (3, i64::MAX));
    }
}
