//! What people ask the services to do with an action.

use std::fmt;

use thiserror::Error;
use weir_schemas::identity::JobKey;

use crate::error::StoreError;
use crate::rows;
use crate::sql::{FromRow, Row, sql};
use crate::store::Store;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// Carry out an action that awaits approval.
    Approve,
    /// Drop an action that awaits approval.
    Reject,
    /// Undo what an action did.
    Rollback,
}

/// Not a kind of request.
#[derive(Debug, Error)]
#[error("{0:?} is no kind of request: it is approve, reject or rollback")]
struct KindError(String);

impl RequestKind {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Rollback => "rollback",
        }
    }
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

fn parse_kind(text: &str) -> Result<RequestKind, KindError> {
    [RequestKind::Approve, RequestKind::Reject, RequestKind::Rollback]
        .into_iter()
        .find(|kind| kind.as_str() == text)
        .ok_or_else(|| KindError(text.into()))
}

/// The columns of a request.
macro_rules! columns {
    () => {
        "id, kind, action_id, cluster, namespace, name, requested_by, requested_ms, closed_ms, result"
    };
}

/// What somebody asked for, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRow {
    /// Its number.
    pub id: i64,
    /// What is asked for.
    pub kind: RequestKind,
    /// Full id of the action that it is about.
    pub action_id: String,
    /// The action's job.
    pub job: JobKey,
    /// Who asked.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub requested_ms: i64,
    /// When it was answered, in milliseconds since 1970; absent while it is open.
    pub closed_ms: Option<i64>,
    /// One sentence with what came of it; absent while it is open.
    pub result: Option<String>,
}

impl FromRow for RequestRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            kind: rows::decoded("kind", parse_kind(&row.try_get::<String>("kind")?))?,
            action_id: row.try_get("action_id")?,
            job: rows::job(row)?,
            by: row.try_get("requested_by")?,
            requested_ms: row.try_get("requested_ms")?,
            closed_ms: row.try_get("closed_ms")?,
            result: row.try_get("result")?,
        })
    }
}

impl Store {
    /// Asks for something to be done with the action that has this id, or the only one whose id begins so. The
    /// request's number.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] or [`StoreError::Ambiguous`] about the action.
    pub async fn add_request(&self, kind: RequestKind, action: &str, by: &str, now_ms: i64) -> Result<i64, StoreError> {
        let action = self.action(action).await?;
        let action = &action;
        self.retried(move || async move {
            let mut write = self.write("add_request").await?;
            let query = sql(
                "INSERT INTO requests (cluster, namespace, name, kind, action_id, requested_by, requested_ms, open)
             VALUES ($1, $2, $3, $4, $5, $6, $7, TRUE) RETURNING id",
            );
            let query = query.bind(&action.job.cluster).bind(&action.job.namespace).bind(&action.job.name);
            let row: Option<(i64,)> =
                write.one(query.bind(kind.as_str()).bind(&action.id).bind(by).bind(now_ms)).await?;
            write.audit(now_ms, by, kind.as_str(), Some(&action.job), &action.id).await?;
            write.commit().await?;
            Ok(row.unwrap_or_default().0)
        })
        .await
    }

    /// Requests that nobody has answered yet, oldest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn open_requests(&self) -> Result<Vec<RequestRow>, StoreError> {
        self.all(sql(concat!("SELECT ", columns!(), " FROM requests WHERE open = TRUE ORDER BY id"))).await
    }

    /// Answers a request, with one sentence for whoever asked.
    ///
    /// # Errors
    /// [`StoreError::Closed`] if it was answered before, [`StoreError::NotFound`].
    pub async fn close_request(&self, id: i64, result: &str, now_ms: i64) -> Result<(), StoreError> {
        self.retried(move || async move {
            let mut write = self.write("close_request").await?;
            let query =
                sql("UPDATE requests SET open = FALSE, result = $2, closed_ms = $3 WHERE id = $1 AND open = TRUE");
            if write.run(query.bind(id).bind(result).bind(now_ms)).await? != 1 {
                let query = sql(concat!("SELECT ", columns!(), " FROM requests WHERE id = $1")).bind(id);
                let row: Option<RequestRow> = write.one(query).await?;
                let row = row.ok_or_else(|| no_request(id))?;
                return Err(StoreError::Closed {
                    what: "request",
                    id: id.to_string(),
                    state: row.result.unwrap_or_default(),
                });
            }
            write.commit().await
        })
        .await
    }

    /// The request with a number.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is none.
    pub async fn request(&self, id: i64) -> Result<RequestRow, StoreError> {
        let row = self.one(sql(concat!("SELECT ", columns!(), " FROM requests WHERE id = $1")).bind(id)).await?;
        row.ok_or_else(|| no_request(id))
    }
}

fn no_request(id: i64) -> StoreError {
    StoreError::NotFound { what: "request", id: id.to_string() }
}
