use std::sync::{Arc, OnceLock};

use super::cluster::Cluster;
use super::connection::{Connection, explain, has_code};
use crate::error::Error;

/// The way to the server that has a key.
#[derive(Debug)]
pub(crate) enum Topology {
    One(Arc<Connection>),
    Cluster(Box<Cluster>),
    /// A user's own client of a cluster. It sends each command to the server of its key, while a transaction
    /// has to stay with one server: so a cluster of our own is created as soon as one is needed.
    Own(Arc<Connection>, OnceLock<Box<Cluster>>),
}

impl Topology {
    /// Sends something to the server of this key; in a cluster once more, to another server, when the slot of
    /// the key has moved.
    pub(crate) async fn send<T, F: Future<Output = Result<T, Error>>>(
        &self,
        key: &str,
        send: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, Error> {
        match self {
            Self::One(server) | Self::Own(server, _) => send(Arc::clone(server)).await,
            Self::Cluster(cluster) => match cluster.learn(send(cluster.owner(key).await?).await) {
                // Nothing was executed, and the next map names the server that will.
                Err(error) if has_code(&error, "MOVED") => {
                    cluster.learn(send(cluster.owner(key).await?).await)
                }
                answer => answer,
            },
        }
    }

    /// Returns the connection that commands for this key take.
    pub(crate) async fn connection(&self, key: &str) -> Result<Arc<Connection>, Error> {
        match self {
            Self::One(server) | Self::Own(server, _) => Ok(Arc::clone(server)),
            Self::Cluster(cluster) => cluster.owner(key).await,
        }
    }

    /// Returns the server of this key, for commands that have to stay with it.
    pub(crate) async fn server(&self, key: &str) -> Result<Arc<Connection>, Error> {
        match self {
            Self::One(server) => Ok(Arc::clone(server)),
            Self::Cluster(cluster) => cluster.owner(key).await,
            Self::Own(client, cluster) => {
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

    /// Takes note of what an answer says about which server has which key.
    pub(crate) fn learn<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        match self {
            Self::One(_) => answer,
            Self::Cluster(cluster) => cluster.learn(answer),
            Self::Own(_, cluster) => match cluster.get() {
                Some(cluster) => cluster.learn(answer),
                None => answer,
            },
        }
    }

    /// Waits for the first connection, for at most a few seconds.
    pub(crate) async fn wait(&self) {
        match self {
            Self::One(server) | Self::Own(server, _) => server.wait().await,
            Self::Cluster(cluster) => cluster.wait().await,
        }
    }

    /// Returns the number of connections made.
    pub(crate) fn connections(&self) -> u64 {
        match self {
            Self::One(server) => server.connections(),
            Self::Cluster(cluster) => cluster.connections(),
            Self::Own(client, cluster) => {
                client.connections() + cluster.get().map_or(0, |cluster| cluster.connections())
            }
        }
    }
}
