//! Why a value cannot be read, in words that hold nothing secret.

/// Keys whose values are not shown, nor anything below them.
const SECRET: [&str; 3] = ["password", "token", "secret"];
/// Keys whose values are not shown as a whole, since secrets lie in them.
const AROUND_SECRETS: [&str; 5] = ["auth", "basic", "bearer", "database", "sasl"];

/// Why a value is not what it should be.
pub struct Unreadable {
    pub text: String,
    /// Whether the value itself may be shown beside it.
    pub may_be_shown: bool,
}

impl Unreadable {
    /// `path` leads from the root of the configuration, `below` from what was read. `is_structure`: a text stands there that
    /// looks like a table, with whatever lies in it.
    pub fn new(path: &str, below: &[&str], is_structure: bool, message: &str) -> Self {
        let secret = |key: &str| SECRET.contains(&key) || key == "?";
        let last = path.rsplit('.').next().unwrap_or_default();
        let hidden = path.split('.').any(secret) || AROUND_SECRETS.contains(&last);
        // These name keys, and no values.
        let about_keys = ["unknown field", "missing field"].iter().any(|start| message.starts_with(start));
        let expected =
            message.rsplit_once("expected ").map(|(_, what)| format!(": expected {what}")).unwrap_or_default();
        let text = match (about_keys, hidden, is_structure) {
            (true, _, _) | (false, false, false) => message.to_owned(),
            (false, true, _) => {
                format!("cannot be read{expected}; what stands there is not shown, since it may be secret")
            }
            (false, false, true) => format!("is text that looks like a table, and cannot be parsed as one{expected}"),
        };
        let place = below.join(".");
        let text = if below.is_empty() || about_keys { text } else { format!("{place}: {text}") };
        Self { text, may_be_shown: !hidden && !is_structure }
    }
}
