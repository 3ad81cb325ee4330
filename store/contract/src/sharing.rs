use weir_store::{Retention, Store};

use crate::Homes;
use crate::support::{action, commit, hold, job, new};

pub(crate) async fn many_processes_may_start_together_on_nothing(homes: &dyn Homes) {
    for _ in 0..10 {
        let site = homes.nothing().await;
        let opening: Vec<_> = (0..8)
            .map(|_| {
                let address = site.address.clone();
                tokio::spawn(async move { Store::open_at(&address, &crate::patient()).await })
            })
            .collect();
        for opened in opening {
            opened.await.unwrap().unwrap();
        }
    }
}

pub(crate) async fn services_and_commands_write_at_the_same_time_and_lose_nothing(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let mut tasks = Vec::new();
    for process in 0..4_i64 {
        let store = home.other().await;
        tasks.push(tokio::spawn(async move {
            for n in 0..25 {
                store.set_paused(&job(&format!("job-{process}")), n % 2 == 0, "ada", n).await.unwrap();
                store.claim_action(&action(&format!("c{n}"), &job("orders"), n), None, vec![]).await.unwrap();
                store.controls().await.unwrap();
            }
        }));
    }
    for n in 0..25 {
        let write = new(hold(&job("orders"), &format!("d{n:02}"), n));
        home.store.commit(&commit(1, &n.to_string(), vec![write])).await.unwrap();
        home.store.prune(n, Retention::default()).await.unwrap();
    }
    for task in tasks {
        task.await.unwrap();
    }
    let controls = home.store.controls().await.unwrap();
    assert_eq!((controls.revision, controls.jobs.len()), (100, 4));
    assert_eq!(home.store.open_actions().await.unwrap().len(), 25);
    assert_eq!(home.store.decisions(&job("orders"), 100, None).await.unwrap().len(), 25);
    assert_eq!(home.store.audit(1_000).await.unwrap().len(), 100);
}

pub(crate) async fn of_many_claims_exactly_one_succeeds(homes: &dyn Homes) {
    let home = homes.fresh().await;
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let store = home.other().await;
        tasks.push(tokio::spawn(async move {
            let mut won = 0;
            for n in 0..20 {
                won +=
                    u32::from(store.claim_action(&action(&format!("c{n}"), &job("a"), n), None, vec![]).await.unwrap());
            }
            won
        }));
    }
    let mut won = 0;
    for task in tasks {
        won += task.await.unwrap();
    }
    assert_eq!(won, 20);
}
