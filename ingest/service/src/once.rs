//! Errors that last are told once.

use tracing::{info, warn};

/// Tells an error when it begins, when it becomes another one, and when it ends.
#[derive(Debug, Default)]
pub(crate) struct Once {
    last: Option<String>,
    times: u64,
}

impl Once {
    /// `kind` says whether it is the same error as before; `detail` is what is told. Says whether it was told.
    pub(crate) fn failed(&mut self, about: &str, kind: &str, detail: &str) -> bool {
        self.times += 1;
        if self.last.as_deref() == Some(kind) {
            return false;
        }
        warn!(about, "{detail}");
        self.last = Some(kind.to_owned());
        true
    }

    /// It works again.
    pub(crate) fn succeeded(&mut self, about: &str) {
        if self.last.take().is_some() {
            info!(about, failures = self.times, "works again");
        }
        self.times = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_error_is_told_once_and_a_changed_one_again() {
        let mut once = Once::default();
        let told: Vec<bool> =
            ["a", "a", "b", "b", "a"].into_iter().map(|kind| once.failed("prod", kind, "detail")).collect();
        assert_eq!(told, [true, false, true, false, true]);
        once.succeeded("prod");
        assert!(once.failed("prod", "a", "detail"));
    }
}
