//! Encryption and log-in.

use std::time::Duration;

use tokio::time::Instant;
use weir_kafka::{KafkaLog, KafkaOptions, KafkaSasl, KafkaTls, SaslMechanism};
use weir_streams::LogError;
use weir_tests::KafkaBroker;

use super::{NOW_MS, Rig, append, open, payloads};

fn options(rig: &Rig<'_>, password: &str) -> KafkaOptions {
    let ca = Some(rig.broker.authority());
    let (user, password) = (KafkaBroker::USER.to_owned(), password.to_owned());
    KafkaOptions {
        brokers: rig.broker.secure_address(),
        request_timeout_ms: 8_000,
        tls: Some(KafkaTls { ca, ..KafkaTls::default() }),
        sasl: Some(KafkaSasl { mechanism: SaslMechanism::ScramSha512, user, password }),
        ..rig.options()
    }
}

pub async fn secure_listener(rig: &mut Rig<'_>) {
    let log = open(&options(rig, KafkaBroker::PASSWORD)).await;
    append(&log, 1, &[b"1", b"2"]).await;
    assert_eq!(payloads(&log, 1).await, ["1", "2"]);
}

pub async fn wrong_secrets_are_denied(rig: &mut Rig<'_>) {
    let wrong_password = options(rig, "a guess");
    let mut unknown_authority = options(rig, KafkaBroker::PASSWORD);
    // Whom this machine trusts; the broker's authority is not among them.
    unknown_authority.tls = Some(KafkaTls::default());
    for refused in [wrong_password, unknown_authority] {
        let began = Instant::now();
        let error = KafkaLog::open(refused, NOW_MS).await.err().unwrap();
        assert!(matches!(error, LogError::Denied { .. }), "{error}");
        assert!(!error.to_string().contains("a guess"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(12), "{error}: after {:?}", began.elapsed());
    }
    // Plain words to a listener that wants TLS: whatever it is called, it ends.
    let plain = KafkaOptions { tls: None, sasl: None, request_timeout_ms: 3_000, ..options(rig, "") };
    let error = KafkaLog::open(plain, NOW_MS).await.err().unwrap();
    assert!(error.is_retryable(), "{error}");
}
