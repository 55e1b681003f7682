use sqlx::Postgres;

use super::SqlDatabase;

/// Entity counts in PostgreSQL.
pub type PostgresDatabase = SqlDatabase<Postgres>;

impl SqlDatabase<Postgres> {
    /// Creates a database from a connection pool. The pool settings are not changed.
    #[must_use]
    pub fn new(pool: sqlx::Pool<Postgres>) -> Self {
        Self::over(pool, None)
    }
}
