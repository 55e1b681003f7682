//! Servers that refuse commands, for whatever reason: batches wait, and are applied exactly once afterwards.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use counter_core::entity::store::{EntityCopy, EntityLease};
use counter_core::entity::{EntityCache, Versioned};
use counter_core::stores::Namespace;
use counter_core::unique::{AdaptiveUniqueCounter, UniqueCounter};
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Bin, Measure, Measured};
use counter_core::window::{Dimensions, Window, WindowCounters};
use counter_core::{Cleaner, Counters, Flusher, Precisions, Recorder, RedisStore, Stats, Timestamp};
use tests::{FaultProxy, LIMIT, RedisServer, until};

use crate::log::Log;
use crate::support::{name, precision, store};

/// The permissions in the guide.
const GUIDE: &str = "+eval +evalsha +get +set +mget +del +exists +expireat +time +hincrby +hget +hset +hsetnx +hscan +hgetall \
                     +hmget +hlen +hkeys +hdel +zadd +zrem +zscore +zrangebyscore +zrangebylex +pfadd +pfcount +pfmerge";
/// The permissions in the guide for transactions.
const GUIDE_WITHOUT_SCRIPTS: &str = "+watch +unwatch +multi +exec +discard +get +set +mget +del +exists +expireat +time \
                                     +hincrby +hget +hset +hsetnx +hscan +hgetall +hmget +hkeys +hdel +zadd +zrem +zscore \
                                     +zrangebyscore +zrangebylex +pfadd +pfcount +pfmerge";

/// Sets the permissions of the user `counter`.
fn permit(server: &RedisServer, keys: &str, commands: &str) {
    let words = format!("ACL SETUSER counter reset on >secret {keys} {commands}");
    let words: Vec<_> = words.split(' ').filter(|word| !word.is_empty()).collect();
    assert_eq!(server.command(&words).text().as_deref(), Some("OK"), "{words:?}");
}

/// Returns a store of the user `counter` on the server at this address.
async fn store_of_user(address: SocketAddr) -> RedisStore {
    let url = format!("redis://counter:secret@{address}");
    RedisStore::connect(&url, Namespace::default()).await.expect("an address")
}

/// A process that counts hits, visitors and durations.
struct Process {
    recorder: Recorder,
    stats: Stats,
    flusher: Flusher,
    cleaner: Cleaner,
    key: VisitorKey,
    hits: u64,
}

impl Process {
    async fn start(store: RedisStore) -> Self {
        let grid = Precisions::new([60, 86_400].map(precision)).expect("two");
        let counters = Counters::builder(store).distributions(grid).build().expect("good settings");
        let (recorder, stats) = (counters.recorder(), counters.stats());
        let (flusher, cleaner) = counters.into_parts();
        Self { recorder, stats, flusher, cleaner, key: VisitorKey::new([7; 16]), hits: 0 }
    }

    async fn of_user(server: &RedisServer) -> Self {
        Self::start(store_of_user(server.address()).await).await
    }

    /// Returns the names of the hints.
    fn hints(&self) -> Vec<&'static str> {
        self.stats.health().hints.iter().map(|hint| hint.name).collect()
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
    let old = real.lines().find_map(|line| line.strip_prefix("redis_version:6.0."));
    if old.is_none() {
        let info = "# Server\r\nredis_version:5.0.6\r\nredis_mode:standalone\r\n";
        proxy.answer("INFO", format!("${}\r\n{info}\r\n", info.len()));
        // It does not know the option LT.
        proxy.answer("ZADD", "-ERR syntax error\r\n");
    }
    let store = store(&proxy.url()).await;
    let facts = store.server().await.expect("it replies");
    assert_eq!(facts.is_outdated, Some(true));
    let version = old.map_or_else(|| "5.0.6".to_owned(), |patch| format!("6.0.{patch}"));
    assert!(facts.warnings().iter().any(|warning| warning.contains(&version)), "{facts:?}");
    let mut process = Process::start(store).await;
    process.record(10);
    let error = process.refused().await;
    assert!(error.contains("ZADD LT: ERR syntax error"), "{error}");
    assert_eq!(process.hints(), ["store_outdated"]);
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
    assert!(process.stats.health().is_degraded());
    assert_eq!(process.hints(), ["visitors_unreadable"]);
}

#[tokio::test]
async fn hits_count_if_a_hyperloglog_error_starts_with_another_code() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    for command in ["PFADD", "PFMERGE"] {
        proxy.answer(command, "-ERR WRONGTYPE Key is not a valid HyperLogLog string value.\r\n");
    }
    let mut process = Process::start(store(&proxy.url()).await).await;
    process.record(10);
    process.flusher.flush().await.expect("hits count");
    assert_eq!(process.stats.ledger().hits.applied, 10);
    assert_eq!(process.hints(), ["visitors_unreadable"]);
}

#[tokio::test]
async fn a_refused_command_of_the_cleaner_or_of_reads_causes_a_hint() {
    for commands in [GUIDE, GUIDE_WITHOUT_SCRIPTS] {
        for missing in ["+hdel", "+hset", "+zrem", "+exists"] {
            let server = RedisServer::start();
            permit(&server, "~access:*", &commands.replace(&format!("{missing} "), ""));
            let mut process = Process::of_user(&server).await;
            process.record(10);
            process.flusher.flush().await.expect("batches don't need it");
            assert_eq!(process.hints(), ["commands_refused"], "{missing}");
            let facts = store_of_user(server.address()).await.server().await.expect("it replies");
            let is_named = |warning: &String| warning.contains(&missing[1..].to_uppercase());
            assert!(facts.warnings().iter().any(is_named), "{facts:?}");
            permit(&server, "~access:*", commands);
            // Otherwise, it is only noticed after some seconds.
            if missing != "+hdel" {
                server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
            }
            let is_noticed = async || {
                drop(process.cleaner.clean_once(Timestamp::now()).await);
                process.stats.health().hints.is_empty()
            };
            until("the cleaner notices that it is permitted", LIMIT, is_noticed).await;
        }
    }
}

#[tokio::test]
async fn a_salt_that_is_refused_causes_a_hint() {
    let server = RedisServer::start();
    for commands in [GUIDE, GUIDE_WITHOUT_SCRIPTS] {
        let others = "~access:[^s]* ~access:scratch* ~access:source*";
        permit(&server, others, commands);
        let mut process = Process::of_user(&server).await;
        let salt = process.recorder.salt().expect("an hour and a day");
        _ = salt.visitor(&[b"ann"]);
        process.record(10);
        for _ in 0..2 {
            process.flusher.flush().await.expect("it accepts batches");
        }
        assert_eq!(process.hints(), ["salt_not_shared"]);
        permit(&server, "~access:*", commands);
        process.accepted().await;
        assert_eq!(process.hints(), [""; 0]);
        server.command(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn a_refused_leftover_is_reported_like_a_refused_batch() {
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    permit(&server, "~access:*", &GUIDE.replace("+pfadd", ""));
    let start = async || {
        let store = store_of_user(server.address()).await;
        Counters::builder(store).spool(folder.path()).build().expect("the folder is writable")
    };
    let mut ended = start().await;
    let counter = ended.recorder().counter("hits");
    let ann = VisitorKey::new([7; 16]).visitor(&[b"ann"]);
    ended.recorder().record(counter, Some(ann));
    ended.flush().await.expect_err("it is refused");
    drop(ended);
    let mut counters = start().await;
    let stats = counters.stats();
    let is_recovering = async || {
        drop(counters.flush().await);
        stats.ledger().hits.pending == 1
    };
    until("the leftover is found", LIMIT, is_recovering).await;
    let health = stats.health();
    assert!(!health.is_well() && health.failing_for.is_some(), "{health:?}");
    assert!(health.last_error.as_ref().is_some_and(|error| error.contains("PFADD")), "{health:?}");
    permit(&server, "~access:*", GUIDE);
    until("it is sent", LIMIT, async || counters.flush().await.is_ok() && stats.health().is_well()).await;
    assert_eq!((stats.ledger().hits.applied, stats.health().last_error), (1, None));
}

#[tokio::test]
async fn a_batch_that_is_refused_during_its_transaction_is_undone() {
    for refused in ["-hincrby", "-set", "-zadd", "-pfadd", "-expireat"] {
        let server = RedisServer::start();
        let proxy = FaultProxy::start(server.address()).await;
        permit(&server, "~access:*", GUIDE_WITHOUT_SCRIPTS);
        let mut process = Process::start(store_of_user(proxy.address()).await).await;
        process.record(10);
        process.accepted().await;
        process.record(10);
        proxy.hold_calls(1);
        let revoke = async {
            until("all commands are queued", LIMIT, async || proxy.held() == 1).await;
            server.command(&["ACL", "SETUSER", "counter", refused]);
            proxy.release();
        };
        let (sent, ()) = tokio::join!(process.flusher.flush(), revoke);
        let error = format!("{:?}", sent.expect_err("a command is refused"));
        assert!(error.contains("NOPERM"), "{error}");
        let hits = process.stats.ledger().hits;
        assert_eq!((hits.pending, hits.dropped.total()), (10, 0), "{refused}: {hits:?}");
        assert!(process.stats.health().last_error.is_some_and(|error| error.contains("NOPERM")));
        permit(&server, "~access:*", GUIDE_WITHOUT_SCRIPTS);
        process.accepted().await;
        let now = Timestamp::now();
        let of = [name("hits")];
        let range = now.minus(2 * 86_400)..now.plus(1);
        let statuses = process.stats.distribution(&of, precision(86_400), range, Measure::Status).await;
        let statuses = statuses.expect("readable").buckets;
        assert_eq!(statuses.iter().map(|(_, bins)| bins.count()).sum::<u64>(), 20, "{refused}");
    }
}

#[tokio::test]
async fn a_set_that_cannot_be_converted_stays_as_it_was() {
    for refused in ["-pfadd", "-set", "-get"] {
        let server = RedisServer::start();
        permit(&server, "~access:*", &format!("{GUIDE} +type +sadd +srem +scard +smembers"));
        let store = store_of_user(server.address()).await;
        let guests = AdaptiveUniqueCounter::new(store, name("guests")).threshold(3.try_into().expect("good"));
        let key = "access:adaptive:guests";
        guests.include_all(["ann", "bob", "eve"]).await.expect("it is permitted");
        server.command(&["EXPIRE", key, "1000"]);
        server.command(&["ACL", "SETUSER", "counter", refused]);
        guests.include_all(["eve", "dan"]).await.expect_err("it is refused");
        let mut items = server.strings(&["SMEMBERS", key]);
        items.sort();
        assert_eq!(items, ["ann", "bob", "eve"], "{refused}");
        permit(&server, "~access:*", &format!("{GUIDE} +type +sadd +srem +scard +smembers"));
        let included = guests.include_all(["eve", "dan"]).await.expect("it is permitted");
        assert_eq!((included.new, included.exact), (1, false), "{refused}");
        assert_eq!(server.int(&["PFCOUNT", key]), 4);
        assert!(server.int(&["TTL", key]) > 0 && server.int(&["DBSIZE"]) == 1);
    }
}

/// The permissions in the guide for windows.
const WINDOWS: &str =
    "+eval +evalsha +time +get +set +mget +incrby +hmget +hincrby +hdel +sadd +scard +srem +expireat";

async fn hours_of_user(server: &RedisServer) -> WindowCounters {
    WindowCounters::new(store_of_user(server.address()).await, Window::HOUR)
}

#[tokio::test]
async fn a_token_that_is_refused_counts_later() {
    let (key, app) = (VisitorKey::new([7; 16]), Dimensions::new().text("app", "a"));
    for refused in ["-set", "-expireat", "-scard", "-incrby"] {
        let server = RedisServer::start();
        permit(&server, "~access:*", WINDOWS);
        let (hours, now) = (hours_of_user(&server).await, Timestamp::now());
        let mut count = 0;
        if refused == "-incrby" {
            hours.increment_once_at(&app, key.visitor(&[b"ann"]), now).await.expect("counted");
            count = 1;
        }
        let bob = key.visitor(&[b"bob"]);
        server.command(&["ACL", "SETUSER", "counter", refused]);
        hours.increment_once_at(&app, bob, now).await.expect_err("it is refused");
        permit(&server, "~access:*", WINDOWS);
        let counted = hours.increment_once_at(&app, bob, now).await.expect("it is permitted");
        assert_eq!((counted.is_new, counted.count), (true, count + 1), "{refused}");
        for key in server.strings(&["KEYS", "*"]) {
            assert!(server.int(&["TTL", &key]) > 0, "{refused}: {key}");
        }
    }
}

#[tokio::test]
async fn a_refused_hit_of_a_sliding_window_does_not_count() {
    let (server, app) = (RedisServer::start(), Dimensions::new().text("app", "a"));
    let one = NonZeroU32::MIN;
    permit(&server, "~access:*", &WINDOWS.replace("+expireat", ""));
    let hours = hours_of_user(&server).await;
    for _ in 0..3 {
        hours.try_acquire_sliding(&app, 2, one).await.expect_err("it is refused");
    }
    assert_eq!(server.strings(&["KEYS", "*"]), [""; 0]);
    permit(&server, "~access:*", WINDOWS);
    let decision = hours.try_acquire_sliding(&app, 2, one).await.expect("it is permitted");
    assert_eq!((decision.allowed, decision.remaining), (true, 1));
    for key in server.strings(&["KEYS", "*"]) {
        assert!(server.int(&["TTL", &key]) > 0, "{key}");
    }
}

#[tokio::test]
async fn a_copy_without_an_expiry_is_not_kept() {
    let server = RedisServer::start();
    permit(&server, "~access:*", "+eval +evalsha +hmget +get +set +del +hset +hincrby");
    let store = store_of_user(server.address()).await;
    let lease = EntityLease { token: 7, ttl: Duration::from_secs(60) };
    store.read("post", &[1.into()], &["views"], lease).await.expect("it is permitted");
    let row = Versioned { version: 1, value: 5 };
    let copy = EntityCopy { id: 1.into(), fields: vec![("views", row)], ttl: Duration::from_secs(60) };
    store.store("post", &[copy], lease).await.expect_err("the expiry is refused");
    assert_eq!(server.strings(&["KEYS", "*"]), [""; 0]);
}

#[tokio::test]
async fn what_the_cleaner_may_not_remove_stays_due() {
    let server = RedisServer::start();
    permit(&server, "~access:*", &GUIDE.replace("+hdel ", ""));
    let member = "60:label:referrer:a";
    server.int(&["ZADD", "access:known:", "0", member]);
    server.int(&["ZADD", "access:due", "60", member]);
    server.int(&["HSET", "access:total", "label:referrer:a", "1"]);
    let mut process = Process::of_user(&server).await;
    let error = process.cleaner.clean_once(Timestamp::now()).await.expect_err("HDEL is refused");
    let error = format!("{error:?}");
    assert!(error.contains("permission") || error.contains("can't run"), "{error}");
    permit(&server, "~access:*", GUIDE);
    process.cleaner.clean_once(Timestamp::now()).await.expect("it is permitted");
    assert_eq!(server.int(&["EXISTS", "access:total", "access:known:", "access:due"]), 0);
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
