//! Tests for dumps of unique counters: a dump should restore the same data in any store, and count once.

use std::collections::BTreeMap;
use std::time::Instant;

use counter_core::dump::RestoreError;
use counter_core::stores::Namespace;
use counter_core::unique::dump::{UniqueDump, UniqueRestore, UniqueRestored};
use counter_core::unique::store::UniqueKey;
use counter_core::unique::{Contents, Distinct, UniqueCounter, UniqueStore};
use counter_core::visits::store::Read;
use counter_core::window::WindowStore;
use counter_core::{Counters, ErrorKind, MemoryStore, RedisStore, Store};
use tests::cluster::RedisCluster;
use tests::{LIMIT, RedisServer, until};

use super::contract::{adaptive, count, hll, include, set, sketch_of, visitors};
use crate::stores;
use crate::support::{listed, name, precision, store};

stores::on! {
    [memory redis redis_without_scripts redis_in_shards cluster sqlite sqlite_in_memory postgres mariadb]
    {
        restoring_a_dump_is_exact_and_idempotent_in_every_store
        a_restore_merges_with_existing_counters
        a_counter_converted_during_a_dump_is_complete
        the_dump_contains_only_unique_counters
    }
}

/// Counter contents by the last part of the key.
type Content = BTreeMap<String, Contents>;

async fn content(store: &impl UniqueStore) -> Content {
    let (mut content, mut page) = (Content::new(), Some(None));
    while let Some(cursor) = page {
        let list = store.list(cursor).await.expect("readable");
        for counter in list.counters {
            let contents = store.contents(&counter, usize::MAX).await.expect("readable");
            content.insert(counter.to_string(), contents);
        }
        page = list.next.map(Some);
    }
    content
}

/// Creates counters of different kinds and sizes, too many for a page of the list.
async fn fill(store: &(impl UniqueStore + Clone)) {
    include(&set(store, "voters"), 0..3500).await;
    let odd: [&[u8]; 4] = [b"", b"\xff\xfe", b"\0", &[7; 256]];
    set(store, "odd: \"items\" \\").include_all(odd).await.expect("the store is available");
    include(&hll(store, "few"), 0..20).await;
    include(&hll(store, "many"), 0..20_000).await;
    include(&adaptive(store, "exact", 5000), 0..2500).await;
    include(&adaptive(store, "estimated", 100), 0..2500).await;
    for n in 0..1200 {
        include(&set(store, &format!("site {n}")), n..n + 1).await;
    }
}

async fn dump(store: impl UniqueStore) -> Vec<String> {
    let (mut dump, mut lines) = (UniqueDump::new(store), Vec::new());
    while let Some(line) = dump.next().await.expect("readable") {
        assert!(UniqueRestore::is_line(line.as_bytes()) && line.len() <= UniqueRestore::MAX_LINE);
        lines.push(line);
    }
    lines
}

async fn restore(store: impl UniqueStore, lines: &[String]) -> Result<UniqueRestored, RestoreError> {
    let mut restore = UniqueRestore::new(store);
    for line in lines {
        restore.line(line.as_bytes()).await?;
    }
    restore.finish()
}

async fn restoring_a_dump_is_exact_and_idempotent_in_every_store(store: impl UniqueStore + Clone) {
    let first = MemoryStore::new();
    fill(&first).await;
    let (expected, lines) = (content(&first).await, dump(first).await);
    // The first restore is cut off in the middle.
    let torn = restore(store.clone(), &lines[..lines.len() / 2]).await.expect_err("the rest is missing");
    assert!(matches!(torn, RestoreError::Truncated { line } if line == lines.len() as u64 / 2), "{torn}");
    let restored = restore(store.clone(), &lines).await.expect("a good dump");
    assert!(restored.added > 0 && restored.added < restored.items, "{restored:?}");
    assert_eq!((restored.counters, restored.items, restored.sketches), (1206, 7204, 3));
    assert_eq!((restored.rejected, restored.unreadable), (0, 0));
    let again = restore(store.clone(), &lines).await.expect("a good dump");
    assert_eq!((again.added, again.items, again.sketches), (0, restored.items, restored.sketches));
    assert_eq!(count(&set(&store, "voters")).await, Distinct::Exact(3500));
    assert_eq!(count(&hll(&store, "many")).await.items(), sketch_of(0..20_000).estimate());
    assert!(content(&store).await == expected);

    let last = MemoryStore::new();
    restore(last.clone(), &dump(store).await).await.expect("a good dump");
    assert!(content(&last).await == expected);
}

async fn a_restore_merges_with_existing_counters(store: impl UniqueStore + Clone) {
    let old = MemoryStore::new();
    for (of, numbers) in [(&old, 0..60)] {
        include(&set(of, "voters"), numbers.clone()).await;
        include(&hll(of, "readers"), numbers.clone()).await;
        include(&adaptive(of, "exact", 100), numbers.clone()).await;
        include(&adaptive(of, "over", 70), numbers.clone()).await;
        include(&adaptive(of, "registers", 10), numbers).await;
    }
    include(&set(&store, "voters"), 50..90).await;
    include(&hll(&store, "readers"), 50..90).await;
    include(&adaptive(&store, "exact", 100), 50..90).await;
    include(&adaptive(&store, "over", 70), 50..90).await;
    include(&adaptive(&store, "registers", 100), 50..90).await;
    restore(store.clone(), &dump(old).await).await.expect("a good dump");
    let all = sketch_of(0..90).estimate();
    assert_eq!(count(&set(&store, "voters")).await, Distinct::Exact(90));
    assert_eq!(count(&hll(&store, "readers")).await.items(), all);
    assert_eq!(count(&adaptive(&store, "exact", 100)).await, Distinct::Exact(90));
    let registers = count(&adaptive(&store, "registers", 100)).await;
    assert_eq!((registers.is_exact(), registers.items()), (false, all));
    // The threshold of the next call applies.
    let over = adaptive(&store, "over", 70);
    assert_eq!(count(&over).await, Distinct::Exact(90));
    include(&over, 0..1).await;
    assert_eq!((count(&over).await.is_exact(), count(&over).await.items()), (false, all));
}

async fn a_counter_converted_during_a_dump_is_complete(store: impl UniqueStore + Clone) {
    include(&adaptive(&store, "guests", 5000), 0..4000).await;
    let (mut dump, mut lines) = (UniqueDump::new(store.clone()), Vec::new());
    while let Some(line) = dump.next().await.expect("readable") {
        lines.push(line);
        if lines.len() == 2 {
            include(&adaptive(&store, "guests", 100), 0..1).await;
        }
    }
    let new = MemoryStore::new();
    restore(new.clone(), &lines).await.expect("a good dump");
    // A store that returns everything in a single page still had items, but the other stores had already
    // converted to registers.
    let guests = count(&adaptive(&new, "guests", 5000)).await;
    assert!(guests == Distinct::Exact(4000) || guests.items() == sketch_of(0..4000).estimate(), "{guests:?}");
}

async fn the_dump_contains_only_unique_counters(store: impl Store + UniqueStore + WindowStore + Clone) {
    let mut counters = Counters::builder(store.clone()).build().expect("good settings");
    let recorder = counters.recorder();
    let someone = visitors(0..1).pop();
    for counter in ["hits", "set:voters", "hll:readers"] {
        recorder.record(recorder.counter(counter), someone);
    }
    counters.flush().await.expect("the store is available");
    assert_eq!(dump(store.clone()).await, Vec::<String>::new());
    let nothing = restore(store.clone(), &[]).await.expect("nothing is a dump of nothing");
    assert_eq!(nothing, UniqueRestored::default());
    include(&set(&store, "voters"), 0..1).await;
    assert_eq!(content(&store).await.into_keys().collect::<Vec<_>>(), ["set:voters"]);
    assert_eq!(dump(store).await.len(), 3, "the first line, the items, and the last");
}

/// Returns a dump of two small counters, which consists of four lines.
async fn small() -> Vec<String> {
    let store = MemoryStore::new();
    include(&set(&store, "voters"), 0..3).await;
    include(&hll(&store, "readers"), 0..3).await;
    dump(store).await
}

#[tokio::test]
async fn a_missing_duplicate_or_damaged_line_is_rejected_and_can_be_resent() {
    let (lines, store) = (small().await, MemoryStore::new());
    assert_eq!(lines.len(), 4);
    let other = lines[3].replace("\"items\":3", "\"items\":4");
    let mut restore = UniqueRestore::new(store.clone());
    for (place, line) in lines.iter().enumerate() {
        let number = place as u64 + 1;
        let wrong = lines.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, line)| line);
        let damaged = ["127.0.0.1 - - [10/Oct/2000]".to_owned(), line[..line.len() - 2].to_owned()];
        for wrong in wrong.chain(&damaged).chain((place == 3).then_some(&other)) {
            match restore.line(wrong.as_bytes()).await {
                Err(RestoreError::Malformed { line, expected }) => {
                    assert!(line == number && !expected.contains("127.0.0.1"), "{expected}");
                }
                taken => panic!("{wrong}: {taken:?}"),
            }
            assert_eq!(restore.lines(), number - 1);
        }
        assert!(place == 0 || matches!(restore.finish(), Err(RestoreError::Truncated { .. })));
        restore.line(format!("{line}\r\n").as_bytes()).await.expect("the good one");
        restore.line(b"\n").await.expect("an empty one is passed over");
    }
    assert!(restore.line(lines[0].as_bytes()).await.is_err(), "nothing follows the last");
    assert_eq!(restore.finish().expect("all exist").added, 3);
    let error = UniqueRestore::new(store).line(b"{\"unique\":\"ann\"}").await.expect_err("no number");
    assert!(!error.to_string().contains("ann"), "{error}");
}

#[tokio::test]
async fn a_key_of_the_wrong_type_is_reported_and_does_not_stop_the_dump() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    include(&set(&store, "voters"), 0..3).await;
    for (key, value) in [("access:set:a", "x"), ("access:hll:b", "x"), ("access:adaptive:c", "x")] {
        server.command(&["SET", key, value]);
    }
    // These keys are foreign or have an invalid counter name.
    for key in ["access:set:", "access:sets:x", "access:other:x", "access:set:\u{7}", "other:set:x"] {
        server.command(&["SADD", key, "x"]);
    }
    // Another program added items that are too long for a line.
    server.command(&["SADD", "access:set:voters", &"x".repeat(257), &"y".repeat(100_000)]);
    let lines = dump(store.clone()).await;
    let unreadable = lines.iter().filter(|line| line.contains("\"unreadable\":{\"key\":\"")).count();
    assert_eq!((lines.len(), unreadable), (7, 4), "{lines:?}");
    let new = MemoryStore::new();
    let restored = restore(new.clone(), &lines).await.expect("a good dump");
    assert_eq!((restored.counters, restored.items, restored.unreadable), (4, 3, 4));
    assert_eq!(content(&new).await.len(), 1);

    server.command(&["DEL", "access:set:voters"]);
    server.command(&["SET", "access:set:voters", "x"]);
    let small = small().await;
    let rejected = restore(store, &small).await.expect("a good dump");
    assert_eq!((rejected.items, rejected.rejected, rejected.sketches), (0, 3, 1));
}

#[tokio::test]
async fn a_namespace_with_glob_characters_dumps_only_its_counters() {
    let server = RedisServer::start();
    let mut dumped = Vec::new();
    for namespace in ["a*[b]?\\:", "a_[b]_:", "", "ab:"] {
        let namespace: Namespace = namespace.parse().expect("a namespace");
        let store = RedisStore::connect(&server.url(), namespace.clone()).await.expect("an address");
        include(&set(&store, &format!("of {namespace}")), 0..1).await;
        dumped.push((store, format!("set:of {namespace}")));
    }
    for (store, expected) in dumped {
        assert_eq!(content(&store).await.into_keys().collect::<Vec<_>>(), [expected]);
    }
}

#[tokio::test]
async fn a_dump_is_complete_after_a_server_restart() {
    let mut server = RedisServer::start_with(&["--appendonly", "yes"]);
    let store = store(&server.url()).await;
    include(&set(&store, "voters"), 0..20_000).await;
    for n in 0..2500 {
        include(&set(&store, &format!("site {n}")), n..n + 1).await;
    }
    let expected = content(&store).await;
    let (mut dump, mut lines) = (UniqueDump::new(store.clone()), Vec::new());
    let (began, mut restarted) = (Instant::now(), 0);
    loop {
        match dump.next().await {
            Ok(Some(line)) => lines.push(line),
            Ok(None) => break,
            // The client has not found the new server yet, or the server is still loading.
            Err(error) => {
                assert!(began.elapsed() < LIMIT, "{error}");
                continue;
            }
        }
        let of_voters = lines.iter().filter(|line| line.contains("\"voters\"")).count();
        if (restarted == 0 && lines.len() > 1200) || (restarted < 2 && of_voters == 10) {
            server.kill();
            server.restart();
            restarted += 1;
        }
    }
    assert!(restarted > 0);
    let new = MemoryStore::new();
    restore(new.clone(), &lines).await.expect("a good dump");
    assert!(content(&new).await == expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_includes_a_shard_that_moves_during_the_dump() {
    let cluster = RedisCluster::start();
    let store = store(&cluster.url()).await;
    let there = async || store.known(listed(&[precision(1)], "", 1)).await.is_ok();
    until("the store is connected", LIMIT, there).await;
    let names: Vec<_> = (0..64).map(|n| format!("site {n}")).collect();
    for name in &names {
        include(&set(&store, name), 0..5).await;
    }
    let shards = store.info().shards;
    let slot = |counter: &str| cluster.slot_of(format!("{{access:{}}}", shards.of(counter)));
    let moved = |counter: &str| {
        let slot = slot(counter);
        cluster.migrate_slot(slot, (cluster.master_of(slot) + 1) % cluster.nodes().len());
    };
    // The slot map of the client is now stale for this shard.
    moved(&names[0]);
    let (mut dump, mut lines) = (UniqueDump::new(store.clone()), Vec::new());
    while let Some(line) = dump.next().await.expect("readable") {
        lines.push(line);
        if lines.len() == 20 {
            moved(names.iter().find(|name| slot(name) != slot(&names[0])).expect("there are 16 shards"));
        }
    }
    let new = MemoryStore::new();
    restore(new.clone(), &lines).await.expect("a good dump");
    for counter in &names {
        assert_eq!(count(&set(&new, counter)).await, Distinct::Exact(5), "{counter}");
    }
}

#[tokio::test]
async fn dumps_and_restores_resume_after_an_outage() {
    let mut server = RedisServer::start_with(&["--appendonly", "yes"]);
    let store = store(&server.url()).await;
    include(&set(&store, "voters"), 0..10).await;
    let (mut dump, mut restore) = (UniqueDump::new(store.clone()), UniqueRestore::new(store.clone()));
    let lines = small().await;
    server.kill();
    let error = dump.next().await.expect_err("it is unavailable");
    assert_eq!(error.kind(), &ErrorKind::Unavailable);
    restore.line(lines[0].as_bytes()).await.expect("there is nothing to add");
    let error = restore.line(lines[1].as_bytes()).await.expect_err("it is unavailable");
    assert!(matches!(error, RestoreError::Store(_)) && restore.lines() == 1);
    server.restart();
    let mut taken = 1;
    let go_on = async || {
        while taken < lines.len() {
            match restore.line(lines[taken].as_bytes()).await {
                Ok(()) => taken += 1,
                Err(_) => return false,
            }
        }
        true
    };
    until("the store is back", LIMIT, go_on).await;
    assert_eq!(restore.finish().expect("all exist").counters, 2);
    assert!(dump.next().await.expect("readable").is_some());
    let voters = UniqueKey { name: name("voters"), kind: set(&store, "voters").key().kind };
    assert_eq!(store.distinct(&voters).await.expect("readable"), Distinct::Exact(10));
}
