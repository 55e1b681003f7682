use std::sync::Arc;

use sqlx::Postgres;
use sqlx::error::DatabaseError;
use sqlx::postgres::PgConnectOptions;

use super::database::Database;
use super::dialect::Dialect;
use super::driver::driver;
use super::failure::Class;
use super::pools::{Pools, pool_options};
use super::schema::Settings;

/// Creates a database. Connections will be opened on demand.
pub(crate) fn open(options: PgConnectOptions, settings: Settings) -> Database {
    let connections = Arc::default();
    let pool = pool_options::<Postgres>(settings.max_connections, &connections).connect_lazy_with(options);
    Database::new(DIALECT, Pools::new(pool.clone(), pool, None, settings), connections)
}

const DIALECT: &Dialect = &Dialect {
    name: "PostgreSQL",
    // A cast rounds to the nearest second, so we need to use FLOOR.
    now: "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp())) AS BIGINT)",
    begin: "BEGIN ISOLATION LEVEL READ COMMITTED",
    begin_with_version: "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT value FROM access_meta WHERE name = 'version'",
    in_list: "= ANY(?)",
    pairs: "unnest(?) AS pair(id, n)",
    for_update: " FOR UPDATE",
    skip_locked: " FOR UPDATE SKIP LOCKED",
    lines: ("string_agg({}, '\n')", ["CAST(", " || ' ' || ", " AS TEXT)"]),
    greatest: "GREATEST",
    updates_from: true,
    on_conflict: true,
    limits_delete: false,
    unsuitable: "SELECT 'the database has the encoding ' || getdatabaseencoding() || ', which cannot store all \
            counter names: create it with UTF8' WHERE getdatabaseencoding() <> 'UTF8'",
    // A process that stops in the middle of a transaction can block others for ten seconds at most. After five executions
    // of a statement, PostgreSQL could choose a plan for a list of any length, which takes seconds for thousands of
    // counters.
    settings: "SET idle_in_transaction_session_timeout = '10s'; SET lock_timeout = '4s'; SET statement_timeout = '10s'; \
        SET plan_cache_mode = 'force_custom_plan'",
    schema: &[include_str!("postgres/6.sql")],
    // The lock is released with the transaction. The number identifies the lock.
    lock: ["SELECT pg_advisory_xact_lock(7161143094258)", ""],
    entity_schema: include_str!("postgres/entity.sql"),
    classify,
};

driver! {
    Postgres, sqlx::PgConnection, sqlx::postgres::PgRow, query,
    numbers => drop(query.push_bind(numbers)),
    strings => drop(query.push_bind(strings)),
    pairs => {
        let (ids, numbers): (Vec<i64>, Vec<i64>) = pairs.iter().copied().unzip();
        query.push_bind(ids).push(", ").push_bind(numbers);
    }
}

/// Classifies a PostgreSQL error.
fn classify(reply: &dyn DatabaseError) -> Class {
    match reply.code().as_deref() {
        Some("22003") => Class::OutOfRange,
        // Serialization failure, deadlock, and lock not available.
        Some("40001" | "40P01" | "55P03") => Class::Busy,
        Some("42P01") => Class::NoTable,
        Some("53100") => Class::Full,
        // The server is shutting down or has crashed, either before or after the commit.
        Some(code) if code.starts_with("57P") || code.starts_with("08") => Class::Unconfirmed,
        _ => Class::Rejected,
    }
}
