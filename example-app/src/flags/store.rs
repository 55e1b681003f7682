//! The store that the program keeps its counts in and the one of its archive, chosen by their addresses.

use std::error::Error;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use clap::Args;
use counter_core::archive::Archive;
use counter_core::entity::sqlx::sqlite::SqliteConnectOptions;
use counter_core::stores::Namespace;
use counter_core::{AnyStore, ErrorKind, MemoryStore, RedisStore, SqlStore};
use tokio::time::timeout;

/// The store where no other is asked for: a file in the working directory.
const DEFAULT: &str = "sqlite:access-counter.db";

/// The time for which the archive is waited for at the start.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// The place of counts that end with the process.
const IN_MEMORY: &str = "in this process, and end with it";

/// Where the counts are kept.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Settings {
    /// Store of the counts: a SQLite file such as sqlite:counts.db, redis://127.0.0.1:6379, redis-cluster://127.0.0.1:7000, postgres://user@127.0.0.1/site, mysql://user@127.0.0.1/site, or memory: (or sqlite::memory:) for counts that end with the process. Default: sqlite:access-counter.db, which is created in the working directory.
    #[arg(long, visible_alias = "redis", env = "STORE_URL", hide_env_values = true, value_name = "URL")]
    store: Option<String>,
    /// Address of a Redis, where no store is given.
    #[arg(long, env = "REDIS_URL", hide = true)]
    redis_url: Option<String>,
    /// Prefix of the keys in Redis, by which several sites share a server. Default: access:. A SQL store has none: give each site a file or database of its own.
    #[arg(long, env)]
    namespace: Option<Namespace>,
}

/// A store, and where it is.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: AnyStore,
    /// Where it is, for people.
    pub(crate) place: String,
    /// The address, if it is a file of SQLite.
    pub(crate) file: Option<String>,
    /// Whether its counts end with the process.
    pub(crate) is_in_memory: bool,
    address: String,
}

impl Settings {
    /// Connects to the store, and makes its tables where it needs some.
    ///
    /// # Errors
    /// When the address is none, or there is no such database; a Redis that is away is waited for.
    pub(crate) async fn open(&self) -> Result<Opened, Box<dyn Error>> {
        let address = self.store.as_deref().or(self.redis_url.as_deref()).unwrap_or(DEFAULT);
        let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
        if self.namespace.is_some() && (scheme == "memory" || is_sql(scheme)) {
            return Err(format!(
                "--namespace is for Redis, and the store is {scheme}: use another file, database or schema for each site"
            )
            .into());
        }
        let (store, place): (AnyStore, _) = match scheme {
            "memory" => (MemoryStore::new().into(), IN_MEMORY.to_owned()),
            _ if is_sql(scheme) => {
                let (store, place) = sql(address).await?;
                (store.into(), place)
            }
            _ => {
                let store = RedisStore::connect(address, self.namespace.clone().unwrap_or_default()).await?;
                (store.into(), "in Redis".to_owned())
            }
        };
        let is_in_memory = match &store {
            AnyStore::Memory(_) => true,
            AnyStore::Sql(store) => store.is_in_memory(),
            _ => false,
        };
        let file = (scheme == "sqlite" && !is_in_memory).then(|| address.to_owned());
        Ok(Opened { store, place, file, is_in_memory, address: address.to_owned() })
    }
}

impl Opened {
    /// Connects to an archive of this store, and makes its tables. Returns where it is, too.
    ///
    /// # Errors
    /// When it is no database, there is none, or it is the store itself.
    pub(crate) async fn archive(&self, address: &str) -> Result<(SqlStore, String), Box<dyn Error>> {
        let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
        if !is_sql(scheme) {
            return Err("--archive is a database: sqlite:, postgres: or mysql:".into());
        }
        let is_same_file = match &self.file {
            Some(store) if scheme == "sqlite" => is_same(&file_of(store)?, &file_of(address)?),
            _ => address == self.address,
        };
        if is_same_file {
            return Err("--archive is the same database as --store: it has to be another one".into());
        }
        let (store, place) = sql(address).await?;
        if store.is_in_memory() {
            return Err("--archive is for years, and a database in memory ends with the process".into());
        }
        Ok((store, place))
    }
}

/// Refuses the archive of another store, if both stores answer soon; the health says it otherwise.
///
/// # Errors
/// When the archive belongs to another store.
pub(crate) async fn check_archive(archive: &Archive) -> Result<(), Box<dyn Error>> {
    match timeout(CHECK_TIMEOUT, archive.check()).await {
        Ok(Err(error)) if *error.kind() == ErrorKind::Refused => {
            Err(format!("--archive: {}", in_full(&error)).into())
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn is_sql(scheme: &str) -> bool {
    ["sqlite", "postgres", "postgresql", "mariadb", "mysql"].contains(&scheme)
}

/// Connects to a database, and says where it is.
async fn sql(address: &str) -> Result<(SqlStore, String), Box<dyn Error>> {
    let connected = SqlStore::builder().create_tables().connect(address).await;
    let connected = connected.map_err(|error| in_full(&error));
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

/// Returns whether both lead to one file, which is there if they do.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Writes an error with its causes.
pub(crate) fn in_full(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}
