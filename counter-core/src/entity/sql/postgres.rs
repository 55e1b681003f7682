use sqlx::Postgres;
use sqlx::error::DatabaseError;

use super::sql_database;
use crate::entity::EntityErrorKind;

/// A database of entity counts in PostgreSQL.
#[derive(Clone, Debug)]
pub struct PostgresDatabase(sqlx::Pool<Postgres>);

sql_database! {
    PostgresDatabase of Postgres {
        schema: include_str!("postgres.sql"),
        now: "CAST(EXTRACT(EPOCH FROM now()) AS BIGINT)",
        insert_new: ("INSERT INTO", " ON CONFLICT DO NOTHING"),
        add: "ON CONFLICT (kind, entity, field) DO UPDATE SET value = access_entity.value + excluded.value, \
              version = access_entity.version + 1",
        explain: explain,
    }
}

fn explain(answer: &dyn DatabaseError) -> EntityErrorKind {
    match answer.code().as_deref() {
        Some("22003") => EntityErrorKind::OutOfRange,
        // A serialization failure, a deadlock, a lock that is not available.
        Some("40001" | "40P01" | "55P03") => EntityErrorKind::Busy,
        // The server is shutting down or crashed, which may be after the commit.
        Some(code) if code.starts_with("57P") || code.starts_with("08") => EntityErrorKind::Unconfirmed,
        _ => EntityErrorKind::Refused,
    }
}
