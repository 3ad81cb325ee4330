//! Certificates, signed by an authority of the test's own.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// Signs certificates. Each one that is made is another authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, both PEM.
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// Makes an authority.
    ///
    /// # Panics
    /// If no keys can be made.
    #[must_use]
    pub fn make() -> Self {
        // Were it the default name, which servers' certificates have, those would count as signed by themselves.
        let mut params = named("Weir's tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, key()).expect("a certificate"))
    }

    /// Its own certificate, PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A server's certificate for a name or an address.
    ///
    /// # Panics
    /// If it is neither.
    #[must_use]
    pub fn server(&self, host: &str) -> Identity {
        let params = CertificateParams::new(vec![host.to_owned()]).expect("a name or an address");
        self.sign(&params)
    }

    /// A user's certificate, with the name as its common name.
    #[must_use]
    pub fn user(&self, name: &str) -> Identity {
        self.sign(&named(name))
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = key();
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
