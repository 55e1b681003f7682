use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::pool::PoolOptions;

use super::dialect::Dialect;
use super::driver::{Connection, Driver, Pool};
use super::failure::Failure;
use super::schema::{Schema, Settings};
use super::session::{Location, Session};
use crate::family::future::BoxFuture;

/// Timeout for a call, including all retries. Also used as the timeout for acquiring a connection.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The connections to a database.
#[derive(Clone, Debug)]
pub(super) struct Pools {
    pub(super) dialect: &'static Dialect,
    pub(super) schema: Schema,
    /// Connections for writing. SQLite supports no more than one writer.
    write: Arc<dyn Pool>,
    read: Arc<dyn Pool>,
    location: Option<Arc<dyn Location>>,
}

impl Pools {
    /// Creates the pools. `location` must be set if the database can be replaced while it is in use.
    pub(super) fn new<D: Driver>(
        write: sqlx::Pool<D>,
        read: sqlx::Pool<D>,
        location: Option<Arc<dyn Location>>,
        settings: Settings,
    ) -> Self {
        Self {
            dialect: D::DIALECT,
            schema: Schema { steps: D::DIALECT.schema, later_steps: settings.later_steps },
            write: Arc::new(write),
            read: Arc::new(read),
            location,
        }
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
        if let Some(location) = &self.location {
            // The connection may be new.
            location.confirm().map_err(Failure::File)?;
        }
        Ok(Session::new(connection, self.dialect, self.location.clone()))
    }
}

/// Provides the connection pools of a database. For SQLite, the pools are replaced if the file is replaced.
pub(super) trait Source: fmt::Debug + Send + Sync {
    fn pools(&self) -> BoxFuture<'_, Result<Pools, Failure>>;

    /// Returns `true` if the database file has been removed or replaced recently.
    fn was_replaced(&self) -> bool {
        false
    }
}

impl Source for Pools {
    fn pools(&self) -> BoxFuture<'_, Result<Pools, Failure>> {
        Box::pin(async { Ok(self.clone()) })
    }
}

/// Returns the pool settings. The pool counts the connections that it opens. The timeout for acquiring a
/// connection is the timeout for the whole call.
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
