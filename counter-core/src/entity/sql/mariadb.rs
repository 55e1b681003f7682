use sqlx::MySql;

use super::SqlDatabase;

/// A database of entity counts in MariaDB, version 10.5 or later.
///
/// MySQL is not supported: an `INSERT` there cannot return the row.
pub type MariaDatabase = SqlDatabase<MySql>;

impl SqlDatabase<MySql> {
    /// Creates a database from a pool of connections, with the settings of that pool.
    #[must_use]
    pub fn new(pool: sqlx::Pool<MySql>) -> Self {
        Self::over(pool, None)
    }
}
