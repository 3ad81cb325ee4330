//! What holds for every sequence of observations.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot build its input should stop there"
)]

mod common;

use std::collections::BTreeMap;

use common::*;
use proptest::prelude::*;
use weir_governor::{
    Action, Effect, Observation, ObserveError, Requirements, SeenCheckpoints, Step, advance, begin, uppers,
};

/// One look at a Flink that shows anything at all.
#[derive(Debug, Clone)]
struct Look {
    after_ms: i64,
    seen: Result<Observation, ObserveError>,
}

fn sizes_seen() -> impl Strategy<Value = BTreeMap<String, u32>> {
    prop_oneof![3 => Just(before()), 3 => Just(target()), 1 => Just(sizes(2, 2, 2)), 1 => Just(sizes(1, 3, 4))]
}

fn requirements_seen() -> impl Strategy<Value = Option<Requirements>> {
    prop_oneof![
        4 => Just(Some(bounds(&target()))),
        4 => Just(Some(bounds(&before()))),
        1 => Just(None),
        1 => Just(Some(bounds(&sizes(1, 9, 9)))).boxed(),
    ]
}

fn checkpoints_seen() -> impl Strategy<Value = SeenCheckpoints> {
    (0..20_u64, any::<bool>(), any::<bool>()).prop_map(|(latest, in_progress, enabled)| SeenCheckpoints {
        enabled,
        interval_ms: Some(10_000),
        completed: latest,
        latest_id: (latest > 3).then_some(latest),
        latest_duration_ms: Some(100),
        in_progress,
        restored: false,
    })
}

fn observation() -> impl Strategy<Value = Observation> {
    let state = prop_oneof![
        12 => Just("RUNNING"),
        3 => Just("RESTARTING"),
        2 => Just("CREATED"),
        1 => Just("INITIALIZING"),
        1 => Just("FAILED"),
    ];
    let counters = (0..10_u32, 0..3_u32, proptest::option::of(0..10_000_u32));
    let job = (state, sizes_seen(), requirements_seen(), 0..4_u32, prop_oneof![20 => Just(0_i64), 1 => Just(1)]);
    let rest = (checkpoints_seen(), counters, proptest::option::of(0..3_u32), any::<bool>(), any::<Option<bool>>());
    (job, rest).prop_map(|((state, sizes, requirements, missing, other_run), rest)| {
        let (checkpoints, (records, attempt, pending), slots_free, is_old, all_tasks_run) = rest;
        let mut seen =
            Observation { job_state: state.into(), requirements, checkpoints, slots_free, ..seen(&sizes, T0) };
        seen.run.start_ms += other_run;
        let last = seen.vertices.get_mut("c3").unwrap();
        last.running = last.running.saturating_sub(missing / 2);
        last.initializing = missing % 2;
        let counted = source(f64::from(records) * 1_000.0, attempt, pending.map(f64::from));
        seen.sources = [("a1".to_owned(), counted)].into();
        if is_old {
            seen.flink_version = "1.20.3".into();
        }
        seen.all_tasks_run = all_tasks_run;
        seen
    })
}

fn look() -> impl Strategy<Value = Look> {
    let seen = prop_oneof![
        12 => observation().prop_map(Ok),
        1 => Just(Err(ObserveError::Unreachable("refused".into()))),
        1 => Just(Err(ObserveError::Gone("404".into()))),
    ];
    let after_ms = prop_oneof![4 => 1..2_000_i64, 2 => 2_000..60_000_i64, 1 => 60_000..900_000_i64];
    (after_ms, seen).prop_map(|(after_ms, seen)| Look { after_ms, seen })
}

/// Everything that an action asked of Flink, in order.
fn effects(steps: &[Step]) -> Vec<&Effect> {
    steps.iter().filter_map(|step| step.effect.as_ref()).collect()
}

/// Follows an action through looks. `store` is applied to the action between any two steps.
fn follow(looks: &[Look], store: impl Fn(Action) -> Action) -> Vec<Step> {
    let mut steps = vec![begin(action(), &seen(&before(), T0), T0)];
    let mut now_ms = T0;
    for look in looks {
        now_ms += look.after_ms;
        let seen = look.seen.clone().map(|seen| Observation { at_ms: now_ms, ..seen });
        let action = store(steps.last().unwrap().action.clone());
        steps.push(advance(action, &seen, now_ms));
    }
    steps
}

/// A Flink that does what it is asked.
struct Toy {
    held: Requirements,
    running: BTreeMap<String, u32>,
    completed: u64,
    records: f64,
    attempt: u32,
}

impl Toy {
    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::PutRequirements { bounds } => self.held = bounds.clone(),
            Effect::TriggerCheckpoint { .. } => {
                self.completed += 1;
                if self.running != uppers(&self.held) {
                    self.running = uppers(&self.held);
                    self.attempt += 1;
                    self.records = 0.0;
                }
            }
        }
    }

    fn seen(&mut self, at_ms: i64) -> Observation {
        self.records += 400.0;
        let mut seen = Observation { requirements: Some(self.held.clone()), ..seen(&self.running, at_ms) };
        seen.checkpoints.latest_id = Some(self.completed);
        seen.sources = [("a1".to_owned(), source(self.records, self.attempt, Some(0.0)))].into();
        seen
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn there_is_one_target_and_at_most_one_way_back(looks in proptest::collection::vec(look(), 0..60)) {
        let steps = follow(&looks, |action| action);
        let puts: Vec<BTreeMap<String, u32>> = effects(&steps)
            .into_iter()
            .filter_map(|effect| match effect {
                Effect::PutRequirements { bounds } => Some(uppers(bounds)),
                Effect::TriggerCheckpoint { .. } => None,
            })
            .collect();
        let first_back = puts.iter().position(|to| *to != target()).unwrap_or(puts.len());
        prop_assert!(puts[first_back..].iter().all(|to| *to == before()), "{puts:?}");
        for bounds in effects(&steps) {
            if let Effect::PutRequirements { bounds } = bounds {
                let sound = bounds.values().all(|bounds| bounds.lower >= 1 && bounds.upper >= bounds.lower);
                prop_assert!(sound && bounds.len() == 3, "all vertices, with bounds that Flink takes");
            }
        }
    }

    #[test]
    fn after_the_end_nothing_happens_and_the_end_is_told_once(looks in proptest::collection::vec(look(), 0..60)) {
        let steps = follow(&looks, |action| action);
        let end = steps.iter().position(|step| step.action.phase.is_final());
        for (index, step) in steps.iter().enumerate() {
            let is_end = Some(index) == end;
            let told = step.outcome.as_ref().is_some_and(|outcome| outcome.result.is_final());
            prop_assert_eq!(told, is_end, "step {}", index);
            if end.is_some_and(|end| index >= end) {
                prop_assert_eq!(&step.effect, &None);
            } else {
                prop_assert!(step.look_again_ms > 0 && step.look_again_ms <= 30_000);
            }
        }
    }

    #[test]
    fn an_action_that_was_stored_and_read_goes_on_the_same_way(looks in proptest::collection::vec(look(), 0..60)) {
        let stored = |action: Action| serde_json::from_str(&serde_json::to_string(&action).unwrap()).unwrap();
        prop_assert_eq!(follow(&looks, stored), follow(&looks, |action| action));
    }

    #[test]
    fn once_flink_does_what_it_is_asked_every_action_ends(
        looks in proptest::collection::vec(look(), 0..40),
        shows_target in any::<bool>(),
    ) {
        let steps = follow(&looks, |action| action);
        let mut now_ms = T0 + looks.iter().map(|look| look.after_ms).sum::<i64>();
        let mut step = steps.last().unwrap().clone();
        let held = if shows_target { target() } else { before() };
        let mut toy = Toy { held: bounds(&held), running: before(), completed: 20, records: 0.0, attempt: 5 };
        let give_up_ms = now_ms + 3_600_000;
        while !step.action.phase.is_final() {
            prop_assert!(now_ms < give_up_ms, "still {}", step.action.phase.word());
            if let Some(effect) = &step.effect {
                toy.apply(effect);
            }
            now_ms += step.look_again_ms.max(1);
            step = advance(step.action, &Ok(toy.seen(now_ms)), now_ms);
        }
    }

    #[test]
    fn what_is_done_at_once_on_a_sound_flink_is_verified(at_once in any::<bool>()) {
        let mut toy = Toy { held: bounds(&before()), running: before(), completed: 7, records: 0.0, attempt: 0 };
        let mut now_ms = T0;
        let mut step = begin(action(), &toy.seen(now_ms), now_ms);
        while !step.action.phase.is_final() {
            prop_assert!(now_ms < T0 + 20_000);
            if let Some(effect) = &step.effect {
                toy.apply(effect);
                if at_once {
                    toy.apply(&Effect::TriggerCheckpoint { trigger_id: String::new() });
                }
            }
            now_ms += step.look_again_ms;
            step = advance(step.action, &Ok(toy.seen(now_ms)), now_ms);
        }
        prop_assert_eq!(step.action.phase.word(), "verified");
    }
}
