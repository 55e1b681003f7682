//! A Redis cluster that is started for one test.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::redis::{RedisServer, address, free_port, owned, plain};
use crate::resp::Value;
use crate::until::block_until;

/// Upper bound for the time that the nodes need to agree.
const LIMIT: Duration = crate::until::LIMIT;

/// Number of masters. Three is the minimum for a majority if a node dies.
const NODES: usize = 3;

/// Number of slots in a Redis cluster.
const SLOTS: u16 = 16_384;

/// Offset from the port of a node to the port of the cluster bus.
const BUS_PORT_OFFSET: u16 = 10_000;

/// Three masters without replicas. Each is a [`RedisServer`] with a third of the slots.
///
/// A node keeps its data across a restart. If a node can't be reached, the rest of the cluster will continue
/// to serve the other slots. All methods block. A cluster will accept writes two seconds after the nodes
/// start at the earliest, because Redis enforces this delay.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    /// Node ids inside the cluster.
    ids: Vec<String>,
}

impl RedisCluster {
    /// Starts a cluster in which a node is marked as failed if it does not respond for a second.
    ///
    /// # Panics
    ///
    /// Panics if the cluster is not complete within two minutes.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a cluster with additional arguments for the nodes, e.g. `&["--cluster-require-full-coverage",
    /// "yes"]`. These override the arguments of [`start`](Self::start).
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start), and if the servers reject the arguments.
    #[must_use]
    pub fn start_with(arguments: &[&str]) -> Self {
        let cluster = Self::start_nodes(arguments);
        cluster.assign_slots();
        cluster.introduce();
        cluster.until_healthy();
        cluster
    }

    fn start_nodes(arguments: &[&str]) -> Self {
        // In parallel, because a node rejects writes for two seconds after startup.
        let nodes: Vec<RedisServer> = thread::scope(|scope| {
            let starting: Vec<_> = (0..NODES).map(|_| scope.spawn(|| start_node(arguments))).collect();
            starting.into_iter().map(|node| node.join().expect("the node starts")).collect()
        });
        let ids = nodes.iter().map(id).collect();
        Self { nodes, ids }
    }

    /// Assigns slots and an epoch to the nodes.
    fn assign_slots(&self) {
        let mut end = SLOTS;
        for (i, node) in self.nodes.iter().enumerate().rev() {
            let start = end - end / (u16::try_from(i).expect("few nodes") + 1);
            // Redis 6.2 does not have ADDSLOTSRANGE.
            let add = ["CLUSTER".to_owned(), "ADDSLOTS".to_owned()];
            let slots = (start..end).map(|slot| slot.to_string());
            assert_ok(&node.command(&add.into_iter().chain(slots).collect::<Vec<_>>()));
            end = start;
            // With distinct epochs, the nodes do not need to resolve a conflict.
            assert_ok(&node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(i + 1).to_string()]));
        }
    }

    /// Connects the nodes. This must be called after the epochs are set, because `SET-CONFIG-EPOCH` fails on
    /// a node that knows other nodes.
    ///
    /// A node will abort a handshake that takes longer than a second. It might then know no other node
    /// although the rest of the cluster knows it, so we repeat the command until all nodes agree.
    fn introduce(&self) {
        let port = self.nodes[0].port().to_string();
        let meet = || {
            for node in &self.nodes[1..] {
                assert_ok(&node.command(&["CLUSTER", "MEET", "127.0.0.1", &port]));
            }
        };
        meet();
        block_until("the nodes know each other", LIMIT, || {
            let views: Vec<_> = self.nodes.iter().map(cluster_nodes).collect();
            if views.iter().any(|cluster_nodes| cluster_nodes.contains("handshake")) {
                return false;
            }
            let all_met = views.iter().all(|cluster_nodes| cluster_nodes.lines().count() == NODES);
            if !all_met {
                meet();
            }
            all_met
        });
    }

    /// Returns the nodes. The order never changes.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Returns the node at this index in [`nodes`](Self::nodes).
    #[must_use]
    pub fn node(&self, i: usize) -> &RedisServer {
        &self.nodes[i]
    }

    /// Returns the addresses of all nodes as a URL for `fred`:
    /// `redis-cluster://127.0.0.1:PORT?node=127.0.0.1:PORT&node=127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.nodes.iter().map(|node| node.address().to_string()).collect();
        format!("redis-cluster://{}", addresses.join("&node=").replacen('&', "?", 1))
    }

    /// Returns the slot of a key.
    ///
    /// # Panics
    ///
    /// Panics if no node is up.
    #[must_use]
    pub fn slot_of(&self, key: impl AsRef<[u8]>) -> u16 {
        let slot = self.command_any(&[b"CLUSTER", b"KEYSLOT", key.as_ref()]);
        u16::try_from(int(&slot)).expect("a slot is small")
    }

    /// Returns the index of the node that owns the slot. During a migration, this is always the source node.
    ///
    /// # Panics
    ///
    /// Panics if no node is up, or if the slot is not assigned.
    #[must_use]
    pub fn master_of(&self, slot: u16) -> usize {
        let Value::Array(ranges) = self.command_any(&["CLUSTER", "SLOTS"]) else {
            panic!("CLUSTER SLOTS replies with ranges");
        };
        let port = ranges
            .iter()
            .find_map(|range| {
                let Value::Array(range) = range else { return None };
                let [start, end, Value::Array(master), ..] = range.as_slice() else { return None };
                (int(start)..=int(end)).contains(&i64::from(slot)).then(|| int(&master[1]))
            })
            .unwrap_or_else(|| panic!("slot {slot} has no master"));
        let index = self.nodes.iter().position(|node| i64::from(node.port()) == port);
        index.expect("the cluster only contains these nodes")
    }

    /// Returns the index of the node that owns the key, i.e. the [`master_of`](Self::master_of) the
    /// [slot](Self::slot_of).
    ///
    /// # Panics
    ///
    /// Panics if no node is up.
    #[must_use]
    pub fn owner_of(&self, key: impl AsRef<[u8]>) -> usize {
        self.master_of(self.slot_of(key))
    }

    /// Runs a command on the node that stores the key. This also works during a migration.
    ///
    /// # Panics
    ///
    /// Panics if the reply can't be received.
    pub fn command_on_owner(&self, key: impl AsRef<[u8]>, words: &[impl AsRef<[u8]>]) -> Value {
        let reply = self.nodes[self.owner_of(key)].command(words);
        let Value::Error(text) = &reply else { return reply };
        let Some(address) = text.strip_prefix("ASK ").and_then(|text| text.split(' ').nth(1)) else {
            return reply;
        };
        let target = self.nodes.iter().find(|node| node.address().to_string() == address);
        target.expect("the cluster only contains these nodes").command_asking(words)
    }

    /// Returns the sum of the integers that all nodes reply, e.g. to `DBSIZE`.
    ///
    /// # Panics
    ///
    /// Panics if a node can't be reached, or if it does not reply with an integer.
    pub fn sum(&self, words: &[impl AsRef<[u8]>]) -> i64 {
        self.nodes.iter().map(|node| node.int(words)).sum()
    }

    /// Returns the keys on all nodes that match a pattern, in order.
    ///
    /// # Panics
    ///
    /// Panics if a node can't be reached, or if a key is not UTF-8.
    #[must_use]
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<String> =
            self.nodes.iter().flat_map(|node| node.strings(&["KEYS", pattern])).collect();
        keys.sort_unstable();
        keys
    }

    /// Stops a node cleanly. See [`RedisServer::stop`].
    pub fn stop_node(&mut self, i: usize) {
        self.nodes[i].stop();
    }

    /// Kills a node. See [`RedisServer::kill`].
    pub fn kill_node(&mut self, i: usize) {
        self.nodes[i].kill();
    }

    /// Restarts a node with the same data and slots, and waits until the cluster is healthy.
    ///
    /// # Panics
    ///
    /// Panics if this takes more than two minutes.
    pub fn restart_node(&mut self, i: usize) {
        self.nodes[i].restart();
        self.until_healthy();
    }

    /// Waits until all other nodes mark this node as failed. This takes about two seconds.
    ///
    /// # Panics
    ///
    /// Panics if this takes more than two minutes.
    pub fn until_failed(&self, i: usize) {
        let others = || self.nodes.iter().enumerate().filter(|(other, _)| *other != i);
        block_until("the node is marked as failed", LIMIT, || {
            others().all(|(_, node)| cluster_nodes(node).contains(&format!(":{} master,fail ", self.bus(i))))
        });
    }

    /// Waits until all nodes are up and see each other, and all slots are served.
    ///
    /// # Panics
    ///
    /// Panics if this takes more than two minutes.
    pub fn until_healthy(&self) {
        block_until("the cluster is healthy", LIMIT, || self.nodes.iter().all(is_healthy));
    }

    /// Starts to migrate a slot to a different node. This does not move any keys yet.
    ///
    /// From now on, the source node replies with `ASK` to a command on a key that it does not have, and with
    /// `TRYAGAIN` if it only has some of the keys.
    ///
    /// # Panics
    ///
    /// Panics if the slot is already on that node, or if a node can't be reached.
    pub fn begin_migration(&self, slot: u16, to: usize) -> Migration {
        let migration = Migration { slot, from: self.master_of(slot), to };
        let slot = slot.to_string();
        // In this order, so that the target is ready when the source redirects the first client.
        let from = &self.ids[migration.from];
        assert_ok(&self.nodes[to].command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", from]));
        let to = &self.ids[to];
        assert_ok(&self.nodes[migration.from].command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", to]));
        migration
    }

    /// Moves these keys of the slot. Missing keys are ignored.
    ///
    /// # Panics
    ///
    /// Panics if a key belongs to a different slot, or if a node can't be reached.
    pub fn move_keys(&self, migration: Migration, keys: &[impl AsRef<[u8]>]) {
        let port = self.nodes[migration.to].port().to_string();
        let mut words: Vec<&[u8]> =
            vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"5000", b"KEYS"];
        words.extend(keys.iter().map(AsRef::as_ref));
        let reply = self.nodes[migration.from].command(&words);
        assert!(matches!(&reply, Value::Simple(text) if text == "OK" || text == "NOKEY"), "{reply:?}");
    }

    /// Moves the rest of the keys, and assigns the slot to the target node.
    ///
    /// # Panics
    ///
    /// Panics if a node can't be reached.
    pub fn end_migration(&self, migration: Migration) {
        let Migration { slot, from, to } = migration;
        let slot = slot.to_string();
        loop {
            let keys = self.nodes[from].strings(&["CLUSTER", "GETKEYSINSLOT", &slot, "1000"]);
            if keys.is_empty() {
                break;
            }
            self.move_keys(migration, &keys);
        }
        // The target first: no other node may redirect clients to it until it owns the slot.
        let others = (0..NODES).filter(|&i| i != to && i != from);
        for i in [to, from].into_iter().chain(others) {
            assert_ok(&self.nodes[i].command(&["CLUSTER", "SETSLOT", &slot, "NODE", &self.ids[to]]));
        }
    }

    /// Migrates a slot with all keys to a different node.
    ///
    /// # Panics
    ///
    /// Panics if the slot is already on that node, or if a node can't be reached.
    pub fn migrate_slot(&self, slot: u16, to: usize) {
        self.end_migration(self.begin_migration(slot, to));
    }

    /// Returns the reply of any node that is up.
    fn command_any(&self, words: &[impl AsRef<[u8]>]) -> Value {
        self.nodes.iter().find_map(|node| node.try_command(words).ok()).expect("a node is up")
    }

    /// Returns the end of the node address, as it appears in `CLUSTER NODES`.
    fn bus(&self, i: usize) -> String {
        let port = self.nodes[i].port();
        format!("{port}@{}", port + BUS_PORT_OFFSET)
    }
}

/// A slot that is being migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The slot.
    pub slot: u16,
    /// Index of the source node.
    pub from: usize,
    /// Index of the target node.
    pub to: usize,
}

fn start_node(arguments: &[&str]) -> RedisServer {
    let node_arguments = [
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        "1000",
        "--cluster-require-full-coverage",
        "no",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ];
    RedisServer::start_on(free_port_with_bus, |_, port| {
        plain(port).chain(owned(&node_arguments)).chain(owned(arguments)).collect()
    })
}

/// Returns a port that is free together with the corresponding bus port.
fn free_port_with_bus() -> u16 {
    loop {
        let port = free_port();
        let bus = port.checked_add(BUS_PORT_OFFSET);
        if bus.is_some_and(|bus| TcpListener::bind(address(bus)).is_ok()) {
            return port;
        }
    }
}

fn id(node: &RedisServer) -> String {
    node.command(&["CLUSTER", "MYID"]).text().expect("CLUSTER MYID replies with text")
}

/// Returns `CLUSTER NODES` as seen by this node, with one line per node.
fn cluster_nodes(node: &RedisServer) -> String {
    node.command(&["CLUSTER", "NODES"]).text().expect("CLUSTER NODES replies with text")
}

fn is_healthy(node: &RedisServer) -> bool {
    let info = node.command(&["CLUSTER", "INFO"]).text().expect("CLUSTER INFO replies with text");
    let is = |fact: String| info.lines().any(|line| line == fact);
    let all_slots_served = is("cluster_state:ok".to_owned()) && is(format!("cluster_slots_ok:{SLOTS}"));
    let cluster_nodes = cluster_nodes(node);
    let all_linked = cluster_nodes.lines().filter(|line| line.contains(" connected")).count() == NODES;
    all_slots_served && all_linked && !cluster_nodes.contains("fail") && !cluster_nodes.contains("handshake")
}

fn int(value: &Value) -> i64 {
    let Value::Int(number) = value else { panic!("not an integer: {value:?}") };
    *number
}

fn assert_ok(reply: &Value) {
    assert_eq!(reply, &Value::Simple("OK".to_owned()));
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::{RedisCluster, Value, id};
    use crate::resp::encode;

    fn error(reply: &Value) -> &str {
        let Value::Error(text) = reply else { panic!("no error: {reply:?}") };
        text
    }

    #[test]
    fn a_missed_handshake_is_retried() {
        let cluster = RedisCluster::start_nodes(&["--enable-debug-command", "yes"]);
        cluster.assign_slots();
        let mut client = UnixStream::connect(cluster.node(0).socket()).expect("it accepts");
        client.write_all(&encode(&["DEBUG", "SLEEP", "3"])).expect("it is sent");
        cluster.introduce();
        cluster.until_healthy();
    }

    #[test]
    fn keys_are_distributed_and_other_nodes_redirect() {
        let cluster = RedisCluster::start();
        assert_eq!(cluster.url().matches("127.0.0.1:").count(), 3);
        for n in 0..300 {
            let key = format!("key{n}");
            let owner = cluster.owner_of(&key);
            assert_eq!(cluster.node(owner).int(&["INCR", &key]), 1);
            let other = cluster.node((owner + 1) % 3).command(&["INCR", &key]);
            assert!(error(&other).starts_with("MOVED "), "{other:?}");
        }
        assert_eq!(cluster.sum(&["DBSIZE"]), 300);
        assert_eq!(cluster.keys("key*").len(), 300);
        assert!(cluster.nodes().iter().all(|node| node.int(&["DBSIZE"]) > 60));
        assert_eq!(cluster.slot_of("{key1}:a"), cluster.slot_of("key1"));
        for (slot, master) in [(0, 0), (16_383, 2)] {
            assert_eq!(cluster.master_of(slot), master);
        }
    }

    #[test]
    fn a_restarted_node_has_the_same_keys() {
        let mut cluster = RedisCluster::start();
        let (alive, dead) = (cluster.owner_of("a"), cluster.owner_of("b"));
        assert_ne!(alive, dead);
        let set = |cluster: &RedisCluster, key: &str| {
            cluster.command_on_owner(key, &["SET", key, "1"]);
        };
        set(&cluster, "a");
        set(&cluster, "b");
        cluster.kill_node(dead);
        cluster.until_failed(dead);
        assert_eq!(cluster.owner_of("b"), dead);
        assert_eq!(cluster.command_on_owner("a", &["INCR", "a"]), Value::Int(2));
        let name = cluster.ids[dead].clone();
        cluster.restart_node(dead);
        assert_eq!(id(cluster.node(dead)), name);
        assert_eq!(cluster.command_on_owner("b", &["INCR", "b"]), Value::Int(2));
        cluster.stop_node(dead);
        cluster.restart_node(dead);
        assert_eq!(cluster.command_on_owner("b", &["GET", "b"]), Value::Bulk(b"2".to_vec()));
    }

    #[test]
    fn a_migration_can_be_paused_halfway() {
        let cluster = RedisCluster::start();
        let (here, moved) = ("{slot}:here", "{slot}:moved");
        let slot = cluster.slot_of(here);
        let from = cluster.master_of(slot);
        let to = (from + 1) % 3;
        for key in [here, moved] {
            cluster.node(from).command(&["SET", key, "1"]);
        }
        let both = ["EVAL", "return redis.call('INCR', KEYS[1])", "2", here, moved];
        let migration = cluster.begin_migration(slot, to);
        assert_eq!((migration.from, migration.to), (from, to));
        assert_eq!(cluster.node(from).int(&both), 2);
        cluster.move_keys(migration, &[moved, "{slot}:unknown"]);
        assert_eq!(cluster.master_of(slot), from);
        let reply = cluster.node(from).command(&both);
        assert!(error(&reply).starts_with("TRYAGAIN"), "{reply:?}");
        let reply = cluster.node(from).command(&["INCR", moved]);
        assert!(error(&reply).starts_with(&format!("ASK {slot} ")), "{reply:?}");
        assert_eq!(cluster.command_on_owner(moved, &["INCR", moved]), Value::Int(2));
        assert_eq!(cluster.command_on_owner(here, &["INCR", here]), Value::Int(3));
        cluster.end_migration(migration);
        assert_eq!(cluster.node(to).int(&both), 4);
        assert_eq!(cluster.node(from).int(&["DBSIZE"]), 0);
        for node in cluster.nodes() {
            let reply = node.command(&["GET", moved]);
            assert!(reply == Value::Bulk(b"2".to_vec()) || error(&reply).starts_with("MOVED "));
        }
        cluster.migrate_slot(slot, from);
        assert_eq!(cluster.node(from).int(&both), 5);
    }
}
