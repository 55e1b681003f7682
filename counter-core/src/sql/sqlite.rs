pub(super) mod file;
pub(super) mod reopen;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Sqlite};

use super::{Class, Dialect};

pub(super) const DIALECT: Dialect = Dialect {
    name: "SQLite",
    now: "CAST(strftime('%s', 'now') AS INTEGER)",
    // Takes the place of the writer at once: a transaction that reads first and then cannot write would have to
    // begin anew.
    begin: "BEGIN IMMEDIATE",
    begin_with_version: "BEGIN IMMEDIATE; SELECT value FROM access_meta WHERE name = 'version'",
    in_list: "IN (SELECT value FROM json_each(?))",
    // The limit has the pairs read once: without it, SQLite reads the text again for every row that it compares.
    pairs: "(SELECT CAST(key AS INTEGER) AS id, value AS n FROM json_each(?) LIMIT -1) AS pair",
    for_update: "",
    skip_locked: "",
    lines: ("group_concat({}, char(10))", ["", " || ' ' || ", ""]),
    greatest: "max",
    updates_from: true,
    on_conflict: true,
    limits_delete: false,
    unfit: "",
};

/// The time that a statement waits for another process to finish writing.
const BUSY: Duration = Duration::from_secs(4);

/// Returns the settings of every connection.
///
/// With a write-ahead log readers and the writer do not wait for each other. `FULL` writes the log to the disk at
/// each commit, so that what was acknowledged survives the loss of power too; that is one write a flush.
pub(super) fn settled(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full).busy_timeout(BUSY)
}

/// The texts that lead from one version of the schema to the next; the first makes all.
pub(super) const STEPS: [&str; 5] = [
    include_str!("sqlite/1.sql"),
    include_str!("sqlite/2.sql"),
    include_str!("sqlite/3.sql"),
    include_str!("sqlite/4.sql"),
    include_str!("sqlite/5.sql"),
];

/// A transaction that writes keeps out every other.
pub(super) const LOCK: [&str; 2] = ["", ""];

/// Creates an empty database in memory, with one connection.
pub(crate) async fn in_memory() -> Result<sqlx::Pool<Sqlite>, sqlx::Error> {
    // It has a unique name, under which all connections of this pool share one database.
    let options: SqliteConnectOptions = "sqlite::memory:".parse()?;
    // The database lives as long as one of its connections, and a connection of the pool ends with a query that is
    // dropped. So there is one that no query uses; the pool keeps it, along with this closure.
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

/// Returns what an answer of SQLite means.
pub(crate) fn classify(answer: &dyn DatabaseError) -> Class {
    let code = answer.code().and_then(|code| code.parse::<u32>().ok()).unwrap_or_default();
    match (code, code & 0xff) {
        // A sum that is too large becomes a floating point number, which a strict table does not accept.
        (3091, _) => Class::OutOfRange,
        // SQLITE_BUSY and SQLITE_LOCKED, of all kinds.
        (_, 5 | 6) => Class::Busy,
        // SQLITE_FULL.
        (_, 13) => Class::Full,
        // SQLITE_IOERR: a commit whose last write failed may be found after a restart.
        (_, 10) => Class::Unconfirmed,
        // SQLITE_ERROR has no code of its own for this.
        (1, _) if answer.message().starts_with("no such table") => Class::NoTable,
        _ => Class::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_commit_is_on_the_disk_before_it_is_acknowledged() {
        let options = settled("sqlite::memory:".parse().expect("an address"));
        let mut connection = options.connect().await.expect("memory");
        let synchronous: i64 =
            sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut connection).await.expect("a setting");
        assert_eq!(synchronous, 2, "FULL");
    }
}
