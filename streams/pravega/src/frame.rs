//! How a record lies in a stream: as an event of Pravega's own, whose body is an envelope of ours.
//!
//! ```text
//! i32 0 | i32 length of the body | body                                        what every client of Pravega writes and reads
//! body: "WR" | u8 version | u8 0 | u32 seal | i64 appended at, ms | u32 CRC | payload
//! ```
//!
//! All numbers are big-endian. The seal is drawn from the incarnation of the log, so that a record that a straggler of an earlier
//! life appended to a stream of the same name is told apart. The CRC covers all of the body but itself.

use weir_streams::Incarnation;

/// Before the body of every event.
const HEADER: usize = 8;
/// Before the payload, within the body.
const ENVELOPE: usize = 20;
/// What a record takes up beyond its payload.
pub(crate) const OVERHEAD: usize = HEADER + ENVELOPE;
/// No client of Pravega appends larger events in one piece.
const LARGEST_BODY: usize = 8 * 1024 * 1024;
const MAGIC: [u8; 2] = *b"WR";
const VERSION: u8 = 1;

/// The largest payload that a record may have: an event of 8 MiB is the largest that is appended in one piece.
pub(crate) const LARGEST_PAYLOAD: usize = LARGEST_BODY - 1024;

/// What marks the records of one life of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal([u8; 4]);

impl Seal {
    /// The seal of a log.
    pub fn of(incarnation: Incarnation) -> Self {
        Self(crc32fast::hash(&incarnation.to_raw().to_be_bytes()).to_be_bytes())
    }

    /// The seal of what is written before there is an incarnation.
    pub const NONE: Self = Self([0; 4]);
}

/// The body of an event. The client puts the header before it.
pub(crate) fn envelope(seal: Seal, appended_at_ms: i64, payload: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(ENVELOPE + payload.len());
    body.extend_from_slice(&MAGIC);
    body.extend_from_slice(&[VERSION, 0]);
    body.extend_from_slice(&seal.0);
    body.extend_from_slice(&appended_at_ms.to_be_bytes());
    let crc = checksum(&body, payload);
    body.extend_from_slice(&crc.to_be_bytes());
    body.extend_from_slice(payload);
    body
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub appended_at_ms: i64,
    pub payload: Vec<u8>,
    /// The offset after it.
    pub next: u64,
}

/// What cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Damage {
    /// These bytes are no record, or one whose sum is wrong.
    Unreadable {
        /// Where it begins.
        at: u64,
        /// Where reading can go on.
        resume: u64,
    },
    /// A record of another life of the log.
    ForeignSeal {
        /// Where it begins.
        at: u64,
        /// Where it ends.
        resume: u64,
    },
    /// Written by a newer version of ours.
    Newer {
        /// Its version.
        version: u8,
    },
}

/// Cuts a stream of bytes, however it arrives, into records.
#[derive(Debug)]
pub(crate) struct Frames {
    seal: Option<Seal>,
    bytes: Vec<u8>,
    /// Bytes at the front that are done with.
    done: usize,
    /// The offset in the stream of the first byte that is not.
    offset: u64,
}

enum Body<'a> {
    Good { appended_at_ms: i64, seal: Seal, payload: &'a [u8] },
    Newer(u8),
    Bad,
}

impl Frames {
    /// Begins at an offset. Without a seal, any will do.
    pub fn new(seal: Option<Seal>, offset: u64) -> Self {
        Self { seal, bytes: Vec::new(), done: 0, offset }
    }

    /// The offset of the first record that was not taken yet.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The offset up to which bytes have arrived.
    pub fn end(&self) -> u64 {
        self.offset + count(self.rest().len())
    }

    /// Takes in what follows.
    pub fn push(&mut self, bytes: &[u8]) {
        // Moving the rest to the front costs as much as was read since the last time, at most.
        if self.done > 0 && self.done >= self.rest().len() {
            self.bytes.drain(..self.done);
            self.done = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Goes on at a later offset among the bytes that have arrived. False if they do not reach as far.
    pub fn skip_to(&mut self, offset: u64) -> bool {
        let skip = offset.checked_sub(self.offset).and_then(|skip| usize::try_from(skip).ok());
        match skip {
            Some(skip) if skip <= self.rest().len() => {
                self.advance(skip);
                true
            }
            _ => false,
        }
    }

    /// The next record, nothing if more bytes are needed. Damage is told again until it is skipped.
    pub fn next(&mut self) -> Option<Result<Frame, Damage>> {
        let at = self.offset;
        let rest = self.rest();
        let length = match body_length(rest) {
            Header::Incomplete => return None,
            Header::Wrong => return Some(Err(Damage::Unreadable { at, resume: at + count(self.scan()) })),
            Header::Length(length) => length,
        };
        let body = rest.get(HEADER..HEADER + length)?;
        let next = at + count(HEADER + length);
        let frame = match open(body) {
            Body::Bad => return Some(Err(Damage::Unreadable { at, resume: next })),
            Body::Newer(version) => return Some(Err(Damage::Newer { version })),
            Body::Good { seal, .. } if self.seal.is_some_and(|wanted| wanted != seal) => {
                return Some(Err(Damage::ForeignSeal { at, resume: next }));
            }
            Body::Good { appended_at_ms, payload, .. } => Frame { appended_at_ms, payload: payload.to_vec(), next },
        };
        self.advance(HEADER + length);
        Some(Ok(frame))
    }

    /// Where to go on when the first record is known never to become complete.
    pub fn beyond_stuck(&self) -> u64 {
        self.offset + count(self.scan())
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.done..).unwrap_or_default()
    }

    fn advance(&mut self, bytes: usize) {
        self.done += bytes;
        self.offset += count(bytes);
        if self.done >= self.bytes.len() {
            self.bytes.clear();
            self.done = 0;
        }
    }

    /// How many bytes to leave out until something begins that is a record, or may be one once more has arrived.
    fn scan(&self) -> usize {
        let rest = self.rest();
        let candidate = |from: &usize| match body_length(&rest[*from..]) {
            Header::Wrong => false,
            Header::Incomplete => true,
            Header::Length(length) => match rest.get(from + HEADER..from + HEADER + length) {
                Some(body) => matches!(open(body), Body::Good { .. } | Body::Newer(_)),
                None => rest.get(from + HEADER..).is_some_and(|start| start.starts_with(&MAGIC)),
            },
        };
        (1..rest.len()).find(candidate).unwrap_or(rest.len())
    }
}

enum Header {
    Incomplete,
    Wrong,
    Length(usize),
}

fn body_length(bytes: &[u8]) -> Header {
    let Some((kind, rest)) = bytes.split_first_chunk::<4>() else {
        // The kind of an event is zero: anything else is known to be wrong before it is complete.
        return if bytes.iter().all(|byte| *byte == 0) { Header::Incomplete } else { Header::Wrong };
    };
    if *kind != [0; 4] {
        return Header::Wrong;
    }
    let Some(length) = rest.first_chunk::<4>() else { return Header::Incomplete };
    match usize::try_from(i32::from_be_bytes(*length)) {
        Ok(length) if length <= LARGEST_BODY => Header::Length(length),
        _ => Header::Wrong,
    }
}

fn open(body: &[u8]) -> Body<'_> {
    let Some((head, payload)) = body.split_at_checked(ENVELOPE) else { return Body::Bad };
    let [m0, m1, version, _, s0, s1, s2, s3, time @ .., c0, c1, c2, c3] = head else { return Body::Bad };
    let Ok(time) = <[u8; 8]>::try_from(time) else { return Body::Bad };
    if [*m0, *m1] != MAGIC {
        return Body::Bad;
    }
    if *version > VERSION {
        return Body::Newer(*version);
    }
    let crc = u32::from_be_bytes([*c0, *c1, *c2, *c3]);
    if *version != VERSION || checksum(&head[..ENVELOPE - 4], payload) != crc {
        return Body::Bad;
    }
    Body::Good { appended_at_ms: i64::from_be_bytes(time), seal: Seal([*s0, *s1, *s2, *s3]), payload }
}

/// A length as a number of bytes in a stream.
pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEAL: Seal = Seal([1, 2, 3, 4]);

    /// As the client of Pravega writes it.
    fn event(body: &[u8]) -> Vec<u8> {
        let length = i32::try_from(body.len()).unwrap();
        [&[0; 4], &length.to_be_bytes()[..], body].concat()
    }

    fn stream(payloads: &[Vec<u8>]) -> Vec<u8> {
        payloads.iter().zip(0..).flat_map(|(payload, at_ms)| event(&envelope(SEAL, at_ms, payload))).collect()
    }

    /// Reads it all, skips damage, and gives the records with the damage between them.
    fn read(bytes: &[u8], cuts: &[usize]) -> (Vec<Frame>, Vec<Damage>) {
        let mut frames = Frames::new(Some(SEAL), 0);
        let (mut records, mut damages) = (Vec::new(), Vec::new());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            frames.push(&bytes[pair[0]..pair[1]]);
            while let Some(next) = frames.next() {
                match next {
                    Ok(frame) => records.push(frame),
                    Err(damage) => {
                        let (Damage::Unreadable { at, resume } | Damage::ForeignSeal { at, resume }) = &damage else {
                            return (records, damages);
                        };
                        assert!(at < resume, "{damage:?} leads nowhere");
                        assert_eq!(frames.next(), Some(Err(damage.clone())), "damage is told again");
                        assert!(frames.skip_to(*resume));
                        damages.push(damage);
                    }
                }
            }
        }
        (records, damages)
    }

    proptest! {
        #[test]
        fn any_cutting_of_the_bytes_gives_the_same_records(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..12),
            cuts in prop::collection::vec(any::<usize>(), 0..20),
        ) {
            let bytes = stream(&payloads);
            let (records, damages) = read(&bytes, &cuts);
            prop_assert_eq!(damages, []);
            prop_assert_eq!(records.last().map_or(0, |record| record.next), count(bytes.len()));
            prop_assert_eq!(records.into_iter().map(|record| record.payload).collect::<Vec<_>>(), payloads);
        }

        #[test]
        fn one_wrong_byte_costs_records_but_makes_none_up(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8),
            at in any::<prop::sample::Index>(),
            flip in 1_u8..,
            cuts in prop::collection::vec(any::<usize>(), 0..6),
        ) {
            let mut bytes = stream(&payloads);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let (records, _) = read(&bytes, &cuts);
            let mut expected = payloads.iter();
            for record in records {
                prop_assert!(expected.any(|payload| *payload == record.payload), "a record that was never written");
            }
        }

        #[test]
        fn any_bytes_at_all_are_survived(
            bytes in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..300),
            cuts in prop::collection::vec(any::<usize>(), 0..6),
        ) {
            read(&bytes, &cuts);
        }
    }

    #[test]
    fn a_damaged_record_costs_only_itself() {
        let payloads = [b"first".to_vec(), b"second".to_vec(), b"third".to_vec()];
        let mut bytes = stream(&payloads);
        let second = OVERHEAD + 5;
        bytes[second + OVERHEAD + 2] ^= 1;
        let (records, damages) = read(&bytes, &[]);
        assert_eq!(records.iter().map(|record| record.payload.as_slice()).collect::<Vec<_>>(), [b"first", b"third"]);
        let (at, resume) = (count(second), count(second + OVERHEAD + 6));
        assert_eq!(damages, [Damage::Unreadable { at, resume }]);
    }

    #[test]
    fn a_broken_header_is_searched_over() {
        let mut bytes = stream(&[b"first".to_vec(), b"second".to_vec(), b"third".to_vec()]);
        let second = OVERHEAD + 5;
        bytes[second] = 9;
        let (records, damages) = read(&bytes, &[]);
        assert_eq!(records.iter().map(|record| record.payload.as_slice()).collect::<Vec<_>>(), [b"first", b"third"]);
        let resume = count(second + OVERHEAD + 6);
        assert_eq!(damages, [Damage::Unreadable { at: count(second), resume }]);
    }

    #[test]
    fn events_of_others_and_of_other_lives_are_told_apart() {
        let foreign = event(b"hello");
        let other = event(&envelope(Seal([9; 4]), 0, b"from before"));
        let ours = event(&envelope(SEAL, 7, b"ours"));
        let (records, damages) = read(&[foreign.clone(), other.clone(), ours].concat(), &[]);
        assert_eq!(records.len(), 1);
        assert_eq!((records[0].appended_at_ms, records[0].payload.as_slice()), (7, &b"ours"[..]));
        let (first, second) = (count(foreign.len()), count(foreign.len() + other.len()));
        assert_eq!(damages[0], Damage::Unreadable { at: 0, resume: first });
        assert_eq!(damages[1], Damage::ForeignSeal { at: first, resume: second });
    }

    #[test]
    fn newer_records_are_not_skipped() {
        let mut body = envelope(SEAL, 0, b"tomorrow");
        body[2] = 2;
        let mut frames = Frames::new(Some(SEAL), 0);
        frames.push(&event(&body));
        assert_eq!(frames.next(), Some(Err(Damage::Newer { version: 2 })));
    }

    /// Written down once: the layout must not change under existing streams.
    #[test]
    fn the_layout_stays() {
        let body = envelope(Seal::of(Incarnation::from_raw(0xabc)), 1_700_000_000_000, b"payload");
        let hex: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "57520100d4835c780000018bcfe56800df941bcc7061796c6f6164");
    }
}
