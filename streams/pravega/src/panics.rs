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

/// The client's errors quote whole connections, with the header by which we log in.
pub(crate) fn shorten(text: &str) -> String {
    const LONGEST: usize = 300;
    let text = without_secrets(text.trim());
    if text.chars().count() <= LONGEST {
        return text;
    }
    let mut short: String = text.chars().take(LONGEST).collect();
    short.push('…');
    short
}

/// Hides what follows the name of a way to log in.
fn without_secrets(text: &str) -> String {
    let in_token = |it: char| it.is_ascii_alphanumeric() || matches!(it, '+' | '/' | '=' | '-' | '.' | '_' | '~');
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(end) = ["Basic ", "Bearer "].iter().filter_map(|way| Some(rest.find(way)? + way.len())).min() {
        let (before, after) = rest.split_at(end);
        shown.push_str(before);
        shown.push('…');
        rest = after.trim_start_matches(in_token);
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_logs_in_is_hidden() {
        let said = "{\"authorization\": \"Basic d2VpcjphLWd1ZXNz\"} and Bearer ey.J_-x~+/=, tried again";
        assert_eq!(shorten(said), "{\"authorization\": \"Basic …\"} and Bearer …, tried again");
        assert_eq!(shorten("no such segment"), "no such segment");
    }

    #[test]
    fn a_secret_is_not_cut_in_half() {
        let said = format!("{} Basic d2VpcjphLWd1ZXNz", "x".repeat(285));
        assert!(!shorten(&said).contains("d2Vp"), "{}", shorten(&said));
    }
}
