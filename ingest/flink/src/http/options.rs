//! How a JobManager is reached.

use std::fmt;
use std::path::PathBuf;

use reqwest::Url;
use serde::Deserialize;
use thiserror::Error;

/// How a JobManager is reached. Unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpOptions {
    /// Address, `http` or `https`, with a path where a proxy wants one. User and password may stand in it.
    pub url: String,
    /// How to be let in.
    pub auth: Auth,
    /// File with the certificates (PEM) of the only authorities to trust; absent: those of the system.
    pub ca_file: Option<PathBuf>,
    /// Longest time to connect, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Longest silence within an answer, in milliseconds.
    pub read_timeout_ms: u64,
    /// Longest time for a whole call, in milliseconds.
    pub call_timeout_ms: u64,
    /// Largest answer that is read, in bytes.
    pub max_response_bytes: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            url: "http://localhost:8081".into(),
            auth: Auth::None,
            ca_file: None,
            connect_timeout_ms: 3_000,
            read_timeout_ms: 5_000,
            call_timeout_ms: 30_000,
            max_response_bytes: 32 << 20,
        }
    }
}

/// How to be let in.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Auth {
    /// Not at all.
    #[default]
    None,
    /// User and password.
    Basic {
        /// Name of the user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token.
    Bearer {
        /// The token.
        token: String,
    },
}

impl fmt::Debug for Auth {
    /// Shows what kind it is, never a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Basic { user, .. } => write!(f, "Basic {{ user: {user:?}, .. }}"),
            Self::Bearer { .. } => f.write_str("Bearer { .. }"),
        }
    }
}

/// Options that no client can be made from.
#[derive(Debug, Error)]
pub enum HttpOptionsError {
    /// The address is none.
    #[error("WR0320: {url:?} is no address of a JobManager ({why}): write it as http://host:8081 or https://host/path")]
    Url {
        /// What was given, without password.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file of authorities cannot be used.
    #[error("WR0321: certificate authorities in {}: {why}: give a file with certificates in PEM form", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// User, password or token hold characters that cannot be sent.
    #[error("WR0322: the token, user or password holds characters that cannot be sent: check for line ends in it")]
    Secret,
    /// A limit is zero.
    #[error("WR0323: {option} = 0: every call would fail; leave it out for its default")]
    Zero {
        /// The key.
        option: &'static str,
    },
    /// The client cannot be made.
    #[error("WR0324: no HTTP client: {why}; give ca_file if the system has no certificate authorities")]
    Client {
        /// What is wrong.
        why: String,
    },
}

impl HttpOptions {
    /// The address without user, password, query and closing slash, and how to be let in.
    pub(super) fn parts(&self) -> Result<(Url, Auth), HttpOptionsError> {
        for (option, zero) in [
            ("connect_timeout_ms", self.connect_timeout_ms == 0),
            ("read_timeout_ms", self.read_timeout_ms == 0),
            ("call_timeout_ms", self.call_timeout_ms == 0),
            ("max_response_bytes", self.max_response_bytes == 0),
        ] {
            if zero {
                return Err(HttpOptionsError::Zero { option });
            }
        }
        // What stands before an @ may be a password, also where the rest is no address.
        let shown = self.url.rsplit('@').next().unwrap_or_default().to_owned();
        let refused = |why: String| HttpOptionsError::Url { url: shown.clone(), why };
        let mut url = Url::parse(self.url.trim()).map_err(|why| refused(why.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused(format!("scheme {:?}", url.scheme())));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refused("it has a query or fragment".into()));
        }
        let auth = match (&self.auth, url.username()) {
            (Auth::None, "") => Auth::None,
            (Auth::None, user) => {
                Auth::Basic { user: decoded(user), password: decoded(url.password().unwrap_or_default()) }
            }
            (given, _) => given.clone(),
        };
        // Neither can fail for an address with a host, which http and https have.
        let _ = (url.set_username(""), url.set_password(None));
        Ok((url, auth))
    }
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_shown() {
        let options = HttpOptions {
            url: "ftp://me:hush@host".into(),
            auth: Auth::Bearer { token: "hush".into() },
            ..HttpOptions::default()
        };
        let refused = options.parts().unwrap_err().to_string();
        assert!(refused.starts_with("WR0320: \"host\"") && !refused.contains("hush"), "{refused}");
        assert!(!format!("{:?}", options.auth).contains("hush"));
        let basic = Auth::Basic { user: "me".into(), password: "hush".into() };
        assert!(!format!("{basic:?}").contains("hush"));
    }

    #[test]
    fn user_and_password_may_stand_in_the_address() {
        let options = HttpOptions { url: "https://me:p%40ss@host/flink/".into(), ..HttpOptions::default() };
        let (url, auth) = options.parts().unwrap();
        assert_eq!(url.as_str(), "https://host/flink/");
        assert_eq!(auth, Auth::Basic { user: "me".into(), password: "p@ss".into() });
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in ["", "localhost:8081", "http://", "http://host?x=1", "file:///etc"] {
            let options = HttpOptions { url: url.into(), ..HttpOptions::default() };
            assert!(matches!(options.parts(), Err(HttpOptionsError::Url { .. })), "{url:?}");
        }
        let options = HttpOptions { read_timeout_ms: 0, ..HttpOptions::default() };
        assert!(matches!(options.parts(), Err(HttpOptionsError::Zero { option: "read_timeout_ms" })));
    }
}
