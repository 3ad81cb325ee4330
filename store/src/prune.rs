//! An end to growth.

use crate::error::StoreError;
use crate::sql::sql;
use crate::store::{Store, Write};

/// A day, in milliseconds.
const DAY_MS: i64 = 86_400_000;

/// How long things are kept, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Decisions. Those of actions that are kept stay, and so does the newest of each job.
    pub decisions_ms: i64,
    /// Actions that are over, and requests that were answered.
    pub actions_ms: i64,
    /// Who said what.
    pub audit_ms: i64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { decisions_ms: 30 * DAY_MS, actions_ms: 90 * DAY_MS, audit_ms: 365 * DAY_MS }
    }
}

/// How many rows were removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Decisions.
    pub decisions: u64,
    /// Actions.
    pub actions: u64,
    /// Requests.
    pub requests: u64,
    /// Entries of the audit.
    pub audit: u64,
}

impl Store {
    /// Removes what is older than it has to be. Open actions, open requests, the latest decision of a job, plan numbers
    /// and whatever waits to be published always stay.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn prune(&self, now_ms: i64, retention: Retention) -> Result<Pruned, StoreError> {
        let before = |age_ms: i64| now_ms.saturating_sub(age_ms);
        self.retried(move || async move {
            let mut write = self.write("prune").await?;
            // Actions first: their decisions stay as long as they do.
            let pruned = Pruned {
                actions: write
                    .remove("DELETE FROM actions WHERE open = FALSE AND updated_ms < $1", before(retention.actions_ms))
                    .await?,
                requests: write
                    .remove("DELETE FROM requests WHERE open = FALSE AND closed_ms < $1", before(retention.actions_ms))
                    .await?,
                decisions: write
                    .remove(
                        "DELETE FROM decisions WHERE decided_at_ms < $1
                     AND NOT EXISTS (SELECT 1 FROM actions WHERE actions.decision_id = decisions.id)
                     AND EXISTS (SELECT 1 FROM decisions AS newer
                         WHERE newer.cluster = decisions.cluster AND newer.namespace = decisions.namespace
                         AND newer.name = decisions.name AND newer.decided_at_ms > decisions.decided_at_ms)",
                        before(retention.decisions_ms),
                    )
                    .await?,
                audit: write.remove("DELETE FROM audit WHERE at_ms < $1", before(retention.audit_ms)).await?,
            };
            write.commit().await?;
            Ok(pruned)
        })
        .await
    }
}

impl Write {
    async fn remove(&mut self, statement: &'static str, before_ms: i64) -> Result<u64, StoreError> {
        self.run(sql(statement).bind(before_ms)).await
    }
}
