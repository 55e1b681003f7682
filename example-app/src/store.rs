//! The store that the program keeps its counts in and the one of its archive, chosen by their addresses.

use std::error::Error;
use std::path::{Path, PathBuf, absolute};

use clap::Args;
use counter_core::entity::sqlx::sqlite::SqliteConnectOptions;
use counter_core::stores::Namespace;
use counter_core::{AnyStore, MemoryStore, RedisStore, SqlStore};

/// The store where no other is asked for: a file in the working directory.
const DEFAULT: &str = "sqlite:access-counter.db";

/// Where the counts are kept.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Settings {
    /// Store of the counts: a SQLite file such as sqlite:counts.db, redis://127.0.0.1:6379, redis-cluster://127.0.0.1:7000, postgres://user@127.0.0.1/site, mysql://user@127.0.0.1/site, or memory: for counts that end with the process. Default: sqlite:access-counter.db, which is created in the working directory.
    #[arg(long, visible_alias = "redis", env = "STORE_URL", hide_env_values = true, value_name = "URL")]
    store: Option<String>,
    /// Address of a Redis, where no store is given.
    #[arg(long, env = "REDIS_URL", hide = true)]
    redis_url: Option<String>,
    /// Prefix of the keys in Redis.
    #[arg(long, env, default_value_t)]
    namespace: Namespace,
}

/// A store, and where it is.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: AnyStore,
    /// Where it is, for people.
    pub(crate) place: String,
    /// The address, if it is a file of SQLite.
    pub(crate) file: Option<String>,
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
        let (store, place) = match scheme {
            "memory" => (MemoryStore::new().into(), "in this process".to_owned()),
            _ if is_sql(scheme) => {
                let (store, place) = sql(address).await?;
                (store.into(), place)
            }
            _ => {
                let store = RedisStore::connect(address, self.namespace.clone()).await?;
                (store.into(), "in Redis".to_owned())
            }
        };
        let file = (scheme == "sqlite").then(|| address.to_owned());
        Ok(Opened { store, place, file, address: address.to_owned() })
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
        sql(address).await
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
