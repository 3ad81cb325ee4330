//! A server with a certificate of an authority of our own.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::raw::{Answer, talk};

/// A certificate authority that nobody trusts by default.
pub struct Authority {
    issuer: weir_tests::Authority,
    folder: tempfile::TempDir,
}

impl Authority {
    pub fn new() -> Self {
        Self { issuer: weir_tests::Authority::make(), folder: tempfile::tempdir().unwrap() }
    }

    /// A file with its certificate.
    pub fn file(&self) -> PathBuf {
        let path = self.folder.path().join("authority.pem");
        std::fs::write(&path, self.issuer.pem()).unwrap();
        path
    }
}

/// A server that answers over TLS.
pub struct TlsServer {
    pub port: u16,
    /// Heads of the requests that came.
    pub seen: Arc<Mutex<Vec<String>>>,
}

impl TlsServer {
    /// A server whose certificate is for `localhost` alone.
    pub async fn start(authority: &Authority, answer: Answer) -> Self {
        let identity = authority.issuer.server("localhost");
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answer, log) = (acceptor.clone(), answer.clone(), Arc::clone(&log));
                tokio::spawn(async move {
                    // A client that does not trust the certificate goes away here.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        talk(stream, answer, log).await;
                    }
                });
            }
        });
        Self { port, seen }
    }
}
