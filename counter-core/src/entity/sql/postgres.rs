use sqlx::Postgres;
use sqlx::error::DatabaseError;

use super::{Server, sql_database};
use crate::entity::EntityErrorKind;
use crate::sql::postgres::classify;

/// A database of entity counts in PostgreSQL.
#[derive(Clone, Debug)]
pub struct PostgresDatabase(sqlx::Pool<Postgres>, Server);

sql_database! {
    PostgresDatabase of Postgres {
        place: Server,
        schema: include_str!("postgres.sql"),
        now: "CAST(FLOOR(EXTRACT(EPOCH FROM now())) AS BIGINT)",
        insert_new: ("INSERT INTO", " ON CONFLICT DO NOTHING"),
        add: "ON CONFLICT (kind, entity, field) DO UPDATE SET value = access_entity.value + excluded.value, \
              version = access_entity.version + 1",
        explain: explain,
    }
}

fn explain(answer: &dyn DatabaseError) -> EntityErrorKind {
    classify(answer).into()
}
