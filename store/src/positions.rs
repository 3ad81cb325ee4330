//! How far consumers have read the logs.

use crate::error::StoreError;
use crate::rows;
use crate::sql::{FromRow, Row, sql};
use crate::store::{Store, Write};

/// How far a consumer has read one partition of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PositionRow {
    /// The consumer.
    pub consumer: String,
    /// The log.
    pub log: String,
    /// The partition.
    pub partition: u32,
    /// The incarnation of the log: positions mean nothing in another one.
    pub incarnation: String,
    /// The position after the last record that was dealt with.
    pub position: u64,
}

impl FromRow for PositionRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self {
            consumer: row.try_get("consumer")?,
            log: row.try_get("log")?,
            partition: rows::unsigned_32(row, "log_part")?,
            incarnation: row.try_get("incarnation")?,
            position: rows::unsigned(row, "position")?,
        })
    }
}

struct EpochRow(u64);

impl FromRow for EpochRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        rows::unsigned(row, "epoch").map(Self)
    }
}

impl Store {
    /// How far all consumers have read that keep their positions here; those of analyzers are part of their state, see
    /// [`Store::shard_positions`].
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn all_positions(&self) -> Result<Vec<PositionRow>, StoreError> {
        let query = sql("SELECT consumer, log, log_part, incarnation, position FROM consumer_positions
             ORDER BY log, log_part, consumer");
        self.all(query).await
    }

    /// How far `consumer` has read.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn positions(&self, consumer: &str) -> Result<Vec<PositionRow>, StoreError> {
        let query = sql("SELECT consumer, log, log_part, incarnation, position FROM consumer_positions
             WHERE consumer = $1 ORDER BY log, log_part");
        self.all(query.bind(consumer)).await
    }

    /// Saves positions, all or none. With an epoch they are saved only if nobody saved them under a newer one.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if somebody did.
    pub async fn save_positions(&self, positions: &[PositionRow], epoch: Option<u64>) -> Result<(), StoreError> {
        self.retried(move || async move {
            let mut write = self.write("save_positions").await?;
            for position in positions {
                write.save_position(position, epoch).await?;
            }
            write.commit().await
        })
        .await
    }
}

impl Write {
    /// Saves one position. Without an epoch the one that is stored stays, and is not looked at.
    pub(crate) async fn save_position(&mut self, row: &PositionRow, epoch: Option<u64>) -> Result<(), StoreError> {
        let stored_epoch = epoch.map(|epoch| rows::stored("an epoch", epoch)).transpose()?;
        let query = sql("INSERT INTO consumer_positions (consumer, log, log_part, incarnation, position, epoch)
             VALUES ($1, $2, $3, $4, $5, COALESCE($6, 0))
             ON CONFLICT (consumer, log, log_part) DO UPDATE SET
                 incarnation = excluded.incarnation, position = excluded.position,
                 epoch = COALESCE($6, consumer_positions.epoch)
             WHERE consumer_positions.epoch <= COALESCE($6, consumer_positions.epoch)");
        let query = query.bind(&row.consumer).bind(&row.log).bind(i64::from(row.partition)).bind(&row.incarnation);
        let changed = self.run(query.bind(rows::stored("a position", row.position)?).bind(stored_epoch)).await?;
        if changed == 1 { Ok(()) } else { Err(self.fenced_position(row, epoch).await?) }
    }

    async fn fenced_position(&mut self, row: &PositionRow, epoch: Option<u64>) -> Result<StoreError, StoreError> {
        let query = sql("SELECT epoch FROM consumer_positions WHERE consumer = $1 AND log = $2 AND log_part = $3");
        let query = query.bind(&row.consumer).bind(&row.log).bind(i64::from(row.partition));
        let theirs: Option<EpochRow> = self.one(query).await?;
        Ok(StoreError::Fenced {
            what: format!("the position of {} in {}, partition {}", row.consumer, row.log, row.partition),
            ours: epoch.unwrap_or_default(),
            theirs: theirs.map_or(0, |row| row.0),
        })
    }
}
