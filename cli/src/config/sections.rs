//! Sections that belong to no service.

use std::collections::BTreeSet;

use serde::Deserialize;
use weir_flink::HttpOptions;

use super::tables::Findings;

/// A cluster to watch.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Its name: part of the key of every job on it.
    pub name: String,
    /// Patterns of job names that are watched; none: all.
    pub include: Vec<String>,
    /// Patterns of job names that are left alone.
    pub exclude: Vec<String>,
    /// How its JobManager is reached.
    pub http: HttpOptions,
}

impl Cluster {
    /// A cluster all of whose jobs are watched.
    #[must_use]
    pub fn at(name: &str, url: &str) -> Self {
        let http = HttpOptions { url: url.into(), ..HttpOptions::default() };
        Self { name: name.into(), include: Vec::new(), exclude: Vec::new(), http }
    }
}

/// Where metrics and health are shown.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address to listen on, as `host:port`; `none` opens none.
    pub listen: String,
}

impl Http {
    /// What is wrong with the address, if it cannot be one.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let port = self.listen.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let sound = self.listen == "none" || port.is_some();
        (!sound).then(|| format!("listen = {:?}: give host and port as in 127.0.0.1:9468, or none", self.listen))
    }
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: "127.0.0.1:9468".into() }
    }
}

/// What is wrong with how long things are kept, one sentence each.
pub fn retention_problems(retention: weir_store::Retention) -> Vec<String> {
    let weir_store::Retention { decisions_ms, actions_ms, audit_ms } = retention;
    let kept = [("decisions_ms", decisions_ms), ("actions_ms", actions_ms), ("audit_ms", audit_ms)];
    kept.into_iter()
        .filter(|(_, kept_ms)| *kept_ms < 1)
        .map(|(name, kept_ms)| format!("{name} = {kept_ms} must be at least 1"))
        .collect()
}

/// Takes the clusters out of the file.
pub fn clusters(table: &mut toml::Table, found: &mut Findings) -> Vec<Cluster> {
    let mut names = BTreeSet::new();
    let mut clusters = Vec::new();
    for (index, mut table) in found.tables(table, "cluster").into_iter().enumerate() {
        let place = format!("[[cluster]] {}", index + 1);
        let name: Option<String> = found.take(&mut table, "name", &place);
        let include = found.take(&mut table, "include", &place).unwrap_or_default();
        let exclude = found.take(&mut table, "exclude", &place).unwrap_or_default();
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            found.problems.push(format!("{place}: give it a name: it becomes part of the key of every job on it"));
            continue;
        };
        if name.contains('/') {
            found
                .problems
                .push(format!("{place}: the name {name} must not hold a slash: it is a part of the keys of jobs"));
        }
        if !table.contains_key("url") {
            found.problems.push(format!("{place}: give the url of its JobManager, as in url = \"http://flink:8081\""));
        }
        if !names.insert(name.clone()) {
            found.problems.push(format!("{place}: the name {name} is taken by another cluster"));
        }
        if let Some(http) = found.whole::<HttpOptions>(table, &place) {
            clusters.push(Cluster { name, include, exclude, http });
        }
    }
    clusters
}
