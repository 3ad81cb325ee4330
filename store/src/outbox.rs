//! What has to be published: written in the transaction that made it true, taken away once it is out.

use std::collections::BTreeSet;

use crate::error::StoreError;
use crate::rows;
use crate::sql::{FromRow, Row, sql};
use crate::store::{Store, Write};

/// Something to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxWrite {
    /// Who publishes it: the name of the lease under which it was written.
    pub owner: String,
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

impl FromRow for OutboxRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
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
        let query = sql("SELECT sequence, log, log_part, message_key, payload FROM outbox
             WHERE owner = $1 ORDER BY sequence LIMIT $2");
        self.all(query.bind(owner).bind(i64::from(limit))).await
    }

    /// How many rows `owner` has not published yet.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn outbox_len(&self, owner: &str) -> Result<u64, StoreError> {
        let row = self.one(sql("SELECT COUNT(*) FROM outbox WHERE owner = $1").bind(owner)).await?;
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
        self.retried(move || async move {
            let mut write = self.write("published").await?;
            let query = sql("DELETE FROM outbox WHERE owner = $1 AND sequence <= $2");
            let removed = write.run(query.bind(owner).bind(up_to_sequence)).await?;
            write.commit().await?;
            Ok(removed)
        })
        .await
    }
}

impl Write {
    /// Adds rows to the outbox.
    pub(crate) async fn add_to_outbox(&mut self, rows: &[OutboxWrite]) -> Result<(), StoreError> {
        // An owner's sequences become visible in their order: else one that is committed late would lie below what was
        // published already, and go with it.
        let owners: BTreeSet<&str> = rows.iter().map(|row| row.owner.as_str()).collect();
        for owner in owners {
            self.alone_with(&format!("outbox/{owner}")).await?;
        }
        for row in rows {
            let query =
                sql("INSERT INTO outbox (owner, log, log_part, message_key, payload) VALUES ($1, $2, $3, $4, $5)");
            let query = query.bind(&row.owner).bind(&row.log).bind(i64::from(row.partition));
            self.run(query.bind(&row.key).bind(row.payload.as_slice())).await?;
        }
        Ok(())
    }
}
