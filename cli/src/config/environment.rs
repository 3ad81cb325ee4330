//! `WEIR__SECTION__KEY=value` in place of a key of the file.

/// What the names of variables begin with.
const PREFIX: &str = "WEIR__";

/// Lays the variables over the table. A value that reads as TOML (a number, a truth value, a list) is that, else it is text.
#[must_use]
pub fn overlay(mut table: toml::Table, environment: impl Iterator<Item = (String, String)>) -> toml::Table {
    let mut variables: Vec<(String, String)> =
        environment.filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?.to_lowercase(), value))).collect();
    variables.sort();
    for (name, value) in variables {
        let path: Vec<&str> = name.split("__").collect();
        set(&mut table, &path, parse(&value));
    }
    table
}

fn set(table: &mut toml::Table, path: &[&str], value: toml::Value) {
    match path {
        [] => {}
        [key] => {
            table.insert((*key).into(), value);
        }
        [section, rest @ ..] => {
            let entry = table.entry(*section).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            if let toml::Value::Table(inner) = entry {
                set(inner, rest, value);
            }
        }
    }
}

fn parse(value: &str) -> toml::Value {
    let as_toml = format!("value = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("value"));
    as_toml.unwrap_or_else(|| toml::Value::String(value.into()))
}
