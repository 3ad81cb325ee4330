//! Decoding that never gives up on a whole answer because of one value.
//!
//! Every field is [`Loose`]: whatever JSON stands there is accepted, and becomes a value, nothing, or a counted problem. So only
//! bytes that are no JSON make an answer undecodable.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use weir_schemas::num;

use super::{DecodeError, Problems};

/// A value where one was hoped for.
#[derive(Debug, Default)]
pub(super) enum Loose<T> {
    /// Not there, null, or NaN.
    #[default]
    Absent,
    /// There, but it makes no sense.
    Bad,
    /// Well.
    Value(T),
}

/// What JSON a type can be made from; anything else is [`Loose::Bad`].
pub(super) trait Kind<'de>: Sized {
    fn number(_: f64) -> Loose<Self> {
        Loose::Bad
    }

    fn text(_: &str) -> Loose<Self> {
        Loose::Bad
    }

    fn flag(_: bool) -> Loose<Self> {
        Loose::Bad
    }

    fn list<A: SeqAccess<'de>>(mut items: A) -> Result<Loose<Self>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Loose::Bad)
    }

    fn object<A: MapAccess<'de>>(mut entries: A) -> Result<Loose<Self>, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Loose::Bad)
    }
}

impl<'de, T: Kind<'de>> Deserialize<'de> for Loose<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor(PhantomData))
    }
}

struct LooseVisitor<T>(PhantomData<T>);

impl<'de, T: Kind<'de>> Visitor<'de> for LooseVisitor<T> {
    type Value = Loose<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(T::flag(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(T::number(num::float_signed(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(T::number(num::float(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(T::number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(T::text(value))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Loose::Absent)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        T::list(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Self::Value, A::Error> {
        T::object(entries)
    }
}

/// A number, also one written as text, as Flink writes values of single metrics.
pub(super) struct Number(f64);

impl Kind<'_> for Number {
    fn number(value: f64) -> Loose<Self> {
        if value.is_finite() { Loose::Value(Self(value)) } else { Loose::Bad }
    }

    fn text(value: &str) -> Loose<Self> {
        match value.trim() {
            "NaN" => Loose::Absent,
            other => other.parse().map_or(Loose::Bad, Self::number),
        }
    }
}

impl Kind<'_> for String {
    fn text(value: &str) -> Loose<Self> {
        Loose::Value(value.to_owned())
    }
}

impl Kind<'_> for bool {
    fn flag(value: bool) -> Loose<Self> {
        Loose::Value(value)
    }
}

/// Text, or a number or flag as it would be written.
pub(super) struct Written(pub(super) String);

impl Kind<'_> for Written {
    fn number(value: f64) -> Loose<Self> {
        Loose::Value(Self(value.to_string()))
    }

    fn text(value: &str) -> Loose<Self> {
        Loose::Value(Self(value.to_owned()))
    }

    fn flag(value: bool) -> Loose<Self> {
        Loose::Value(Self(value.to_string()))
    }
}

/// A list, each item on its own.
pub(super) struct List<T>(pub(super) Vec<Loose<T>>);

impl<'de, T: Kind<'de>> Kind<'de> for List<T> {
    fn list<A: SeqAccess<'de>>(mut items: A) -> Result<Loose<Self>, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(Loose::Value(Self(all)))
    }
}

/// An object whose keys are data, each entry on its own.
pub(super) struct Entries<T>(pub(super) Vec<(String, Loose<T>)>);

impl<'de, T: Kind<'de>> Kind<'de> for Entries<T> {
    fn object<A: MapAccess<'de>>(mut entries: A) -> Result<Loose<Self>, A::Error> {
        let mut all = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            all.push(entry);
        }
        Ok(Loose::Value(Self(all)))
    }
}

/// An object with known keys; all its fields must be loose and have defaults.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Kind<'de> for Object<T> {
    fn object<A: MapAccess<'de>>(entries: A) -> Result<Loose<Self>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(entries)).map(|value| Loose::Value(Self(value)))
    }
}

/// Counters that no Flink reaches; beyond them a number is a mistake.
const LARGEST_COUNTER: f64 = 9.3e18;

impl<T> Loose<T> {
    /// The value; a bad one is counted.
    pub(super) fn take(self, name: &str, problems: &mut Problems) -> Option<T> {
        match self {
            Self::Absent => None,
            Self::Bad => {
                problems.note(name);
                None
            }
            Self::Value(value) => Some(value),
        }
    }
}

impl<T> Loose<Object<T>> {
    /// The object; a bad one is counted.
    pub(super) fn object(self, name: &str, problems: &mut Problems) -> Option<T> {
        self.take(name, problems).map(|object| object.0)
    }
}

impl<T> Loose<List<T>> {
    /// The good items of a list; bad ones, and what is no list, are counted.
    pub(super) fn items(self, name: &str, problems: &mut Problems) -> Vec<T> {
        let items = self.take(name, problems).map_or_else(Vec::new, |list| list.0);
        items.into_iter().filter_map(|item| item.take(name, problems)).collect()
    }
}

impl<T> Loose<Entries<T>> {
    /// The good entries of an object; bad ones, and what is no object, are counted.
    pub(super) fn entries(self, name: &str, problems: &mut Problems) -> Vec<(String, T)> {
        let entries = self.take(name, problems).map_or_else(Vec::new, |entries| entries.0);
        entries.into_iter().filter_map(|(key, value)| Some((key, value.take(name, problems)?))).collect()
    }
}

impl Loose<Number> {
    /// Any finite number.
    pub(super) fn float(self, name: &str, problems: &mut Problems) -> Option<f64> {
        self.take(name, problems).map(|number| number.0)
    }

    /// A number that is at least 0 and that a counter can reach.
    pub(super) fn counter(self, name: &str, problems: &mut Problems) -> Option<f64> {
        let value = self.float(name, problems)?;
        if (0.0..LARGEST_COUNTER).contains(&value) {
            return Some(value);
        }
        problems.note(name);
        None
    }

    /// A whole number that is at least 0; fractions are cut off.
    pub(super) fn whole(self, name: &str, problems: &mut Problems) -> Option<u64> {
        self.counter(name, problems).and_then(|value| u64::try_from(num::round_i64(value.trunc())).ok())
    }

    /// A small whole number that is at least 0.
    pub(super) fn small(self, name: &str, problems: &mut Problems) -> Option<u32> {
        let value = self.whole(name, problems)?;
        u32::try_from(value).map_err(|_| problems.note(name)).ok()
    }

    /// A time or a length of time in milliseconds; Flink writes -1 for none.
    pub(super) fn millis(self, name: &str, problems: &mut Problems) -> Option<i64> {
        match self {
            Self::Value(Number(value)) if (-1.0..0.0).contains(&value) => None,
            other => other.counter(name, problems).map(num::round_i64),
        }
    }
}

/// Reads a whole answer.
pub(super) fn document<'de, T: Kind<'de>>(body: &'de [u8], expected: &'static str) -> Result<T, DecodeError> {
    let start = body.trim_ascii_start();
    match start.first() {
        None => return Err(DecodeError::Empty),
        Some(b'{' | b'[' | b'"' | b't' | b'f' | b'n' | b'-' | b'0'..=b'9') => {}
        Some(_) => return Err(DecodeError::NotJson { received: excerpt(body) }),
    }
    match serde_json::from_slice::<Loose<T>>(body) {
        Ok(Loose::Value(value)) => Ok(value),
        Ok(_) => Err(DecodeError::Shape { expected, received: excerpt(body) }),
        Err(why) if why.is_eof() => Err(DecodeError::Truncated { bytes: body.len() }),
        Err(why) => Err(DecodeError::Broken { why: why.to_string() }),
    }
}

/// The first characters of what was received, fit to be shown.
pub(crate) fn excerpt(body: &[u8]) -> String {
    sanitised(&String::from_utf8_lossy(&body[..body.len().min(400)]), 80)
}

/// At most `longest` characters of a text, on one line, without control characters.
pub(crate) fn sanitised(text: &str, longest: usize) -> String {
    let mut shown = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.push_str(word);
    }
    match shown.char_indices().nth(longest) {
        None => shown,
        Some((end, _)) => format!("{}...", &shown[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(json: &str) -> (Option<f64>, u64) {
        let mut problems = Problems::default();
        let value = serde_json::from_str::<Loose<Number>>(json).unwrap().counter("x", &mut problems);
        (value, problems.count())
    }

    #[test]
    fn numbers_are_taken_from_wherever_flink_puts_them() {
        assert_eq!(number("319"), (Some(319.0), 0));
        assert_eq!(number("202.0"), (Some(202.0), 0));
        assert_eq!(number("\"0.17\""), (Some(0.17), 0));
        assert_eq!(number("\"NaN\""), (None, 0));
        assert_eq!(number("null"), (None, 0));
    }

    #[test]
    fn what_is_no_number_is_absent_and_counted() {
        for json in ["-3", "\"n/a\"", "true", "[1]", "{\"a\":{}}", "1e300", "\"Infinity\""] {
            assert_eq!(number(json), (None, 1), "{json}");
        }
    }

    #[test]
    fn minus_one_is_no_time_and_no_problem() {
        let mut problems = Problems::default();
        let time = |json: &str, problems: &mut Problems| {
            serde_json::from_str::<Loose<Number>>(json).unwrap().millis("end-time", problems)
        };
        assert_eq!(time("-1", &mut problems), None);
        assert_eq!(time("1795969220472", &mut problems), Some(1_795_969_220_472));
        assert_eq!(problems.count(), 0);
        assert_eq!(time("-5", &mut problems), None);
        assert_eq!(problems.count(), 1);
    }

    #[test]
    fn excerpts_are_one_short_line() {
        assert_eq!(excerpt(b"<html>\r\n\x1b[31m <body>"), "<html> [31m <body>");
        assert_eq!(sanitised(&"ä".repeat(100), 80).chars().count(), 83);
    }
}
