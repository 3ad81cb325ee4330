//! A server that comes back without anything that it had acknowledged.

use weir_tests::{Installation, Memory, PostgresServer, PravegaServer, wait_until};

use crate::run::{PATIENCE, Sim, configuration, sampled_anew};

/// The services notice by themselves, say so, begin a new life of the logs, and go on with their work.
pub async fn run() {
    let mut server = PravegaServer::start(Memory::Forgetful);
    let postgres = PostgresServer::start();
    let database = postgres.url(&postgres.database().await);
    let folder = tempfile::tempdir().unwrap();
    let sim = Sim::start().await;
    let weir = Installation::prepare(folder.path(), &configuration(&sim, &server, &database));
    let roles = ["ingest", "analyzer", "actuator"];
    let mut services = roles.map(|role| weir.start(role, role));
    sampled_anew(&sim, &weir, "decisions").await;
    let before = incarnation(&weir).await;

    server.kill();
    server.restart();
    sim.tell("the server is back, and empty");
    sampled_anew(&sim, &weir, "decisions on a new life of the logs").await;
    assert_ne!(incarnation(&weir).await, before);
    for role in roles {
        let told = format!("{role} says that it opens the logs again");
        wait_until(&told, PATIENCE, async || {
            let reopened = |line: &serde_json::Value| line["fields"]["message"] == "the logs are opened again";
            weir.logged(role).iter().any(reopened).then_some(())
        })
        .await;
    }
    let gaps = weir.logged("analyzer").iter().filter(|line| line["fields"]["code"] == "WR0209").count();
    assert!(gaps >= 1, "the analyzer says that its positions belong to a log that is gone");
    for service in &mut services {
        assert_eq!(service.stop().await, Some(0), "{}", service.name());
    }
    sim.end();
}

async fn incarnation(weir: &Installation) -> String {
    let listed = wait_until("a list of streams", PATIENCE, async || weir.ask(&["streams"])).await;
    listed[0]["incarnation"].as_str().unwrap().to_owned()
}
