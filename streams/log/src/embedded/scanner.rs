//! Reading records across segments, and telling what is missing from what is not there yet.

use std::io;
use std::sync::Arc;

use super::reader::{Extent, Span};
use super::segment::{Cursor, Step};
use super::storage::length_of;
use crate::stats::Counters;
use crate::{LogError, Position, Record};

/// Payload bytes after which a read stops, so that many large records do not fill the memory.
const READ_BYTES: usize = 4 * 1024 * 1024;
/// A segment can vanish between being found and being opened, if retention runs meanwhile.
const OPEN_TRIES: usize = 3;

/// What a read found. The failure is what came after the records.
pub(crate) struct Batch {
    pub records: Vec<Record>,
    pub failure: Option<LogError>,
}

/// Reads records of one partition. Blocks.
pub(crate) struct Scanner {
    partition: Arc<dyn Extent>,
    open: Option<(Cursor, Span)>,
    /// A position and an end of file where a record is not complete yet. Looking closer has to wait until the file grows.
    incomplete: Option<(u64, u64)>,
    /// The last damage that was counted.
    counted: Option<u64>,
}

impl Scanner {
    pub fn new(partition: Arc<dyn Extent>) -> Self {
        Self { partition, open: None, incomplete: None, counted: None }
    }

    /// Reads from a position on. Takes and returns itself, to be moved through a blocking task.
    pub fn read(mut self, from: Position, max_records: usize) -> (Self, Batch) {
        let mut records = Vec::new();
        let failure = self.fill(from.to_raw(), max_records, &mut records).err();
        if records.is_empty() {
            self.count_damage(failure.as_ref());
        }
        (self, Batch { records, failure })
    }

    fn fill(&mut self, mut position: u64, max_records: usize, records: &mut Vec<Record>) -> Result<(), LogError> {
        let mut bytes = 0;
        while records.len() < max_records && bytes < READ_BYTES {
            let Some((cursor, span)) = self.place(position)? else { return Ok(()) };
            if position >= span.end {
                return Ok(());
            }
            match cursor.step(position, span.end)? {
                Step::Frame { payload, appended_at_ms, next } => {
                    bytes += payload.len();
                    position = next;
                    let (payload, next) = (payload.to_vec(), Position::from_raw(next));
                    records.push(Record { payload, next, appended_at_ms });
                }
                Step::End | Step::Bad => {
                    if !self.is_readable_after_all(position)? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// The open segment that holds a position.
    fn place(&mut self, position: u64) -> Result<Option<&mut (Cursor, Span)>, LogError> {
        let here = self.open.as_ref().is_some_and(|(_, span)| (span.base..span.end).contains(&position));
        if !here {
            self.open_at(position)?;
        }
        Ok(self.open.as_mut())
    }

    fn open_at(&mut self, position: u64) -> Result<(), LogError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let Some(span) = self.partition.locate(position)? else {
                self.open = None;
                return Ok(());
            };
            if let Some((_, open)) = self.open.as_mut().filter(|(_, open)| open.path == span.path) {
                *open = span;
                return Ok(());
            }
            let context = self.partition.context();
            match Cursor::open(context.storage.as_ref(), span.path.clone(), span.base, context.salt) {
                Ok(cursor) => {
                    self.open = Some((cursor, span));
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < OPEN_TRIES => {}
                Err(error) => return Err(LogError::io("open", &span.path, error)),
            }
        }
    }

    /// No frame could be read at a position. Fails if the segment is damaged there. Otherwise the record is not complete yet,
    /// or it became so meanwhile, which is what is returned.
    fn is_readable_after_all(&mut self, position: u64) -> Result<bool, LogError> {
        let Some((cursor, span)) = &mut self.open else { return Ok(false) };
        if self.incomplete == Some((position, span.end)) {
            // The next read asks again where the segment ends.
            cursor.forget();
            span.end = position;
            return Ok(false);
        }
        let resume = cursor.resync(position.saturating_add(1), span.end)?;
        if !span.proven {
            // It may have been written between the look at it and the look behind it.
            cursor.forget();
            if let Step::Frame { .. } = cursor.step(position, span.end)? {
                return Ok(true);
            }
            if resume.is_none() && span.newest {
                cursor.forget();
                self.incomplete = Some((position, span.end));
                span.end = position;
                return Ok(false);
            }
        }
        let resume = resume.unwrap_or(span.end);
        Err(LogError::Corrupt {
            path: span.path.clone(),
            partition: self.partition.number(),
            position: Position::from_raw(position),
            lost_bytes: resume - position,
            resume: Position::from_raw(resume),
        })
    }

    /// Counts damage once, however often the reader runs into it.
    fn count_damage(&mut self, failure: Option<&LogError>) {
        let Some(LogError::Corrupt { position, lost_bytes, .. }) = failure else { return };
        if self.counted.replace(position.to_raw()) != Some(position.to_raw()) {
            Counters::add(&self.partition.context().counters.corrupt_bytes, *lost_bytes);
        }
    }
}

impl super::context::Context {
    pub fn count_read(&self, records: usize) {
        Counters::add(&self.counters.records_read, length_of(records));
    }
}
