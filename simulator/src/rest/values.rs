//! Names and values of a subtask's metrics.

use std::collections::BTreeMap;

use super::io::shown_records_in;
use crate::model::Sample;
use crate::num::{real, whole};
use crate::spec::{FlinkVersion, SourceKind, VertexSpec};

/// Metrics that Weir does not read: present, and zero.
const ZEROS: [&str; 43] = [
    "Shuffle.Netty.Input.Buffers.inputExclusiveBuffersUsage",
    "Shuffle.Netty.Input.Buffers.inputFloatingBuffersUsage",
    "Shuffle.Netty.Input.Buffers.inputQueueLength",
    "Shuffle.Netty.Input.Buffers.inputQueueSize",
    "Shuffle.Netty.Input.numBuffersInLocal",
    "Shuffle.Netty.Input.numBuffersInLocalPerSecond",
    "Shuffle.Netty.Input.numBuffersInRemote",
    "Shuffle.Netty.Input.numBuffersInRemotePerSecond",
    "Shuffle.Netty.Input.numBytesInLocal",
    "Shuffle.Netty.Input.numBytesInLocalPerSecond",
    "Shuffle.Netty.Input.numBytesInRemote",
    "Shuffle.Netty.Input.numBytesInRemotePerSecond",
    "Shuffle.Netty.Output.Buffers.outputQueueLength",
    "Shuffle.Netty.Output.Buffers.outputQueueSize",
    "changelogBusyTimeMsPerSecond",
    "checkpointStartDelayNanos",
    "hardBackPressuredTimeMsPerSecond",
    "initializationTime",
    "mailboxLatencyMs_max",
    "mailboxLatencyMs_mean",
    "mailboxLatencyMs_median",
    "mailboxLatencyMs_min",
    "mailboxLatencyMs_p75",
    "mailboxLatencyMs_p90",
    "mailboxLatencyMs_p95",
    "mailboxLatencyMs_p98",
    "mailboxLatencyMs_p99",
    "mailboxLatencyMs_p999",
    "mailboxLatencyMs_stddev",
    "mailboxMailsPerSecond",
    "mailboxQueueSize",
    "maxHardBackPressureTimeMs",
    "maxSoftBackPressureTimeMs",
    "numBuffersInLocal",
    "numBuffersInLocalPerSecond",
    "numBuffersInRemote",
    "numBuffersInRemotePerSecond",
    "numBuffersOut",
    "numBuffersOutPerSecond",
    "numBytesInLocal",
    "numBytesInLocalPerSecond",
    "numBytesInRemote",
    "numBytesInRemotePerSecond",
];

/// The deprecated doubles of buffer metrics, gone in 2.0.
const OLD_BUFFERS: [&str; 6] = [
    "buffers.inputExclusiveBuffersUsage",
    "buffers.inputFloatingBuffersUsage",
    "buffers.inputQueueLength",
    "buffers.inputQueueSize",
    "buffers.outputQueueLength",
    "buffers.outputQueueSize",
];

const NO_WATERMARK: i64 = i64::MIN;

/// Metrics of one subtask by name.
pub(super) type Values = BTreeMap<String, String>;

/// All metrics of a subtask of `vertex`, whose input records have `in_bytes` bytes.
pub(super) fn values(version: FlinkVersion, vertex: &VertexSpec, sample: &Sample, in_bytes: u64) -> Values {
    let mut values = Values::new();
    for name in ZEROS {
        values.insert(name.into(), "0".into());
    }
    if version < FlinkVersion::V2_0 {
        for name in OLD_BUFFERS {
            values.insert(name.into(), "0".into());
        }
        values.insert("buffers.inPoolUsage".into(), real_text(sample.in_pool));
        values.insert("buffers.outPoolUsage".into(), real_text(sample.out_pool));
    }
    if version >= FlinkVersion::V1_20 {
        values.insert("numFiredTimers".into(), "0".into());
        values.insert("numFiredTimersPerSecond".into(), "0.0".into());
    }
    task(&mut values, version, vertex, sample, in_bytes);
    operators(&mut values, vertex, sample);
    values
}

fn task(values: &mut Values, version: FlinkVersion, vertex: &VertexSpec, sample: &Sample, in_bytes: u64) {
    let (counters, rates) = (&sample.counters, &sample.rates);
    let legacy = sample.source == Some(SourceKind::Legacy);
    let unknown = legacy || sample.initializing;
    let read = shown_records_in(version, sample.source, counters.records_in);
    let read_rate = if read == 0 { 0.0 } else { rates.records_in };
    let in_bytes = if sample.source.is_some() { 0 } else { in_bytes };
    let busy = |ms: String| if unknown { "NaN".to_owned() } else { ms };
    let idle = if legacy { 0.0 } else { rates.idle };
    let mut put = |name: &str, value: String| values.insert(name.into(), value);
    put("Shuffle.Netty.Input.Buffers.inPoolUsage", real_text(sample.in_pool));
    put("Shuffle.Netty.Output.Buffers.outPoolUsage", real_text(sample.out_pool));
    put("accumulateBackPressuredTimeMs", whole(counters.back_pressured_ms).to_string());
    put("accumulateBusyTimeMs", busy(real_text(counters.busy_ms.floor())));
    put("accumulateIdleTimeMs", if legacy { "0".into() } else { whole(counters.idle_ms).to_string() });
    put("backPressuredTimeMsPerSecond", whole(rates.back_pressured).to_string());
    put("busyTimeMsPerSecond", busy(real_text(rates.busy)));
    if sample.source.is_none() {
        put("checkpointAlignmentTime", "0".into());
        put("currentInputWatermark", NO_WATERMARK.to_string());
    }
    put("idleTimeMsPerSecond", whole(idle).to_string());
    put("isBackPressured", (rates.back_pressured >= 100.0).to_string());
    put("numBytesIn", (counters.records_in * in_bytes).to_string());
    put("numBytesInPerSecond", real_text(rates.records_in * real(in_bytes)));
    put("numBytesOut", (counters.records_out * vertex.record_bytes).to_string());
    put("numBytesOutPerSecond", real_text(rates.records_out * real(vertex.record_bytes)));
    put("numRecordsIn", read.to_string());
    put("numRecordsInPerSecond", real_text(read_rate));
    put("numRecordsOut", counters.records_out.to_string());
    put("numRecordsOutPerSecond", real_text(rates.records_out));
    put("softBackPressuredTimeMsPerSecond", whole(rates.back_pressured).to_string());
}

/// Metrics of the operators of the chain: the first takes the task's input, the last emits its output.
fn operators(values: &mut Values, vertex: &VertexSpec, sample: &Sample) {
    let names: Vec<String> = vertex.name.split(" -> ").map(metric_name).collect();
    let last = names.len().saturating_sub(1);
    for (place, name) in names.iter().enumerate() {
        let (counters, rates) = (&sample.counters, &sample.rates);
        let generator = place == 0 && matches!(sample.source, Some(SourceKind::Generator | SourceKind::Legacy));
        let (read, read_rate) = if generator { (0, 0.0) } else { (counters.records_in, rates.records_in) };
        // Within a chain each operator hands on what it took; only the end of the chain has the vertex's selectivity.
        let (wrote, write_rate) = if place == last {
            (counters.records_out, rates.records_out)
        } else {
            (counters.records_in, rates.records_in)
        };
        let mut put = |metric: &str, value: String| values.insert(format!("{name}.{metric}"), value);
        put("numRecordsIn", read.to_string());
        put("numRecordsInPerSecond", real_text(read_rate));
        put("numRecordsOut", wrote.to_string());
        put("numRecordsOutPerSecond", real_text(write_rate));
        for metric in ["numBytesIn", "numBytesInPerSecond", "numBytesOut", "numBytesOutPerSecond"] {
            put(metric, "0".into());
        }
        put("currentOutputWatermark", NO_WATERMARK.to_string());
        if place > 0 || sample.source.is_none() {
            put("currentInputWatermark", NO_WATERMARK.to_string());
        }
        if place == 0 && matches!(sample.source, Some(SourceKind::Queue | SourceKind::QueueWithoutLag)) {
            put("numRecordsInErrors", "0".into());
            put("sourceIdleTime", "0".into());
            put("currentEmitEventTimeLag", NO_WATERMARK.to_string());
        }
        if place == 0 && sample.source == Some(SourceKind::Queue) {
            put("pendingRecords", sample.waiting.to_string());
        }
    }
}

/// An operator's name as the REST API has it.
fn metric_name(operator: &str) -> String {
    operator.replace([' ', '.', ':', ','], "_")
}

fn real_text(value: f64) -> String {
    format!("{value:?}")
}
