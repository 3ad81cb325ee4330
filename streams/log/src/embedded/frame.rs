//! How a record lies in a segment file, and how the file begins. Pure.
//!
//! A frame is `checksum u32 | length u32 | appended_at_ms i64 | payload`, all little-endian; `length` counts the payload.
//! The checksum is the CRC-32 of everything after it, combined with the incarnation of the log and the position of the
//! frame. So a frame is valid in one place of one log only: a stale block of a deleted file, or a segment file that is
//! itself the payload of a record, is never mistaken for records.

use crate::Incarnation;

/// Bytes before the payload of a frame.
pub(crate) const FRAME_HEADER: usize = 16;
/// The largest payload that the format allows. A longer length can only be damage.
pub(crate) const MAX_PAYLOAD: usize = 2 * 1024 * 1024;
/// Bytes of a segment file before its first frame. Positions do not count them.
pub(crate) const SEGMENT_HEADER: usize = 44;
/// The version of the format that this program writes.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// How every segment file begins.
const MAGIC: [u8; 8] = *b"WEIRSEG\0";

/// What makes the checksums of one log its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Salt([u8; 4]);

impl Salt {
    pub fn of(incarnation: Incarnation) -> Self {
        Self(crc32fast::hash(&incarnation.to_raw().to_le_bytes()).to_le_bytes())
    }

    /// The mask over the checksum of the frame at a position.
    fn mask(self, position: u64) -> u32 {
        let [a, b, c, d, e, f, g, h] = position.to_le_bytes();
        let low = u32::from_le_bytes([a, b, c, d]);
        let high = u32::from_le_bytes([e, f, g, h]);
        // Multiplying by an odd number spreads neighbouring positions over all bits, and keeps them distinct.
        low.wrapping_mul(0x9E37_79B1) ^ high.rotate_left(16) ^ u32::from_le_bytes(self.0)
    }
}

/// Appends a frame whose checksum is not yet bound to a position; see [`seal`]. Payloads above [`MAX_PAYLOAD`] must have been
/// refused before.
pub(crate) fn encode(into: &mut Vec<u8>, payload: &[u8], appended_at_ms: i64) {
    let begin = into.len();
    into.extend_from_slice(&[0; 4]);
    into.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
    into.extend_from_slice(&appended_at_ms.to_le_bytes());
    into.extend_from_slice(payload);
    let checksum = crc32fast::hash(&into[begin + 4..]);
    into[begin..begin + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Binds encoded frames to the place where they will be written.
pub(crate) fn seal(frames: &mut [u8], mut position: u64, salt: Salt) {
    let mut rest = frames;
    while let Some((header, _)) = rest.split_first_chunk_mut::<8>() {
        let [a, b, c, d, e, f, g, h] = *header;
        let sealed = u32::from_le_bytes([a, b, c, d]) ^ salt.mask(position);
        header[..4].copy_from_slice(&sealed.to_le_bytes());
        let length = usize::try_from(u32::from_le_bytes([e, f, g, h])).unwrap_or(usize::MAX);
        let whole = length.saturating_add(FRAME_HEADER).min(rest.len());
        position += u64::try_from(whole).unwrap_or(u64::MAX);
        rest = &mut rest[whole..];
    }
}

/// What lies at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    /// A valid frame.
    Frame { payload: &'a [u8], appended_at_ms: i64 },
    /// It needs so many bytes to be judged.
    Short(usize),
    /// No frame.
    Bad,
}

/// How long the frame claims to be whose beginning this is; nothing if there is too little to say.
pub(crate) fn whole_length(bytes: &[u8]) -> Option<usize> {
    let (&[_, _, _, _, e, f, g, h], _) = bytes.get(..FRAME_HEADER)?.split_first_chunk::<8>()?;
    let length = usize::try_from(u32::from_le_bytes([e, f, g, h])).ok()?;
    Some(length.saturating_add(FRAME_HEADER))
}

/// Judges the bytes at a position.
pub(crate) fn parse(bytes: &[u8], position: u64, salt: Salt) -> Parsed<'_> {
    let Some((&[a, b, c, d, e, f, g, h, time @ ..], _)) = bytes.split_first_chunk::<FRAME_HEADER>() else {
        return Parsed::Short(FRAME_HEADER);
    };
    let length = usize::try_from(u32::from_le_bytes([e, f, g, h])).unwrap_or(usize::MAX);
    if length > MAX_PAYLOAD {
        return Parsed::Bad;
    }
    let Some(frame) = bytes.get(..FRAME_HEADER + length) else {
        return Parsed::Short(FRAME_HEADER + length);
    };
    if crc32fast::hash(&frame[4..]) ^ salt.mask(position) != u32::from_le_bytes([a, b, c, d]) {
        return Parsed::Bad;
    }
    Parsed::Frame { payload: &frame[FRAME_HEADER..], appended_at_ms: i64::from_le_bytes(time) }
}

/// The beginning of a segment file: `magic 8 | version u32 | partition u32 | base u64 | incarnation u128 | checksum u32`.
pub(crate) fn segment_header(incarnation: Incarnation, partition: u32, base: u64) -> [u8; SEGMENT_HEADER] {
    let mut header = [0; SEGMENT_HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&partition.to_le_bytes());
    header[16..24].copy_from_slice(&base.to_le_bytes());
    header[24..40].copy_from_slice(&incarnation.to_raw().to_le_bytes());
    let checksum = crc32fast::hash(&header[..40]);
    header[40..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// What the beginning of a segment file says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeaderCheck {
    /// It is the expected one.
    Good,
    /// It ends too early, or is all zeros: the crash came while the file was made.
    Torn,
    /// Right magic and version, but otherwise not what was written. Frames prove themselves, so that reading goes on.
    Damaged,
    /// Another version.
    Version(u32),
    /// Not a segment file.
    Foreign,
    /// A segment of another log, another partition or another place.
    Misplaced,
}

/// Judges the first bytes of a segment file against what they should be.
pub(crate) fn check_header(bytes: &[u8], expected: &[u8; SEGMENT_HEADER]) -> HeaderCheck {
    let Some((header, _)) = bytes.split_first_chunk::<SEGMENT_HEADER>() else {
        let begun = expected.starts_with(bytes) || bytes.iter().all(|byte| *byte == 0);
        return if begun { HeaderCheck::Torn } else { HeaderCheck::Foreign };
    };
    if header == expected {
        return HeaderCheck::Good;
    }
    if header.iter().all(|byte| *byte == 0) {
        return HeaderCheck::Torn;
    }
    if header[..8] != MAGIC {
        return HeaderCheck::Foreign;
    }
    let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    if version != FORMAT_VERSION {
        return HeaderCheck::Version(version);
    }
    if crc32fast::hash(&header[..40]).to_le_bytes() == header[40..] {
        return HeaderCheck::Misplaced;
    }
    HeaderCheck::Damaged
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Incarnation = Incarnation::from_raw(42);

    fn frames(position: u64, payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (payload, time) in payloads.iter().zip(100..) {
            encode(&mut bytes, payload, time);
        }
        seal(&mut bytes, position, Salt::of(LOG));
        bytes
    }

    #[test]
    fn frames_come_back_one_after_the_other() {
        let bytes = frames(1_000, &[b"one", b"", b"three"]);
        let salt = Salt::of(LOG);
        assert_eq!(parse(&bytes, 1_000, salt), Parsed::Frame { payload: b"one", appended_at_ms: 100 });
        assert_eq!(parse(&bytes[19..], 1_019, salt), Parsed::Frame { payload: b"", appended_at_ms: 101 });
        assert_eq!(parse(&bytes[35..], 1_035, salt), Parsed::Frame { payload: b"three", appended_at_ms: 102 });
        assert_eq!(bytes.len(), 56);
    }

    #[test]
    fn a_frame_is_valid_in_its_own_place_only() {
        let bytes = frames(1_000, &[b"one"]);
        assert_eq!(parse(&bytes, 1_001, Salt::of(LOG)), Parsed::Bad);
        assert_eq!(parse(&bytes, 1_000 + (1 << 32), Salt::of(LOG)), Parsed::Bad);
        assert_eq!(parse(&bytes, 1_000, Salt::of(Incarnation::from_raw(43))), Parsed::Bad);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = frames(7, &[b"some payload"]);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(parse(&flipped, 7, Salt::of(LOG)), Parsed::Frame { .. }), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(matches!(parse(&bytes[..length], 7, Salt::of(LOG)), Parsed::Short(_)), "{length} bytes");
        }
    }

    #[test]
    fn zeros_are_no_frame() {
        assert_eq!(parse(&[0; 64], 0, Salt::of(LOG)), Parsed::Bad);
    }

    #[test]
    fn headers_of_other_files_are_told_apart() {
        let expected = segment_header(LOG, 3, 77);
        assert_eq!(check_header(&expected, &expected), HeaderCheck::Good);
        assert_eq!(check_header(&expected[..20], &expected), HeaderCheck::Torn);
        assert_eq!(check_header(&[], &expected), HeaderCheck::Torn);
        assert_eq!(check_header(&[0; 60], &expected), HeaderCheck::Torn);
        assert_eq!(check_header(&segment_header(LOG, 2, 77), &expected), HeaderCheck::Misplaced);
        assert_eq!(check_header(b"once upon a time", &expected), HeaderCheck::Foreign);
        let mut newer = expected;
        newer[8] = 2;
        assert_eq!(check_header(&newer, &expected), HeaderCheck::Version(2));
        let mut damaged = expected;
        damaged[30] ^= 1;
        assert_eq!(check_header(&damaged, &expected), HeaderCheck::Damaged);
    }
}
