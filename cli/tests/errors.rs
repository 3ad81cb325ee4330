//! Every code that an error can have is explained in the manual, once, and nothing else is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().into()
}

/// The folders of all crates of the workspace, as its manifest names them.
fn crates() -> Vec<String> {
    let manifest = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let members = manifest.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    members.split(',').map(|member| member.trim().trim_matches('"').to_owned()).filter(|it| !it.is_empty()).collect()
}

/// All codes in the Rust files below a folder.
fn codes_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            codes_below(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            // Tests ask for the codes of others as well.
            let text = std::fs::read_to_string(&path).unwrap();
            found.extend(codes_in(text.split("#[cfg(test)]").next().unwrap()));
        }
    }
}

/// `WR` and four digits, wherever they stand.
fn codes_in(text: &str) -> BTreeSet<String> {
    let pieces = text.match_indices("WR").map(|(at, _)| &text[at..]);
    let codes = pieces.filter_map(|piece| {
        let code = piece.get(..6)?;
        code[2..].bytes().all(|byte| byte.is_ascii_digit()).then(|| code.to_owned())
    });
    codes.collect()
}

/// The crates whose sources name each code.
fn used() -> BTreeMap<String, Vec<String>> {
    let mut used: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // Contract suites ask for the codes of others.
    for name in crates().into_iter().filter(|name| !name.ends_with("/contract")) {
        let mut codes = BTreeSet::new();
        codes_below(&workspace().join(&name).join("src"), &mut codes);
        for code in codes {
            used.entry(code).or_default().push(name.clone());
        }
    }
    used
}

fn pages() -> BTreeSet<String> {
    let names = std::fs::read_dir(workspace().join("docs/errors")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.strip_suffix(".md").filter(|name| *name != "README").map(ToOwned::to_owned)).collect()
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let used = used();
    assert!(used.len() > 50, "the sources are found: {used:?}");
    let codes: BTreeSet<String> = used.keys().cloned().collect();
    let pages = pages();
    let (missing, unused): (Vec<_>, Vec<_>) = (codes.difference(&pages).collect(), pages.difference(&codes).collect());
    assert!(missing.is_empty(), "write docs/errors/CODE.md for {missing:?}");
    assert!(unused.is_empty(), "no source names {unused:?}: remove their pages");
}

#[test]
fn every_code_belongs_to_one_crate() {
    let shared: Vec<_> = used().into_iter().filter(|(_, crates)| crates.len() > 1).collect();
    assert!(shared.is_empty(), "give each of these errors a code of its own: {shared:?}");
}

#[test]
fn every_page_has_all_parts_and_a_line_in_the_registry() {
    let folder = workspace().join("docs/errors");
    let registry = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for code in pages() {
        let page = std::fs::read_to_string(folder.join(format!("{code}.md"))).unwrap();
        assert!(page.starts_with(&format!("# {code}: ")), "{code}: the title begins with the code");
        for part in ["## What it means", "## Why it happens", "## What to do"] {
            assert!(page.contains(part), "{code} lacks {part:?}");
        }
        let title = page.lines().next().unwrap().trim_start_matches("# ").split_once(": ").unwrap().1;
        let line = format!("| [{code}]({code}.md) | {title} |");
        assert!(registry.contains(&line), "docs/errors/README.md lacks the line {line:?}");
    }
    let listed = registry.lines().filter(|line| line.starts_with("| [WR")).count();
    assert_eq!(listed, pages().len(), "the registry lists each page once");
}

#[test]
fn codes_are_found_and_nothing_else() {
    let found = codes_in("WR0123: \"WR0456\" WR12 WRITE WR0789");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["WR0123", "WR0456", "WR0789"]);
}
