//! What people have said about jobs, and who said it.

use std::collections::BTreeMap;

use weir_schemas::control::Mode;
use weir_schemas::identity::JobKey;

use crate::error::StoreError;
use crate::rows;
use crate::sql::{FromRow, Row, sql};
use crate::store::{Store, Write};

/// Everything that people have said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Controls {
    /// Rises with each change.
    pub revision: u64,
    /// No job is acted on.
    pub frozen: bool,
    /// Jobs about which something was said, seen or not.
    pub jobs: BTreeMap<JobKey, JobControl>,
}

/// What people have said about one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobControl {
    /// How far Weir may go; absent where nobody has said so.
    pub mode: Option<Mode>,
    /// Judged, never acted on.
    pub paused: bool,
}

/// Who said what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Who.
    pub who: String,
    /// A stable word: `mode`, `paused`, `frozen`, `approve`, `reject`, `rollback`.
    pub what: String,
    /// About which job; absent when it was about everything.
    pub job: Option<JobKey>,
    /// The new value, or the action that it was about.
    pub detail: String,
}

struct ControlRow {
    job: JobKey,
    control: JobControl,
}

impl FromRow for ControlRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        let mode: Option<String> = row.try_get("mode")?;
        let mode = rows::decoded("mode", mode.map(|word| word.parse()).transpose())?;
        Ok(Self { job: rows::job(row)?, control: JobControl { mode, paused: row.try_get("paused")? } })
    }
}

struct StateRow {
    revision: u64,
    frozen: bool,
}

impl FromRow for StateRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self { revision: rows::unsigned(row, "revision")?, frozen: row.try_get("frozen")? })
    }
}

impl FromRow for AuditRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self {
            at_ms: row.try_get("at_ms")?,
            who: row.try_get("who")?,
            what: row.try_get("what")?,
            job: Some(rows::job(row)?).filter(|job| !job.name.is_empty()),
            detail: row.try_get("detail")?,
        })
    }
}

impl Store {
    /// Sets how far Weir may go with a job, which need not have been seen yet. The new revision.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn set_mode(&self, job: &JobKey, mode: Mode, by: &str, now_ms: i64) -> Result<u64, StoreError> {
        self.retried(move || async move {
            let mut write = self.write("set_mode").await?;
            let query =
                sql("INSERT INTO job_controls (cluster, namespace, name, mode, paused) VALUES ($1, $2, $3, $4, FALSE)
             ON CONFLICT (cluster, namespace, name) DO UPDATE SET mode = excluded.mode");
            let query = query.bind(&job.cluster).bind(&job.namespace).bind(&job.name);
            write.run(query.bind(mode.as_str())).await?;
            write.audit(now_ms, by, "mode", Some(job), mode.as_str()).await?;
            let revision = write.next_revision().await?;
            write.commit().await?;
            Ok(revision)
        })
        .await
    }

    /// Pauses a job, or lets it go on. The new revision.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn set_paused(&self, job: &JobKey, paused: bool, by: &str, now_ms: i64) -> Result<u64, StoreError> {
        self.retried(move || async move {
            let mut write = self.write("set_paused").await?;
            let query = sql("INSERT INTO job_controls (cluster, namespace, name, paused) VALUES ($1, $2, $3, $4)
             ON CONFLICT (cluster, namespace, name) DO UPDATE SET paused = excluded.paused");
            let query = query.bind(&job.cluster).bind(&job.namespace).bind(&job.name);
            write.run(query.bind(paused)).await?;
            write.audit(now_ms, by, "paused", Some(job), &paused.to_string()).await?;
            let revision = write.next_revision().await?;
            write.commit().await?;
            Ok(revision)
        })
        .await
    }

    /// Freezes everything, or lets it go on. The new revision.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn set_frozen(&self, frozen: bool, by: &str, now_ms: i64) -> Result<u64, StoreError> {
        self.retried(move || async move {
            let mut write = self.write("set_frozen").await?;
            write.run(sql("UPDATE control_state SET frozen = $1 WHERE id = 1").bind(frozen)).await?;
            write.audit(now_ms, by, "frozen", None, &frozen.to_string()).await?;
            let revision = write.next_revision().await?;
            write.commit().await?;
            Ok(revision)
        })
        .await
    }

    /// Everything that people have said. The revision is read first, so that what follows is at least as new.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn controls(&self) -> Result<Controls, StoreError> {
        let state = self.state().await?;
        let jobs: Vec<ControlRow> =
            self.all(sql("SELECT cluster, namespace, name, mode, paused FROM job_controls")).await?;
        let jobs = jobs.into_iter().map(|row| (row.job, row.control)).collect();
        Ok(Controls { revision: state.revision, frozen: state.frozen, jobs })
    }

    /// The revision of [`Store::controls`]: cheap enough to be asked for every second.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn control_revision(&self) -> Result<u64, StoreError> {
        Ok(self.state().await?.revision)
    }

    /// The latest things that people said, newest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn audit(&self, limit: u32) -> Result<Vec<AuditRow>, StoreError> {
        let query =
            sql("SELECT at_ms, who, what, cluster, namespace, name, detail FROM audit ORDER BY sequence DESC LIMIT $1");
        self.all(query.bind(i64::from(limit))).await
    }

    async fn state(&self) -> Result<StateRow, StoreError> {
        let row = self.one(sql("SELECT revision, frozen FROM control_state WHERE id = 1")).await?;
        Ok(row.unwrap_or(StateRow { revision: 0, frozen: false }))
    }
}

impl Write {
    /// Writes down who said what.
    pub(crate) async fn audit(
        &mut self,
        at_ms: i64,
        who: &str,
        what: &'static str,
        job: Option<&JobKey>,
        detail: &str,
    ) -> Result<(), StoreError> {
        let parts = job.map_or(("", "", ""), |job| (&job.cluster, &job.namespace, &job.name));
        let query = sql("INSERT INTO audit (at_ms, who, what, cluster, namespace, name, detail)
             VALUES ($1, $2, $3, $4, $5, $6, $7)");
        let query = query.bind(at_ms).bind(who).bind(what).bind(parts.0).bind(parts.1).bind(parts.2).bind(detail);
        self.run(query).await.map(drop)
    }

    async fn next_revision(&mut self) -> Result<u64, StoreError> {
        let query = sql("UPDATE control_state SET revision = revision + 1 WHERE id = 1 RETURNING revision, frozen");
        let row: Option<StateRow> = self.one(query).await?;
        Ok(row.map_or(0, |row| row.revision))
    }
}
