//! Flink's version, as far as it changes what may be asked.

use std::fmt;

/// A version of Flink: 1.18 to 2.3 were tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// Third number; 0 where none is given.
    pub patch: u16,
}

impl Version {
    /// The oldest one whose parallelism can be changed in place.
    pub const OLDEST: Self = Self { major: 1, minor: 18, patch: 0 };
    /// From here on a rescale waits for a completed checkpoint, and counts as a rescale.
    pub const RESCALE_WAITS_FOR_CHECKPOINT: Self = Self { major: 2, minor: 0, patch: 0 };

    /// Reads versions such as `2.3.0`, `1.20.3-vendor7` and `2.1-SNAPSHOT`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().splitn(3, '.').map(leading_number);
        let (major, minor) = (numbers.next()??, numbers.next()??);
        Some(Self { major, minor, patch: numbers.next().flatten().unwrap_or(0) })
    }

    /// Whether Weir works with it.
    #[must_use]
    pub fn supported(self) -> bool {
        self >= Self::OLDEST
    }
}

/// The digits that a part begins with, as a number.
fn leading_number(part: &str) -> Option<u16> {
    let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
    part[..end].parse().ok()
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_ordered_as_numbers() {
        let parsed: Vec<String> = ["1.18.1", "1.20.3-vendor7", "2.1-SNAPSHOT", " 2.3.0 "]
            .into_iter()
            .map(|text| Version::parse(text).unwrap().to_string())
            .collect();
        assert_eq!(parsed, ["1.18.1", "1.20.3", "2.1.0", "2.3.0"]);
        assert!(Version::parse("1.9.3") < Version::parse("1.18.0"));
        assert!(Version::parse("2.0.0") > Version::parse("1.20.3"));
        assert!(!Version::parse("1.17.2").unwrap().supported());
        assert!(Version::parse("1.18.0").unwrap().supported());
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "2", "two.three", ".", "1.", "99999999.1", "<html>"] {
            assert_eq!(Version::parse(text), None, "{text:?}");
        }
    }
}
