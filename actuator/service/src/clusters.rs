//! The clusters, as items of work that actuators share.

use std::collections::{BTreeMap, BTreeSet};

use weir_placement::Item;

/// The lease of a cluster: whoever has it is its only writer.
pub(crate) fn lease_name(cluster: &str) -> String {
    format!("actuator/{cluster}")
}

/// The clusters, each asking for the tags that it was given.
pub(crate) fn items(clusters: &BTreeMap<String, BTreeSet<String>>) -> Vec<Item> {
    clusters.iter().map(|(name, tags)| Item { name: lease_name(name), wants: tags.clone() }).collect()
}
