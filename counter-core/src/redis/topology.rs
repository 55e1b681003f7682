use std::sync::{Arc, OnceLock};

use super::cluster::Cluster;
use super::connection::{Connection, explain, has_code};
use crate::error::Error;

/// Routes commands to the server for a key.
#[derive(Debug)]
pub(crate) enum Topology {
    One(Arc<Connection>),
    Cluster(Box<Cluster>),
    /// A cluster client created by the user. It routes commands by key, but transactions need to stay on the
    /// same server, so we create our own cluster on demand.
    UserClient(Arc<Connection>, OnceLock<Box<Cluster>>),
}

impl Topology {
    /// Sends a request to the server for this key. In a cluster, this retries on a different server if the
    /// slot has moved.
    pub(crate) async fn send<T, F: Future<Output = Result<T, Error>>>(
        &self,
        key: &str,
        send: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, Error> {
        match self {
            Self::One(server) | Self::UserClient(server, _) => send(Arc::clone(server)).await,
            Self::Cluster(cluster) => match cluster.learn(send(cluster.owner(key).await?).await) {
                // The command has not been executed, and the refreshed map will name the right server.
                Err(error) if has_code(&error, "MOVED") => {
                    cluster.learn(send(cluster.owner(key).await?).await)
                }
                reply => reply,
            },
        }
    }

    /// Returns the connection used for commands on this key: the server, or the client if the user created
    /// one, which routes commands itself.
    pub(crate) async fn connection(&self, key: &str) -> Result<Arc<Connection>, Error> {
        match self {
            Self::One(server) | Self::UserClient(server, _) => Ok(Arc::clone(server)),
            Self::Cluster(cluster) => cluster.owner(key).await,
        }
    }

    /// Returns the server for this key, for commands that must all be sent to the same server.
    pub(crate) async fn server(&self, key: &str) -> Result<Arc<Connection>, Error> {
        match self {
            Self::One(server) => Ok(Arc::clone(server)),
            Self::Cluster(cluster) => cluster.owner(key).await,
            Self::UserClient(client, cluster) => {
                let cluster = match cluster.get() {
                    Some(cluster) => cluster,
                    None => {
                        let new = Cluster::open(client.config()).map_err(explain)?;
                        cluster.get_or_init(|| Box::new(new))
                    }
                };
                cluster.owner(key).await
            }
        }
    }

    /// Marks the cluster slot map as stale if a reply shows that it is out of date. Returns the reply.
    pub(crate) fn learn<T>(&self, reply: Result<T, Error>) -> Result<T, Error> {
        match self {
            Self::One(_) => reply,
            Self::Cluster(cluster) => cluster.learn(reply),
            Self::UserClient(_, cluster) => match cluster.get() {
                Some(cluster) => cluster.learn(reply),
                None => reply,
            },
        }
    }

    /// Waits a few seconds at most for the initial connection.
    pub(crate) async fn wait(&self) {
        match self {
            Self::One(server) | Self::UserClient(server, _) => server.wait().await,
            Self::Cluster(cluster) => cluster.wait().await,
        }
    }

    /// Returns the number of connections made.
    pub(crate) fn connections(&self) -> u64 {
        match self {
            Self::One(server) => server.connections(),
            Self::Cluster(cluster) => cluster.connections(),
            Self::UserClient(client, cluster) => {
                client.connections() + cluster.get().map_or(0, |cluster| cluster.connections())
            }
        }
    }
}
