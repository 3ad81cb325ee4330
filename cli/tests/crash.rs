//! A process that dies around any of its effects, and the next one that goes on from the same folder of data.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use support::World;
use support::effects::{Change, Kind, Point, When};
use weir_schemas::event::TYPE_OUTCOME;
use weir_simulator::scenario::{quick_cluster, wordcount_job};
use weir_simulator::{ClusterSpec, FlinkVersion};

const JOB: &str = "wordcount";

/// Two growths, far enough apart that a process that dies twice has recovered in between.
fn growths(version: FlinkVersion) -> (ClusterSpec, i64) {
    let job = wordcount_job(JOB, &[(0.0, 800.0), (70.0, 1600.0)], 0.0);
    (ClusterSpec { version, jobs: vec![job], ..quick_cluster() }, 130)
}

/// A cold start alone.
fn cold_start() -> (ClusterSpec, i64) {
    let job = wordcount_job(JOB, &[(0.0, 800.0)], 0.0);
    (ClusterSpec { jobs: vec![job], ..quick_cluster() }, 45)
}

/// How a scenario ended: what must be the same however often the process died.
#[derive(Debug, PartialEq)]
struct Ending {
    parallelism: Vec<u32>,
    running: bool,
    rescales: u64,
    restarts: u64,
    /// Requirements that Flink took, each once where the same came again within one action.
    puts: Vec<String>,
    /// What became of the commands that were carried out, with their targets, in order. A command that had changed nothing
    /// yet when the analyzer died may be refused, since its epoch is over; the next analyzer plans anew.
    ends: Vec<(String, BTreeMap<String, u32>)>,
}

/// Runs a scenario in which processes stop at these points, and checks what must be true of every run.
async fn played((spec, seconds): (ClusterSpec, i64), points: &[Point]) -> (World, Ending) {
    let mut world = World::new(spec);
    // Looking less often for what has come makes no effect come elsewhere, and many deaths quick to go through.
    (world.config.analyzer.poll_ms, world.config.actuator.poll_ms) = (400, 400);
    world.effects.stop_at(points);
    world.start().await;
    world.run_to(seconds).await;
    check_outbox(&world).await;
    check_commands(&world).await;
    let job = world.job(JOB);
    let mut puts: Vec<String> = world.effects.puts().into_iter().map(|put| put.body).collect();
    puts.dedup();
    let ends = world.outcomes(JOB).into_iter().map(|(_, outcome)| outcome);
    let ends = ends.filter(|outcome| outcome.result.is_final());
    let ending = Ending {
        parallelism: job.parallelism(),
        running: job.running,
        rescales: job.rescales,
        restarts: job.restarts,
        puts,
        ends: ends.map(|outcome| (outcome.result.word().to_owned(), outcome.target)).collect(),
    };
    (world, ending)
}

/// All that was decided and done is published, and nothing waits.
async fn check_outbox(world: &World) {
    let (store, key) = (world.store(), World::key(JOB));
    // Whoever has work has a lease, and publishes under its name.
    let owners: Vec<String> = store.leases().await.unwrap().into_iter().map(|lease| lease.name).collect();
    assert!(owners.iter().any(|name| name.starts_with("metrics-")), "{owners:?}");
    assert!(owners.iter().any(|name| name.starts_with("actuator/")), "{owners:?}");
    for owner in owners {
        assert_eq!(store.outbox_len(&owner).await.unwrap(), 0, "{owner} has published everything");
    }
    let published: BTreeSet<&str> = world.events.iter().map(|(_, event)| event.id.as_str()).collect();
    for decision in store.decisions(&key, 1_000, None).await.unwrap() {
        assert!(published.contains(decision.id.as_str()), "{} was never published", decision.sentence);
    }
    for action in store.actions(&key, 1_000).await.unwrap() {
        assert!(!action.open, "{} is still {}: {}{}", action.id, action.state, action.body, world.story(JOB));
        let told = format!("{}-{}", action.id, action.state);
        assert!(published.contains(told.as_str()), "{told} was never published");
    }
}

/// No command is sent that belongs to no open action: none after its action's end, none twice with another body.
async fn check_commands(world: &World) {
    let actions = world.store().actions(&World::key(JOB), 1_000).await.unwrap();
    let ids: BTreeSet<&str> = actions.iter().map(|action| action.id.as_str()).collect();
    assert_eq!(ids.len(), actions.len());
    let targets: BTreeMap<String, BTreeMap<String, u32>> =
        world.outcomes(JOB).into_iter().map(|(_, outcome)| (outcome.command, outcome.target)).collect();
    for put in world.effects.puts() {
        let bounds = uppers(&put);
        let of = actions.iter().find(|action| {
            targets.get(&action.id) == Some(&bounds) && (action.created_ms..=action.updated_ms).contains(&put.at_ms)
        });
        assert!(of.is_some(), "{put:?} belongs to no action that was under way: {actions:#?}");
    }
    // The same event told twice says the same.
    let mut told: BTreeMap<&str, &serde_json::Value> = BTreeMap::new();
    for (_, event) in world.events.iter().filter(|(_, event)| event.kind == TYPE_OUTCOME) {
        assert_eq!(told.entry(&event.id).or_insert(&event.data), &&event.data, "one id, one event");
    }
}

/// Upper bounds that a change of requirements asks for.
fn uppers(put: &Change) -> BTreeMap<String, u32> {
    let body: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&put.body).unwrap();
    let upper = |bounds: &serde_json::Value| bounds["parallelism"]["upperBound"].as_u64().unwrap();
    body.iter().map(|(vertex, bounds)| (vertex.clone(), u32::try_from(upper(bounds)).unwrap())).collect()
}

/// Ends Weir, lets everything pass, and makes sure that each word was counted exactly once.
async fn check_counts(world: &mut World) {
    world.stop().await;
    world.sim.with(|cluster| cluster.set_rate(JOB, "Source: source", 0.0)).unwrap();
    world.run_to(world.second + 30).await;
    let job = world.job(JOB);
    assert_eq!((job.running, job.backlog, job.in_flight), (true, 0, 0), "all has passed");
    let counted: Vec<u64> = job.vertices.iter().map(|vertex| vertex.effective_in).collect();
    assert_eq!(counted[1..], [job.produced, 2 * job.produced]);
}

/// Numbers that follow from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `below`.
    fn below(&mut self, below: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(below.max(1)).unwrap()).unwrap()
    }

    /// A point among the effects of an undisturbed run.
    fn point(&mut self, counts: &BTreeMap<Kind, usize>) -> Point {
        let kind = [Kind::Rest, Kind::Append, Kind::Write][self.below(3)];
        let number = 1 + self.below(counts[&kind]);
        let whens: &[When] =
            if kind == Kind::Write { &[When::Before, When::Within, When::After] } else { &[When::Before, When::After] };
        Point { kind, number, when: whens[self.below(whens.len())] }
    }
}

fn counts(world: &World) -> BTreeMap<Kind, usize> {
    [Kind::Rest, Kind::Append, Kind::Write].into_iter().map(|kind| (kind, world.effects.count(kind))).collect()
}

/// Runs the scenario once for each seed, each time with one or two deaths.
async fn survives_seeds(version: FlinkVersion, seeds: std::ops::Range<u64>) {
    let (mut quiet, undisturbed) = played(growths(version), &[]).await;
    assert_eq!((undisturbed.parallelism.as_slice(), undisturbed.rescales), ([1, 5, 10].as_slice(), 2));
    let counts = counts(&quiet);
    check_counts(&mut quiet).await;
    for seed in seeds {
        let mut draw = Draw(seed);
        let mut points = vec![draw.point(&counts)];
        if draw.below(2) == 0 {
            points.push(draw.point(&counts));
        }
        let shown: Vec<String> = points.iter().map(|it| format!("{it} ({})", quiet.effects.name(it))).collect();
        println!("seed {seed} on Flink {}: {}", version.as_str(), shown.join(", "));
        let (mut world, ending) = played(growths(version), &points).await;
        let story = world.story(JOB);
        assert!(world.lives > 1, "seed {seed}: nobody died; {:?}", world.effects.not_reached());
        assert_eq!(ending, undisturbed, "seed {seed}: {}{story}", shown.join(", "));
        check_counts(&mut world).await;
    }
}

#[tokio::test]
async fn seeds_0_to_9_on_flink_2_3() {
    survives_seeds(FlinkVersion::V2_3, 0..10).await;
}

#[tokio::test]
async fn seeds_10_to_19_on_flink_1_20() {
    survives_seeds(FlinkVersion::V1_20, 10..20).await;
}

/// A death at every point around every effect of a cold start of this kind that `matters`, by its name.
async fn survives_every(kind: Kind, whens: &[When], matters: fn(&str) -> bool) {
    let (quiet, undisturbed) = played(cold_start(), &[]).await;
    assert_eq!((undisturbed.parallelism.as_slice(), undisturbed.rescales), ([1, 3, 5].as_slice(), 1));
    let mut deaths = 0;
    for number in 1..=quiet.effects.count(kind) {
        for &when in whens {
            let point = Point { kind, number, when };
            let what = quiet.effects.name(&point);
            if !matters(&what) {
                continue;
            }
            let (world, ending) = played(cold_start(), &[point]).await;
            assert_eq!(world.lives, 2, "{point} ({what}) was not reached");
            assert_eq!(ending, undisturbed, "{point} ({what}){}", world.story(JOB));
            deaths += 1;
        }
    }
    assert!(deaths > 0, "nothing of the kind happens");
    println!("{deaths} deaths around {kind:?}");
}

#[tokio::test]
async fn a_death_around_any_call_that_changes_the_cluster() {
    survives_every(Kind::Rest, &[When::Before, When::After], |_| true).await;
}

#[tokio::test]
async fn a_death_around_any_step_of_an_action() {
    let matters = |what: &str| ["claim_action", "update_action", "published"].contains(&what);
    survives_every(Kind::Write, &[When::Before, When::After], matters).await;
}

#[tokio::test]
async fn a_death_around_anything_that_is_published() {
    survives_every(Kind::Append, &[When::Before, When::After], |what| !what.contains("ingest")).await;
}

#[tokio::test]
async fn a_death_in_calm_times_is_no_reason_to_forget_what_the_job_can_do() {
    for after_ms in [0, 20, 350, 600, 900] {
        let (spec, _) = growths(FlinkVersion::V2_3);
        let mut world = World::new(spec);
        world.start().await;
        world.run_to(40).await;
        world.kill().await;
        world.clock.run_until(world.clock.now_ms() + after_ms, None).await;
        world.start().await;
        world.run_to(58).await;
        let latest = world.store().latest_decision(&World::key(JOB)).await.unwrap().unwrap();
        assert_eq!(latest.verdict.word(), "hold: right_size", "{after_ms} ms later: {}", world.story(JOB));
        world.run_to(90).await;
        let job = world.job(JOB);
        assert_eq!((job.parallelism(), job.rescales), (vec![1, 5, 10], 2), "{after_ms} ms later: {}", world.story(JOB));
    }
}
