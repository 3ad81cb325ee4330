//! Whatever one job answers, the collector goes on, and the other jobs are read as if nothing were.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its input should stop there")]

mod common;

use common::{Fault, Sim, batches_of};
use proptest::prelude::*;
use weir_schemas::wire;

/// Answers that are JSON, and some that are not.
fn answer() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i32>().prop_map(serde_json::Value::from),
        "RUNNING|FINISHED|NaN|[a-z]{0,4}".prop_map(serde_json::Value::from),
    ];
    let key =
        prop_oneof!["jid|name|state|vertices|subtasks|subtask|attempt|plan|nodes|inputs|id|metrics|latest|counts"];
    let json = leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::from),
            proptest::collection::hash_map(key, inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    });
    prop_oneof![
        4 => json.prop_map(|json| json.to_string().into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..50),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_others_never_notice(answers in proptest::collection::vec((100u16..600, answer()), 1..12), from in 0usize..3) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let sim = Sim::of_jobs(vec![Sim::job("a"), Sim::job("b")]);
            let watch = sim.watch();
            watch.pass(5_000).await;
            watch.records();
            let job = format!("/jobs/{}", Sim::job("a").id);
            // All of the job, its vertices only, or what belongs to one vertex only.
            let prefix = [job.clone(), format!("{job}/vertices"), format!("{job}/vertices/{}", Sim::job("a").vertices[0].id)];
            let (prefix, mut next) = (prefix[from].clone(), 0);
            sim.spoil(move |path, _| {
                path.starts_with(&prefix).then(|| {
                    let (status, body) = answers[next % answers.len()].clone();
                    next += 1;
                    // Half of them with the status of success, whatever else was drawn.
                    Fault::Answer(if next % 2 == 0 { 200 } else { status }, body)
                })
            });
            watch.pass(10_000).await;
            let records = watch.records();
            assert!(batches_of(&records, "prod/default/b") >= 9);
            assert!(records.iter().all(|record| wire::encode(record).is_ok()));
        });
    }
}
