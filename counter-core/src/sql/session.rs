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

/// Timeout for a statement.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The location of a database that can be replaced while it is in use, e.g. a file.
pub(super) trait Location: fmt::Debug + Send + Sync {
    /// Checks if connections lead to the database at this location. This must be called after opening a
    /// connection, and after a commit.
    fn confirm(&self) -> Result<(), Box<dyn StdError + Send + Sync>>;
}

/// A connection in use, possibly with an open transaction.
///
/// If a session is dropped before it has [ended](Self::end), because a call failed or has been cancelled, the
/// connection will be closed. The database then rolls the transaction back, and a running statement can't
/// interfere with other sessions.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Option<Box<dyn Pooled>>,
    dialect: &'static Dialect,
    location: Option<Arc<dyn Location>>,
}

impl Session {
    pub(super) fn new(
        connection: Box<dyn Pooled>,
        dialect: &'static Dialect,
        location: Option<Arc<dyn Location>>,
    ) -> Self {
        Self { connection: Some(connection), dialect, location }
    }

    /// Executes a statement, and returns the number of affected rows.
    pub(crate) async fn execute(&mut self, text: &str, values: &[Value<'_>]) -> Result<u64, Failure> {
        let result = with_timeout(self.connection().execute(text, values)).await;
        result.map_err(|error| self.dialect.failure(error))
    }

    /// Executes a query, and returns all rows.
    pub(crate) async fn fetch(&mut self, text: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Failure> {
        let rows = with_timeout(self.connection().fetch(text, values)).await;
        rows.map_err(|error| self.dialect.failure(error))
    }

    /// Executes statements with no values, and returns all rows. There is no timeout.
    pub(super) async fn fetch_text(&mut self, text: &'static str) -> Result<Vec<Row>, Failure> {
        let rows = self.connection().fetch_text(text).await;
        rows.map_err(|error| self.dialect.failure(error))
    }

    /// Commits the transaction. If this fails, the transaction may or may not be committed, unless the
    /// database returned an error.
    pub(crate) async fn commit(mut self) -> Result<(), Failure> {
        self.end_transaction("COMMIT").await?;
        if let Some(location) = &self.location {
            // If the file has been replaced since the transaction began, the commit is lost.
            location.confirm().map_err(Failure::File)?;
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
        let result = with_timeout(self.connection().fetch_text(text)).await;
        result.map(drop).map_err(|error| self.dialect.failure(error))
    }

    /// Returns the connection to the pool. This must not be called while a statement is running.
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

/// Applies the timeout to a statement. Without it, a batch would only fail when the batch timeout elapses,
/// even if the database never responds.
async fn with_timeout<T>(statement: impl Future<Output = Result<T, SqlError>>) -> Result<T, SqlError> {
    let timed_out = |_| SqlError::Io(io::ErrorKind::TimedOut.into());
    timeout(STATEMENT_TIMEOUT, statement).await.unwrap_or_else(|elapsed| Err(timed_out(elapsed)))
}
