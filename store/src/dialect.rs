//! Statements that differ between databases.

/// The database's clock in milliseconds since 1970.
pub(crate) const NOW_MS: &str = "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)";
