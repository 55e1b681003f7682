//! Deletes expired rows, and manages the clock used to decide if a row is expired.

use std::sync::{Mutex, MutexGuard};

use tokio::time::Instant;

use super::database::Database;
use super::failure::Failure;
use super::session::Session;
use super::statement::Value;
use crate::error::Error;
use crate::time::Timestamp;
use crate::time::expiry_clock::{Expired, Expiry, ExpiryClock};

/// Tables containing rows that are not used any more after they expire, with the key columns, and the
/// condition that the row starts after a given time. Window tokens are removed before the window.
const TABLES: [(&str, &str, &str); 2] = [
    (
        "access_window_token",
        "window_id, token",
        "window_id IN (SELECT id FROM access_window WHERE start > ?)",
    ),
    ("access_window", "id", "start > ?"),
];

/// Maximum number of rows that a transaction removes from a table. Transactions never insert more than this.
const MAX_ROWS: i64 = 1000;

/// Condition for rows to remove. It applies to all tables.
const EXPIRED_CONDITION: &str = "expiry <= ?";

/// Maximum difference in seconds between the stored and the trusted time. The stored time is only updated if
/// this is exceeded.
const STORED_TOLERANCE: u64 = 600;

impl Database {
    /// Starts to follow the database clock. This must be called before the process writes. It starts from the
    /// time that the previous process trusted, or from its last batch.
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

    /// Returns the expiry times for a transaction. If the database clock is earlier than `now`, this uses the
    /// database clock, because the local clock may be wrong.
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

    /// Returns `true` if the database clock is far ahead of the trusted time, and we need to warn about it.
    pub(crate) fn is_clock_ahead(&self) -> bool {
        self.clock.get().is_some() && self.clock().is_ahead()
    }

    /// Removes a limited number of expired rows, using the database clock. Returns `true` if there may be
    /// more rows to remove.
    pub(crate) async fn delete_expired(&self) -> Result<bool, Error> {
        let mut more = false;
        for (table, keys, starts_after) in TABLES {
            let delete = || async {
                let mut session = self.begin().await?;
                let expiry = self.expiry(&mut session, Timestamp::MAX).await?;
                let mut more = false;
                for Expired { start_after, at } in expiry.expired() {
                    // Passed as a value because PostgreSQL does not use an index if the condition contains a
                    // running clock.
                    let (at, after) =
                        (Value::Int(unix(at)), start_after.map(|after| Value::Int(unix(after))));
                    let condition = if after.is_some() {
                        format!("{EXPIRED_CONDITION} AND {starts_after}")
                    } else {
                        EXPIRED_CONDITION.to_owned()
                    };
                    let text = self.dialect().delete_some(table, keys, &condition, MAX_ROWS);
                    let values: Vec<_> = [Some(at), after].into_iter().flatten().collect();
                    more |= session.execute(&text, &values).await? >= MAX_ROWS.unsigned_abs();
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
        clock.lock().expect("the lock is never poisoned")
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
    async fn sqlite_uses_an_index_to_find_expired_rows() {
        let database = open_in_memory(Settings::default()).await.expect("there is memory");
        database.create_tables().await.expect("there is memory");
        for (table, keys, _) in TABLES {
            let text = database.dialect().delete_some(table, keys, EXPIRED_CONDITION, MAX_ROWS);
            let plan = format!("EXPLAIN QUERY PLAN {text}");
            let rows = database.fetch(&plan, &[Value::Int(0)]).await.expect("the table is there");
            let steps: Vec<_> = rows.iter().map(|row| row.text(3).expect("a text")).collect();
            let index = format!("INDEX {table}_expiry (expiry<?)");
            assert!(steps.iter().any(|step| step.contains(&index)), "{steps:?}");
            assert!(!steps.iter().any(|step| step.starts_with("SCAN access")), "{steps:?}");
        }
    }
}
