//! A Redis Cluster as many single servers.
//!
//! While one node is away, fred's own cluster client returns nothing for any slot, and an `ASK` ends its
//! task. So every node has a client of its own here, which knows of no cluster, and the map from slots to
//! nodes is kept here. A node that is away only affects its own shards.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};

use fred::error::Error as FredError;
use fred::types::Value;
use fred::types::config::{Config, Server, ServerConfig};
use fred::util::redis_keyslot;
use futures_util::future::{join_all, select_ok};

use super::connection::{Connection, converted, explain, has_code, unavailable};
use crate::error::{Error, ErrorKind};
use crate::family::future::{Answer, BoxFuture};

#[derive(Debug)]
pub(crate) struct Cluster {
    /// The configuration of each node's connection, except for its address.
    config: Config,
    /// The nodes that the user named.
    seeds: Vec<Server>,
    map: Mutex<Map>,
    /// Held while asking for the map, so that one caller does at a time.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Map {
    nodes: HashMap<Server, Arc<Connection>>,
    /// The connections that were made to nodes that are gone.
    gone: u64,
    masters: Vec<(RangeInclusive<u16>, Server)>,
    /// True if an answer has shown the map to be out of date.
    stale: bool,
    /// The number of times that nodes were asked for the map, whether they answered or not.
    asked: u64,
}

impl Cluster {
    /// Starts to connect to the nodes that the user named.
    pub(crate) fn open(config: Config) -> Result<Self, FredError> {
        let seeds = config.server.hosts();
        let mut map = Map { stale: true, ..Map::default() };
        for seed in &seeds {
            map.nodes.insert(seed.clone(), connection(&config, seed)?);
        }
        Ok(Self { config, seeds, map: Mutex::new(map), asking: tokio::sync::Mutex::default() })
    }

    /// Waits for the first map and the masters in it, for at most a few seconds.
    pub(crate) fn wait(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            drop(self.refresh().await);
            let nodes: Vec<_> = self.map().nodes.values().cloned().collect();
            join_all(nodes.iter().map(|node| node.wait())).await;
        })
    }

    pub(crate) fn connections(&self) -> u64 {
        let map = self.map();
        map.gone + map.nodes.values().map(|node| node.connections()).sum::<u64>()
    }

    /// Returns the connection to the master of a key's slot.
    pub(crate) async fn owner(&self, key: &str) -> Result<Arc<Connection>, Error> {
        let stale = self.map().stale;
        if stale {
            let refreshed = self.refresh().await;
            // The old map may still be right for this key.
            if self.map().masters.is_empty() {
                refreshed?;
            }
        }
        let slot = redis_keyslot(key.as_bytes());
        let map = self.map();
        let master = map.masters.iter().find(|(slots, _)| slots.contains(&slot));
        let node = master.and_then(|(_, server)| map.nodes.get(server)).cloned();
        node.ok_or_else(|| unavailable(format!("no node of the cluster has the slot {slot}")))
    }

    /// Marks the map as out of date when a node was away or redirected a command.
    pub(crate) fn learn<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        answer.inspect_err(|error| self.doubt(error))
    }

    fn doubt(&self, error: &Error) {
        let redirected = ["MOVED", "ASK", "CLUSTERDOWN", "READONLY"].iter().any(|word| has_code(error, word));
        if redirected || *error.kind() == ErrorKind::Unavailable {
            self.map().stale = true;
        }
    }

    /// Asks all nodes for the map at once, and takes the first answer.
    fn refresh(&self) -> Answer<'_, ()> {
        Box::pin(self.refresh_now())
    }

    async fn refresh_now(&self) -> Result<(), Error> {
        let asked = self.map().asked;
        let _asking = self.asking.lock().await;
        let nodes: Vec<_> = {
            let map = self.map();
            if !map.stale {
                return Ok(());
            }
            // Callers that waited meanwhile do not ask again one after the other: it may take seconds each
            // time.
            if map.asked != asked {
                return Err(unavailable("no node of the cluster has answered"));
            }
            map.nodes.iter().map(|(server, node)| (server.clone(), Arc::clone(node))).collect()
        };
        let answer = select_ok(nodes.iter().map(|(server, node)| Box::pin(ask(server, node)))).await;
        let mut map = self.map();
        map.asked += 1;
        let (masters, _) = answer?;
        let mut wanted: Vec<_> = masters.iter().map(|(_, server)| server.clone()).collect();
        wanted.extend(self.seeds.iter().cloned());
        map.gone += map
            .nodes
            .extract_if(|server, _| !wanted.contains(server))
            .map(|(_, node)| node.connections())
            .sum::<u64>();
        for server in wanted {
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
        self.map.lock().expect("nothing panics under this lock")
    }
}

async fn ask(server: &Server, node: &Connection) -> Result<Vec<(RangeInclusive<u16>, Server)>, Error> {
    // A node that is new to us is given the time to connect.
    node.wait().await;
    let slots: Vec<Value> = converted(node.call("CLUSTER", "", vec!["SLOTS".into()]).await)?;
    let masters: Option<Vec<_>> = slots.into_iter().map(|range| master(range, server)).collect();
    let masters = masters.filter(|masters| !masters.is_empty());
    masters.ok_or_else(|| unavailable("the cluster does not know its slots"))
}

/// Reads one entry of the answer to `CLUSTER SLOTS`: first slot, last slot, master, replicas.
fn master(range: Value, asked: &Server) -> Option<(RangeInclusive<u16>, Server)> {
    let range = range.into_array();
    let slot = |at: usize| range.get(at)?.as_u64().and_then(|slot| u16::try_from(slot).ok());
    let node = range.get(2)?.clone().into_array();
    let port = node.get(1)?.as_u64().and_then(|port| u16::try_from(port).ok())?;
    // A node that does not know its own name means the one under which it was asked.
    let name = node.first()?.as_string().filter(|name| !name.is_empty() && name != "?");
    let server = Server::new(name.map_or_else(|| asked.host.clone(), Into::into), port);
    Some((slot(0)?..=slot(1)?, server))
}

fn connection(config: &Config, server: &Server) -> Result<Arc<Connection>, FredError> {
    let server = ServerConfig::Centralized { server: server.clone() };
    Connection::open(Config { server, ..config.clone() }).map(Arc::new)
}
