//! `TaskManager`s and the `JobManager`.

use serde_json::{Value, json};

use super::Answer;
use super::errors::internal;
use super::vertex::data_port;
use crate::model::{Cluster, MANAGED_BYTES, NETWORK_BYTES, TaskManager};
use crate::num::{real_len, wide};
use crate::spec::{FlinkVersion, Scheduler};

const MIB: u64 = 1_048_576;
const TASK_HEAP_BYTES: u64 = 369_098_752;
const FRAMEWORK_BYTES: u64 = 134_217_728;

impl Cluster {
    pub(super) fn task_managers_list(&self, now_ms: i64) -> Value {
        let all: Vec<Value> =
            self.pool.registered().map(|(number, member)| self.summary(now_ms, number, member)).collect();
        json!({ "taskmanagers": all })
    }

    fn summary(&self, now_ms: i64, number: usize, member: &TaskManager) -> Value {
        let mut value = json!({
            "id": member.id,
            "path": format!("pekko.tcp://flink@127.0.0.1:{}/user/rpc/taskmanager_0", data_port(number) + 1_000),
            "dataPort": data_port(number),
            "jmxPort": -1,
            "timeSinceLastHeartbeat": now_ms,
            "slotsNumber": member.slots,
            "freeSlots": member.free(),
            "totalResource": resource(member.slots, member.slots),
            "freeResource": resource(member.free(), member.slots),
            "hardware": {
                "cpuCores": member.slots,
                "physicalMemory": 17_179_869_184_u64,
                "freeMemory": TASK_HEAP_BYTES + FRAMEWORK_BYTES,
                "managedMemory": MANAGED_BYTES,
            },
            "memoryConfiguration": {
                "frameworkHeap": FRAMEWORK_BYTES,
                "taskHeap": TASK_HEAP_BYTES,
                "frameworkOffHeap": FRAMEWORK_BYTES,
                "taskOffHeap": 0,
                "networkMemory": NETWORK_BYTES,
                "managedMemory": MANAGED_BYTES,
                "jvmMetaspace": 268_435_456,
                "jvmOverhead": 201_326_592,
                "totalFlinkMemory": 788_529_152,
                "totalProcessMemory": 1_258_291_200,
            },
        });
        if self.spec.version >= FlinkVersion::V2_3 {
            value["assignedTasks"] = self.jobs.iter().map(|job| job.tasks_on(number)).sum::<u64>().into();
        }
        value
    }

    pub(super) fn task_manager(&self, now_ms: i64, id: &str) -> Answer {
        let (number, member) = self.pool.registered().find(|(_, member)| member.id == id).ok_or_else(|| {
            let class = "org.apache.flink.runtime.resourcemanager.exceptions.UnknownTaskExecutorException";
            internal(&format!("{class}: No TaskExecutor registered under {id}."))
        })?;
        let mut value = self.summary(now_ms, number, member);
        let mut slots = Vec::new();
        for job in &self.jobs {
            for _ in job.slots.iter().filter(|&&slot| slot == number) {
                slots.push(json!({ "jobId": job.spec.id, "resource": resource(1, member.slots) }));
            }
        }
        value["allocatedSlots"] = slots.into();
        value["metrics"] = self.jvm(id);
        Ok(value)
    }

    fn jvm(&self, id: &str) -> Value {
        let stored = self.store.snapshot.task_managers.get(id);
        let number = |name: &str| stored.and_then(|m| m.get(name)).and_then(|v| v.parse::<i64>().ok()).unwrap_or(0);
        let collectors: Vec<Value> = ["Copy", "MarkSweepCompact"]
            .iter()
            .filter(|_| stored.is_some())
            .map(|name| {
                let of = |what: &str| number(&format!("Status.JVM.GarbageCollector.{name}.{what}"));
                json!({ "name": name, "count": of("Count"), "time": of("Time") })
            })
            .collect();
        let mut metrics = json!({
            "heapUsed": number("Status.JVM.Memory.Heap.Used"),
            "heapCommitted": number("Status.JVM.Memory.Heap.Committed"),
            "heapMax": number("Status.JVM.Memory.Heap.Max"),
            "nonHeapUsed": number("Status.JVM.Memory.NonHeap.Used"),
            "nonHeapCommitted": number("Status.JVM.Memory.NonHeap.Committed"),
            "nonHeapMax": number("Status.JVM.Memory.NonHeap.Max"),
            "directCount": number("Status.JVM.Memory.Direct.Count"),
            "directUsed": number("Status.JVM.Memory.Direct.MemoryUsed"),
            "directMax": number("Status.JVM.Memory.Direct.TotalCapacity"),
            "mappedCount": 0,
            "mappedUsed": 0,
            "mappedMax": 0,
            "nettyShuffleMemorySegmentsAvailable": number("Status.Shuffle.Netty.AvailableMemorySegments"),
            "nettyShuffleMemorySegmentsUsed": number("Status.Shuffle.Netty.UsedMemorySegments"),
            "nettyShuffleMemorySegmentsTotal": number("Status.Shuffle.Netty.TotalMemorySegments"),
            "nettyShuffleMemoryAvailable": number("Status.Shuffle.Netty.AvailableMemory"),
            "nettyShuffleMemoryUsed": number("Status.Shuffle.Netty.UsedMemory"),
            "nettyShuffleMemoryTotal": number("Status.Shuffle.Netty.TotalMemory"),
            "garbageCollectors": collectors,
        });
        if self.spec.version < FlinkVersion::V2_0 {
            metrics["memorySegmentsAvailable"] = number("Status.Network.AvailableMemorySegments").into();
            metrics["memorySegmentsTotal"] = number("Status.Network.TotalMemorySegments").into();
        }
        metrics
    }

    pub(super) fn job_manager_config(&self) -> Value {
        let spec = &self.spec;
        let ms = |ms: i64| format!("{ms} ms");
        let mut pairs = vec![
            ("jobmanager.rpc.address", "127.0.0.1".to_owned()),
            ("rest.address", "127.0.0.1".to_owned()),
            ("metrics.fetcher.update-interval", spec.metrics_refresh_ms.to_string()),
            ("web.refresh-interval", spec.web_refresh_ms.to_string()),
            ("taskmanager.numberOfTaskSlots", spec.slots_per_task_manager.to_string()),
            ("taskmanager.memory.process.size", "1200m".to_owned()),
            ("slot.idle.timeout", ms(spec.slot_idle_ms)),
        ];
        match spec.scheduler {
            Scheduler::Adaptive => pairs.push(("jobmanager.scheduler", "adaptive".into())),
            Scheduler::Default => {}
            Scheduler::Reactive => pairs.push(("scheduler-mode", "reactive".into())),
        }
        if spec.version >= FlinkVersion::V2_0 {
            let prefix = |name: &'static str, value: i64| (name, ms(value));
            pairs.push(prefix("jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling", spec.cooldown_ms));
            let executing = "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout";
            pairs.push(prefix(executing, spec.executing_stabilization_ms));
            let submission = "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout";
            pairs.push(prefix(submission, spec.submission_stabilization_ms));
        } else {
            if spec.version.has_cooldown() {
                pairs.push(("jobmanager.adaptive-scheduler.scaling-interval.min", ms(spec.cooldown_ms)));
            }
            let name = "jobmanager.adaptive-scheduler.resource-stabilization-timeout";
            pairs.push((name, ms(spec.submission_stabilization_ms)));
        }
        pairs.into_iter().map(|(key, value)| json!({ "key": key, "value": value })).collect()
    }
}

/// The part of a `TaskManager`'s resources that `slots` of its `all` slots have.
fn resource(slots: usize, all: usize) -> Value {
    let part = |bytes: u64| bytes / MIB * wide(slots) / wide(all.max(1));
    json!({
        "cpuCores": real_len(slots),
        "taskHeapMemory": part(TASK_HEAP_BYTES),
        "taskOffHeapMemory": 0,
        "managedMemory": part(MANAGED_BYTES),
        "networkMemory": part(NETWORK_BYTES),
        "extendedResources": {},
    })
}
