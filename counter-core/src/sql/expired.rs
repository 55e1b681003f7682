use super::{Database, Value};
use crate::Error;

/// The tables with rows that nothing reads after their expiry, with the columns of their keys.
const TABLES: [(&str, &str); 2] = [("access_window", "id"), ("access_window_token", "window_id, token")];

/// The number of rows that are removed from each table at once. No transaction makes more.
const ROWS: i64 = 1000;

/// The condition under which a row of any of them is removed.
const OVER: &str = "expiry <= ?";

impl Database {
    /// Removes rows that have expired by the database's clock, some at a time; returns whether there may be more.
    pub(crate) async fn delete_expired(&self) -> Result<bool, Error> {
        let mut more = false;
        for (table, keys) in TABLES {
            let text = self.dialect().delete_some(table, keys, OVER, ROWS);
            let delete = || async {
                let mut session = self.begin().await?;
                // As a value: PostgreSQL searches no index for a clock that runs on.
                let rows = session.fetch(&format!("SELECT {}", self.dialect().now), &[]).await?;
                let Some(now) = rows.first() else { return session.roll_back().await.map(|()| 0) };
                let deleted = session.execute(&text, &[Value::Int(now.int(0)?)]).await?;
                session.commit().await?;
                Ok(deleted)
            };
            more |= self.attempt(delete).await? >= ROWS.unsigned_abs();
        }
        Ok(more)
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sqlite_finds_what_has_expired_by_an_index() {
        let database = Database::in_memory().await.expect("there is memory");
        database.create_tables().await.expect("there is memory");
        for (table, keys) in TABLES {
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
