//! What Weir makes of whole scenarios: every service, over real stores, on a simulated cluster, in virtual time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

mod support;

use support::effects::Kind;
use support::{START_MS, World, book, cannot_help, planned};
use weir_flink::Method;
use weir_schemas::control::{Mode, PolicyBook, PolicyEntry};
use weir_schemas::decision::{Decision, Disposition, Verdict};
use weir_schemas::event::TYPE_DECISION;
use weir_simulator::scenario::{quick_cluster, scenario, wordcount_job};
use weir_simulator::{ClusterSpec, Fault, FaultPlan, FlinkVersion, JobSpec, Request, Scheduler, hex_id};
use weir_store::RequestKind;

fn spec(name: &str) -> ClusterSpec {
    scenario(name).unwrap().spec
}

/// A cluster with these jobs, that answers within seconds.
fn cluster_of(jobs: Vec<JobSpec>) -> ClusterSpec {
    ClusterSpec { jobs, task_managers: 4, slots_per_task_manager: 8, ..quick_cluster() }
}

/// Runs a scenario from its beginning.
async fn played(spec: ClusterSpec, seconds: i64) -> World {
    let mut world = World::new(spec);
    world.start().await;
    world.run_to(seconds).await;
    world
}

/// Ends Weir, lets everything pass that is on its way, and makes sure that each word was counted exactly once.
async fn assert_exact(world: &mut World, job: &str) {
    world.stop().await;
    world.sim.with(|cluster| cluster.set_rate(job, "Source: source", 0.0)).unwrap();
    let until = world.second + 60;
    world.run_to(until).await;
    let job = world.job(job);
    assert_eq!((job.running, job.backlog, job.in_flight), (true, 0, 0), "all has passed");
    let counted: Vec<u64> = job.vertices.iter().map(|vertex| vertex.effective_in).collect();
    assert_eq!(counted[1..], [job.produced, 2 * job.produced], "lines split and words counted");
}

/// Sizes, rescales and times of the word count, as they have to be whatever Flink's version.
async fn word_count(version: FlinkVersion) {
    let job = "wordcount";
    let mut world = played(ClusterSpec { version, ..spec(job) }, 360).await;
    let story = format!("Flink {}: {}", version.as_str(), world.story(job));
    for (from, to, wanted) in [(0, 120, [1, 3, 5]), (120, 240, [1, 5, 10]), (240, 360, [1, 2, 3])] {
        assert_eq!(world.at(job, to).parallelism, wanted, "{from} s to {to} s; {story}");
        assert_eq!(world.rescales(job, to - 60, to), 0, "the last 60 s before {to} s are calm; {story}");
        assert!(world.at(job, to).backlog < 200, "the backlog is gone at {to} s; {story}");
        if from < 240 {
            assert_eq!(world.rescales(job, from, to), 1, "one growth, one rescale; {story}");
            let enough = world.wide_enough(job, from, &wanted).unwrap();
            assert!(enough - from <= 12, "wide enough after {} s; {story}", enough - from);
        } else {
            assert!((1..=2).contains(&world.rescales(job, from, to)), "a shrink takes at most two; {story}");
        }
    }
    assert!(world.ends(job).iter().all(|end| end == "verified"), "{story}");
    assert_exact(&mut world, job).await;
}

#[tokio::test]
async fn the_word_count_on_flink_1_18() {
    word_count(FlinkVersion::V1_18).await;
}

#[tokio::test]
async fn the_word_count_on_flink_1_20() {
    word_count(FlinkVersion::V1_20).await;
}

#[tokio::test]
async fn the_word_count_on_flink_2_0() {
    word_count(FlinkVersion::V2_0).await;
}

#[tokio::test]
async fn the_word_count_on_flink_2_3() {
    word_count(FlinkVersion::V2_3).await;
}

#[tokio::test]
async fn only_the_sum_of_two_inputs_sizes_their_join() {
    let job = "two-inputs";
    let world = played(spec(job), 240).await;
    let story = world.story(job);
    assert_eq!(world.at(job, 120).parallelism, [1, 1, 2, 2], "{story}");
    assert_eq!(world.at(job, 240).parallelism, [1, 1, 4, 3], "{story}");
    assert_eq!((world.rescales(job, 0, 120), world.rescales(job, 120, 240)), (1, 1), "{story}");
    assert!(world.at(job, 240).backlog < 200, "{story}");
}

#[tokio::test]
async fn each_branch_of_a_fan_out_is_sized_by_what_it_gets() {
    let job = "fan-out";
    let world = played(spec(job), 240).await;
    let story = world.story(job);
    // What waits in front of the dear branch hides at first how much it gets, so that it may take more than one step.
    for (from, to, needed) in [(0, 120, [1, 2, 1, 3]), (120, 240, [1, 4, 2, 8])] {
        let runs = world.at(job, to).parallelism;
        let fits = runs.iter().zip(needed).all(|(&runs, needed)| (needed..=needed + 1).contains(&runs));
        assert!(fits, "{runs:?} at {to} s; {story}");
        assert!((1..=3).contains(&world.rescales(job, from, to)), "{story}");
    }
    assert_eq!(world.rescales(job, 180, 240), 0, "{story}");
    assert!(world.at(job, 240).backlog < 300, "{story}");
}

#[tokio::test]
async fn a_hot_key_does_not_lead_to_rescale_after_rescale() {
    let job = "hot-key";
    let world = played(spec(job), 240).await;
    let story = world.story(job);
    assert!(world.job(job).rescales <= 2, "{story}");
    assert_eq!(world.rescales(job, 120, 240), 0, "{story}");
    let said = world.decisions(job).into_iter().any(|(_, it)| cannot_help(&it) == Some("uneven_load"));
    assert!(said, "{story}");
}

#[tokio::test]
async fn a_slow_sink_is_grown_once_and_then_said_to_be_beyond_help() {
    let job = "slow-sink";
    let world = played(spec(job), 240).await;
    let story = world.story(job);
    assert!(world.job(job).rescales <= 2, "{story}");
    assert_eq!(world.rescales(job, 120, 240), 0, "{story}");
    let last = world.decisions(job).pop().unwrap().1;
    assert_eq!(cannot_help(&last), Some("more_will_not_help"), "{story}");
}

#[tokio::test]
async fn too_few_slots_lead_to_the_best_that_they_allow_and_to_saying_so() {
    let job = "short-of-slots";
    let world = played(spec(job), 240).await;
    let story = world.story(job);
    let plans: Vec<_> = world.decisions(job).into_iter().filter_map(|(_, it)| it.verdict.plan().cloned()).collect();
    assert!(!plans.is_empty() && plans.iter().all(|plan| plan.short_of_slots), "{story}");
    assert_eq!((world.job(job).rescales, world.job(job).slots), (1, 4), "{story}");
    let said = world.decisions(job).iter().any(|(_, it)| cannot_help(it) == Some("short_of_slots"));
    assert!(said, "{story}");
    assert_eq!(world.ends(job), ["verified"], "{story}");
}

#[tokio::test]
async fn a_source_without_lag_is_sized_as_well() {
    let job = "no-lag";
    let world = played(spec(job), 240).await;
    let story = world.story(job);
    assert_eq!(world.at(job, 240).parallelism, [1, 3, 5], "{story}");
    // How much waits is not told, so that each step shows a little more of the load, and what waited looks like more of it.
    assert!(world.job(job).rescales <= 6, "{story}");
    assert_eq!(world.rescales(job, 120, 240), 0, "{story}");
}

#[tokio::test]
async fn a_job_that_is_sized_right_is_left_alone() {
    let job = "calm";
    let world = played(spec(job), 300).await;
    assert_eq!(world.job(job).rescales, 0, "{}", world.story(job));
    assert_eq!(world.effects.count(Kind::Rest), 0, "{}", world.story(job));
    assert!(world.job(job).backlog < 100);
}

#[tokio::test]
async fn day_and_night_are_followed_without_fidgeting() {
    let job = "day-and-night";
    let book = PolicyBook {
        default: PolicyEntry { jobs: "*".into(), mode: Mode::Auto, ..PolicyEntry::default() },
        entries: Vec::new(),
    };
    let mut world = World::with(spec(job), book);
    world.start().await;
    world.run_to(1_200).await;
    let story = world.story(job);
    let rescales = world.job(job).rescales;
    assert!((2..=12).contains(&rescales), "{rescales} rescales; {story}");
    assert!(world.ends(job).iter().all(|end| end == "verified"), "{story}");
    // Once the cold start is worked off, growth comes before the backlog does.
    let behind: Vec<_> = world.history[job].iter().filter(|it| it.second > 60 && it.backlog > 6_000).collect();
    assert!(behind.is_empty(), "{behind:?}; {story}");
    let widest = world.history[job].iter().map(|moment| moment.parallelism[2]).max();
    assert!(widest >= Some(9) && world.at(job, 1_200).parallelism[2] < 9, "it grows and shrinks; {story}");
}

#[tokio::test]
async fn a_cluster_with_the_default_scheduler_is_told_what_to_change() {
    let job = "wordcount";
    let world = played(ClusterSpec { scheduler: Scheduler::Default, ..spec(job) }, 60).await;
    assert_withheld(&world, job, "default_scheduler");
}

#[tokio::test]
async fn reactive_mode_is_left_to_flink() {
    let job = "wordcount";
    let world = played(ClusterSpec { scheduler: Scheduler::Reactive, ..spec(job) }, 60).await;
    assert_withheld(&world, job, "reactive_mode");
}

fn assert_withheld(world: &World, job: &str, gate: &str) {
    let story = world.story(job);
    let withheld = Disposition::Withheld { gate: gate.into() };
    assert!(world.decisions(job).iter().any(|(_, it)| planned(it).is_some_and(|plan| *plan.1 == withheld)), "{story}");
    assert_eq!(world.effects.count(Kind::Rest), 0, "nothing in the cluster is changed; {story}");
    assert_eq!(world.job(job).rescales, 0, "{story}");
}

#[tokio::test]
async fn flinks_default_timers_are_slow_and_enough() {
    let slow = ClusterSpec { metrics_refresh_ms: 10_000, web_refresh_ms: 3_000, ..spec("wordcount") };
    let job = "wordcount";
    let world = played(slow, 240).await;
    let story = world.story(job);
    for (from, wanted) in [(0, [1, 3, 5]), (120, [1, 5, 10])] {
        let enough = world.wide_enough(job, from, &wanted).unwrap_or(i64::MAX);
        assert!(enough - from <= 45, "wide enough after {} s; {story}", enough - from);
    }
    assert_eq!(world.job(job).rescales, 2, "{story}");
}

#[tokio::test]
async fn in_mode_recommend_nothing_in_the_cluster_is_changed() {
    let job = "wordcount";
    let mut world = World::with(spec(job), book(Mode::Recommend));
    world.start().await;
    world.run_to(60).await;
    let story = world.story(job);
    assert_eq!(world.effects.count(Kind::Rest), 0, "{story}");
    let recommended = world
        .decisions(job)
        .iter()
        .any(|(_, it)| planned(it).is_some_and(|(to, becomes)| to == [1, 3, 5] && *becomes == Disposition::Recommend));
    assert!(recommended, "{story}");
    // Once a person says so, it acts, and the next look at the job is enough for it.
    world.store().set_mode(&World::key(job), Mode::Auto, "ada", world.clock.now_ms()).await.unwrap();
    world.run_to(90).await;
    let story = world.story(job);
    assert_eq!((world.at(job, 90).parallelism, world.job(job).rescales), (vec![1, 3, 5], 1), "{story}");
}

#[tokio::test]
async fn two_jobs_are_sized_each_by_its_own_load() {
    let one = wordcount_job("one", &[(0.0, 800.0), (60.0, 400.0)], 0.0);
    let two = wordcount_job("two", &[(0.0, 100.0), (60.0, 1600.0)], 0.0);
    let world = played(cluster_of(vec![one, two]), 150).await;
    let story = world.story("one") + &world.story("two");
    assert_eq!(world.at("one", 60).parallelism, [1, 3, 5], "{story}");
    assert_eq!(world.at("two", 60).parallelism, [1, 1, 1], "{story}");
    assert_eq!(world.at("one", 150).parallelism, [1, 2, 3], "{story}");
    assert_eq!(world.at("two", 150).parallelism, [1, 5, 10], "{story}");
    assert_eq!((world.job("two").rescales, world.rescales("two", 0, 60)), (1, 0), "{story}");
}

#[tokio::test]
async fn two_jobs_of_one_name_are_never_acted_on() {
    let job = wordcount_job("twin", &[(0.0, 800.0)], 0.0);
    let twin = JobSpec { id: hex_id("another twin"), ..job.clone() };
    let world = played(cluster_of(vec![job, twin]), 60).await;
    let story = world.story("twin");
    assert_eq!(world.effects.count(Kind::Rest), 0, "{story}");
    assert!(world.decisions("twin").iter().all(|(_, it)| planned(it).is_none_or(|plan| *plan.1 != Disposition::Act)));
    let named = |it: &Decision| matches!(&it.verdict, Verdict::Hold { because } if because == "ambiguous_name");
    assert!(world.decisions("twin").iter().any(|(_, it)| named(it)), "{story}");
}

#[tokio::test]
async fn a_job_that_is_submitted_again_is_sized_anew() {
    let job = "again";
    let mut world = played(cluster_of(vec![wordcount_job(job, &[(0.0, 800.0)], 0.0)]), 40).await;
    assert_eq!(world.at(job, 40).parallelism, [1, 3, 5], "{}", world.story(job));
    world.sim.with(|cluster| cluster.cancel_job(job)).unwrap();
    world.run_to(45).await;
    world.sim.with(|cluster| cluster.resubmit(job)).unwrap();
    world.run_to(100).await;
    let story = world.story(job);
    let runs = world.job(job);
    assert_eq!((runs.parallelism(), runs.rescales), (vec![1, 3, 5], 1), "{story}");
    assert_eq!(world.ends(job), ["verified", "verified"], "{story}");
}

#[tokio::test]
async fn a_rival_who_changes_the_job_is_noticed_and_respected() {
    let job = "shared";
    let mut world = played(cluster_of(vec![wordcount_job(job, &[(0.0, 800.0)], 0.0)]), 40).await;
    assert_eq!(world.at(job, 40).parallelism, [1, 3, 5], "{}", world.story(job));
    let truth = world.job(job);
    let bounds: serde_json::Map<String, serde_json::Value> = truth
        .vertices
        .iter()
        .map(|it| (it.id.clone(), serde_json::json!({"parallelism": {"lowerBound": 1, "upperBound": 2}})))
        .collect();
    let path = format!("/jobs/{}/resource-requirements", truth.id);
    let put = Request::new("PUT", &path).with_body(serde_json::Value::Object(bounds).to_string());
    let now_ms = world.clock.now_ms();
    assert_eq!(world.sim.with(|cluster| cluster.handle(now_ms, &put)).status, 200);
    world.run_to(120).await;
    let story = world.story(job);
    assert_eq!(world.at(job, 120).parallelism, [2, 2, 2], "their choice stays for a while; {story}");
    assert_eq!(world.effects.puts().len(), 1, "{story}");
    let respected = Disposition::Withheld { gate: "changed_by_others".into() };
    assert!(
        world.decisions(job).iter().any(|(_, it)| planned(it).is_some_and(|plan| *plan.1 == respected)),
        "it is said; {story}"
    );
}

/// The order in which people try the modes out: a plan that waits for approval gives way once nobody has to approve.
#[tokio::test]
async fn from_approve_to_auto_the_plan_that_waited_gives_way_to_one_that_is_carried_out() {
    let job = "wordcount";
    let mut world = World::with(spec(job), book(Mode::Approve));
    world.start().await;
    world.run_to(40).await;
    assert_eq!(world.job(job).rescales, 0, "{}", world.story(job));
    world.store().set_mode(&World::key(job), Mode::Auto, "ada", world.clock.now_ms()).await.unwrap();
    world.run_to(70).await;
    let story = world.story(job);
    assert_eq!((world.at(job, 70).parallelism, world.job(job).rescales), (vec![1, 3, 5], 1), "{story}");
    let mut ends = world.ends(job);
    ends.sort();
    assert_eq!(ends, ["refused", "verified"], "{story}");
}

/// What a person has undone stays undone, and is not taken for somebody else's doing.
#[tokio::test]
async fn a_persons_rollback_is_carried_out_and_left_alone() {
    let job = "wordcount";
    let mut world = World::new(spec(job));
    world.start().await;
    world.run_to(40).await;
    let action = world.store().actions(&World::key(job), 1).await.unwrap().remove(0);
    world.store().add_request(RequestKind::Rollback, &action.id, "ada", world.clock.now_ms()).await.unwrap();
    world.run_to(110).await;
    let story = world.story(job);
    assert_eq!((world.at(job, 110).parallelism, world.job(job).rescales), (vec![1, 1, 1], 2), "{story}");
    let withheld = Disposition::Withheld { gate: "quarantine".into() };
    assert!(world.decisions(job).iter().any(|(_, it)| it.disposition == withheld), "{story}");
}

#[tokio::test]
async fn a_freeze_stops_a_plan_before_it_is_carried_out_and_an_unfreeze_lets_the_next_one_through() {
    let job = "wordcount";
    let mut world = World::new(spec(job));
    world.start().await;
    world.store().set_frozen(true, "ada", START_MS).await.unwrap();
    world.run_to(40).await;
    assert_withheld(&world, job, "frozen");
    world.store().set_frozen(false, "ada", world.clock.now_ms()).await.unwrap();
    world.run_to(60).await;
    let story = world.story(job);
    assert_eq!((world.at(job, 60).parallelism, world.job(job).rescales), (vec![1, 3, 5], 1), "{story}");
}

#[tokio::test]
async fn a_freeze_within_an_action_leaves_no_half_done_rescale() {
    let job = "wordcount";
    let mut world = World::new(spec(job));
    world.start().await;
    while world.effects.puts().is_empty() {
        let next = world.second + 1;
        assert!(next < 30, "{}", world.story(job));
        world.run_to(next).await;
    }
    world.store().set_frozen(true, "ada", world.clock.now_ms()).await.unwrap();
    world.run_to(110).await;
    let story = world.story(job);
    assert_eq!((world.at(job, 110).parallelism, world.ends(job)), (vec![1, 3, 5], vec!["verified".into()]), "{story}");
    // The load doubles, and nothing is done about it.
    world.run_to(150).await;
    assert_eq!(world.job(job).rescales, 1, "{}", world.story(job));
}

/// All that was published, as text. Ids of decisions follow from the incarnation of the log, which is drawn anew for each
/// folder of data: they become numbers in the order in which they come.
fn told(world: &World) -> Vec<(i64, String)> {
    let mut ids: Vec<String> = Vec::new();
    let mut told = Vec::new();
    for (second, event) in &world.events {
        if event.kind == TYPE_DECISION {
            ids.push(event.id.clone());
        }
        let mut text = serde_json::to_string(event).unwrap();
        for (number, id) in ids.iter().enumerate() {
            text = text.replace(id, &format!("decision {number}"));
        }
        told.push((*second, text));
    }
    told
}

#[tokio::test]
async fn the_same_run_twice_publishes_the_same_bytes() {
    let (one, two) = (played(spec("wordcount"), 150).await, played(spec("wordcount"), 150).await);
    let told = (told(&one), told(&two));
    assert!(told.0.len() > 5, "there is something to compare");
    for (one, two) in told.0.iter().zip(&told.1) {
        assert_eq!(one, two);
    }
    assert_eq!(told.0.len(), told.1.len());
    assert_eq!(one.effects.changes(), two.effects.changes());
    assert_eq!(one.history, two.history);
}

#[tokio::test]
async fn html_for_one_job_leaves_the_other_scaled() {
    let good = wordcount_job("good", &[(0.0, 800.0)], 0.0);
    let bad = wordcount_job("bad", &[(0.0, 800.0)], 0.0);
    let pattern = format!("/jobs/{}/vertices/*", bad.id);
    let mut world = World::new(cluster_of(vec![good, bad]));
    world.sim.spoil(FaultPlan::none().on(&pattern, Fault::Html));
    world.start().await;
    world.run_to(60).await;
    let story = world.story("good") + &world.story("bad");
    assert_eq!((world.at("good", 60).parallelism, world.job("good").rescales), (vec![1, 3, 5], 1), "{story}");
    assert_eq!(world.job("bad").rescales, 0, "nothing is done blindly; {story}");
    world.sim.spoil(FaultPlan::none());
    world.run_to(140).await;
    let story = world.story("bad");
    assert_eq!(world.at("bad", 140).parallelism, [1, 3, 5], "it is scaled once it can be seen; {story}");
}

#[tokio::test]
async fn a_cluster_that_hangs_drops_and_lies_for_a_while_is_got_over_without_a_wrong_step() {
    let job = "wordcount";
    for fault in [
        Fault::Hang,
        Fault::DropBefore,
        Fault::NanStrings,
        Fault::EmptyLists,
        Fault::Truncate { bytes: 60 },
        Fault::Answer { status: 503, body: "{\"errors\":[\"Service temporarily unavailable\"]}".into() },
        Fault::WithoutKeys(vec!["metrics".into(), "parallelism".into()]),
    ] {
        let mut world = World::new(cluster_of(vec![wordcount_job(job, &[(0.0, 800.0)], 0.0)]));
        world.start().await;
        world.run_to(4).await;
        world.sim.spoil(FaultPlan::none().on("*", fault.clone()));
        world.run_to(24).await;
        world.sim.spoil(FaultPlan::none());
        world.run_to(110).await;
        let story = format!("{fault:?} {}", world.story(job));
        assert_eq!((world.at(job, 110).parallelism, world.job(job).rescales), (vec![1, 3, 5], 1), "{story}");
    }
}

#[tokio::test]
async fn a_request_that_was_carried_out_and_never_answered_is_not_carried_out_twice() {
    let job = "wordcount";
    let mut world = World::new(spec(job));
    world.sim.spoil(FaultPlan::none().times(3, "PUT /jobs/*", Fault::DropAfter));
    world.start().await;
    world.run_to(60).await;
    let story = world.story(job);
    assert_eq!((world.at(job, 60).parallelism, world.job(job).rescales), (vec![1, 3, 5], 1), "{story}");
    assert_eq!(world.ends(job), ["verified"], "{story}");
    assert!(world.effects.changes().iter().filter(|change| change.method == Method::Put).count() <= 2, "{story}");
}
