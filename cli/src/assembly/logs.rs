//! What the logs count, shown on `/metrics`.

use std::sync::{Arc, Mutex, PoisonError};

use metrics::counter;
use weir_outbox::{EVENTS, Logs, METRICS};
use weir_runtime::telemetry;
use weir_streams::{Log, LogStats};

/// Shows what the logs of this process count. A log that is opened again counts from 0; what is shown never falls.
#[derive(Clone)]
pub struct LogMeter(Arc<Mutex<Vec<Watched>>>);

/// An open log, and what is shown of it already.
struct Watched {
    name: &'static str,
    log: Arc<dyn Log>,
    shown: LogStats,
}

impl LogMeter {
    /// Shows zeros until there is a log.
    #[must_use]
    pub fn start() -> Self {
        for name in [METRICS, EVENTS] {
            show(name, &LogStats::default(), &LogStats::default());
        }
        Self(Arc::default())
    }

    /// Shows these logs from now on. They stay open until [`LogMeter::let_go`].
    pub fn watch(&self, logs: &Logs) {
        let watched = |name, log: &Arc<dyn Log>| Watched { name, log: Arc::clone(log), shown: LogStats::default() };
        let both = [watched(METRICS, &logs.metrics), watched(EVENTS, &logs.events)];
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(both);
    }

    /// Adds to what is shown what came since the last time.
    pub fn read(&self) {
        for Watched { name, log, shown } in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            let now = log.stats();
            show(name, &now, shown);
            *shown = now;
        }
    }

    /// Reads the logs for the last time.
    pub fn let_go(&self) {
        self.read();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn show(log: &'static str, now: &LogStats, shown: &LogStats) {
    let more = |of: fn(&LogStats) -> u64| of(now).saturating_sub(of(shown));
    counter!(telemetry::LOG_BYTES_APPENDED, "log" => log).increment(more(|it| it.bytes_appended));
    counter!(telemetry::LOG_BYTES_REMOVED, "log" => log).increment(more(|it| it.bytes_removed));
    counter!(telemetry::LOG_APPENDS_REFUSED, "log" => log).increment(more(|it| it.appends_refused));
    counter!(telemetry::LOG_APPENDS_FAILED, "log" => log).increment(more(|it| it.appends_failed));
    counter!(telemetry::LOG_ACKNOWLEDGEMENTS_LATE, "log" => log).increment(more(|it| it.acknowledgements_timed_out));
    counter!(telemetry::LOG_WRITERS_RECREATED, "log" => log).increment(more(|it| it.writers_recreated));
    counter!(telemetry::LOG_READERS_RECREATED, "log" => log).increment(more(|it| it.readers_recreated));
    counter!(telemetry::LOG_PANICS_CONTAINED, "log" => log).increment(more(|it| it.panics_contained));
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use weir_streams::{MemoryLog, MemoryOptions};

    use super::*;

    /// Logs to one of which a record was appended, and a second one that is too large.
    async fn used() -> Logs {
        let log = || Arc::new(MemoryLog::new(MemoryOptions { max_record_bytes: 10, ..MemoryOptions::default() }));
        let (metrics, events) = (log(), log());
        let mut writer = metrics.writer(0, "test").await.unwrap();
        writer.append(b"0123456789", 0).await.unwrap();
        writer.append(b"0123456789x", 0).await.unwrap_err();
        Logs { metrics, events }
    }

    #[tokio::test]
    async fn what_is_shown_begins_at_0_and_goes_on_when_logs_are_opened_again() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let page = recorder.handle();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let meter = LogMeter::start();
        let check = |bytes: u64, refused: u64| {
            meter.read();
            let text = page.render();
            for line in [
                format!("weir_log_bytes_appended_total{{log=\"metrics\"}} {bytes}"),
                format!("weir_log_appends_refused_total{{log=\"metrics\"}} {refused}"),
                "weir_log_appends_refused_total{log=\"events\"} 0".to_owned(),
                "weir_log_panics_contained_total{log=\"events\"} 0".to_owned(),
            ] {
                assert!(text.lines().any(|it| it == line), "no {line} in {text}");
            }
        };
        check(0, 0);
        for opened in 1..=2 {
            let logs = used().await;
            meter.watch(&logs);
            let weak = Arc::downgrade(&logs.metrics);
            drop(logs);
            meter.let_go();
            assert!(weak.upgrade().is_none(), "it is closed");
            check(10 * opened, opened);
        }
        let logs = used().await;
        meter.watch(&logs);
        check(30, 3);
        check(30, 3);
    }
}
