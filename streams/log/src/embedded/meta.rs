//! The file that says what the log in a directory is.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::frame::FORMAT_VERSION;
use super::storage::{Access, Storage, memory_length, read_full_at, write_all_at};
use crate::{Incarnation, LogError};

/// The name of the file.
pub(crate) const META_FILE: &str = "log.json";
/// The name that it is written under before it is complete.
const META_DRAFT: &str = "log.json.tmp";
/// The file that the writer locks.
pub(crate) const LOCK_FILE: &str = "log.lock";
const FORMAT: &str = "weir-log";
/// No such file of ours is larger.
const MAX_META_BYTES: u64 = 64 * 1024;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meta {
    format: String,
    version: u32,
    pub incarnation: Incarnation,
    pub partitions: u32,
    pub hash: String,
    pub created_ms: i64,
}

impl Meta {
    pub fn new(incarnation: Incarnation, partitions: u32, hash: &str, created_ms: i64) -> Self {
        let format = FORMAT.to_owned();
        Self { format, version: FORMAT_VERSION, incarnation, partitions, hash: hash.to_owned(), created_ms }
    }

    /// Reads the file; nothing if there is none.
    pub fn load(storage: &dyn Storage, dir: &Path) -> Result<Option<Self>, LogError> {
        let path = dir.join(META_FILE);
        let mut file = match storage.open(&path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LogError::io("open", &path, error)),
        };
        let failed = |error| LogError::io("read", &path, error);
        let length = file.length().map_err(failed)?.min(MAX_META_BYTES);
        let mut bytes = vec![0; memory_length(length)];
        let filled = read_full_at(file.as_mut(), 0, &mut bytes).map_err(failed)?;
        bytes.truncate(filled);
        Self::parse(&path, &bytes).map(Some)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, LogError> {
        let foreign = |reason: String| LogError::Foreign { path: path.to_owned(), reason };
        let value: serde_json::Value =
            serde_json::from_slice(bytes).map_err(|error| foreign(format!("not JSON: {error}")))?;
        if value.get("format").and_then(serde_json::Value::as_str) != Some(FORMAT) {
            return Err(foreign(format!("its `format` is not `{FORMAT}`")));
        }
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        let known = u64::from(FORMAT_VERSION);
        if let Some(found) = version.filter(|version| *version > known) {
            return Err(LogError::NewerFormat { path: path.to_owned(), found, known });
        }
        serde_json::from_value(value).map_err(|error| foreign(error.to_string()))
    }

    /// Writes the file, whole or not at all.
    pub fn store(&self, storage: &dyn Storage, dir: &Path) -> Result<(), LogError> {
        let draft = dir.join(META_DRAFT);
        let bytes =
            serde_json::to_vec_pretty(self).map_err(|error| LogError::io("write", &draft, io::Error::other(error)))?;
        if let Err(error) = storage.remove(&draft)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(LogError::io("remove", &draft, error));
        }
        let mut file = storage.create(&draft).map_err(|error| LogError::io("create", &draft, error))?;
        write_all_at(file.as_mut(), 0, &bytes).map_err(|error| LogError::io("write", &draft, error))?;
        file.sync().map_err(|error| LogError::io("sync", &draft, error))?;
        storage.rename(&draft, &dir.join(META_FILE)).map_err(|error| LogError::io("rename", &draft, error))?;
        storage.sync_dir(dir).map_err(|error| LogError::io("sync", dir, error))
    }
}

/// Refuses a directory without a log that holds anything but what an unfinished creation leaves behind.
pub(crate) fn check_vacant(storage: &dyn Storage, dir: &Path) -> Result<(), LogError> {
    let names = storage.list(dir).map_err(|error| LogError::io("list", dir, error))?;
    let ours = |name: &str| {
        // Another process may have finished its creation just now.
        let is_file = [LOCK_FILE, META_DRAFT, META_FILE].contains(&name);
        is_file || (name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match names.iter().find(|name| !ours(name)) {
        None => Ok(()),
        Some(name) => Err(LogError::Foreign {
            path: dir.to_owned(),
            reason: format!("it has no {META_FILE}, but holds `{name}`"),
        }),
    }
}
