//! Every metric is shown by somebody, with the labels that its help text and the manual name.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use weir_runtime::telemetry::CATALOGUE;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().into()
}

/// The sources below a folder, without what is built.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// The constants of the catalogue, each with its name.
fn constants() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(workspace().join("runtime/src/telemetry.rs")).unwrap();
    let constants = text.lines().filter_map(|line| line.strip_prefix("pub const ")?.split_once(": &str = "));
    constants.map(|(constant, name)| (constant.to_owned(), name.trim_matches(['"', ';']).to_owned())).collect()
}

/// The labels with which each metric is used.
fn used() -> BTreeMap<String, BTreeSet<String>> {
    let (mut texts, mut used) = (Vec::new(), BTreeMap::<String, BTreeSet<String>>::new());
    sources(&workspace(), &mut texts);
    let constants = constants();
    for text in &texts {
        for (at, prefix) in text.match_indices("!(telemetry::") {
            let rest = &text[at + prefix.len()..];
            let end = rest.find(|it: char| !it.is_ascii_uppercase() && it != '_').unwrap();
            let call = &rest[..rest.find(['\n', ';']).unwrap()];
            let labels = call.split("\" =>").collect::<Vec<_>>();
            let labels = labels.iter().rev().skip(1).map(|before| before.rsplit('"').next().unwrap().to_owned());
            if let Some(name) = constants.get(&rest[..end]) {
                used.entry(name.clone()).or_default().extend(labels);
            }
        }
    }
    used
}

#[test]
fn every_metric_is_shown_and_explained_with_its_labels() {
    let used = used();
    let manual = std::fs::read_to_string(workspace().join("docs/deployment.md")).unwrap();
    for &(name, _, help) in CATALOGUE {
        let labels = used.get(name).unwrap_or_else(|| panic!("nobody shows {name}"));
        let explained = help.split_once(", by ").map_or("", |(_, labels)| labels).split(" (").next().unwrap();
        let explained: BTreeSet<String> =
            explained.split(" and ").filter(|it| !it.is_empty()).map(ToOwned::to_owned).collect();
        assert_eq!(&explained, labels, "{name}: {help}");
        let row = manual.lines().find_map(|line| line.strip_prefix(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/deployment.md lacks {name}"));
        let listed = row.split('|').next().unwrap().split(',').map(|label| label.trim().trim_matches('`').to_owned());
        let listed: BTreeSet<String> = listed.filter(|it| !it.is_empty()).collect();
        assert_eq!(&listed, labels, "docs/deployment.md, {name}");
    }
}
