//! What can go wrong with the control database, and what to do about it.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Primary result codes of SQLite (<https://www.sqlite.org/rescode.html>). Extended codes carry them in their lowest
/// byte.
mod sqlite {
    pub(super) const PERM: u32 = 3;
    pub(super) const BUSY: u32 = 5;
    pub(super) const LOCKED: u32 = 6;
    pub(super) const READONLY: u32 = 8;
    pub(super) const CORRUPT: u32 = 11;
    pub(super) const FULL: u32 = 13;
    pub(super) const CANTOPEN: u32 = 14;
    pub(super) const NOTADB: u32 = 26;
}

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
        "{code}: there are no data in {}: start `weir run` there first, or name the folder that it uses with \
         --data",
        path.display(), code = self.code()
    )]
    NoData {
        /// The file that is missing.
        path: PathBuf,
    },
    /// A newer version wrote it.
    #[error(
        "{code}: {} has data format {found}, and this version knows formats up to {known}: use the newer weir \
         that wrote it, or restore the copy made before the update",
        path.display(), code = self.code()
    )]
    NewerFormat {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format that this version knows.
        known: i64,
    },
    /// Somebody else has held the write lock for too long. Trying again may help.
    #[error(
        "{code}: {} has been locked for {waited_ms} ms by another process: look for a weir process that is \
         stopped or a tool that has the file open, end it, and try again",
        path.display(), code = self.code()
    )]
    Locked {
        /// The database.
        path: PathBuf,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// The file is something else.
    #[error(
        "{code}: {} is no database of weir ({detail}): name another folder with --data, or move the file away",
        path.display(), code = self.code()
    )]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// What it is, as far as known.
        detail: String,
    },
    /// There is no space left. Nothing of the transaction was kept.
    #[error(
        "{code}: no space left to write {}: free some and try again, nothing of this change was kept",
        path.display(), code = self.code()
    )]
    DiskFull {
        /// The database.
        path: PathBuf,
    },
    /// The file may not be opened or written.
    #[error(
        "{code}: {} may not be opened or written ({detail}): check the owner and the permissions of the file \
         and its folder",
        path.display(), code = self.code()
    )]
    Denied {
        /// The database.
        path: PathBuf,
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
        "{code}: {what} {key} in {} cannot be read: {detail}; a newer version may have written it, else \
         restore the database from a copy",
        path.display(), code = self.code()
    )]
    Damaged {
        /// The database.
        path: PathBuf,
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
    #[error("{code}: the control database {} failed: {source}", path.display(), code = self.code())]
    Database {
        /// The database.
        path: PathBuf,
        /// What it said.
        source: Box<sqlx::Error>,
    },
}

impl StoreError {
    /// Every code that [`StoreError::code`] can give, for the registry of codes.
    pub const CODES: [&'static str; 14] = [
        "WR0401", "WR0402", "WR0403", "WR0404", "WR0405", "WR0406", "WR0407", "WR0408", "WR0409", "WR0410", "WR0411",
        "WR0412", "WR0413", "WR0414",
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
        }
    }

    /// Whether the same call may succeed later without anything else being done.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::DiskFull { .. })
    }

    /// Sorts out what the database said about the file at `path`, which was waited for at most `waited_ms`.
    pub(crate) fn of_sql(error: sqlx::Error, path: &Path, waited_ms: u64) -> Self {
        let path = path.to_path_buf();
        let detail = error.to_string();
        match (&error, primary_code(&error)) {
            (sqlx::Error::PoolTimedOut, _) | (_, Some(sqlite::BUSY | sqlite::LOCKED)) => {
                Self::Locked { path, waited_ms }
            }
            (_, Some(sqlite::FULL)) => Self::DiskFull { path },
            (_, Some(sqlite::NOTADB)) => Self::NotADatabase { path, detail },
            (_, Some(sqlite::PERM | sqlite::READONLY | sqlite::CANTOPEN)) => Self::Denied { path, detail },
            (_, Some(sqlite::CORRUPT)) => Self::Damaged { path, what: "a page", key: "(unknown)".into(), detail },
            (sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. }, _) => {
                Self::Damaged { path, what: "a row", key: "(unknown)".into(), detail }
            }
            _ => Self::Database { path, source: Box::new(error) },
        }
    }
}

/// SQLite's primary result code, if the error came from there.
pub(crate) fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code: u32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

/// Whether somebody else holds a lock.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(sqlite::BUSY | sqlite::LOCKED))
}
