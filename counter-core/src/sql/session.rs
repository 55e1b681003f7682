use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use sqlx::Error as SqlError;
use tokio::time::timeout;

use super::dialect::Dialect;
use super::driver::{Connection, Pooled, Row};
use super::failure::Failure;
use super::statement::Value;

/// The time that a statement may take.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The place of a database that can be replaced while it is in use, such as a file.
pub(super) trait Place: fmt::Debug + Send + Sync {
    /// Confirms, after a connection was opened or has committed, that it leads to the database at this place.
    fn confirm(&self) -> Result<(), Box<dyn StdError + Send + Sync>>;
}

/// A connection in use, perhaps with a transaction.
///
/// A session that is dropped before it [ended](Self::end), because a call failed or was cancelled, is closed: the
/// database rolls the transaction back, and a statement that is still running cannot disturb another session.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Option<Box<dyn Pooled>>,
    dialect: &'static Dialect,
    place: Option<Arc<dyn Place>>,
}

impl Session {
    pub(super) fn new(
        connection: Box<dyn Pooled>,
        dialect: &'static Dialect,
        place: Option<Arc<dyn Place>>,
    ) -> Self {
        Self { connection: Some(connection), dialect, place }
    }

    /// Executes a statement; returns the number of rows that it found to change.
    pub(crate) async fn execute(&mut self, text: &str, values: &[Value<'_>]) -> Result<u64, Failure> {
        let done = in_time(self.connection().execute(text, values)).await;
        done.map_err(|error| self.dialect.failure(error))
    }

    /// Executes a statement that returns rows.
    pub(crate) async fn fetch(&mut self, text: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Failure> {
        let rows = in_time(self.connection().fetch(text, values)).await;
        rows.map_err(|error| self.dialect.failure(error))
    }

    /// Executes one or more statements without values, without a time limit; returns the rows of all of them.
    pub(super) async fn fetch_text(&mut self, text: &'static str) -> Result<Vec<Row>, Failure> {
        let rows = self.connection().fetch_text(text).await;
        rows.map_err(|error| self.dialect.failure(error))
    }

    /// Commits the transaction. If this fails, it is not known whether it was committed, unless the database
    /// returned an error.
    pub(crate) async fn commit(mut self) -> Result<(), Failure> {
        self.end_transaction("COMMIT").await?;
        if let Some(place) = &self.place {
            // The commit is lost if the file was replaced since the transaction began.
            place.confirm().map_err(Failure::File)?;
        }
        self.end();
        Ok(())
    }

    /// Rolls the transaction back.
    pub(crate) async fn roll_back(mut self) -> Result<(), Failure> {
        self.end_transaction("ROLLBACK").await?;
        self.end();
        Ok(())
    }

    async fn end_transaction(&mut self, text: &'static str) -> Result<(), Failure> {
        let done = in_time(self.connection().fetch_text(text)).await;
        done.map(drop).map_err(|error| self.dialect.failure(error))
    }

    /// Returns the connection to its pool, if no statement is running on it.
    pub(crate) fn end(mut self) {
        self.connection = None;
    }

    fn connection(&mut self) -> &mut dyn Connection {
        self.connection.as_mut().expect("only a session that has ended has no connection").connection()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
    }
}

/// Limits the time of a statement: a batch has many, and if the database does not answer, the batch is given up before
/// each of them has timed out.
async fn in_time<T>(statement: impl Future<Output = Result<T, SqlError>>) -> Result<T, SqlError> {
    let late = |_| SqlError::Io(io::ErrorKind::TimedOut.into());
    timeout(STATEMENT_TIMEOUT, statement).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}
