use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::Error as SqlError;
use sqlx::sqlite::SqliteConnectOptions;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, timeout};

use super::file::{FileError, PathState};
use crate::private_file;
use crate::sql::pools::Pools;
use crate::sql::schema::check_version;
use crate::sql::{Failure, tables};
use crate::unwind::tell;

/// How long a removed file stays missing before another one is created: a backup may be about to be copied there, and
/// a file that was created meanwhile would be overwritten under its connections.
const MISSING_GRACE: Duration = Duration::from_secs(5);

/// How long the connections to a file that was replaced may take to finish.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a replacement is reported.
const REPORT_TIME: Duration = Duration::from_secs(3600);

/// The settings to connect again to a SQLite database file that was removed or replaced while it was in use.
#[derive(Debug)]
pub(in crate::sql) struct Reopening {
    options: SqliteConnectOptions,
    most: u32,
    creates_tables: bool,
    /// Held while the file is opened again.
    turn: tokio::sync::Mutex<()>,
    last: Mutex<Option<Instant>>,
}

impl Reopening {
    pub(in crate::sql) fn new(options: SqliteConnectOptions, most: u32, creates_tables: bool) -> Self {
        Self { options, most, creates_tables, turn: tokio::sync::Mutex::default(), last: Mutex::default() }
    }

    /// Waits until no other call opens the file again.
    pub(in crate::sql) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Returns whether the file was replaced recently.
    pub(in crate::sql) fn is_recent(&self) -> bool {
        let last = *self.last.lock().expect("nothing panics under this lock");
        last.is_some_and(|last| last.elapsed() < REPORT_TIME)
    }

    /// Returns connections to the file that the path leads to now.
    pub(in crate::sql) async fn reopen(
        &self,
        pools: &Pools,
        limit: Duration,
        opened: &Arc<AtomicU64>,
    ) -> Result<Pools, Failure> {
        let Some(file) = pools.file() else { return Ok(pools.clone()) };
        let new = || Pools::open_file(&self.options, self.most, limit, opened);
        match pools.path_state() {
            PathState::Opened if !pools.is_closed() => return Ok(pools.clone()),
            PathState::Opened | PathState::LogReplaced => {
                drop(timeout(CLOSE_TIMEOUT, pools.checkpoint()).await);
                // Connections with different logs must not be open at the same time.
                let closed = timeout(CLOSE_TIMEOUT, pools.close()).await;
                closed.map_err(|_| FileError::ReplacedDuringCall(file.path().to_owned()))?;
                self.report(
                    "the log of the database file was removed while it was in use; it was opened again",
                );
                return Ok(new());
            }
            PathState::Missing(time)
                if time < MISSING_GRACE || !self.creates_tables || !file.has_directory() =>
            {
                return Err(FileError::Missing(file.path().to_owned()).into());
            }
            PathState::Missing(_) | PathState::Replaced => {}
        }
        // If this fails, the file that was moved lacks what is only in its log.
        drop(timeout(CLOSE_TIMEOUT, pools.checkpoint()).await);
        file.remove_log().map_err(|error| Failure::Silence(SqlError::Io(error)))?;
        if self.creates_tables {
            private_file::create_database(self.options.get_filename());
        }
        let new = new();
        if self.creates_tables {
            tables::create(&new).await?;
        }
        check_version(tables::version(&new).await?.as_deref()).map_err(Failure::Schema)?;
        self.report(
            "the database file was removed or replaced while it was in use; its path was opened again, and what the \
             new file lacks of the last minute is sent again",
        );
        Ok(new)
    }

    fn report(&self, event: &'static str) {
        *self.last.lock().expect("nothing panics under this lock") = Some(Instant::now());
        tell(|| tracing::warn!(file = %self.options.get_filename().display(), "{event}"));
    }
}
