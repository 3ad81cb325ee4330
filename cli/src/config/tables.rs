//! Takes a parsed file apart and collects everything that is wrong with it, instead of stopping at the first.

use serde::de::DeserializeOwned;

/// What was found wrong so far.
#[derive(Default)]
pub struct Findings {
    pub problems: Vec<String>,
}

impl Findings {
    /// Takes one key out of a table, where it is there and of the right type.
    pub fn take<T: DeserializeOwned>(&mut self, table: &mut toml::Table, key: &str, place: &str) -> Option<T> {
        let value = table.remove(key)?;
        let shown = value.to_string();
        match value.try_into() {
            Ok(value) => Some(value),
            Err(why) => {
                self.problems.push(format!("{place}: {key} = {shown}: {}", why.message()));
                None
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
    pub fn whole<T: DeserializeOwned>(&mut self, mut table: toml::Table, place: &str) -> Option<T> {
        loop {
            let error = match toml::Value::Table(table.clone()).try_into::<T>() {
                Ok(value) => return Some(value),
                Err(error) => error.message().to_string(),
            };
            let mut quoted = error.split('`').skip(1).step_by(2);
            let unknown = quoted.next().filter(|_| error.contains("unknown field")).unwrap_or_default().to_string();
            if table.remove(&unknown).is_none() {
                self.problems.push(format!("{place}: {error}"));
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
