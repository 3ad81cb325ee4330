//! The tables: which there are, whether they are ours and up to date, and how they get there.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};

use crate::error::{Named, StoreError};
use crate::sql::{FromRow, Run, Statement, sql};

/// The newest data format that this version knows.
const DATA_FORMAT: i64 = 1;

/// A migration as both databases read it. Those that were released are never changed.
struct Step {
    version: i64,
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

macro_rules! step {
    ($version:literal, $name:literal, $file:literal) => {
        Step {
            version: $version,
            name: $name,
            sqlite: include_str!(concat!("../../migrations/sqlite/", $file)),
            postgres: include_str!(concat!("../../migrations/postgres/", $file)),
        }
    };
}

/// Every migration, in order.
const STEPS: [Step; 3] = [
    step!(1, "first", "0001_first.sql"),
    step!(2, "instances", "0002_instances.sql"),
    step!(3, "apart", "0003_apart.sql"),
];

/// A kind of database, as far as tables differ.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    fn tables(self) -> Statement<'static> {
        sql(match self {
            Self::Sqlite => "SELECT name FROM sqlite_master WHERE type = 'table'",
            Self::Postgres => "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = 'weir'",
        })
    }

    fn text(self, step: &Step) -> &'static str {
        match self {
            Self::Sqlite => step.sqlite,
            Self::Postgres => step.postgres,
        }
    }
}

/// What is found where the tables are to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Older,
    Current,
}

/// What there is. What a newer version or another program wrote is refused.
pub(crate) async fn check<C: Run>(
    connection: &mut C,
    dialect: Dialect,
    database: &impl Named,
) -> Result<Found, StoreError> {
    let failed = |error| database.error(error);
    let rows = connection.all(dialect.tables()).await.map_err(failed)?;
    let tables: Vec<(String,)> = rows.iter().map(FromRow::from_row).collect::<Result<_, _>>().map_err(failed)?;
    let Some((any,)) = tables.first() else { return Ok(Found::Nothing) };
    if !tables.iter().any(|(name,)| name == "data_format") {
        let detail = format!("it has a table {any:?} of another program");
        return Err(StoreError::NotADatabase { database: database.name(), detail });
    }
    let number = async |connection: &mut C, statement| {
        let row = connection.one(sql(statement)).await?.ok_or(sqlx::Error::RowNotFound)?;
        <(Option<i64>,)>::from_row(&row).map(|(number,)| number)
    };
    let version = "SELECT version FROM data_format WHERE id = 1";
    let found = number(connection, version).await.map_err(failed)?.unwrap_or_default();
    if found > DATA_FORMAT {
        return Err(StoreError::NewerFormat { database: database.name(), found, known: DATA_FORMAT });
    }
    let newest = number(connection, "SELECT MAX(version) FROM _sqlx_migrations").await.map_err(failed)?;
    let current = newest >= STEPS.last().map(|step| step.version);
    Ok(if current { Found::Current } else { Found::Older })
}

/// Brings the tables up to date. The caller sees to it that nobody else does the same.
pub(crate) async fn migrate<C: Migrate>(connection: &mut C, dialect: Dialect) -> Result<(), sqlx::Error> {
    let migrations = STEPS.iter().map(|step| {
        let text = dialect.text(step).into_sql_str();
        Migration::new(step.version, step.name.into(), MigrationType::Simple, text, false)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    // An older version may go on with tables that a newer one has only added to; the data format says when it may not.
    migrator.set_ignore_missing(true);
    migrator.set_locking(false);
    migrator.run_direct(None, connection, false).await.map_err(|error| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error,
        other => sqlx::Error::Migrate(Box::new(other)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_migration_is_there_for_both_databases_and_embedded() {
        let embedded: Vec<String> = STEPS.iter().map(|step| format!("{:04}_{}.sql", step.version, step.name)).collect();
        for database in ["sqlite", "postgres"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations").join(database);
            let mut files: Vec<String> = std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| name.ends_with(".sql"))
                .collect();
            files.sort();
            assert_eq!(files, embedded, "{database}");
        }
    }
}
