//! Actions: commands that the actuator claimed, and how far it got with them.

use weir_schemas::identity::{JobKey, RunId};

use crate::error::StoreError;
use crate::outbox::OutboxWrite;
use crate::positions::PositionRow;
use crate::rows;
use crate::sql::{FromRow, Row, sql};
use crate::store::{Store, Write};

/// The columns of an action. All of them are named: what a newer version adds is not asked for.
macro_rules! columns {
    () => {
        "id, cluster, namespace, name, run_id, run_start_ms, decision_id, state, open, restarted, epoch, plan_number,
         created_ms, updated_ms, body"
    };
}

/// A command that was claimed, and how far it got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionRow {
    /// Id of the command.
    pub id: String,
    /// The job.
    pub job: JobKey,
    /// The run that it is for.
    pub run: RunId,
    /// The decision that it came from; empty for a command that a person gave.
    pub decision_id: String,
    /// A stable word for the state that it is in.
    pub state: String,
    /// Whether something is still to be done.
    pub open: bool,
    /// Whether it has restarted the job; once it has, it stays so.
    pub restarted: bool,
    /// Epoch of the actuator's lease when it changed last: changes of older epochs are refused.
    pub epoch: u64,
    /// Number of its plan.
    pub plan_number: u64,
    /// When it was claimed, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it changed last, in milliseconds since 1970.
    pub updated_ms: i64,
    /// Everything else, as JSON of the actuator's.
    pub body: String,
}

impl FromRow for ActionRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            job: rows::job(row)?,
            run: rows::run(row)?,
            decision_id: row.try_get("decision_id")?,
            state: row.try_get("state")?,
            open: row.try_get("open")?,
            restarted: row.try_get("restarted")?,
            epoch: rows::unsigned(row, "epoch")?,
            plan_number: rows::unsigned(row, "plan_number")?,
            created_ms: row.try_get("created_ms")?,
            updated_ms: row.try_get("updated_ms")?,
            body: row.try_get("body")?,
        })
    }
}

impl Store {
    /// Claims a command before it is carried out. False if it was claimed before: then leave it alone.
    ///
    /// The position after the record that the command came in is saved in either case; the outbox only with the claim.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn claim_action(
        &self,
        action: &ActionRow,
        consumed: Option<PositionRow>,
        outbox: Vec<OutboxWrite>,
    ) -> Result<bool, StoreError> {
        let (consumed, outbox) = (&consumed, &outbox);
        self.retried(move || async move {
            let mut write = self.write("claim_action").await?;
            let claimed = write.insert_action(action).await?;
            if claimed {
                write.raise_plan_number(&action.job, action.plan_number).await?;
                write.add_to_outbox(outbox).await?;
            }
            if let Some(position) = consumed {
                write.save_position(position, None).await?;
            }
            write.commit().await?;
            Ok(claimed)
        })
        .await
    }

    /// Writes down how far an action got, with what has to be published about it. Job, run, decision, plan and time of
    /// the claim stay what they were.
    ///
    /// # Errors
    /// [`StoreError::Closed`] if it is over, [`StoreError::Fenced`] if a newer epoch has it, [`StoreError::NotFound`].
    pub async fn update_action(&self, action: &ActionRow, outbox: Vec<OutboxWrite>) -> Result<(), StoreError> {
        let outbox = &outbox;
        self.retried(move || async move {
            let mut write = self.write("update_action").await?;
            let query = sql("UPDATE actions SET state = $2, open = $3, restarted = (restarted OR $4),
                 restarted_ms = CASE WHEN restarted_ms IS NULL AND $4 THEN $6 ELSE restarted_ms END,
                 epoch = $5, updated_ms = $6, body = $7
             WHERE id = $1 AND open = TRUE AND epoch <= $5");
            let query = query.bind(&action.id).bind(&action.state).bind(action.open).bind(action.restarted);
            let query = query.bind(rows::stored("an epoch", action.epoch)?).bind(action.updated_ms).bind(&action.body);
            if write.run(query).await? != 1 {
                return Err(write.why_not_updated(action).await?);
            }
            write.add_to_outbox(outbox).await?;
            write.commit().await
        })
        .await
    }

    /// Actions with which something is still to be done, oldest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn open_actions(&self) -> Result<Vec<ActionRow>, StoreError> {
        self.all(sql(concat!("SELECT ", columns!(), " FROM actions WHERE open = TRUE ORDER BY created_ms, id"))).await
    }

    /// The latest actions on a job, newest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn actions(&self, job: &JobKey, limit: u32) -> Result<Vec<ActionRow>, StoreError> {
        let query = sql(concat!(
            "SELECT ",
            columns!(),
            " FROM actions WHERE cluster = $1 AND namespace = $2 AND name = $3
             ORDER BY created_ms DESC, plan_number DESC, id LIMIT $4"
        ));
        let query = query.bind(&job.cluster).bind(&job.namespace).bind(&job.name);
        self.all(query.bind(i64::from(limit))).await
    }

    /// The latest actions on all jobs, newest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn recent_actions(&self, limit: u32) -> Result<Vec<ActionRow>, StoreError> {
        let query = sql(concat!(
            "SELECT ",
            columns!(),
            " FROM actions ORDER BY created_ms DESC, plan_number DESC, id LIMIT $1"
        ));
        self.all(query.bind(i64::from(limit))).await
    }

    /// The action with an id, or the only one whose id begins so.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] or [`StoreError::Ambiguous`].
    pub async fn action(&self, id_or_prefix: &str) -> Result<ActionRow, StoreError> {
        let find = "SELECT id FROM actions WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
        let id = self.full_id("action", id_or_prefix, find).await?;
        let row = self.one(sql(concat!("SELECT ", columns!(), " FROM actions WHERE id = $1")).bind(&id)).await?;
        row.ok_or(StoreError::NotFound { what: "action", id })
    }

    /// How many actions have restarted a job at `since_ms` or later.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn restarts_since(&self, job: &JobKey, since_ms: i64) -> Result<u32, StoreError> {
        let query = sql("SELECT COUNT(*) FROM actions
             WHERE cluster = $1 AND namespace = $2 AND name = $3 AND restarted_ms >= $4");
        let query = query.bind(&job.cluster).bind(&job.namespace).bind(&job.name);
        let (count,): (i64,) = self.one(query.bind(since_ms)).await?.unwrap_or_default();
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }
}

impl Write {
    /// False if it is there already.
    async fn insert_action(&mut self, action: &ActionRow) -> Result<bool, StoreError> {
        let query =
            sql("INSERT INTO actions (cluster, namespace, name, id, run_id, run_start_ms, decision_id, state, open,
                 restarted, restarted_ms, epoch, plan_number, created_ms, updated_ms, body)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
             ON CONFLICT (id) DO NOTHING");
        let job = &action.job;
        let query = query.bind(&job.cluster).bind(&job.namespace).bind(&job.name).bind(&action.id);
        let query = query.bind(&action.run.id).bind(action.run.start_ms).bind(&action.decision_id);
        let query = query.bind(&action.state).bind(action.open).bind(action.restarted);
        let query = query.bind(action.restarted.then_some(action.updated_ms));
        let query = query.bind(rows::stored("an epoch", action.epoch)?);
        let query = query.bind(rows::stored("a plan's number", action.plan_number)?);
        Ok(self.run(query.bind(action.created_ms).bind(action.updated_ms).bind(&action.body)).await? == 1)
    }

    /// The only row of an action.
    pub(crate) async fn action(&mut self, id: &str) -> Result<Option<ActionRow>, StoreError> {
        self.one(sql(concat!("SELECT ", columns!(), " FROM actions WHERE id = $1")).bind(id)).await
    }

    async fn why_not_updated(&mut self, action: &ActionRow) -> Result<StoreError, StoreError> {
        Ok(match self.action(&action.id).await? {
            None => StoreError::NotFound { what: "action", id: action.id.clone() },
            Some(row) if !row.open => StoreError::Closed { what: "action", id: row.id, state: row.state },
            Some(row) => {
                StoreError::Fenced { what: format!("action {}", row.id), ours: action.epoch, theirs: row.epoch }
            }
        })
    }
}
