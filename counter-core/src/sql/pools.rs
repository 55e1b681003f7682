use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::pool::PoolOptions;

use super::driver::{Connection, Driver, Pool};
use super::schema::{Schema, Settings};
use super::session::Place;
use super::{Dialect, Failure, Session};
use crate::future::BoxFuture;

/// The time that a call may take with all of its attempts, and that it waits for a connection.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The connections to a database.
#[derive(Clone, Debug)]
pub(super) struct Pools {
    pub(super) dialect: &'static Dialect,
    pub(super) schema: Schema,
    /// The connections that write: one in SQLite, which allows a single writer.
    write: Arc<dyn Pool>,
    read: Arc<dyn Pool>,
    place: Option<Arc<dyn Place>>,
}

impl Pools {
    /// Uses one pool for everything, of connections to a server or to a database in memory.
    pub(super) fn new<D: Driver>(pool: sqlx::Pool<D>, settings: Settings) -> Self {
        Self {
            dialect: D::DIALECT,
            schema: Schema { steps: D::DIALECT.schema, later_steps: settings.later_steps },
            read: Arc::new(pool.clone()),
            write: Arc::new(pool),
            place: None,
        }
    }

    /// Reads from connections of a pool of their own.
    #[cfg(feature = "sqlite")]
    pub(super) fn with_readers<D: Driver>(self, pool: sqlx::Pool<D>) -> Self {
        Self { read: Arc::new(pool), ..self }
    }

    /// Confirms that each connection leads to the database at a place.
    #[cfg(feature = "sqlite")]
    pub(super) fn at(self, place: Arc<dyn Place>) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Returns a connection for reading.
    pub(super) async fn reader(&self) -> Result<Session, Failure> {
        self.session(&*self.read).await
    }

    /// Returns a connection for writing.
    pub(super) async fn writer(&self) -> Result<Session, Failure> {
        self.session(&*self.write).await
    }

    async fn session(&self, pool: &dyn Pool) -> Result<Session, Failure> {
        let connection = pool.acquire().await.map_err(|error| self.dialect.failure(error))?;
        if let Some(place) = &self.place {
            // The connection may be new.
            place.confirm().map_err(Failure::File)?;
        }
        Ok(Session::new(connection, self.dialect, self.place.clone()))
    }
}

/// The source of the connections to a database: others, if its file was replaced.
pub(super) trait Source: fmt::Debug + Send + Sync {
    fn pools(&self) -> BoxFuture<'_, Result<Pools, Failure>>;

    /// Returns whether the file of the database was removed or replaced recently.
    fn was_replaced(&self) -> bool {
        false
    }
}

impl Source for Pools {
    fn pools(&self) -> BoxFuture<'_, Result<Pools, Failure>> {
        Box::pin(async { Ok(self.clone()) })
    }
}

/// Returns the settings of a pool, which counts the connections that it opens. No call waits longer for a connection
/// than for its whole result.
pub(super) fn pool_options<D: Driver>(max_connections: u32, opened: &Arc<AtomicU64>) -> PoolOptions<D> {
    let opened = Arc::clone(opened);
    let options = PoolOptions::new().max_connections(max_connections).acquire_timeout(CALL_TIMEOUT);
    options.after_connect(move |connection: &mut D::Connection, _| {
        opened.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            match D::DIALECT.settings {
                "" => Ok(()),
                settings => connection.fetch_text(settings).await.map(drop),
            }
        })
    })
}
