use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;

use super::SqlStore;
use crate::family::future::BoxFuture;
use crate::sql::{Database, SchemaError, Settings};

/// A builder for [`SqlStore`].
///
/// | address | connects to | feature |
/// |---|---|---|
/// | `sqlite:counts.db`, `sqlite:///var/lib/site/counts.db` | a file | `sqlite` |
/// | `sqlite::memory:` | an in-memory database, for tests and examples | `sqlite` |
/// | `postgres://user:password@host:port/database` | a PostgreSQL server | `postgres` |
/// | `mariadb://user:password@host:port/database` | a MariaDB server | `mariadb` |
///
/// The address can contain any `sqlx` parameters. To use TLS, you need to enable a TLS feature of `sqlx` in
/// your manifest. Use `connect_sqlite` etc. for settings that can't be set via parameters.
///
/// ```
/// use counter_core::SqlStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let missing = SqlStore::connect("sqlite::memory:").await.unwrap_err();
/// assert_eq!(missing.to_string(), "the database has no counter tables: call `SqlBuilder::create_tables`");
/// SqlStore::builder().create_tables().connections(4).connect("sqlite::memory:").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SqlBuilder {
    settings: Settings,
}

/// An error returned when connecting to a database.
pub struct SqlConnectError(Kind);

enum Kind {
    /// The address is not valid.
    Address(Option<Box<dyn StdError + Send + Sync>>),
    Schema(SchemaError),
}

impl SqlBuilder {
    /// Creates missing tables when connecting, and upgrades tables from an older version. For SQLite, this
    /// also creates the file with mode 0600, like its log, so that only the owner can access it.
    ///
    /// It is safe for processes to do this concurrently. The database user needs permission to create tables.
    /// If you don't want this, you can find the schema in the [guide](crate::guide::sql).
    pub const fn create_tables(mut self) -> Self {
        self.settings.creates_tables = true;
        self
    }

    /// Connects even if the database does not respond, e.g. a site of a [fleet](crate::fleet) that is away. It will be
    /// checked when it responds, and calls fail if it is not suitable. Tables are not created.
    ///
    /// ```
    /// use counter_core::{Counters, SqlStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # #[cfg(feature = "postgres")] {
    /// let away = "postgres://127.0.0.1:1/site";
    /// assert!(SqlStore::connect(away).await.is_err());
    /// let store = SqlStore::builder().check_later().connect(away).await?;
    /// let stats = Counters::builder(store).build()?.stats();
    /// assert!(stats.lifetimes(&["/".parse()?]).await.is_err());
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub const fn check_later(mut self) -> Self {
        self.settings.checks_later = true;
        self
    }

    /// Sets the maximum number of connections, at least 1. The default is 8. For SQLite, a single connection
    /// is used for writing, and the remaining connections for reading.
    pub const fn connections(mut self, max: u32) -> Self {
        self.settings.max_connections = if max == 0 { 1 } else { max };
        self
    }

    /// Connects to an address.
    ///
    /// Connections are opened on demand, and reopened if lost. Calls time out after 5 s. The connections are
    /// managed by an `sqlx` pool, and its tasks end when the last handle for this store is dropped.
    ///
    /// # Errors
    /// Returns an error if the address is not supported or needs a feature that is not enabled, if the
    /// database does not respond within 5 s, if the tables are missing or have a different version, or if the
    /// database is not suitable: PostgreSQL with an encoding other than UTF8, or MariaDB with statement-based
    /// replication.
    ///
    /// # Panics
    /// Panics if called from outside of a Tokio runtime.
    pub async fn connect(self, url: &str) -> Result<SqlStore, SqlConnectError> {
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        match scheme {
            #[cfg(feature = "sqlite")]
            "sqlite" if url.contains(":memory:") || url.contains("mode=memory") => {
                let database = crate::sql::sqlite::open_in_memory(self.settings).await;
                let unknown = |error| SqlConnectError(Kind::Schema(SchemaError::Unknown(error)));
                check(database.map_err(unknown)?, self.settings).await
            }
            #[cfg(feature = "sqlite")]
            "sqlite" => self.open(SqlOptions::Sqlite(parsed(url)?)).await,
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => self.open(SqlOptions::Postgres(parsed(url)?)).await,
            #[cfg(feature = "mariadb")]
            "mariadb" | "mysql" => self.open(SqlOptions::MariaDb(parsed(url)?)).await,
            _ => Err(SqlConnectError(Kind::Address(None))),
        }
    }

    /// Adds schema steps for later versions, in order to test upgrades.
    pub(crate) const fn later_steps(mut self, steps: &'static [&'static str]) -> Self {
        self.settings.later_steps = steps;
        self
    }

    fn open(self, options: SqlOptions) -> BoxFuture<'static, Result<SqlStore, SqlConnectError>> {
        let database = match options {
            #[cfg(feature = "sqlite")]
            SqlOptions::Sqlite(options) => crate::sql::sqlite::open(options, self.settings),
            #[cfg(feature = "postgres")]
            SqlOptions::Postgres(options) => crate::sql::postgres::open(options, self.settings),
            #[cfg(feature = "mariadb")]
            SqlOptions::MariaDb(options) => crate::sql::mariadb::open(options, self.settings),
        };
        check(database, self.settings)
    }
}

/// The options of a database, to [connect](Self::connect) without an address.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SqlOptions {
    /// A SQLite file. The journal mode, the synchronous setting and the busy timeout are set by the store.
    #[cfg(feature = "sqlite")]
    Sqlite(sqlx::sqlite::SqliteConnectOptions),
    /// A PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres(sqlx::postgres::PgConnectOptions),
    /// A MariaDB database.
    #[cfg(feature = "mariadb")]
    MariaDb(sqlx::mysql::MySqlConnectOptions),
}

impl SqlOptions {
    /// Connects a builder like [`SqlBuilder::connect`].
    ///
    /// # Errors
    /// See [`SqlBuilder::connect`].
    ///
    /// # Panics
    /// Panics if called from outside of a Tokio runtime.
    pub async fn connect(self, builder: SqlBuilder) -> Result<SqlStore, SqlConnectError> {
        builder.open(self).await
    }
}

fn check(
    mut database: Database,
    settings: Settings,
) -> BoxFuture<'static, Result<SqlStore, SqlConnectError>> {
    Box::pin(async move {
        if settings.checks_later {
            database.check_later();
            return Ok(SqlStore::new(database));
        }
        let schema = |error| SqlConnectError(Kind::Schema(error));
        database.check_settings().await.map_err(schema)?;
        if settings.creates_tables {
            database.create_tables().await.map_err(schema)?;
        }
        database.check_tables().await.map_err(schema)?;
        Ok(SqlStore::new(database))
    })
}

fn parsed<T: FromStr<Err = sqlx::Error>>(url: &str) -> Result<T, SqlConnectError> {
    url.parse().map_err(|error: sqlx::Error| SqlConnectError(Kind::Address(Some(error.into()))))
}

impl fmt::Display for SqlConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Address(_) => f.write_str(
                "invalid or unsupported database address, expected e.g. sqlite:counts.db or \
                 postgres://127.0.0.1/site",
            ),
            Kind::Schema(error @ (SchemaError::Missing | SchemaError::Older { .. })) => {
                write!(f, "{error}: call `SqlBuilder::create_tables`")
            }
            Kind::Schema(SchemaError::Unknown(_)) => {
                f.write_str("the database is unavailable or rejected the connection")
            }
            Kind::Schema(error) => error.fmt(f),
        }
    }
}

impl StdError for SqlConnectError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0 {
            Kind::Address(error) => error.as_deref().map(|error| error as _),
            Kind::Schema(SchemaError::Unknown(error)) => Some(error),
            Kind::Schema(_) => None,
        }
    }
}

crate::log::debug::debug_in_full!(SqlConnectError);
