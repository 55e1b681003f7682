use std::fmt;
use std::sync::Arc;

use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::types::config::{Config, ServerConfig};

use super::RedisStore;
use crate::family::future::BoxFuture;
use crate::family::shard::Shards;
use crate::redis::{Client, Cluster, Connection, Namespace, Topology};

/// A builder for [`RedisStore`].
///
/// | address | connects to |
/// |---|---|
/// | `redis://user:password@host:port/database` | a single server |
/// | `redis-cluster://host:port?node=host:port` | a cluster; other nodes are discovered |
/// | `redis-sentinel://host:port/database?sentinelServiceName=name&node=host:port` | the master reported by sentinels |
/// | `redis+unix:///path/to/socket` | a socket |
/// | `rediss…://` instead of `redis…://`, except for sockets | the same via TLS, with the feature `rustls`, `rustls-aws-lc-rs` or `native-tls` |
///
/// The user name and password are optional. You can also write `valkey` instead of `redis`, and `+` instead
/// of `-`. Certificates are checked against the system trust store. If you need a private authority or a
/// client certificate, enable the feature `own-client` and pass a `fred` configuration with a custom TLS
/// connector to `unstable::OwnClient::connect_with`.
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

/// An error returned if an address or configuration is not valid, or if TLS can't be set up.
pub struct ConnectError(FredError);

/// Sufficient for a small cluster, but still fast to read from all shards.
const DEFAULT_CLUSTER_SHARDS: u16 = 16;

impl RedisBuilder {
    /// Sets the prefix for all keys. The default is `access:`.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// Sets the number of shards. The counters of a shard have the same hash tag, such as `{access:3}`, i.e.
    /// they are in the same cluster slot. The default is 16 for a cluster. Otherwise the store is not
    /// sharded, and keys do not have a tag.
    ///
    /// All instances that use the same store must be configured with the same number.
    pub const fn shards(mut self, shards: Shards) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Connects to an address.
    ///
    /// This returns after a second even if the server does not respond. It will then continue to connect in
    /// the background, and calls will fail until it succeeds, as for any later outage. The connection is
    /// managed by a task, which uses a `fred` client that also runs a task, and reconnects if the connection
    /// breaks or hangs. Both tasks end if the last handle for this store is dropped. Server names are
    /// resolved on a thread: requests and process exit are not blocked if the resolver hangs. If the name
    /// resolves to more than one address, they are tried in parallel.
    ///
    /// # Errors
    /// Returns an error if the address is not supported, if it needs a feature that is not enabled, or if it
    /// needs TLS and the system has no certificate authorities.
    ///
    /// # Panics
    /// Panics if called from outside of a Tokio runtime.
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
        let cluster_default = || Shards::try_from(DEFAULT_CLUSTER_SHARDS).expect("between 1 and 1024");
        let shards = self.shards.or_else(|| clustered.then(cluster_default));
        RedisStore::new(Client::new(topology, &self.namespace, shards))
    }
}

fn config(url: &str) -> Result<Config, FredError> {
    let invalid = |words| Err(FredError::new(FredKind::Config, words));
    // fred would treat an unknown scheme as a single server, and not use TLS.
    let Some((scheme, rest)) = url.split_once("://") else { return invalid("the scheme is missing") };
    let (protocol, kind) = scheme.split_once(['+', '-']).unwrap_or((scheme, ""));
    let is_tls = matches!(protocol, "rediss" | "valkeys");
    match (protocol, kind) {
        ("redis" | "valkey" | "rediss" | "valkeys", "" | "cluster" | "sentinel") => {}
        ("redis" | "valkey", "unix") => return Config::from_url(&format!("{protocol}+unix://{rest}")),
        _ => return invalid("the scheme is unknown"),
    }
    let kind = if kind.is_empty() { String::new() } else { format!("-{kind}") };
    // fred would choose a TLS library and a provider by itself, and panic if there is a choice.
    let config = Config::from_url(&format!("redis{kind}://{rest}"))?;
    if is_tls { with_tls(config) } else { Ok(config) }
}

#[cfg(any(feature = "rustls", feature = "rustls-aws-lc-rs", feature = "native-tls"))]
fn with_tls(config: Config) -> Result<Config, FredError> {
    Ok(Config { tls: Some(super::tls::connector()?.into()), ..config })
}

#[cfg(not(any(feature = "rustls", feature = "rustls-aws-lc-rs", feature = "native-tls")))]
fn with_tls(_: Config) -> Result<Config, FredError> {
    Err(FredError::new(
        FredKind::Config,
        "TLS needs the feature `rustls`, `rustls-aws-lc-rs` or `native-tls`",
    ))
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(any(feature = "rustls", feature = "rustls-aws-lc-rs", feature = "native-tls"))]
        if matches!(self.0.kind(), FredKind::Tls) {
            return f.write_str("failed to set up TLS");
        }
        f.write_str("invalid Redis address, expected e.g. redis://127.0.0.1:6379")
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

crate::log::debug::debug_in_full!(ConnectError);
