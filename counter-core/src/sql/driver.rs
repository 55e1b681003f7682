//! A common interface for the `sqlx` drivers.

use std::fmt;

use sqlx::Error as SqlError;
use sqlx::error::UnexpectedNullError;
use sqlx::pool::PoolConnection;

use super::dialect::Dialect;
use super::failure::Failure;
use super::statement::Value;
use crate::family::future::BoxFuture;

/// A supported database.
pub(crate) trait Driver: sqlx::Database<Connection: Connection> {
    const DIALECT: &'static Dialect;
}

/// A database connection.
pub(crate) trait Connection: Send {
    /// Executes a statement, and returns the number of affected rows.
    fn execute<'a>(
        &'a mut self,
        text: &'a str,
        values: &'a [Value<'a>],
    ) -> BoxFuture<'a, Result<u64, SqlError>>;

    /// Executes a query, and returns all rows.
    fn fetch<'a>(
        &'a mut self,
        text: &'a str,
        values: &'a [Value<'a>],
    ) -> BoxFuture<'a, Result<Vec<Row>, SqlError>>;

    /// Executes statements with no values in a single request, and returns all rows.
    fn fetch_text(&mut self, text: &'static str) -> BoxFuture<'_, Result<Vec<Row>, SqlError>>;
}

/// A connection pool.
pub(super) trait Pool: fmt::Debug + Send + Sync {
    fn acquire(&self) -> BoxFuture<'_, Result<Box<dyn Pooled>, SqlError>>;
}

/// A pooled connection.
pub(super) trait Pooled: fmt::Debug + Send {
    fn connection(&mut self) -> &mut dyn Connection;

    /// Closes the connection. We can't return it to the pool if a reply might be pending that never arrives.
    fn close(self: Box<Self>);
}

impl<D: Driver> Pool for sqlx::Pool<D> {
    fn acquire(&self) -> BoxFuture<'_, Result<Box<dyn Pooled>, SqlError>> {
        Box::pin(async { Ok(Box::new(self.acquire().await?) as Box<dyn Pooled>) })
    }
}

impl<D: Driver> Pooled for PoolConnection<D> {
    fn connection(&mut self) -> &mut dyn Connection {
        &mut **self
    }

    fn close(self: Box<Self>) {
        drop(self.detach());
    }
}

/// A row returned by a query. Columns are indexed from 0.
pub(crate) struct Row(Box<dyn Columns>);

/// The columns of a row. These return `None` for NULL.
pub(super) trait Columns: Send + Sync {
    fn int(&self, column: usize) -> Result<Option<i64>, SqlError>;
    fn text(&self, column: usize) -> Result<Option<String>, SqlError>;
    fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>, SqlError>;
}

impl Row {
    pub(super) fn new(columns: impl Columns + 'static) -> Self {
        Self(Box::new(columns))
    }

    pub(crate) fn int(&self, column: usize) -> Result<i64, Failure> {
        not_null(column, self.0.int(column))
    }

    /// Returns a number, or `None` for NULL.
    pub(crate) fn optional_int(&self, column: usize) -> Result<Option<i64>, Failure> {
        self.0.int(column).map_err(Failure::NoResponse)
    }

    pub(crate) fn text(&self, column: usize) -> Result<String, Failure> {
        not_null(column, self.0.text(column))
    }

    /// Returns a string, or `None` for NULL.
    pub(crate) fn optional_text(&self, column: usize) -> Result<Option<String>, Failure> {
        self.0.text(column).map_err(Failure::NoResponse)
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<Vec<u8>, Failure> {
        not_null(column, self.0.bytes(column))
    }

    /// Returns bytes, or `None` for NULL.
    pub(crate) fn optional_bytes(&self, column: usize) -> Result<Option<Vec<u8>>, Failure> {
        self.0.bytes(column).map_err(Failure::NoResponse)
    }
}

fn not_null<T>(column: usize, value: Result<Option<T>, SqlError>) -> Result<T, Failure> {
    let null = || SqlError::ColumnDecode { index: column.to_string(), source: UnexpectedNullError.into() };
    value.and_then(|value| value.ok_or_else(null)).map_err(Failure::NoResponse)
}

/// Implements [`Driver`] for an `sqlx` driver. The last arguments bind lists to a query.
///
/// We use a macro because generic code would need longer bounds, and because `sqlx` has no trait for the
/// number of affected rows.
macro_rules! driver {
    ($driver:ty, $connection:ty, $row:ty, $query:ident, $ints:ident => $bind_ints:expr, $strings:ident => $bind_strings:expr, $pairs:ident => $bind_pairs:expr) => {
        const _: () = {
            use sqlx::{Error as SqlError, Executor, Row as _};
            use $crate::family::future::BoxFuture;
            use $crate::sql::driver::{Columns, Connection, Driver};
            use $crate::sql::{Row, Value};

            /// Builds a query from the statement and the values.
            macro_rules! query {
                ($text:ident, $values:ident) => {{
                    let mut $query = sqlx::QueryBuilder::<$driver>::new("");
                    let mut values = $values.iter().copied();
                    for (index, piece) in $text.split('?').enumerate() {
                        if index > 0 {
                            match values.next() {
                                Some(Value::Int(number)) => drop($query.push_bind(number)),
                                Some(Value::Text(text)) => drop($query.push_bind(text)),
                                Some(Value::Bytes(bytes)) => drop($query.push_bind(bytes)),
                                Some(Value::Ints($ints)) => $bind_ints,
                                Some(Value::Texts($strings)) => $bind_strings,
                                Some(Value::Pairs($pairs)) => $bind_pairs,
                                None => unreachable!("a statement has a value for each mark"),
                            }
                        }
                        $query.push(piece);
                    }
                    $query
                }};
            }

            impl Driver for $driver {
                const DIALECT: &'static $crate::sql::Dialect = DIALECT;
            }

            impl Connection for $connection {
                fn execute<'a>(
                    &'a mut self,
                    text: &'a str,
                    values: &'a [Value<'a>],
                ) -> BoxFuture<'a, Result<u64, SqlError>> {
                    Box::pin(async move {
                        let done = query!(text, values).build().execute(self).await?;
                        Ok(done.rows_affected())
                    })
                }

                fn fetch<'a>(
                    &'a mut self,
                    text: &'a str,
                    values: &'a [Value<'a>],
                ) -> BoxFuture<'a, Result<Vec<Row>, SqlError>> {
                    Box::pin(async move {
                        let rows = query!(text, values).build().fetch_all(self).await?;
                        Ok(rows.into_iter().map(Row::new).collect())
                    })
                }

                fn fetch_text(&mut self, text: &'static str) -> BoxFuture<'_, Result<Vec<Row>, SqlError>> {
                    Box::pin(async move {
                        let rows = Executor::fetch_all(self, text).await?;
                        Ok(rows.into_iter().map(Row::new).collect())
                    })
                }
            }

            impl Columns for $row {
                fn int(&self, column: usize) -> Result<Option<i64>, SqlError> {
                    self.try_get(column)
                }

                fn text(&self, column: usize) -> Result<Option<String>, SqlError> {
                    // Unchecked because MariaDB does not report binary strings as text.
                    self.try_get_unchecked(column)
                }

                fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>, SqlError> {
                    self.try_get_unchecked(column)
                }
            }
        };
    };
}

pub(super) use driver;
