//! What commands print: aligned plain text for people, JSON for programs. No colours: it reads the same in a file.

use std::fmt::Display;
use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use weir_schemas::event::rfc3339;
use weir_schemas::num::short_time;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Output {
    /// Aligned plain text.
    #[default]
    Table,
    /// JSON. Keys are stable: new ones may come, none goes or changes its meaning.
    Json,
}

/// Spaces between columns.
const GAP: u16 = 2;
/// Width of the labels of a [`Sheet`].
const LABEL: usize = 13;
/// How much of an id is shown; commands take any unique beginning.
const ID_SHOWN: usize = 8;

/// A table without lines. Columns named in `right` hold numbers, and are aligned to the right.
#[must_use]
pub fn table(header: &[&str], rows: &[Vec<String>], right: &[&str]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table.add_rows(rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect::<Vec<String>>()));
    for (column, name) in table.column_iter_mut().zip(header) {
        column.set_padding((0, GAP));
        if right.contains(name) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}

/// Lines of text, each with a label in front.
#[derive(Debug, Default)]
pub struct Sheet(String);

impl Sheet {
    /// A line without a label.
    pub fn title(&mut self, text: impl Display) {
        self.0.push_str(&plain(&text.to_string()));
        self.0.push('\n');
    }

    /// A line with a label.
    pub fn line(&mut self, label: &str, text: impl Display) {
        self.title(format!("{label:<LABEL$}{text}"));
    }

    /// Lines under one label; `none` where there are none.
    pub fn lines(&mut self, label: &str, texts: impl IntoIterator<Item = String>) {
        let before = self.0.len();
        for text in texts {
            self.line(if self.0.len() == before { label } else { "" }, text);
        }
        if self.0.len() == before {
            self.line(label, "none");
        }
    }

    /// Lines that were laid out already, such as a table.
    pub fn block(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// All lines.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Prints a value as JSON, indented, with a line end.
///
/// # Errors
/// When it cannot be written.
pub fn json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    writeln!(out, "{text}")
}

/// Text that does not steer the terminal: names come from elsewhere and may hold anything.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A moment as `2026-01-31 08:15:30`, in UTC.
#[must_use]
pub fn moment(at_ms: i64) -> String {
    let text = rfc3339(at_ms);
    text.split('.').next().unwrap_or(&text).replace('T', " ")
}

/// How long ago a moment was; one of a clock ahead of ours is now.
#[must_use]
pub fn age(at_ms: i64, now_ms: i64) -> String {
    short_time(now_ms.saturating_sub(at_ms).max(0))
}

/// The beginning of an id.
#[must_use]
pub fn short_id(id: &str) -> &str {
    id.get(..ID_SHOWN).unwrap_or(id)
}

/// A stable word as people read it: `quiet period`.
#[must_use]
pub fn words(word: &str) -> String {
    word.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_steer_the_terminal() {
        let mut sheet = Sheet::default();
        sheet.line("job", "a\u{1b}[2Jb\nc");
        assert_eq!(sheet.text(), "job          a\u{fffd}[2Jb\u{fffd}c\n");
        let shown = table(&["JOB"], &[vec!["x\u{7}\ty".into()]], &[]);
        assert_eq!(shown, "JOB\nx\u{fffd}\u{fffd}y\n");
    }

    #[test]
    fn labels_are_not_repeated_and_nothing_is_called_none() {
        let mut sheet = Sheet::default();
        sheet.lines("limits", ["one".into(), "two".into()]);
        sheet.lines("gates", []);
        assert_eq!(sheet.text(), "limits       one\n             two\ngates        none\n");
    }

    #[test]
    fn moments_and_ages_are_short() {
        assert_eq!(moment(1_767_225_599_999), "2025-12-31 23:59:59");
        assert_eq!((age(1_000, 4_000), age(5_000, 4_000)), ("3.0 s".into(), "0.0 s".into()));
        assert_eq!((short_id("0123456789"), short_id("c1")), ("01234567", "c1"));
    }
}
