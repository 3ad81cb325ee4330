//! Segment files: their names, how one is made, and reading frames from one.

use std::path::{Path, PathBuf};

use super::frame::{self, FRAME_HEADER, MAX_PAYLOAD, Parsed, SEGMENT_HEADER, Salt};
use super::storage::{Access, Storage, StorageFile, length_of, memory_length, read_full_at, write_all_at};
use crate::{Incarnation, LogError};

/// Read from a file at once, if a frame does not need more.
const CHUNK: usize = 256 * 1024;

/// The directory of a partition.
pub(crate) fn partition_dir(dir: &Path, partition: u32) -> PathBuf {
    dir.join(format!("{partition:02}"))
}

/// The segment file that begins at a position.
pub(crate) fn segment_path(partition_dir: &Path, base: u64) -> PathBuf {
    partition_dir.join(format!("{base:020}.seg"))
}

/// Where the segments of a partition begin, in order. Files with other names are left alone.
pub(crate) fn list_segments(storage: &dyn Storage, partition_dir: &Path) -> Result<Vec<u64>, LogError> {
    let names = storage.list(partition_dir).map_err(|error| LogError::io("list", partition_dir, error))?;
    let base_of = |name: &String| {
        let digits = name.strip_suffix(".seg").filter(|digits| digits.len() == 20)?;
        digits.parse().ok()
    };
    let mut bases: Vec<u64> = names.iter().filter_map(base_of).collect();
    bases.sort_unstable();
    Ok(bases)
}

/// Where the records of a segment file of some length end, counted as a position.
pub(crate) fn end_of_file(base: u64, file_length: u64) -> u64 {
    base.saturating_add(file_length.saturating_sub(length_of(SEGMENT_HEADER)))
}

/// The place of a position in the segment file that begins at `base`.
pub(crate) fn file_offset(base: u64, position: u64) -> u64 {
    position.saturating_sub(base).saturating_add(length_of(SEGMENT_HEADER))
}

/// Makes a segment file that survives a crash, and has no records yet.
pub(crate) fn create_segment(
    storage: &dyn Storage,
    partition_dir: &Path,
    incarnation: Incarnation,
    partition: u32,
    base: u64,
) -> Result<Box<dyn StorageFile>, LogError> {
    let path = segment_path(partition_dir, base);
    let mut file = storage.create(&path).map_err(|error| LogError::io("create", &path, error))?;
    let header = frame::segment_header(incarnation, partition, base);
    write_all_at(file.as_mut(), 0, &header).map_err(|error| LogError::io("write", &path, error))?;
    file.sync().map_err(|error| LogError::io("sync", &path, error))?;
    storage.sync_dir(partition_dir).map_err(|error| LogError::io("sync", partition_dir, error))?;
    Ok(file)
}

/// Reads frames from a segment file, some at a time.
pub(crate) struct Cursor {
    path: PathBuf,
    file: Box<dyn StorageFile>,
    base: u64,
    salt: Salt,
    buffer: Vec<u8>,
    /// The position of the first byte in the buffer.
    start: u64,
    /// Bytes of the buffer that are filled.
    filled: usize,
}

/// What a cursor found.
pub(crate) enum Step<'a> {
    /// A frame.
    Frame { payload: &'a [u8], appended_at_ms: i64, next: u64 },
    /// The end of the file, or the end that was given.
    End,
    /// Something that is no frame, or not a whole one.
    Bad,
}

impl Cursor {
    pub fn open(storage: &dyn Storage, path: PathBuf, base: u64, salt: Salt) -> std::io::Result<Self> {
        let file = storage.open(&path, Access::Read)?;
        Ok(Self { path, file, base, salt, buffer: Vec::new(), start: base, filled: 0 })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the records of the file end, damaged ones included.
    pub fn file_end(&mut self) -> Result<u64, LogError> {
        let length = self.file.length().map_err(|error| LogError::io("read", &self.path, error))?;
        Ok(end_of_file(self.base, length))
    }

    /// Reads the header of the file, or what there is of it.
    pub fn header(&mut self) -> Result<Vec<u8>, LogError> {
        let mut header = vec![0; SEGMENT_HEADER];
        let filled = read_full_at(self.file.as_mut(), 0, &mut header)
            .map_err(|error| LogError::io("read", &self.path, error))?;
        header.truncate(filled);
        Ok(header)
    }

    /// Forgets what was read ahead, which may have been written meanwhile.
    pub fn forget(&mut self) {
        self.filled = 0;
    }

    /// The frame at a position; frames reach no further than `end`.
    pub fn step(&mut self, position: u64, end: u64) -> Result<Step<'_>, LogError> {
        self.ensure(position, FRAME_HEADER, end)?;
        let here = self.at(position, end);
        let Some(whole) = frame::whole_length(here) else {
            return Ok(if here.is_empty() { Step::End } else { Step::Bad });
        };
        if whole > FRAME_HEADER + MAX_PAYLOAD || length_of(whole) > end.saturating_sub(position) {
            return Ok(Step::Bad);
        }
        self.ensure(position, whole, end)?;
        match frame::parse(self.at(position, end), position, self.salt) {
            Parsed::Frame { payload, appended_at_ms } => {
                Ok(Step::Frame { payload, appended_at_ms, next: position + length_of(whole) })
            }
            Parsed::Short(_) | Parsed::Bad => Ok(Step::Bad),
        }
    }

    /// Where the next frame begins, at `from` or after it.
    pub fn resync(&mut self, from: u64, end: u64) -> Result<Option<u64>, LogError> {
        let end = end.min(self.file_end()?);
        for position in from..end {
            match self.step(position, end)? {
                Step::Frame { .. } => return Ok(Some(position)),
                Step::Bad => {}
                Step::End => break,
            }
        }
        Ok(None)
    }

    /// The buffered bytes from a position on.
    fn at(&self, position: u64, end: u64) -> &[u8] {
        let skip = memory_length(position.saturating_sub(self.start)).min(self.filled);
        let most = memory_length(end.saturating_sub(position));
        let here = &self.buffer[skip..self.filled];
        &here[..here.len().min(most)]
    }

    /// Buffers `wanted` bytes from a position on, if the file has them.
    fn ensure(&mut self, position: u64, wanted: usize, end: u64) -> Result<(), LogError> {
        let wanted = wanted.min(memory_length(end.saturating_sub(position)));
        let buffered = self.start..=self.start + length_of(self.filled);
        if buffered.contains(&position) && buffered.contains(&(position + length_of(wanted))) {
            return Ok(());
        }
        let ahead = wanted.max(CHUNK).min(memory_length(end.saturating_sub(position)));
        if self.buffer.len() < ahead {
            self.buffer.resize(ahead, 0);
        }
        self.filled = 0;
        self.start = position;
        let offset = file_offset(self.base, position);
        self.filled = read_full_at(self.file.as_mut(), offset, &mut self.buffer[..ahead])
            .map_err(|error| LogError::io("read", &self.path, error))?;
        Ok(())
    }
}

/// What the records of a segment file are, as far as they can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scan {
    /// The end of the last readable record.
    pub end: u64,
    /// The time of the first record.
    pub oldest_ms: Option<i64>,
    /// The latest time of all records.
    pub newest_ms: Option<i64>,
    /// What lies between readable records and cannot be read.
    pub damage: Vec<(u64, u64)>,
}

impl Scan {
    /// Reads everything from a position on.
    pub fn of(cursor: &mut Cursor, from: u64, end: u64) -> Result<Self, LogError> {
        let mut scan = Self { end: from, oldest_ms: None, newest_ms: None, damage: Vec::new() };
        let mut position = from;
        loop {
            match cursor.step(position, end)? {
                Step::Frame { appended_at_ms, next, .. } => {
                    scan.oldest_ms.get_or_insert(appended_at_ms);
                    scan.newest_ms = scan.newest_ms.max(Some(appended_at_ms));
                    scan.end = next;
                    position = next;
                }
                Step::End => return Ok(scan),
                Step::Bad => {
                    let Some(resume) = cursor.resync(position.saturating_add(1), end)? else { return Ok(scan) };
                    scan.damage.push((position, resume));
                    position = resume;
                }
            }
        }
    }
}
