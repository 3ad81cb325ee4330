//! Takes a parsed file apart and collects everything that is wrong with it, instead of stopping at the first.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::unreadable::Unreadable;

/// What was found wrong so far.
#[derive(Default)]
pub struct Findings {
    pub problems: Vec<String>,
    /// The text of each variable of the environment, by the place of its value.
    pub texts: BTreeMap<String, String>,
}

impl Findings {
    /// Takes one key out of a table, where it is there and of the right type.
    pub fn take<T: DeserializeOwned>(&mut self, table: &mut toml::Table, key: &str, place: &str) -> Option<T> {
        let mut value = table.remove(key)?;
        let root = if place.starts_with('[') { format!("{}.{key}", section_of(place)) } else { key.to_owned() };
        match self.read(&mut value, &root) {
            Ok(value) => Some(value),
            Err(why) => {
                let scalar = !value.is_table() && !value.is_array();
                let shown = if scalar && why.may_be_shown { format!(" = {value}") } else { String::new() };
                self.problems.push(format!("{place}: {key}{shown}: {}", why.text));
                None
            }
        }
    }

    /// Reads a value that lies at `root`. Where text is expected, and a variable of the environment looked like something
    /// else, it is taken as the text that it was.
    fn read<T: DeserializeOwned>(&self, value: &mut toml::Value, root: &str) -> Result<T, Unreadable> {
        loop {
            let failed = match serde_path_to_error::deserialize::<_, T>(value.clone()) {
                Ok(value) => return Ok(value),
                Err(failed) => failed,
            };
            let (path, message) = (failed.path().to_string(), failed.inner().message());
            let below: Vec<&str> = path.split('.').filter(|key| !key.is_empty()).collect();
            let whole = [root].iter().chain(&below).copied().collect::<Vec<_>>().join(".");
            let text_expected = message.rsplit_once("expected ").is_some_and(|(_, what)| what.contains("string"));
            let meant = self.texts.get(&whole).filter(|_| text_expected).cloned();
            let found = at(value, &below);
            let is_structure =
                found.as_ref().is_some_and(|found| found.as_str().is_some_and(|text| text.contains('{')));
            if !meant.zip(found).is_some_and(|(text, found)| as_text(found, text)) {
                return Err(Unreadable::new(&whole, &below, is_structure, message));
            }
        }
    }

    /// Takes a section out of the file, where it is there.
    pub fn section<T: DeserializeOwned>(&mut self, table: &mut toml::Table, name: &str) -> Option<T> {
        if !table.contains_key(name) {
            return None;
        }
        let section = self.table(table, name);
        self.whole(section, &format!("[{name}]"))
    }

    /// Takes a table out of the file; an empty one if it is not there.
    pub fn table(&mut self, table: &mut toml::Table, name: &str) -> toml::Table {
        self.take(table, name, "the configuration").unwrap_or_default()
    }

    /// Takes an array of tables out of the file.
    pub fn tables(&mut self, table: &mut toml::Table, name: &str) -> Vec<toml::Table> {
        self.take(table, name, "the configuration").unwrap_or_default()
    }

    /// Reads a whole table. Keys that it does not know are told with a suggestion, one after the other.
    pub fn whole<T: DeserializeOwned>(&mut self, table: toml::Table, place: &str) -> Option<T> {
        let mut value = toml::Value::Table(table);
        loop {
            let error = match self.read(&mut value, section_of(place)) {
                Ok(value) => return Some(value),
                Err(error) => error,
            };
            let mut quoted = error.text.split('`').skip(1).step_by(2);
            let unknown =
                quoted.next().filter(|_| error.text.contains("unknown field")).unwrap_or_default().to_string();
            if value.as_table_mut().and_then(|table| table.remove(&unknown)).is_none() {
                self.problems.push(format!("{place}: {}", error.text));
                return None;
            }
            let known: Vec<&str> = quoted.collect();
            self.unknown(place, &unknown, &known);
        }
    }

    /// Tells of a key that is not known.
    pub fn unknown(&mut self, place: &str, key: &str, known: &[&str]) {
        let nearest = known.iter().min_by_key(|candidate| distance(key, candidate));
        let hint = match nearest.filter(|candidate| distance(key, candidate) <= 3) {
            Some(candidate) => format!("did you mean {candidate}?"),
            None => format!("known are {}", known.join(", ")),
        };
        self.problems.push(format!("{place}: there is no key {key}; {hint}"));
    }

    /// Adds problems of a section.
    pub fn all(&mut self, place: &str, problems: impl IntoIterator<Item = String>) {
        self.problems.extend(problems.into_iter().map(|problem| format!("{place}: {problem}")));
    }
}

/// `kafka` of `[kafka]`. Sections that are there several times have no place of their own in the environment.
fn section_of(place: &str) -> &str {
    place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(place)
}

/// The value at a path.
fn at<'a>(value: &'a mut toml::Value, path: &[&str]) -> Option<&'a mut toml::Value> {
    path.iter().try_fold(value, |value, key| value.get_mut(*key))
}

/// Makes a value that looked like something else the text that it was. False if it is text already.
fn as_text(value: &mut toml::Value, text: String) -> bool {
    let other = !value.is_str();
    if other {
        *value = toml::Value::String(text);
    }
    other
}

/// How many letters have to be changed, added or removed to make one word of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
