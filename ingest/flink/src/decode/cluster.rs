//! `/config`, `/overview`, `/taskmanagers` and `/taskmanagers/:id`.

use serde::Deserialize;

use super::lenient::{List, Loose, Number, Object, document, excerpt};
use super::{DecodeError, Decoded, Problems};
use crate::Version;

/// What the JobManager tells its own web page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebConfig {
    /// The version, where it can be read.
    pub version: Option<Version>,
    /// The version as Flink writes it.
    pub version_text: String,
    /// How often the page asks again, in milliseconds: answers about jobs are cached for as long.
    pub refresh_interval_ms: Option<i64>,
}

/// The cluster in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overview {
    /// TaskManagers that are registered.
    pub task_managers: Option<u32>,
    /// Slots of all of them.
    pub slots_total: Option<u32>,
    /// Slots that nobody uses. It stays low for about a minute after a shrink.
    pub slots_available: Option<u32>,
    /// Jobs that run.
    pub jobs_running: Option<u32>,
    /// The version as Flink writes it.
    pub version_text: String,
}

/// How a TaskManager's memory is cut, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MemoryPools {
    /// Heap for Flink itself.
    pub framework_heap: Option<f64>,
    /// Heap for tasks.
    pub task_heap: Option<f64>,
    /// Direct and native memory for Flink itself.
    pub framework_off_heap: Option<f64>,
    /// Direct and native memory for tasks.
    pub task_off_heap: Option<f64>,
    /// Network buffers.
    pub network: Option<f64>,
    /// Managed memory.
    pub managed: Option<f64>,
    /// Classes.
    pub metaspace: Option<f64>,
    /// Everything else of the process.
    pub overhead: Option<f64>,
    /// The whole process.
    pub total_process: Option<f64>,
}

/// A TaskManager.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskManager {
    /// Resource id.
    pub id: String,
    /// Slots that it offers.
    pub slots: Option<u32>,
    /// Slots that are free.
    pub slots_free: Option<u32>,
    /// Processors that the configuration grants.
    pub cpu_cores: Option<f64>,
    /// Processors of its machine.
    pub machine_cores: Option<f64>,
    /// How its memory is cut.
    pub memory: MemoryPools,
    /// Milliseconds since it was last heard of.
    pub heartbeat_age_ms: Option<i64>,
}

/// A TaskManager with what its JVM uses, where that has been fetched.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskManagerDetail {
    /// What the list tells as well.
    pub summary: TaskManager,
    /// Heap in use, in bytes.
    pub heap_used: Option<f64>,
    /// Largest heap, in bytes.
    pub heap_max: Option<f64>,
    /// Time spent collecting garbage since the JVM started, in milliseconds, all collectors.
    pub gc_time_ms: Option<f64>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct RawWebConfig {
    refresh_interval: Loose<Number>,
    flink_version: Loose<String>,
}

/// Reads `/config`.
///
/// # Errors
/// If it is no JSON object, or none of Flink's.
pub fn web_config(body: &[u8]) -> Result<Decoded<WebConfig>, DecodeError> {
    let raw: RawWebConfig = document::<Object<_>>(body, "Flink's configuration")?.0;
    let mut problems = Problems::default();
    let Some(version_text) = raw.flink_version.take("flink-version", &mut problems) else {
        return Err(DecodeError::Shape { expected: "Flink's configuration", received: excerpt(body) });
    };
    let value = WebConfig {
        version: Version::parse(&version_text),
        version_text,
        refresh_interval_ms: raw.refresh_interval.millis("refresh-interval", &mut problems),
    };
    Ok(Decoded { value, problems })
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct RawOverview {
    taskmanagers: Loose<Number>,
    slots_total: Loose<Number>,
    slots_available: Loose<Number>,
    jobs_running: Loose<Number>,
    flink_version: Loose<String>,
}

/// Reads `/overview`.
///
/// # Errors
/// If it is no JSON object.
pub fn overview(body: &[u8]) -> Result<Decoded<Overview>, DecodeError> {
    let raw: RawOverview = document::<Object<_>>(body, "an overview of the cluster")?.0;
    let mut problems = Problems::default();
    let value = Overview {
        task_managers: raw.taskmanagers.small("taskmanagers", &mut problems),
        slots_total: raw.slots_total.small("slots-total", &mut problems),
        slots_available: raw.slots_available.small("slots-available", &mut problems),
        jobs_running: raw.jobs_running.small("jobs-running", &mut problems),
        version_text: raw.flink_version.take("flink-version", &mut problems).unwrap_or_default(),
    };
    Ok(Decoded { value, problems })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawTaskManagers {
    taskmanagers: Loose<List<Object<RawTaskManager>>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawTaskManager {
    id: Loose<String>,
    slots_number: Loose<Number>,
    free_slots: Loose<Number>,
    time_since_last_heartbeat: Loose<Number>,
    total_resource: Loose<Object<RawCores>>,
    hardware: Loose<Object<RawCores>>,
    memory_configuration: Loose<Object<RawMemory>>,
    metrics: Loose<Object<RawJvm>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawCores {
    cpu_cores: Loose<Number>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawMemory {
    framework_heap: Loose<Number>,
    task_heap: Loose<Number>,
    framework_off_heap: Loose<Number>,
    task_off_heap: Loose<Number>,
    network_memory: Loose<Number>,
    managed_memory: Loose<Number>,
    jvm_metaspace: Loose<Number>,
    jvm_overhead: Loose<Number>,
    total_process_memory: Loose<Number>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawJvm {
    heap_used: Loose<Number>,
    heap_max: Loose<Number>,
    garbage_collectors: Loose<List<Object<RawCollector>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawCollector {
    time: Loose<Number>,
}

/// Reads `/taskmanagers`. TaskManagers without an id are dropped and counted.
///
/// # Errors
/// If it is no JSON object, or holds no list.
pub fn task_managers(body: &[u8]) -> Result<Decoded<Vec<TaskManager>>, DecodeError> {
    let raw: RawTaskManagers = document::<Object<_>>(body, "a list of TaskManagers")?.0;
    let mut problems = Problems::default();
    if matches!(raw.taskmanagers, Loose::Absent) {
        return Err(DecodeError::Shape { expected: "a list of TaskManagers", received: excerpt(body) });
    }
    let raw = raw.taskmanagers.items("taskmanagers", &mut problems);
    let value = raw.into_iter().filter_map(|Object(raw)| Some(read(raw, &mut problems)?.summary)).collect();
    Ok(Decoded { value, problems })
}

/// Reads `/taskmanagers/:id`.
///
/// # Errors
/// If it is no JSON object, or none of a TaskManager.
pub fn task_manager(body: &[u8]) -> Result<Decoded<TaskManagerDetail>, DecodeError> {
    let raw: RawTaskManager = document::<Object<_>>(body, "a TaskManager")?.0;
    let mut problems = Problems::default();
    match read(raw, &mut problems) {
        Some(value) => Ok(Decoded { value, problems }),
        None => Err(DecodeError::Shape { expected: "a TaskManager", received: excerpt(body) }),
    }
}

fn read(raw: RawTaskManager, problems: &mut Problems) -> Option<TaskManagerDetail> {
    problems.enter("");
    let Some(id) = raw.id.take("id", problems).filter(|id| !id.is_empty()) else {
        problems.note("TaskManager without an id");
        return None;
    };
    problems.enter(format!("TaskManager {id}"));
    let granted = raw.total_resource.object("totalResource", problems).unwrap_or_default();
    let machine = raw.hardware.object("hardware", problems).unwrap_or_default();
    let memory = raw.memory_configuration.object("memoryConfiguration", problems).unwrap_or_default();
    let summary = TaskManager {
        id,
        slots: raw.slots_number.small("slotsNumber", problems),
        slots_free: raw.free_slots.small("freeSlots", problems),
        cpu_cores: granted.cpu_cores.counter("totalResource.cpuCores", problems).filter(|&cores| cores > 0.0),
        machine_cores: machine.cpu_cores.counter("hardware.cpuCores", problems).filter(|&cores| cores > 0.0),
        memory: pools(memory, problems),
        heartbeat_age_ms: raw.time_since_last_heartbeat.millis("timeSinceLastHeartbeat", problems),
    };
    let jvm = raw.metrics.object("metrics", problems).unwrap_or_default();
    let heap_max = jvm.heap_max.counter("heapMax", problems);
    // All numbers are 0 until they have been fetched; no JVM has a heap of 0 bytes.
    let fetched = heap_max.is_some_and(|bytes| bytes > 0.0);
    let collectors = jvm.garbage_collectors.items("garbageCollectors", problems);
    let gc_times: Option<Vec<f64>> =
        collectors.into_iter().map(|Object(collector)| collector.time.counter("time", problems)).collect();
    Some(TaskManagerDetail {
        summary,
        heap_used: jvm.heap_used.counter("heapUsed", problems).filter(|_| fetched),
        heap_max: heap_max.filter(|_| fetched),
        gc_time_ms: gc_times.filter(|times| fetched && !times.is_empty()).map(|times| times.iter().sum()),
    })
}

fn pools(raw: RawMemory, problems: &mut Problems) -> MemoryPools {
    MemoryPools {
        framework_heap: raw.framework_heap.counter("frameworkHeap", problems),
        task_heap: raw.task_heap.counter("taskHeap", problems),
        framework_off_heap: raw.framework_off_heap.counter("frameworkOffHeap", problems),
        task_off_heap: raw.task_off_heap.counter("taskOffHeap", problems),
        network: raw.network_memory.counter("networkMemory", problems),
        managed: raw.managed_memory.counter("managedMemory", problems),
        metaspace: raw.jvm_metaspace.counter("jvmMetaspace", problems),
        overhead: raw.jvm_overhead.counter("jvmOverhead", problems),
        total_process: raw.total_process_memory.counter("totalProcessMemory", problems),
    }
}
