//! A real Redis cluster of a test's own.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::redis::{RedisServer, address, free_port, owned, plain};
use crate::resp::Value;
use crate::until::block_until;

/// How long the cluster may take to come to an agreement.
const LIMIT: Duration = crate::until::LIMIT;

/// How many masters there are: the least of which a majority survives the death of one.
const NODES: usize = 3;

/// How many slots the keys are spread over.
const SLOTS: u16 = 16_384;

/// How far above its port each node speaks to the others.
const TO_BUS: u16 = 10_000;

/// Three masters without replicas, each a [`RedisServer`] with a third of the slots.
///
/// A node keeps its data over a restart, and while it is down the others go on with their slots.
/// Its methods block. A cluster is writable two seconds after its nodes have started at the
/// earliest, as the servers will have it.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    /// What the nodes call each other.
    ids: Vec<String>,
}

impl RedisCluster {
    /// Starts a cluster whose nodes take one of them for dead after a second of silence.
    ///
    /// # Panics
    ///
    /// When it is not complete within two minutes.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a cluster with further arguments to each node, such as
    /// `&["--cluster-require-full-coverage", "yes"]`; they win over those of
    /// [`start`](Self::start).
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start), also when the servers do not like the arguments.
    #[must_use]
    pub fn start_with(arguments: &[&str]) -> Self {
        let cluster = Self::start_nodes(arguments);
        cluster.assign_slots();
        cluster.introduce();
        cluster.until_whole();
        cluster
    }

    fn start_nodes(arguments: &[&str]) -> Self {
        // At the same time: each lets two seconds pass before it takes writes.
        let nodes: Vec<RedisServer> = thread::scope(|scope| {
            let starting: Vec<_> = (0..NODES).map(|_| scope.spawn(|| start_node(arguments))).collect();
            starting.into_iter().map(|node| node.join().expect("the node starts")).collect()
        });
        let ids = nodes.iter().map(id).collect();
        Self { nodes, ids }
    }

    /// Gives each node its slots and its epoch.
    fn assign_slots(&self) {
        let mut end = SLOTS;
        for (i, node) in self.nodes.iter().enumerate().rev() {
            let start = end - end / (u16::try_from(i).expect("few nodes") + 1);
            done(&node.command(&["CLUSTER", "ADDSLOTSRANGE", &start.to_string(), &(end - 1).to_string()]));
            end = start;
            // Each claims under an epoch of its own, so that nobody has to settle which is later.
            done(&node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(i + 1).to_string()]));
        }
    }

    /// Makes the nodes known to each other, when all of them have an epoch: a node that has been met is given none.
    ///
    /// A node gives up a handshake that takes longer than a second. Then it may know no other node although the others know
    /// it, so it is introduced again.
    fn introduce(&self) {
        let port = self.nodes[0].port().to_string();
        let meet = || {
            for node in &self.nodes[1..] {
                done(&node.command(&["CLUSTER", "MEET", "127.0.0.1", &port]));
            }
        };
        meet();
        block_until("the nodes know each other", LIMIT, || {
            let views: Vec<_> = self.nodes.iter().map(view).collect();
            if views.iter().any(|view| view.contains("handshake")) {
                return false;
            }
            let have_met = views.iter().all(|view| view.lines().count() == NODES);
            if !have_met {
                meet();
            }
            have_met
        });
    }

    /// The nodes; the same for life.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// One of the [`nodes`](Self::nodes).
    #[must_use]
    pub fn node(&self, i: usize) -> &RedisServer {
        &self.nodes[i]
    }

    /// The addresses of all nodes as `fred` takes them:
    /// `redis-cluster://127.0.0.1:PORT?node=127.0.0.1:PORT&node=127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.nodes.iter().map(|node| node.address().to_string()).collect();
        format!("redis-cluster://{}", addresses.join("&node=").replacen('&', "?", 1))
    }

    /// The slot of a key.
    ///
    /// # Panics
    ///
    /// When no node is up.
    #[must_use]
    pub fn slot_of(&self, key: impl AsRef<[u8]>) -> u16 {
        let slot = self.ask_any(&[b"CLUSTER", b"KEYSLOT", key.as_ref()]);
        u16::try_from(int(&slot)).expect("a slot is small")
    }

    /// The number of the node that has the slot: while the slot moves, still the one that it comes from.
    ///
    /// # Panics
    ///
    /// When no node is up, or none has it.
    #[must_use]
    pub fn master_of(&self, slot: u16) -> usize {
        let Value::Array(ranges) = self.ask_any(&["CLUSTER", "SLOTS"]) else {
            panic!("CLUSTER SLOTS answers ranges");
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
        index.expect("the nodes know each other alone")
    }

    /// The number of the node that has the key: [`master_of`](Self::master_of) its [slot](Self::slot_of).
    ///
    /// # Panics
    ///
    /// When no node is up.
    #[must_use]
    pub fn owner_of(&self, key: impl AsRef<[u8]>) -> usize {
        self.master_of(self.slot_of(key))
    }

    /// Runs one command where the key is, also while its slot is on its way.
    ///
    /// # Panics
    ///
    /// When there is no answer.
    pub fn command_on_owner(&self, key: impl AsRef<[u8]>, words: &[impl AsRef<[u8]>]) -> Value {
        let answer = self.nodes[self.owner_of(key)].command(words);
        let Value::Error(text) = &answer else { return answer };
        let Some(address) = text.strip_prefix("ASK ").and_then(|text| text.split(' ').nth(1)) else {
            return answer;
        };
        let asked = self.nodes.iter().find(|node| node.address().to_string() == address);
        asked.expect("the nodes know each other alone").command_asking(words)
    }

    /// The sum of the integers that a command answers on all nodes, such as `DBSIZE`.
    ///
    /// # Panics
    ///
    /// When a node is down or answers anything else.
    pub fn sum(&self, words: &[impl AsRef<[u8]>]) -> i64 {
        self.nodes.iter().map(|node| node.int(words)).sum()
    }

    /// The keys of all nodes that match a pattern, in order.
    ///
    /// # Panics
    ///
    /// When a node is down, or a key is not UTF-8.
    #[must_use]
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<String> =
            self.nodes.iter().flat_map(|node| node.strings(&["KEYS", pattern])).collect();
        keys.sort_unstable();
        keys
    }

    /// Stops a node cleanly; see [`RedisServer::stop`].
    pub fn stop_node(&mut self, i: usize) {
        self.nodes[i].stop();
    }

    /// Ends a node at once; see [`RedisServer::kill`].
    pub fn kill_node(&mut self, i: usize) {
        self.nodes[i].kill();
    }

    /// Starts a node again, with its data and slots, and waits until the cluster is whole.
    ///
    /// # Panics
    ///
    /// When that takes more than two minutes.
    pub fn restart_node(&mut self, i: usize) {
        self.nodes[i].restart();
        self.until_whole();
    }

    /// Waits until all other nodes have taken this one for dead: about two seconds after its end.
    ///
    /// # Panics
    ///
    /// When that takes more than two minutes.
    pub fn until_missed(&self, i: usize) {
        let others = || self.nodes.iter().enumerate().filter(|(other, _)| *other != i);
        block_until("the dead node is missed", LIMIT, || {
            others().all(|(_, node)| view(node).contains(&format!(":{} master,fail ", self.bus(i))))
        });
    }

    /// Waits until all nodes are up, hold each other for alive, and all slots are served.
    ///
    /// # Panics
    ///
    /// When that takes more than two minutes.
    pub fn until_whole(&self) {
        block_until("the cluster is whole", LIMIT, || self.nodes.iter().all(sees_all_well));
    }

    /// Puts a slot on its way to another node; none of its keys moves yet.
    ///
    /// From now on the node that has it answers `ASK` for keys that it does not have, and
    /// `TRYAGAIN` for several keys of which it has but some.
    ///
    /// # Panics
    ///
    /// When the slot is there already, or a node is down.
    pub fn begin_migration(&self, slot: u16, to: usize) -> Migration {
        let migration = Migration { slot, from: self.master_of(slot), to };
        let slot = slot.to_string();
        // In this order: whoever is sent on finds the door open.
        let from = &self.ids[migration.from];
        done(&self.nodes[to].command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", from]));
        let to = &self.ids[to];
        done(&self.nodes[migration.from].command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", to]));
        migration
    }

    /// Moves these keys of the slot, those that are there.
    ///
    /// # Panics
    ///
    /// When a key is of another slot, or a node is down.
    pub fn move_keys(&self, migration: Migration, keys: &[impl AsRef<[u8]>]) {
        let port = self.nodes[migration.to].port().to_string();
        let mut words: Vec<&[u8]> =
            vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"5000", b"KEYS"];
        words.extend(keys.iter().map(AsRef::as_ref));
        let answer = self.nodes[migration.from].command(&words);
        assert!(matches!(&answer, Value::Simple(text) if text == "OK" || text == "NOKEY"), "{answer:?}");
    }

    /// Moves the keys of the slot that are left, and gives the slot to its new node.
    ///
    /// # Panics
    ///
    /// When a node is down.
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
        // The new master first: until it knows, nobody may send others there.
        let others = (0..NODES).filter(|&i| i != to && i != from);
        for i in [to, from].into_iter().chain(others) {
            done(&self.nodes[i].command(&["CLUSTER", "SETSLOT", &slot, "NODE", &self.ids[to]]));
        }
    }

    /// Moves a slot with all of its keys to another node.
    ///
    /// # Panics
    ///
    /// When the slot is there already, or a node is down.
    pub fn migrate_slot(&self, slot: u16, to: usize) {
        self.end_migration(self.begin_migration(slot, to));
    }

    /// What the first node that is up answers.
    fn ask_any(&self, words: &[impl AsRef<[u8]>]) -> Value {
        self.nodes.iter().find_map(|node| node.try_command(words).ok()).expect("a node is up")
    }

    /// The end of the node's address in the words of its fellows.
    fn bus(&self, i: usize) -> String {
        let port = self.nodes[i].port();
        format!("{port}@{}", port + TO_BUS)
    }
}

/// A slot that is on its way from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The slot.
    pub slot: u16,
    /// The node that it leaves.
    pub from: usize,
    /// The node that it goes to.
    pub to: usize,
}

fn start_node(arguments: &[&str]) -> RedisServer {
    let of_node = [
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
        plain(port).chain(owned(&of_node)).chain(owned(arguments)).collect()
    })
}

/// A port that was free just now, with that of the bus above it.
fn free_port_with_bus() -> u16 {
    loop {
        let port = free_port();
        let bus = port.checked_add(TO_BUS);
        if bus.is_some_and(|bus| TcpListener::bind(address(bus)).is_ok()) {
            return port;
        }
    }
}

fn id(node: &RedisServer) -> String {
    node.command(&["CLUSTER", "MYID"]).text().expect("an id is text")
}

/// What a node knows about all, a line for each.
fn view(node: &RedisServer) -> String {
    node.command(&["CLUSTER", "NODES"]).text().expect("a view is text")
}

fn sees_all_well(node: &RedisServer) -> bool {
    let facts = node.command(&["CLUSTER", "INFO"]).text().expect("facts are text");
    let is = |fact: String| facts.lines().any(|line| line == fact);
    let all_slots_served = is("cluster_state:ok".to_owned()) && is(format!("cluster_slots_ok:{SLOTS}"));
    let view = view(node);
    let all_linked = view.lines().filter(|line| line.contains(" connected")).count() == NODES;
    all_slots_served && all_linked && !view.contains("fail") && !view.contains("handshake")
}

fn int(value: &Value) -> i64 {
    let Value::Int(number) = value else { panic!("not an integer: {value:?}") };
    *number
}

fn done(answer: &Value) {
    assert_eq!(answer, &Value::Simple("OK".to_owned()));
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::{RedisCluster, Value, id};
    use crate::resp::encode;

    fn error(answer: &Value) -> &str {
        let Value::Error(text) = answer else { panic!("no error: {answer:?}") };
        text
    }

    #[test]
    fn a_node_that_misses_a_handshake_is_introduced_again() {
        let cluster = RedisCluster::start_nodes(&["--enable-debug-command", "yes"]);
        cluster.assign_slots();
        let mut client = UnixStream::connect(cluster.node(0).socket()).expect("it accepts");
        client.write_all(&encode(&["DEBUG", "SLEEP", "3"])).expect("it is sent");
        cluster.introduce();
        cluster.until_whole();
    }

    #[test]
    fn every_key_has_one_node_and_the_others_know_it() {
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
    fn a_node_that_dies_takes_its_keys_along_and_brings_them_back() {
        let mut cluster = RedisCluster::start();
        let (there, gone) = (cluster.owner_of("a"), cluster.owner_of("b"));
        assert_ne!(there, gone);
        let set = |cluster: &RedisCluster, key: &str| {
            cluster.command_on_owner(key, &["SET", key, "1"]);
        };
        set(&cluster, "a");
        set(&cluster, "b");
        cluster.kill_node(gone);
        cluster.until_missed(gone);
        assert_eq!(cluster.owner_of("b"), gone);
        assert_eq!(cluster.command_on_owner("a", &["INCR", "a"]), Value::Int(2));
        let name = cluster.ids[gone].clone();
        cluster.restart_node(gone);
        assert_eq!(id(cluster.node(gone)), name);
        assert_eq!(cluster.command_on_owner("b", &["INCR", "b"]), Value::Int(2));
        cluster.stop_node(gone);
        cluster.restart_node(gone);
        assert_eq!(cluster.command_on_owner("b", &["GET", "b"]), Value::Bulk(b"2".to_vec()));
    }

    #[test]
    fn a_slot_may_be_held_half_way() {
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
        let answer = cluster.node(from).command(&both);
        assert!(error(&answer).starts_with("TRYAGAIN"), "{answer:?}");
        let answer = cluster.node(from).command(&["INCR", moved]);
        assert!(error(&answer).starts_with(&format!("ASK {slot} ")), "{answer:?}");
        assert_eq!(cluster.command_on_owner(moved, &["INCR", moved]), Value::Int(2));
        assert_eq!(cluster.command_on_owner(here, &["INCR", here]), Value::Int(3));
        cluster.end_migration(migration);
        assert_eq!(cluster.node(to).int(&both), 4);
        assert_eq!(cluster.node(from).int(&["DBSIZE"]), 0);
        for node in cluster.nodes() {
            let answer = node.command(&["GET", moved]);
            assert!(answer == Value::Bulk(b"2".to_vec()) || error(&answer).starts_with("MOVED "));
        }
        cluster.migrate_slot(slot, from);
        assert_eq!(cluster.node(from).int(&both), 5);
    }
}
