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
    /// Tags of the instances that should work for it.
    pub tags: BTreeSet<String>,
    /// How its JobManager is reached.
    pub http: HttpOptions,
}

impl Cluster {
    /// A cluster all of whose jobs are watched.
    #[must_use]
    pub fn at(name: &str, url: &str) -> Self {
        let http = HttpOptions { url: url.into(), ..HttpOptions::default() };
        Self { name: name.into(), include: Vec::new(), exclude: Vec::new(), tags: BTreeSet::new(), http }
    }
}

/// Where metrics and health are shown.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address to listen on, as `host:port`; `none` opens none; absent: the usual one of the service.
    pub listen: Option<String>,
}

impl Http {
    /// What is wrong with the address, if it cannot be one.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let listen = self.listen.as_ref()?;
        let port = listen.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let sound = listen == "none" || port.is_some();
        (!sound).then(|| format!("listen = {listen:?}: give host and port as in 127.0.0.1:9468, or none"))
    }
}

/// This process among others of the same service.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Instance {
    /// What it is called in messages and in `weir streams`; absent: the name of the machine.
    pub name: Option<String>,
    /// Tags that it carries; clusters and jobs may ask for them.
    pub tags: BTreeSet<String>,
}

impl Instance {
    /// Everything that is wrong with it, one sentence each.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let empty = |tag: &&String| tag.is_empty();
        let problem = self.tags.iter().find(empty).map(|_| "tags: an empty tag marks nothing".to_owned());
        problem.into_iter().collect()
    }

    /// The name of this process: like no other's, also none after a restart.
    #[must_use]
    pub fn id(&self, now_ms: i64) -> String {
        let machine = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let name = self.name.clone().or_else(machine).unwrap_or_default();
        let name = if name.trim().is_empty() { "weir" } else { name.trim() };
        format!("{name}-{}-{now_ms}", std::process::id())
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
        let tags = found.take(&mut table, "tags", &place).unwrap_or_default();
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
            clusters.push(Cluster { name, include, exclude, tags, http });
        }
    }
    clusters
}
