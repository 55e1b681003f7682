//! Rows that have expired, and the time that decides about them.

use std::sync::{Mutex, MutexGuard};

use tokio::time::Instant;

use super::database::Database;
use super::failure::Failure;
use super::session::Session;
use super::statement::Value;
use crate::error::Error;
use crate::time::Timestamp;
use crate::time::expiry_clock::{Expired, Expiry, ExpiryClock};

/// The tables with rows that nothing reads after their expiry, with the columns of their keys, and the condition
/// that they began after an instant. The tokens of a window are removed before it.
const TABLES: [(&str, &str, &str); 2] = [
    (
        "access_window_token",
        "window_id, token",
        "window_id IN (SELECT id FROM access_window WHERE start > ?)",
    ),
    ("access_window", "id", "start > ?"),
];

/// The number of rows that one transaction removes from a table. No transaction inserts more.
const ROWS: i64 = 1000;

/// The condition of the rows to remove, in each of the tables.
const OVER: &str = "expiry <= ?";

/// The seconds by which the stored time may differ from the trusted one: it is written this rarely.
const STORED_TOLERANCE: u64 = 600;

impl Database {
    /// Begins to follow the clock of the database, before this process has written: from the time that the last
    /// process trusted, or else from its last batch.
    pub(super) async fn begin_clock(&self, session: &mut Session) -> Result<(), Failure> {
        if self.clock.get().is_some() {
            return Ok(());
        }
        let now = self.dialect().now;
        let text = format!(
            "SELECT {now}, (SELECT value FROM access_meta WHERE name = 'trusted_time'), \
             (SELECT MAX(written) FROM access_fence)"
        );
        if let Some(row) = session.fetch(&text, &[]).await?.first() {
            let now = row.int(0)?;
            let stored = row.optional_text(1)?.and_then(|stored| stored.parse().ok());
            let trusted = stored.or(row.optional_int(2)?).unwrap_or(now);
            let clock = ExpiryClock::since(at(trusted.min(now)), Instant::now());
            self.clock.get_or_init(|| Mutex::new(clock));
        }
        Ok(())
    }

    /// Returns when rows expire, for a transaction that deletes by the time `now`, or by the clock of the database if
    /// that is earlier: the clock of this machine may be ahead.
    pub(crate) async fn expiry(&self, session: &mut Session, now: Timestamp) -> Result<Expiry, Failure> {
        let text = format!(
            "SELECT {}, (SELECT value FROM access_meta WHERE name = 'trusted_time')",
            self.dialect().now
        );
        let rows = session.fetch(&text, &[]).await?;
        let (clock, stored) = match rows.first() {
            Some(row) => (at(row.int(0)?), row.optional_text(1)?),
            None => (now, None),
        };
        let expiry = self.clock().expiry(now.min(clock), clock, Instant::now());
        let stored = stored.and_then(|stored| stored.parse().ok()).map(Timestamp::from_unix);
        let trusted = expiry.trusted();
        let differs = |stored: Timestamp| stored.as_unix().abs_diff(trusted.as_unix()) > STORED_TOLERANCE;
        if stored.is_none_or(differs) {
            let text = self.dialect().upsert(
                "access_meta",
                "name, value",
                "VALUES ('trusted_time', ?)",
                "name",
                &[("value", "{new}")],
            );
            session.execute(&text, &[Value::Text(&trusted.as_unix().to_string())]).await?;
        }
        Ok(expiry)
    }

    /// Returns whether the clock of the database is so far ahead of the trusted time that it is reported.
    pub(crate) fn is_clock_ahead(&self) -> bool {
        self.clock.get().is_some() && self.clock().is_ahead()
    }

    /// Removes rows that have expired by the database's clock, some at a time; returns whether there may be more.
    pub(crate) async fn delete_expired(&self) -> Result<bool, Error> {
        let mut more = false;
        for (table, keys, begins) in TABLES {
            let delete = || async {
                let mut session = self.begin().await?;
                let expiry = self.expiry(&mut session, Timestamp::MAX).await?;
                let mut more = false;
                for Expired { begin_after, at } in expiry.expired() {
                    // As a value: PostgreSQL searches no index for a clock that runs on.
                    let (at, after) =
                        (Value::Int(unix(at)), begin_after.map(|after| Value::Int(unix(after))));
                    let such = if after.is_some() { format!("{OVER} AND {begins}") } else { OVER.to_owned() };
                    let text = self.dialect().delete_some(table, keys, &such, ROWS);
                    let values: Vec<_> = [Some(at), after].into_iter().flatten().collect();
                    more |= session.execute(&text, &values).await? >= ROWS.unsigned_abs();
                }
                session.commit().await?;
                Ok(more)
            };
            if self.attempt(delete).await? {
                more = true;
                break;
            }
        }
        Ok(more)
    }

    fn clock(&self) -> MutexGuard<'_, ExpiryClock> {
        let clock = self.clock.get_or_init(Mutex::default);
        clock.lock().expect("nothing panics under this lock")
    }
}

fn unix(at: Timestamp) -> i64 {
    i64::try_from(at.as_unix()).expect("the year 9999 is not beyond an i64")
}

fn at(unix: i64) -> Timestamp {
    Timestamp::from_unix(u64::try_from(unix).unwrap_or(0))
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;
    use crate::sql::schema::Settings;
    use crate::sql::sqlite::open_in_memory;

    #[tokio::test]
    async fn sqlite_finds_what_has_expired_by_an_index() {
        let database = open_in_memory(Settings::default()).await.expect("there is memory");
        database.create_tables().await.expect("there is memory");
        for (table, keys, _) in TABLES {
            let text = database.dialect().delete_some(table, keys, OVER, ROWS);
            let plan = format!("EXPLAIN QUERY PLAN {text}");
            let rows = database.fetch(&plan, &[Value::Int(0)]).await.expect("the table is there");
            let steps: Vec<_> = rows.iter().map(|row| row.text(3).expect("a text")).collect();
            let index = format!("INDEX {table}_expiry (expiry<?)");
            assert!(steps.iter().any(|step| step.contains(&index)), "{steps:?}");
            assert!(!steps.iter().any(|step| step.starts_with("SCAN access")), "{steps:?}");
        }
    }
}
