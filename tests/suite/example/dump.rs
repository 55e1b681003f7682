//! Dump and restore in the example.

use std::fs;
use std::path::Path;
use std::process::Command;

use counter_core::unique::{
    AdaptiveUniqueCounter, Distinct, HllUniqueCounter, SetUniqueCounter, UniqueCounter, UniqueStore,
};
use counter_core::visits::store::Read;
use counter_core::{SqlStore, Store, Timestamp};
use serde_json::Value;
use tests::{FaultProxy, LIMIT, Process, RedisServer, process, until};

use crate::random::Random;
use crate::stores;
use crate::support::{always, count_at, name, precision, samples_of, store, storm_seconds};

async fn run(command: &str, store: &str, file: &Path) -> Process {
    let mut program = Command::new(process::example().await);
    program.args([command, "--store", store]).arg(file);
    Process::start(&mut program)
}

/// Waits for the program to end, and parses the last line.
async fn summary(mut program: Process) -> Value {
    assert!(program.wait(LIMIT).await.success(), "{program}");
    program.wait_line(|line| serde_json::from_str::<Value>(line).ok(), LIMIT).await
}

/// Creates a database file with counters that have a hit now.
async fn count(file: &Path, counters: u32) -> (String, SqlStore) {
    let url = format!("sqlite:{}", file.display());
    let store = stores::sql(&url).await;
    let counters: Vec<_> = (0..counters).map(|n| format!("/{n}")).collect();
    count_at(&store, &counters, Timestamp::now()).await;
    (url, store)
}

fn entries(summary: &Value) -> u64 {
    ["samples", "sketches", "lifetimes"].iter().map(|name| summary[name].as_u64().expect("a number")).sum()
}

#[tokio::test]
async fn a_file_is_restored_to_redis_once_even_if_repeated() {
    let folder = tempfile::tempdir().expect("there is space");
    let (from, _store) = count(&folder.path().join("counts.db"), 30).await;
    for (file, is_compressed) in [("dump.ndjson", false), ("dump.ndjson.gz", true)] {
        let redis = RedisServer::start();
        let file = folder.path().join(file);
        let dumped = summary(run("dump", &from, &file).await).await;
        assert_eq!((&dumped["counters"], &dumped["unreadable"]), (&30.into(), &0.into()), "{dumped}");
        let begins = fs::read(&file).expect("a dump").starts_with(&[0x1f, 0x8b]);
        assert_eq!(begins, is_compressed);
        let restored = summary(run("restore", &redis.url(), &file).await).await;
        assert_eq!(restored["already_restored"], 0);
        // A minute or a second could have expired in the meantime.
        let all = entries(&restored) + restored["expired"].as_u64().expect("a number");
        assert_eq!((all, &restored["counters"]), (entries(&dumped), &30.into()), "{restored}");
        let again = summary(run("restore", &redis.url(), &file).await).await;
        assert_eq!((entries(&again), &again["already_restored"]), (0, &entries(&dumped).into()), "{again}");
        let lifetimes = store(&redis.url()).await.lifetimes(&[name("/7"), name("/29")]).await;
        assert_eq!(lifetimes.expect("readable"), [Ok(1), Ok(1)]);
    }
}

/// Reads the visits and the unique counters of a store.
async fn numbers(store: &(impl Store + UniqueStore + Clone)) -> (u64, Vec<Distinct>) {
    let total = store.lifetimes(&[name("/7")]).await.expect("readable").pop().expect("one").expect("a count");
    let unique = [
        SetUniqueCounter::new(store.clone(), name("voters")).count().await,
        HllUniqueCounter::new(store.clone(), name("readers")).count().await,
        AdaptiveUniqueCounter::new(store.clone(), name("guests")).count().await,
        AdaptiveUniqueCounter::new(store.clone(), name("crowd")).count().await,
    ];
    (total, unique.into_iter().map(|count| count.expect("readable")).collect())
}

#[tokio::test]
async fn visits_and_unique_counters_move_from_redis_to_a_file_and_back() {
    let (redis, back, folder) =
        (RedisServer::start(), RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let from = store(&redis.url()).await;
    count_at(&from, &["/7".to_owned()], Timestamp::now()).await;
    let items: Vec<_> = (0..2500).map(|n| format!("item {n}")).collect();
    for some in items.chunks(500) {
        let voters = SetUniqueCounter::new(from.clone(), name("voters"));
        voters.include_all(some).await.expect("the store is there");
        let readers = HllUniqueCounter::new(from.clone(), name("readers"));
        readers.include_all(some).await.expect("the store is there");
        let crowd = AdaptiveUniqueCounter::new(from.clone(), name("crowd"));
        crowd.include_all(some).await.expect("the store is there");
    }
    let guests = AdaptiveUniqueCounter::new(from.clone(), name("guests"));
    guests.include_all(&items[..300]).await.expect("the store is there");
    let expected = numbers(&from).await;
    assert_eq!((expected.0, expected.1[0], expected.1[2]), (1, Distinct::Exact(2500), Distinct::Exact(300)));
    assert!(!expected.1[3].is_exact());

    let file = format!("sqlite:{}", folder.path().join("counts.db").display());
    let (there, here) = (folder.path().join("there.ndjson"), folder.path().join("here.ndjson.gz"));
    let dumped = summary(run("dump", &redis.url(), &there).await).await;
    let sums = serde_json::json!({ "counters": 4, "items": 2800, "sketches": 2, "unreadable": 0 });
    assert_eq!(dumped["unique"], sums, "{dumped}");
    for added in [2800, 0] {
        let restored = summary(run("restore", &file, &there).await).await;
        assert_eq!(
            (&restored["unique"]["items"], &restored["unique"]["added"]),
            (&2800.into(), &added.into())
        );
    }
    assert_eq!(numbers(&stores::sql(&file).await).await, expected);
    assert_eq!(summary(run("dump", &file, &here).await).await["unique"], sums);
    summary(run("restore", &back.url(), &here).await).await;
    assert_eq!(numbers(&store(&back.url()).await).await, expected);

    // An incomplete file must be reported for a gap at any position.
    let text = fs::read_to_string(&there).expect("a dump");
    let lines: Vec<_> = text.lines().collect();
    let last = lines.iter().rposition(|line| line.starts_with("{\"unique\":")).expect("there are some");
    for (left, message) in [
        ([&lines[..last], &lines[last + 1..]].concat(), format!("the dump is truncated after line {last}")),
        ([&lines[..3], &lines[4..]].concat(), "expected line 4 of the unique counters, not 5".to_owned()),
        (lines[..last].to_vec(), format!("the dump is truncated after line {last}")),
        (lines[..=last].to_vec(), format!("the dump is truncated after line {}", last + 1)),
        (
            [&lines[..=last], &[&lines[last + 1][..20]]].concat(),
            format!("the dump is truncated after line {}", last + 1),
        ),
    ] {
        let torn = folder.path().join("torn.ndjson");
        fs::write(&torn, left.join("\n")).expect("there is space");
        let new = format!("sqlite:{}", folder.path().join("new.db").display());
        let mut restore = run("restore", &new, &torn).await;
        assert_eq!(restore.wait(LIMIT).await.code(), Some(1));
        restore.wait_error_line(|line| line.contains(&message).then_some(()), LIMIT).await;
    }
}

#[tokio::test]
async fn a_dump_can_be_piped() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let (from, _store) = count(&folder.path().join("counts.db"), 3).await;
    let example = process::example().await;
    let pipe = format!("{0} dump --store {from} | {0} restore --store {1} -", example.display(), redis.url());
    let restored = summary(Process::start(Command::new("sh").args(["-c", &pipe]))).await;
    assert_eq!((&restored["counters"], &restored["lifetimes"]), (&3.into(), &3.into()), "{restored}");
}

#[tokio::test]
async fn damaged_and_truncated_dumps_are_reported_with_the_line() {
    let folder = tempfile::tempdir().expect("there is space");
    let (from, _store) = count(&folder.path().join("counts.db"), 30).await;
    let file = folder.path().join("dump.ndjson");
    summary(run("dump", &from, &file).await).await;
    let text = fs::read_to_string(&file).expect("a dump");
    let lines: Vec<_> = text.lines().collect();
    let damaged = [&lines[..7], &["192.0.2.1 - a line of a log"], &lines[8..]].concat().join("\n");
    let long = [&lines[..7], &[&*"x".repeat(10_000_000)]].concat().join("\n");
    for (text, message) in [
        (damaged, "line 8 of the dump: expected a line of a dump"),
        (long, "line 8 of the dump: expected a line of at most 65536 bytes"),
        (lines[..20].join("\n"), "the dump is truncated after line 20"),
        (lines[..20].join("\n") + "\n{\"line\":", "the dump is truncated after line 20"),
        ("{\"counters\":3}".to_owned(), "line 1 of the dump: expected a line of a dump"),
        (String::new(), "the dump is truncated after line 0"),
    ] {
        fs::write(&file, text).expect("there is space");
        let mut restore =
            run("restore", &format!("sqlite:{}", folder.path().join("new.db").display()), &file).await;
        assert_eq!(restore.wait(LIMIT).await.code(), Some(1));
        let error = restore
            .wait_error_line(|line| line.contains("dump.ndjson").then(|| line.to_owned()), LIMIT)
            .await;
        assert!(error.contains(message) && !error.contains("192.0.2.1"), "{error}");
    }
    // A compressed file is torn at any byte.
    let compressed = folder.path().join("dump.ndjson.gz");
    summary(run("dump", &from, &compressed).await).await;
    let bytes = fs::read(&compressed).expect("a dump");
    for length in [bytes.len() / 2, bytes.len() - 1] {
        fs::write(&compressed, &bytes[..length]).expect("there is space");
        let new = format!("sqlite:{}", folder.path().join("newer.db").display());
        let mut restore = run("restore", &new, &compressed).await;
        assert_eq!(restore.wait(LIMIT).await.code(), Some(1));
        let truncated = |line: &str| {
            let is_named = line.contains("the dump is truncated after line");
            (is_named && line.contains("adds no part twice")).then_some(())
        };
        restore.wait_error_line(truncated, LIMIT).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restores_killed_again_and_again_add_all_lines_once() {
    let redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let folder = tempfile::tempdir().expect("there is space");
    let mut random = Random::storm("of killed restores");
    let (from, old) = count(&folder.path().join("counts.db"), 3000).await;
    let file = folder.path().join("dump.ndjson");
    summary(run("dump", &from, &file).await).await;
    let mut restores = [run("restore", &redis.url(), &file).await, run("restore", &redis.url(), &file).await];
    for _ in 0..2 * storm_seconds() {
        tokio::time::sleep(random.millis(0..120)).await;
        let number = usize::from(random.among(0..2) == 0);
        restores[number].kill();
        restores[number] = run("restore", &redis.url(), &file).await;
    }
    for restore in restores {
        summary(restore).await;
    }
    let names: Vec<_> = (0..3000).map(|n| name(&format!("/{n}"))).collect();
    let new = store(&redis.url()).await;
    let expected = old.lifetimes(&names).await.expect("readable");
    assert_eq!(new.lifetimes(&names).await.expect("readable"), expected);
    assert!(expected.iter().all(|total| *total == Ok(1)));
    let day = precision(86_400);
    let samples = samples_of(&new, &names, day, always()).await;
    assert_eq!(samples, samples_of(&old, &names, day, always()).await);
}

#[tokio::test]
async fn a_dump_cannot_be_restored_into_the_source_store() {
    let folder = tempfile::tempdir().expect("there is space");
    let (url, store) = count(&folder.path().join("counts.db"), 3).await;
    let file = folder.path().join("dump.ndjson");
    summary(run("dump", &url, &file).await).await;
    let mut program = run("restore", &url, &file).await;
    assert_eq!(program.wait(LIMIT).await.code(), Some(1), "{program}");
    let words = "would be counted twice: restore it into an empty store or namespace";
    until("the reason is printed", LIMIT, async || program.to_string().contains(words)).await;
    assert_eq!(store.lifetimes(&[name("/0")]).await.expect("readable"), [Ok(1)]);
}

#[tokio::test]
async fn a_dump_does_not_replace_a_file_and_leaves_no_incomplete_file_behind() {
    let folder = tempfile::tempdir().expect("there is space");
    let counts = folder.path().join("counts.db");
    let (url, store) = count(&counts, 3000).await;
    let other = folder.path().join("other.ndjson.gz");
    fs::write(&other, "other").expect("there is space");
    for file in [&counts, &other] {
        let mut dump = run("dump", &url, file).await;
        assert_eq!(dump.wait(LIMIT).await.code(), Some(1), "{dump}");
        let words = format!("{}: File exists", file.display());
        let said = dump.wait_error_line(|line| line.contains(&words).then(|| line.to_owned()), LIMIT).await;
        assert!(said.ends_with("choose another name, because files are not replaced"), "{said}");
    }
    assert_eq!(fs::read(&other).expect("a file"), b"other");
    assert_eq!(store.lifetimes(&[name("/7")]).await.expect("readable"), [Ok(1)]);

    // The system limits the size of files, so that a write fails.
    let (example, file) = (process::example().await, folder.path().join("dump.ndjson"));
    let limited = "trap '' XFSZ; ulimit -f 80; exec \"$0\" dump --store \"$1\" \"$2\"";
    let mut command = Command::new("sh");
    let mut dump = Process::start(command.args(["-c", limited]).arg(example).arg(&url).arg(&file));
    assert_eq!(dump.wait(LIMIT).await.code(), Some(1), "{dump}");
    dump.wait_error_line(|line| line.contains("dump.ndjson: File too large").then_some(()), LIMIT).await;
    assert!(!file.exists());
}

#[tokio::test]
async fn a_stopped_dump_leaves_no_file_behind() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let proxy = FaultProxy::start(redis.address()).await;
    // The first command after the file is created never gets a reply.
    proxy.answer("SCAN", "");
    let file = folder.path().join("dump.ndjson");
    let mut dump = run("dump", &proxy.url(), &file).await;
    dump.wait_error_line(|line| line.contains("will retry for a minute").then_some(()), LIMIT).await;
    assert!(file.exists());
    dump.terminate();
    assert_eq!(dump.wait(LIMIT).await.code(), Some(1), "{dump}");
    dump.wait_error_line(|line| line.contains("the dump was stopped").then_some(()), LIMIT).await;
    assert!(!file.exists());
}
