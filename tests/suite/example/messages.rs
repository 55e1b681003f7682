//! Error messages of the command line: what is wrong, where, and what to do.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;
use tests::http::get;
use tests::process::example_command;
use tests::{Process, RedisServer};

use super::program::{LIMIT, start};
use super::store::start_in;

/// Placeholder for the address of another server.
const TAKEN: &str = "TAKEN";

/// Placeholder for a space within an argument.
const SPACE: char = '␣';

/// A command line, and the words of the message.
type Case = (&'static str, &'static [&'static str]);

const URL: &str = "the URL must start with sqlite:, redis://, postgres://, mysql:// or memory:";
const NO_FILE: &str = "No such file or directory (os error 2); check the path";
const NOT_A_DATABASE: &str = "bad.db cannot be opened: (code: 26) file is not a database; choose a file that was created by this program";
const NOTHING: &str =
    "there is nothing to read, because counts in memory end with their process; name a file";
const JSON: &str = "correct the file, or see the documentation for its format";
const NO_SERVER: &str = "check the address, and that the server is running";
const NO_TLS: &str = "and that it uses TLS: if not, use redis://";
const LOST: &str =
    "the counts would be lost, because those in memory end with their process; name a file or a server";
const HOPS: &str = "expected a number of proxies, such as 0 or 1";
const SITE: &str = "expected NAME=URL, as in shop=redis://127.0.0.1:6379; a space separates sites";
const MISSING: &str = "the following required arguments were not provided";
const NO_GRID: &str = "--change-grid needs --utc-offset or --time-zone, which set the new buckets";

/// Options that the parser rejects, with the status 2.
const INVALID: &[Case] = &[
    (
        "--listen 99999",
        &["'99999' for '--listen <ADDRESS>'", "such as 127.0.0.1:3000, localhost:3000 or [::1]:3000"],
    ),
    ("--listen http://localhost:3000", &["for '--listen <ADDRESS>'", "expected a host and a port"]),
    ("health --listen localhost", &["'localhost' for '--listen <ADDRESS>'", "expected a host and a port"]),
    (
        "--time-zone Europe/Berln",
        &["for '--time-zone <ZONE>'", "not a time zone of the IANA database, e.g. Europe/Berlin"],
    ),
    (
        "import --time-zone +01:00 access.log",
        &["for '--time-zone <ZONE>'", "for a UTC offset, use --utc-offset"],
    ),
    ("dump --time-zone -05:30", &["for '--time-zone <ZONE>'", "for a UTC offset, use --utc-offset"]),
    ("--utc-offset 1", &["'1' for '--utc-offset <OFFSET>'", "such as +01:00 or -05:30"]),
    ("--utc-offset +25:00", &["for '--utc-offset <OFFSET>'", "such as +01:00 or -05:30"]),
    ("--utc-offset=-5:30", &["for '--utc-offset <OFFSET>'", "such as +01:00 or -05:30"]),
    ("--utc-offset CET", &["for '--utc-offset <OFFSET>'", "such as +01:00 or -05:30"]),
    (
        "--ignore-network 10.0.0.0/99",
        &["'10.0.0.0/99' for '--ignore-network <CIDR>'", "must be from 0 to 32, as in 192.0.2.0/24"],
    ),
    (
        "import --ignore-network ::/129 access.log",
        &["for '--ignore-network <CIDR>'", "must be from 0 to 128, as in 2001:db8::/32"],
    ),
    ("--ignore-network 10.0.0.1", &["for '--ignore-network <CIDR>'", "or 192.0.2.1/32 for a single address"]),
    ("--trust-hops x", &["'x' for '--trust-hops <NUMBER>'", HOPS]),
    ("--trust-hops -1", &["'-1' for '--trust-hops <NUMBER>'", HOPS]),
    ("import --trust-hops -1 access.log", &["'-1' for '--trust-hops <NUMBER>'", HOPS]),
    ("--namespace abc", &["for '--namespace <PREFIX>'", "must end with a separator: write \"abc:\""]),
    (
        "--labels --country-header a:b",
        &["'a:b' for '--country-header <NAME>'", "the name of a header, such as CF-IPCountry"],
    ),
    ("--webhook-secret hidden", &[MISSING, "--webhook <URL>"]),
    ("--webhook-body slack --alerts", &[MISSING, "--webhook <URL>"]),
    ("--archive-interval 60", &[MISSING, "--archive <URL>"]),
    ("--demo-trafic", &["unexpected argument '--demo-trafic'"]),
    ("--flush-interval 0", &["'0' for '--flush-interval <SECONDS>'", "at least 0.001 seconds"]),
    ("--archive-interval 0.0001", &["for '--archive-interval <SECONDS>'", "at least 0.001 seconds"]),
    ("--request-timeout 1e19", &["for '--request-timeout <SECONDS>'", "a number of seconds up to 31622400"]),
    ("--drain-timeout NaN", &["for '--drain-timeout <SECONDS>'", "a number of seconds up to 31622400"]),
    ("--confirm=-1", &["for '--confirm <SECONDS>'", "a number of seconds up to"]),
    ("--flush-interval -1", &["'-1' for '--flush-interval <SECONDS>'", "a number of seconds up to"]),
    ("health --timeout -1", &["'-1' for '--timeout <SECONDS>'", "a number of seconds up to"]),
    ("--report monthly --alerts", &["'monthly' for '--report <PERIOD>'", "daily, weekly"]),
    (
        "--database redis://x",
        &["for '--database <URL>'", "the forum needs a SQLite file, such as sqlite:forum.db"],
    ),
    ("--recount-at 25:00", &["'25:00' for '--recount-at <TIME>'", "such as 04:00 or 23:30"]),
    (
        "import --format nonsense access.log",
        &["'nonsense' for '--format <FORMAT>'", "neither the name of a format"],
    ),
    ("import", &["<FILE>..."]),
    ("serve", &["unrecognized subcommand 'serve'"]),
];

/// Settings and files that are rejected, with the status 1.
const REJECTED: &[Case] = &[
    // Stores.
    ("--store redis//127.0.0.1", &["--store redis//127.0.0.1: ", URL]),
    ("--store foo://x", &["--store foo://x: ", URL]),
    ("--store counts.db", &["--store counts.db: ", URL]),
    ("import --store redisfoo://x access.log", &["--store redisfoo://x: ", URL]),
    ("--store redis://", &["--store redis://: invalid Redis address, expected e.g. redis://127.0.0.1:6379"]),
    ("--store redis://:hidden@127.0.0.1:x", &["--store redis://127.0.0.1:x: invalid Redis address"]),
    ("--store sqlite:", &["--store sqlite:: the name of the file is missing, as in sqlite:counts.db"]),
    ("--store sqlite:bad.db", &["--store sqlite:bad.db: ", NOT_A_DATABASE]),
    (
        "--store sqlite:no/c.db",
        &["--store sqlite:no/c.db: ", "no/c.db cannot be opened: the folder ", "check the path"],
    ),
    (
        "--store sqlite:folder",
        &["--store sqlite:folder: ", "Is a directory", "the path must be that of a file"],
    ),
    ("--store sqlite:c.db?mode=x", &["--store sqlite:c.db?mode=x: ", "unknown value \"x\" for `mode`"]),
    (
        "--store memory: --spool spool",
        &["--spool requires a store that is not in memory; omit it, or set --store"],
    ),
    (
        "--store memory: --archive sqlite:no/a.db",
        &["--archive sqlite:no/a.db: ", "the folder ", "check the path"],
    ),
    (
        "--store memory: --database sqlite:no/f.db",
        &["--database sqlite:no/f.db: ", "the folder ", "check the path"],
    ),
    ("--site us=sqlite:typo.db", &["--site us=sqlite:typo.db: ", "typo.db cannot be opened: ", NO_FILE]),
    ("--site us=foo://ann:hidden@x", &["--site us=foo://x: ", URL]),
    ("--site foo", &["--site foo: ", SITE]),
    ("--site redis://:hidden@x?node=y", &["--site redis://x: ", SITE]),
    ("--site a␣b=sqlite:x.db", &["--site a: ", SITE]),
    ("--site a=redis://127.0.0.1:1#b␣ad", &["--site ad: ", SITE]),
    (
        "--site a=redis://:hidden@127.0.0.1:1#b",
        &["--site a=redis://127.0.0.1:1: the namespace \"b\" must end with a separator: write \"b:\""],
    ),
    (
        "--site a=sqlite:bad.db --site a=sqlite:empty",
        &["--site a=sqlite:empty: another site has this name; choose a different one"],
    ),
    // Options that do not suit the store, which is not created.
    (
        "--store sqlite:new.db --spool access.log",
        &["--spool access.log: this is a file; choose a directory, which is created"],
    ),
    ("--store sqlite:new.db --change-grid", &[NO_GRID]),
    ("import --store sqlite:new.db --change-grid access.log", &[NO_GRID]),
    ("--store sqlite:new.db --archive sqlite::memory:", &["--archive must not be in memory"]),
    ("--store sqlite:new.db --archive redis://x", &["--archive must be a database: sqlite:"]),
    ("import --store sqlite:new.db --archive x access.log", &["--archive must be a database: sqlite:"]),
    ("--store sqlite:new.db --labels --private-path /{", &["--private-path: the pattern \"/{\""]),
    ("restore --store memory: rules.json", &["--store memory:: ", LOST]),
    ("restore --store sqlite::memory: rules.json", &["--store sqlite::memory:: ", LOST]),
    // Commands that read a store.
    ("dump", &["--store sqlite:access-counter.db: ", "access-counter.db cannot be opened: ", NO_FILE]),
    ("dump --store sqlite:typo.db", &["--store sqlite:typo.db: ", "typo.db cannot be opened: ", NO_FILE]),
    ("dump --store sqlite:typo.db?mode=rwc", &["--store sqlite:typo.db?mode=rwc: ", NO_FILE]),
    ("dump --store sqlite:no/c.db dump.ndjson", &["--store sqlite:no/c.db: ", NO_FILE]),
    ("dump --store sqlite:bad.db dump.ndjson", &["--store sqlite:bad.db: ", NOT_A_DATABASE]),
    ("dump --store sqlite:empty", &["--store sqlite:empty: ", "the file is empty, so it is not a store"]),
    ("dump --store sqlite:folder", &["--store sqlite:folder: ", "the path must be that of a file"]),
    ("dump --store memory:", &["--store memory:: ", NOTHING]),
    ("dump --store sqlite::memory:", &["--store sqlite::memory:: ", NOTHING]),
    ("dump --store sqlite:typo.db --change-grid", &["--change-grid: this command only reads the store"]),
    (
        "health --listen 127.0.0.1:1",
        &["--listen 127.0.0.1:1: no response: Connection refused", "check the address"],
    ),
    // Addresses to listen on.
    (
        "--listen TAKEN",
        &["--listen 127.0.0.1:", "Address already in use", "stop the other program, or choose another port"],
    ),
    (
        // This address is reserved (RFC 1112), so no machine has it.
        "--listen 240.0.0.1:1",
        &["--listen 240.0.0.1:1: ", "choose an address of this machine, such as 127.0.0.1"],
    ),
    // Other options.
    ("--admin-token short", &["--admin-token: a token must have at least 16 characters", "you can use "]),
    (
        "--secret hidden",
        &["--secret: a secret has 32 hexadecimal digits; you can create one with `openssl rand -hex 16`"],
    ),
    (
        "import --secret hidden access.log",
        &["--secret: a secret has 32 hexadecimal digits; you can create one"],
    ),
    ("--alert-rules no.json", &["--alert-rules no.json: ", NO_FILE]),
    ("--alert-rules access.log", &["--alert-rules access.log: ", JSON]),
    ("--alerts --alert-rules rules.json", &["--alert-rules rules.json: invalid type: map", JSON]),
    ("--webhook http://example.com/x", &["--webhook needs --alerts, --alert-rules or --report"]),
    ("--webhook hidden --alerts", &["--webhook: not an absolute http or https URL"]),
    (
        "--webhook-secret hidden --alerts --webhook http://127.0.0.1:1/",
        &["--webhook-secret: the secret must be `whsec_`"],
    ),
    // Files.
    ("import no.log", &["no.log: ", NO_FILE]),
    ("import --store sqlite:i.db folder", &["folder: is a directory; the path must be that of a file"]),
    (
        "import --store sqlite:i.db junk.gz",
        &["junk.gz: the format of line 1 is unknown", "set --format, or check that this"],
    ),
    (
        "import --store sqlite:i.db rules.json",
        &["rules.json: the format of line 1 is unknown", "set --format"],
    ),
    (
        "import --store sqlite:i.db --follow folder",
        &["folder: is a directory; the path must be that of a file"],
    ),
    ("import --store sqlite:i.db --follow no/a.log", &["no/a.log: ", NO_FILE]),
    ("import --store sqlite:i.db --name a -", &["the standard input requires --format, such as combined"]),
    (
        "import --store sqlite:i.db --name a\u{7} access.log",
        &["--name: a source name must have 1 to 255 bytes"],
    ),
    ("import --rules no.json access.log", &["--rules no.json: ", NO_FILE]),
    ("import --rules access.log access.log", &["--rules access.log: ", JSON]),
    ("import --route /{ access.log", &["--route: the pattern \"/{\" has an unpaired brace"]),
    ("restore no.ndjson", &["no.ndjson: ", NO_FILE]),
    (
        "restore --store sqlite:new.db empty",
        &["empty: the file is empty, so the dump is truncated after line 0; copy the whole file"],
    ),
    ("restore access.log", &["access.log: this is not a dump; the file must be written by `dump`"]),
];

/// Databases that do not respond.
const AWAY: &[Case] = &[
    ("--store postgres://ann:hidden@127.0.0.1:1/site", &["--store postgres://127.0.0.1:1/site: ", NO_SERVER]),
    ("dump --store mysql://ann:hidden@127.0.0.1:1/site", &["--store mysql://127.0.0.1:1/site: ", NO_SERVER]),
];

#[tokio::test]
async fn an_invalid_option_is_named_with_the_expected_value() {
    check(INVALID, 2).await;
}

#[tokio::test]
async fn a_rejected_command_names_the_place_and_the_remedy_and_creates_nothing() {
    check(REJECTED, 1).await;
}

#[tokio::test]
async fn a_database_that_is_away_is_named_without_the_password() {
    check(AWAY, 1).await;
}

/// Runs the commands in a folder with unsuitable files.
async fn check(cases: &[Case], status: i32) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    fs::create_dir(path.join("folder")).expect("there is space");
    let line = "192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] \"GET / HTTP/1.1\" 200 7\n";
    for (file, text) in [
        ("access.log", line),
        ("bad.db", "not a database"),
        ("empty", ""),
        ("rules.json", r#"{"rules":[]}"#),
        ("junk.gz", "\u{1}\u{2}\u{3}"),
    ] {
        fs::write(path.join(file), text).expect("there is space");
    }
    let before = files(path);
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = other.local_addr().expect("an address").to_string();
    for (line, words) in cases {
        let mut command = example_command().await;
        command.env_remove("COUNTER_STORE").current_dir(path).stdin(Stdio::null());
        let argument = |word: &str| if word == TAKEN { taken.clone() } else { word.replace(SPACE, " ") };
        command.args(line.split(' ').map(argument));
        let mut process = Process::start(&mut command);
        let code = process.wait(LIMIT).await.code();
        assert_eq!(code, Some(status), "{line}: {process}");
        process.wait_error_line(|line| line.contains(words[0]).then_some(()), LIMIT).await;
        let said = process.to_string();
        for words in *words {
            assert!(said.contains(words), "{line}: no {words:?} in {said}");
        }
        for words in ["panicked", "hidden", "Namespace::"] {
            assert!(!said.contains(words), "{line}: {words:?} in {said}");
        }
        assert_eq!(files(path), before, "{line}");
    }
}

/// Returns the names of all files.
fn files(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_dump_without_counter_tables_does_not_create_them() {
    let folder = TempDir::new().expect("a folder");
    let _site = start_in(folder.path(), &["--store", "memory:", "--database", "sqlite:forum.db"]).await;
    let mut command = example_command().await;
    command.args(["dump", "--store", "sqlite:forum.db", "dump.ndjson"]).current_dir(folder.path());
    let mut process = Process::start(&mut command);
    assert_eq!(process.wait(LIMIT).await.code(), Some(1), "{process}");
    let remedy =
        "the database has no counter tables; start the site with this store to create or upgrade them";
    process.wait_error_line(|line| line.contains(remedy).then_some(()), LIMIT).await;
    assert!(!folder.path().join("dump.ndjson").exists());
}

#[tokio::test]
async fn the_first_warning_of_a_start_without_redis_names_the_store_and_the_reason() {
    let redis = RedisServer::start();
    redis.command(&["ACL", "SETUSER", "default", "resetpass", ">right"]);
    let denied = "check the user and the password in the URL";
    for (url, reason, remedy) in [
        (format!("redis://:wrong@{}", redis.address()), "WRONGPASS", denied),
        (format!("redis://{}", redis.address()), "NOAUTH", denied),
        ("redis://127.0.0.1:1".to_owned(), "Connection refused", NO_SERVER),
        (format!("rediss://{}", redis.address()), "IO Error", NO_TLS),
    ] {
        let mut command = example_command().await;
        let (process, _) = start(command.args(["--listen", "127.0.0.1:0", "--store", &url])).await;
        let recount = |line: &str| line.contains("failed to recount the forum").then_some(());
        process.wait_error_line(recount, LIMIT).await;
        let log = process.to_string();
        let first = log.lines().find(|line| line.contains("WARN")).expect("a warning");
        let (scheme, rest) = url.split_once("://").expect("a URL");
        let place = format!("--store {scheme}://{}: ", rest.rsplit('@').next().expect("a host"));
        for words in [&place, reason, remedy, "starting without checking the buckets"] {
            assert!(first.contains(words), "{words}: {log}");
        }
        assert!(!log.contains("wrong@"), "{log}");
        let is_denied = remedy == denied;
        assert_eq!(first.contains("the store does not accept the connection"), is_denied, "{log}");
        assert_eq!(first.contains("unavailable"), !is_denied, "{log}");
    }
}

#[tokio::test]
async fn a_start_without_a_site_says_which_one_is_away() {
    let redis = RedisServer::start();
    let mut command = example_command().await;
    let (here, away) = (format!("here={}", redis.url()), "away=redis://:hidden@127.0.0.1:1");
    let (process, _) = start(command.args(["--site", &here, "--site", away])).await;
    let place = "--site away=redis://127.0.0.1:1: ";
    let said = process.wait_error_line(|line| line.contains(place).then(|| line.to_owned()), LIMIT).await;
    for words in ["Connection refused", NO_SERVER, "starting without this site"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let log = process.to_string();
    assert!(!log.contains("hits wait for the store") && !log.contains("hidden@"), "{log}");
}

#[tokio::test]
async fn an_import_that_waits_for_a_log_says_so() {
    let mut command = example_command().await;
    let mut import = Process::start(command.args(["import", "--follow", "no-such.log"]));
    let waits = "no-such.log: there is no such file yet; waiting until it is created";
    import.wait_error_line(|line| line.contains(waits).then_some(()), LIMIT).await;
    import.terminate();
    import.wait(LIMIT).await;
    assert_eq!(import.to_string().matches("no-such.log").count(), 1, "{import}");
}

#[tokio::test]
async fn a_command_says_at_once_that_it_waits_and_does_not_wait_with_a_wrong_password() {
    let redis = RedisServer::start();
    redis.command(&["ACL", "SETUSER", "default", "resetpass", ">right"]);
    let folder = TempDir::new().expect("a folder");
    let run = async |url: &str| {
        let mut command = example_command().await;
        Process::start(command.args(["dump", "--store", url, "dump.ndjson"]).current_dir(folder.path()))
    };
    let waiting = run("redis://127.0.0.1:1").await;
    let says = |line: &str| {
        let words =
            ["--store redis://127.0.0.1:1: ", "Connection refused", NO_SERVER, "will retry for a minute"];
        words.iter().all(|words| line.contains(words)).then_some(())
    };
    waiting.wait_error_line(says, LIMIT).await;

    for (url, remedy) in [
        (format!("redis://:wrong@{}", redis.address()), "check the user and the password in the URL"),
        (
            format!("redis://:right@{}/99", redis.address()),
            "check the number of the database at the end of the URL",
        ),
    ] {
        let mut denied = run(&url).await;
        assert_eq!(denied.wait(LIMIT).await.code(), Some(1), "{denied}");
        denied.wait_error_line(|line| line.contains(remedy).then_some(()), LIMIT).await;
    }
    assert!(!folder.path().join("dump.ndjson").exists());
}

#[tokio::test]
async fn a_start_with_a_host_name_logs_its_address_first() {
    let mut command = example_command().await;
    let (process, address) = start(command.args(["--listen", "localhost:0"])).await;
    assert_eq!(get(address, "/healthz", &[]).await.status, 200);
    let first = process.wait_error_line(|line| Some(line.to_owned()), LIMIT).await;
    assert!(first.contains("listening"), "{process}");
    let mut command = example_command().await;
    let health = ["health", "--listen", &format!("localhost:{}", address.port())];
    let mut health = Process::start(command.args(health));
    assert!(health.wait(LIMIT).await.success(), "{health}");
}
