use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::pools::Pools;
use super::schema::check_version;
#[cfg(feature = "sqlite")]
use super::session::Pool;
#[cfg(feature = "sqlite")]
use super::sqlite::reopen::Reopening;
use super::{Class, Dialect, Failure, Options, Row, SchemaError, Session, Value, tables};
use crate::backoff::Backoff;
use crate::expiry_clock::ExpiryClock;
use crate::{Error, ErrorKind};

/// The time that a call may take, with everything that is tried again.
const CALL: Duration = Duration::from_secs(5);
/// The time that a batch may take: one of an outage has thousands of buckets, and would never be applied if it were cut off
/// each time.
const BATCH: Duration = Duration::from_secs(60);
/// The time that making the tables may take.
const SCHEMA: Duration = Duration::from_secs(60);

const NO_PANIC: &str = "nothing panics under this lock";

/// A database of counters, for all families.
#[derive(Debug)]
pub(crate) struct Database {
    /// Replaced only if the file of SQLite is.
    pools: RwLock<Arc<Pools>>,
    #[cfg(feature = "sqlite")]
    reopening: Option<Reopening>,
    dialect: Dialect,
    is_in_memory: bool,
    connections: Arc<AtomicU64>,
    /// Set before the first transaction writes.
    pub(super) clock: OnceLock<Mutex<ExpiryClock>>,
}

impl Database {
    /// Prepares connections to a database, which are made when they are needed. `creates_tables` is whether a file of
    /// SQLite that is removed is created again, with its tables.
    pub(crate) fn open(options: Options, most: u32, creates_tables: bool) -> Self {
        let connections = Arc::new(AtomicU64::new(0));
        #[cfg(feature = "sqlite")]
        let reopening = match &options {
            Options::Sqlite(options) => Some(Reopening::new(options.clone(), most, creates_tables)),
            #[cfg(any(feature = "mariadb", feature = "postgres"))]
            _ => None,
        };
        #[cfg(not(feature = "sqlite"))]
        let _ = creates_tables;
        let pools = Pools::open(options, most, CALL, &connections);
        Self {
            dialect: pools.dialect(),
            pools: RwLock::new(Arc::new(pools)),
            #[cfg(feature = "sqlite")]
            reopening,
            is_in_memory: false,
            connections,
            clock: OnceLock::new(),
        }
    }

    /// Creates a database in memory, which is gone with this value.
    #[cfg(feature = "sqlite")]
    pub(crate) async fn in_memory() -> Result<Self, Error> {
        let pool =
            super::sqlite::in_memory().await.map_err(|error| Error::from(super::session::sqlite(error)))?;
        let pools = Pools::of_server(Pool::Sqlite(pool));
        let (dialect, pools) = (pools.dialect(), RwLock::new(Arc::new(pools)));
        let (connections, clock) = (Arc::default(), OnceLock::new());
        Ok(Self { pools, reopening: None, dialect, is_in_memory: true, connections, clock })
    }

    pub(crate) const fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// Returns the number of connections that were made.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Returns the result of an attempt, of which there are several while the database gives way to other
    /// transactions, all of them within 5 s.
    pub(crate) async fn attempt<T, F>(&self, once: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        Self::attempt_within(CALL, once).await
    }

    /// Returns the result of an attempt at a batch, which may take a minute where each of its statements is answered.
    pub(crate) async fn attempt_batch<T, F>(&self, once: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        Self::attempt_within(BATCH, once).await
    }

    async fn attempt_within<T, F>(limit: Duration, once: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let began = Instant::now();
        let gave_way = |failure: &Failure| failure.class() == Some(Class::Busy) && began.elapsed() < CALL;
        let attempts = async {
            let mut backoff = Backoff::new();
            loop {
                match once().await {
                    Err(failure) if gave_way(&failure) => sleep(backoff.next()).await,
                    done => return done,
                }
            }
        };
        match timeout(limit, attempts).await {
            Ok(done) => done.map_err(Error::from),
            Err(elapsed) => Err(Error::new(ErrorKind::Unavailable).caused_by(elapsed)),
        }
    }

    /// Begins a transaction that is going to write, unless the tables are of another version by now.
    pub(crate) async fn begin(&self) -> Result<Session, Failure> {
        let mut session = self.pools().await?.writer().await?;
        let version = session.fetch_text(self.dialect.begin_with_version).await?;
        let version = version.first().map(|row| row.text(0)).transpose()?;
        check_version(version.as_deref()).map_err(Failure::Schema)?;
        self.begin_clock(&mut session).await?;
        Ok(session)
    }

    /// Returns a connection for reading.
    pub(crate) async fn reader(&self) -> Result<Session, Failure> {
        self.pools().await?.reader().await
    }

    /// Returns the connections, to the file that the path leads to now if it is a file.
    async fn pools(&self) -> Result<Arc<Pools>, Failure> {
        let pools = self.current();
        #[cfg(feature = "sqlite")]
        if let Some(reopening) = self.reopening.as_ref().filter(|_| !pools.is_current()) {
            let _turn = reopening.turn().await;
            // Another call may have been first.
            let new = Arc::new(reopening.reopen(&self.current(), CALL, &self.connections).await?);
            *self.pools.write().expect(NO_PANIC) = Arc::clone(&new);
            return Ok(new);
        }
        Ok(pools)
    }

    fn current(&self) -> Arc<Pools> {
        Arc::clone(&self.pools.read().expect(NO_PANIC))
    }

    /// Returns whether the database is gone with this value.
    pub(crate) const fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// Returns whether the file of the database was removed or replaced recently.
    #[cfg_attr(not(feature = "sqlite"), expect(clippy::unused_self, reason = "only SQLite has a file"))]
    pub(crate) fn was_replaced(&self) -> bool {
        #[cfg(feature = "sqlite")]
        if let Some(reopening) = &self.reopening {
            return reopening.is_recent();
        }
        false
    }

    /// Reads by one statement.
    pub(crate) async fn fetch(&self, text: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        let fetch = || async {
            let mut session = self.reader().await?;
            let rows = session.fetch(text, values).await?;
            session.end();
            Ok(rows)
        };
        self.attempt(fetch).await
    }

    /// Checks that the database has the settings that are needed.
    pub(crate) async fn check_settings(&self) -> Result<(), SchemaError> {
        let unfit = self.dialect.unfit;
        if unfit.is_empty() {
            return Ok(());
        }
        let rows = self.fetch(unfit, &[]).await.map_err(SchemaError::Unknown)?;
        let reason =
            rows.first().map(|row| row.text(0).map_err(|failure| SchemaError::Unknown(failure.into())));
        reason.transpose()?.map_or(Ok(()), |reason| Err(SchemaError::Unfit(reason)))
    }

    /// Checks that the tables are there and of the right version.
    pub(crate) async fn check_tables(&self) -> Result<(), SchemaError> {
        let version = self.attempt(|| async { tables::version(&*self.pools().await?).await });
        check_version(version.await.map_err(SchemaError::Unknown)?.as_deref())
    }

    /// Creates the tables, or upgrades those of an older version.
    pub(crate) async fn create_tables(&self) -> Result<(), SchemaError> {
        let create = || async { tables::create(&*self.pools().await?).await };
        Self::attempt_within(SCHEMA, create).await.map_err(SchemaError::Unknown)
    }
}
