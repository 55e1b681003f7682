//! A spool on a disk that hangs in the middle of a write.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use tests::process::example_command;
use tests::{RedisServer, until};

use super::program::{LIMIT, Site, TOKEN, start};
use super::store::{until_counted, visit};

/// Starts the example with a spool on a disk that hangs while a file `hang` exists.
async fn start_on_disk(folder: &Path, redis: &RedisServer) -> Site {
    let library = folder.join("hang.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/suite/example/hang.c");
    let made = Command::new("cc").args(["-shared", "-fPIC", source, "-ldl", "-o"]).arg(&library).status();
    assert!(made.expect("the C compiler that links Rust").success());
    let mut command = example_command().await;
    command.env_remove("COUNTER_STORE").current_dir(folder);
    command.env("LD_PRELOAD", library).env("COUNTER_HANG", folder.join("hang"));
    command.args(["--listen", "127.0.0.1:0", "--admin-token", TOKEN, "--flush-interval", "0.05"]);
    command.args(["--redis", &redis.url(), "--spool", "spool"]);
    let (process, address) = start(&mut command).await;
    Site { process, address }
}

async fn until_spool(site: &Site, what: &str, holds: impl Fn(&Value) -> bool) {
    until(what, LIMIT, async || holds(&site.fetch("health").await["spool"])).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_hanging_disk_only_affects_durability() {
    let (redis, folder) = (RedisServer::start(), TempDir::new().expect("a folder"));
    let hang = folder.path().join("hang");
    let mut site = start_on_disk(folder.path(), &redis).await;
    visit(&site, 1).await;
    until_spool(&site, "there is a file", |spool| spool["bytes"].as_u64() > Some(0)).await;
    let mut hits = 1;
    for is_last in [false, true] {
        std::fs::write(&hang, "").expect("writable");
        hits += 5;
        visit(&site, 5).await;
        // Requests are answered, hits are stored, and the failure is reported.
        until_counted(&site, hits).await;
        let is_reported = |spool: &Value| {
            let error = spool["last_error"].as_str().unwrap_or_default();
            // The disk has been retried in the meantime.
            spool["failing_for_seconds"].as_f64() > Some(10.0) && error.contains("the disk did not respond")
        };
        until_spool(&site, "the failure is reported", is_reported).await;
        hits += 1;
        visit(&site, 1).await;
        until_counted(&site, hits).await;
        let threads = std::fs::read(&hang).expect("readable").len();
        assert_eq!(threads, 1, "threads hang");
        if is_last {
            // A graceful shutdown must not wait for the disk.
            site.process.terminate();
            let ended = site.process.wait(LIMIT).await;
            assert!(ended.success(), "{}", site.process);
        }
        std::fs::remove_file(&hang).expect("ours");
        if !is_last {
            let is_well = |spool: &Value| spool["failing_for_seconds"].is_null() && spool["unwritten"] == 0;
            until_spool(&site, "it is written again", is_well).await;
        }
    }
    let next = start_on_disk(folder.path(), &redis).await;
    until_spool(&next, "the leftover spool is read", |spool| spool["leftovers"] == 0).await;
    visit(&next, 1).await;
    until_counted(&next, hits + 1).await;
    assert_eq!(redis.int(&["HGET", "access:total", "hits"]).unsigned_abs(), hits + 1);
}
