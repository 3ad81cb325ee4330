//! Names and values of metrics.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::lenient::{List, Loose, Number, Object, Written, document};
use super::{DecodeError, Decoded, Problems};

/// A metric over all subtasks. Only what was asked for is there.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Aggregate {
    /// Name of the metric.
    pub name: String,
    /// Smallest value.
    pub min: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
    /// Mean.
    pub avg: Option<f64>,
    /// Sum.
    pub sum: Option<f64>,
    /// Skew in per cent (Flink 2.0 on).
    pub skew: Option<f64>,
}

/// A single metric, which may be no number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetricValue {
    /// Name of the metric.
    pub name: String,
    /// Its value as Flink writes it.
    pub text: String,
}

impl MetricValue {
    /// The value, if it is a finite number.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        self.text.trim().parse().ok().filter(|value: &f64| value.is_finite())
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawMetric {
    id: Loose<String>,
    value: Loose<Written>,
    min: Loose<Number>,
    max: Loose<Number>,
    avg: Loose<Number>,
    sum: Loose<Number>,
    skew: Loose<Number>,
}

fn metrics(body: &[u8]) -> Result<Decoded<Vec<(String, RawMetric)>>, DecodeError> {
    let raw: List<Object<RawMetric>> = document(body, "a list of metrics")?;
    let mut problems = Problems::default();
    let mut value = Vec::with_capacity(raw.0.len());
    for Object(mut metric) in Loose::Value(raw).items("metric", &mut problems) {
        match std::mem::take(&mut metric.id).take("id", &mut problems) {
            Some(id) => value.push((id, metric)),
            None => problems.note("metric without an id"),
        }
    }
    Ok(Decoded { value, problems })
}

/// Reads a list of names: any metrics endpoint that is asked for nothing in particular.
///
/// # Errors
/// If it is no JSON list.
pub fn metric_names(body: &[u8]) -> Result<Decoded<Vec<String>>, DecodeError> {
    let Decoded { value, problems } = metrics(body)?;
    Ok(Decoded { value: value.into_iter().map(|(name, _)| name).collect(), problems })
}

/// Reads values over all subtasks. An empty list may mean that one name of the question is unknown.
///
/// # Errors
/// If it is no JSON list.
pub fn aggregates(body: &[u8]) -> Result<Decoded<Vec<Aggregate>>, DecodeError> {
    let Decoded { value, mut problems } = metrics(body)?;
    let mut all = Vec::with_capacity(value.len());
    for (name, raw) in value {
        problems.enter(name.clone());
        all.push(Aggregate {
            min: raw.min.float("min", &mut problems),
            max: raw.max.float("max", &mut problems),
            avg: raw.avg.float("avg", &mut problems),
            sum: raw.sum.float("sum", &mut problems),
            skew: raw.skew.float("skew", &mut problems),
            name,
        });
    }
    Ok(Decoded { value: all, problems })
}

/// Reads single values: of a job, a JobManager, a TaskManager or a subtask. Unknown names are left out by Flink.
///
/// # Errors
/// If it is no JSON list.
pub fn metric_values(body: &[u8]) -> Result<Decoded<Vec<MetricValue>>, DecodeError> {
    let Decoded { value, mut problems } = metrics(body)?;
    let mut all = Vec::with_capacity(value.len());
    for (name, raw) in value {
        problems.enter(name.clone());
        if let Some(Written(text)) = raw.value.take("value", &mut problems) {
            all.push(MetricValue { name, text });
        }
    }
    Ok(Decoded { value: all, problems })
}

/// Names, among those of a vertex, that say how many records wait in the external system; one for each source in the chain.
#[must_use]
pub fn pending_records_names(names: &[String]) -> Vec<&str> {
    let mut found: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| name.rsplit('.').next() == Some("pendingRecords")).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Splits that the names of a source's metrics mention, where the connector or Flink 2 has a metric for each.
#[must_use]
pub fn split_count(names: &[String]) -> Option<usize> {
    let splits: BTreeSet<&str> = names.iter().filter_map(|name| split_of(name)).collect();
    if splits.is_empty() { None } else { Some(splits.len()) }
}

/// The part of a name that names a split: of Flink's watermark metrics for each split, or of Kafka's offsets.
fn split_of(name: &str) -> Option<&str> {
    if let Some((_, rest)) = name.split_once(".split.") {
        return rest.split_once(".watermark.").map(|(split, _)| split);
    }
    let (_, rest) = name.split_once(".KafkaSourceReader.topic.")?;
    rest.strip_suffix(".currentOffset")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn waiting_records_are_found_for_each_source_of_a_chain() {
        let names = names(&[
            "numRecordsIn",
            "Source__b.pendingRecords",
            "Source__a.pendingRecords",
            "0.Source__a.pendingRecordsX",
            "Source__a.pendingBytes",
        ]);
        assert_eq!(pending_records_names(&names), ["Source__a.pendingRecords", "Source__b.pendingRecords"]);
    }

    #[test]
    fn splits_are_counted_once_each() {
        let flink_2 = names(&[
            "Source__s.split.split-0.watermark.currentWatermark",
            "Source__s.split.split-0.watermark.idleTimeMsPerSecond",
            "Source__s.split.split-1.watermark.currentWatermark",
        ]);
        assert_eq!(split_count(&flink_2), Some(2));
        let kafka = names(&[
            "Source__k.KafkaSourceReader.topic.orders.partition.0.currentOffset",
            "Source__k.KafkaSourceReader.topic.orders.partition.0.committedOffset",
            "Source__k.KafkaSourceReader.topic.orders.partition.1.currentOffset",
        ]);
        assert_eq!(split_count(&kafka), Some(2));
        assert_eq!(split_count(&names(&["numRecordsIn"])), None);
    }

    #[test]
    fn values_that_are_no_numbers_are_kept_as_text() {
        let read =
            metric_values(br#"[{"id":"a","value":"n/a"},{"id":"b","value":"7"},{"id":"c","value":3},{"value":"x"},5]"#);
        let read = read.unwrap();
        let numbers: Vec<Option<f64>> = read.iter().map(MetricValue::number).collect();
        assert_eq!(numbers, [None, Some(7.0), Some(3.0)]);
        assert_eq!(read.problems.count(), 2);
    }
}
