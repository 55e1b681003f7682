use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;

use super::SqlStore;
use crate::family::future::BoxFuture;
use crate::sql::{Database, SchemaError, Settings};

/// A builder of [`SqlStore`], with the settings and the address of its database.
///
/// | address | what | feature |
/// |---|---|---|
/// | `sqlite:counts.db`, `sqlite:///var/lib/site/counts.db` | a file | `sqlite` |
/// | `sqlite::memory:` | a database in memory, for tests and examples | `sqlite` |
/// | `postgres://user:password@host:port/database` | a PostgreSQL server | `postgres` |
/// | `mariadb://user:password@host:port/database` | a MariaDB server | `mariadb` |
///
/// The parameters of an address are those of `sqlx`; for TLS, enable its feature for it in your own manifest. Settings
/// for which there is no parameter are taken by `connect_sqlite` and the like.
///
/// ```
/// use counter_core::SqlStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let missing = SqlStore::connect("sqlite::memory:").await.unwrap_err();
/// assert_eq!(missing.to_string(), "the database has no tables for counters: `SqlBuilder::create_tables` makes them");
/// SqlStore::builder().create_tables().connections(4).connect("sqlite::memory:").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SqlBuilder {
    settings: Settings,
}

/// An error of connecting to a database.
pub struct SqlConnectError(Kind);

enum Kind {
    /// The address is none.
    Address(Option<Box<dyn StdError + Send + Sync>>),
    Schema(SchemaError),
}

impl SqlBuilder {
    /// Creates missing tables when connecting, and upgrades tables of an older version. In SQLite it also creates the
    /// file, with mode 0600 like its log: only the owner may read and write it.
    ///
    /// Processes that do so at the same time do not disturb each other. The user of the database needs the right to
    /// create tables; where that is not wanted, the [guide](crate::guide::sql) has the text of the schema.
    pub const fn create_tables(mut self) -> Self {
        self.settings.creates_tables = true;
        self
    }

    /// Sets how many connections there are at most, at least 1. Default: 8. With SQLite one of them writes, and the
    /// others read.
    pub const fn connections(mut self, most: u32) -> Self {
        self.settings.max_connections = if most == 0 { 1 } else { most };
        self
    }

    /// Connects to an address.
    ///
    /// Connections are made when they are needed, again whenever one was lost, and each call takes 5 s at most. They
    /// belong to a pool of `sqlx`, which has tasks of its own that end with the last handle on this store.
    ///
    /// # Errors
    /// Fails when the address is not one of those above or needs a feature that is not enabled, when the database does
    /// not answer within 5 s, when it has no tables, or those of another version, and when it could not keep the counts:
    /// a PostgreSQL of another encoding than UTF8, or a MariaDB that replicates by statements.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
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
            "sqlite" => self.connect_sqlite(parsed(url)?).await,
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => self.connect_postgres(parsed(url)?).await,
            #[cfg(feature = "mariadb")]
            "mariadb" | "mysql" => self.connect_mariadb(parsed(url)?).await,
            _ => Err(SqlConnectError(Kind::Address(None))),
        }
    }

    /// Adds steps to later versions of the schema, to test upgrades with.
    #[doc(hidden)]
    pub const fn later_steps(mut self, steps: &'static [&'static str]) -> Self {
        self.settings.later_steps = steps;
        self
    }

    /// Connects in the same way to a file of SQLite, with your settings. The store sets the journal, the synchronisation
    /// and the time for which a writer waits.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    #[cfg(feature = "sqlite")]
    pub async fn connect_sqlite(
        self,
        options: sqlx::sqlite::SqliteConnectOptions,
    ) -> Result<SqlStore, SqlConnectError> {
        check(crate::sql::sqlite::open(options, self.settings), self.settings).await
    }

    /// Connects in the same way to PostgreSQL, with your settings.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    #[cfg(feature = "postgres")]
    pub async fn connect_postgres(
        self,
        options: sqlx::postgres::PgConnectOptions,
    ) -> Result<SqlStore, SqlConnectError> {
        check(crate::sql::postgres::open(options, self.settings), self.settings).await
    }

    /// Connects in the same way to MariaDB, with your settings.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    #[cfg(feature = "mariadb")]
    pub async fn connect_mariadb(
        self,
        options: sqlx::mysql::MySqlConnectOptions,
    ) -> Result<SqlStore, SqlConnectError> {
        check(crate::sql::mariadb::open(options, self.settings), self.settings).await
    }
}

fn check(database: Database, settings: Settings) -> BoxFuture<'static, Result<SqlStore, SqlConnectError>> {
    Box::pin(async move {
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
                "not the address of a database whose feature is enabled, such as sqlite:counts.db or \
                 postgres://127.0.0.1/site",
            ),
            Kind::Schema(error @ (SchemaError::Missing | SchemaError::Older { .. })) => {
                write!(f, "{error}: `SqlBuilder::create_tables` makes them")
            }
            Kind::Schema(SchemaError::Unknown(_)) => f.write_str("the database does not answer, or refuses"),
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
