//! The parts that all SQL databases have in common; their dialects are arguments.

#[cfg(feature = "mariadb")]
mod mariadb;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use sqlx::Error as SqlError;
use sqlx::error::DatabaseError;

#[cfg(feature = "mariadb")]
pub use mariadb::MariaDatabase;
#[cfg(feature = "postgres")]
pub use postgres::PostgresDatabase;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteDatabase;

use super::{EntityError, EntityErrorKind};
use crate::sql::Class;

/// The silence after which a writer is forgotten, in seconds of the database's clock: 30 days.
pub(super) const REMEMBERED: i64 = 30 * 86_400;

impl From<Class> for EntityErrorKind {
    fn from(class: Class) -> Self {
        match class {
            Class::Busy => Self::Busy,
            Class::OutOfRange => Self::OutOfRange,
            Class::Unconfirmed => Self::Unconfirmed,
            Class::Full | Class::NoTable | Class::Refused => Self::Refused,
        }
    }
}

/// Converts an error of a read, or one before anything was sent.
pub(super) fn unwritten(explain: fn(&dyn DatabaseError) -> EntityErrorKind, error: SqlError) -> EntityError {
    let kind = match &error {
        SqlError::Database(answer) => match explain(&**answer) {
            // A call that writes nothing cannot be unconfirmed.
            EntityErrorKind::Unconfirmed => EntityErrorKind::Unavailable,
            kind => kind,
        },
        SqlError::ColumnDecode { .. } | SqlError::Decode(_) => EntityErrorKind::Malformed,
        _ => EntityErrorKind::Unavailable,
    };
    EntityError::new(kind).caused_by(error)
}

/// Converts an error of a write by a single statement: an answer from the server means that it was not done.
pub(super) fn unconfirmed(
    explain: fn(&dyn DatabaseError) -> EntityErrorKind,
    error: SqlError,
) -> EntityError {
    let kind = match &error {
        SqlError::Database(answer) => explain(&**answer),
        _ => EntityErrorKind::Unconfirmed,
    };
    EntityError::new(kind).caused_by(error)
}

/// The place of a database, which is checked before and after each use.
pub(super) trait Place<D: sqlx::Database>: Sized {
    /// Returns the place to which the connections of a pool lead.
    fn of(pool: &sqlx::Pool<D>) -> Self;

    /// Prepares the pool for a call: no idle connection leads to another place.
    fn check(&self, pool: &sqlx::Pool<D>) -> impl Future<Output = Result<(), EntityError>> + Send;

    /// Confirms that a change was made at this place.
    fn confirm(&self) -> Result<(), EntityError>;
}

/// A server, which looks after its files itself.
#[cfg(any(feature = "mariadb", feature = "postgres"))]
#[derive(Clone, Debug)]
pub(super) struct Server;

#[cfg(any(feature = "mariadb", feature = "postgres"))]
impl<D: sqlx::Database> Place<D> for Server {
    fn of(_: &sqlx::Pool<D>) -> Self {
        Self
    }

    async fn check(&self, _: &sqlx::Pool<D>) -> Result<(), EntityError> {
        Ok(())
    }

    fn confirm(&self) -> Result<(), EntityError> {
        Ok(())
    }
}

/// Implements [`EntityDatabase`](super::EntityDatabase) for a type over a pool of connections, and over the place of
/// the database, which is checked before and after each use.
///
/// It is a macro and not generic code, since the bounds that sqlx requires would be longer than what they save,
/// and since the number of affected rows is known to the concrete drivers only. The block keeps its imports
/// apart from the caller's.
macro_rules! sql_database {
    ($database:ident of $driver:ty {
        place: $place:ident,
        schema: $schema:expr,
        now: $now:literal,
        insert_new: ($insert:literal, $unless_there:literal),
        add: $add:literal,
        explain: $explain:path,
    }) => {
        const _: () = {
            use sqlx::Row;
            use $crate::entity::sql::{Place, REMEMBERED, field_of, unconfirmed, unwritten};
            use $crate::entity::{
                EntityAddition, EntityApplyOutcome, EntityBatch, EntityDatabase, EntityError,
                EntityErrorKind, EntityId, EntityIdError, EntityRow, EntityTransactions, Versioned,
            };

            impl $database {
                /// Creates a database from a pool of connections, with the settings of that pool.
                #[must_use]
                pub fn new(pool: sqlx::Pool<$driver>) -> Self {
                    let place = $place::of(&pool);
                    Self(pool, place)
                }

                /// Returns the pool of connections.
                #[must_use]
                pub const fn pool(&self) -> &sqlx::Pool<$driver> {
                    &self.0
                }

                async fn connection(&self) -> Result<sqlx::pool::PoolConnection<$driver>, EntityError> {
                    self.1.check(&self.0).await?;
                    self.0.acquire().await.map_err(|error| unwritten($explain, error))
                }

                /// Adds to counts, and returns the rows.
                async fn add(
                    connection: &mut <$driver as sqlx::Database>::Connection,
                    kind: &'static str,
                    additions: &[EntityAddition],
                ) -> Result<Vec<EntityRow>, sqlx::Error> {
                    let columns = "INSERT INTO access_entity (kind, entity, field, value, version) ";
                    let mut query = sqlx::QueryBuilder::<$driver>::new(columns);
                    query.push_values(additions, |mut row, addition| {
                        row.push_bind(kind).push_bind(addition.id.to_string());
                        row.push_bind(addition.field).push_bind(addition.by).push("1");
                    });
                    query.push(concat!(" ", $add, " RETURNING entity, field, value, version"));
                    let rows = query.build().fetch_all(connection).await?;
                    rows.iter()
                        .map(|row| Self::row(row, |name| field_of(additions, name)))
                        .filter_map(Result::transpose)
                        .collect()
                }

                /// Reads a row of the table; `None` when its field is not known here.
                fn row(
                    row: &<$driver as sqlx::Database>::Row,
                    known: impl Fn(&str) -> Option<&'static str>,
                ) -> Result<Option<EntityRow>, sqlx::Error> {
                    // Unchecked, since MariaDB does not report a text that is compared byte by byte as text.
                    let field: String = row.try_get_unchecked(1)?;
                    let Some(field) = known(&field) else { return Ok(None) };
                    let version = u64::try_from(row.try_get::<i64, _>(3)?).unwrap_or_default();
                    let row = EntityRow {
                        id: Self::id(row)?,
                        field,
                        row: Versioned { version, value: row.try_get(2)? },
                    };
                    Ok(Some(row))
                }

                fn id(row: &<$driver as sqlx::Database>::Row) -> Result<EntityId, sqlx::Error> {
                    let id: String = row.try_get_unchecked(0)?;
                    id.parse().map_err(|error: EntityIdError| sqlx::Error::Decode(error.into()))
                }

                /// Removes some fences of writers that have long been silent, each by its key and outside of a
                /// transaction: a single statement for all of them would lock those of other writers too when it
                /// scans the table.
                async fn forget_silent(&self) -> Result<(), sqlx::Error> {
                    let mut query = sqlx::QueryBuilder::<$driver>::new(concat!(
                        "SELECT writer FROM access_entity_fence WHERE written < ",
                        $now,
                        " - "
                    ));
                    query.push_bind(REMEMBERED).push(" LIMIT 1000");
                    for row in query.build().fetch_all(&self.0).await? {
                        let writer: String = row.try_get_unchecked(0)?;
                        let delete = "DELETE FROM access_entity_fence WHERE writer = ";
                        let mut query = sqlx::QueryBuilder::<$driver>::new(delete);
                        query.push_bind(writer).push(concat!(" AND written < ", $now, " - "));
                        query.push_bind(REMEMBERED).build().execute(&self.0).await?;
                    }
                    Ok(())
                }

                /// Writes the fence; `Some` with the number of refused calls when it was written before.
                async fn pass(
                    transaction: &mut <$driver as sqlx::Database>::Connection,
                    batch: &EntityBatch,
                ) -> Result<Option<u64>, sqlx::Error> {
                    let (writer, sequence) = (batch.writer.to_string(), batch.sequence as i64);
                    let columns =
                        concat!($insert, " access_entity_fence (writer, sequence, refused, written) ");
                    let mut query = sqlx::QueryBuilder::<$driver>::new(columns);
                    query.push_values([()], |mut row, ()| {
                        row.push_bind(&writer).push("0, 0").push($now);
                    });
                    query.push($unless_there);
                    query.build().execute(&mut *transaction).await?;
                    // Another attempt to send the same batch at the same time waits here for this one.
                    let mut query =
                        sqlx::QueryBuilder::<$driver>::new("UPDATE access_entity_fence SET sequence = ");
                    query.push_bind(sequence).push(concat!(", refused = 0, written = ", $now));
                    query.push(" WHERE writer = ").push_bind(&writer);
                    query.push(" AND sequence < ").push_bind(sequence);
                    if query.build().execute(&mut *transaction).await?.rows_affected() == 1 {
                        return Ok(None);
                    }
                    let read = "SELECT refused FROM access_entity_fence WHERE writer = ";
                    let mut query = sqlx::QueryBuilder::<$driver>::new(read);
                    query.push_bind(&writer).push(" AND sequence = ").push_bind(sequence);
                    let rows = query.build().fetch_all(transaction).await?;
                    let refused = rows.first().map(|row| row.try_get::<i64, _>(0)).transpose()?;
                    Ok(Some(refused.unwrap_or_default().unsigned_abs()))
                }

                async fn apply_in(&self, batch: &EntityBatch) -> Result<EntityApplyOutcome, sqlx::Error> {
                    let mut transaction = self.0.begin().await?;
                    if let Some(refused) = Self::pass(&mut transaction, batch).await? {
                        return Ok(EntityApplyOutcome { rows: None, refused });
                    }
                    let (rows, refused) = Self::add_all(&mut transaction, batch).await?;
                    if refused > 0 {
                        let mut query =
                            sqlx::QueryBuilder::<$driver>::new("UPDATE access_entity_fence SET refused = ");
                        query.push_bind(refused as i64).push(" WHERE writer = ");
                        query.push_bind(batch.writer.to_string());
                        query.build().execute(&mut *transaction).await?;
                    }
                    transaction.commit().await?;
                    Ok(EntityApplyOutcome { rows: Some(rows), refused })
                }

                /// Adds all at once; one by one if that leaves the range, so that one row does not hold up the
                /// others.
                async fn add_all(
                    transaction: &mut <$driver as sqlx::Database>::Connection,
                    batch: &EntityBatch,
                ) -> Result<(Vec<EntityRow>, u64), sqlx::Error> {
                    if let Some(rows) = Self::try_add(transaction, batch.kind, &batch.additions).await? {
                        return Ok((rows, 0));
                    }
                    let (mut rows, mut refused) = (Vec::new(), 0);
                    for addition in &batch.additions {
                        match Self::try_add(transaction, batch.kind, std::slice::from_ref(addition)).await? {
                            Some(row) => rows.extend(row),
                            None => refused += addition.calls,
                        }
                    }
                    Ok((rows, refused))
                }

                /// Adds behind a savepoint; `None` when that leaves the range and nothing was added.
                async fn try_add(
                    transaction: &mut <$driver as sqlx::Database>::Connection,
                    kind: &'static str,
                    additions: &[EntityAddition],
                ) -> Result<Option<Vec<EntityRow>>, sqlx::Error> {
                    let mut savepoint = sqlx::Connection::begin(transaction).await?;
                    match Self::add(&mut savepoint, kind, additions).await {
                        Ok(rows) => {
                            savepoint.commit().await?;
                            Ok(Some(rows))
                        }
                        Err(sqlx::Error::Database(answer))
                            if $explain(&*answer) == EntityErrorKind::OutOfRange =>
                        {
                            savepoint.rollback().await?;
                            Ok(None)
                        }
                        Err(error) => Err(error),
                    }
                }
            }

            impl EntityDatabase for $database {
                async fn create_tables(&self) -> Result<(), EntityError> {
                    self.1.check(&self.0).await?;
                    let made = sqlx::raw_sql($schema).execute(&self.0).await;
                    made.map(drop).map_err(|error| unwritten($explain, error))
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
                    Place::<$driver>::confirm(&self.1)?;
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
                    let select = "SELECT entity, field, value, version FROM access_entity WHERE kind = ";
                    let mut query = sqlx::QueryBuilder::<$driver>::new(select);
                    query.push_bind(kind).push(" AND entity IN (");
                    let mut list = query.separated(", ");
                    for id in ids {
                        list.push_bind(id.to_string());
                    }
                    query.push(")");
                    self.1.check(&self.0).await?;
                    let rows = query.build().fetch_all(&self.0).await;
                    let known = |name: &str| fields.iter().copied().find(|field| *field == name);
                    let rows = rows.and_then(|rows| {
                        rows.iter().map(|row| Self::row(row, known)).filter_map(Result::transpose).collect()
                    });
                    rows.map_err(|error| unwritten($explain, error))
                }

                async fn apply(&self, batch: &EntityBatch) -> Result<EntityApplyOutcome, EntityError> {
                    self.1.check(&self.0).await?;
                    if batch.sequence == 1 {
                        // The next writer that starts tries again.
                        if let Err(error) = self.forget_silent().await {
                            tracing::warn!(%error, "fences of silent writers could not be removed");
                        }
                    }
                    let outcome = self.apply_in(batch).await.map_err(|error| unconfirmed($explain, error))?;
                    Place::<$driver>::confirm(&self.1)?;
                    Ok(outcome)
                }

                async fn correct(
                    &self,
                    kind: &'static str,
                    id: EntityId,
                    field: &'static str,
                    seen: u64,
                    value: i64,
                ) -> Result<Option<Versioned>, EntityError> {
                    let mut connection = self.connection().await?;
                    let (id, version) = (id.to_string(), seen as i64);
                    let mut query = if seen == 0 {
                        let columns =
                            concat!($insert, " access_entity (kind, entity, field, value, version) ");
                        let mut query = sqlx::QueryBuilder::<$driver>::new(columns);
                        query.push_values([()], |mut row, ()| {
                            row.push_bind(kind).push_bind(&id).push_bind(field).push_bind(value).push("1");
                        });
                        query.push($unless_there);
                        query
                    } else {
                        let mut query =
                            sqlx::QueryBuilder::<$driver>::new("UPDATE access_entity SET value = ");
                        query.push_bind(value).push(", version = version + 1 WHERE kind = ").push_bind(kind);
                        query.push(" AND entity = ").push_bind(&id);
                        query.push(" AND field = ").push_bind(field);
                        query.push(" AND version = ").push_bind(version);
                        query
                    };
                    let done = query.build().execute(&mut *connection).await;
                    let done = done.map_err(|error| unconfirmed($explain, error))?;
                    Place::<$driver>::confirm(&self.1)?;
                    Ok((done.rows_affected() == 1).then_some(Versioned { version: seen + 1, value }))
                }

                async fn entities(
                    &self,
                    kind: &'static str,
                    after: Option<EntityId>,
                    limit: usize,
                ) -> Result<Vec<EntityId>, EntityError> {
                    let select = "SELECT DISTINCT entity FROM access_entity WHERE kind = ";
                    let mut query = sqlx::QueryBuilder::<$driver>::new(select);
                    query.push_bind(kind).push(" AND entity > ");
                    // No id is empty, so this is before all of them.
                    query.push_bind(after.map_or_else(String::new, |id| id.to_string()));
                    query.push(" ORDER BY entity LIMIT ").push_bind(limit as i64);
                    self.1.check(&self.0).await?;
                    let rows = query.build().fetch_all(&self.0).await;
                    let ids = rows.and_then(|rows| rows.iter().map(Self::id).collect());
                    ids.map_err(|error| unwritten($explain, error))
                }
            }

            impl EntityTransactions for $database {
                type Connection = <$driver as sqlx::Database>::Connection;

                async fn increment_in(
                    &self,
                    connection: &mut Self::Connection,
                    kind: &'static str,
                    id: EntityId,
                    field: &'static str,
                    by: i64,
                ) -> Result<Versioned, EntityError> {
                    let addition = EntityAddition { id, field, by, calls: 1 };
                    let rows = Self::add(connection, kind, &[addition]).await;
                    let rows = rows.map_err(|error| unconfirmed($explain, error))?;
                    rows.first().map(|row| row.row).ok_or(EntityError::new(EntityErrorKind::Malformed))
                }
            }
        };
    };
}

pub(super) use sql_database;

/// Returns the field of this name, among those that were sent.
pub(super) fn field_of(additions: &[super::EntityAddition], name: &str) -> Option<&'static str> {
    additions.iter().map(|addition| addition.field).find(|field| *field == name)
}
