use std::fmt;
use std::sync::Arc;

use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::types::config::{Config, ServerConfig};

use super::RedisStore;
use crate::family::future::BoxFuture;
use crate::family::shard::Shards;
use crate::redis::{Client, Cluster, Connection, Namespace, Topology};

/// A builder of [`RedisStore`], with the settings and the address of its server.
///
/// | address | what |
/// |---|---|
/// | `redis://user:password@host:port/database` | one server |
/// | `redis-cluster://host:port?node=host:port` | a cluster; nodes that are not named are found |
/// | `redis-sentinel://host:port/database?sentinelServiceName=name&node=host:port` | the master that sentinels report |
/// | `redis+unix:///path/to/socket` | a socket, with the feature `unix-sockets` |
/// | `rediss…://` of each but the last | the same over TLS, with the feature `rustls` or `native-tls` |
///
/// A user name or password may be left out. `valkey` may stand for `redis`, and `+` for `-`.
/// Certificates are checked against those that the system trusts; for a private authority or a
/// certificate of the client's own, `connect_with` takes a configuration of `fred` with a TLS connector of one's own,
/// with the feature `own-client`.
///
/// ```no_run
/// use counter_core::stores::Shards;
/// use counter_core::RedisStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::builder()
///     .namespace("shop:".parse()?)
///     .shards(Shards::try_from(64)?)
///     .connect("redis-cluster://10.0.0.1:6379?node=10.0.0.2:6379")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RedisBuilder {
    namespace: Namespace,
    shards: Option<Shards>,
}

/// An error of an address or a configuration that the Redis client does not understand.
pub struct ConnectError(FredError);

/// Enough for a cluster of several nodes, and few enough to be read at once.
const CLUSTER_SHARDS: u16 = 16;

impl RedisBuilder {
    /// Sets the prefix of every key. Default: `access:`.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// Splits the counters over this many hash tags, such as `{access:3}`, each of them in one slot of a
    /// cluster. Default: 16 in a cluster, and elsewhere one without a tag.
    ///
    /// All instances over one store must use the same number.
    pub const fn shards(mut self, shards: Shards) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Connects to an address.
    ///
    /// This returns after a second even if the server does not answer: calls fail then, as they do whenever
    /// the server is away later, and connecting continues in the background. A task connects, with a client of
    /// `fred` that is a task as well, and connects again whenever the connection breaks or hangs. Both end with the
    /// last handle on this store. A thread looks up the name of the server; if the resolver hangs, neither requests
    /// nor the end of the process wait for it. If the name has several addresses, they are tried in parallel.
    ///
    /// # Errors
    /// Fails when the address is not one of those above, or needs a feature that is not enabled.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub async fn connect(self, url: &str) -> Result<RedisStore, ConnectError> {
        self.open(config(url).map_err(ConnectError)?).await
    }

    pub(super) fn open(self, config: Config) -> BoxFuture<'static, Result<RedisStore, ConnectError>> {
        Box::pin(async move {
            let (topology, clustered) = match &config.server {
                ServerConfig::Clustered { .. } => {
                    (Cluster::open(config).map(|cluster| Topology::Cluster(Box::new(cluster))), true)
                }
                _ => (Connection::open(config).map(|server| Topology::One(Arc::new(server))), false),
            };
            let store = self.store(topology.map_err(ConnectError)?, clustered);
            store.0.client.wait().await;
            Ok(store)
        })
    }

    pub(super) fn store(self, topology: Topology, clustered: bool) -> RedisStore {
        let of_a_cluster = || Shards::try_from(CLUSTER_SHARDS).expect("between 1 and 1024");
        let shards = self.shards.or_else(|| clustered.then(of_a_cluster));
        RedisStore::new(Client::new(topology, &self.namespace, shards))
    }
}

fn config(url: &str) -> Result<Config, FredError> {
    let no = |words| Err(FredError::new(FredKind::Config, words));
    // The client itself would accept any scheme as that of one server, without TLS.
    let Some((scheme, rest)) = url.split_once("://") else { return no("there is no scheme") };
    let (protocol, kind) = scheme.split_once(['+', '-']).unwrap_or((scheme, ""));
    match (protocol, kind) {
        ("redis" | "valkey", "" | "cluster" | "sentinel") => {}
        ("rediss" | "valkeys", "" | "cluster" | "sentinel") => {
            if !cfg!(any(feature = "rustls", feature = "native-tls")) {
                return no("TLS needs the feature `rustls` or `native-tls`");
            }
        }
        ("redis" | "valkey", "unix") => return Config::from_url(&format!("{protocol}+unix://{rest}")),
        _ => return no("the scheme is unknown"),
    }
    if kind.is_empty() {
        Config::from_url(url)
    } else {
        Config::from_url(&format!("{protocol}-{kind}://{rest}"))
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the address of a Redis server, such as redis://127.0.0.1:6379")
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

crate::log::debug::debug_in_full!(ConnectError);
