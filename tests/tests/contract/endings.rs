//! Jobs that end.

use weir_flink::decode::{JobDetail, JobState};
use weir_flink::{FlinkError, Method};

use super::Suite;
use super::refusals::assert_not_found;

async fn ended(suite: &Suite<'_>, state: &str) -> JobDetail {
    suite
        .until(&format!("the job in the state {state}"), async || {
            Some(suite.detail().await).filter(|detail| JobState::of(&detail.state) == JobState::Ended)
        })
        .await
}

pub async fn a_job_that_has_finished_takes_no_requirements(suite: &Suite<'_>) {
    suite.running().await;
    suite.world.end(&suite.job);
    let detail = ended(suite, "FINISHED").await;
    assert_eq!(detail.state, "FINISHED");
    assert!(detail.end_ms > detail.start_ms, "{detail:?}");
    // Its runner may be there for a moment longer, and answers.
    let error = suite
        .until("a refusal because it is over", async || {
            let asked = suite.client.requirements(&suite.job).await;
            asked.err().filter(|error| matches!(error, FlinkError::NotFound { .. }))
        })
        .await;
    assert_not_found("GET", &error);
    assert_not_found("PUT", &suite.put([1, 1, 1]).await.unwrap_err());
    let jobs = suite.client.jobs().await.unwrap();
    let summary = jobs.iter().find(|job| job.id == suite.job).expect("it is still listed");
    assert_eq!((summary.state.as_str(), summary.end_ms), ("FINISHED", detail.end_ms));
    suite.world.check_counts(&suite.job);
}

pub async fn a_job_that_is_cancelled_between_two_calls_is_gone(suite: &Suite<'_>) {
    suite.running().await;
    let cancelled = suite.send(Method::Patch, format!("/jobs/{}?mode=cancel", suite.job), None).await;
    assert_eq!(cancelled.status, 202);
    // While it is being cancelled there is still somebody to ask.
    let error = suite
        .until("a refusal because it is gone", async || {
            suite.put([1, 1, 1]).await.err().filter(|error| matches!(error, FlinkError::NotFound { .. }))
        })
        .await;
    assert_not_found("PUT", &error);
    assert_eq!(ended(suite, "CANCELED").await.state, "CANCELED");
}
