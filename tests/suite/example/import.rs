//! The example's import of access logs.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use counter_core::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{LIMIT, Process, RedisServer, process, until};

use crate::random::Random;
use crate::support::BROWSER;

/// A line in the combined format, of a request made just now.
fn line(path: &str, status: u16, visitor: u8) -> String {
    let at = chrono(Timestamp::now());
    format!("192.0.2.{visitor} - - [{at}] \"GET {path} HTTP/1.1\" {status} 7 \"-\" \"{BROWSER}\"\n")
}

/// The time as servers log it: `22/Nov/2026:10:00:00 +0000`.
fn chrono(at: Timestamp) -> String {
    let shown =
        Command::new("date").args(["-u", "-d", &format!("@{at}"), "+%d/%b/%Y:%H:%M:%S +0000"]).output();
    String::from_utf8(shown.expect("there is a date").stdout).expect("text").trim().to_owned()
}

async fn import(redis: &RedisServer, arguments: &[&str]) -> Process {
    let mut command = Command::new(process::example().await);
    command.args(["import", "--store", &redis.url(), "--route", "/articles/{id}"]).args(arguments);
    Process::start(&mut command)
}

/// The last line of an import that ends by itself.
async fn summary(mut import: Process) -> Value {
    assert!(import.wait(LIMIT).await.success(), "{import}");
    let summary = import.wait_line(|line| serde_json::from_str::<Value>(line).ok(), LIMIT).await;
    assert!(summary["seconds"].as_f64() > Some(0.0), "{summary}");
    summary
}

fn totals(redis: &RedisServer) -> BTreeMap<String, u64> {
    let all = redis.strings(&["HGETALL", "access:total"]);
    let pairs = all.chunks_exact(2).filter(|pair| !pair[0].is_empty());
    pairs.map(|pair| (pair[0].clone(), pair[1].parse().expect("a number"))).collect()
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("text").to_owned()
}

#[tokio::test]
async fn a_log_is_counted_once_however_often_it_is_imported() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let log = path(&folder, "access.log");
    let mut text = String::new();
    for n in 0..50_u8 {
        text += &line(&format!("/articles/{}", n % 7), 200, n % 5);
    }
    text += &line("/favicon.ico", 404, 1);
    text += "nonsense\n";
    fs::write(&log, &text).expect("there is space");

    let first = summary(import(&redis, &[&log]).await).await;
    for (name, count) in [
        ("read", 52),
        ("recorded", 50),
        ("unmatched", 1),
        ("malformed", 1),
        ("excluded", 0),
        ("already_counted", 0),
    ] {
        assert_eq!(first[name], count, "{name} in {first}");
    }
    let expected = [("hits", 50), ("/articles/{id}", 50), ("status:2xx", 50), ("agent:human", 50)];
    let expected: BTreeMap<_, _> = expected.map(|(name, count)| (name.to_owned(), count)).into();
    assert_eq!(totals(&redis), expected);

    let second = summary(import(&redis, &[&log]).await).await;
    assert_eq!((&second["recorded"], &second["already_counted"]), (&json!(0), &json!(52)));
    // A rotation compresses it: it is the same log.
    assert!(Command::new("gzip").arg(&log).status().expect("there is gzip").success());
    let third = summary(import(&redis, &[&format!("{log}.gz")]).await).await;
    assert_eq!((&third["recorded"], &third["already_counted"]), (&json!(0), &json!(52)));
    assert_eq!(totals(&redis), expected);
}

#[tokio::test]
async fn a_format_that_cannot_be_found_out_is_told_without_the_line() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let log = path(&folder, "access.log");
    fs::write(&log, "a secret line\n").expect("there is space");
    let mut import = import(&redis, &[&log]).await;
    assert_eq!(import.wait(LIMIT).await.code(), Some(1));
    let told =
        import.wait_error_line(|line| line.contains("access.log").then(|| line.to_owned()), LIMIT).await;
    assert!(told.contains("line 1") && told.contains("combined") && !told.contains("secret"), "{told}");
}

#[tokio::test]
async fn a_log_that_is_followed_counts_once_over_kills_and_rotations() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let log = path(&folder, "access.log");
    let mut random = Random::storm("of an import");
    let (mut written, mut first) = (0_u64, 0_u32);
    let mut write = |log: &str, lines: u64| {
        let mut file = OpenOptions::new().create(true).append(true).open(log).expect("there is space");
        if file.metadata().expect("a file").len() == 0 {
            // Rotated logs are told apart by their first lines.
            first += 1;
            file.write_all(line(&format!("/articles/first-{first}"), 200, 9).as_bytes())
                .expect("there is space");
            written += 1;
        }
        for n in 0..lines {
            // In two parts, as a server may write it.
            let line = line(&format!("/articles/{n}"), 200, 3);
            let (begin, end) = line.split_at(line.len() / 2);
            file.write_all(begin.as_bytes()).expect("there is space");
            file.write_all(end.as_bytes()).expect("there is space");
        }
        written += lines;
        written
    };
    let mut rotated = 0;
    write(&log, 5);
    for round in 0..12 {
        let mut import = import(&redis, &["--follow", &log]).await;
        write(&log, random.among(1..20));
        tokio::time::sleep(random.millis(0..300)).await;
        match round % 4 {
            0 => rotate(Path::new(&log), &mut rotated, |log, to| fs::rename(log, to).expect("a file")),
            2 => rotate(Path::new(&log), &mut rotated, |log, to| {
                fs::copy(log, to).expect("there is space");
                File::create(log).expect("a file");
            }),
            _ => {}
        }
        write(&log, 3);
        tokio::time::sleep(random.millis(0..1500)).await;
        import.kill();
    }
    let mut import = import(&redis, &["--follow", &log]).await;
    // It can be told to stop once it has counted something.
    let expected = write(&log, 1);
    let counted = async || totals(&redis).get("/articles/{id}").is_some_and(|count| *count >= expected);
    until("all lines are counted", LIMIT, counted).await;
    import.terminate();
    let summary = summary(import).await;
    assert_eq!(summary["malformed"], 0, "{summary}");
    assert_eq!(totals(&redis)["/articles/{id}"], expected);
}

/// Moves the log away under the next number.
fn rotate(log: &Path, rotated: &mut u32, by: impl Fn(&Path, &Path)) {
    *rotated += 1;
    by(log, &log.with_extension(format!("log.{rotated}")));
}
