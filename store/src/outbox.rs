//! What has to be published: written in the transaction that made it true, taken away once it is out.

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};

use crate::error::StoreError;
use crate::rows;
use crate::store::{Store, Write};

/// Something to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxWrite {
    /// The service that publishes it.
    pub owner: &'static str,
    /// The log that it goes to.
    pub log: String,
    /// The partition that it goes to.
    pub partition: u32,
    /// The job's key.
    pub key: String,
    /// The bytes.
    pub payload: Vec<u8>,
}

/// Something that is not published yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    /// Rises with each row, over all owners, and is never given again.
    pub sequence: i64,
    /// The log that it goes to.
    pub log: String,
    /// The partition that it goes to.
    pub partition: u32,
    /// The job's key.
    pub key: String,
    /// The bytes.
    pub payload: Vec<u8>,
}

impl FromRow<'_, SqliteRow> for OutboxRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            sequence: row.try_get("sequence")?,
            log: row.try_get("log")?,
            partition: rows::unsigned_32(row, "log_part")?,
            key: row.try_get("message_key")?,
            payload: row.try_get("payload")?,
        })
    }
}

impl Store {
    /// The oldest rows that `owner` has not published yet.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn outbox(&self, owner: &str, limit: u32) -> Result<Vec<OutboxRow>, StoreError> {
        let query = sqlx::query_as(
            "SELECT sequence, log, log_part, message_key, payload FROM outbox
             WHERE owner = $1 ORDER BY sequence LIMIT $2",
        );
        self.all(query.bind(owner).bind(i64::from(limit))).await
    }

    /// How many rows `owner` has not published yet.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn outbox_len(&self, owner: &str) -> Result<u64, StoreError> {
        let row = self.one(sqlx::query_as("SELECT COUNT(*) FROM outbox WHERE owner = $1").bind(owner)).await?;
        let (count,): (i64,) = row.unwrap_or_default();
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// `owner` has published its rows up to and including `sequence`. How many there were.
    ///
    /// Only the one process that holds the owner's lease may publish for it, in the order of the sequence.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn published(&self, owner: &str, up_to_sequence: i64) -> Result<u64, StoreError> {
        let mut write = self.write("published").await?;
        let query = sqlx::query("DELETE FROM outbox WHERE owner = $1 AND sequence <= $2");
        let removed = write.run(query.bind(owner).bind(up_to_sequence)).await?;
        write.commit().await?;
        Ok(removed)
    }
}

impl Write {
    /// Adds rows to the outbox.
    pub(crate) async fn add_to_outbox(&mut self, rows: &[OutboxWrite]) -> Result<(), StoreError> {
        for row in rows {
            let query = sqlx::query(
                "INSERT INTO outbox (owner, log, log_part, message_key, payload) VALUES ($1, $2, $3, $4, $5)",
            );
            let query = query.bind(row.owner).bind(&row.log).bind(i64::from(row.partition));
            self.run(query.bind(&row.key).bind(row.payload.as_slice())).await?;
        }
        Ok(())
    }
}
