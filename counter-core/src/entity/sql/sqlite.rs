use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Sqlite;
use sqlx::error::DatabaseError;
use tokio::time::{sleep, timeout};

use super::{Place, sql_database, unwritten};
use crate::entity::{EntityDatabase, EntityError, EntityErrorKind};
use crate::sql::sqlite::classify;
use crate::sql::{FileError, OpenedFile, PathState};

/// A database of entity counts in SQLite, version 3.37 or later; the bundled one is.
///
/// If its file is removed, moved or replaced while it is in use, no count is written to the old file: the idle
/// connections of the pool are closed, and calls fail until a file is at the path and no connection to the old one is
/// in use.
#[derive(Clone, Debug)]
pub struct SqliteDatabase(sqlx::Pool<Sqlite>, WatchedFile);

/// How long a call waits until connections to a file that was replaced are no longer in use, and how often it checks.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);

/// The file that the connections of a pool have opened.
#[derive(Clone, Debug)]
struct WatchedFile(Arc<OpenedFile>);

impl Place<Sqlite> for WatchedFile {
    fn of(pool: &sqlx::Pool<Sqlite>) -> Self {
        Self(Arc::new(OpenedFile::new(pool.connect_options().get_filename())))
    }

    /// Closes the connections to a file that was replaced, so that the next ones open the one at the path.
    async fn check(&self, pool: &sqlx::Pool<Sqlite>) -> Result<(), EntityError> {
        let replaced = || FileError::ReplacedDuringCall(self.0.path().to_owned());
        let checked = timeout(DRAIN_TIMEOUT, self.drain(pool)).await;
        checked.unwrap_or_else(|_| Err(unavailable(replaced())))
    }

    fn confirm(&self) -> Result<(), EntityError> {
        self.0.confirm().map_err(|error| EntityError::new(EntityErrorKind::Unconfirmed).caused_by(error))
    }
}

impl SqliteDatabase {
    /// Creates an empty database in memory, with its tables, which is gone with its last handle: for tests
    /// and examples.
    ///
    /// # Errors
    /// Fails when it cannot be created.
    pub async fn in_memory() -> Result<Self, EntityError> {
        let pool = crate::sql::sqlite::in_memory().await;
        let database = Self::new(pool.map_err(|error| unwritten(explain, error))?);
        database.create_tables().await?;
        Ok(database)
    }
}

impl WatchedFile {
    /// Waits until no connection to a file that was replaced is open.
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

sql_database! {
    SqliteDatabase of Sqlite {
        place: WatchedFile,
        schema: include_str!("sqlite.sql"),
        now: "CAST(strftime('%s', 'now') AS INTEGER)",
        insert_new: ("INSERT INTO", " ON CONFLICT DO NOTHING"),
        add: "ON CONFLICT (kind, entity, field) DO UPDATE SET value = access_entity.value + excluded.value, \
              version = access_entity.version + 1",
        explain: explain,
    }
}

fn explain(answer: &dyn DatabaseError) -> EntityErrorKind {
    classify(answer).into()
}
