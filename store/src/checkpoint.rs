//! The analyzer's commit: state, positions, decisions and what to publish, all or nothing.

use tracing::warn;
use weir_schemas::decision::Decision;

use crate::error::StoreError;
use crate::outbox::OutboxWrite;
use crate::rows;
use crate::sql::{FromRow, Row, sql};
use crate::store::{BoxFuture, Store, Write};

/// Marks references to blobs in the database itself.
const IN_DATABASE: &str = "db:";

/// Where a blob is, in words that only the store that wrote it understands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BlobRef(pub String);

/// Keeps the blobs of state. The row that points to one is the commit, so that a blob without a row is mere litter.
pub trait CheckpointStore: Send + Sync {
    /// Stores a blob durably, under a reference that was never given before.
    fn put<'a>(&'a self, shard: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<BlobRef, StoreError>>;

    /// The blob.
    fn get<'a>(&'a self, blob: &'a BlobRef) -> BoxFuture<'a, Result<Vec<u8>, StoreError>>;

    /// Removes a blob; one that is gone already is no error.
    fn remove<'a>(&'a self, blob: &'a BlobRef) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// What a shard's analyzer starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Epoch under which it was committed, or that was claimed since.
    pub epoch: u64,
    /// Format of the state.
    pub format: u32,
    /// The state.
    pub state: Vec<u8>,
    /// Positions from which to read on, as JSON.
    pub positions: String,
    /// Up to where decisions were made, as JSON: replay up to there folds and does not decide again.
    pub decided_through: String,
}

/// Everything that becomes true in one step.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The shard.
    pub shard: String,
    /// Epoch of the analyzer: refused if the shard is at a newer one.
    pub epoch: u64,
    /// Format of the state.
    pub format: u32,
    /// The state.
    pub state: Vec<u8>,
    /// Positions from which to read on, as JSON.
    pub positions: String,
    /// Up to where decisions were made, as JSON.
    pub decided_through: String,
    /// Decisions since the last commit, in the order in which they were made.
    pub decisions: Vec<DecisionWrite>,
    /// What has to be published.
    pub outbox: Vec<OutboxWrite>,
    /// Now, in milliseconds since 1970.
    pub now_ms: i64,
}

/// A decision to be kept.
#[derive(Debug, Clone)]
pub struct DecisionWrite {
    /// The decision.
    pub decision: Decision,
    /// Whether it differs from the job's last: only then it becomes part of the history.
    pub changed: bool,
}

struct CheckpointRow {
    blob: BlobRef,
    /// The bytes, if the blob is in the database.
    bytes: Option<Vec<u8>>,
    checkpoint: Checkpoint,
}

impl FromRow for CheckpointRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        let checkpoint = Checkpoint {
            epoch: rows::unsigned(row, "epoch")?,
            format: rows::unsigned_32(row, "format")?,
            state: Vec::new(),
            positions: row.try_get("positions")?,
            decided_through: row.try_get("decided_through")?,
        };
        Ok(Self { blob: BlobRef(row.try_get("blob_ref")?), bytes: row.try_get("bytes")?, checkpoint })
    }
}

struct ShardPositions(String, String);

impl FromRow for ShardPositions {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self(row.try_get("shard")?, row.try_get("positions")?))
    }
}

/// What the row of a shard says before it is changed.
struct HeadRow {
    epoch: u64,
    blob: BlobRef,
}

impl FromRow for HeadRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self { epoch: rows::unsigned(row, "epoch")?, blob: BlobRef(row.try_get("blob_ref")?) })
    }
}

impl Store {
    /// The positions of all shards, as they were committed with their state: shard and positions as JSON.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn shard_positions(&self) -> Result<Vec<(String, String)>, StoreError> {
        let rows: Vec<ShardPositions> =
            self.all(sql("SELECT shard, positions FROM checkpoints WHERE blob_ref <> '' ORDER BY shard")).await?;
        Ok(rows.into_iter().map(|ShardPositions(shard, positions)| (shard, positions)).collect())
    }

    /// What was committed last for a shard.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn load_checkpoint(&self, shard: &str) -> Result<Option<Checkpoint>, StoreError> {
        // State and blob in one statement, since the blob goes with the next commit.
        let query = sql("SELECT c.epoch, c.format, c.blob_ref, c.positions, c.decided_through, b.bytes
             FROM checkpoints c LEFT JOIN blobs b ON c.blob_ref = 'db:' || CAST(b.id AS TEXT) AND b.shard = c.shard
             WHERE c.shard = $1 AND c.blob_ref <> ''");
        let Some(row): Option<CheckpointRow> = self.one(query.bind(shard)).await? else { return Ok(None) };
        let state = match (row.bytes, &self.checkpoints) {
            (Some(bytes), _) => bytes,
            (None, Some(elsewhere)) if !row.blob.is_in_database() => elsewhere.get(&row.blob).await?,
            (None, _) => return Err(self.no_blob(shard, &row.blob)),
        };
        Ok(Some(Checkpoint { state, ..row.checkpoint }))
    }

    /// Takes a shard over: from now on commits of older epochs are refused, so that what is loaded here stays the last.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if somebody newer has taken it.
    pub async fn claim_shard(&self, shard: &str, epoch: u64, now_ms: i64) -> Result<Option<Checkpoint>, StoreError> {
        self.retried(move || async move {
            let mut write = self.write("claim_shard").await?;
            let query =
                sql("INSERT INTO checkpoints (shard, epoch, format, blob_ref, positions, decided_through, written_ms)
             VALUES ($1, $2, 0, '', '', '', $3)
             ON CONFLICT (shard) DO UPDATE SET epoch = excluded.epoch WHERE checkpoints.epoch <= excluded.epoch");
            let query = query.bind(shard).bind(rows::stored("an epoch", epoch)?).bind(now_ms);
            if write.run(query).await? != 1 {
                return Err(write.fenced_shard(shard, epoch).await?);
            }
            write.commit().await
        })
        .await?;
        self.load_checkpoint(shard).await
    }

    /// Makes state, positions, decisions and outbox true in one step.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the shard is at a newer epoch: then nothing was written, and the caller must stop.
    pub async fn commit(&self, commit: &Commit) -> Result<(), StoreError> {
        let elsewhere = match &self.checkpoints {
            Some(elsewhere) => Some((elsewhere, elsewhere.put(&commit.shard, &commit.state).await?)),
            None => None,
        };
        let committed = self.commit_blob(commit, elsewhere.as_ref().map(|(_, blob)| blob.clone())).await;
        if let Some((elsewhere, new)) = elsewhere {
            // Only a fenced commit surely left no trace. After any other failure the row may point to the new blob.
            let litter = match &committed {
                Ok(old) => old.clone().filter(|old| !old.is_in_database() && *old != new),
                Err(StoreError::Fenced { .. }) => Some(new),
                Err(_) => None,
            };
            if let Some(litter) = litter
                && let Err(error) = elsewhere.remove(&litter).await
            {
                warn!(shard = commit.shard, blob = litter.0, %error, "an old checkpoint stays behind");
            }
        }
        committed.map(drop)
    }

    /// The transaction of a commit. What the row pointed to before.
    async fn commit_blob(&self, commit: &Commit, blob: Option<BlobRef>) -> Result<Option<BlobRef>, StoreError> {
        let blob = &blob;
        self.retried(move || async move {
            let mut write = self.write("commit").await?;
            write.alone_with(&format!("shard/{}", commit.shard)).await?;
            let head = write.head(&commit.shard).await?;
            if let Some(head) = head.as_ref().filter(|head| head.epoch > commit.epoch) {
                return Err(fenced(&commit.shard, commit.epoch, head.epoch));
            }
            let blob = match blob {
                Some(blob) => blob.clone(),
                None => write.put_blob(&commit.shard, &commit.state).await?,
            };
            if !write.point_to(commit, &blob).await? {
                return Err(write.fenced_shard(&commit.shard, commit.epoch).await?);
            }
            write.remove_other_blobs(&commit.shard, &blob).await?;
            for decision in &commit.decisions {
                write.add_decision(decision).await?;
            }
            write.add_to_outbox(&commit.outbox).await?;
            write.commit().await?;
            Ok(head.map(|head| head.blob).filter(|blob| !blob.0.is_empty()))
        })
        .await
    }

    fn no_blob(&self, shard: &str, blob: &BlobRef) -> StoreError {
        StoreError::Damaged {
            database: self.name(),
            what: "the checkpoint of shard",
            key: shard.into(),
            detail: format!("its state {} is not there", blob.0),
        }
    }
}

impl Write {
    async fn head(&mut self, shard: &str) -> Result<Option<HeadRow>, StoreError> {
        self.one(sql("SELECT epoch, blob_ref FROM checkpoints WHERE shard = $1").bind(shard)).await
    }

    async fn put_blob(&mut self, shard: &str, bytes: &[u8]) -> Result<BlobRef, StoreError> {
        let query = sql("INSERT INTO blobs (shard, bytes) VALUES ($1, $2) RETURNING id");
        let row: Option<(i64,)> = self.one(query.bind(shard).bind(bytes)).await?;
        let (id,) = row.unwrap_or_default();
        Ok(BlobRef(format!("{IN_DATABASE}{id}")))
    }

    /// Points the shard's row to `blob`. False if somebody newer has the shard.
    async fn point_to(&mut self, commit: &Commit, blob: &BlobRef) -> Result<bool, StoreError> {
        let query =
            sql("INSERT INTO checkpoints (shard, epoch, format, blob_ref, positions, decided_through, written_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (shard) DO UPDATE SET
                 epoch = excluded.epoch, format = excluded.format, blob_ref = excluded.blob_ref,
                 positions = excluded.positions, decided_through = excluded.decided_through,
                 written_ms = excluded.written_ms
             WHERE checkpoints.epoch <= excluded.epoch");
        let query = query.bind(&commit.shard).bind(rows::stored("an epoch", commit.epoch)?);
        let query = query.bind(i64::from(commit.format)).bind(&blob.0).bind(&commit.positions);
        Ok(self.run(query.bind(&commit.decided_through).bind(commit.now_ms)).await? == 1)
    }

    /// Removes all blobs of the shard but `blob`.
    async fn remove_other_blobs(&mut self, shard: &str, blob: &BlobRef) -> Result<(), StoreError> {
        let query = sql("DELETE FROM blobs WHERE shard = $1 AND id <> $2");
        self.run(query.bind(shard).bind(blob.number().unwrap_or(-1))).await.map(drop)
    }

    async fn fenced_shard(&mut self, shard: &str, ours: u64) -> Result<StoreError, StoreError> {
        let theirs = self.head(shard).await?.map_or(0, |head| head.epoch);
        Ok(fenced(shard, ours, theirs))
    }
}

fn fenced(shard: &str, ours: u64, theirs: u64) -> StoreError {
    StoreError::Fenced { what: format!("shard {shard}"), ours, theirs }
}

impl BlobRef {
    fn is_in_database(&self) -> bool {
        self.number().is_some()
    }

    /// The number of a blob in the database.
    fn number(&self) -> Option<i64> {
        self.0.strip_prefix(IN_DATABASE)?.parse().ok()
    }
}

/// The blobs in the database itself. [`Store::commit`] does the same within its transaction.
impl CheckpointStore for Store {
    fn put<'a>(&'a self, shard: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<BlobRef, StoreError>> {
        Box::pin(async move {
            let mut write = self.write("put_blob").await?;
            let blob = write.put_blob(shard, bytes).await?;
            write.commit().await?;
            Ok(blob)
        })
    }

    fn get<'a>(&'a self, blob: &'a BlobRef) -> BoxFuture<'a, Result<Vec<u8>, StoreError>> {
        Box::pin(async move {
            let query = sql("SELECT bytes FROM blobs WHERE id = $1").bind(blob.number().unwrap_or(-1));
            let row: Option<(Vec<u8>,)> = self.one(query).await?;
            row.map(|(bytes,)| bytes).ok_or_else(|| StoreError::NotFound { what: "blob", id: blob.0.clone() })
        })
    }

    fn remove<'a>(&'a self, blob: &'a BlobRef) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut write = self.write("remove_blob").await?;
            write.run(sql("DELETE FROM blobs WHERE id = $1").bind(blob.number().unwrap_or(-1))).await?;
            write.commit().await
        })
    }
}
