//! Faults between a client and a cluster, for tests: bad answers, slow answers, no answers.
//!
//! A plan is a plain value. In-process clients ask it for an [`Outcome`]; the [server](crate::serve) does the same and turns
//! the outcome into delays and closed connections on the wire.

use crate::model::Cluster;
use crate::rest::{Request, Response};

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// This answer instead of the cluster's; the request does not reach it.
    Answer {
        /// HTTP status.
        status: u16,
        /// Body.
        body: String,
    },
    /// A web page instead of JSON, as a proxy gives it.
    Html,
    /// The first bytes of the cluster's answer.
    Truncate {
        /// Bytes that get through.
        bytes: usize,
    },
    /// The request never gets an answer and never reaches the cluster.
    Hang,
    /// The cluster's answer, later.
    Delay {
        /// How much later.
        ms: u64,
    },
    /// The connection is closed before the request reaches the cluster.
    DropBefore,
    /// The connection is closed after the request was executed: did it happen?
    DropAfter,
    /// Every number of the answer becomes the string `"NaN"`.
    NanStrings,
    /// Every list of the answer becomes empty.
    EmptyLists,
    /// The answer without these keys, wherever they stand.
    WithoutKeys(Vec<String>),
}

/// What a client sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// An answer, after a delay.
    Answer {
        /// The answer.
        response: Response,
        /// How long it takes.
        delay_ms: u64,
    },
    /// Nothing, for ever.
    Hang,
    /// A closed connection.
    Dropped,
}

#[derive(Debug, Clone)]
struct Rule {
    pattern: String,
    fault: Fault,
    skip: u64,
    left: Option<u64>,
    hits: u64,
}

/// Rules that are tried in order; the first that matches is applied.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    rules: Vec<Rule>,
    requests: u64,
}

impl FaultPlan {
    /// No faults.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Applies `fault` to every request that matches `pattern`: `METHOD PATH`, where `*` stands for any text and the method
    /// and the query may be left out (`PUT /jobs/*/resource-requirements`, `/jobs/overview`).
    #[must_use]
    pub fn on(self, pattern: &str, fault: Fault) -> Self {
        self.rule(pattern, fault, 0, None)
    }

    /// Applies `fault` to the first `count` requests that match.
    #[must_use]
    pub fn times(self, count: u64, pattern: &str, fault: Fault) -> Self {
        self.rule(pattern, fault, 0, Some(count))
    }

    /// Lets the first `skip` requests that match through, and applies `fault` to the `count` after them.
    #[must_use]
    pub fn after(self, skip: u64, count: u64, pattern: &str, fault: Fault) -> Self {
        self.rule(pattern, fault, skip, Some(count))
    }

    fn rule(mut self, pattern: &str, fault: Fault, skip: u64, left: Option<u64>) -> Self {
        self.rules.push(Rule { pattern: pattern.into(), fault, skip, left, hits: 0 });
        self
    }

    /// How often the rules with this pattern were applied.
    #[must_use]
    pub fn hits(&self, pattern: &str) -> u64 {
        self.rules.iter().filter(|rule| rule.pattern == pattern).map(|rule| rule.hits).sum()
    }

    /// All requests that came by.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Removes all rules; counts of requests stay.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// What a client sees that sends `request` to `cluster` at `now_ms`.
    pub fn handle(&mut self, cluster: &mut Cluster, now_ms: i64, request: &Request) -> Outcome {
        self.requests += 1;
        let Some(fault) = self.next(request) else { return answered(cluster.handle(now_ms, request), 0) };
        match fault {
            Fault::Answer { status, body } => answered(json(status, body), 0),
            Fault::Html => {
                let body = "<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>";
                answered(Response { status: 200, content_type: "text/html".into(), body: body.into() }, 0)
            }
            Fault::Hang => Outcome::Hang,
            Fault::DropBefore => Outcome::Dropped,
            Fault::DropAfter => {
                cluster.handle(now_ms, request);
                Outcome::Dropped
            }
            Fault::Delay { ms } => answered(cluster.handle(now_ms, request), ms),
            other => answered(other.spoil(cluster.handle(now_ms, request)), 0),
        }
    }

    fn next(&mut self, request: &Request) -> Option<Fault> {
        for rule in self.rules.iter_mut().filter(|rule| rule.left != Some(0) && matches(&rule.pattern, request)) {
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            rule.left = rule.left.map(|left| left - 1);
            rule.hits += 1;
            return Some(rule.fault.clone());
        }
        None
    }
}

impl Fault {
    /// Changes the body of an answer.
    fn spoil(&self, response: Response) -> Response {
        if let Self::Truncate { bytes } = self {
            let body = response.body.bytes().take(*bytes).collect();
            return Response { body: String::from_utf8(body).unwrap_or_default(), ..response };
        }
        match serde_json::from_str::<serde_json::Value>(&response.body) {
            Ok(value) => Response { body: self.change(value).to_string(), ..response },
            Err(_) => response,
        }
    }

    fn change(&self, value: serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match (self, value) {
            (Self::NanStrings, Value::Number(_)) => "NaN".into(),
            (Self::EmptyLists, Value::Array(_)) => Value::Array(Vec::new()),
            (_, Value::Array(items)) => items.into_iter().map(|item| self.change(item)).collect(),
            (_, Value::Object(map)) => {
                let gone = |key: &String| matches!(self, Self::WithoutKeys(keys) if keys.contains(key));
                let kept = map.into_iter().filter(|(key, _)| !gone(key));
                Value::Object(kept.map(|(key, value)| (key, self.change(value))).collect())
            }
            (_, other) => other,
        }
    }
}

fn answered(response: Response, delay_ms: u64) -> Outcome {
    if response.is_dropped() { Outcome::Dropped } else { Outcome::Answer { response, delay_ms } }
}

fn json(status: u16, body: String) -> Response {
    Response { status, content_type: "application/json; charset=UTF-8".into(), body }
}

fn matches(pattern: &str, request: &Request) -> bool {
    let (method, path) = pattern.split_once(' ').unwrap_or(("", pattern));
    let whole = request.path_and_query.as_str();
    let bare = whole.split('?').next().unwrap_or(whole);
    (method.is_empty() || method == request.method) && (fits(path, whole) || fits(path, bare))
}

/// Whether `text` fits `pattern`, in which `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(tail) = text.strip_prefix(start) else { return false };
    (0..=tail.len()).any(|skip| tail.get(skip..).is_some_and(|tail| fits(rest, tail)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::scenario;

    fn cluster() -> Cluster {
        Cluster::new(scenario("calm").unwrap().spec, 0).unwrap()
    }

    fn body(outcome: Outcome) -> String {
        match outcome {
            Outcome::Answer { response, .. } => response.body,
            other => panic!("no answer but {other:?}"),
        }
    }

    #[test]
    fn patterns_take_methods_stars_and_queries() {
        let put = Request::new("PUT", "/jobs/abc/resource-requirements");
        assert!(matches("PUT /jobs/*/resource-requirements", &put));
        assert!(matches("*requirements", &put));
        assert!(!matches("GET /jobs/*", &put));
        let metrics = Request::get("/taskmanagers/metrics?get=a");
        assert!(matches("/taskmanagers/metrics", &metrics) && matches("*get=a", &metrics));
        assert!(!matches("/taskmanagers", &metrics));
    }

    #[test]
    fn a_counted_fault_comes_after_what_it_skips_and_then_stops() {
        let mut cluster = cluster();
        let fault = Fault::Answer { status: 503, body: "{}".into() };
        let mut plan = FaultPlan::none().after(1, 2, "/overview", fault);
        let statuses: Vec<u16> = (0..4)
            .map(|_| match plan.handle(&mut cluster, 0, &Request::get("/overview")) {
                Outcome::Answer { response, .. } => response.status,
                _ => 0,
            })
            .collect();
        assert_eq!(statuses, [200, 503, 503, 200]);
        assert_eq!((plan.hits("/overview"), plan.requests()), (2, 4));
    }

    #[test]
    fn answers_can_be_cut_emptied_and_turned_into_nan() {
        let mut cluster = cluster();
        let mut ask = |fault| {
            let mut plan = FaultPlan::none().on("/jobs/overview", fault);
            body(plan.handle(&mut cluster, 10_000, &Request::get("/jobs/overview")))
        };
        assert_eq!(ask(Fault::EmptyLists), r#"{"jobs":[]}"#);
        assert!(ask(Fault::NanStrings).contains(r#""start-time":"NaN""#));
        assert_eq!(ask(Fault::Truncate { bytes: 7 }), r#"{"jobs""#);
        assert!(!ask(Fault::WithoutKeys(vec!["state".into()])).contains("state"));
        assert!(ask(Fault::Html).starts_with("<html>"));
    }

    #[test]
    fn a_connection_dropped_afterwards_has_done_its_work() {
        let mut cluster = cluster();
        cluster.advance_to(10_000);
        let job = cluster.truth().jobs[0].id.clone();
        let cancel = Request::new("PATCH", &format!("/jobs/{job}?mode=cancel"));
        let mut before = FaultPlan::none().on("PATCH *", Fault::DropBefore);
        assert_eq!(before.handle(&mut cluster, 10_000, &cancel), Outcome::Dropped);
        assert_eq!(cluster.truth().jobs[0].status, "RUNNING");
        let mut after = FaultPlan::none().on("PATCH *", Fault::DropAfter);
        assert_eq!(after.handle(&mut cluster, 10_000, &cancel), Outcome::Dropped);
        assert_eq!(cluster.truth().jobs[0].status, "CANCELED");
    }
}
