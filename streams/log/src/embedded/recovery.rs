//! Opening a partition to write: what a crash left behind is found, cut or reported.

use std::path::{Path, PathBuf};

use tracing::{error, warn};

use super::context::Context;
use super::frame::{self, HeaderCheck};
use super::index::{Index, Segment};
use super::segment::{Cursor, Scan, Step, create_segment, file_offset, list_segments, partition_dir, segment_path};
use super::storage::{Access, StorageFile, write_all_at};
use crate::stats::Counters;
use crate::{LogError, Position};

/// What was found in one partition when the log was opened to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The partition.
    pub partition: u32,
    /// Where it ends now.
    pub tail: Position,
    /// Bytes after the last whole record, left by a write that was never acknowledged. They were cut off.
    pub torn_bytes: u64,
    /// Places between readable records that cannot be read: the storage lost or changed what it had confirmed. They were left
    /// as they are; readers are told when they come by. Only the newest segment is searched.
    pub damage: Vec<Damage>,
}

/// A place that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins.
    pub from: Position,
    /// Where the next readable record begins.
    pub to: Position,
}

impl RecoveryReport {
    /// Whether nothing was lost.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.torn_bytes == 0 && self.damage.is_empty()
    }
}

/// A partition that is ready to be written to.
pub(crate) struct Recovered {
    pub index: Index,
    /// The newest segment file, open to write.
    pub file: Box<dyn StorageFile>,
    pub path: PathBuf,
    pub report: RecoveryReport,
}

/// Finds out what the partition holds, cuts the torn tail, and makes all that is left durable.
pub(crate) fn recover(context: &Context, dir: &Path, partition: u32) -> Result<Recovered, LogError> {
    let dir = partition_dir(dir, partition);
    let storage = context.storage.as_ref();
    let mut bases = list_segments(storage, &dir)?;
    if bases.is_empty() {
        create_segment(storage, &dir, context.info.incarnation, partition, 0)?;
        bases.push(0);
    }
    let mut damage = Vec::new();
    let mut segments = Vec::with_capacity(bases.len());
    for pair in bases.windows(2) {
        segments.push(closed_segment(context, &dir, partition, (pair[0], pair[1]), &mut damage)?);
    }
    let base = bases.last().copied().unwrap_or(0);
    let newest = open_newest(context, &dir, partition, base)?;
    segments.push(Segment { base, oldest_ms: newest.scan.oldest_ms, newest_ms: newest.scan.newest_ms });
    damage.extend(newest.scan.damage.iter().copied());
    date_closed_segments(context, &dir, &mut segments)?;

    let of = |(from, to)| Damage { from: Position::from_raw(from), to: Position::from_raw(to) };
    let report = RecoveryReport {
        partition,
        tail: Position::from_raw(newest.scan.end),
        torn_bytes: newest.torn_bytes,
        damage: damage.into_iter().map(of).collect(),
    };
    tell(context, &report, &newest.path);
    let index = Index::new(segments, newest.scan.end);
    Ok(Recovered { index, file: newest.file, path: newest.path, report })
}

fn tell(context: &Context, report: &RecoveryReport, path: &Path) {
    let log = &context.info.name;
    if report.torn_bytes > 0 {
        let RecoveryReport { partition, torn_bytes, .. } = report;
        warn!(%log, partition, torn_bytes, path = %path.display(), "cut off a write that had not been finished");
        Counters::add(&context.counters.torn_bytes, report.torn_bytes);
    }
    for Damage { from, to } in &report.damage {
        error!(%log, partition = report.partition, %from, %to, "the log is damaged here; records are lost");
    }
}

/// Looks at a segment that is not the newest one: its header, its size, its first record.
fn closed_segment(
    context: &Context,
    dir: &Path,
    partition: u32,
    (base, end): (u64, u64),
    damage: &mut Vec<(u64, u64)>,
) -> Result<Segment, LogError> {
    let mut cursor = open_cursor(context, dir, base)?;
    check_header(context, &mut cursor, partition, base)?;
    let file_end = cursor.file_end()?;
    if file_end < end {
        damage.push((file_end, end));
    }
    let oldest_ms = match cursor.step(base, end)? {
        Step::Frame { appended_at_ms, .. } => Some(appended_at_ms),
        Step::End | Step::Bad => None,
    };
    Ok(Segment { base, oldest_ms, newest_ms: None })
}

/// The records of a segment are at most as old as the first one of the next segment. Where that is not known, they are read.
fn date_closed_segments(context: &Context, dir: &Path, segments: &mut [Segment]) -> Result<(), LogError> {
    for at in 1..segments.len() {
        let (base, next) = (segments[at - 1].base, segments[at]);
        segments[at - 1].newest_ms = match next.oldest_ms {
            Some(oldest_ms) => Some(oldest_ms),
            None => Scan::of(&mut open_cursor(context, dir, base)?, base, next.base)?.newest_ms,
        };
    }
    Ok(())
}

struct Newest {
    file: Box<dyn StorageFile>,
    path: PathBuf,
    scan: Scan,
    torn_bytes: u64,
}

fn open_newest(context: &Context, dir: &Path, partition: u32, base: u64) -> Result<Newest, LogError> {
    let mut cursor = open_cursor(context, dir, base)?;
    let header_is_good = check_header(context, &mut cursor, partition, base)?;
    let file_end = cursor.file_end()?;
    let scan = Scan::of(&mut cursor, base, file_end)?;
    let path = cursor.path().to_owned();
    let mut file = context.storage.open(&path, Access::Write).map_err(|error| LogError::io("open", &path, error))?;
    let torn_bytes = file_end - scan.end;
    if torn_bytes > 0 {
        file.set_length(file_offset(base, scan.end)).map_err(|error| LogError::io("cut", &path, error))?;
    }
    if !header_is_good {
        let header = frame::segment_header(context.info.incarnation, partition, base);
        write_all_at(file.as_mut(), 0, &header).map_err(|error| LogError::io("write", &path, error))?;
    }
    // Whole records may still lie in memory only, if the crash was one of the process alone.
    file.sync().map_err(|error| LogError::io("sync", &path, error))?;
    context.storage.sync_dir(dir).map_err(|error| LogError::io("sync", dir, error))?;
    Counters::add(&context.counters.syncs, 1);
    Ok(Newest { file, path, scan, torn_bytes })
}

fn open_cursor(context: &Context, dir: &Path, base: u64) -> Result<Cursor, LogError> {
    let path = segment_path(dir, base);
    Cursor::open(context.storage.as_ref(), path.clone(), base, context.salt)
        .map_err(|error| LogError::io("open", &path, error))
}

/// Whether the header is as it was written. Files of others and of newer versions are refused.
fn check_header(context: &Context, cursor: &mut Cursor, partition: u32, base: u64) -> Result<bool, LogError> {
    let expected = frame::segment_header(context.info.incarnation, partition, base);
    let foreign =
        |cursor: &Cursor, reason: &str| LogError::Foreign { path: cursor.path().to_owned(), reason: reason.to_owned() };
    match frame::check_header(&cursor.header()?, &expected) {
        HeaderCheck::Good => Ok(true),
        HeaderCheck::Torn => Ok(false),
        HeaderCheck::Damaged => {
            warn!(path = %cursor.path().display(), "the header of the segment is damaged; its records are not affected");
            Ok(false)
        }
        HeaderCheck::Version(found) => Err(LogError::NewerFormat {
            path: cursor.path().to_owned(),
            found: u64::from(found),
            known: u64::from(frame::FORMAT_VERSION),
        }),
        HeaderCheck::Foreign => Err(foreign(cursor, "it does not begin as a segment does")),
        HeaderCheck::Misplaced => Err(foreign(cursor, "it is a segment of another log, partition or position")),
    }
}
