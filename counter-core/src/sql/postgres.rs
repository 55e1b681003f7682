use sqlx::error::DatabaseError;

use super::{Class, Dialect};

pub(super) const DIALECT: Dialect = Dialect {
    name: "PostgreSQL",
    // The cast alone would round up, half a second before everybody else's clock.
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
    unfit: "SELECT 'the database has the encoding ' || getdatabaseencoding() || ', in which not every name of a \
            counter can be written: create it with UTF8' WHERE getdatabaseencoding() <> 'UTF8'",
};

/// The settings of every connection: a process that stops in the middle of a transaction holds up the others for
/// ten seconds at most.
pub(super) const SETTINGS: &str = "SET idle_in_transaction_session_timeout = '10s'; \
    SET lock_timeout = '4s'; SET statement_timeout = '10s'";

/// The texts that lead from one version of the schema to the next; the first makes all.
pub(super) const STEPS: [&str; 5] = [
    include_str!("postgres/1.sql"),
    include_str!("postgres/2.sql"),
    include_str!("postgres/3.sql"),
    include_str!("postgres/4.sql"),
    include_str!("postgres/5.sql"),
];

/// Keeps other processes from changing the schema until the transaction ends; the number names the lock.
pub(super) const LOCK: [&str; 2] = ["SELECT pg_advisory_xact_lock(7161143094258)", ""];

/// Returns what an answer of PostgreSQL means.
pub(crate) fn classify(answer: &dyn DatabaseError) -> Class {
    match answer.code().as_deref() {
        Some("22003") => Class::OutOfRange,
        // A serialization failure, a deadlock, a lock that is not available.
        Some("40001" | "40P01" | "55P03") => Class::Busy,
        Some("42P01") => Class::NoTable,
        Some("53100") => Class::Full,
        // The server is shutting down or crashed, which may be after the commit.
        Some(code) if code.starts_with("57P") || code.starts_with("08") => Class::Unconfirmed,
        _ => Class::Refused,
    }
}
