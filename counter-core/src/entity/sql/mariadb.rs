use sqlx::MySql;

use super::SqlDatabase;

/// Entity counts in MariaDB 10.5 or later.
///
/// MySQL is not supported, because `INSERT` can't return the row.
pub type MariaDatabase = SqlDatabase<MySql>;

impl SqlDatabase<MySql> {
    /// Creates a database from a connection pool. The pool settings are not changed.
    #[must_use]
    pub fn new(pool: sqlx::Pool<MySql>) -> Self {
        Self::over(pool, None)
    }
}
