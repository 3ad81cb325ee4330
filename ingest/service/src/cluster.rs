//! What belongs to the cluster, not to a job: its configuration, its TaskManagers.

use futures::future::join_all;
use weir_flink::FlinkError;
use weir_flink::decode::{self, MetricValue, Scheduler};
use weir_schemas::records::TaskManager;

use crate::calls::Calls;

/// What rarely changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) version: String,
    pub(crate) scheduler: Option<Scheduler>,
    pub(crate) refresh_ms: i64,
    pub(crate) rival: Option<String>,
}

/// How often metrics are refreshed where that cannot be read, in milliseconds: Flink's default.
const DEFAULT_REFRESH_MS: i64 = 10_000;

/// Reads what rarely changes. Only the version must be readable: it shows that this is Flink.
pub(crate) async fn read_facts(calls: &Calls<'_>) -> Result<(Facts, Option<FlinkError>), FlinkError> {
    let web = calls.ask(calls.client.web_config()).await?;
    let mut facts = Facts { version: web.version_text, refresh_ms: DEFAULT_REFRESH_MS, ..Facts::default() };
    match calls.ask(calls.client.job_manager_config()).await {
        Ok(config) => {
            facts.scheduler = config.scheduler();
            facts.refresh_ms = config.fetch_interval_ms();
            facts.rival = config.rival();
            Ok((facts, None))
        }
        Err(error) => Ok((facts, Some(error))),
    }
}

/// Metrics of TaskManagers that are asked for. Those that a version or a collector does not have are left out by Flink.
const METRICS: [&str; 14] = [
    "Status.JVM.CPU.Load",
    "Status.JVM.CPU.Time",
    "Status.JVM.Memory.Heap.Used",
    "Status.JVM.Memory.Heap.Max",
    "Status.JVM.Memory.Metaspace.Used",
    "Status.Flink.Memory.Managed.Used",
    "Status.Flink.Memory.Managed.Total",
    ALL_COLLECTORS,
    "Status.JVM.GarbageCollector.G1_Young_Generation.Time",
    "Status.JVM.GarbageCollector.G1_Old_Generation.Time",
    "Status.JVM.GarbageCollector.G1_Concurrent_GC.Time",
    "Status.JVM.GarbageCollector.Copy.Time",
    "Status.JVM.GarbageCollector.MarkSweepCompact.Time",
    "Status.JVM.GarbageCollector.PS_MarkSweep.Time",
];
/// Time of all collectors together, from Flink 1.19 on.
const ALL_COLLECTORS: &str = "Status.JVM.GarbageCollector.All.Time";

/// Fills in the metrics of at most `most` TaskManagers, beginning at the `first`, in turn.
pub(crate) async fn read_metrics(calls: &Calls<'_>, managers: &mut [TaskManager], first: usize, most: usize) {
    let count = managers.len();
    let chosen: Vec<usize> = (0..count.min(most)).map(|step| (first + step) % count.max(1)).collect();
    let asked = chosen.iter().map(|&at| calls.ask(calls.client.task_manager_metrics(&managers[at].id, &METRICS)));
    let answers = join_all(asked).await;
    for (at, answer) in chosen.into_iter().zip(answers) {
        // A TaskManager that cannot be asked, or has just gone, simply has no metrics.
        if let Ok(values) = answer {
            fill_in(&mut managers[at], &values);
        }
    }
}

/// What the list of TaskManagers tells of one.
pub(crate) fn task_manager(listed: decode::TaskManager) -> TaskManager {
    TaskManager {
        id: listed.id,
        slots: listed.slots.unwrap_or(0),
        slots_free: listed.slots_free.unwrap_or(0),
        cpu_cores: listed.cpu_cores,
        managed_total_bytes: listed.memory.managed,
        ..TaskManager::default()
    }
}

fn fill_in(manager: &mut TaskManager, values: &[MetricValue]) {
    let value = |name: &str| {
        let found = values.iter().find(|value| value.name == name).and_then(MetricValue::number);
        found.filter(|value| *value >= 0.0)
    };
    manager.cpu_load = value("Status.JVM.CPU.Load");
    manager.cpu_time_ns = value("Status.JVM.CPU.Time");
    manager.heap_used_bytes = value("Status.JVM.Memory.Heap.Used");
    manager.heap_max_bytes = value("Status.JVM.Memory.Heap.Max");
    manager.metaspace_used_bytes = value("Status.JVM.Memory.Metaspace.Used");
    manager.managed_used_bytes = value("Status.Flink.Memory.Managed.Used");
    manager.managed_total_bytes = value("Status.Flink.Memory.Managed.Total").or(manager.managed_total_bytes);
    manager.gc_time_ms = value(ALL_COLLECTORS).or_else(|| {
        let single =
            |metric: &&MetricValue| metric.name.contains(".GarbageCollector.") && metric.name != ALL_COLLECTORS;
        let times: Vec<f64> = values.iter().filter(single).filter_map(MetricValue::number).collect();
        if times.is_empty() { None } else { Some(times.iter().sum()) }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_summed_where_flink_does_not() {
        let value = |name: &str, text: &str| MetricValue { name: name.into(), text: text.into() };
        let mut manager = TaskManager::default();
        let single = [
            value("Status.JVM.GarbageCollector.Copy.Time", "40"),
            value("Status.JVM.GarbageCollector.MarkSweepCompact.Time", "2"),
        ];
        fill_in(&mut manager, &single);
        assert_eq!(manager.gc_time_ms, Some(42.0));
        let all = [single.as_slice(), &[value(ALL_COLLECTORS, "43"), value("Status.JVM.CPU.Load", "-1")]].concat();
        fill_in(&mut manager, &all);
        assert_eq!((manager.gc_time_ms, manager.cpu_load), (Some(43.0), None));
    }
}
