//! Named clusters that are ready to run.

use crate::spec::{ClusterSpec, EdgeSpec, JobSpec, LoadTrace, Ship, SourceKind, VertexSpec};

/// A cluster that is ready to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in one line.
    pub about: &'static str,
    /// How long it takes until everything has been seen.
    pub seconds: u32,
    /// The cluster.
    pub spec: ClusterSpec,
}

struct Entry {
    name: &'static str,
    about: &'static str,
    seconds: u32,
    build: fn() -> Vec<JobSpec>,
    slots: (usize, usize),
}

const ENTRIES: [Entry; 10] = [
    Entry {
        name: "wordcount",
        about: "source, flatmap, count; a cold start at 800 lines/s, then twice as many, then a quarter of those",
        seconds: 360,
        build: || vec![wordcount_job("wordcount", WORDCOUNT_PHASES, 0.0)],
        slots: (2, 8),
    },
    Entry {
        name: "cold-start",
        about: "source, flatmap, count, started too small for its 800 lines/s, which do not change",
        seconds: 120,
        build: || vec![wordcount_job("wordcount", &[(0.0, 800.0)], 0.0)],
        slots: (2, 8),
    },
    Entry {
        name: "two-inputs",
        about: "two sources, one join: only the sum of both loads sizes the join",
        seconds: 300,
        build: || vec![two_inputs()],
        slots: (2, 8),
    },
    Entry {
        name: "fan-out",
        about: "one parser feeds a cheap branch with all records and a dear one with a tenth of them",
        seconds: 300,
        build: || vec![fan_out()],
        slots: (2, 8),
    },
    Entry {
        name: "hot-key",
        about: "half of all words are one word: more count subtasks do not help",
        seconds: 240,
        build: || vec![wordcount_job("hot-key", &[(0.0, 600.0)], 0.5)],
        slots: (2, 8),
    },
    Entry {
        name: "slow-sink",
        about: "the sink waits for an outside system that takes 600 records/s from all subtasks together",
        seconds: 240,
        build: || vec![slow_sink()],
        slots: (2, 8),
    },
    Entry {
        name: "short-of-slots",
        about: "the load needs ten slots and the cluster has four",
        seconds: 240,
        build: || vec![wordcount_job("short-of-slots", &[(0.0, 1600.0)], 0.0)],
        slots: (1, 4),
    },
    Entry {
        name: "no-lag",
        about: "the word count over a source that does not tell how much waits",
        seconds: 240,
        build: || vec![no_lag()],
        slots: (2, 8),
    },
    Entry {
        name: "calm",
        about: "a job that is sized right under constant load: nothing should happen",
        seconds: 600,
        build: || vec![calm()],
        slots: (2, 8),
    },
    Entry {
        name: "day-and-night",
        about: "a wave of load, 100 to 1500 lines/s, with a period of 20 minutes",
        seconds: 3_600,
        build: || vec![day_and_night()],
        slots: (2, 8),
    },
];

/// Names of all scenarios, with a line on each.
#[must_use]
pub fn list_scenarios() -> Vec<(&'static str, &'static str)> {
    ENTRIES.iter().map(|entry| (entry.name, entry.about)).collect()
}

/// The scenario `name`.
#[must_use]
pub fn scenario(name: &str) -> Option<Scenario> {
    let entry = ENTRIES.iter().find(|entry| entry.name == name)?;
    let (task_managers, slots_per_task_manager) = entry.slots;
    let spec = ClusterSpec { task_managers, slots_per_task_manager, jobs: (entry.build)(), ..quick_cluster() };
    Some(Scenario { name: entry.name, about: entry.about, seconds: entry.seconds, spec })
}

/// Cold start, twice as much, a quarter of that: seconds and lines a second.
const WORDCOUNT_PHASES: &[(f64, f64)] = &[(0.0, 800.0), (120.0, 1600.0), (240.0, 400.0)];

/// A cluster whose timers are as short as Flink allows for an autoscaler to react in seconds.
#[must_use]
pub fn quick_cluster() -> ClusterSpec {
    ClusterSpec {
        metrics_refresh_ms: 1_000,
        web_refresh_ms: 1_000,
        cooldown_ms: 5_000,
        executing_stabilization_ms: 10_000,
        submission_stabilization_ms: 2_000,
        ..ClusterSpec::default()
    }
}

/// The word count: 2 words for each line; one flatmap subtask takes 500 lines/s, one count subtask 500 words/s.
#[must_use]
pub fn wordcount_job(name: &str, phases: &[(f64, f64)], hot_share: f64) -> JobSpec {
    JobSpec::new(name)
        .checkpoints_every_ms(5_000)
        .vertex(VertexSpec::source("Source: source", 4, LoadTrace::steps(phases.iter().copied())))
        .vertex(VertexSpec { record_bytes: 20, ..VertexSpec::operator("flatmap").capacity(500.0).selectivity(2.0) })
        .vertex(VertexSpec::operator("count -> sink").capacity(500.0).selectivity(0.0))
        .edge(EdgeSpec::rebalance("Source: source", "flatmap"))
        .edge(EdgeSpec::new("flatmap", "count -> sink", Ship::Hash { hot_share }).buffers(100, 400))
}

fn no_lag() -> JobSpec {
    let mut job = wordcount_job("no-lag", &[(0.0, 800.0)], 0.0);
    job.vertices[0] = job.vertices[0].clone().source_kind(SourceKind::QueueWithoutLag);
    job
}

fn calm() -> JobSpec {
    let mut job = wordcount_job("calm", &[(0.0, 800.0)], 0.0);
    job.vertices[1].parallelism = 3;
    job.vertices[2].parallelism = 5;
    job
}

fn day_and_night() -> JobSpec {
    let mut job = wordcount_job("day-and-night", &[], 0.0);
    job.vertices[0] = VertexSpec::source("Source: source", 4, LoadTrace::sine(800.0, 700.0, 1_200.0, 3));
    job
}

fn two_inputs() -> JobSpec {
    let clicks = LoadTrace::steps([(0.0, 300.0), (120.0, 900.0)]);
    JobSpec::new("two-inputs")
        .checkpoints_every_ms(5_000)
        .vertex(VertexSpec::source("Source: clicks", 4, clicks))
        .vertex(VertexSpec::source("Source: orders", 2, LoadTrace::constant(200.0)))
        .vertex(VertexSpec::operator("join").capacity(400.0).selectivity(0.5))
        .vertex(VertexSpec::operator("sink").capacity(300.0).selectivity(0.0))
        .edge(EdgeSpec::hash("Source: clicks", "join"))
        .edge(EdgeSpec::hash("Source: orders", "join"))
        .edge(EdgeSpec::rebalance("join", "sink"))
}

fn fan_out() -> JobSpec {
    JobSpec::new("fan-out")
        .checkpoints_every_ms(5_000)
        .vertex(VertexSpec::source("Source: events", 4, LoadTrace::steps([(0.0, 1_000.0), (120.0, 2_500.0)])))
        .vertex(VertexSpec::operator("parse").capacity(1_000.0))
        .vertex(VertexSpec::operator("archive").capacity(2_000.0).selectivity(0.0))
        .vertex(VertexSpec::operator("score").capacity(50.0).selectivity(0.0))
        .edge(EdgeSpec::rebalance("Source: events", "parse"))
        .edge(EdgeSpec::rebalance("parse", "archive"))
        .edge(EdgeSpec::hash("parse", "score").share(0.1))
}

fn slow_sink() -> JobSpec {
    JobSpec::new("slow-sink")
        .checkpoints_every_ms(5_000)
        .vertex(VertexSpec::source("Source: source", 4, LoadTrace::constant(800.0)))
        .vertex(VertexSpec::operator("map").capacity(1_000.0))
        .vertex(VertexSpec::operator("sink").capacity(1_000.0).external_limit(600.0).selectivity(0.0))
        .edge(EdgeSpec::rebalance("Source: source", "map"))
        .edge(EdgeSpec::rebalance("map", "sink"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cluster;

    #[test]
    fn every_scenario_can_be_simulated() {
        for (name, about) in list_scenarios() {
            let found = scenario(name).unwrap();
            let mut cluster = Cluster::new(found.spec, 0).unwrap();
            cluster.advance_to(30_000);
            let truth = cluster.truth();
            assert!(truth.jobs.iter().all(|job| job.running && job.consumed > 0), "{name} ({about}): {truth:?}");
        }
        assert_eq!(scenario("no such scenario"), None);
    }
}
