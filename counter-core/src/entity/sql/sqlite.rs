use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Sqlite;
use tokio::time::{sleep, timeout};

use super::{Location, SqlDatabase, unwritten};
use crate::entity::database::EntityDatabase;
use crate::entity::error::{EntityError, EntityErrorKind};
use crate::family::future::BoxFuture;
use crate::sql::driver::Driver;
use crate::sql::sqlite::file::{FileError, OpenedFile, PathState};
use crate::sql::sqlite::in_memory;

/// Entity counts in SQLite 3.37 or later, which includes the bundled version.
///
/// If the database file is removed, moved or replaced during use, counts will not be written to the old file:
/// idle connections are closed, and calls fail until there is a file at the path and the old connections are
/// no longer in use.
pub type SqliteDatabase = SqlDatabase<Sqlite>;

/// Timeout when waiting until the connections to a replaced file are closed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval for checking if the connections to a replaced file are closed.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);

/// The file opened by the pool.
struct WatchedFile(OpenedFile);

impl Location<Sqlite> for WatchedFile {
    /// Closes connections to a replaced file, so that new connections will open the file at the path.
    fn check<'a>(&'a self, pool: &'a sqlx::Pool<Sqlite>) -> BoxFuture<'a, Result<(), EntityError>> {
        let replaced = || FileError::ReplacedDuringCall(self.0.path().to_owned());
        Box::pin(async move {
            let checked = timeout(DRAIN_TIMEOUT, self.drain(pool)).await;
            checked.unwrap_or_else(|_| Err(unavailable(replaced())))
        })
    }

    fn confirm(&self) -> Result<(), EntityError> {
        self.0.confirm().map_err(|error| EntityError::new(EntityErrorKind::Unconfirmed).caused_by(error))
    }
}

impl SqlDatabase<Sqlite> {
    /// Creates a database from a connection pool. The pool settings are not changed.
    #[must_use]
    pub fn new(pool: sqlx::Pool<Sqlite>) -> Self {
        let file = OpenedFile::new(pool.connect_options().get_filename());
        Self::over(pool, Some(Arc::new(WatchedFile(file))))
    }

    /// Creates an empty in-memory database with tables, for tests and examples. It is deleted when all
    /// handles are dropped.
    ///
    /// # Errors
    /// Fails if the database can't be created.
    pub async fn in_memory() -> Result<Self, EntityError> {
        let pool = in_memory().await.map_err(|error| unwritten(Sqlite::DIALECT.failure(error)))?;
        let database = Self::new(pool);
        database.create_tables().await?;
        Ok(database)
    }
}

impl WatchedFile {
    /// Waits until all connections to a replaced file are closed.
    async fn drain(&self, pool: &sqlx::Pool<Sqlite>) -> Result<(), EntityError> {
        loop {
            match self.0.state(pool.size() > 0) {
                PathState::Opened => return Ok(()),
                PathState::Missing(_) => {
                    return Err(unavailable(FileError::Missing(self.0.path().to_owned())));
                }
                PathState::LogReplaced => {}
                PathState::Replaced => self.0.remove_log().map_err(unavailable)?,
            }
            while let Some(connection) = pool.try_acquire() {
                drop(connection.close().await);
            }
            if pool.size() == 0 {
                self.0.forget();
                return Ok(());
            }
            sleep(DRAIN_INTERVAL).await;
        }
    }
}

fn unavailable(error: impl StdError + Send + Sync + 'static) -> EntityError {
    EntityError::new(EntityErrorKind::Unavailable).caused_by(error)
}
