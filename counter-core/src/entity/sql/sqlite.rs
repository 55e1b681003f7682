use std::sync::{Arc, Mutex};

use sqlx::error::DatabaseError;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{ConnectOptions, Sqlite};

use super::{sql_database, unwritten};
use crate::entity::{EntityDatabase, EntityError, EntityErrorKind};

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
        let failed = |error| unwritten(explain, error);
        // It has a unique name, under which all connections of this pool share one database.
        let options: SqliteConnectOptions = "sqlite::memory:".parse().map_err(failed)?;
        // The database lives as long as one of its connections, and a connection of the pool ends with a
        // query that is dropped. So there is one that no query uses; the pool keeps it, along with this
        // closure.
        let anchor = Arc::new(Mutex::new(options.connect().await.map_err(failed)?));
        let pool = SqlitePoolOptions::new().max_connections(1).after_connect(move |_, _| {
            let anchor = Arc::clone(&anchor);
            Box::pin(async move {
                drop(anchor);
                Ok(())
            })
        });
        let pool = pool.connect_with(options).await;
        let database = Self::new(pool.map_err(failed)?);
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
    let code = answer.code().and_then(|code| code.parse::<u32>().ok()).unwrap_or_default();
    match (code, code & 0xff) {
        // A sum that is too large becomes a floating point number, which a strict table does not accept.
        (3091, _) => EntityErrorKind::OutOfRange,
        // SQLITE_BUSY and SQLITE_LOCKED, of all kinds.
        (_, 5 | 6) => EntityErrorKind::Busy,
        _ => EntityErrorKind::Refused,
    }
}
