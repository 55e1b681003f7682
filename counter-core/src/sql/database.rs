use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout};

use super::dialect::Dialect;
use super::driver::Row;
use super::failure::{Class, Failure};
use super::pools::{CALL_TIMEOUT, Pools, Source};
use super::schema::SchemaError;
use super::session::Session;
use super::statement::Value;
use super::tables;
use crate::error::{Error, ErrorKind};
use crate::time::backoff::Backoff;
use crate::time::expiry_clock::ExpiryClock;

/// Timeout for a batch. It is longer than for other calls because there can be thousands of buckets to write
/// after an outage.
const BATCH_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for creating the tables.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(60);

/// A counter database, shared by all families.
#[derive(Debug)]
pub(crate) struct Database {
    source: Box<dyn Source>,
    dialect: &'static Dialect,
    pub(super) is_in_memory: bool,
    connections: Arc<AtomicU64>,
    /// Set if the database is to be checked by the first call that reaches it.
    unchecked: Option<OnceCell<()>>,
    /// The clock that decides which rows are expired. Set before the first transaction writes.
    pub(super) clock: OnceLock<Mutex<ExpiryClock>>,
}

impl Database {
    /// Creates a database on the pools of `source`, which must count the opened connections in `connections`.
    pub(super) fn new(
        dialect: &'static Dialect,
        source: impl Source + 'static,
        connections: Arc<AtomicU64>,
    ) -> Self {
        let source = Box::new(source);
        Self { source, dialect, is_in_memory: false, connections, unchecked: None, clock: OnceLock::new() }
    }

    pub(crate) const fn dialect(&self) -> &'static Dialect {
        self.dialect
    }

    /// Returns the number of connections made.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Runs an operation. If it conflicts with other transactions, this will retry for up to 5 s.
    pub(crate) async fn attempt<T, F>(&self, operation: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        Self::attempt_within(CALL_TIMEOUT, operation).await
    }

    /// Runs a batch operation. It can take up to 60 s if the individual statements do not time out.
    pub(crate) async fn attempt_batch<T, F>(&self, operation: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        Self::attempt_within(BATCH_TIMEOUT, operation).await
    }

    async fn attempt_within<T, F>(limit: Duration, operation: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let started = Instant::now();
        let can_retry =
            |failure: &Failure| failure.class() == Some(Class::Busy) && started.elapsed() < CALL_TIMEOUT;
        let attempts = async {
            let mut backoff = Backoff::new();
            loop {
                match operation().await {
                    Err(failure) if can_retry(&failure) => sleep(backoff.next()).await,
                    result => return result,
                }
            }
        };
        match timeout(limit, attempts).await {
            Ok(result) => result.map_err(Error::from),
            Err(elapsed) => Err(Error::new(ErrorKind::Unavailable).caused_by(elapsed)),
        }
    }

    /// Begins a write transaction. Returns an error if the table version does not match.
    pub(crate) async fn begin(&self) -> Result<Session, Failure> {
        let pools = self.pools().await?;
        let mut session = pools.writer().await?;
        let version = session.fetch_text(self.dialect.begin_with_version).await?;
        let version = version.first().map(|row| row.text(0)).transpose()?;
        pools.schema.check(version.as_deref()).map_err(Failure::Schema)?;
        self.begin_clock(&mut session).await?;
        Ok(session)
    }

    /// Returns a connection for reading.
    pub(crate) async fn reader(&self) -> Result<Session, Failure> {
        self.pools().await?.reader().await
    }

    async fn pools(&self) -> Result<Pools, Failure> {
        let pools = self.source.pools().await?;
        if let Some(unchecked) = &self.unchecked {
            let check = async || {
                self.settings(&pools).await?.map_err(Failure::Schema)?;
                Self::tables(&pools).await?.map_err(Failure::Schema)
            };
            unchecked.get_or_try_init(check).await?;
        }
        Ok(pools)
    }

    /// Checks the database when it responds for the first time, and not now.
    pub(crate) fn check_later(&mut self) {
        self.unchecked = Some(OnceCell::new());
    }

    /// Returns `true` if the database is in memory, i.e. dropped together with this value.
    pub(crate) const fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// Returns `true` if the database file has been removed or replaced recently.
    pub(crate) fn was_replaced(&self) -> bool {
        self.source.was_replaced()
    }

    /// Executes a single query.
    pub(crate) async fn fetch(&self, text: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        let fetch = || async {
            let mut session = self.reader().await?;
            let rows = session.fetch(text, values).await?;
            session.end();
            Ok(rows)
        };
        self.attempt(fetch).await
    }

    /// Checks whether the database settings are suitable.
    pub(crate) async fn check_settings(&self) -> Result<(), SchemaError> {
        let check = || async { self.settings(&self.pools().await?).await };
        self.attempt(check).await.map_err(SchemaError::Unknown)?
    }

    async fn settings(&self, pools: &Pools) -> Result<Result<(), SchemaError>, Failure> {
        if self.dialect.unsuitable.is_empty() {
            return Ok(Ok(()));
        }
        let mut session = pools.reader().await?;
        let rows = session.fetch(self.dialect.unsuitable, &[]).await?;
        session.end();
        let reason = rows.first().map(|row| row.text(0)).transpose()?;
        Ok(reason.map_or(Ok(()), |reason| Err(SchemaError::Unsuitable(reason))))
    }

    /// Checks whether the tables exist and have the right version.
    pub(crate) async fn check_tables(&self) -> Result<(), SchemaError> {
        let check = || async { Self::tables(&self.pools().await?).await };
        self.attempt(check).await.map_err(SchemaError::Unknown)?
    }

    async fn tables(pools: &Pools) -> Result<Result<(), SchemaError>, Failure> {
        Ok(pools.schema.check(tables::version(pools).await?.as_deref()))
    }

    /// Creates the tables, or upgrades them from an older version.
    pub(crate) async fn create_tables(&self) -> Result<(), SchemaError> {
        let create = || async { tables::create(&self.pools().await?).await };
        Self::attempt_within(SCHEMA_TIMEOUT, create).await.map_err(SchemaError::Unknown)
    }
}
