//! What can go wrong with the control database, and what to do about it.

use std::path::PathBuf;

use thiserror::Error;

/// What went wrong, where, and what to do.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The folder or the file cannot be made or looked at.
    #[error(
        "{code}: {} cannot be used: {source}; check that the folder exists and may be written",
        path.display(), code = self.code()
    )]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// There is no database where one was expected.
    #[error(
        "{code}: there are no data in {database}: start `weir run`, or one of its services, there first, or name the \
         folder or the database that they use",
        code = self.code()
    )]
    NoData {
        /// Where it was looked for.
        database: String,
    },
    /// A newer version wrote it.
    #[error(
        "{code}: {database} has data format {found}, and this version knows formats up to {known}: use the newer weir \
         that wrote it, or restore the copy made before the update",
        code = self.code()
    )]
    NewerFormat {
        /// The database.
        database: String,
        /// Its format.
        found: i64,
        /// The newest format that this version knows.
        known: i64,
    },
    /// Somebody else has held the write lock for too long. Trying again may help.
    #[error(
        "{code}: {database} has been locked for {waited_ms} ms by another process: look for a weir process that is \
         stopped or a tool that has it open, end it, and try again",
        code = self.code()
    )]
    Locked {
        /// The database.
        database: String,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// The file is something else.
    #[error(
        "{code}: {database} is no database of weir ({detail}): name another folder with --data, or move the file away",
        code = self.code()
    )]
    NotADatabase {
        /// The file.
        database: String,
        /// What it is, as far as known.
        detail: String,
    },
    /// There is no space left. Nothing of the transaction was kept.
    #[error(
        "{code}: no space left to write {database}: free some and try again, nothing of this change was kept",
        code = self.code()
    )]
    DiskFull {
        /// The database.
        database: String,
    },
    /// The file may not be opened or written.
    #[error(
        "{code}: {database} may not be opened or written ({detail}): check the owner and the permissions of the file \
         and its folder",
        code = self.code()
    )]
    Denied {
        /// The database.
        database: String,
        /// What the database said.
        detail: String,
    },
    /// Somebody newer has taken over. Whoever gets this must stop.
    #[error(
        "{code}: {what} is at epoch {theirs} already, this process has {ours}: another process has taken \
         over, and this one must stop",
        code = self.code()
    )]
    Fenced {
        /// What was taken over.
        what: String,
        /// The epoch that was refused.
        ours: u64,
        /// The epoch that holds.
        theirs: u64,
    },
    /// There is no such thing.
    #[error("{code}: there is no {what} {id:?}: it may be misspelt, or pruned for its age", code = self.code())]
    NotFound {
        /// What was looked for.
        what: &'static str,
        /// By which id.
        id: String,
    },
    /// Several things begin like this.
    #[error(
        "{code}: several {what}s begin with {prefix:?} ({}): give more of the id",
        candidates.join(", "), code = self.code()
    )]
    Ambiguous {
        /// What was looked for.
        what: &'static str,
        /// What was given.
        prefix: String,
        /// Some of those that fit.
        candidates: Vec<String>,
    },
    /// What is over is not changed any more.
    #[error("{code}: {what} {id} is over ({state}) and is not changed any more", code = self.code())]
    Closed {
        /// An action or a request.
        what: &'static str,
        /// Its id.
        id: String,
        /// What it came to.
        state: String,
    },
    /// A row does not hold what it should.
    #[error(
        "{code}: {what} {key} in {database} cannot be read: {detail}; a newer version may have written it, else \
         restore the database from a copy",
        code = self.code()
    )]
    Damaged {
        /// The database.
        database: String,
        /// Kind of the row.
        what: &'static str,
        /// Which row.
        key: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A value that cannot be stored.
    #[error("{code}: {what} cannot be stored: {detail}", code = self.code())]
    Unfit {
        /// The value.
        what: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// Anything else that the database says.
    #[error("{code}: the control database {database} failed: {source}", code = self.code())]
    Database {
        /// The database.
        database: String,
        /// What it said.
        source: Box<sqlx::Error>,
    },
    /// The server does not answer, or not in time. Whether what was under way was kept is not known. Trying again helps
    /// once it is back.
    #[error(
        "{code}: {database} does not answer: {detail}; check that PostgreSQL runs there and can be reached",
        code = self.code()
    )]
    Unreachable {
        /// The database.
        database: String,
        /// What happened.
        detail: String,
    },
    /// The server does not let us in, or not do what we have to.
    #[error(
        "{code}: {database} refuses us: {detail}; check user, password, database, rights and TLS",
        code = self.code()
    )]
    Refused {
        /// The database.
        database: String,
        /// What the server said.
        detail: String,
    },
    /// The address of a database is none. It is not repeated, since it may hold a password.
    #[error(
        "{code}: the address of the control database cannot be followed: {detail}; it is a file, or \
         postgres://user@host:port/database",
        code = self.code()
    )]
    BadAddress {
        /// What is wrong with it.
        detail: String,
    },
    /// The server has undone a write for the sake of another, again and again. Trying again may help.
    #[error("{code}: a write to {database} gave way to others too often: {detail}; try again", code = self.code())]
    Conflict {
        /// The database.
        database: String,
        /// What the server said.
        detail: String,
    },
}

impl StoreError {
    /// Every code that [`StoreError::code`] can give, for the registry of codes.
    pub const CODES: [&'static str; 18] = [
        "WR0401", "WR0402", "WR0403", "WR0404", "WR0405", "WR0406", "WR0407", "WR0408", "WR0409", "WR0410", "WR0411",
        "WR0412", "WR0413", "WR0414", "WR0415", "WR0416", "WR0417", "WR0418",
    ];

    /// The stable code, under which the manual explains the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "WR0401",
            Self::NoData { .. } => "WR0402",
            Self::NewerFormat { .. } => "WR0403",
            Self::Locked { .. } => "WR0404",
            Self::NotADatabase { .. } => "WR0405",
            Self::DiskFull { .. } => "WR0406",
            Self::Denied { .. } => "WR0407",
            Self::Fenced { .. } => "WR0408",
            Self::NotFound { .. } => "WR0409",
            Self::Ambiguous { .. } => "WR0410",
            Self::Closed { .. } => "WR0411",
            Self::Damaged { .. } => "WR0412",
            Self::Unfit { .. } => "WR0413",
            Self::Database { .. } => "WR0414",
            Self::Unreachable { .. } => "WR0415",
            Self::Refused { .. } => "WR0416",
            Self::BadAddress { .. } => "WR0417",
            Self::Conflict { .. } => "WR0418",
        }
    }

    /// Whether the same call may succeed later without anything else being done.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::DiskFull { .. } | Self::Unreachable { .. } | Self::Conflict { .. })
    }

    /// Sorts out what goes wrong with either database.
    pub(crate) fn of_sql(error: sqlx::Error, database: String) -> Self {
        match error {
            sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } => {
                Self::damaged(database, "a row", error.to_string())
            }
            _ => Self::Database { database, source: Box::new(error) },
        }
    }

    pub(crate) fn damaged(database: String, what: &'static str, detail: String) -> Self {
        Self::Damaged { database, what, key: "(unknown)".into(), detail }
    }
}

/// A database as errors speak of it.
pub(crate) trait Named {
    /// Its file, or its address without the password.
    fn name(&self) -> String;

    /// Sorts out what the database said.
    fn error(&self, error: sqlx::Error) -> StoreError;
}
