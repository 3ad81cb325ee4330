//! The few file operations that the log needs, behind a trait, so that tests can let each of them fail.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// A file system.
pub(crate) trait Storage: Send + Sync {
    /// Makes a directory and those above it; one that exists is fine.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes a file that did not exist.
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;
    /// Opens a file that exists.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>>;
    /// Gives a file another name, over one that may exist.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Deletes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Locks a file, which is made if need be; nothing if somebody else holds the lock. Dropping gives it back.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>>;
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// An open file.
pub(crate) trait StorageFile: Send {
    /// Its length.
    fn length(&mut self) -> io::Result<u64>;
    /// Reads some bytes; none at the end of the file.
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes some bytes, at least one.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize>;
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file.
    fn set_length(&mut self, length: u64) -> io::Result<()>;
}

/// Writes all bytes, or fails.
pub(crate) fn write_all_at(file: &mut dyn StorageFile, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(offset, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset += length_of(written);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills the buffer, or as much of it as the file has, and says how much that is.
pub(crate) fn read_full_at(file: &mut dyn StorageFile, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read_at(offset + length_of(filled), &mut into[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A length in memory as a length in a file.
pub(crate) fn length_of(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// A length in a file as a length in memory.
pub(crate) fn memory_length(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// The real thing.
#[derive(Debug)]
pub(crate) struct Disk;

struct DiskFile(File);

impl Storage for Disk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Box::new(DiskFile(file)))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let file = OpenOptions::new().read(true).write(access == Access::Write).open(path)?;
        Ok(Box::new(DiskFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    #[cfg(unix)]
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    /// Elsewhere directories cannot be opened as files, and renames are durable by themselves.
    #[cfg(not(unix))]
    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl StorageFile for DiskFile {
    fn length(&mut self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.seek(SeekFrom::Start(offset))?;
        self.0.read(into)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.0.seek(SeekFrom::Start(offset))?;
        self.0.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}
