//! Hostile answers over a real socket: each gives its own error, with its code, and none a panic.
//!
//! The cluster is the simulator behind its server; what spoils the answers is its fault plan, or a server of our own where the
//! connection itself is at fault.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should stop there"
)]

mod wire;

use std::sync::Arc;

use weir_drivers::{Driver, DriverError, FlinkRest, FlinkRestOptions, Look};
use weir_flink::decode::DecodeError;
use weir_flink::{Auth, CallError, FlinkApi, FlinkClient, FlinkError, HttpApi, HttpOptions, Method, Request};
use weir_governor::{Bounds, Effect, ObserveError};
use weir_runtime::RealClock;
use weir_schemas::identity::{JobKey, RunId};
use weir_simulator::{Fault, FaultPlan};
use weir_tests::Unserved;

use wire::calls::{CALLS, Call, Subject};
use wire::raw::{Answer, Raw, moved, ok};
use wire::rig::{Rig, client, impatient};
use wire::tls::{Authority, TlsServer};

fn answer(status: u16, body: &str) -> Fault {
    Fault::Answer { status, body: body.into() }
}

/// What every answer is spoilt by.
struct Case {
    name: &'static str,
    fault: Fault,
    code: &'static str,
    /// Whether a change is taken for accepted: its answer's body is not read, since acceptance proves nothing anyway.
    accepted: bool,
    /// Whether a driver is to try again.
    later: bool,
}

fn cases() -> Vec<Case> {
    let gone = r#"{"errors":["Internal server error.","<Exception on server side:\norg.apache.flink.runtime.messages.FlinkJobNotFoundException: Could not find Flink job (0a)\n\tat a.B.c(D.java:1)\n"]}"#;
    let fixed = r#"{"errors":["java.lang.UnsupportedOperationException: only the AdaptiveScheduler can do that"]}"#;
    let broken = r#"{"errors":["java.lang.NullPointerException"]}"#;
    let body = |name, body, code| Case { name, fault: answer(200, body), code, accepted: true, later: true };
    let status =
        |name, status, body, code, later| Case { name, fault: answer(status, body), code, accepted: false, later };
    vec![
        body("a web page instead of JSON", "<html>Please log in</html>", "WR0316"),
        body("nothing at all", "", "WR0317"),
        body("JSON of something else", "42", "WR0317"),
        body("broken JSON", "{]", "WR0317"),
        body("JSON that breaks off", "{\"jobs\":[{", "WR0317"),
        status("an unknown job, as Flink says it", 500, gone, "WR0310", true),
        status("an unknown job, as it should say it", 404, r#"{"errors":["Job 0a not found"]}"#, "WR0310", true),
        status("no such endpoint", 404, r#"{"errors":["Not found: /x"]}"#, "WR0325", false),
        status("404 of a proxy", 404, "<html>404</html>", "WR0316", true),
        status("another update", 409, r#"{"errors":["Another update is in progress."]}"#, "WR0311", true),
        status("a leader that is away", 503, r#"{"errors":["Service temporarily unavailable"]}"#, "WR0312", true),
        status("a proxy without a server", 502, "<html>502</html>", "WR0312", true),
        status("too many calls", 429, "slow down", "WR0312", true),
        status("no credentials", 401, "<html>401</html>", "WR0313", false),
        status("not allowed", 403, r#"{"errors":["Forbidden"]}"#, "WR0313", false),
        status("a refusal", 400, r#"{"errors":["Bad request"]}"#, "WR0314", false),
        status("an error inside Flink", 500, broken, "WR0314", true),
        status("another scheduler", 500, fixed, "WR0315", false),
        Case { name: "a broken connection", fault: Fault::DropBefore, code: "WR0304", accepted: false, later: true },
        Case { name: "silence", fault: Fault::Hang, code: "WR0302", accepted: false, later: true },
    ]
}

#[tokio::test]
async fn every_call_gives_every_fault_its_code() {
    let rig = Rig::start().await;
    let subject = rig.subject().await;
    let impatient = impatient(&rig.url);
    for Case { name, fault, code, accepted, .. } in cases() {
        let api: &dyn FlinkApi = if fault == Fault::Hang { &impatient } else { rig.api.as_ref() };
        rig.plan(FaultPlan::none().on("*", fault));
        for call in CALLS {
            match call.on(api, &subject).await {
                Err(error) => {
                    assert_eq!(error.code(), code, "{name}: {call:?}: {error}");
                    assert!(FlinkError::CODES.contains(&code) && error.to_string().starts_with(code), "{error}");
                }
                Ok(()) => assert!(accepted && call == Call::Put, "{name}: {call:?} took it for an answer"),
            }
        }
    }
    rig.stop().await;
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let rig = Rig::start().await;
    let subject = rig.subject().await;
    let nobody = Unserved::take();
    let url = format!("http://{}", nobody.address());
    let closing = Raw::start(Answer::Close).await;
    for api in [client(&url), client(&closing.url)] {
        for call in CALLS {
            let error = call.on(&api, &subject).await.unwrap_err();
            assert_eq!((error.code(), error.retryable()), ("WR0300", true), "{call:?}: {error}");
        }
    }
    rig.stop().await;
}

#[tokio::test]
async fn versions_that_are_too_old_or_none_are_refused() {
    let rig = Rig::start().await;
    for (body, code) in [
        (r#"{"flink-version":"1.17.2"}"#, "WR0318"),
        (r#"{"flink-version":"<unknown>"}"#, "WR0318"),
        (r#"{"flink-version":7}"#, "WR0317"),
        ("{}", "WR0317"),
    ] {
        rig.plan(FaultPlan::none().on("/config", answer(200, body)));
        let error = FlinkClient::new(rig.api.as_ref()).supported_version().await.unwrap_err();
        assert_eq!((error.code(), error.retryable()), (code, false), "{body}: {error}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn an_unknown_vertex_is_not_found() {
    let rig = Rig::start().await;
    let subject = Subject { vertex: "f".repeat(32), ..rig.subject().await };
    let error = Call::Vertex.on(rig.api.as_ref(), &subject).await.unwrap_err();
    assert_eq!(error.code(), "WR0310", "{error}");
    rig.stop().await;
}

#[tokio::test]
async fn numbers_that_are_none_are_absent_and_never_zero() {
    let rig = Rig::start().await;
    let subject = rig.subject().await;
    let client = FlinkClient::new(rig.api.as_ref());
    let sound = client.vertex(&subject.detail.id, &subject.vertex).await.unwrap();
    assert!(sound.problems.count() == 0 && sound.subtasks[0].metrics.records_out > Some(0.0), "{sound:?}");
    rig.plan(FaultPlan::none().on("*", Fault::NanStrings));
    let detail = client.job(&subject.detail.id).await.unwrap();
    assert_eq!(detail.vertices.len(), subject.detail.vertices.len(), "{detail:?}");
    assert!(detail.vertices.iter().all(|vertex| vertex.parallelism.is_none()), "{detail:?}");
    assert!(!detail.all_running() && detail.start_ms.is_none(), "{detail:?}");
    let vertex = client.vertex(&subject.detail.id, &subject.vertex).await.unwrap();
    assert!(vertex.subtasks.is_empty(), "a subtask without an index is nobody's: {vertex:?}");
    assert!(vertex.problems.count() > 0, "{vertex:?}");
    let overview = client.overview().await.unwrap();
    assert_eq!((overview.slots_total, overview.slots_available), (None, None), "{overview:?}");
    for call in CALLS {
        let error = call.on(rig.api.as_ref(), &subject).await.err();
        // Nobody has triggered the checkpoint that is asked for.
        let expected = (call == Call::CheckpointStatus).then_some("WR0310");
        assert_eq!(
            error.as_ref().map(FlinkError::code),
            expected,
            "{call:?}: neighbours of bad numbers stay: {error:?}"
        );
    }
    let driven = Driven::new(Arc::clone(&rig.api) as Arc<dyn FlinkApi>, &subject);
    assert!(matches!(driven.observe().await, Err(ObserveError::Unreachable(why)) if why.contains("when job")));
    let refused = driven.driver.execute(&driven.run, &driven.put).await;
    assert!(matches!(refused, Err(DriverError::Refused(_))), "a run without a start is not the one: {refused:?}");
    rig.stop().await;
}

#[tokio::test]
async fn empty_lists_are_no_reason_to_act() {
    let rig = Rig::start().await;
    let subject = rig.subject().await;
    rig.plan(FaultPlan::none().on("*", Fault::EmptyLists));
    let client = FlinkClient::new(rig.api.as_ref());
    assert!(client.jobs().await.unwrap().is_empty());
    assert!(client.task_managers().await.unwrap().is_empty());
    let detail = client.job(&subject.detail.id).await.unwrap().value;
    assert!(detail.vertices.is_empty() && !detail.all_running(), "a job without vertices does not run: {detail:?}");
    let requests = rig.requests();
    let error = client.put_requirements(&detail, &subject.bounds()).await.unwrap_err();
    assert_eq!((error.code(), rig.requests()), ("WR0319", requests), "nothing is sent: {error}");
    rig.stop().await;
}

#[tokio::test]
async fn a_change_whose_answer_is_lost_may_have_happened() {
    let rig = Rig::start().await;
    let subject = rig.subject().await;
    let client = FlinkClient::new(rig.api.as_ref());
    let put = async |fault| {
        rig.plan(FaultPlan::none().times(1, "PUT *", fault));
        let error = client.put_requirements(&subject.detail, &subject.bounds()).await.unwrap_err();
        assert_eq!((error.code(), error.retryable()), ("WR0304", true), "{error}");
        let held = client.requirements(&subject.detail.id).await.unwrap();
        held.0.values().all(|bounds| bounds.upper == Some(2))
    };
    assert!(!put(Fault::DropBefore).await);
    assert!(put(Fault::DropAfter).await);
    rig.stop().await;
}

#[tokio::test]
async fn a_slow_answer_is_waited_for_up_to_the_deadline() {
    let rig = Rig::start().await;
    rig.plan(FaultPlan::none().on("*", Fault::Delay { ms: 300 }));
    assert!(FlinkClient::new(rig.api.as_ref()).overview().await.is_ok());
    let error = FlinkClient::new(&impatient(&rig.url)).overview().await.unwrap_err();
    assert_eq!((error.code(), error.retryable()), ("WR0302", true), "{error}");
    rig.stop().await;
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_read() {
    let rig = Rig::start().await;
    let small = HttpOptions { url: rig.url.clone(), max_response_bytes: 100, ..HttpOptions::default() };
    let api = HttpApi::new(&small).unwrap();
    let error = FlinkClient::new(&api).jobs().await.unwrap_err();
    assert_eq!((error.code(), error.retryable()), ("WR0303", false), "{error}");
    rig.stop().await;
}

#[tokio::test]
async fn an_answer_cut_by_the_wire_or_by_a_proxy_is_told_apart() {
    let cut = Raw::start(Answer::Send("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"jobs\":[".into())).await;
    let error = FlinkClient::new(&client(&cut.url)).jobs().await.unwrap_err();
    assert_eq!((error.code(), error.retryable()), ("WR0304", true), "{error}");
    let shortened = Raw::start(ok("{\"jobs\":[")).await;
    let error = FlinkClient::new(&client(&shortened.url)).jobs().await.unwrap_err();
    let truncated = matches!(error, FlinkError::Undecodable { source: DecodeError::Truncated { bytes: 9 }, .. });
    assert!(truncated && error.retryable(), "{error:?}");
}

#[tokio::test]
async fn redirects_to_others_and_in_circles_are_not_followed() {
    let target = Raw::start(ok("{\"jobs\":[]}")).await;
    for (name, answer) in [
        ("to another host", moved(302, &format!("{}/jobs/overview", target.url))),
        ("in a circle", moved(307, "/jobs/overview")),
        ("to nowhere", moved(308, "http://[")),
    ] {
        let server = Raw::start(answer).await;
        let error = FlinkClient::new(&client(&server.url)).jobs().await.unwrap_err();
        assert_eq!((error.code(), error.retryable()), ("WR0305", false), "{name}: {error}");
        assert!(server.seen.lock().unwrap().len() <= 4, "{name}");
    }
    assert!(target.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_is_no_request_is_not_sent() {
    let rig = Rig::start().await;
    let requests = rig.requests();
    let error = rig.api.call(Request { method: Method::Get, path: ":port".into(), body: None }).await.unwrap_err();
    assert_eq!((error.code(), rig.requests()), ("WR0306", requests), "{error}");
    rig.stop().await;
}

fn tls(port: u16, authority: Option<&Authority>, auth: Auth) -> HttpApi {
    let url = format!("https://localhost:{port}");
    HttpApi::new(&HttpOptions { url, auth, ca_file: authority.map(Authority::file), ..HttpOptions::default() }).unwrap()
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_when_it_is_given() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, ok("{\"jobs\":[]}")).await;
    let basic = Auth::Basic { user: "weir".into(), password: "open sesame".into() };
    let bearer = Auth::Bearer { token: "a-token".into() };
    for (auth, sent) in [(basic, "Basic d2VpcjpvcGVuIHNlc2FtZQ=="), (bearer, "Bearer a-token")] {
        let api = tls(server.port, Some(&authority), auth);
        assert!(FlinkClient::new(&api).jobs().await.unwrap().is_empty());
        let head = server.seen.lock().unwrap().pop().unwrap();
        assert!(head.contains(&format!("authorization: {sent}\r\n")), "{head}");
    }
}

#[tokio::test]
async fn connections_that_cannot_be_trusted_are_refused() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, ok("{\"jobs\":[]}")).await;
    let by_number = HttpOptions {
        url: format!("https://127.0.0.1:{}", server.port),
        ca_file: Some(authority.file()),
        ..HttpOptions::default()
    };
    for (name, api) in [
        ("the system does not know the authority", tls(server.port, None, Auth::None)),
        ("another authority", tls(server.port, Some(&Authority::new()), Auth::None)),
        ("another host's certificate", HttpApi::new(&by_number).unwrap()),
    ] {
        let error = FlinkClient::new(&api).jobs().await.unwrap_err();
        assert_eq!((error.code(), error.retryable()), ("WR0301", false), "{name}: {error}");
    }
    assert!(server.seen.lock().unwrap().is_empty(), "nothing was asked");
}

#[tokio::test]
async fn secrets_stay_out_of_errors() {
    let refusing =
        Raw::start(Answer::Send("HTTP/1.1 401 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".into())).await;
    let url = refusing.url.replace("http://", "http://weir:hush-hush@");
    let error = FlinkClient::new(&client(&url)).jobs().await.unwrap_err();
    assert_eq!(error.code(), "WR0313", "{error}");
    assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
}

/// A driver over the rig, and what it is to act on.
struct Driven {
    driver: FlinkRest,
    job: JobKey,
    run: RunId,
    put: Effect,
    trigger: Effect,
}

impl Driven {
    fn new(api: Arc<dyn FlinkApi>, subject: &Subject) -> Self {
        let bounds = subject.bounds().into_iter().map(|(vertex, (lower, upper))| (vertex, Bounds { lower, upper }));
        Self {
            driver: FlinkRest::new(api, Arc::new(RealClock::new()), FlinkRestOptions::default()),
            job: JobKey::new("simulated", &subject.detail.name),
            run: RunId { id: subject.detail.id.clone(), start_ms: subject.detail.start_ms.unwrap() },
            put: Effect::PutRequirements { bounds: bounds.collect() },
            trigger: Effect::TriggerCheckpoint { trigger_id: "c".repeat(32) },
        }
    }

    async fn observe(&self) -> Result<(), ObserveError> {
        self.driver.observe(Look { job: &self.job, run: &self.run, counters: true }).await.map(drop)
    }
}

#[tokio::test]
async fn a_driver_says_of_every_fault_what_is_to_be_done() {
    let rig = Rig::start().await;
    let subject = rig.subject().await;
    for Case { name, fault, code, accepted, later } in cases() {
        let api = if fault == Fault::Hang { Arc::new(impatient(&rig.url)) } else { Arc::clone(&rig.api) };
        let driven = Driven::new(api, &subject);
        rig.plan(FaultPlan::none().on("*", fault.clone()));
        match (driven.observe().await, code) {
            (Err(ObserveError::Gone(why)), "WR0310") => assert!(why.starts_with(code), "{name}: {why}"),
            (Err(ObserveError::Unreachable(why)), _) => assert!(why.starts_with(code), "{name}: {why}"),
            (other, _) => panic!("{name}: {other:?}"),
        }
        for effect in [&driven.put, &driven.trigger] {
            rig.plan(FaultPlan::none().on("PUT *", fault.clone()).on("POST *", fault.clone()));
            match driven.driver.execute(&driven.run, effect).await {
                Err(DriverError::Later(why)) => assert!(later && why.starts_with(code), "{name}: {why}"),
                Err(DriverError::Refused(why)) => assert!(!later && why.starts_with(code), "{name}: {why}"),
                Ok(_) => assert!(accepted && *effect == driven.put, "{name}: {effect:?}"),
            }
        }
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_job_that_finishes_between_two_calls_is_gone() {
    let rig = Rig::start().await;
    let subject = rig.subject().await;
    let driven = Driven::new(Arc::clone(&rig.api) as Arc<dyn FlinkApi>, &subject);
    assert_eq!(driven.observe().await, Ok(()));
    // What is shown of the job is still the cached answer, so that the end comes between the driver's two calls.
    rig.cluster.lock().unwrap().finish_job(&subject.detail.id).unwrap();
    let DriverError::Later(why) = driven.driver.execute(&driven.run, &driven.put).await.unwrap_err() else {
        panic!("it is not known whether the job was there");
    };
    assert!(why.starts_with("WR0310"), "{why}");
    assert!(matches!(driven.observe().await, Err(ObserveError::Gone(_))));
    let error =
        FlinkClient::new(rig.api.as_ref()).put_requirements(&subject.detail, &subject.bounds()).await.unwrap_err();
    assert!(matches!(error, FlinkError::NotFound { .. }), "{error:?}");
    rig.stop().await;
}

#[tokio::test]
async fn a_driver_gives_up_at_its_own_deadline() {
    let rig = Rig::start().await;
    let subject = rig.subject().await;
    let options = FlinkRestOptions { look_deadline_ms: 50, execute_deadline_ms: 50, ..FlinkRestOptions::default() };
    let api = Arc::clone(&rig.api) as Arc<dyn FlinkApi>;
    let hasty = Driven {
        driver: FlinkRest::new(Arc::clone(&api), Arc::new(RealClock::new()), options),
        ..Driven::new(api, &subject)
    };
    rig.plan(FaultPlan::none().on("*", Fault::Hang));
    assert_eq!(hasty.observe().await, Err(ObserveError::Unreachable("not done within 50 ms".into())));
    let executed = hasty.driver.execute(&hasty.run, &hasty.put).await;
    assert_eq!(executed, Err(DriverError::Later("not done within 50 ms".into())));
    rig.stop().await;
}

#[test]
fn every_error_says_what_it_is_about() {
    let error = FlinkError::Call { path: "/jobs".into(), source: CallError::Timeout(50) };
    assert!(error.to_string().contains("/jobs") && error.to_string().contains("50 ms"), "{error}");
}
