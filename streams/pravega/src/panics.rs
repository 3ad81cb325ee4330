//! The client reports many failures by panicking in tasks of its own.

use std::sync::Once;

/// Threads that run nothing but the client carry this name, which is how its panics are known.
pub(crate) const THREAD_NAME: &str = "pravega-client";

/// Lets panics of the client of Pravega be logged as warnings, instead of printing them as if this program were about to end:
/// they end one task, which is made anew. Panics of everything else are left to the hook that was there before.
///
/// To be called once, early in `main`; further calls do nothing.
pub fn contain_client_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name().is_some_and(|name| name.starts_with(THREAD_NAME)) {
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                let what = payload_text(info.payload());
                tracing::warn!(target: "weir_pravega", place, "the client of Pravega gave up a task: {}", shorten(&what));
            } else {
                before(info);
            }
        }));
    });
}

/// What a panic says.
pub(crate) fn payload_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}

/// The client's errors quote whole connections.
pub(crate) fn shorten(text: &str) -> String {
    const LONGEST: usize = 300;
    let text = text.trim();
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(LONGEST).collect();
    short.push('…');
    short
}
