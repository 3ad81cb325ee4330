//! What a fetch of the metric fetcher brings: subtasks, jobs, `TaskManager`s, the `JobManager`.

use std::collections::BTreeMap;

use super::cluster::Cluster;
use super::job::{Job, JobStatus};
use super::pool::TaskManager;
use super::store::JobMetrics;
use crate::num::{real, real_len, real_ms, whole, wide};
use crate::spec::FlinkVersion;

/// Heap of a `TaskManager`.
pub(crate) const TM_HEAP_BYTES: u64 = 401_604_608;
const JM_HEAP_BYTES: u64 = 469_762_048;
/// Network memory of a `TaskManager`, and its segment size.
pub(crate) const NETWORK_BYTES: u64 = 134_217_728;
const SEGMENT_BYTES: u64 = 4_096;
/// Managed memory of a `TaskManager`.
pub(crate) const MANAGED_BYTES: u64 = 16_777_216;

type Values = BTreeMap<&'static str, String>;

impl Cluster {
    /// Fills the store with what is true at `now_ms`.
    pub(super) fn measure(&mut self, now_ms: i64) {
        for job in self.jobs.iter().filter(|job| job.is_known() && !job.status.is_terminal()) {
            let entry: &mut JobMetrics = self.store.snapshot.jobs.entry(job.spec.id.clone()).or_default();
            let samples: Vec<_> = (0..job.spec.vertices.len()).map(|vertex| job.samples(vertex)).collect();
            // Tasks that do not run bring nothing, and the store keeps what it has.
            if samples.iter().any(|vertex| !vertex.is_empty()) {
                entry.vertices = samples;
            }
            entry.job = job_values(job, now_ms, self.spec.version);
        }
        let mut managers = BTreeMap::new();
        for (index, member) in self.pool.registered().filter(|(_, member)| member.alive) {
            let busy = member.past_busy_ms + self.jobs.iter().map(|job| job.busy_on(index)).sum::<f64>();
            let before = self.busy_before.insert(member.id.clone(), (now_ms, busy));
            managers.insert(member.id.clone(), manager_values(member, now_ms, busy, before, self.spec.version));
        }
        self.store.snapshot.task_managers = managers;
        self.store.snapshot.job_manager = self.job_manager_values(now_ms);
    }

    fn job_manager_values(&self, now_ms: i64) -> Values {
        let running = self.jobs.iter().filter(|job| job.status == JobStatus::Running).count();
        let mut values = jvm_values(now_ms - self.started_ms, 0.0, 0.01, JM_HEAP_BYTES, self.spec.version);
        values.insert("numRegisteredTaskManagers", self.pool.registered().count().to_string());
        values.insert("numRunningJobs", running.to_string());
        values.insert("taskSlotsAvailable", self.pool.free().to_string());
        values.insert("taskSlotsTotal", self.pool.total().to_string());
        values
    }
}

fn job_values(job: &Job, now_ms: i64, version: FlinkVersion) -> Values {
    let mut values = Values::new();
    let since = |status| job.entered(status).map_or(0, |at| now_ms - at);
    let up = job.running_since().map_or(0, |at| now_ms - at);
    let down = if job.runs() || job.status.is_terminal() { 0 } else { since(JobStatus::Restarting) };
    let completed = job.checkpoints.latest.completed.as_ref();
    let number = |value: Option<i64>| value.unwrap_or(-1).to_string();
    values.insert("uptime", up.to_string());
    values.insert("downtime", down.to_string());
    values.insert("numRestarts", job.restarts.to_string());
    if version.has_num_rescales() {
        values.insert("numRescales", job.rescales.to_string());
        values.insert("lastCheckpointCompletedTimestamp", number(completed.map(|c| c.ended_ms)));
    } else {
        values.insert("fullRestarts", job.restarts.to_string());
    }
    if version >= FlinkVersion::V2_3 {
        values.insert("allSubTasksRunningOrFinishedTime", up.to_string());
        values.insert("lastCheckpointMetadataSize", number(completed.map(|_| 4_096)));
    }
    values.insert("runningTime", up.to_string());
    values.insert("restartingTime", down.to_string());
    for name in ["createdTime", "cancellingTime", "deployingTime", "failingTime", "initializingTime"] {
        values.insert(name, "0".into());
    }
    checkpoint_values(&mut values, job);
    values
}

fn checkpoint_values(values: &mut Values, job: &Job) {
    let latest = &job.checkpoints.latest;
    let completed = latest.completed.as_ref();
    let number = |value: Option<i64>| value.unwrap_or(-1).to_string();
    let bytes = completed.map_or_else(|| "-1".into(), |c| c.bytes.to_string());
    let failed = job.checkpoints.failed;
    let open = u64::from(job.checkpoints.in_progress().is_some());
    values.insert("numberOfCompletedCheckpoints", job.checkpoints.completed.to_string());
    values.insert("numberOfFailedCheckpoints", failed.to_string());
    values.insert("numberOfInProgressCheckpoints", open.to_string());
    values.insert("totalNumberOfCheckpoints", (job.checkpoints.completed + failed + open).to_string());
    values.insert("lastCheckpointDuration", number(completed.map(|c| c.ended_ms - c.triggered_ms)));
    values.insert("lastCheckpointSize", bytes.clone());
    values.insert("lastCheckpointFullSize", bytes);
    values.insert("lastCheckpointProcessedData", completed.map_or_else(|| "-1".into(), |_| "0".into()));
    values.insert("lastCheckpointPersistedData", completed.map_or_else(|| "-1".into(), |_| "0".into()));
    values.insert("lastCheckpointExternalPath", completed.map_or_else(|| "n/a".into(), |c| c.path.clone()));
    values.insert("lastCheckpointRestoreTimestamp", number(latest.restored.as_ref().map(|r| r.at_ms)));
    values.insert("lastCompletedCheckpointId", completed.map_or_else(|| "-1".into(), |c| c.id.to_string()));
}

/// Metrics of a `TaskManager` that was busy for `busy_ms` in all.
fn manager_values(
    member: &TaskManager,
    now_ms: i64,
    busy_ms: f64,
    before: Option<(i64, f64)>,
    version: FlinkVersion,
) -> Values {
    let (then_ms, busy_then) = before.unwrap_or((member.started_ms, 0.0));
    let span = real_ms((now_ms - then_ms).max(1));
    let load = (0.01 + (busy_ms - busy_then).max(0.0) / span / real_len(member.slots)).min(1.0);
    let mut values = jvm_values(now_ms - member.started_ms, busy_ms, load, TM_HEAP_BYTES, version);
    let segments = NETWORK_BYTES / SEGMENT_BYTES;
    let used = wide(member.slots - member.free()).saturating_mul(256).min(segments);
    values.insert("Status.Shuffle.Netty.TotalMemory", NETWORK_BYTES.to_string());
    values.insert("Status.Shuffle.Netty.UsedMemory", (used * SEGMENT_BYTES).to_string());
    values.insert("Status.Shuffle.Netty.AvailableMemory", ((segments - used) * SEGMENT_BYTES).to_string());
    values.insert("Status.Shuffle.Netty.TotalMemorySegments", segments.to_string());
    values.insert("Status.Shuffle.Netty.UsedMemorySegments", used.to_string());
    values.insert("Status.Shuffle.Netty.AvailableMemorySegments", (segments - used).to_string());
    values.insert("Status.Shuffle.Netty.RequestedMemoryUsage", (used * 100 / segments).to_string());
    if version < FlinkVersion::V2_0 {
        values.insert("Status.Network.TotalMemorySegments", segments.to_string());
        values.insert("Status.Network.AvailableMemorySegments", (segments - used).to_string());
    }
    values.insert("Status.Flink.Memory.Managed.Total", MANAGED_BYTES.to_string());
    values.insert("Status.Flink.Memory.Managed.Used", "0".into());
    values
}

/// Metrics of a JVM that has been up for `up_ms`, worked for `busy_ms`, and works now with `load`.
fn jvm_values(up_ms: i64, busy_ms: f64, load: f64, heap: u64, version: FlinkVersion) -> Values {
    let mut values = Values::new();
    // A working millisecond allocates 30 kB; a young collection comes when half of the heap is full of them.
    let allocated = whole(busy_ms + real_ms(up_ms) * 0.02) * 30_000;
    let young = heap / 2;
    let collections = allocated / young;
    let live = heap / 5;
    let cpu_ns = whole((busy_ms + real_ms(up_ms) * 0.02) * 1e6);
    values.insert("Status.JVM.CPU.Load", format!("{load:?}"));
    values.insert("Status.JVM.CPU.Time", cpu_ns.to_string());
    values.insert("Status.JVM.Memory.Heap.Used", (live + allocated % young).to_string());
    values.insert("Status.JVM.Memory.Heap.Committed", heap.to_string());
    values.insert("Status.JVM.Memory.Heap.Max", heap.to_string());
    for (scope, used, max) in [("NonHeap", 70_000_000_u64, 780_140_544_i64), ("Metaspace", 50_000_000, 268_435_456)] {
        let names = match scope {
            "NonHeap" => NON_HEAP,
            _ => METASPACE,
        };
        values.insert(names[0], used.to_string());
        values.insert(names[1], (used + 1_000_000).to_string());
        values.insert(names[2], max.to_string());
    }
    for (name, value) in FIXED {
        values.insert(name, value.into());
    }
    values.insert("Status.JVM.GarbageCollector.Copy.Count", collections.to_string());
    values.insert("Status.JVM.GarbageCollector.Copy.Time", (collections * 6).to_string());
    values.insert("Status.JVM.GarbageCollector.MarkSweepCompact.Count", "2".into());
    values.insert("Status.JVM.GarbageCollector.MarkSweepCompact.Time", "60".into());
    if version >= FlinkVersion::V1_20 {
        values.extend(newer_collector_values(collections, load));
    }
    values
}

fn newer_collector_values(collections: u64, load: f64) -> [(&'static str, String); 5] {
    let per_second = format!("{:?}", real(whole(load * 1000.0)) * 0.006);
    [
        ("Status.JVM.GarbageCollector.All.Count", (collections + 2).to_string()),
        ("Status.JVM.GarbageCollector.All.Time", (collections * 6 + 60).to_string()),
        ("Status.JVM.GarbageCollector.All.TimeMsPerSecond", per_second.clone()),
        ("Status.JVM.GarbageCollector.Copy.TimeMsPerSecond", per_second),
        ("Status.JVM.GarbageCollector.MarkSweepCompact.TimeMsPerSecond", "0.0".into()),
    ]
}

const NON_HEAP: [&str; 3] =
    ["Status.JVM.Memory.NonHeap.Used", "Status.JVM.Memory.NonHeap.Committed", "Status.JVM.Memory.NonHeap.Max"];
const METASPACE: [&str; 3] =
    ["Status.JVM.Memory.Metaspace.Used", "Status.JVM.Memory.Metaspace.Committed", "Status.JVM.Memory.Metaspace.Max"];
const FIXED: [(&str, &str); 9] = [
    ("Status.JVM.ClassLoader.ClassesLoaded", "9500"),
    ("Status.JVM.ClassLoader.ClassesUnloaded", "0"),
    ("Status.JVM.Memory.Direct.Count", "4130"),
    ("Status.JVM.Memory.Direct.MemoryUsed", "138900000"),
    ("Status.JVM.Memory.Direct.TotalCapacity", "138900000"),
    ("Status.JVM.Memory.Mapped.Count", "0"),
    ("Status.JVM.Memory.Mapped.MemoryUsed", "0"),
    ("Status.JVM.Memory.Mapped.TotalCapacity", "0"),
    ("Status.JVM.Threads.Count", "60"),
];
