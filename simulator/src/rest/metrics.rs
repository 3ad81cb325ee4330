//! Metrics from the store: lists of names, raw values, aggregates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::Query;
use super::path::{list, ranges};
use super::values::{Values, values};
use crate::model::{Cluster, JobMetrics};
use crate::num::real_len;
use crate::spec::{FlinkVersion, VertexSpec};

impl Cluster {
    pub(super) fn job_metrics(&self, id: &str, query: &Query) -> Value {
        raw(self.store.snapshot.jobs.get(id).map(|metrics| &metrics.job), query)
    }

    pub(super) fn job_manager_metrics(&self, query: &Query) -> Value {
        raw(Some(&self.store.snapshot.job_manager), query)
    }

    pub(super) fn task_manager_metrics(&self, id: &str, query: &Query) -> Value {
        raw(self.store.snapshot.task_managers.get(id), query)
    }

    pub(super) fn task_managers_metrics(&self, query: &Query) -> Value {
        let wanted = list(query, "taskmanagers");
        let chosen = self
            .store
            .snapshot
            .task_managers
            .iter()
            .filter(|(id, _)| wanted.is_empty() || wanted.contains(&id.as_str()));
        let owned = |(_, values): (_, &BTreeMap<&'static str, String>)| {
            values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
        };
        self.aggregated(&chosen.map(owned).collect::<Vec<Values>>(), query)
    }

    /// Metrics of each subtask of a vertex as of the last fetch; none if the store has none.
    fn subtask_values(&self, job: &str, vertex: &str) -> Vec<Values> {
        let Some(spec) = self.jobs.iter().find(|j| j.spec.id == job).map(|j| &j.spec) else { return Vec::new() };
        let Some(index) = spec.vertices.iter().position(|v| v.id == vertex) else { return Vec::new() };
        let stored = self.store.snapshot.jobs.get(job).and_then(|metrics: &JobMetrics| metrics.vertices.get(index));
        let input = spec.edges.iter().find(|edge| edge.to == spec.vertices[index].name);
        let upstream = input.and_then(|edge| spec.vertices.iter().find(|v: &&VertexSpec| v.name == edge.from));
        let in_bytes = upstream.map_or(0, |v| v.record_bytes);
        let of = |sample| values(self.spec.version, &spec.vertices[index], sample, in_bytes);
        stored.into_iter().flatten().map(of).collect()
    }

    pub(super) fn aggregated_subtask_metrics(&self, job: &str, vertex: &str, query: &Query) -> Value {
        let mut all = self.subtask_values(job, vertex);
        if let Some(wanted) = ranges(query, "subtasks") {
            let chosen = all.into_iter().enumerate().filter(|(index, _)| wanted.contains(index));
            all = chosen.map(|(_, values)| values).collect();
        }
        self.aggregated(&all, query)
    }

    pub(super) fn raw_subtask_metrics(&self, job: &str, vertex: &str, query: &Query) -> Value {
        let all = self.subtask_values(job, vertex);
        let mut named = BTreeMap::new();
        for (index, values) in all.into_iter().enumerate() {
            named.extend(values.into_iter().map(|(name, value)| (format!("{index}.{name}"), value)));
        }
        raw(Some(&named), query)
    }

    /// Aggregates over several components. One name that none of them has makes the whole answer empty.
    fn aggregated(&self, components: &[Values], query: &Query) -> Value {
        let wanted = list(query, "get");
        if wanted.is_empty() {
            let names: BTreeSet<&String> = components.iter().flat_map(|values| values.keys()).collect();
            return names.into_iter().map(|name| json!({ "id": name })).collect();
        }
        if wanted.iter().any(|name| !components.iter().any(|values| values.contains_key(*name))) {
            return json!([]);
        }
        let chosen = list(query, "agg");
        let skew = self.spec.version >= FlinkVersion::V1_20;
        let one = |name: &str| {
            let texts: Vec<&String> = components.iter().filter_map(|values| values.get(name)).collect();
            let numbers: Option<Vec<f64>> = texts.iter().map(|text| text.parse().ok()).collect();
            numbers.map(|numbers| aggregates(name, &numbers, &chosen, skew))
        };
        wanted.into_iter().filter_map(one).collect()
    }
}

fn raw<K: Ord + std::borrow::Borrow<str>>(stored: Option<&BTreeMap<K, String>>, query: &Query) -> Value {
    let Some(stored) = stored else { return json!([]) };
    let wanted = list(query, "get");
    if wanted.is_empty() {
        return stored.keys().map(|name| json!({ "id": name.borrow() })).collect();
    }
    let found = wanted.iter().filter_map(|name| stored.get(*name).map(|value| json!({ "id": name, "value": value })));
    found.collect()
}

fn aggregates(name: &str, numbers: &[f64], chosen: &[&str], with_skew: bool) -> Value {
    let count = real_len(numbers.len().max(1));
    let sum: f64 = numbers.iter().sum();
    let mean = sum / count;
    let deviation = numbers.iter().map(|number| (number - mean).abs()).sum::<f64>() / count;
    let skew = if mean > 0.0 { deviation / mean * 100.0 } else { 0.0 };
    // Not f64::min and max: those would hide a NaN, which Flink shows.
    let pick = |better: fn(f64, f64) -> bool| {
        let choose = |a: f64, b: f64| if a.is_nan() || better(a, b) { a } else { b };
        numbers.iter().copied().reduce(choose).unwrap_or(0.0)
    };
    let all = [
        ("min", pick(|a, b| a <= b)),
        ("max", pick(|a, b| a >= b)),
        ("avg", mean),
        ("sum", sum),
        ("skew", if mean.is_nan() { f64::NAN } else { skew }),
    ];
    let mut entry = Map::new();
    entry.insert("id".into(), name.into());
    for (kind, value) in all {
        let asked = if chosen.is_empty() { kind != "skew" || with_skew } else { chosen.contains(&kind) };
        if asked {
            entry.insert(kind.into(), if value.is_nan() { json!("NaN") } else { json!(value) });
        }
    }
    entry.into()
}
