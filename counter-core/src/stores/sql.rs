mod builder;

use std::sync::Arc;

pub use builder::{SqlBuilder, SqlConnectError};

use crate::sql::Database;

/// A store in a SQL database: SQLite 3.37 or later, PostgreSQL 12 or later, MariaDB 10.6 or later.
///
/// SQLite in a file is the store without a server: counts survive the process. A batch is one transaction, with the
/// fence of its writer in it, so it counts once however often it is sent, and what was acknowledged is on the disk.
/// Any number of processes share a database, and several of one machine share a file of SQLite. Unique counters and
/// windows are transactions in the same way. Copies of entities are not kept: their database is as near. The
/// [guide](crate::guide::sql) has the schema, what to choose where, and what survives what.
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
/// // Another process, later.
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
    /// Connects to a database that has the tables: see [`SqlBuilder`] for the addresses, and
    /// [`connect`](SqlBuilder::connect) for the errors.
    ///
    /// # Errors
    /// Fails when the address is not one of a database, when the database does not answer, when it has not the
    /// tables of this version, and when its encoding or replication could not keep the counts.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub async fn connect(url: &str) -> Result<Self, SqlConnectError> {
        Self::builder().connect(url).await
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> SqlBuilder {
        SqlBuilder::default()
    }

    /// Returns whether the database is in memory, so that its counts end with the process.
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
