//! Encrypted connections, and certificates instead of passwords.

use std::path::Path;

use weir_store::{Address, OpenOptions, Store, StoreError};
use weir_tests::{Authority, Identity, PostgresServer};

async fn attempt(url: &str) -> Result<Store, StoreError> {
    Store::open_at(&Address::parse(url).unwrap(), &OpenOptions::default()).await
}

fn write(folder: &Path, name: &str, pem: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, pem).unwrap();
    path.display().to_string()
}

/// Parameters of an address for who has this certificate.
fn bearing(folder: &Path, name: &str, identity: &Identity) -> String {
    let cert = write(folder, &format!("{name}.pem"), &identity.certificate);
    let key = write(folder, &format!("{name}.key"), &identity.key);
    format!("&sslcert={cert}&sslkey={key}")
}

#[tokio::test]
async fn servers_and_users_are_known_by_their_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = Authority::make();
    let identity = authority.server("127.0.0.1");
    let ca = write(folder, "ca.pem", &authority.pem());
    write(folder, "cert.pem", &identity.certificate);
    write(folder, "key.pem", &identity.key);
    let server = PostgresServer::start_with_tls(folder);
    let database = server.database().await;
    let anybody = server.url(&database);

    // Encrypted without looking at whom one talks to; then with a look at the authority; then at the name too.
    for mode in ["require".to_owned(), format!("verify-ca&sslrootcert={ca}"), format!("verify-full&sslrootcert={ca}")] {
        let store = attempt(&format!("{anybody}?sslmode={mode}")).await.unwrap();
        let ours = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let (encrypted,): (Option<bool>,) =
            sqlx::query_as(ours).fetch_one(&mut server.connect(&database).await).await.unwrap();
        assert_eq!(encrypted, Some(true), "{mode}");
        store.close().await;
    }

    let certified = anybody.replace("weir@", "certified@");
    let trusting = format!("sslmode=verify-full&sslrootcert={ca}");
    let own = bearing(folder, "own", &authority.user("certified"));
    attempt(&format!("{certified}?{trusting}{own}")).await.unwrap().close().await;

    let stranger = Authority::make();
    let other_ca = write(folder, "other.pem", &stranger.pem());
    let forged = bearing(folder, "forged", &stranger.user("certified"));
    let namesake = bearing(folder, "namesake", &authority.user("somebody"));
    let empty = write(folder, "empty.pem", "");
    let misnamed = anybody.replace("127.0.0.1", "localhost");
    for (what, url) in [
        ("an authority that signed nothing here", format!("{anybody}?sslmode=verify-full&sslrootcert={other_ca}")),
        ("whom this machine trusts", format!("{anybody}?sslmode=verify-full")),
        ("another name than the certificate's", format!("{misnamed}?{trusting}")),
        ("no certificate", format!("{certified}?{trusting}")),
        ("somebody else's certificate", format!("{certified}?{trusting}{namesake}")),
        ("a certificate of another authority", format!("{certified}?{trusting}{forged}")),
        ("no encryption", format!("{certified}?sslmode=disable")),
        ("no file of an authority", format!("{anybody}?sslmode=verify-full&sslrootcert={ca}.missing")),
        ("no file of a key", format!("{certified}?{trusting}{own}.missing")),
        ("a folder instead", format!("{anybody}?sslmode=verify-full&sslrootcert={}", folder.display())),
        ("a file that is none of an authority", format!("{anybody}?sslmode=verify-full&sslrootcert={empty}")),
    ] {
        let why = attempt(&url).await.map(|_| ()).expect_err(what);
        println!("{what}: {why}");
        assert_eq!(why.code(), "WR0416", "{what}: {why}");
    }
}
