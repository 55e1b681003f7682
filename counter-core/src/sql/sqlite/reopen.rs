use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Error as SqlError, Sqlite};
use tokio::time::{Instant, timeout};

use super::file::{FileError, OpenedFile, PathState};
use super::{DIALECT, with_settings};
use crate::family::future::BoxFuture;
use crate::family::private_file;
use crate::log::unwind::emit;
use crate::sql::failure::Failure;
use crate::sql::pools::{Pools, Source, pool_options};
use crate::sql::schema::Settings;
use crate::sql::session::{Location, Session};
use crate::sql::tables;

/// The delay before a missing file is created again. A backup may be about to be restored to this path, and
/// it would overwrite the new file while it is open.
const MISSING_GRACE: Duration = Duration::from_secs(5);

/// Timeout for closing the connections to a replaced file.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The time for which a replacement is reported.
const REPORT_TIME: Duration = Duration::from_secs(3600);

const LOCK_POISONED: &str = "the lock is never poisoned";

/// Connections to an SQLite file. These will be reopened if the file is removed or replaced while it is in
/// use.
#[derive(Debug)]
pub(super) struct FileSource {
    options: SqliteConnectOptions,
    settings: Settings,
    connections: Arc<AtomicU64>,
    opened: RwLock<OpenedPools>,
    /// Held while the file is being reopened.
    reopening: tokio::sync::Mutex<()>,
    last_replaced: Mutex<Option<Instant>>,
}

/// The connections to the open file.
#[derive(Clone, Debug)]
struct OpenedPools {
    pools: Pools,
    write: sqlx::Pool<Sqlite>,
    read: sqlx::Pool<Sqlite>,
    file: Arc<OpenedFile>,
}

impl FileSource {
    pub(super) fn new(
        options: SqliteConnectOptions,
        settings: Settings,
        connections: Arc<AtomicU64>,
    ) -> Self {
        let opened = RwLock::new(OpenedPools::new(&options, settings, &connections));
        let (reopening, last_replaced) = (tokio::sync::Mutex::default(), Mutex::default());
        Self { options, settings, connections, opened, reopening, last_replaced }
    }

    fn opened(&self) -> OpenedPools {
        self.opened.read().expect(LOCK_POISONED).clone()
    }

    /// Returns connections to the file at the path.
    async fn reopen(&self, old: &OpenedPools) -> Result<OpenedPools, Failure> {
        let (file, creates_tables) = (&old.file, self.settings.creates_tables);
        let new = || OpenedPools::new(&self.options, self.settings, &self.connections);
        match old.path_state() {
            PathState::Opened if !old.write.is_closed() => return Ok(old.clone()),
            PathState::Opened | PathState::LogReplaced => {
                drop(timeout(CLOSE_TIMEOUT, old.checkpoint()).await);
                // Connections with different logs must not be open concurrently.
                let closed = timeout(CLOSE_TIMEOUT, old.close()).await;
                closed.map_err(|_| FileError::ReplacedDuringCall(file.path().to_owned()))?;
                self.report("the database log was removed while in use; the database has been reopened");
                return Ok(new());
            }
            PathState::Missing(time) if time < MISSING_GRACE || !creates_tables || !file.has_directory() => {
                return Err(FileError::Missing(file.path().to_owned()).into());
            }
            PathState::Missing(_) | PathState::Replaced => {}
        }
        // If this fails, the moved file will lack the changes that are only in the log.
        drop(timeout(CLOSE_TIMEOUT, old.checkpoint()).await);
        file.remove_log().map_err(|error| Failure::NoResponse(SqlError::Io(error)))?;
        let new = match creates_tables {
            true => {
                private_file::create_database(self.options.get_filename());
                let new = new();
                tables::create(&new.pools).await?;
                new
            }
            false => new(),
        };
        let version = tables::version(&new.pools).await?;
        new.pools.schema.check(version.as_deref()).map_err(Failure::Schema)?;
        self.report(
            "the database file was removed or replaced while in use; the path has been reopened, and if the new \
             file lacks batches of the last minute, they will be sent again",
        );
        Ok(new)
    }

    fn report(&self, event: &'static str) {
        *self.last_replaced.lock().expect(LOCK_POISONED) = Some(Instant::now());
        emit(|| tracing::warn!(file = %self.options.get_filename().display(), "{event}"));
    }
}

impl Source for FileSource {
    fn pools(&self) -> BoxFuture<'_, Result<Pools, Failure>> {
        Box::pin(async {
            let opened = self.opened();
            if opened.path_state() == PathState::Opened && !opened.write.is_closed() {
                return Ok(opened.pools);
            }
            let _reopening = self.reopening.lock().await;
            // A concurrent call may have reopened the file already.
            let new = self.reopen(&self.opened()).await?;
            *self.opened.write().expect(LOCK_POISONED) = new.clone();
            Ok(new.pools)
        })
    }

    fn was_replaced(&self) -> bool {
        let last = *self.last_replaced.lock().expect(LOCK_POISONED);
        last.is_some_and(|last| last.elapsed() < REPORT_TIME)
    }
}

impl OpenedPools {
    /// Creates the pools. Connections do not expire because the log is removed with the last connection.
    fn new(options: &SqliteConnectOptions, settings: Settings, connections: &Arc<AtomicU64>) -> Self {
        let file = Arc::new(OpenedFile::new(options.get_filename()));
        let options = with_settings(options.clone());
        let pool = |max_connections| {
            let pool = pool_options::<Sqlite>(max_connections, connections);
            pool.idle_timeout(None).max_lifetime(None).connect_lazy_with(options.clone())
        };
        let (write, read) = (pool(1), pool(settings.max_connections.max(2) - 1));
        let location: Arc<dyn Location> = Arc::clone(&file) as _;
        let pools = Pools::new(write.clone(), read.clone(), Some(location), settings);
        Self { pools, write, read, file }
    }

    fn path_state(&self) -> PathState {
        self.file.state(self.write.size() + self.read.size() > 0)
    }

    /// Writes the log into the open file, so that the file will be complete if it has been moved without the
    /// log.
    async fn checkpoint(&self) -> Result<(), Failure> {
        let connection = self.write.acquire().await.map_err(|error| DIALECT.failure(error))?;
        let mut session = Session::new(Box::new(connection), DIALECT, None);
        session.fetch_text("PRAGMA wal_checkpoint(TRUNCATE)").await?;
        session.end();
        Ok(())
    }

    /// Waits for pending calls and closes all connections.
    async fn close(&self) {
        self.write.close().await;
        self.read.close().await;
    }
}
