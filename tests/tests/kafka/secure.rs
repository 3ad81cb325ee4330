//! Encryption and log-in.

use std::time::Duration;

use tokio::time::Instant;
use weir_kafka::{KafkaLog, KafkaOptions, KafkaSasl, KafkaTls, SaslMechanism};
use weir_streams::{Log, LogError};
use weir_tests::{Authority, KafkaBroker, KafkaRight, wait_until};

use super::{NOW_MS, PATIENCE, Rig, append, open, payloads, reader_at_head};

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

/// Every way to prove a password, on one log.
pub async fn secure_listener(rig: &mut Rig<'_>) {
    let mut options = options(rig, KafkaBroker::PASSWORD);
    let mechanisms = [SaslMechanism::ScramSha512, SaslMechanism::ScramSha256, SaslMechanism::Plain];
    for (index, mechanism) in mechanisms.into_iter().enumerate() {
        options.sasl.as_mut().unwrap().mechanism = mechanism;
        let log = open(&options).await;
        append(&log, 1, &[format!("{index}").as_bytes()]).await;
        assert_eq!(payloads(&log, 1).await.len(), index + 1, "{mechanism:?}");
    }
}

/// A certificate instead of a password: without one, or with one that is signed by somebody else, nobody comes in.
pub async fn certificates_instead_of_passwords(rig: &mut Rig<'_>) {
    let with = |cert, key| KafkaOptions {
        brokers: rig.broker.mutual_address(),
        tls: Some(KafkaTls { ca: Some(rig.broker.authority()), cert, key }),
        sasl: None,
        ..options(rig, "")
    };
    let (cert, key) = rig.broker.user_certificate();
    let log = open(&with(Some(cert), Some(key))).await;
    append(&log, 1, &[b"1"]).await;
    assert_eq!(payloads(&log, 1).await, ["1"]);

    let folder = tempfile::tempdir().unwrap();
    let stranger = Authority::make().user(KafkaBroker::USER);
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, stranger.certificate).unwrap();
    std::fs::write(&key, stranger.key).unwrap();
    for refused in [with(None, None), with(Some(cert), Some(key))] {
        let error = KafkaLog::open(refused, NOW_MS).await.err().unwrap();
        println!("{error}");
        assert!(matches!(error, LogError::Denied { .. }), "{error}");
    }
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
        assert!(began.elapsed() < Duration::from_secs(60), "{error}: after {:?}", began.elapsed());
    }
    // Plain words to a listener that wants TLS: whatever it is called, it ends.
    let plain = KafkaOptions { tls: None, sasl: None, request_timeout_ms: 3_000, ..options(rig, "") };
    let error = KafkaLog::open(plain, NOW_MS).await.err().unwrap();
    assert!(error.is_retryable(), "{error}");
}

/// The rights that the manual names, and no others.
const RIGHTS: [KafkaRight; 4] = [KafkaRight::Read, KafkaRight::Write, KafkaRight::Create, KafkaRight::AlterConfigs];

/// The refusal, once the broker knows of a change of rights, and how long it took.
async fn denial<T>(what: &str, mut attempt: impl AsyncFnMut() -> Result<T, LogError>) -> (LogError, Duration) {
    wait_until(what, PATIENCE, async || {
        let began = Instant::now();
        let refused = attempt().await.err().filter(|error| matches!(error, LogError::Denied { .. }));
        refused.map(|error| (error, began.elapsed()))
    })
    .await
}

/// Each right that is missing is called so, at once; a server that is slow is something else.
pub async fn missing_rights_are_denied(rig: &mut Rig<'_>) {
    let mut guest = options(rig, KafkaBroker::PASSWORD);
    guest.sasl.as_mut().unwrap().user = KafkaBroker::GUEST.into();
    let topic = guest.topic.clone();
    let (error, _) = denial("a refusal", async || KafkaLog::open(guest.clone(), NOW_MS).await).await;
    assert!(error.to_string().contains("look for topic"), "{error}");

    rig.broker.set_rights(&topic, &RIGHTS);
    let made = wait_until("the rights", PATIENCE, async || KafkaLog::open(guest.clone(), NOW_MS).await.ok()).await;
    append(&made, 1, &[b"1", b"2"]).await;
    assert_eq!(payloads(&made, 1).await, ["1", "2"]);
    let mut reader = reader_at_head(&made, 1).await;
    assert_eq!(reader.read(10, PATIENCE).await.unwrap().len(), 2);

    for missing in RIGHTS.into_iter().filter(|right| *right != KafkaRight::Create) {
        let left: Vec<KafkaRight> = RIGHTS.into_iter().filter(|right| *right != missing).collect();
        rig.broker.set_rights(&topic, &left);
        let (refused, took) = match missing {
            KafkaRight::Write => {
                denial("no writing", async || made.writer(1, "test").await.unwrap().append(b"3", NOW_MS).await).await
            }
            _ => denial("no opening", async || KafkaLog::open(guest.clone(), NOW_MS).await).await,
        };
        println!("without {missing:?}, after {took:?}: {refused}");
        assert!(took < Duration::from_millis(guest.request_timeout_ms), "{missing:?}: after {took:?}");
        if missing == KafkaRight::Read {
            let (refused, took) = denial("no reading", async || reader.read(10, Duration::from_secs(5)).await).await;
            assert!(refused.to_string().contains(&topic), "{refused}");
            assert!(took < Duration::from_secs(5), "after {took:?}");
        }
    }
    // Who sees that settings are not as they have to be, and may not change them, is told so in the end.
    rig.broker.set_rights(&topic, &[KafkaRight::Read, KafkaRight::Write, KafkaRight::DescribeConfigs]);
    let shorter = KafkaOptions { retain_ms: guest.retain_ms / 2, request_timeout_ms: 3_000, ..guest.clone() };
    let seen = wait_until("the rights", PATIENCE, async || KafkaLog::open(guest.clone(), NOW_MS).await.ok()).await;
    assert_eq!(seen.info(), made.info());
    let (refused, _) = denial("no change", async || KafkaLog::open(shorter.clone(), NOW_MS).await).await;
    println!("with DescribeConfigs only: {refused}");

    rig.broker.set_rights(&topic, &RIGHTS);
    let mut writer = made.writer(1, "test").await.unwrap();
    wait_until("the rights", PATIENCE, async || writer.append(b"last", NOW_MS).await.ok()).await;
    wait_until("the record", PATIENCE, async || {
        let records = reader.read(10, Duration::from_secs(1)).await.unwrap_or_default();
        records.iter().any(|record| record.payload == b"last").then_some(())
    })
    .await;
}
