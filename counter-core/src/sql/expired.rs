use super::Database;
use crate::Error;

/// The tables with rows that nothing reads after their expiry, with the columns of their keys.
const TABLES: [(&str, &str); 2] = [("access_window", "id"), ("access_window_token", "window_id, token")];

/// The number of rows that are removed from each table at once. No transaction makes more.
const ROWS: i64 = 1000;

impl Database {
    /// Removes rows that have expired by the database's clock, some at a time; returns whether there may be more.
    pub(crate) async fn delete_expired(&self) -> Result<bool, Error> {
        let mut more = false;
        for (table, keys) in TABLES {
            let such = format!("expiry <= {}", self.dialect().now);
            let text = self.dialect().delete_some(table, keys, &such, ROWS);
            let delete = || async {
                let mut session = self.begin().await?;
                let deleted = session.execute(&text, &[]).await?;
                session.commit().await?;
                Ok(deleted)
            };
            more |= self.attempt(delete).await? >= ROWS.unsigned_abs();
        }
        Ok(more)
    }
}
