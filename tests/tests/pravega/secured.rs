//! TLS, a log-in, and a server that forgets everything when it ends.

use std::time::Duration;

use weir_pravega::{Auth, PravegaOptions};
use weir_streams::{Log, LogError};

use super::faults::{final_reader_error, final_writer_error};
use super::{IMPATIENT, PASSWORD, Secured, Servers, TOKEN, USER, open, options, read_until, reader, refusal, writer};

fn secured(secured: &Secured, scope: &str) -> PravegaOptions {
    PravegaOptions {
        auth: Auth::Password { user: USER.into(), password: PASSWORD.into() },
        tls: Some(secured.certificates.path().join("ca.pem")),
        ..options(&secured.server, scope)
    }
}

pub fn tls_and_password(servers: &Servers) {
    servers.on_secured(async |server, scope| {
        let options = secured(server, &scope);
        assert!(options.controller.starts_with("tls://localhost:"), "{options:?}");
        let log = open(&options).await;
        writer(&log, 1).await.append(b"record", 7).await.expect("an acknowledgement");
        let mut reading = reader(&log, 1, 0).await;
        assert_eq!(read_until(&mut reading, b"record").await.len(), 1);
        let end = log.tail(1).await.expect("a tail");
        assert_eq!(log.truncate_before(1, end).await.expect("a head"), end);
    });
}

pub fn a_token_is_name_and_password_in_base64(servers: &Servers) {
    servers.on_secured(async |server, scope| {
        let good = PravegaOptions { auth: Auth::Token(TOKEN.into()), ..secured(server, &scope) };
        let log = open(&good).await;
        writer(&log, 0).await.append(b"record", 7).await.expect("an acknowledgement");
        let mut reading = reader(&log, 0, 0).await;
        assert_eq!(read_until(&mut reading, b"record").await.len(), 1);
        // `weir:a-guess`.
        let wrong = PravegaOptions { auth: Auth::Token("d2VpcjphLWd1ZXNz".into()), ..good };
        let error = refusal(&wrong).await;
        assert!(matches!(error, LogError::Denied { .. }), "{error}");
        assert!(!error.to_string().contains("d2Vpcjph"), "{error}");
    });
}

pub fn refusals_have_their_own_code(servers: &Servers) {
    servers.on_secured(async |server, scope| {
        let good = secured(server, &scope);
        let password = |password: &str| Auth::Password { user: USER.into(), password: password.into() };
        let wrong = PravegaOptions { auth: password("wrong"), ..good.clone() };
        let error = refusal(&wrong).await;
        assert!(matches!(error, LogError::Denied { .. }), "{error}");
        let error = refusal(&PravegaOptions { auth: Auth::None, ..good.clone() }).await;
        assert!(matches!(error, LogError::Denied { .. }), "{error}");

        // An authority that signed nothing here.
        let other = super::certificates();
        let error = refusal(&PravegaOptions { tls: Some(other.path().join("ca.pem")), ..good.clone() }).await;
        assert!(matches!(error, LogError::Denied { .. } | LogError::Unreachable { .. }), "{error}");
        for path in [server.certificates.path().join("missing.pem"), server.certificates.path().join("key.pem")] {
            let error = refusal(&PravegaOptions { tls: Some(path), ..good.clone() }).await;
            assert!(matches!(error, LogError::Setting { setting: "ca_file", .. }), "{error}");
        }
        let address = good.controller.replace("localhost", "127.0.0.1");
        let error = refusal(&PravegaOptions { controller: address, ..good }).await;
        assert!(matches!(error, LogError::Setting { setting: "controller", .. }), "{error}");
    });
}

/// The server comes back without anything. Writer and reader notice by themselves; opened anew, the log goes on.
pub fn a_server_that_forgets(servers: &Servers) {
    servers.on_secured(async |server, scope| {
        let mut options = secured(server, &scope);
        options.timeouts.gone = Duration::from_secs(3);
        options.timeouts.acknowledgement = IMPATIENT;
        let log = open(&options).await;
        let mut writing = writer(&log, 0).await;
        writing.append(b"record", 0).await.expect("an acknowledgement");
        let mut reading = reader(&log, 0, 0).await;
        read_until(&mut reading, b"record").await;
        let stored = log.info().stored(0, reading.position());
        server.server.kill();
        server.server.restart();

        let error = final_writer_error(&mut writing).await;
        assert!(matches!(error, LogError::Lost { .. }), "{error}");
        let error = final_reader_error(&mut reading).await;
        assert!(matches!(error, LogError::Lost { .. }), "{error}");

        let again = open(&options).await;
        let error = again.info().resume(&stored).expect_err("another log");
        assert!(matches!(error, LogError::OtherIncarnation { .. }), "{error}");
        writer(&again, 0).await.append(b"anew", 0).await.expect("an acknowledgement");
        let mut reading = reader(&again, 0, 0).await;
        let records = reading.read(10, Duration::from_secs(60)).await.expect("a record");
        assert_eq!(records[0].payload, b"anew");
    });
}
