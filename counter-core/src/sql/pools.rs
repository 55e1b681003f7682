use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(any(feature = "mariadb", feature = "postgres"))]
use sqlx::Executor;
use sqlx::pool::PoolOptions;
#[cfg(feature = "sqlite")]
use sqlx::sqlite::SqliteConnectOptions;

use super::session::Pool;
#[cfg(feature = "sqlite")]
use super::sqlite::file::{OpenedFile, PathState};
use super::{Dialect, Failure, Options, Session};

/// The connections to a database.
#[derive(Clone, Debug)]
pub(super) struct Pools {
    /// The connections that write: one in SQLite, which allows a single writer.
    write: Pool,
    read: Pool,
    #[cfg(feature = "sqlite")]
    file: Option<Arc<OpenedFile>>,
}

impl Pools {
    /// Prepares at most `most` connections, which are opened when they are needed and waited for until `timeout`.
    pub(super) fn open(options: Options, most: u32, timeout: Duration, opened: &Arc<AtomicU64>) -> Self {
        match options {
            #[cfg(feature = "sqlite")]
            Options::Sqlite(options) => Self::open_file(&options, most, timeout, opened),
            #[cfg(feature = "postgres")]
            Options::Postgres(options) => {
                let opened = Arc::clone(opened);
                let pool = pool::<sqlx::Postgres>(most, timeout).after_connect(move |connection, _| {
                    opened.fetch_add(1, Ordering::Relaxed);
                    Box::pin(async move { connection.execute(super::postgres::SETTINGS).await.map(drop) })
                });
                Self::of_server(Pool::Postgres(pool.connect_lazy_with(options)))
            }
            #[cfg(feature = "mariadb")]
            Options::Maria(options) => {
                let opened = Arc::clone(opened);
                let pool = pool::<sqlx::MySql>(most, timeout).after_connect(move |connection, _| {
                    opened.fetch_add(1, Ordering::Relaxed);
                    Box::pin(async move { connection.execute(super::mariadb::SETTINGS).await.map(drop) })
                });
                Self::of_server(Pool::Maria(pool.connect_lazy_with(options)))
            }
        }
    }

    /// Prepares connections to a file of SQLite. They stay open: the log exists as long as there is one.
    #[cfg(feature = "sqlite")]
    pub(super) fn open_file(
        options: &SqliteConnectOptions,
        most: u32,
        timeout: Duration,
        opened: &Arc<AtomicU64>,
    ) -> Self {
        let file = Some(Arc::new(OpenedFile::new(options.get_filename())));
        let options = super::sqlite::settled(options.clone());
        let pool = |most| {
            let opened = Arc::clone(opened);
            let pool = pool::<sqlx::Sqlite>(most, timeout).idle_timeout(None).max_lifetime(None);
            let pool = pool.after_connect(move |_, _| {
                opened.fetch_add(1, Ordering::Relaxed);
                Box::pin(async { Ok(()) })
            });
            Pool::Sqlite(pool.connect_lazy_with(options.clone()))
        };
        Self { write: pool(1), read: pool(most.max(2) - 1), file }
    }

    /// Uses one pool for everything, of connections to a server or to a database in memory.
    pub(super) fn of_server(pool: Pool) -> Self {
        Self {
            write: pool.clone(),
            read: pool,
            #[cfg(feature = "sqlite")]
            file: None,
        }
    }

    pub(super) const fn dialect(&self) -> Dialect {
        self.write.dialect()
    }

    pub(super) const fn schema(&self) -> (&'static [&'static str], [&'static str; 2]) {
        self.write.schema()
    }

    /// Returns a connection for reading.
    pub(super) async fn reader(&self) -> Result<Session, Failure> {
        self.confirmed(self.read.acquire().await?)
    }

    /// Returns a connection for writing.
    pub(super) async fn writer(&self) -> Result<Session, Failure> {
        self.confirmed(self.write.acquire().await?)
    }

    /// Confirms that a connection is one to the file at the path: it may be new.
    #[cfg_attr(not(feature = "sqlite"), expect(clippy::unused_self, reason = "only SQLite has a file"))]
    fn confirmed(&self, session: Session) -> Result<Session, Failure> {
        #[cfg(feature = "sqlite")]
        if let Some(file) = &self.file {
            file.confirm()?;
            return Ok(session.with_file(Arc::clone(file)));
        }
        Ok(session)
    }
}

#[cfg(feature = "sqlite")]
impl Pools {
    pub(super) fn file(&self) -> Option<&OpenedFile> {
        self.file.as_deref()
    }

    /// Returns whether the connections are those to the file at the path.
    pub(super) fn is_current(&self) -> bool {
        self.path_state() == PathState::Opened && !self.is_closed()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.write.is_closed()
    }

    /// Returns what the path of the database leads to; a server has none.
    pub(super) fn path_state(&self) -> PathState {
        let is_connected = self.write.size() + self.read.size() > 0;
        self.file().map_or(PathState::Opened, |file| file.state(is_connected))
    }

    /// Writes the log into the opened file: if it was moved, it is complete without its log.
    pub(super) async fn checkpoint(&self) -> Result<(), Failure> {
        let mut session = self.write.acquire().await?;
        session.execute_text("PRAGMA wal_checkpoint(TRUNCATE)").await?;
        session.end();
        Ok(())
    }

    /// Closes all connections, after the calls that use them.
    pub(super) async fn close(&self) {
        self.write.close().await;
        self.read.close().await;
    }
}

/// Returns the settings of a pool. No call waits longer for a connection than for its whole result.
fn pool<D: sqlx::Database>(most: u32, timeout: Duration) -> PoolOptions<D> {
    PoolOptions::new().max_connections(most).acquire_timeout(timeout)
}
