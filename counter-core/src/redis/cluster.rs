//! A Redis Cluster, used as a set of single servers.
//!
//! If a node is unavailable, the fred cluster client fails for all slots, and an `ASK` redirection ends its
//! task. Therefore we create a plain client for each node, and maintain the slot map here, so that an
//! unavailable node only affects the shards on this node.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};

use fred::error::Error as FredError;
use fred::types::Value;
use fred::types::config::{Config, Server, ServerConfig};
use fred::util::redis_keyslot;
use futures_util::future::{join_all, select_ok};

use super::connection::{Connection, convert_reply, explain, has_code, unavailable};
use crate::error::{Error, ErrorKind};
use crate::family::future::{BoxFuture, StoreFuture};

#[derive(Debug)]
pub(crate) struct Cluster {
    /// Connection settings for the nodes. The address is replaced for each node.
    config: Config,
    /// The nodes configured by the user.
    seeds: Vec<Server>,
    map: Mutex<Map>,
    /// Held while the slot map is being refreshed, so that only a single caller queries the nodes.
    refreshing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Map {
    nodes: HashMap<Server, Arc<Connection>>,
    /// The number of connections made to nodes that have been removed since.
    closed: u64,
    masters: Vec<(RangeInclusive<u16>, Server)>,
    /// True if a reply shows that the slot map is out of date.
    stale: bool,
    /// The number of times the nodes have been queried for the slot map, including failed attempts.
    queried: u64,
}

impl Cluster {
    /// Starts to connect to the configured nodes.
    pub(crate) fn open(config: Config) -> Result<Self, FredError> {
        let seeds = config.server.hosts();
        let mut map = Map { stale: true, ..Map::default() };
        for seed in &seeds {
            map.nodes.insert(seed.clone(), connection(&config, seed)?);
        }
        Ok(Self { config, seeds, map: Mutex::new(map), refreshing: tokio::sync::Mutex::default() })
    }

    /// Waits a few seconds at most for the initial slot map and the connections to the masters.
    pub(crate) fn wait(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            drop(self.refresh().await);
            let nodes: Vec<_> = self.map().nodes.values().cloned().collect();
            join_all(nodes.iter().map(|node| node.wait())).await;
        })
    }

    pub(crate) fn connections(&self) -> u64 {
        let map = self.map();
        map.closed + map.nodes.values().map(|node| node.connections()).sum::<u64>()
    }

    /// Returns the connection to the master for this key.
    pub(crate) async fn owner(&self, key: &str) -> Result<Arc<Connection>, Error> {
        let stale = self.map().stale;
        if stale {
            let refreshed = self.refresh().await;
            // The old map might still be right for this key.
            if self.map().masters.is_empty() {
                refreshed?;
            }
        }
        let slot = redis_keyslot(key.as_bytes());
        let map = self.map();
        let master = map.masters.iter().find(|(slots, _)| slots.contains(&slot));
        let node = master.and_then(|(_, server)| map.nodes.get(server)).cloned();
        node.ok_or_else(|| unavailable(format!("no cluster node serves the slot {slot}")))
    }

    /// Marks the slot map as stale if a reply shows that a node is unavailable or redirects the command.
    /// Returns the reply.
    pub(crate) fn learn<T>(&self, reply: Result<T, Error>) -> Result<T, Error> {
        reply.inspect_err(|error| self.mark_stale(error))
    }

    fn mark_stale(&self, error: &Error) {
        let redirected = ["MOVED", "ASK", "CLUSTERDOWN", "READONLY"].iter().any(|code| has_code(error, code));
        if redirected || *error.kind() == ErrorKind::Unavailable {
            self.map().stale = true;
        }
    }

    /// Queries all nodes for the slot map concurrently and uses the reply that arrives first.
    fn refresh(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.refresh_map())
    }

    async fn refresh_map(&self) -> Result<(), Error> {
        let queried = self.map().queried;
        let _refreshing = self.refreshing.lock().await;
        let nodes: Vec<_> = {
            let map = self.map();
            if !map.stale {
                return Ok(());
            }
            // A query might take seconds, so callers that have been waiting for this lock should not repeat
            // it in turn.
            if map.queried != queried {
                return Err(unavailable("no cluster node responded"));
            }
            map.nodes.iter().map(|(server, node)| (server.clone(), Arc::clone(node))).collect()
        };
        let reply = select_ok(nodes.iter().map(|(server, node)| Box::pin(query_slots(server, node)))).await;
        let mut map = self.map();
        map.queried += 1;
        let (masters, _) = reply?;
        let mut servers: Vec<_> = masters.iter().map(|(_, server)| server.clone()).collect();
        servers.extend(self.seeds.iter().cloned());
        map.closed += map
            .nodes
            .extract_if(|server, _| !servers.contains(server))
            .map(|(_, node)| node.connections())
            .sum::<u64>();
        for server in servers {
            if let Entry::Vacant(place) = map.nodes.entry(server) {
                let node = connection(&self.config, place.key());
                place.insert(node.map_err(explain)?);
            }
        }
        map.masters = masters;
        map.stale = false;
        Ok(())
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().expect("the lock is never poisoned")
    }
}

async fn query_slots(
    server: &Server,
    node: &Connection,
) -> Result<Vec<(RangeInclusive<u16>, Server)>, Error> {
    // A new node needs some time to connect.
    node.wait().await;
    let slots: Vec<Value> = convert_reply(node.call("CLUSTER", "", vec!["SLOTS".into()]).await)?;
    let masters: Option<Vec<_>> = slots.into_iter().map(|range| master(range, server)).collect();
    let masters = masters.filter(|masters| !masters.is_empty());
    masters.ok_or_else(|| unavailable("the cluster did not report any slots"))
}

/// Parses an entry of the reply to `CLUSTER SLOTS`: start slot, end slot, master, replicas.
fn master(range: Value, queried: &Server) -> Option<(RangeInclusive<u16>, Server)> {
    let range = range.into_array();
    let slot = |at: usize| range.get(at)?.as_u64().and_then(|slot| u16::try_from(slot).ok());
    let node = range.get(2)?.clone().into_array();
    let port = node.get(1)?.as_u64().and_then(|port| u16::try_from(port).ok())?;
    // If a node does not report a hostname, it is reachable via the host that we queried.
    let name = node.first()?.as_string().filter(|name| !name.is_empty() && name != "?");
    let server = Server::new(name.map_or_else(|| queried.host.clone(), Into::into), port);
    Some((slot(0)?..=slot(1)?, server))
}

fn connection(config: &Config, server: &Server) -> Result<Arc<Connection>, FredError> {
    let server = ServerConfig::Centralized { server: server.clone() };
    Connection::open(Config { server, ..config.clone() }).map(Arc::new)
}
