//! The messages at the end of an import.

use std::fs;
use std::process::{Command, Stdio};

use counter_core::Timestamp;
use serde_json::Value;
use tests::process;

use crate::support::{BROWSER, clf};

/// The result of an import: the summary if it was successful, and what it said.
struct Outcome {
    summary: Option<Value>,
    said: String,
}

impl Outcome {
    fn recorded(&self) -> Option<u64> {
        self.summary.as_ref()?["recorded"].as_u64()
    }
}

async fn import(log: &[u8], arguments: &[&str]) -> Outcome {
    let folder = tempfile::tempdir().expect("there is space");
    fs::write(folder.path().join("access.log"), log).expect("there is space");
    let mut command = Command::new(process::example().await);
    command.args(["import", "--store", "memory:"]).args(arguments).arg("access.log");
    let output =
        command.current_dir(folder.path()).stdin(Stdio::null()).output().expect("the program starts");
    let summary = str::from_utf8(&output.stdout).expect("text").lines().last();
    let summary = summary.map(|line| serde_json::from_str(line).expect("a summary"));
    Outcome {
        summary: summary.filter(|_| output.status.success()),
        said: String::from_utf8(output.stderr).expect("text"),
    }
}

fn line(n: usize, rest: &str) -> String {
    let at = clf(Timestamp::now());
    format!("192.0.2.{n} - - [{at}] \"GET /a HTTP/1.1\" 200 7{rest}\n")
}

fn browser() -> String {
    format!(r#" "-" "{BROWSER}""#)
}

#[tokio::test]
async fn an_import_says_how_many_lines_counted_and_why_others_did_not() {
    let probe = line(1, &browser()).replace("GET /a HTTP/1.1", r"\x16\x03\x01");
    let log =
        [line(1, &browser()), "# a comment\n".to_owned(), probe.clone(), probe, line(2, &browser())].concat();
    let Outcome { said, .. } = import(log.as_bytes(), &["--format", "combined"]).await;
    for text in [
        "Read 5 lines, and counted 2.",
        "Not counted: 1 line, because the fields do not match the format (first: access.log, line 2).",
        "Not counted: 2 lines, because the request is invalid (first: access.log, line 3).",
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
    assert!(!said.contains("WARN"), "{said}");
}

#[tokio::test]
async fn an_import_of_the_same_log_says_that_its_lines_were_read_before() {
    let folder = tempfile::tempdir().expect("there is space");
    let mut log: String = (0..1200).map(|n| line(n % 250, &browser())).collect();
    let example = process::example().await;
    let again = "Not counted again: 1,200 lines, because an import has read this part of the log before.";
    for (text, read) in [
        ("", "Read 1,200 lines, and counted 1,200."),
        ("", "Read 1,200 lines, and counted 0."),
        // The format is right, even if no line of the rest can be read.
        ("nonsense\n", "Read 1,201 lines, and counted 0."),
    ] {
        log += text;
        fs::write(folder.path().join("access.log"), &log).expect("there is space");
        let mut command = Command::new(&example);
        command.args(["import", "--store", "sqlite:c.db", "--format", "combined", "access.log"]);
        let output = command.current_dir(folder.path()).output().expect("the program starts");
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(output.status.success() && said.contains(read), "{said}");
        assert_eq!(said.contains(again), !read.ends_with("1,200."), "{said}");
    }
}

#[tokio::test]
async fn an_import_that_reads_no_line_fails_and_an_empty_log_does_not() {
    let log: String = (1..=5).map(|n| format!("192.0.2.9 {}", line(n, &browser()))).collect();
    let wrong = import(log.as_bytes(), &["--format", "combined"]).await;
    assert!(
        wrong.summary.is_none() && wrong.said.contains("access.log: none of the lines"),
        "{}",
        wrong.said
    );
    let empty = import(b"", &["--format", "combined"]).await;
    assert_eq!(empty.recorded(), Some(0), "{}", empty.said);
}

#[tokio::test]
async fn an_import_warns_of_numbers_that_may_not_mean_what_people_expect() {
    let forwarded: String = (1..=5).map(|n| line(1, &format!(r#"{} "198.51.100.{n}""#, browser()))).collect();
    let same: String = (0..100).map(|_| line(1, &browser())).collect();
    let local =
        format!(r#"{{"time":"2026-10-10 10:10:10","url":"/","ip":"192.0.2.1","ua":"{BROWSER}"}}{}"#, "\n");
    for (log, arguments, warning) in [
        (&forwarded, &[][..], Some("--trust-hops")),
        (&forwarded, &["--trust-hops", "1"], None),
        (&line(1, ""), &[], Some("does not contain user agents")),
        (&line(1, &browser()).replace("192.0.2.1", "client.example"), &[], Some("no visitors")),
        (&same, &[], Some("the same address")),
        (&line(1, &browser()), &["--route", "/other"], Some("--route")),
        (&line(1, &browser()), &["--route", "/a"], None),
        (&local, &[], Some("--log-time-zone")),
        (&local, &["--log-time-zone", "Europe/Berlin"], None),
    ] {
        let outcome = import(log.as_bytes(), arguments).await;
        assert!(outcome.summary.is_some(), "{}", outcome.said);
        // The hits of the old line are not in any bucket.
        let warnings: Vec<_> = outcome.said.lines().filter(|line| line.contains("WARN")).collect();
        let is_right = match warning {
            Some(text) => warnings.iter().any(|line| line.contains(text)),
            None => warnings.iter().all(|line| line.contains("older than")),
        };
        assert!(is_right, "{warning:?}: {}", outcome.said);
    }
}

#[tokio::test]
async fn the_last_line_counts_without_a_line_ending_if_it_is_complete() {
    let (one, two) = (line(1, &browser()), line(2, &browser()));
    let whole = import(format!("{one}{}", two.trim_end()).as_bytes(), &[]).await;
    assert_eq!(whole.recorded(), Some(2), "{}", whole.said);
    let single = import(one.trim_end().as_bytes(), &[]).await;
    assert_eq!(single.recorded(), Some(1), "{}", single.said);
    let cut = import(format!("{one}{}", &two[..two.len() - 5]).as_bytes(), &[]).await;
    assert_eq!(cut.recorded(), Some(1), "{}", cut.said);
    assert!(cut.said.contains("the last line is incomplete"), "{}", cut.said);
}

#[tokio::test]
async fn files_that_are_not_read_are_refused_with_the_command_to_use() {
    for (start, command) in [
        (&b"BZh91AY&SY"[..], "bzcat"),
        (b"\xfd7zXZ\0\0\x04", "xzcat"),
        (b"\x28\xb5\x2f\xfd\x04", "zstdcat"),
        (b"PK\x03\x04\x14", "unzip -p"),
        (b"\xff\xfe1\x009\x00", "iconv"),
    ] {
        let outcome = import(start, &[]).await;
        assert!(outcome.summary.is_none() && outcome.said.contains(command), "{command}: {}", outcome.said);
    }
}
