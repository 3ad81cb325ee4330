//! Finding things by the beginning of their id, as people type it.

use crate::error::StoreError;
use crate::sql::sql;
use crate::store::Store;

/// How many candidates an error names.
const CANDIDATES: usize = 5;

impl Store {
    /// The only id that begins with `prefix`, or is it.
    ///
    /// `find` selects ids from `$1` on and before `$2`, at most `$3` of them, in order.
    pub(crate) async fn full_id(
        &self,
        what: &'static str,
        prefix: &str,
        find: &'static str,
    ) -> Result<String, StoreError> {
        let missing = || StoreError::NotFound { what, id: prefix.into() };
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(missing());
        }
        // A tilde sorts after everything that an id consists of.
        let limit = i64::try_from(CANDIDATES).unwrap_or(i64::MAX);
        let query = sql(find).bind(prefix).bind(format!("{prefix}~")).bind(limit);
        let found: Vec<(String,)> = self.all(query).await?;
        match found.as_slice() {
            [] => Err(missing()),
            [(only,)] => Ok(only.clone()),
            // The exact id sorts before all that it is the beginning of.
            [(first,), ..] if first == prefix => Ok(first.clone()),
            several => Err(StoreError::Ambiguous {
                what,
                prefix: prefix.into(),
                candidates: several.iter().map(|(id,)| id.clone()).collect(),
            }),
        }
    }
}
