use sqlx::Sqlite;
use sqlx::error::DatabaseError;

use super::{sql_database, unwritten};
use crate::entity::{EntityDatabase, EntityError, EntityErrorKind};
use crate::sql::sqlite::classify;

/// A database of entity counts in SQLite, version 3.37 or later; the bundled one is.
#[derive(Clone, Debug)]
pub struct SqliteDatabase(sqlx::Pool<Sqlite>);

impl SqliteDatabase {
    /// Creates an empty database in memory, with its tables, which is gone with its last handle: for tests
    /// and examples.
    ///
    /// # Errors
    /// Fails when it cannot be created.
    pub async fn in_memory() -> Result<Self, EntityError> {
        let pool = crate::sql::sqlite::in_memory().await;
        let database = Self::new(pool.map_err(|error| unwritten(explain, error))?);
        database.create_tables().await?;
        Ok(database)
    }
}

sql_database! {
    SqliteDatabase of Sqlite {
        schema: include_str!("sqlite.sql"),
        now: "CAST(strftime('%s', 'now') AS INTEGER)",
        insert_new: ("INSERT INTO", " ON CONFLICT DO NOTHING"),
        add: "ON CONFLICT (kind, entity, field) DO UPDATE SET value = access_entity.value + excluded.value, \
              version = access_entity.version + 1",
        explain: explain,
    }
}

fn explain(answer: &dyn DatabaseError) -> EntityErrorKind {
    classify(answer).into()
}
