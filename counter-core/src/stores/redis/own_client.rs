//! Stores using a `fred` client that is configured or created by the application.

use std::sync::{Arc, OnceLock};

use fred::clients::Client as FredClient;
use fred::interfaces::ClientLike;
use fred::types::config::Config;

use super::RedisStore;
use super::builder::{ConnectError, RedisBuilder};
use crate::family::future::BoxFuture;
use crate::redis::{Connection, Topology};

/// Connects a [`RedisBuilder`] by a `fred` configuration or client.
pub trait OwnClient: Sized {
    /// Like [`connect`](RedisBuilder::connect), but uses a client configuration.
    ///
    /// # Errors
    /// Returns an error if `fred` rejects the configuration.
    ///
    /// # Panics
    /// Panics if called from outside of a Tokio runtime.
    fn connect_with(self, config: Config) -> BoxFuture<'static, Result<RedisStore, ConnectError>>;

    /// Uses an existing client. The application must connect it.
    ///
    /// It is safe if the client retries commands, because batches are fenced. The client is not replaced if
    /// its task ends. For a cluster, `ConnectionConfig::max_redirections` must be 0, because an `ASK`
    /// redirection breaks fred 10.1. It also fails for all nodes if a single node is unavailable, so you
    /// should prefer [`connect`](RedisBuilder::connect) for clusters.
    #[must_use]
    fn client(self, client: FredClient) -> RedisStore;
}

impl OwnClient for RedisBuilder {
    fn connect_with(self, config: Config) -> BoxFuture<'static, Result<RedisStore, ConnectError>> {
        self.open(config)
    }

    fn client(self, client: FredClient) -> RedisStore {
        let clustered = client.is_clustered();
        let client = Arc::new(Connection::of(client));
        let topology =
            if clustered { Topology::UserClient(client, OnceLock::new()) } else { Topology::One(client) };
        self.store(topology, clustered)
    }
}
