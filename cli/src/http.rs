//! `/metrics` for Prometheus, `/health/live` and `/health/ready` for whoever restarts and routes.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weir_runtime::Health;

use crate::assembly::LogMeter;

/// 200 and `well` where nothing is wrong, else 503 and what is, a line each.
fn answer(well: &'static str, wrong: Vec<String>) -> (StatusCode, String) {
    if wrong.is_empty() {
        (StatusCode::OK, format!("{well}\n"))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, wrong.join("\n") + "\n")
    }
}

/// What the pages show.
pub struct Pages {
    /// What this process counts.
    pub metrics: PrometheusHandle,
    /// What its logs count.
    pub meter: LogMeter,
    /// How its services are.
    pub health: Health,
}

/// Serves until it is told to stop.
///
/// # Errors
/// If the listener fails.
pub async fn serve(listener: TcpListener, pages: Pages, stop: CancellationToken) -> Result<(), std::io::Error> {
    let Pages { metrics, meter, health } = pages;
    let page = move || {
        meter.read();
        let page = metrics.render();
        async move { ([("content-type", "text/plain; version=0.0.4")], page) }
    };
    let live = health.clone();
    let routes = Router::new()
        .route("/metrics", get(page))
        .route("/health/live", get(move || async move { answer("live", live.hanging()) }))
        .route("/health/ready", get(move || async move { answer("ready", health.not_ready()) }));
    axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await
}
