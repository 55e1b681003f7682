use sqlx::Postgres;

use super::SqlDatabase;

/// A database of entity counts in PostgreSQL.
pub type PostgresDatabase = SqlDatabase<Postgres>;

impl SqlDatabase<Postgres> {
    /// Creates a database from a pool of connections, with the settings of that pool.
    #[must_use]
    pub fn new(pool: sqlx::Pool<Postgres>) -> Self {
        Self::over(pool, None)
    }
}
