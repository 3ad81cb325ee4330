//! `/metrics` for Prometheus, `/health/live` and `/health/ready` for whoever restarts and routes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Whether the process does its work; set once by whoever starts it.
#[derive(Clone, Default)]
pub struct Ready(Arc<AtomicBool>);

impl Ready {
    /// Everything has started.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn status(&self) -> (StatusCode, &'static str) {
        if self.0.load(Ordering::Relaxed) {
            (StatusCode::OK, "ready\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "starting\n")
        }
    }
}

/// Serves until it is told to stop.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    metrics: PrometheusHandle,
    ready: Ready,
    stop: CancellationToken,
) -> Result<(), std::io::Error> {
    let page = move || {
        let page = metrics.render();
        async move { ([("content-type", "text/plain; version=0.0.4")], page) }
    };
    let routes = Router::new()
        .route("/metrics", get(page))
        .route("/health/live", get(|| async { "live\n" }))
        .route("/health/ready", get(move || async move { ready.status() }));
    axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await
}
