pub(crate) mod file;
mod reopen;

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reopen::FileSource;
use sqlx::error::DatabaseError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Sqlite};

use super::database::Database;
use super::dialect::Dialect;
use super::driver::driver;
use super::failure::Class;
use super::pools::Pools;
use super::schema::Settings;
use super::statement::json;
use crate::family::private_file;

/// Creates a database for a file. Connections will be opened on demand.
pub(crate) fn open(options: SqliteConnectOptions, settings: Settings) -> Database {
    let options = match settings.creates_tables {
        true => {
            private_file::create_database(options.get_filename());
            options.create_if_missing(true)
        }
        false => options,
    };
    let connections = Arc::default();
    let source = FileSource::new(options, settings, Arc::clone(&connections));
    Database::new(DIALECT, source, connections)
}

/// Creates an in-memory database, which is dropped together with this value.
pub(crate) async fn open_in_memory(settings: Settings) -> Result<Database, crate::error::Error> {
    let pool = in_memory().await.map_err(|error| DIALECT.failure(error))?;
    let mut database = Database::new(DIALECT, Pools::new(pool.clone(), pool, None, settings), Arc::default());
    database.is_in_memory = true;
    Ok(database)
}

const DIALECT: &Dialect = &Dialect {
    name: "SQLite",
    now: "CAST(strftime('%s', 'now') AS INTEGER)",
    // This locks the database for writing immediately. Otherwise a transaction that reads before it writes
    // might fail to lock, and would need to be repeated.
    begin: "BEGIN IMMEDIATE",
    begin_with_version: "BEGIN IMMEDIATE; SELECT value FROM access_meta WHERE name = 'version'",
    in_list: "IN (SELECT value FROM json_each(?))",
    // The limit forces SQLite to only parse the pairs once. Otherwise it would parse the JSON for every row
    // to compare.
    pairs: "(SELECT CAST(key AS INTEGER) AS id, value AS n FROM json_each(?) LIMIT -1) AS pair",
    for_update: "",
    skip_locked: "",
    lines: ("group_concat({}, char(10))", ["", " || ' ' || ", ""]),
    greatest: "max",
    updates_from: true,
    on_conflict: true,
    limits_delete: false,
    unsuitable: "",
    settings: "",
    schema: &[include_str!("sqlite/6.sql")],
    // Write transactions are always exclusive.
    lock: ["", ""],
    entity_schema: include_str!("sqlite/entity.sql"),
    classify,
};

/// Timeout for waiting until other processes have finished writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(4);

/// Applies the connection settings.
///
/// With a write-ahead log, readers and writers do not block each other. `FULL` syncs the log on commit, so
/// that acknowledged batches survive a power failure. This costs a single disk write per flush.
pub(super) fn with_settings(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
}

driver! {
    Sqlite, sqlx::SqliteConnection, sqlx::sqlite::SqliteRow, query,
    numbers => drop(query.push_bind(json(numbers, ['[', ']'], |text, number| write!(text, "{number}")))),
    strings => drop(query.push_bind(json(strings, ['[', ']'], json_text))),
    pairs => drop(query.push_bind(json_object(pairs)))
}

fn json_text(json: &mut String, text: &&str) -> fmt::Result {
    json.write_char('"')?;
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            json.write_char('\\')?;
        }
        json.write_char(character)?;
    }
    json.write_char('"')
}

/// Writes the pairs as a JSON object, because SQLite does not need to parse the values of an object.
fn json_object(pairs: &[(i64, i64)]) -> String {
    json(pairs, ['{', '}'], |text, (id, number)| write!(text, "\"{id}\":{number}"))
}

/// Creates an empty in-memory database with a single connection.
pub(crate) async fn in_memory() -> Result<sqlx::Pool<Sqlite>, sqlx::Error> {
    // `sqlx` assigns a unique name, so that all connections in this pool share the same database.
    let options: SqliteConnectOptions = "sqlite::memory:".parse()?;
    // An in-memory database is dropped with the last connection, and the pool closes a connection if a query
    // is dropped. So we open an additional connection that is never used for queries. The closure keeps it
    // alive as long as the pool.
    let anchor = Arc::new(Mutex::new(options.connect().await?));
    let pool = SqlitePoolOptions::new().max_connections(1).after_connect(move |_, _| {
        let anchor = Arc::clone(&anchor);
        Box::pin(async move {
            drop(anchor);
            Ok(())
        })
    });
    pool.connect_with(options).await
}

/// Classifies an SQLite error.
fn classify(reply: &dyn DatabaseError) -> Class {
    let code = reply.code().and_then(|code| code.parse::<u32>().ok()).unwrap_or_default();
    match (code, code & 0xff) {
        // If a sum is out of range, the result is a float, which STRICT tables reject.
        (3091, _) => Class::OutOfRange,
        // SQLITE_BUSY and SQLITE_LOCKED, including extended codes.
        (_, 5 | 6) => Class::Busy,
        // SQLITE_FULL.
        (_, 13) => Class::Full,
        // SQLITE_IOERR: if the last write of a commit failed, the commit may still take effect after a
        // restart.
        (_, 10) => Class::Unconfirmed,
        // SQLITE_ERROR. There is no specific code for this.
        (1, _) if reply.message().starts_with("no such table") => Class::NoTable,
        _ => Class::Rejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commits_are_synced_to_disk() {
        let options = with_settings("sqlite::memory:".parse().expect("an address"));
        let mut connection = options.connect().await.expect("memory");
        let synchronous: i64 =
            sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut connection).await.expect("a setting");
        assert_eq!(synchronous, 2, "FULL");
    }
}
