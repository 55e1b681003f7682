//! The import of access logs in the example.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use counter_core::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{FaultProxy, LIMIT, Process, RedisServer, process, until};

use crate::random::Random;
use crate::support::{BOT, BROWSER, assert_same_contents, clf, contents, copy_salts, storm_seconds};

/// Returns a log line in the combined format with the current time.
fn line(path: &str, status: u16, visitor: u8) -> String {
    line_at(Timestamp::now(), path, status, visitor)
}

pub(super) fn line_at(at: Timestamp, path: &str, status: u16, visitor: u8) -> String {
    let at = clf(at);
    format!("192.0.2.{visitor} - - [{at}] \"GET {path} HTTP/1.1\" {status} 7 \"-\" \"{BROWSER}\"\n")
}

pub(super) async fn import(redis: &RedisServer, arguments: &[&str]) -> Process {
    let mut command = Command::new(process::example().await);
    command.args(["import", "--store", &redis.url(), "--route", "/articles/{id}"]).args(arguments);
    Process::start(&mut command)
}

/// Waits for the import to end, and parses the last line.
pub(super) async fn summary(import: Process) -> Value {
    summary_within(LIMIT, import).await
}

async fn summary_within(limit: Duration, mut import: Process) -> Value {
    assert!(import.wait(limit).await.success(), "{import}");
    let summary = import.wait_line(|line| serde_json::from_str::<Value>(line).ok(), LIMIT).await;
    assert!(summary["seconds"].as_f64() > Some(0.0), "{summary}");
    summary
}

pub(super) fn totals(redis: &RedisServer) -> BTreeMap<String, u64> {
    let all = redis.strings(&["HGETALL", "access:total"]);
    let pairs = all.chunks_exact(2).filter(|pair| !pair[0].is_empty());
    pairs.map(|pair| (pair[0].clone(), pair[1].parse().expect("a number"))).collect()
}

pub(super) fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("text").to_owned()
}

#[tokio::test]
async fn a_log_is_counted_once_even_if_it_is_imported_repeatedly() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let log = path(&folder, "access.log");
    let mut text = String::new();
    for n in 0..50_u8 {
        text += &line(&format!("/articles/{}", n % 7), 200, n % 5);
    }
    text += &line("/", 200, 1);
    text += &line("/favicon.ico", 404, 1);
    text += "nonsense\n";
    fs::write(&log, &text).expect("there is space");

    let routes = ["--route", "/"];
    let first = summary(import(&redis, &[&routes[..], &[&log]].concat()).await).await;
    for (name, count) in [
        ("read", 53),
        ("recorded", 51),
        ("unmatched", 1),
        ("malformed", 1),
        ("excluded", 0),
        ("already_counted", 0),
    ] {
        assert_eq!(first[name], count, "{name} in {first}");
    }
    let hits = [("hits", 51), ("/articles/{id}", 50), ("/", 1), ("status:2xx", 51), ("agent:human", 51)];
    let views = [("view:hits", 51), ("view:/articles/{id}", 50), ("view:/", 1)];
    let expected = hits.into_iter().chain(views).map(|(name, count)| (name.to_owned(), count));
    let expected: BTreeMap<_, _> = expected.collect();
    assert_eq!(totals(&redis), expected);

    let second = summary(import(&redis, &[&log]).await).await;
    assert_eq!((&second["recorded"], &second["already_counted"]), (&json!(0), &json!(53)));
    // A rotation compresses the log, but it is still the same log.
    assert!(Command::new("gzip").arg(&log).status().expect("there is gzip").success());
    let third = summary(import(&redis, &[&format!("{log}.gz")]).await).await;
    assert_eq!((&third["recorded"], &third["already_counted"]), (&json!(0), &json!(53)));
    assert_eq!(totals(&redis), expected);
}

#[tokio::test]
async fn expired_lines_are_reported_and_counted_in_lifetimes() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let log = path(&folder, "access.log");
    let (now, day) = (Timestamp::now(), 86_400);
    let times = [now.minus(200 * day), now, now.plus(2 * day)];
    fs::write(&log, times.map(|at| line_at(at, "/", 200, 1)).concat()).expect("there is space");
    let report = summary(import(&redis, &["--route", "/", &log]).await).await;
    // A line counts for `hits`, the page, the status and the agent, and for the views of the site and of the page.
    let expected =
        json!({ "applied": 6, "archived": 0, "expired": 6, "ahead": 6, "refused": 0, "returned": 0 });
    assert_eq!((&report["recorded"], &report["hits"]), (&json!(3), &expected), "{report}");
    assert_eq!(totals(&redis)["hits"], 2);
}

/// Returns log lines for a range of seconds after `from`.
fn lines_of(from: Timestamp, seconds: std::ops::Range<u64>, path: &str) -> String {
    seconds.map(|second| line_at(from.plus(second), path, 200, 1)).collect()
}

/// Waits until an import fails, and checks if it printed this error message.
async fn assert_fails(mut import: Process, words: &str) {
    assert!(!import.wait(LIMIT).await.success(), "{import}");
    import.wait_error_line(|line| line.contains(words).then_some(()), LIMIT).await;
}

#[tokio::test]
async fn a_log_counts_once_with_any_secret() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let log = path(&folder, "access.log");
    fs::write(&log, lines_of(Timestamp::now().minus(1000), 0..20, "/")).expect("there is space");
    for (secret, recorded) in [(None, 20), (Some("00112233445566778899aabbccddeeff"), 0), (None, 0)] {
        let secret: Vec<_> = secret.into_iter().flat_map(|secret| ["--secret", secret]).collect();
        let report = summary(import(&redis, &[&["--route", "/", &log], &secret[..]].concat()).await).await;
        assert_eq!(report["recorded"], recorded, "{report}");
    }
    assert_eq!(totals(&redis)["hits"], 20);
}

#[tokio::test]
async fn a_trimmed_or_merged_log_is_rejected() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let log = |name: &str, text: &str| {
        let log = path(&folder, name);
        fs::write(&log, text).expect("there is space");
        log
    };
    let from = Timestamp::now().minus(1000);
    let (monday, tuesday) = (lines_of(from, 0..300, "/"), lines_of(from, 300..600, "/"));
    for (name, text) in [("monday.log", &monday), ("tuesday.log", &tuesday)] {
        summary(import(&redis, &["--route", "/", &log(name, text)]).await).await;
    }
    let trimmed = &monday[monday.len() / 2..];
    let trimmed = &trimmed[trimmed.find('\n').expect("a line") + 1..];
    for (name, text) in [("trimmed.log", trimmed), ("week.log", &[&monday[..], &tuesday].concat())] {
        let import = import(&redis, &["--route", "/", &log(name, text)]).await;
        assert_fails(import, "were already counted as part of another log").await;
    }
    // The first line is from the original log, but the rest is different.
    let other = lines_of(from, 0..1, "/") + &lines_of(from, 1..600, "/articles/7");
    let import_of =
        async |name| import(&redis, &["--route", "/", "--name", name, &log("other.log", &other)]).await;
    assert_fails(import_of("log").await, "starts with the same line as another log").await;
    assert_eq!(totals(&redis)["hits"], 600);
    assert_eq!(summary(import_of("other").await).await["recorded"], 600);
}

#[tokio::test]
async fn a_damaged_compressed_log_is_not_counted() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let log = path(&folder, "access.log");
    fs::write(&log, lines_of(Timestamp::now().minus(1000), 0..500, "/")).expect("there is space");
    assert!(Command::new("gzip").arg(&log).status().expect("there is gzip").success());
    let (good, bad) = (format!("{log}.gz"), path(&folder, "bad.gz"));
    let whole = fs::read(&good).expect("a file");
    for damage in [whole.len() / 3, whole.len() / 2, whole.len() - 6] {
        let mut bytes = whole.clone();
        bytes[damage] ^= 4;
        fs::write(&bad, &bytes).expect("there is space");
        assert_fails(import(&redis, &["--route", "/", &bad]).await, "is damaged or incomplete").await;
    }
    fs::write(&bad, &whole[..whole.len() / 2]).expect("there is space");
    assert_fails(import(&redis, &["--route", "/", &bad]).await, "is damaged or incomplete").await;
    assert!(totals(&redis).is_empty());
    assert_eq!(summary(import(&redis, &["--route", "/", &good]).await).await["recorded"], 500);
}

/// Returns the inodes of the files that a process has opened.
fn open_inodes(process: u32) -> Vec<u64> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).expect("it runs");
    files.filter_map(|file| Some(fs::metadata(file.ok()?.path()).ok()?.ino())).collect()
}

#[tokio::test]
async fn files_deleted_during_an_outage_are_counted() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let (proxy, from) = (FaultProxy::start(redis.address()).await, Timestamp::now().minus(1000));
    let log = path(&folder, "access.log");
    fs::write(&log, lines_of(from, 0..10, "/")).expect("there is space");
    let mut command = Command::new(process::example().await);
    command.args([
        "import",
        "--store",
        &proxy.url(),
        "--route",
        "/",
        "--format",
        "combined",
        "--follow",
        &log,
    ]);
    let mut import = Process::start(&mut command);
    until("the log is counted", LIMIT, async || totals(&redis).get("hits") == Some(&10)).await;
    proxy.refuse(true);
    let process = import.id();
    for part in 1..5 {
        // The rotation deletes the previously rotated file.
        fs::rename(&log, format!("{log}.1")).expect("a file");
        fs::write(&log, lines_of(from, part * 10..part * 10 + 10, "/")).expect("there is space");
        let inode = fs::metadata(&log).expect("a file").ino();
        until("the file was found", LIMIT, async || open_inodes(process).contains(&inode)).await;
    }
    proxy.refuse(false);
    until("all files are counted", LIMIT, async || totals(&redis).get("hits") == Some(&50)).await;
    import.terminate();
    let report = summary(import).await;
    assert_eq!((&report["recorded"], &report["lost"]), (&json!(50), &json!(0)), "{report}");
}

#[tokio::test]
async fn lines_of_an_idle_log_that_the_store_lost_are_counted_again() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let log = path(&folder, "access.log");
    fs::write(&log, (1..=9).map(|visitor| line("/articles/7", 200, visitor)).collect::<String>())
        .expect("there is space");
    let mut import = import(&redis, &["--follow", &log]).await;
    for _ in 0..2 {
        until("everything is counted", LIMIT, async || totals(&redis).get("hits") == Some(&9)).await;
        redis.command(&["FLUSHALL"]);
    }
    until("everything is counted", LIMIT, async || totals(&redis).get("hits") == Some(&9)).await;
    // New lines should then be counted as usual.
    OpenOptions::new()
        .append(true)
        .open(&log)
        .and_then(|mut log| log.write_all(line("/articles/8", 200, 1).as_bytes()))
        .expect("there is space");
    until("the rest is counted", LIMIT, async || totals(&redis).get("hits") == Some(&10)).await;
    import.terminate();
    let report = summary(import).await;
    assert_eq!((&report["recorded"], &report["already_counted"]), (&json!(28), &json!(0)), "{report}");
}

#[tokio::test]
async fn lines_that_have_been_read_are_counted_before_an_import_stops() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let proxy = FaultProxy::start(redis.address()).await;
    let log = path(&folder, "access.log");
    fs::write(&log, line("/articles/7", 200, 1)).expect("there is space");
    let mut command = Command::new(process::example().await);
    command.args(["import", "--store", &proxy.url(), "--route", "/articles/{id}", "--follow", &log]);
    let mut import = Process::start(&mut command);
    until("the line is counted", LIMIT, async || totals(&redis).get("hits") == Some(&1)).await;
    proxy.reply_with(u64::MAX, "LOADING the test");
    let more: String = (2..=9).map(|visitor| line("/articles/7", 200, visitor)).collect();
    OpenOptions::new()
        .append(true)
        .open(&log)
        .and_then(|mut log| log.write_all(more.as_bytes()))
        .expect("there is space");
    import.wait_error_line(|line| line.contains("failed to count the log").then_some(()), LIMIT).await;
    import.terminate();
    proxy.reply_with(0, "");
    let report = summary(import).await;
    assert_eq!((&report["recorded"], totals(&redis)["hits"]), (&json!(9), 9), "{report}");
}

#[tokio::test]
async fn standard_input_needs_a_name_and_cannot_be_followed() {
    let redis = RedisServer::start();
    for (arguments, said) in
        [(&["-", "--format", "combined"][..], "--name"), (&["-", "--name", "a", "--follow"], "--follow")]
    {
        let mut import = import(&redis, arguments).await;
        assert_eq!(import.wait(LIMIT).await.code(), Some(1));
        import.wait_error_line(|line| line.contains(said).then_some(()), LIMIT).await;
    }
    assert!(redis.strings(&["KEYS", "*"]).is_empty());
}

#[tokio::test]
async fn a_missing_folder_is_named_in_the_error() {
    let redis = RedisServer::start();
    let mut import = import(&redis, &["--follow", "/no-such-folder/access.log"]).await;
    assert_eq!(import.wait(LIMIT).await.code(), Some(1));
    import.wait_error_line(|line| line.contains("/no-such-folder/access.log").then_some(()), LIMIT).await;
}

#[tokio::test]
async fn an_unknown_format_is_reported_without_the_line() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let log = path(&folder, "access.log");
    fs::write(&log, "a secret line\n").expect("there is space");
    let mut import = import(&redis, &[&log]).await;
    assert_eq!(import.wait(LIMIT).await.code(), Some(1));
    let report =
        import.wait_error_line(|line| line.contains("access.log").then(|| line.to_owned()), LIMIT).await;
    assert!(
        report.contains("line 1") && report.contains("combined") && !report.contains("secret"),
        "{report}"
    );
}

/// A log that is appended and rotated, with the full text that has been written.
struct Log {
    path: PathBuf,
    /// The latest time in the log. It is so far in the past that the finest precisions have always expired.
    end: Timestamp,
    random: Random,
    everything: Vec<u8>,
    rotated: u32,
}

impl Log {
    fn new(folder: &TempDir, random: Random) -> Self {
        let (path, end) = (folder.path().join("access.log"), Timestamp::now().minus(20 * 60));
        Self { path, end, random, everything: Vec::new(), rotated: 0 }
    }

    fn line(&mut self) -> String {
        let (visitor, path) = (self.random.among(0..2000), self.random.among(0..50));
        let at = clf(self.end.minus(self.random.among(0..40 * 60)));
        let path = match path {
            0 => "/favicon.ico".to_owned(),
            1 => return "nonsense\n".to_owned(),
            _ => format!("/articles/{path}"),
        };
        let (status, agent) =
            (self.random.one_of(&[200, 200, 304, 404, 499]), self.random.one_of(&[BROWSER, BOT]));
        let address = format!("192.0.{}.{}", visitor / 250, visitor % 250);
        let referrer = self.random.one_of(&["-", "https://a.example/", "https://b.example/"]);
        // Without the size, a large part would contain all lines of a small part by chance, and be rejected.
        let size = self.random.among(0..1_000_000);
        format!("{address} - - [{at}] \"GET {path} HTTP/1.1\" {status} {size} \"{referrer}\" \"{agent}\"\n")
    }

    /// Appends lines in two writes, because a server might do this.
    fn write(&mut self, lines: u64) {
        let mut text = String::new();
        if fs::metadata(&self.path).map_or(0, |file| file.len()) == 0 {
            // This line is used to identify the log when it has been rotated.
            text = format!("nonsense of part {}\n", self.rotated);
        }
        (0..lines).for_each(|_| text += &self.line());
        let (begin, end) = text.as_bytes().split_at(text.len() - 5);
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).expect("the log");
        for part in [begin, end] {
            file.write_all(part).expect("there is space");
        }
        self.everything.extend_from_slice(text.as_bytes());
    }

    /// Rotates the log in a random way.
    fn rotate(&mut self) {
        self.rotated += 1;
        let (log, number) = (&self.path, self.rotated);
        let to = log.with_extension(format!("log.{number}"));
        match self.random.among(0..4) {
            0 => fs::rename(log, to).expect("a file"),
            1 => {
                fs::rename(log, to).expect("a file");
                File::create(log).expect("a file");
            }
            2 => {
                fs::copy(log, to).expect("there is space");
                File::create(log).expect("a file");
            }
            _ => {
                fs::rename(log, &to).expect("a file");
                self.compress(number);
            }
        }
        if self.random.among(0..2) == 0 {
            let one = self.random.among(0..number.into());
            self.compress(u32::try_from(one).expect("few") + 1);
        }
    }

    fn compress(&self, number: u32) {
        let log = self.path.with_extension(format!("log.{number}"));
        if log.exists() {
            assert!(Command::new("gzip").arg(log).status().expect("there is gzip").success());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_killed_again_and_again_count_all_lines_once() {
    let mut redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let folder = tempfile::tempdir().expect("there is space");
    let mut random = Random::storm("of imports");
    let mut log = Log::new(&folder, random.fork());
    let path = log.path.to_str().expect("text").to_owned();
    let follow = ["--follow", "--labels", "--format", "combined", &path];
    log.write(100);
    let mut imports = [import(&redis, &follow).await, import(&redis, &follow).await];
    for _ in 0..2 * storm_seconds() {
        for _ in 0..random.among(1..4) {
            // In order to have imports that are near the end of the log, or sometimes far from it.
            let max_lines = random.one_of(&[2, 2, 2, 20, 20, 20, 200, 200, 200, 10_000]);
            log.write(random.among(1..max_lines));
            tokio::time::sleep(random.millis(0..100)).await;
            if random.among(0..8) == 0 {
                log.rotate();
            }
        }
        tokio::time::sleep(random.millis(0..300)).await;
        for number in [[0, 1], [1, 0]][usize::from(random.among(0..2) == 0)] {
            imports[number].kill();
            if random.among(0..12) == 0 {
                redis.kill();
                redis.restart();
            }
            imports[number] = import(&redis, &follow).await;
            tokio::time::sleep(random.millis(0..200)).await;
        }
    }
    let whole = path_of(&folder, "whole", &log.everything);
    let is_counted = |line: &&[u8]| !line.starts_with(b"nonsense") && !contains(line, "/favicon.ico");
    let expected = log.everything.split_inclusive(|byte| *byte == b'\n').filter(is_counted).count() as u64;
    let counted = || totals(&redis).get("hits").copied().unwrap_or_default();
    let mut count = counted();
    while count < expected {
        until("more lines are counted", LIMIT, async || counted() > count).await;
        count = counted();
    }
    for mut import in imports {
        import.terminate();
        let status = import.wait(LIMIT).await;
        // If the process is still starting, the signal will kill it.
        assert!(status.success() || status.signal() == Some(15), "{import}");
    }
    copy_salts(&redis, "access:", "whole:");
    let whole = import(&redis, &["--namespace", "whole:", "--labels", &whole]).await;
    // A long storm writes a long log.
    let report = summary_within(LIMIT + Duration::from_secs(2 * storm_seconds()), whole).await;
    assert_eq!((&report["recorded"], &report["already_counted"]), (&json!(expected), &json!(0)), "{report}");
    assert!(totals(&redis).contains_key("label:referrer@:/articles/{id} = a.example"));
    assert_same_contents(&contents(&redis, "access:"), &contents(&redis, "whole:"));
}

fn path_of(folder: &TempDir, name: &str, content: &[u8]) -> String {
    let path = path(folder, name);
    fs::write(&path, content).expect("there is space");
    path
}

fn contains(line: &[u8], text: &str) -> bool {
    line.windows(text.len()).any(|window| window == text.as_bytes())
}
