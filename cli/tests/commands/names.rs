use weir::exit::Exit;
use weir::output::Output;
use weir_schemas::identity::JobKey;

use crate::home::{Home, cannot_help, grow, hold, run_in};
use weir_schemas::decision::Disposition;

#[tokio::test]
async fn a_name_that_several_jobs_have_is_refused_with_their_keys() {
    let home = Home::new().await;
    home.decided(&[hold(), cannot_help()]).await;
    for line in ["explain orders", "history orders", "mode orders auto", "pause orders", "resume orders"] {
        let refused = home.error(line).await;
        assert_eq!((refused.code(), refused.exit()), ("WR0611", Exit::BadInput), "{line}");
        let expected =
            "WR0611: several jobs are called \"orders\": give one of prod/default/orders, test/team%20a/orders";
        assert_eq!(refused.to_string(), expected);
    }
    assert!(home.text("explain test/team%20a/orders").await.starts_with("test/team%20a/orders "));
}

#[tokio::test]
async fn a_misspelt_name_is_not_found_and_corrected() {
    let home = Home::new().await;
    home.decided(&[grow(Disposition::Act), hold()]).await;
    for (line, hint) in [
        ("explain wrodcount", "\"wrodcount\": did you mean prod/default/wordcount?"),
        ("history prod/default/order", "\"prod/default/order\": did you mean prod/default/orders?"),
        ("resume checkout", "\"checkout\": `weir status` lists all jobs"),
        (
            "mode wordcuont auto",
            "\"wordcuont\": did you mean prod/default/wordcount?; name a job that was not seen yet as \
             cluster/namespace/name",
        ),
    ] {
        let refused = home.error(line).await;
        assert_eq!((refused.code(), refused.exit()), ("WR0610", Exit::NotFound), "{line}");
        assert_eq!(refused.to_string(), format!("WR0610: there is no job {hint}"));
    }
    assert!(home.store.controls().await.unwrap().jobs.is_empty(), "nothing was said of any job");
}

#[tokio::test]
async fn without_data_there_is_nothing_to_ask() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none");
    for line in ["status", "freeze", "mode a/b/c auto"] {
        let refused = run_in(&missing, line, Output::Table).await.result.unwrap_err();
        assert_eq!((refused.code(), refused.exit()), ("WR0402", Exit::NotFound), "{line}");
    }
    assert!(!missing.exists(), "commands make no folder of data");
    std::fs::create_dir(&missing).unwrap();
    std::fs::write(missing.join("control.db"), "this is no database, but text that is long enough to tell").unwrap();
    let refused = run_in(&missing, "status", Output::Table).await.result.unwrap_err();
    assert_eq!((refused.code(), refused.exit()), ("WR0405", Exit::Configuration));
}

#[tokio::test]
async fn a_name_cannot_steer_the_terminal() {
    let home = Home::new().await;
    let mut nasty = hold();
    nasty.job = JobKey::new("prod", "x\u{1b}[2J\ny");
    nasty.sentence = format!("{}: holds", nasty.job.name);
    home.decided(&[nasty]).await;
    for line in ["status", "explain prod/default/x%1B[2J%0Ay", "history prod/default/x%1B[2J%0Ay"] {
        let text = home.text(line).await;
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(text.contains("x%1B[2J%0Ay") || text.contains("x\u{fffd}[2J\u{fffd}y"), "{text:?}");
    }
}
