//! Connections of any of the databases, and the rows that they answer with.

use std::io;
#[cfg(feature = "sqlite")]
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "mariadb")]
use sqlx::MySql;
#[cfg(feature = "postgres")]
use sqlx::Postgres;
#[cfg(feature = "sqlite")]
use sqlx::Sqlite;
use sqlx::error::DatabaseError;
use sqlx::pool::PoolConnection;
use sqlx::{Error as SqlError, Executor, Row as _};
use tokio::time::timeout;

#[cfg(feature = "sqlite")]
use super::sqlite::file::OpenedFile;
use super::statement::query;
use super::{Class, Dialect, Failure, Value};

/// The time that a statement may take.
const STATEMENT: Duration = Duration::from_secs(5);

/// A kind of database, with what each driver has for it.
macro_rules! of_each {
    ($(#[$docs:meta])* $visible:vis enum $name:ident { $($feature:literal $variant:ident($inner:ty),)* }) => {
        $(#[$docs])*
        $visible enum $name {
            $(
                #[cfg(feature = $feature)]
                $variant($inner),
            )*
        }
    };
}

/// Does the same with whatever driver it is.
macro_rules! on_each {
    ($name:ident, $on:expr, $inner:ident => $body:expr) => {
        match $on {
            #[cfg(feature = "sqlite")]
            $name::Sqlite($inner) => $body,
            #[cfg(feature = "postgres")]
            $name::Postgres($inner) => $body,
            #[cfg(feature = "mariadb")]
            $name::Maria($inner) => $body,
        }
    };
}

of_each! {
    /// The address of a database with the settings of its connections.
    #[derive(Clone, Debug)]
    pub(crate) enum Options {
        "sqlite" Sqlite(sqlx::sqlite::SqliteConnectOptions),
        "postgres" Postgres(sqlx::postgres::PgConnectOptions),
        "mariadb" Maria(sqlx::mysql::MySqlConnectOptions),
    }
}

of_each! {
    /// A pool of connections.
    #[derive(Clone, Debug)]
    pub(super) enum Pool {
        "sqlite" Sqlite(sqlx::Pool<Sqlite>),
        "postgres" Postgres(sqlx::Pool<Postgres>),
        "mariadb" Maria(sqlx::Pool<MySql>),
    }
}

of_each! {
    #[derive(Debug)]
    enum Connection {
        "sqlite" Sqlite(PoolConnection<Sqlite>),
        "postgres" Postgres(PoolConnection<Postgres>),
        "mariadb" Maria(PoolConnection<MySql>),
    }
}

of_each! {
    /// A row of an answer; columns count from 0.
    pub(crate) enum Row {
        "sqlite" Sqlite(sqlx::sqlite::SqliteRow),
        "postgres" Postgres(sqlx::postgres::PgRow),
        "mariadb" Maria(sqlx::mysql::MySqlRow),
    }
}

/// A connection in use, perhaps with a transaction.
///
/// One that is dropped before it [ended](Self::end), since something failed or the caller went away, is closed:
/// the database ends its transaction, and whatever was under way can disturb nobody else.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Option<Connection>,
    #[cfg(feature = "sqlite")]
    file: Option<Arc<OpenedFile>>,
}

impl Pool {
    pub(super) async fn acquire(&self) -> Result<Session, Failure> {
        let connection = match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => pool.acquire().await.map(Connection::Sqlite).map_err(sqlite),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => pool.acquire().await.map(Connection::Postgres).map_err(postgres),
            #[cfg(feature = "mariadb")]
            Self::Maria(pool) => pool.acquire().await.map(Connection::Maria).map_err(mariadb),
        };
        connection.map(|connection| Session {
            connection: Some(connection),
            #[cfg(feature = "sqlite")]
            file: None,
        })
    }

    /// Returns the number of connections that are open.
    #[cfg(feature = "sqlite")]
    pub(super) fn size(&self) -> u32 {
        on_each!(Self, self, pool => pool.size())
    }

    #[cfg(feature = "sqlite")]
    pub(super) fn is_closed(&self) -> bool {
        on_each!(Self, self, pool => pool.is_closed())
    }

    /// Closes all connections, after the calls that use them.
    #[cfg(feature = "sqlite")]
    pub(super) async fn close(&self) {
        on_each!(Self, self, pool => pool.close().await);
    }

    /// Returns what the database writes in its own way.
    pub(super) const fn dialect(&self) -> Dialect {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => super::sqlite::DIALECT,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => super::postgres::DIALECT,
            #[cfg(feature = "mariadb")]
            Self::Maria(_) => super::mariadb::DIALECT,
        }
    }

    /// Returns the texts that lead from one version of the schema to the next, and those that keep others from
    /// doing so at the same time.
    pub(super) const fn schema(&self) -> (&'static [&'static str], [&'static str; 2]) {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => (&super::sqlite::STEPS, super::sqlite::LOCK),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => (&super::postgres::STEPS, super::postgres::LOCK),
            #[cfg(feature = "mariadb")]
            Self::Maria(_) => (&super::mariadb::STEPS, super::mariadb::LOCK),
        }
    }
}

impl Session {
    /// Makes the session confirm at its commit that the path still leads to this file.
    #[cfg(feature = "sqlite")]
    pub(super) fn with_file(mut self, file: Arc<OpenedFile>) -> Self {
        self.file = Some(file);
        self
    }

    /// Executes a statement; returns the number of rows that it found to change.
    pub(crate) async fn execute(&mut self, text: &str, values: &[Value<'_>]) -> Result<u64, Failure> {
        in_time(self.executed(text, values)).await
    }

    async fn executed(&mut self, text: &str, values: &[Value<'_>]) -> Result<u64, Failure> {
        match self.connection() {
            #[cfg(feature = "sqlite")]
            Connection::Sqlite(connection) => {
                let done = query!(sqlite Sqlite, text, values).build().execute(&mut **connection).await;
                done.map(|done| done.rows_affected()).map_err(sqlite)
            }
            #[cfg(feature = "postgres")]
            Connection::Postgres(connection) => {
                let done = query!(postgres Postgres, text, values).build().execute(&mut **connection).await;
                done.map(|done| done.rows_affected()).map_err(postgres)
            }
            #[cfg(feature = "mariadb")]
            Connection::Maria(connection) => {
                let done = query!(mariadb MySql, text, values).build().execute(&mut **connection).await;
                done.map(|done| done.rows_affected()).map_err(mariadb)
            }
        }
    }

    /// Executes a statement that answers with rows.
    pub(crate) async fn fetch(&mut self, text: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Failure> {
        in_time(self.fetched(text, values)).await
    }

    async fn fetched(&mut self, text: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Failure> {
        match self.connection() {
            #[cfg(feature = "sqlite")]
            Connection::Sqlite(connection) => {
                let rows = query!(sqlite Sqlite, text, values).build().fetch_all(&mut **connection).await;
                rows.map(|rows| rows.into_iter().map(Row::Sqlite).collect()).map_err(sqlite)
            }
            #[cfg(feature = "postgres")]
            Connection::Postgres(connection) => {
                let rows = query!(postgres Postgres, text, values).build().fetch_all(&mut **connection).await;
                rows.map(|rows| rows.into_iter().map(Row::Postgres).collect()).map_err(postgres)
            }
            #[cfg(feature = "mariadb")]
            Connection::Maria(connection) => {
                let rows = query!(mariadb MySql, text, values).build().fetch_all(&mut **connection).await;
                rows.map(|rows| rows.into_iter().map(Row::Maria).collect()).map_err(mariadb)
            }
        }
    }

    /// Executes one or more statements without values, as they are.
    pub(super) async fn execute_text(&mut self, text: &'static str) -> Result<(), Failure> {
        match self.connection() {
            #[cfg(feature = "sqlite")]
            Connection::Sqlite(connection) => connection.execute(text).await.map(drop).map_err(sqlite),
            #[cfg(feature = "postgres")]
            Connection::Postgres(connection) => connection.execute(text).await.map(drop).map_err(postgres),
            #[cfg(feature = "mariadb")]
            Connection::Maria(connection) => connection.execute(text).await.map(drop).map_err(mariadb),
        }
    }

    /// Executes one or more statements without values, as they are; returns the rows of all of them.
    pub(super) async fn fetch_text(&mut self, text: &'static str) -> Result<Vec<Row>, Failure> {
        match self.connection() {
            #[cfg(feature = "sqlite")]
            Connection::Sqlite(connection) => {
                let rows = connection.fetch_all(text).await;
                rows.map(|rows| rows.into_iter().map(Row::Sqlite).collect()).map_err(sqlite)
            }
            #[cfg(feature = "postgres")]
            Connection::Postgres(connection) => {
                let rows = connection.fetch_all(text).await;
                rows.map(|rows| rows.into_iter().map(Row::Postgres).collect()).map_err(postgres)
            }
            #[cfg(feature = "mariadb")]
            Connection::Maria(connection) => {
                let rows = connection.fetch_all(text).await;
                rows.map(|rows| rows.into_iter().map(Row::Maria).collect()).map_err(mariadb)
            }
        }
    }

    /// Commits the transaction. When this fails, it is not known whether it was committed, unless the database
    /// answered.
    pub(crate) async fn commit(mut self) -> Result<(), Failure> {
        in_time(self.execute_text("COMMIT")).await?;
        #[cfg(feature = "sqlite")]
        if let Some(file) = &self.file {
            // The commit is lost if the file was replaced since the transaction began.
            file.confirm()?;
        }
        self.end();
        Ok(())
    }

    /// Ends the transaction without a change.
    pub(crate) async fn roll_back(mut self) -> Result<(), Failure> {
        in_time(self.execute_text("ROLLBACK")).await?;
        self.end();
        Ok(())
    }

    /// Returns the connection to its pool: nothing is under way on it.
    pub(crate) fn end(mut self) {
        self.connection = None;
    }

    fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("only a session that has ended has no connection")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            // Not back into the pool, which would wait for an answer that may never come.
            on_each!(Connection, connection, connection => drop(connection.detach()));
        }
    }
}

impl Row {
    pub(crate) fn int(&self, column: usize) -> Result<i64, Failure> {
        on_each!(Self, self, row => row.try_get(column)).map_err(Failure::Silence)
    }

    /// Returns a number, or `None` for NULL.
    pub(crate) fn optional_int(&self, column: usize) -> Result<Option<i64>, Failure> {
        on_each!(Self, self, row => row.try_get(column)).map_err(Failure::Silence)
    }

    pub(crate) fn text(&self, column: usize) -> Result<String, Failure> {
        // Unchecked, since MariaDB does not report a text that is compared byte by byte as text.
        on_each!(Self, self, row => row.try_get_unchecked(column)).map_err(Failure::Silence)
    }

    /// Returns a text, or `None` for NULL.
    pub(crate) fn optional_text(&self, column: usize) -> Result<Option<String>, Failure> {
        on_each!(Self, self, row => row.try_get_unchecked(column)).map_err(Failure::Silence)
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<Vec<u8>, Failure> {
        on_each!(Self, self, row => row.try_get_unchecked(column)).map_err(Failure::Silence)
    }

    /// Returns bytes, or `None` for NULL.
    pub(crate) fn optional_bytes(&self, column: usize) -> Result<Option<Vec<u8>>, Failure> {
        on_each!(Self, self, row => row.try_get_unchecked(column)).map_err(Failure::Silence)
    }
}

/// Bounds the time of a statement: a batch has many, and a database that does not answer is given up before all of
/// them have had theirs.
async fn in_time<T>(statement: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let late = |_| Failure::Silence(SqlError::Io(io::ErrorKind::TimedOut.into()));
    timeout(STATEMENT, statement).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

fn failure(error: SqlError, classify: fn(&dyn DatabaseError) -> Class) -> Failure {
    match &error {
        SqlError::Database(answer) => Failure::Answer(classify(&**answer), error),
        _ => Failure::Silence(error),
    }
}

#[cfg(feature = "sqlite")]
pub(super) fn sqlite(error: SqlError) -> Failure {
    failure(error, super::sqlite::classify)
}

#[cfg(feature = "postgres")]
fn postgres(error: SqlError) -> Failure {
    failure(error, super::postgres::classify)
}

#[cfg(feature = "mariadb")]
fn mariadb(error: SqlError) -> Failure {
    failure(error, super::mariadb::classify)
}
