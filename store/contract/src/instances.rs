use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::Homes;

pub(crate) async fn whoever_is_heard_of_is_there_and_nobody_else(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let now = Arc::new(AtomicI64::new(1_000));
    let clock = Arc::clone(&now);
    let store = home.store.clone().with_lease_clock(Arc::new(move || clock.load(Ordering::SeqCst)));
    let tags = ["zone=a".to_owned(), "large".to_owned()];
    let first = store.register_instance("analyzer", "a1", &tags).await.unwrap();
    assert_eq!((first.started_ms, first.seen_ms, &first.tags[..]), (1_000, 1_000, &tags[..]));
    store.register_instance("actuator", "a1", &[]).await.unwrap();
    now.store(1_400, Ordering::SeqCst);
    store.register_instance("analyzer", "a2", &[]).await.unwrap();
    let again = store.register_instance("analyzer", "a1", &tags[..1]).await.unwrap();
    assert_eq!((again.started_ms, again.seen_ms, &again.tags[..]), (1_000, 1_400, &tags[..1]));

    now.store(1_600, Ordering::SeqCst);
    let live = store.instances(500).await.unwrap();
    assert_eq!(live.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["a1", "a2"]);
    assert_eq!(live[0], again);
    assert_eq!(store.instances(601).await.unwrap().len(), 3);
    assert_eq!(store.prune_instances(500).await.unwrap(), 1);
    assert!(store.remove_instance("analyzer", "a2").await.unwrap());
    assert!(!store.remove_instance("analyzer", "a2").await.unwrap());
    assert_eq!(store.instances(10_000).await.unwrap(), [again]);
}

pub(crate) async fn instances_are_seen_on_the_databases_clock(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let before = home.store.lease_now_ms().await.unwrap();
    let it = home.store.register_instance("analyzer", "a1", &[]).await.unwrap();
    assert!(it.seen_ms >= before && it.started_ms == it.seen_ms, "{it:?}");
    assert_eq!(home.other().await.instances(3_600_000).await.unwrap(), [it]);
}
