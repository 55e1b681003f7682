//! SQL databases for entity counts, using the connections of the application.

mod tables;
#[cfg(feature = "mariadb")]
pub(crate) mod mariadb;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::fmt;
use std::sync::Arc;

use sqlx::Error as SqlError;
use sqlx::pool::PoolConnection;
use tables::Tables;

use super::cache::EntityRow;
use super::database::{EntityAddition, EntityApplyOutcome, EntityBatch, EntityDatabase, EntityTransactions};
use super::error::{EntityError, EntityErrorKind};
use super::id::EntityId;
use super::versioned::Versioned;
use crate::family::future::BoxFuture;
use crate::sql::dialect::Dialect;
use crate::sql::driver::{Connection, Driver};
use crate::sql::{Class, Failure};

/// A SQL database for entity counts: `SqliteDatabase`, `PostgresDatabase` or `MariaDatabase`, depending on
/// the enabled features.
pub struct SqlDatabase<D: sqlx::Database> {
    pool: sqlx::Pool<D>,
    dialect: &'static Dialect,
    erase: fn(&mut D::Connection) -> &mut dyn Connection,
    location: Option<Arc<dyn Location<D>>>,
}

/// The location of a database that can be replaced during use, e.g. a file.
trait Location<D: sqlx::Database>: Send + Sync {
    /// Prepares the pool for a call by closing idle connections to a previous database.
    fn check<'a>(&'a self, pool: &'a sqlx::Pool<D>) -> BoxFuture<'a, Result<(), EntityError>>;

    /// Confirms that a change was written to the current database.
    fn confirm(&self) -> Result<(), EntityError>;
}

impl<D: sqlx::Database> SqlDatabase<D> {
    fn over(pool: sqlx::Pool<D>, location: Option<Arc<dyn Location<D>>>) -> Self
    where
        D: Driver,
    {
        Self { pool, dialect: D::DIALECT, erase: |connection| connection, location }
    }

    /// Returns the connection pool.
    #[must_use]
    pub const fn pool(&self) -> &sqlx::Pool<D> {
        &self.pool
    }

    async fn check(&self) -> Result<(), EntityError> {
        match &self.location {
            Some(location) => location.check(&self.pool).await,
            None => Ok(()),
        }
    }

    async fn connection(&self) -> Result<PoolConnection<D>, EntityError> {
        self.check().await?;
        self.pool.acquire().await.map_err(|error| unwritten(self.dialect.failure(error)))
    }

    fn tables<'a>(&self, connection: &'a mut D::Connection) -> Tables<'a> {
        Tables { connection: (self.erase)(connection), dialect: self.dialect }
    }

    fn confirm(&self) -> Result<(), EntityError> {
        self.location.as_ref().map_or(Ok(()), |location| location.confirm())
    }
}

impl<D: sqlx::Database> EntityDatabase for SqlDatabase<D> {
    async fn create_tables(&self) -> Result<(), EntityError> {
        let mut connection = self.connection().await?;
        self.tables(&mut connection).create().await.map_err(unwritten)
    }

    async fn increment(
        &self,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        by: i64,
    ) -> Result<Versioned, EntityError> {
        let mut connection = self.connection().await?;
        let row = self.increment_in(&mut connection, kind, id, field, by).await?;
        self.confirm()?;
        Ok(row)
    }

    async fn read(
        &self,
        kind: &'static str,
        ids: &[EntityId],
        fields: &'static [&'static str],
    ) -> Result<Vec<EntityRow>, EntityError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut connection = self.connection().await?;
        self.tables(&mut connection).read(kind, ids, fields).await.map_err(unwritten)
    }

    async fn apply(&self, batch: &EntityBatch) -> Result<EntityApplyOutcome, EntityError> {
        self.check().await?;
        let failure = |error| unconfirmed(self.dialect.failure(error));
        let mut connection = self.pool.acquire().await.map_err(failure)?;
        if batch.sequence == 1 {
            // On failure, the next writer will retry this on startup.
            if let Err(failure) = self.tables(&mut connection).remove_stale_fences().await {
                let error = unwritten(failure);
                tracing::warn!(?error, "failed to remove fences of inactive writers");
            }
        }
        let mut transaction = sqlx::Connection::begin(&mut *connection).await.map_err(failure)?;
        let outcome = self.tables(&mut transaction).apply(batch).await.map_err(unconfirmed)?;
        if outcome.rows.is_some() {
            transaction.commit().await.map_err(failure)?;
        }
        self.confirm()?;
        Ok(outcome)
    }

    async fn correct(
        &self,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        version: u64,
        value: i64,
    ) -> Result<Option<Versioned>, EntityError> {
        let mut connection = self.connection().await?;
        let corrected = self.tables(&mut connection).correct(kind, id, field, version, value).await;
        let is_corrected = corrected.map_err(unconfirmed)?;
        self.confirm()?;
        Ok(is_corrected.then_some(Versioned { version: version + 1, value }))
    }

    async fn entities(
        &self,
        kind: &'static str,
        after: Option<EntityId>,
        limit: usize,
    ) -> Result<Vec<EntityId>, EntityError> {
        let mut connection = self.connection().await?;
        self.tables(&mut connection).entities(kind, after, limit).await.map_err(unwritten)
    }
}

impl<D: sqlx::Database> EntityTransactions for SqlDatabase<D> {
    type Connection = D::Connection;

    async fn increment_in(
        &self,
        connection: &mut Self::Connection,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        by: i64,
    ) -> Result<Versioned, EntityError> {
        let addition = EntityAddition { id, field, by, calls: 1 };
        let rows = self.tables(connection).add(kind, &[addition]).await.map_err(unconfirmed)?;
        rows.first().map(|row| row.row).ok_or(EntityError::new(EntityErrorKind::Malformed))
    }
}

impl<D: sqlx::Database> Clone for SqlDatabase<D> {
    fn clone(&self) -> Self {
        let Self { pool, dialect, erase, location } = self;
        Self { pool: pool.clone(), dialect, erase: *erase, location: location.clone() }
    }
}

impl<D: sqlx::Database> fmt::Debug for SqlDatabase<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqlDatabase").field(&self.pool).finish()
    }
}

impl From<Class> for EntityErrorKind {
    fn from(class: Class) -> Self {
        match class {
            Class::Busy => Self::Busy,
            Class::OutOfRange => Self::OutOfRange,
            Class::Unconfirmed => Self::Unconfirmed,
            Class::Full | Class::NoTable | Class::Rejected => Self::Rejected,
        }
    }
}

/// Converts a failure of a read-only call, which can't be unconfirmed.
fn unwritten(failure: Failure) -> EntityError {
    let is_malformed =
        matches!(&failure, Failure::NoResponse(SqlError::ColumnDecode { .. } | SqlError::Decode(_)));
    match unconfirmed(failure) {
        error if *error.kind() != EntityErrorKind::Unconfirmed => error,
        error if is_malformed => error.with_kind(EntityErrorKind::Malformed),
        error => error.with_kind(EntityErrorKind::Unavailable),
    }
}

/// Converts a write failure: if the database returned an error, no data was written.
fn unconfirmed(failure: Failure) -> EntityError {
    match failure {
        Failure::Database(class, error) => EntityError::new(class.into()).caused_by(error),
        Failure::NoResponse(error) => EntityError::new(EntityErrorKind::Unconfirmed).caused_by(error),
        failure => {
            EntityError::new(EntityErrorKind::Unconfirmed).caused_by(crate::error::Error::from(failure))
        }
    }
}
