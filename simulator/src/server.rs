//! The cluster as an HTTP server.

use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Request as HttpRequest, Response as HttpResponse, StatusCode, header};
use futures::stream;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::faults::{FaultPlan, Outcome};
use crate::model::Cluster;
use crate::rest::{Request, Response};

/// Longest body that is read.
const MOST_BYTES: usize = 1 << 20;

/// Serves `cluster` on `listener` until `stop` is cancelled. `now` gives the cluster's time in milliseconds.
///
/// # Errors
/// Fails if the listener does.
pub async fn serve(
    cluster: Arc<Mutex<Cluster>>,
    listener: TcpListener,
    now: impl Fn() -> i64 + Send + Sync + Clone + 'static,
    stop: CancellationToken,
) -> std::io::Result<()> {
    serve_with_faults(cluster, Arc::new(Mutex::new(FaultPlan::none())), listener, now, stop).await
}

/// Serves `cluster` like [`serve`], with `faults` between it and its clients.
///
/// # Errors
/// Fails if the listener does.
pub async fn serve_with_faults(
    cluster: Arc<Mutex<Cluster>>,
    faults: Arc<Mutex<FaultPlan>>,
    listener: TcpListener,
    now: impl Fn() -> i64 + Send + Sync + Clone + 'static,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let hanging = stop.clone();
    let answer = move |request: HttpRequest<Body>| {
        let (cluster, faults, now, stop) = (Arc::clone(&cluster), Arc::clone(&faults), now.clone(), hanging.clone());
        async move {
            let Some(request) = read(request).await else { return plain(StatusCode::PAYLOAD_TOO_LARGE) };
            let outcome = lock(&faults).handle(&mut lock(&cluster), now(), &request);
            respond(outcome, &stop).await
        }
    };
    let router = Router::new().fallback(answer);
    axum::serve(listener, router).with_graceful_shutdown(async move { stop.cancelled().await }).await
}

async fn read(request: HttpRequest<Body>) -> Option<Request> {
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, MOST_BYTES).await.ok()?;
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    debug!(method = %parts.method, path, "request");
    Some(Request::new(parts.method.as_str(), path).with_body(String::from_utf8_lossy(&bytes)))
}

async fn respond(outcome: Outcome, stop: &CancellationToken) -> HttpResponse<Body> {
    match outcome {
        Outcome::Answer { response, delay_ms } => {
            if delay_ms > 0 {
                wait(Duration::from_millis(delay_ms), stop).await;
            }
            http(response)
        }
        Outcome::Hang => {
            stop.cancelled().await;
            plain(StatusCode::SERVICE_UNAVAILABLE)
        }
        Outcome::Dropped => dropped(),
    }
}

/// Waits on the runtime's clock, which tests can pause; a stop ends the wait.
async fn wait(time: Duration, stop: &CancellationToken) {
    // A time-out of what never ends is the wait itself.
    let never = async {
        pending::<()>().await;
    };
    tokio::select! {
        () = stop.cancelled() => {}
        _ = tokio::time::timeout(time, never) => {}
    }
}

fn http(response: Response) -> HttpResponse<Body> {
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = HttpResponse::new(Body::from(response.body));
    *answer.status_mut() = status;
    if let Ok(kind) = HeaderValue::from_str(&response.content_type) {
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    answer
}

/// An answer that ends in the middle of its body, so that the connection is closed.
fn dropped() -> HttpResponse<Body> {
    let broken = || std::io::Error::other("the connection is dropped on purpose");
    let mut yielded = false;
    let failing = poll_fn(move |context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(Err::<&'static str, _>(broken()));
        }
        context.waker().wake_by_ref();
        Poll::Pending
    });
    HttpResponse::new(Body::from_stream(stream::once(failing)))
}

fn plain(status: StatusCode) -> HttpResponse<Body> {
    let mut answer = HttpResponse::new(Body::empty());
    *answer.status_mut() = status;
    answer
}

/// The guard, even if a holder panicked: the model is only changed by calls that do not.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
