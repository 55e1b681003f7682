use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(any(feature = "mariadb", feature = "postgres"))]
use sqlx::Executor;
use sqlx::pool::PoolOptions;
use tokio::time::{Instant, sleep, timeout};

use super::session::Pool;
use super::{Class, Dialect, Failure, Options, Row, Session, Value};
use crate::backoff::Backoff;
use crate::{Error, ErrorKind};

/// The time that a call may take, with everything that is tried again.
const CALL: Duration = Duration::from_secs(5);
/// The time that a batch may take: one of an outage has thousands of buckets, and would never be applied if it were cut off
/// each time.
const BATCH: Duration = Duration::from_secs(60);
/// The time that making the tables may take.
const SCHEMA: Duration = Duration::from_secs(60);

/// A database of counters, for all families.
#[derive(Debug)]
pub(crate) struct Database {
    /// The connections that write: one in SQLite, where no more can.
    write: Pool,
    read: Pool,
    dialect: Dialect,
    connections: Arc<AtomicU64>,
}

impl Database {
    /// Prepares connections to a database, which are made when they are needed.
    pub(crate) fn open(options: Options, most: u32) -> Self {
        let connections = Arc::new(AtomicU64::new(0));
        let (write, read) = match options {
            #[cfg(feature = "sqlite")]
            Options::Sqlite(options) => {
                let options = super::sqlite::settled(options);
                let pool = |most| {
                    let made = Arc::clone(&connections);
                    let pool = pool::<sqlx::Sqlite>(most).after_connect(move |_, _| {
                        made.fetch_add(1, Ordering::Relaxed);
                        Box::pin(async { Ok(()) })
                    });
                    Pool::Sqlite(pool.connect_lazy_with(options.clone()))
                };
                (pool(1), pool(most.max(2) - 1))
            }
            #[cfg(feature = "postgres")]
            Options::Postgres(options) => {
                let made = Arc::clone(&connections);
                let pool = pool::<sqlx::Postgres>(most).after_connect(move |connection, _| {
                    made.fetch_add(1, Ordering::Relaxed);
                    Box::pin(async move { connection.execute(super::postgres::SETTINGS).await.map(drop) })
                });
                let pool = Pool::Postgres(pool.connect_lazy_with(options));
                (pool.clone(), pool)
            }
            #[cfg(feature = "mariadb")]
            Options::Maria(options) => {
                let made = Arc::clone(&connections);
                let pool = pool::<sqlx::MySql>(most).after_connect(move |connection, _| {
                    made.fetch_add(1, Ordering::Relaxed);
                    Box::pin(async move { connection.execute(super::mariadb::SETTINGS).await.map(drop) })
                });
                let pool = Pool::Maria(pool.connect_lazy_with(options));
                (pool.clone(), pool)
            }
        };
        let dialect = write.dialect();
        Self { write, read, dialect, connections }
    }

    /// Creates a database in memory, which is gone with this value.
    #[cfg(feature = "sqlite")]
    pub(crate) async fn in_memory() -> Result<Self, Error> {
        let pool =
            super::sqlite::in_memory().await.map_err(|error| Error::from(super::session::sqlite(error)))?;
        let pool = Pool::Sqlite(pool);
        let dialect = pool.dialect();
        Ok(Self { write: pool.clone(), read: pool, dialect, connections: Arc::default() })
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

    /// Returns the result of an attempt at changing the schema, which may take a minute.
    pub(super) async fn attempt_for_schema<T, F>(&self, once: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        Self::attempt_within(SCHEMA, once).await
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

    /// Begins a transaction that is going to write.
    pub(crate) async fn begin(&self) -> Result<Session, Failure> {
        let mut session = self.write.acquire().await?;
        session.execute_text(self.dialect.begin).await?;
        Ok(session)
    }

    /// Returns a connection for reading.
    pub(crate) async fn reader(&self) -> Result<Session, Failure> {
        self.read.acquire().await
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

    pub(super) const fn schema(&self) -> (&'static [&'static str], [&'static str; 2]) {
        self.write.schema()
    }
}

/// Returns the settings of a pool. Nothing waits longer for a connection than for its whole call.
fn pool<D: sqlx::Database>(most: u32) -> PoolOptions<D> {
    PoolOptions::new().max_connections(most).acquire_timeout(CALL)
}
