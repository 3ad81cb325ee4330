//! Jobs that were seen.

use weir_schemas::identity::{JobKey, RunId};

use crate::error::StoreError;
use crate::rows;
use crate::sql::{FromRow, Row, sql};
use crate::store::Store;

/// A job that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    /// The job.
    pub job: JobKey,
    /// Its latest run.
    pub run: RunId,
    /// When it was seen first, in milliseconds since 1970.
    pub first_seen_ms: i64,
    /// When it was seen last, in milliseconds since 1970.
    pub last_seen_ms: i64,
}

impl FromRow for JobRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self {
            job: rows::job(row)?,
            run: rows::run(row)?,
            first_seen_ms: row.try_get("first_seen_ms")?,
            last_seen_ms: row.try_get("last_seen_ms")?,
        })
    }
}

impl Store {
    /// A job was seen, in the run `run`. Each call waits for the disk: a round's jobs go to [`Store::seen_jobs`].
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn seen_job(&self, job: &JobKey, run: &RunId, now_ms: i64) -> Result<(), StoreError> {
        self.seen_jobs([(job, run)], now_ms).await
    }

    /// Jobs were seen. What was seen later stays.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn seen_jobs<'a, I>(&self, jobs: I, now_ms: i64) -> Result<(), StoreError>
    where
        I: IntoIterator<Item = (&'a JobKey, &'a RunId)>,
    {
        let mut jobs: Vec<_> = jobs.into_iter().collect();
        if jobs.is_empty() {
            return Ok(());
        }
        // In one order: of two that wait for each other's rows, one would have to give way.
        jobs.sort_by_key(|&(job, _)| job);
        let jobs = &jobs;
        self.retried(move || async move {
            let mut write = self.write("seen_jobs").await?;
            for &(job, run) in jobs {
                let query = sql(
                    "INSERT INTO jobs (cluster, namespace, name, run_id, run_start_ms, first_seen_ms, last_seen_ms)
                 VALUES ($1, $2, $3, $4, $5, $6, $6)
                 ON CONFLICT (cluster, namespace, name) DO UPDATE SET
                     run_id = excluded.run_id, run_start_ms = excluded.run_start_ms,
                     last_seen_ms = excluded.last_seen_ms
                 WHERE jobs.last_seen_ms <= excluded.last_seen_ms",
                );
                let query = query.bind(&job.cluster).bind(&job.namespace).bind(&job.name);
                write.run(query.bind(&run.id).bind(run.start_ms).bind(now_ms)).await?;
            }
            write.commit().await
        })
        .await
    }

    /// All jobs that were ever seen, by key.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn jobs(&self) -> Result<Vec<JobRow>, StoreError> {
        self.all(sql("SELECT cluster, namespace, name, run_id, run_start_ms, first_seen_ms, last_seen_ms
             FROM jobs ORDER BY cluster, namespace, name"))
            .await
    }
}
