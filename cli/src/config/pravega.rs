//! The options of a log on Pravega.

use std::time::Duration;

use weir_pravega::{Auth, PravegaOptions, Retention, Timeouts};

use super::{Pravega, PravegaAuth};

/// A day, in milliseconds: what is kept unless something else is wished.
const DAY_MS: i64 = 24 * 3_600_000;

impl Pravega {
    /// The options of one log, whose streams begin with `log`. `create`: whether it is made where there is none.
    #[must_use]
    pub fn options(&self, log: &str, create: bool) -> PravegaOptions {
        let retention = match (self.retain_bytes, self.retain_age_ms) {
            (Some(bytes), _) => Retention::Bytes((bytes / u64::from(self.partitions.max(1))).max(1)),
            (None, age_ms) => Retention::Age(age_ms.unwrap_or(DAY_MS)),
        };
        let auth = match &self.auth {
            None => Auth::None,
            Some(PravegaAuth::Password { user, password }) => {
                Auth::Password { user: user.clone(), password: password.clone() }
            }
            Some(PravegaAuth::Token(token)) => Auth::Token(token.clone()),
            Some(PravegaAuth::KeycloakFile(path)) => Auth::Keycloak(path.clone()),
        };
        PravegaOptions {
            controller: self.controller.clone(),
            scope: self.scope.clone(),
            prefix: log.to_owned(),
            partitions: self.partitions,
            create,
            max_record_bytes: self.max_record_bytes,
            retention,
            auth,
            tls: self.ca_file.clone(),
            max_waiting_bytes: self.queue_bytes,
            timeouts: Timeouts {
                call: Duration::from_millis(self.call_timeout_ms),
                acknowledgement: Duration::from_millis(self.ack_timeout_ms),
                ..Timeouts::default()
            },
        }
    }
}
