//! Decisions: those that differ from the one before, and the latest of each job.

use tracing::warn;
use weir_schemas::decision::Decision;
use weir_schemas::identity::JobKey;

use crate::checkpoint::DecisionWrite;
use crate::error::StoreError;
use crate::rows;
use crate::sql::{FromRow, Row, sql};
use crate::store::{Store, Write};

struct BodyRow {
    id: String,
    body: String,
}

impl FromRow for BodyRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self { id: row.try_get("id")?, body: row.try_get("body")? })
    }
}

struct HighestRow(u64);

impl FromRow for HighestRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        rows::unsigned(row, "highest").map(Self)
    }
}

impl Store {
    /// The latest decision about a job.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn latest_decision(&self, job: &JobKey) -> Result<Option<Decision>, StoreError> {
        let query = sql("SELECT id, body FROM latest_decisions WHERE cluster = $1 AND namespace = $2 AND name = $3");
        let row = self.one(query.bind(&job.cluster).bind(&job.namespace).bind(&job.name)).await?;
        row.map(|row| self.decision_of(row)).transpose()
    }

    /// The latest decision about each job, by key. One that cannot be read is left out and logged.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn latest_decisions(&self) -> Result<Vec<Decision>, StoreError> {
        let query = sql("SELECT id, body FROM latest_decisions ORDER BY cluster, namespace, name");
        Ok(self.readable(self.all(query).await?))
    }

    /// At most `limit` decisions about a job that differed from the one before, newest first; with `before_ms` only
    /// older ones. One that cannot be read is left out and logged.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn decisions(
        &self,
        job: &JobKey,
        limit: u32,
        before_ms: Option<i64>,
    ) -> Result<Vec<Decision>, StoreError> {
        let query = sql("SELECT id, body FROM decisions
             WHERE cluster = $1 AND namespace = $2 AND name = $3 AND decided_at_ms < $4
             ORDER BY decided_at_ms DESC, sequence DESC LIMIT $5");
        let query = query.bind(&job.cluster).bind(&job.namespace).bind(&job.name);
        let found = self.all(query.bind(before_ms.unwrap_or(i64::MAX)).bind(i64::from(limit))).await?;
        Ok(self.readable(found))
    }

    /// The decision with an id, or the only one whose id begins so.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] or [`StoreError::Ambiguous`].
    pub async fn decision(&self, id_or_prefix: &str) -> Result<Decision, StoreError> {
        let find = "SELECT id FROM (SELECT id FROM decisions WHERE id >= $1 AND id < $2
                    UNION SELECT id FROM latest_decisions WHERE id >= $1 AND id < $2) AS found
                    ORDER BY id LIMIT $3";
        let id = self.full_id("decision", id_or_prefix, find).await?;
        let query = sql("SELECT id, body FROM decisions WHERE id = $1
             UNION ALL SELECT id, body FROM latest_decisions WHERE id = $1 LIMIT 1");
        let row = self.one(query.bind(&id)).await?;
        row.map(|row| self.decision_of(row)).transpose()?.ok_or(StoreError::NotFound { what: "decision", id })
    }

    /// The highest number of a plan that was ever made for a job; 0 before the first. Pruning does not lower it.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn max_plan_number(&self, job: &JobKey) -> Result<u64, StoreError> {
        let query = sql("SELECT highest FROM plan_numbers WHERE cluster = $1 AND namespace = $2 AND name = $3");
        let row: Option<HighestRow> = self.one(query.bind(&job.cluster).bind(&job.namespace).bind(&job.name)).await?;
        Ok(row.map_or(0, |row| row.0))
    }

    fn decision_of(&self, row: BodyRow) -> Result<Decision, StoreError> {
        serde_json::from_str(&row.body).map_err(|error| StoreError::Damaged {
            database: self.name(),
            what: "decision",
            key: row.id,
            detail: error.to_string(),
        })
    }

    /// Those that can be read: one bad row does not take its neighbours with it.
    fn readable(&self, rows: Vec<BodyRow>) -> Vec<Decision> {
        let readable = rows.into_iter().map(|row| self.decision_of(row));
        readable.filter_map(|read| read.inspect_err(|error| warn!(%error, "a decision is left out")).ok()).collect()
    }
}

impl Write {
    /// Keeps a decision as the job's latest, and, if it differs from the one before, in the history, once.
    pub(crate) async fn add_decision(&mut self, write: &DecisionWrite) -> Result<(), StoreError> {
        let decision = &write.decision;
        let body = serde_json::to_string(decision)
            .map_err(|error| StoreError::Unfit { what: "a decision", detail: error.to_string() })?;
        let epoch = rows::stored("an epoch", decision.epoch)?;
        let job = &decision.job;
        if write.changed {
            let query = sql("INSERT INTO decisions (cluster, namespace, name, id, decided_at_ms, epoch, body)
                 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING");
            let query = query.bind(&job.cluster).bind(&job.namespace).bind(&job.name).bind(&decision.id);
            self.run(query.bind(decision.decided_at_ms).bind(epoch).bind(&body)).await?;
        }
        let query = sql("INSERT INTO latest_decisions (cluster, namespace, name, id, decided_at_ms, epoch, body)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (cluster, namespace, name) DO UPDATE SET
                 id = excluded.id, decided_at_ms = excluded.decided_at_ms, epoch = excluded.epoch,
                 body = excluded.body");
        let query = query.bind(&job.cluster).bind(&job.namespace).bind(&job.name).bind(&decision.id);
        self.run(query.bind(decision.decided_at_ms).bind(epoch).bind(&body)).await?;
        match decision.verdict.plan() {
            Some(plan) => self.raise_plan_number(job, plan.number).await,
            None => Ok(()),
        }
    }

    /// The job has had a plan of this number.
    pub(crate) async fn raise_plan_number(&mut self, job: &JobKey, number: u64) -> Result<(), StoreError> {
        let query = sql("INSERT INTO plan_numbers (cluster, namespace, name, highest) VALUES ($1, $2, $3, $4)
             ON CONFLICT (cluster, namespace, name) DO UPDATE SET highest = excluded.highest
             WHERE plan_numbers.highest < excluded.highest");
        let query = query.bind(&job.cluster).bind(&job.namespace).bind(&job.name);
        self.run(query.bind(rows::stored("a plan's number", number)?)).await.map(drop)
    }
}
