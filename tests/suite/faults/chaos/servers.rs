use std::net::SocketAddr;
use std::time::Duration;

use counter_core::sketch::Sketch;
use counter_core::stores::Shards;
use counter_core::time::Bucket;
use counter_core::unique::UniqueStore;
use counter_core::window::WindowStore;
use counter_core::{CounterName, RedisStore, Store, VisitorId};
use tests::history::Promise;
use tests::{FaultProxy, RedisCluster, RedisSentinel, RedisServer, Value, until};
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::LIMIT;
use crate::random::Random;

/// Servers that faults can be injected into.
pub(crate) trait Servers {
    /// True if the servers may lose acknowledged data.
    const CAN_FORGET: bool;

    /// What these servers promise to readers.
    fn promise(&self) -> Promise {
        if Self::CAN_FORGET { Promise::Eventual } else { Promise::Immediate }
    }

    /// Number of fault kinds, weighted: frequent faults have multiple numbers.
    const FAULTS: u64;

    /// Maximum number of pending hits before the writers pause: on a slow machine, the writers might
    /// otherwise be faster than the flusher, and the storm would not end. A batch contains up to about this
    /// number of hits.
    const MAX_PENDING: u64 = 5_000;

    /// The store type for these servers.
    type Store: Store + UniqueStore + WindowStore + Clone;

    /// Returns a store with new connections.
    async fn store(&self) -> Self::Store;

    /// Returns the number of applied batches according to the fences.
    async fn batches(&self) -> u64;

    /// Returns the expected sketch of a bucket. If the servers can count visitors, this also checks the
    /// count.
    async fn reference(&self, counter: &CounterName, bucket: Bucket, visitors: &[VisitorId]) -> Sketch;

    /// Injects a fault of this kind and returns a description.
    async fn fault(&mut self, kind: u64, random: &mut Random) -> &'static str;

    /// True if each essential fault has taken effect, as opposed to just being injected.
    fn all_faults_took_effect(&self) -> bool;

    /// Removes the faults and waits for the servers to be in sync.
    async fn heal(&mut self);
}

/// Redis servers.
pub(crate) trait Keys {
    /// Returns the URL for clients.
    fn url(&self) -> String;

    /// Returns the number of shards if the keys are sharded.
    fn shards(&self) -> Option<Shards>;

    /// Runs a command on the server of a key.
    fn command(&self, key: &str, words: &[Vec<u8>]) -> Value;

    /// Returns the keys that match a pattern.
    fn keys(&self, pattern: &str) -> Vec<String>;

    /// Returns the full name of a counter key.
    fn key(&self, counter: &CounterName, key: &str) -> String {
        match self.shards() {
            Some(shards) => format!("{{access:{}}}{key}", shards.of(counter)),
            None => format!("access:{key}"),
        }
    }
}

pub(crate) async fn store(servers: &impl Keys) -> RedisStore {
    store_at(servers, &servers.url()).await
}

/// Returns a store that is connected to another address, such as a proxy for these servers.
pub(crate) async fn store_at(servers: &impl Keys, url: &str) -> RedisStore {
    let mut builder = RedisStore::builder();
    if let Some(shards) = servers.shards() {
        builder = builder.shards(shards);
    }
    builder.connect(url).await.expect("an address")
}

pub(crate) fn batches(servers: &impl Keys) -> u64 {
    let fences = servers.keys("*fence:*");
    let sequence = |key: &String| {
        let fence = servers.command(key, &[b"GET".to_vec(), key.clone().into()]).text().expect("a fence");
        fence.split(&[' ', ':']).next().and_then(|sequence| sequence.parse::<u64>().ok()).expect("a number")
    };
    fences.iter().map(sequence).sum()
}

pub(crate) fn reference(
    servers: &impl Keys,
    counter: &CounterName,
    bucket: Bucket,
    visitors: &[VisitorId],
) -> Sketch {
    let reference = servers.key(counter, "reference");
    servers.command(&reference, &[b"DEL".to_vec(), reference.clone().into()]);
    let ids: Vec<_> = visitors.iter().map(|visitor| visitor.as_bytes().to_vec()).collect();
    for ids in ids.chunks(1000) {
        let words = [b"PFADD".to_vec(), reference.clone().into()];
        servers.command(&reference, &[&words, ids].concat());
    }
    let Bucket { precision, start } = bucket;
    let ours = servers.key(counter, &format!("unique:{precision}:{counter}:{start}"));
    let count = |key: &str| servers.command(key, &[b"PFCOUNT".to_vec(), key.into()]);
    assert_eq!(count(&ours), count(&reference), "visitors of {counter} by {precision} s");
    let Value::Bulk(reference) = servers.command(&reference, &[b"GET".to_vec(), reference.clone().into()])
    else {
        panic!("the reference exists");
    };
    Sketch::from_redis(&reference).expect("a HyperLogLog")
}

/// A server with a proxy, configured to sync writes to disk immediately.
#[derive(Debug)]
pub(crate) struct SingleServer {
    server: RedisServer,
    proxy: FaultProxy,
    scripts: bool,
}

/// Errors that mean that a command was not executed.
const TRANSIENT_ERRORS: [&str; 5] = [
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY You can't write against a read only replica.",
    "TRYAGAIN Multiple keys request during rehashing of slot",
];

impl SingleServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[], true).await
    }

    /// Starts a server that rejects scripts, even after restarts.
    pub(crate) async fn start_without_scripts() -> Self {
        let user = ["--user", "default", "on", "nopass", "~*", "&*", "+@all", "-@scripting"];
        Self::start_with(&user, false).await
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    async fn start_with(arguments: &[&str], scripts: bool) -> Self {
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        let server = RedisServer::start_with(&[&durable, arguments].concat());
        let proxy = FaultProxy::start(server.address()).await;
        Self { server, proxy, scripts }
    }
}

impl Servers for SingleServer {
    const CAN_FORGET: bool = false;
    const FAULTS: u64 = 20;

    type Store = RedisStore;

    async fn store(&self) -> RedisStore {
        store(self).await
    }

    async fn batches(&self) -> u64 {
        batches(self)
    }

    async fn reference(&self, counter: &CounterName, bucket: Bucket, visitors: &[VisitorId]) -> Sketch {
        reference(self, counter, bucket, visitors)
    }

    async fn fault(&mut self, kind: u64, random: &mut Random) -> &'static str {
        let proxy = &self.proxy;
        match kind {
            0..4 => {
                proxy.swallow_replies(random.among(1..4));
                "replies to lose"
            }
            4..7 => {
                proxy.drop_requests(random.among(1..4));
                "requests to lose"
            }
            7..10 => {
                proxy.reply_with(random.among(1..4), random.one_of(&TRANSIENT_ERRORS));
                "calls to refuse"
            }
            10..12 => {
                proxy.refuse(true);
                sleep(random.millis(5..150)).await;
                proxy.refuse(false);
                "refused connections"
            }
            12..14 => {
                proxy.delay_replies(random.millis(1..40));
                sleep(random.millis(20..200)).await;
                proxy.delay_replies(Duration::ZERO);
                "delay"
            }
            14 => {
                proxy.black_hole(true);
                sleep(random.millis(20..300)).await;
                proxy.black_hole(false);
                "black hole"
            }
            // This should be rare because each call on such a connection has to wait for five seconds.
            17 if random.among(0..3) == 0 => {
                proxy.freeze();
                "forgotten connections"
            }
            18 if self.scripts => {
                self.server.command(&["SCRIPT", "FLUSH"]);
                "forgotten scripts"
            }
            19 => {
                restart(&mut self.server, random).await;
                "restart"
            }
            _ => {
                self.server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
                "killed clients"
            }
        }
    }

    fn all_faults_took_effect(&self) -> bool {
        self.proxy.swallowed() > 0 && self.proxy.dropped() > 0 && self.proxy.replied() > 0
    }

    async fn heal(&mut self) {
        self.proxy.swallow_replies(0);
        self.proxy.drop_requests(0);
        self.proxy.reply_with(0, "");
    }
}

impl Keys for SingleServer {
    fn url(&self) -> String {
        self.proxy.url()
    }

    fn shards(&self) -> Option<Shards> {
        Shards::try_from(4).ok()
    }

    fn command(&self, _: &str, words: &[Vec<u8>]) -> Value {
        self.server.command(words)
    }

    fn keys(&self, pattern: &str) -> Vec<String> {
        self.server.strings(&["KEYS", pattern])
    }
}

async fn restart(server: &mut RedisServer, random: &mut Random) {
    if random.among(0..2) == 0 {
        block_in_place(|| server.kill());
    } else {
        block_in_place(|| server.stop());
    }
    sleep(random.millis(0..200)).await;
    block_in_place(|| server.restart());
}

/// A master and a replica that switch roles.
#[derive(Debug)]
pub(crate) struct SentinelPair {
    servers: RedisSentinel,
    copies: u64,
    /// Number of batches that were acknowledged by a master but missing after the failover.
    pub(crate) lost: u64,
}

impl SentinelPair {
    pub(crate) fn start() -> Self {
        Self { servers: block_in_place(RedisSentinel::start), copies: 0, lost: 0 }
    }

    /// Promotes the replica, but keeps the old master running for a while to accept writes that will be lost.
    async fn fail_over(&mut self, random: &mut Random) {
        block_in_place(|| self.servers.failover());
        sleep(random.millis(100..1000)).await;
        let (old, new) = (self.servers.other_server(), self.servers.master_server());
        let Value::Array(fences) = read(old, &["KEYS", "*fence:*"]) else { panic!("an array") };
        for fence in fences.iter().filter_map(Value::text) {
            self.lost += sequence(old, &fence).saturating_sub(sequence(new, &fence));
        }
        self.heal().await;
    }

    fn on_master(&self, words: &[&str]) {
        self.servers.master_server().command(words);
    }
}

impl Servers for SentinelPair {
    const CAN_FORGET: bool = true;
    const FAULTS: u64 = 12;

    type Store = RedisStore;

    async fn store(&self) -> RedisStore {
        store(self).await
    }

    async fn batches(&self) -> u64 {
        batches(self)
    }

    async fn reference(&self, counter: &CounterName, bucket: Bucket, visitors: &[VisitorId]) -> Sketch {
        reference(self, counter, bucket, visitors)
    }

    async fn fault(&mut self, kind: u64, random: &mut Random) -> &'static str {
        // A storm needs at least one failover with lost batches.
        let kind = if self.lost == 0 { 10 } else { kind };
        match kind {
            0..4 => {
                self.on_master(&["CLIENT", "KILL", "TYPE", "normal"]);
                "killed clients"
            }
            4..7 => {
                self.on_master(&["SCRIPT", "FLUSH"]);
                "forgotten scripts"
            }
            7..10 => {
                self.on_master(&["CLIENT", "PAUSE", &random.among(10..200).to_string()]);
                "pause"
            }
            10 => {
                self.fail_over(random).await;
                "failover"
            }
            _ => {
                block_in_place(|| self.servers.kill_master());
                sleep(random.millis(0..500)).await;
                block_in_place(|| self.servers.restart_old());
                self.heal().await;
                "killed master"
            }
        }
    }

    fn all_faults_took_effect(&self) -> bool {
        self.lost > 0
    }

    async fn heal(&mut self) {
        block_in_place(|| self.servers.until_replicated());
        self.copies += 1;
        let copy = self.copies.to_string();
        self.on_master(&["SET", "copied", &copy]);
        until("all is copied", LIMIT, async || {
            self.servers.other_server().bytes(&["GET", "copied"]) == Some(copy.clone().into())
        })
        .await;
    }
}

impl Keys for SentinelPair {
    fn url(&self) -> String {
        self.servers.url()
    }

    fn shards(&self) -> Option<Shards> {
        None
    }

    fn command(&self, _: &str, words: &[Vec<u8>]) -> Value {
        self.servers.master_server().command(words)
    }

    fn keys(&self, pattern: &str) -> Vec<String> {
        self.servers.master_server().strings(&["KEYS", pattern])
    }
}

/// Returns the sequence of the latest batch of a writer on this server.
fn sequence(server: &RedisServer, fence: &str) -> u64 {
    let fence = read(server, &["GET", fence]).text().unwrap_or_default();
    fence.split(&[' ', ':']).next().and_then(|sequence| sequence.parse().ok()).unwrap_or(0)
}

/// Sends a command that only reads. A sentinel that turns a server into a replica closes all connections, maybe before the
/// reply.
fn read(server: &RedisServer, words: &[&str]) -> Value {
    let mut replies = (0..3).filter_map(|_| server.try_command(words).ok());
    replies.next().expect("the server replies")
}

/// Three masters that sync writes to disk immediately.
#[derive(Debug)]
pub(crate) struct Cluster(RedisCluster);

impl Cluster {
    pub(crate) fn start() -> Self {
        Self(block_in_place(RedisCluster::start))
    }

    fn random_node(&self, random: &mut Random) -> usize {
        usize::try_from(random.among(0..self.0.nodes().len() as u64)).expect("few nodes")
    }

    /// Moves the keys of a shard to another node in small steps.
    async fn move_slot(&self, random: &mut Random) {
        let tag = format!("{{access:{}}}", random.among(0..16));
        let slot = self.0.slot_of(format!("{tag}known:"));
        let from = self.0.master_of(slot);
        let migration = self.0.begin_migration(slot, (from + random.one_of(&[1, 2])) % self.0.nodes().len());
        sleep(random.millis(0..50)).await;
        let keys = self.0.node(from).strings(&["KEYS", &format!("{tag}*")]);
        for some in keys.chunks(7) {
            block_in_place(|| self.0.move_keys(migration, some));
            sleep(random.millis(0..5)).await;
        }
        sleep(random.millis(0..50)).await;
        block_in_place(|| self.0.end_migration(migration));
    }
}

impl Servers for Cluster {
    const CAN_FORGET: bool = false;
    const FAULTS: u64 = 12;

    type Store = RedisStore;

    async fn store(&self) -> RedisStore {
        store(self).await
    }

    async fn batches(&self) -> u64 {
        batches(self)
    }

    async fn reference(&self, counter: &CounterName, bucket: Bucket, visitors: &[VisitorId]) -> Sketch {
        reference(self, counter, bucket, visitors)
    }

    async fn fault(&mut self, kind: u64, random: &mut Random) -> &'static str {
        let node = self.random_node(random);
        match kind {
            0..3 => {
                self.0.node(node).command(&["CLIENT", "KILL", "TYPE", "normal"]);
                "killed clients"
            }
            3..5 => {
                self.0.node(node).command(&["SCRIPT", "FLUSH"]);
                "forgotten scripts"
            }
            5..7 => {
                self.0.node(node).command(&["CLIENT", "PAUSE", &random.among(10..200).to_string()]);
                "pause"
            }
            7..11 => {
                self.move_slot(random).await;
                "moved slot"
            }
            _ => {
                block_in_place(|| self.0.kill_node(node));
                sleep(random.millis(0..1500)).await;
                block_in_place(|| self.0.restart_node(node));
                "restarted node"
            }
        }
    }

    fn all_faults_took_effect(&self) -> bool {
        true
    }

    async fn heal(&mut self) {
        block_in_place(|| self.0.until_healthy());
    }
}

impl Keys for Cluster {
    fn url(&self) -> String {
        self.0.url()
    }

    fn shards(&self) -> Option<Shards> {
        Shards::try_from(16).ok()
    }

    fn command(&self, key: &str, words: &[Vec<u8>]) -> Value {
        self.0.command_on_owner(key, words)
    }

    fn keys(&self, pattern: &str) -> Vec<String> {
        self.0.keys(pattern)
    }
}
