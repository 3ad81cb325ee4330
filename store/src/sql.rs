//! One text for both databases: statements with their values, and the rows that come back.

use std::borrow::Cow;
use std::future::Future;

use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Decode, Postgres, Row as _, Sqlite, Type};

/// A value of a statement.
pub(crate) enum Value<'q> {
    Number(i64),
    MaybeNumber(Option<i64>),
    Flag(bool),
    Text(Cow<'q, str>),
    Bytes(&'q [u8]),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(number: Option<i64>) -> Self {
        Self::MaybeNumber(number)
    }
}

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl<'q> From<&'q str> for Value<'q> {
    fn from(text: &'q str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl<'q> From<&'q String> for Value<'q> {
    fn from(text: &'q String) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'q> From<&'q [u8]> for Value<'q> {
    fn from(bytes: &'q [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

/// A statement with its values.
pub(crate) struct Statement<'q> {
    text: &'static str,
    values: Vec<Value<'q>>,
}

/// A statement, whose values `$1`, `$2` and so on are bound in turn.
pub(crate) fn sql<'q>(text: &'static str) -> Statement<'q> {
    Statement { text, values: Vec::new() }
}

/// The values of a statement bound to a query of whichever database the caller needs.
macro_rules! bound {
    ($statement:expr) => {{
        let mut query = sqlx::query($statement.text);
        for value in $statement.values {
            query = match value {
                Value::Number(number) => query.bind(number),
                Value::MaybeNumber(number) => query.bind(number),
                Value::Flag(flag) => query.bind(flag),
                Value::Text(text) => query.bind(text),
                Value::Bytes(bytes) => query.bind(bytes),
            };
        }
        query
    }};
}

impl<'q> Statement<'q> {
    /// Binds the next value.
    pub(crate) fn bind(mut self, value: impl Into<Value<'q>>) -> Self {
        self.values.push(value.into());
        self
    }

    fn sqlite(self) -> Query<'q, Sqlite, SqliteArguments> {
        bound!(self)
    }

    fn postgres(self) -> Query<'q, Postgres, PgArguments> {
        bound!(self)
    }
}

/// A row of either database.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// What a column may hold.
pub(crate) trait Column:
    for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>
{
}

impl<T> Column for T where T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres> {}

impl Row {
    /// The column with a name.
    pub(crate) fn try_get<T: Column>(&self, column: &str) -> Result<T, sqlx::Error> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }

    /// The first column.
    fn first<T: Column>(&self) -> Result<T, sqlx::Error> {
        match self {
            Self::Sqlite(row) => row.try_get(0),
            Self::Postgres(row) => row.try_get(0),
        }
    }
}

/// What is made of a row.
pub(crate) trait FromRow: Sized {
    /// Reads the row.
    fn from_row(row: &Row) -> Result<Self, sqlx::Error>;
}

impl<T: Column> FromRow for (T,) {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok((row.first()?,))
    }
}

/// Runs statements.
pub(crate) trait Run: Send {
    /// How many rows a statement changed.
    fn run(&mut self, statement: Statement<'_>) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// All rows of a statement.
    fn all(&mut self, statement: Statement<'_>) -> impl Future<Output = Result<Vec<Row>, sqlx::Error>> + Send;

    /// The first row of a statement, or none.
    fn one(&mut self, statement: Statement<'_>) -> impl Future<Output = Result<Option<Row>, sqlx::Error>> + Send;
}

macro_rules! run_on {
    ($connection:ty, $bound:ident, $row:path) => {
        impl Run for $connection {
            async fn run(&mut self, statement: Statement<'_>) -> Result<u64, sqlx::Error> {
                Ok(statement.$bound().execute(self).await?.rows_affected())
            }

            async fn all(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, sqlx::Error> {
                Ok(statement.$bound().fetch_all(self).await?.into_iter().map($row).collect())
            }

            async fn one(&mut self, statement: Statement<'_>) -> Result<Option<Row>, sqlx::Error> {
                Ok(statement.$bound().fetch_optional(self).await?.map($row))
            }
        }
    };
}

run_on!(SqliteConnection, sqlite, Row::Sqlite);
run_on!(PgConnection, postgres, Row::Postgres);
