//! `WEIR__SECTION__KEY=value` in place of a key of the file.

/// What the names of variables begin with.
const PREFIX: &str = "WEIR__";

/// Lays the variables over the table. A value that reads as TOML (a number, a truth value, a list) is that, else it is text.
/// Beside the table comes a sentence for each variable that fits nowhere in it.
#[must_use]
pub fn overlay(
    mut table: toml::Table,
    environment: impl Iterator<Item = (String, String)>,
) -> (toml::Table, Vec<String>) {
    let mut variables: Vec<(String, String)> = environment.filter(|(name, _)| name.starts_with(PREFIX)).collect();
    variables.sort();
    let mut misplaced = Vec::new();
    for (name, value) in variables {
        let lower = name.to_lowercase();
        let path: Vec<&str> = lower.split("__").skip(1).collect();
        if !set(&mut table, &path, parse(&value)) {
            misplaced.push(format!(
                "{name}: a part of its name is a list or a value and holds no keys; a list is given whole, as in \
                 WEIR__CLUSTER='[{{name = \"prod\", url = \"https://flink:8081\"}}]'"
            ));
        }
    }
    (table, misplaced)
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
