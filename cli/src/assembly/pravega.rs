//! The options of a log on Pravega.

use std::time::Duration;

use weir_pravega::{Auth, PravegaOptions, Retention, Timeouts};

use crate::config::{Pravega, PravegaAuth};

/// A day, in milliseconds: what is kept unless something else is wished.
const DAY_MS: i64 = 24 * 3_600_000;

/// The options of one log on Pravega, whose streams begin with `log`. `create`: whether it is made where there is none.
pub(super) fn options(pravega: &Pravega, log: &str, create: bool) -> PravegaOptions {
    let retention = match (pravega.retain_bytes, pravega.retain_age_ms) {
        (Some(bytes), _) => Retention::Bytes((bytes / u64::from(pravega.partitions.max(1))).max(1)),
        (None, age_ms) => Retention::Age(age_ms.unwrap_or(DAY_MS)),
    };
    let auth = match &pravega.auth {
        None => Auth::None,
        Some(PravegaAuth::Password { user, password }) => {
            Auth::Password { user: user.clone(), password: password.clone() }
        }
        Some(PravegaAuth::Token(token)) => Auth::Token(token.clone()),
        Some(PravegaAuth::KeycloakFile(path)) => Auth::Keycloak(path.clone()),
    };
    PravegaOptions {
        controller: pravega.controller.clone(),
        scope: pravega.scope.clone(),
        prefix: log.to_owned(),
        partitions: pravega.partitions,
        create,
        max_record_bytes: pravega.max_record_bytes,
        retention,
        auth,
        tls: pravega.ca_file.clone(),
        max_waiting_bytes: pravega.queue_bytes,
        timeouts: Timeouts {
            call: Duration::from_millis(pravega.call_timeout_ms),
            acknowledgement: Duration::from_millis(pravega.ack_timeout_ms),
            ..Timeouts::default()
        },
    }
}
