//! The store that the program keeps its counts in, chosen by an address.

use std::error::Error;
use std::path::{Path, absolute};

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
            "sqlite" => {
                let file = absolute(Path::new(address.parse::<SqliteConnectOptions>()?.get_filename()))?;
                let file = file.display();
                let opened = sql(address).await.map_err(|error| format!("{file} cannot be opened: {error}"));
                (opened?, format!("in {file}"))
            }
            "postgres" | "postgresql" => (sql(address).await?, "in PostgreSQL".to_owned()),
            "mariadb" | "mysql" => (sql(address).await?, "in MariaDB".to_owned()),
            _ => {
                let store = RedisStore::connect(address, self.namespace.clone()).await?;
                (store.into(), "in Redis".to_owned())
            }
        };
        let file = (scheme == "sqlite").then(|| address.to_owned());
        Ok(Opened { store, place, file })
    }
}

async fn sql(address: &str) -> Result<AnyStore, Box<dyn Error>> {
    let connected = SqlStore::builder().create_tables().connect(address).await;
    connected.map(AnyStore::from).map_err(|error| in_full(&error).into())
}

/// Writes an error with its causes.
fn in_full(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}
