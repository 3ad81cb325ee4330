//! `{"errors": [...]}`: what Flink says when it refuses.

use serde::Deserialize;

use super::lenient::{List, Loose, Object, document, sanitised};
use super::{DecodeError, Problems};

/// What Flink said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// All of it.
    pub text: String,
    /// The sentence that says what is wrong, without class names and stack.
    pub reason: String,
}

impl Failure {
    /// Whether it says that there is no such endpoint, which a version without it and a wrong path have in common.
    #[must_use]
    pub fn says_no_endpoint(&self) -> bool {
        self.text.starts_with("Unable to load requested file") || self.text.starts_with("Not found:")
    }

    /// Whether it says that something is not there, which Flink does with several statuses.
    #[must_use]
    pub fn says_not_found(&self) -> bool {
        ["FlinkJobNotFoundException", "NotFoundException", "UnknownTaskExecutorException"]
            .iter()
            .any(|class| self.text.contains(class))
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawFailure {
    errors: Loose<List<String>>,
}

/// Longest reason that is shown, in characters.
const LONGEST_REASON: usize = 400;

/// Reads a refusal.
///
/// # Errors
/// If it is none of Flink's.
pub fn failure(body: &[u8]) -> Result<Failure, DecodeError> {
    let raw: RawFailure = document::<Object<_>>(body, "a list of errors")?.0;
    if !matches!(raw.errors, Loose::Value(_)) {
        return Err(DecodeError::Shape { expected: "a list of errors", received: super::excerpt(body) });
    }
    let errors = raw.errors.items("errors", &mut Problems::default());
    let text = errors.join("\n");
    let reason = reason(&text);
    Ok(Failure { text, reason })
}

/// The lines before the first stack, without Flink's own preamble.
pub(super) fn reason(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| {
            !line.is_empty() && *line != "Internal server error." && !line.starts_with("<Exception on server")
        })
        .take_while(|line| !line.starts_with("at ") && !line.starts_with("End of exception"))
        .map(without_class)
        .collect();
    sanitised(&lines.join("; "), LONGEST_REASON)
}

/// `org.apache.flink.SomeException: what` says `what`, also when it is wrapped in others.
fn without_class(mut line: &str) -> &str {
    while let Some((_, what)) = line.split_once(": ").filter(|(class, _)| class.contains('.') && !class.contains(' ')) {
        line = what;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_what_a_person_wants_to_read() {
        let body = br#"{"errors":["Internal server error.","<Exception on server side:\norg.apache.flink.runtime.messages.FlinkJobNotFoundException: Could not find Flink job (01)\n\tat org.apache.flink.X.y(X.java:1)\n"]}"#;
        let read = failure(body).unwrap();
        assert_eq!(read.reason, "Could not find Flink job (01)");
        assert!(read.says_not_found());
        let body = br#"{"errors":["org.apache.flink.runtime.rest.handler.RestHandlerException: Job vertex [a] was not found in the JobGraph.\nThe request is incomplete, missing job vertex [b] resource requirements.\n\tat x"]}"#;
        let expected = "Job vertex [a] was not found in the JobGraph.; The request is incomplete, missing job vertex [b] \
                        resource requirements.";
        assert_eq!(failure(body).unwrap().reason, expected);
    }

    #[test]
    fn what_is_no_refusal_of_flinks_is_told_apart() {
        for body in ["{}", "[]", "{\"errors\":7}", "<html>", ""] {
            assert!(failure(body.as_bytes()).is_err(), "{body:?}");
        }
    }
}
