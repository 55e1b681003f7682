pub(crate) mod builder;

use std::sync::Arc;

pub use builder::{SqlBuilder, SqlConnectError};

use crate::sql::Database;

/// A store that uses a SQL database: SQLite 3.37 or later, PostgreSQL 12 or later, MariaDB 10.6 or later.
///
/// If you don't want to run a server, you can use an SQLite file to persist counts. Batches are applied in a
/// transaction. It also writes the writer fence, so that a batch is only counted once, no matter how often it
/// is sent. Acknowledged batches have been synced to disk. A database can be shared by any number of
/// processes, and an SQLite file by processes on the same machine. Unique counters and windows also use
/// transactions. Entities are not cached, because their database is just as fast. The
/// [guide](crate::guide::sql) contains the schema, helps you to choose a database, and describes the
/// durability.
///
/// ```
/// use counter_core::{Counters, SqlStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("counter-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let file = folder.join("counts.db");
/// let url = format!("sqlite:{}", file.display());
/// let store = SqlStore::builder().create_tables().connect(&url).await?;
/// let mut counters = Counters::builder(store).build()?;
/// let recorder = counters.recorder();
/// recorder.record(recorder.counter("/"), None);
/// counters.flush().await?;
/// drop(counters);
///
/// // Later, in another process:
/// let counters = Counters::builder(SqlStore::connect(&url).await?).build()?;
/// assert_eq!(counters.stats().lifetimes(&["/".parse()?]).await?, [1]);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SqlStore(Arc<Families>);

families!(parts!(SqlStore: sql, new(Arc::clone(&database)), database: Arc<Database>));

impl SqlStore {
    /// Connects to a database with existing tables. See [`SqlBuilder`] for the supported addresses, and
    /// [`connect`](SqlBuilder::connect) for the errors.
    ///
    /// # Errors
    /// Returns an error if the address is not valid, if the database does not respond, if the tables are
    /// missing or have a different version, or if the encoding or replication settings are not suitable.
    ///
    /// # Panics
    /// Panics if called from outside of a Tokio runtime.
    pub async fn connect(url: &str) -> Result<Self, SqlConnectError> {
        Self::builder().connect(url).await
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> SqlBuilder {
        SqlBuilder::default()
    }

    /// Returns `true` if the database is in memory, i.e. counts are lost when the process ends.
    ///
    /// ```
    /// use counter_core::SqlStore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = SqlStore::builder().create_tables().connect("sqlite::memory:").await?;
    /// assert!(store.is_in_memory());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.0.database.is_in_memory()
    }

    fn new(database: Database) -> Self {
        Self(Arc::new(Families::new(Arc::new(database))))
    }
}

#[cfg(feature = "archive")]
impl AsRef<dyn crate::visits::store::ArchiveStore> for SqlStore {
    fn as_ref(&self) -> &(dyn crate::visits::store::ArchiveStore + 'static) {
        &self.0.visits
    }
}
