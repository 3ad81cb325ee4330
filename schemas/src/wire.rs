//! Bytes of a metrics-stream entry: one byte that marks the format, then the zstd-compressed protobuf record.

use std::io::Read;

use prost::Message;
use thiserror::Error;

use crate::records::Record;

/// Marks format 1: a zstd frame that holds a `weir.v1.Record`.
const FORMAT_1: u8 = 0x01;
/// Fast, and small enough: metric records are mostly slowly growing counters.
const COMPRESSION_LEVEL: i32 = 1;
/// A record never expands beyond this, in bytes; what a frame holds beyond it is cut off, and so fails to decode.
const LARGEST_RECORD: u64 = 64 << 20;

/// Bytes that are no entry of the metrics stream.
#[derive(Debug, Error)]
pub enum WireError {
    /// There is nothing at all.
    #[error("an entry of the metrics stream is empty")]
    Empty,
    /// A newer or foreign writer.
    #[error("an entry of the metrics stream has format {0}, this version reads format 1: update the reading service")]
    UnknownFormat(u8),
    /// The compressed frame is damaged or too large.
    #[error("an entry of the metrics stream cannot be decompressed: {0}")]
    Decompress(#[from] std::io::Error),
    /// The record inside is damaged.
    #[error("an entry of the metrics stream is not a record: {0}")]
    Decode(#[from] prost::DecodeError),
}

impl WireError {
    /// The stable code of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownFormat(_) => "WR0102",
            Self::Empty | Self::Decompress(_) | Self::Decode(_) => "WR0101",
        }
    }
}

/// The bytes of `record`.
///
/// # Errors
/// Only when the compressor fails, for lack of memory.
pub fn encode(record: &Record) -> Result<Vec<u8>, WireError> {
    let compressed = zstd::bulk::compress(&record.encode_to_vec(), COMPRESSION_LEVEL)?;
    let mut bytes = Vec::with_capacity(compressed.len() + 1);
    bytes.push(FORMAT_1);
    bytes.extend_from_slice(&compressed);
    Ok(bytes)
}

/// About how much memory a record takes: its bytes before compression.
#[must_use]
pub fn size(record: &Record) -> usize {
    record.encoded_len()
}

/// The record that `bytes` hold.
///
/// # Errors
/// Refuses unknown formats and damaged bytes; see [`WireError`].
pub fn decode(bytes: &[u8]) -> Result<Record, WireError> {
    match bytes.split_first() {
        None => Err(WireError::Empty),
        Some((&FORMAT_1, compressed)) => {
            let mut plain = Vec::new();
            zstd::stream::read::Decoder::new(compressed)?.take(LARGEST_RECORD).read_to_end(&mut plain)?;
            Ok(Record::decode(plain.as_slice())?)
        }
        Some((&other, _)) => Err(WireError::UnknownFormat(other)),
    }
}
