//! The clusters, as items of work that actuators share.

use std::collections::{BTreeMap, BTreeSet};

use weir_placement::{Item, cluster_tag};

/// The lease of a cluster: whoever has it is its only writer.
pub(crate) fn lease_name(cluster: &str) -> String {
    format!("actuator/{cluster}")
}

/// The clusters, each asking for the tags that it was given, and for an instance that knows it.
pub(crate) fn items(clusters: &BTreeMap<String, BTreeSet<String>>) -> Vec<Item> {
    let item = |(name, tags): (&String, &BTreeSet<String>)| {
        let wants = tags.iter().cloned().chain([cluster_tag(name)]).collect();
        Item { name: lease_name(name), wants }
    };
    clusters.iter().map(item).collect()
}
