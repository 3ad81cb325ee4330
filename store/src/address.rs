//! Where a database is, and how it is opened.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;

use crate::error::StoreError;

/// Parameters that an address of a server may have.
const PARAMETERS: [&str; 10] = [
    "application_name",
    "dbname",
    "host",
    "options",
    "password",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
];

/// Where a database is: a file of SQLite's, or a database on a PostgreSQL server. It is printed without its password.
#[derive(Clone)]
pub struct Address(pub(crate) Place);

#[derive(Clone)]
pub(crate) enum Place {
    File(PathBuf),
    Server(Box<PgConnectOptions>),
}

impl Address {
    /// The database in a file.
    #[must_use]
    pub fn file(path: &Path) -> Self {
        Self(Place::File(path.into()))
    }

    /// The database at `postgres://user@host:port/database?sslmode=…`, or in a file. What the address of a server leaves
    /// out comes from PostgreSQL's own variables (`PGHOST`, `PGUSER`, `PGPASSWORD` and so on) and its file of passwords.
    ///
    /// # Errors
    /// [`StoreError::BadAddress`], which does not repeat the address, since it may hold a password.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(Self::file(Path::new(text))) };
        let bad = |detail: String| StoreError::BadAddress { detail };
        if scheme != "postgres" && scheme != "postgresql" {
            return Err(bad(format!("{scheme:?} is no database that weir knows")));
        }
        let parameters = rest.split_once('?').map_or("", |(_, parameters)| parameters);
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let key = parameter.split_once('=').map_or(parameter, |(key, _)| key);
            if !PARAMETERS.contains(&key) {
                return Err(bad(format!("a parameter that is none of {}", PARAMETERS.join(", "))));
            }
        }
        let options = PgConnectOptions::from_str(text).map_err(|error| bad(error.to_string()))?;
        Ok(Self(Place::Server(Box::new(options))))
    }

    /// The same place, with the password from elsewhere. A file has none.
    #[must_use]
    pub fn with_password(self, password: &str) -> Self {
        match self.0 {
            Place::Server(options) => Self(Place::Server(Box::new(options.password(password)))),
            file @ Place::File(_) => Self(file),
        }
    }

    /// Whether it is on a server, which other machines reach too.
    #[must_use]
    pub fn is_server(&self) -> bool {
        matches!(self.0, Place::Server(_))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::File(path) => path.display().fmt(f),
            Place::Server(options) => {
                let (user, port) = (options.get_username(), options.get_port());
                let host = options.get_socket().map_or(options.get_host().into(), |path| path.to_string_lossy());
                let database = options.get_database().unwrap_or(user);
                write!(f, "postgres://{user}@{host}:{port}/{database}")
            }
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How to open.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Whether tables, and with SQLite the file, are made where there are none.
    pub create: bool,
    /// How long to wait for a lock that another process holds.
    pub lock_wait: Duration,
    /// How long to wait for a server: for a connection to it, and for its answer to a statement beyond `lock_wait`.
    pub answer_wait: Duration,
    /// After how long a server ends a transaction that was begun and not gone on with: so long can a process that was
    /// stopped hold up others. Shorter than leases are.
    pub idle_wait: Duration,
    /// At most so many connections to a server.
    pub connections: u32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            create: true,
            lock_wait: Duration::from_secs(10),
            answer_wait: Duration::from_secs(5),
            idle_wait: Duration::from_secs(5),
            connections: 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_printed_without_their_password() {
        let address = Address::parse("postgres://ada:s3cret@db.example:5433/weir?sslmode=require").unwrap();
        assert_eq!(address.to_string(), "postgres://ada@db.example:5433/weir");
        let options = format!("{:?}", address.clone().with_password("s3cret"));
        assert_eq!(options, "postgres://ada@db.example:5433/weir");
        assert!(address.is_server());
    }

    #[test]
    fn whatever_is_no_address_of_a_server_is_a_file() {
        let file = Address::parse("/var/lib/weir/control.db").unwrap();
        assert!(!file.is_server());
        assert_eq!(file.with_password("x").to_string(), "/var/lib/weir/control.db");
    }

    #[test]
    fn bad_addresses_are_refused_without_being_repeated() {
        let bad = [
            "mysql://ada:s3cret@db/weir",
            "postgres://ada:s3cret@db:port/weir",
            "postgres://ada:s3cret@db/weir?sslmode=maybe",
            "postgres://ada@db/weir?pasword=s3cret",
            "postgres://ada:s3cret@[db/weir",
        ];
        for text in bad {
            let refused = Address::parse(text).unwrap_err();
            assert_eq!(refused.code(), "WR0417", "{refused}");
            assert!(!refused.to_string().contains("s3cret"), "{refused}");
        }
    }
}
