//! Servers that refuse commands, for whatever reason: batches wait, and are applied exactly once afterwards.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Bin, Measured};
use counter_core::{Counters, Flusher, Precisions, Recorder, RedisStore, Stats, Timestamp};
use tests::{FaultProxy, LIMIT, RedisServer, until};

use crate::log::Log;
use crate::support::{name, precision, store};

/// The permissions in the guide.
const GUIDE: &str = "+eval +evalsha +get +set +mget +del +expireat +time +hincrby +hget +hset +hsetnx +hscan +hgetall \
                     +hmget +hlen +hkeys +hdel +zadd +zrem +zscore +zrangebyscore +zrangebylex +pfadd +pfcount +pfmerge";
/// The permissions in the guide for transactions.
const GUIDE_WITHOUT_SCRIPTS: &str = "+watch +unwatch +multi +exec +discard +get +set +mget +del +expireat +time +hincrby \
                                     +hget +hset +hsetnx +hscan +hgetall +hmget +hkeys +hdel +zadd +zrem +zrangebyscore \
                                     +zrangebylex +pfadd +pfcount +pfmerge";

/// Sets the permissions of the user `counter`.
fn permit(server: &RedisServer, keys: &str, commands: &str) {
    let words = format!("ACL SETUSER counter reset on >secret {keys} {commands}");
    let words: Vec<_> = words.split(' ').filter(|word| !word.is_empty()).collect();
    assert_eq!(server.command(&words).text().as_deref(), Some("OK"), "{words:?}");
}

/// A process that counts hits, visitors and durations.
struct Process {
    recorder: Recorder,
    stats: Stats,
    flusher: Flusher,
    key: VisitorKey,
    hits: u64,
}

impl Process {
    async fn start(store: RedisStore) -> Self {
        let grid = Precisions::new([60, 86_400].map(precision)).expect("two");
        let counters = Counters::builder(store).distributions(grid).build().expect("good settings");
        let (recorder, stats) = (counters.recorder(), counters.stats());
        let (flusher, _) = counters.into_parts();
        Self { recorder, stats, flusher, key: VisitorKey::new([7; 16]), hits: 0 }
    }

    async fn of_user(server: &RedisServer) -> Self {
        let url = format!("redis://counter:secret@{}", server.address());
        Self::start(RedisStore::connect(&url, Namespace::default()).await.expect("an address")).await
    }

    /// Records hits of different visitors.
    fn record(&mut self, hits: u64) {
        let (counter, now) = (self.recorder.counter("hits"), Timestamp::now());
        for _ in 0..hits {
            self.hits += 1;
            let visitor = self.key.visitor(&[&self.hits.to_le_bytes()]);
            self.recorder.record_at(counter, visitor, now, NonZeroU32::MIN);
            let measured = Measured { hits: &[counter.hit()], bins: &[Bin::status(200)] };
            self.recorder.measure_at(measured, now);
        }
    }

    /// Tries to flush several times, and returns the error.
    async fn refused(&mut self) -> String {
        for _ in 0..3 {
            self.flusher.flush().await.expect_err("it is refused");
        }
        let hits = self.stats.ledger().hits;
        assert_eq!((hits.pending, hits.dropped.total(), hits.balance()), (self.hits, 0, true), "{hits:?}");
        let health = self.stats.health();
        assert!(!health.is_well());
        health.last_error.expect("the last attempt failed")
    }

    /// Flushes until the store accepts batches, and checks that everything is counted once.
    async fn accepted(&mut self) {
        until("the store accepts batches", LIMIT, async || self.flusher.flush().await.is_ok()).await;
        let hits = self.stats.ledger().hits;
        assert_eq!((hits.applied, hits.pending, hits.dropped.total()), (self.hits, 0, 0), "{hits:?}");
        let (counter, days) = ([name("hits")], Timestamp::now().minus(2 * 86_400)..Timestamp::now().plus(1));
        for seconds in [60, 86_400] {
            let total =
                self.stats.total(&counter[0], precision(seconds), days.clone()).await.expect("readable");
            assert_eq!(total, self.hits, "by {seconds} s");
        }
        let lifetimes = self.stats.lifetimes(&counter).await.expect("readable");
        assert_eq!(lifetimes, [self.hits]);
        let visitors = self.stats.uniques(&counter, precision(86_400), days.clone()).await.expect("readable");
        assert!(visitors.visitors.abs_diff(self.hits) <= self.hits / 50, "{visitors:?}");
    }
}

/// Returns the values of all keys, except for those that are not changed back when a batch is undone: visitors,
/// and the indexes of counters, from which the cleaner removes counters without buckets.
fn values(server: &RedisServer) -> BTreeMap<String, Vec<String>> {
    let is_undone = |key: &String| {
        !key.starts_with("access:unique:") && !["access:known:", "access:due"].contains(&key.as_str())
    };
    let keys = server.strings(&["KEYS", "*"]).into_iter().filter(is_undone);
    let value = |key: String| {
        let kind = server.command(&["TYPE", &key]).text().expect("a type");
        let mut values = match &*kind {
            "hash" => server.strings(&["HGETALL", &key]),
            "zset" => server.strings(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]),
            _ => vec![server.command(&["GET", &key]).text().expect("a text")],
        };
        if kind == "hash" {
            values = values.chunks_exact(2).map(|entry| entry.join("=")).collect();
            values.sort();
        }
        (key, values)
    };
    keys.map(value).collect()
}

#[tokio::test]
async fn hits_wait_until_a_missing_permission_is_granted() {
    for commands in [GUIDE, GUIDE_WITHOUT_SCRIPTS] {
        for missing in ["+hincrby", "+pfadd", "+zadd", "+hsetnx", "+expireat", "+set"] {
            let server = RedisServer::start();
            permit(&server, "~access:*", &commands.replace(missing, ""));
            let mut process = Process::of_user(&server).await;
            process.record(10);
            let error = process.refused().await;
            assert!(error.contains("permission") || error.contains("can't run"), "{missing}: {error}");
            permit(&server, "~access:*", commands);
            process.record(5);
            process.accepted().await;
        }
    }
}

#[tokio::test]
async fn hits_wait_until_a_key_pattern_is_permitted() {
    let others = "~access:fence* ~access:known* ~access:due* ~access:total ~access:writers ~access:scratch* \
                  ~access:forgotten* ~access:document* ~access:salt*";
    for commands in [GUIDE, GUIDE_WITHOUT_SCRIPTS] {
        for keys in
            ["", "~access:count:1:* ~access:count:5:*", "~access:count:*", "~access:count:* ~access:unique:*"]
        {
            let server = RedisServer::start();
            permit(&server, &format!("{others} {keys}"), commands);
            let mut process = Process::of_user(&server).await;
            process.record(10);
            let error = process.refused().await;
            assert!(error.contains("key"), "{keys}: {error}");
            permit(&server, "~access:*", commands);
            process.accepted().await;
        }
    }
}

#[tokio::test]
async fn a_batch_that_is_refused_halfway_leaves_the_keys_unchanged() {
    for refused in ["-hincrby", "-zadd", "-pfadd", "-expireat"] {
        let server = RedisServer::start();
        permit(&server, "~access:*", GUIDE);
        let mut process = Process::of_user(&server).await;
        process.record(10);
        process.accepted().await;
        // The next batch starts other buckets, too.
        process.recorder.record(process.recorder.counter("new"), None);
        let before = values(&server);
        server.command(&["ACL", "SETUSER", "counter", refused]);
        process.record(10);
        process.flusher.flush().await.expect_err("it is refused");
        process.flusher.flush().await.expect_err("it is refused");
        assert_eq!(values(&server), before, "{refused}");
        permit(&server, "~access:*", GUIDE);
        process.flusher.flush().await.expect("it is permitted");
        let hits = process.stats.ledger().hits;
        assert_eq!((hits.applied, hits.dropped.total()), (21, 0));
        let range = Timestamp::now().minus(86_400)..Timestamp::now().plus(1);
        let total = process.stats.total(&name("hits"), precision(86_400), range).await;
        assert_eq!(total.expect("readable"), 20);
    }
}

#[tokio::test]
async fn hits_wait_if_a_command_was_renamed() {
    for command in ["HINCRBY", "PFADD"] {
        let server = RedisServer::start_with(&["--rename-command", command, ""]);
        let mut process = Process::start(store(&server.url()).await).await;
        process.record(10);
        let error = process.refused().await;
        assert!(error.contains(command) && error.contains("unknown command"), "{error}");
    }
}

#[tokio::test]
async fn transactions_are_used_if_scripts_may_not_derive_keys() {
    for raises in [false, true] {
        let server = RedisServer::start();
        let proxy = FaultProxy::start(server.address()).await;
        proxy.require_declared_keys(raises);
        let store = store(&proxy.url()).await;
        let facts = store.server().await.expect("it replies");
        assert!(!facts.scripts && facts.transactions && facts.refused.is_empty(), "{facts:?}");
        let mut process = Process::start(store).await;
        process.record(700);
        process.accepted().await;
    }
}

#[tokio::test]
async fn transactions_are_used_if_the_rule_for_keys_appears_later() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut process = Process::start(store(&proxy.url()).await).await;
    process.record(10);
    process.accepted().await;
    proxy.require_declared_keys(false);
    process.record(10);
    process.accepted().await;
}

#[tokio::test]
async fn transactions_are_used_if_scripts_are_refused_in_other_words() {
    for words in [
        "ERR command eval not support for your account",
        "ERR 'EVAL' command is disabled by the provider",
        "DENIED Lua",
        "ERR This command is not available in this plan",
    ] {
        for commands in [&["EVAL", "EVALSHA"][..], &["EVALSHA"], &["EVAL"]] {
            let server = RedisServer::start();
            let proxy = FaultProxy::start(server.address()).await;
            commands.iter().for_each(|command| proxy.answer(command, format!("-{words}\r\n")));
            let mut process = Process::start(store(&proxy.url()).await).await;
            process.record(10);
            process.accepted().await;
        }
    }
}

#[tokio::test]
async fn a_script_is_not_blamed_for_the_state_of_the_server() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let store = store(&proxy.url()).await;
    for state in
        ["LOADING Redis is loading", "OOM command not allowed", "BUSY Redis is busy", "MISCONF no disk"]
    {
        proxy.answer("EVAL", format!("-{state}\r\n"));
        proxy.answer("EVALSHA", format!("-{state}\r\n"));
        let mut process = Process::start(store.clone()).await;
        process.record(1);
        assert!(process.refused().await.contains(state), "{state}");
        proxy.stop_answering("EVAL");
        proxy.stop_answering("EVALSHA");
        assert!(store.server().await.expect("it replies").scripts);
        process.flusher.flush().await.expect("it accepts batches");
    }
}

#[tokio::test]
async fn a_server_before_redis_6_2_gets_no_batches() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let real = server.command(&["INFO", "server"]).text().expect("a text");
    if !real.contains("redis_version:5.") {
        let info = "# Server\r\nredis_version:5.0.6\r\nredis_mode:standalone\r\n";
        proxy.answer("INFO", format!("${}\r\n{info}\r\n", info.len()));
        // It does not know the option LT.
        proxy.answer("ZADD", "-ERR syntax error\r\n");
    }
    let store = store(&proxy.url()).await;
    let facts = store.server().await.expect("it replies");
    assert_eq!(facts.is_outdated, Some(true));
    assert!(facts.warnings().iter().any(|warning| warning.contains("5.0.6")), "{facts:?}");
    let mut process = Process::start(store).await;
    process.record(10);
    let error = process.refused().await;
    assert!(error.contains("ZADD LT: ERR syntax error"), "{error}");
    let hints: Vec<_> = process.stats.health().hints.iter().map(|hint| hint.name).collect();
    assert_eq!(hints, ["store_outdated"]);
    assert_eq!(server.strings(&["KEYS", "*"]), [""; 0]);
}

#[tokio::test]
async fn a_server_with_another_hyperloglog_encoding_causes_a_hint() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    proxy.answer("GET", "$5\r\nother\r\n");
    let store = store(&proxy.url()).await;
    let facts = store.server().await.expect("it replies");
    assert_eq!(facts.hyperloglogs, Some(false));
    assert!(facts.warnings().iter().any(|warning| warning.contains("HyperLogLog")), "{facts:?}");
    let mut process = Process::start(store).await;
    process.record(1);
    process.flusher.flush().await.expect("hits count");
    let health = process.stats.health();
    assert!(health.is_degraded());
    assert_eq!(health.hints.iter().map(|hint| hint.name).collect::<Vec<_>>(), ["visitors_unreadable"]);
}

#[tokio::test]
async fn a_value_that_cannot_be_changed_is_logged_with_the_words_of_the_server() {
    let server = RedisServer::start();
    let mut process = Process::start(store(&server.url()).await).await;
    server.command(&["SET", "access:count:60:hits", "text"]);
    process.record(3);
    let (log, _guard) = Log::capture();
    process.flusher.flush().await.expect("it accepts batches");
    let log = log.text();
    assert!(log.contains("WRONGTYPE Operation against a key holding the wrong kind of value"), "{log}");
    assert_eq!(process.stats.ledger().hits.dropped.wrong_type, 3);
}
