//! Opens the store and the archive based on URLs.

use std::error::Error;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use clap::Args;
use counter_core::archive::Archive;
use counter_core::entity::sqlx::sqlite::SqliteConnectOptions;
use counter_core::stores::Namespace;
use counter_core::{AnyStore, ErrorKind, MemoryStore, RedisStore, SqlStore};
use tokio::time::timeout;

/// Default store: a file in the working directory.
const DEFAULT_STORE: &str = "sqlite:access-counter.db";

/// Time to wait for the archive at startup.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// Description of a store in memory.
const IN_MEMORY: &str = "in memory, and will be lost on exit";

/// Store options.
#[derive(Debug, Args)]
#[group(skip)]
#[command(next_help_heading = "Store")]
pub(crate) struct Settings {
    /// Store URL (default: sqlite:access-counter.db).
    #[arg(long, alias = "redis", env = "COUNTER_STORE", hide_env_values = true, value_name = "URL")]
    store: Option<String>,
    /// Prefix for Redis keys (default: access:).
    #[arg(long, env = "COUNTER_NAMESPACE", value_name = "PREFIX")]
    namespace: Option<Namespace>,
}

/// An open store.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: AnyStore,
    /// Description for the startup message, e.g. "in Redis".
    pub(crate) place: String,
    /// The URL, if this is a SQLite file.
    pub(crate) file: Option<String>,
    /// True if the counts are lost on exit.
    pub(crate) is_in_memory: bool,
    address: String,
}

impl Settings {
    /// Connects to the store, and creates tables if needed.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid, or if the database does not exist. If Redis is unavailable,
    /// this will wait for it.
    pub(crate) async fn open(&self) -> Result<Opened, Box<dyn Error>> {
        self.open_or(DEFAULT_STORE).await
    }

    /// Like [`open`](Self::open), with a different default.
    pub(crate) async fn open_or(&self, default: &str) -> Result<Opened, Box<dyn Error>> {
        let address = self.store.as_deref().unwrap_or(default);
        let (store, place) = connect(address, self.namespace.as_ref(), true).await?;
        let is_in_memory = match &store {
            AnyStore::Memory(_) => true,
            AnyStore::Sql(store) => store.is_in_memory(),
            _ => false,
        };
        let file = (address.starts_with("sqlite:") && !is_in_memory).then(|| address.to_owned());
        Ok(Opened { store, place, file, is_in_memory, address: address.to_owned() })
    }
}

/// Connects to a store. Also returns a description for the startup message.
pub(super) async fn connect(
    address: &str,
    namespace: Option<&Namespace>,
    create_tables: bool,
) -> Result<(AnyStore, String), Box<dyn Error>> {
    let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
    if namespace.is_some() && (scheme == "memory" || is_sql(scheme)) {
        return Err(format!(
            "--namespace is only supported for Redis, but the store is {scheme}: use a separate file, database or schema per site"
        )
        .into());
    }
    Ok(match scheme {
        "memory" => (MemoryStore::new().into(), IN_MEMORY.to_owned()),
        _ if is_sql(scheme) => {
            let (store, place) = sql(address, create_tables).await?;
            (store.into(), place)
        }
        _ => {
            let store = RedisStore::connect(address, namespace.cloned().unwrap_or_default()).await?;
            (store.into(), "in Redis".to_owned())
        }
    })
}

impl Opened {
    /// Connects to the archive for this store, and creates tables. Also returns a description for the startup
    /// message.
    ///
    /// # Errors
    ///
    /// Returns an error if this is not a database, if the database does not exist, or if it is the store.
    pub(crate) async fn archive(&self, address: &str) -> Result<(SqlStore, String), Box<dyn Error>> {
        let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
        if !is_sql(scheme) {
            return Err("--archive must be a database: sqlite:, postgres: or mysql:".into());
        }
        let is_same_file = match &self.file {
            Some(store) if scheme == "sqlite" => is_same(&file_of(store)?, &file_of(address)?),
            _ => address == self.address,
        };
        if is_same_file {
            return Err("--archive must not be the same database as --store".into());
        }
        let (store, place) = sql(address, true).await?;
        if store.is_in_memory() {
            return Err("--archive must not be in memory, because it would be lost on exit".into());
        }
        Ok((store, place))
    }
}

/// Rejects an archive that belongs to a different store. This only waits for a few seconds, because the
/// health status will also report it.
///
/// # Errors
///
/// Returns an error if the archive belongs to a different store.
pub(crate) async fn check_archive(archive: &Archive) -> Result<(), Box<dyn Error>> {
    match timeout(CHECK_TIMEOUT, archive.check()).await {
        Ok(Err(error)) if *error.kind() == ErrorKind::Rejected => {
            Err(format!("--archive: {}", error_chain(&error)).into())
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn is_sql(scheme: &str) -> bool {
    ["sqlite", "postgres", "postgresql", "mariadb", "mysql"].contains(&scheme)
}

/// Connects to a SQL database. Also returns a description for the startup message.
async fn sql(address: &str, create_tables: bool) -> Result<(SqlStore, String), Box<dyn Error>> {
    let builder = SqlStore::builder();
    let builder = if create_tables { builder.create_tables() } else { builder };
    let connected = builder.connect(address).await;
    let connected = connected.map_err(|error| error_chain(&error));
    match address.split_once(':').map_or("", |(scheme, _)| scheme) {
        "sqlite" => {
            if connected.as_ref().is_ok_and(SqlStore::is_in_memory) {
                return Ok((connected?, IN_MEMORY.to_owned()));
            }
            let file = file_of(address)?;
            let file = file.display();
            let store = connected.map_err(|error| format!("{file} cannot be opened: {error}"))?;
            Ok((store, format!("in {file}")))
        }
        "postgres" | "postgresql" => Ok((connected?, "in PostgreSQL".to_owned())),
        _ => Ok((connected?, "in MariaDB".to_owned())),
    }
}

fn file_of(address: &str) -> Result<PathBuf, Box<dyn Error>> {
    Ok(absolute(address.parse::<SqliteConnectOptions>()?.get_filename())?)
}

/// Returns whether the paths are equal, or resolve to the same existing file.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Formats an error with all sources.
pub(crate) fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
