//! Conversions between rows and our types.

use weir_schemas::identity::{JobKey, RunId};

use crate::error::StoreError;
use crate::sql::Row;

/// A number as databases store it.
pub(crate) fn stored(what: &'static str, value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| StoreError::Unfit { what, detail: format!("{value} is larger than 2^63 - 1") })
}

/// A column that holds a number which is never negative.
pub(crate) fn unsigned(row: &Row, column: &str) -> Result<u64, sqlx::Error> {
    decoded(column, row.try_get::<i64>(column)?.try_into())
}

/// A column that holds a small number which is never negative.
pub(crate) fn unsigned_32(row: &Row, column: &str) -> Result<u32, sqlx::Error> {
    decoded(column, row.try_get::<i64>(column)?.try_into())
}

/// What was made of a column.
pub(crate) fn decoded<T, E>(column: &str, value: Result<T, E>) -> Result<T, sqlx::Error>
where
    E: std::error::Error + Send + Sync + 'static,
{
    value.map_err(|source| sqlx::Error::ColumnDecode { index: column.into(), source: Box::new(source) })
}

/// The three columns of a job's key.
pub(crate) fn job(row: &Row) -> Result<JobKey, sqlx::Error> {
    Ok(JobKey { cluster: row.try_get("cluster")?, namespace: row.try_get("namespace")?, name: row.try_get("name")? })
}

/// The two columns of a run.
pub(crate) fn run(row: &Row) -> Result<RunId, sqlx::Error> {
    Ok(RunId { id: row.try_get("run_id")?, start_ms: row.try_get("run_start_ms")? })
}
