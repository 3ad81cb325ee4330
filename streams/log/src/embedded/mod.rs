//! The log that needs no server: segment files in a directory.
//!
//! ```text
//! DIR/log.json                      format and version, incarnation, partitions, hash, time of creation
//! DIR/log.lock                      locked by the process that writes
//! DIR/00/00000000000000000000.seg   a partition's first segment: a header, then frames
//! DIR/00/00000000000067108912.seg   the next one; its name is the position of its first record
//! ```
//!
//! A position counts the bytes of all frames before it, in this segment and in all earlier ones, deleted or not; headers are
//! not counted. So the end of a segment and the beginning of the next are one position.
//!
//! A frame that cannot be read is one of three things. At the end of the newest segment it is a **torn tail**: a write
//! that nobody was told had succeeded, which is cut off when the log is opened to write. With readable frames after it, or in
//! an older segment, it is **damage**: readers get [`crate::LogError::Corrupt`] with the place where they can go on. For
//! whoever looks at a log that somebody else writes to, it may also be **not there yet**.

mod commit;
mod context;
mod frame;
mod index;
mod log;
mod meta;
mod options;
mod partition;
mod reader;
mod recovery;
mod scanner;
mod segment;
mod storage;
mod view;
mod writer;

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod sim_disk;

pub use log::EmbeddedLog;
pub use options::EmbeddedOptions;
pub use recovery::{Damage, RecoveryReport};
pub use view::EmbeddedLogView;
