//! `WEIR__SECTION__KEY=value` in place of a key of the file.

use std::collections::BTreeMap;

/// What the names of variables begin with.
const PREFIX: &str = "WEIR__";

/// A configuration as it was written, before anybody has looked at what it means.
#[derive(Debug, Default)]
pub struct Written {
    /// Everything.
    pub table: toml::Table,
    /// The text of each variable, by the place of its value: what looks like a number may have been meant as text.
    pub texts: BTreeMap<String, String>,
    /// A sentence for each variable that fits nowhere.
    pub misplaced: Vec<String>,
}

impl From<toml::Table> for Written {
    fn from(table: toml::Table) -> Self {
        Self { table, ..Self::default() }
    }
}

/// Lays the variables over the table. A value that reads as TOML (a number, a truth value, a list) is that, else it is text.
#[must_use]
pub fn overlay(mut table: toml::Table, environment: impl Iterator<Item = (String, String)>) -> Written {
    let mut variables: Vec<(String, String)> = environment.filter(|(name, _)| name.starts_with(PREFIX)).collect();
    variables.sort();
    let (mut texts, mut misplaced) = (BTreeMap::new(), Vec::new());
    for (name, value) in variables {
        let lower = name.to_lowercase();
        let path: Vec<&str> = lower.split("__").skip(1).collect();
        if !set(&mut table, &path, parse(&value)) {
            misplaced.push(format!(
                "{name}: a part of its name is a list or a value and holds no keys; a list is given whole, as in \
                 WEIR__CLUSTER='[{{name = \"prod\", url = \"https://flink:8081\"}}]'"
            ));
        }
        texts.insert(path.join("."), value);
    }
    Written { table, texts, misplaced }
}

/// False if there is no table to put the value into.
fn set(table: &mut toml::Table, path: &[&str], value: toml::Value) -> bool {
    match path {
        [] => false,
        [key] => {
            table.insert((*key).into(), value);
            true
        }
        [section, rest @ ..] => match table.entry(*section).or_insert_with(|| toml::Value::Table(toml::Table::new())) {
            toml::Value::Table(inner) => set(inner, rest, value),
            _ => false,
        },
    }
}

fn parse(value: &str) -> toml::Value {
    let as_toml = format!("value = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("value"));
    as_toml.unwrap_or_else(|| toml::Value::String(value.into()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::{Config, ConfigError, LogChoice};

    fn with_variables(file: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::from_written(overlay(file.parse().unwrap(), variables))
    }

    const KAFKA: &str = "[log]\nkind = \"kafka\"\n[kafka]\nbrokers = \"a:1\"\ntls = {}\n\
                         sasl = {mechanism = \"plain\", user = \"u\"}";

    #[test]
    fn a_variable_that_looks_like_a_number_is_text_where_text_is_expected() {
        let variables = [
            ("WEIR__KAFKA__SASL__PASSWORD", "1234"),
            ("WEIR__KAFKA__SASL__USER", "true"),
            ("WEIR__KAFKA__PARTITIONS", "7"),
            ("WEIR__KAFKA__PREFIX", "0x10"),
            ("WEIR__DATA", "007"),
            ("WEIR__HTTP__LISTEN", "none"),
            ("WEIR__INSTANCE__NAME", "1234"),
        ];
        let config = with_variables(KAFKA, &variables).unwrap();
        let LogChoice::Kafka(kafka) = config.log else { panic!("{:?}", config.log) };
        let sasl = kafka.sasl.unwrap();
        assert_eq!((sasl.password.as_str(), sasl.user.as_str()), ("1234", "true"));
        assert_eq!((kafka.partitions, kafka.prefix.as_str()), (7, "0x10"));
        assert_eq!((config.data, config.instance.name.as_deref()), (PathBuf::from("007"), Some("1234")));
    }

    #[test]
    fn what_is_secret_is_in_no_problem() {
        let cluster = "[{name = \"a\", url = \"http://a\", auth = {bearer = {token = \"hush\"}}";
        let pravega = "[log]\nkind = \"pravega\"\n[pravega]\ncontroller = \"tcp://a:1\"";
        for (file, name, value) in [
            (KAFKA, "WEIR__KAFKA__SASL", "{mechanism = \"plain\", user = \"u\", password = \"hush\""),
            (KAFKA, "WEIR__KAFKA__SASL", "hush"),
            (KAFKA, "WEIR__KAFKA", "{sasl = {password = \"hush\""),
            (pravega, "WEIR__PRAVEGA__AUTH", "{token = [\"hush\"]}"),
            (pravega, "WEIR__PRAVEGA__AUTH", "hush"),
            (pravega, "WEIR__PRAVEGA__AUTH__PASSWORD", "hush"),
            ("", "WEIR__CLUSTER", cluster),
            ("", "WEIR__CLUSTER", "[{name = \"a\", url = \"http://a\", auth = \"hush\"}]"),
            ("", "WEIR__CLUSTER", "{name = \"a\", auth = {bearer = {token = \"hush\"}}}"),
            ("", "WEIR__DATABASE", "[\"postgres://weir:hush@db/weir\"]"),
            ("", "WEIR__DATABASE", "postgres://weir:hush@db/weir?nothing=1"),
        ] {
            let said = with_variables(file, &[(name, value)]).unwrap_err().to_string();
            assert!(!said.contains("hush"), "{name}={value}: {said}");
        }
    }
}
