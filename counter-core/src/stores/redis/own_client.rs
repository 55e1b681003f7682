//! Stores over a client of `fred` that the application configures or provides.

use std::sync::{Arc, OnceLock};

use fred::clients::Client as FredClient;
use fred::interfaces::ClientLike;
use fred::types::config::Config;

use super::RedisStore;
use super::builder::{ConnectError, RedisBuilder};
use crate::redis::{Connection, Topology};

impl RedisBuilder {
    /// Connects in the same way with a configuration of the client.
    ///
    /// # Errors
    /// Fails when `fred` refuses the configuration.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub async fn connect_with(self, config: Config) -> Result<RedisStore, ConnectError> {
        self.open(config).await
    }

    /// Uses a client of the user, which is or will be connected.
    ///
    /// Retries in the client are harmless, since batches are fenced. The client is not replaced when its task
    /// ends. In a cluster, `ConnectionConfig::max_redirections` must be 0, since fred 10.1 does not survive a
    /// redirection by `ASK`, and while one node is away it answers for none: an address is the better choice
    /// there.
    #[must_use]
    pub fn client(self, client: FredClient) -> RedisStore {
        let clustered = client.is_clustered();
        let client = Arc::new(Connection::of(client));
        let topology = if clustered { Topology::Own(client, OnceLock::new()) } else { Topology::One(client) };
        self.store(topology, clustered)
    }
}
