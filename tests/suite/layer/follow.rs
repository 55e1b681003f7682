//! Following a log through rotations: all lines should be read exactly once.

use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use counter_log::{Fingerprint, Follower};
use proptest::prelude::*;
use tempfile::TempDir;

/// A log with the lines that are written to it and read from it.
struct Site {
    folder: TempDir,
    written: u32,
    follower: Follower,
    /// Positions, as the counter store would have them.
    positions: HashMap<Fingerprint, u64>,
    read: BTreeMap<String, u32>,
}

/// An event in the life of a log.
#[derive(Clone, Copy, Debug)]
enum Event {
    Append(u8),
    /// Writes a line in two halves, with a read in between.
    Halves,
    RotateByRename,
    RotateByCopy,
    Compress,
    Poll,
    Restart,
}

impl Site {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let follower = follower(&folder.path().join("access.log"));
        Self { folder, written: 0, follower, positions: HashMap::new(), read: BTreeMap::new() }
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.folder.path().join(format!("access.log{suffix}"))
    }

    fn append(&self, text: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.path("")).expect("the log");
        file.write_all(text.as_bytes()).expect("room on the disk");
    }

    fn line(&mut self) -> String {
        self.written += 1;
        format!("line {}\n", self.written)
    }

    /// Renames older logs to free `access.log.1`, like logrotate.
    fn shift(&self) {
        for number in (1..20).rev() {
            for suffix in ["", ".gz"] {
                let from = self.path(&format!(".{number}{suffix}"));
                if from.exists() {
                    run("mv", &[&from, &self.path(&format!(".{}{suffix}", number + 1))]);
                }
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Append(lines) => {
                for _ in 0..lines {
                    let line = self.line();
                    self.append(&line);
                }
            }
            Event::Halves => {
                let line = self.line();
                let (one, other) = line.split_at(3);
                self.append(one);
                self.poll();
                self.append(other);
            }
            Event::RotateByRename if self.path("").exists() => {
                self.shift();
                run("mv", &[&self.path(""), &self.path(".1")]);
            }
            Event::RotateByCopy if self.path("").exists() => {
                self.shift();
                run("cp", &[&self.path(""), &self.path(".1")]);
                run("truncate", &[Path::new("--size=0"), &self.path("")]);
            }
            Event::Compress => {
                for number in 1..20 {
                    let file = self.path(&format!(".{number}"));
                    if file.exists() {
                        run("gzip", &[&file]);
                    }
                }
            }
            Event::RotateByRename | Event::RotateByCopy => {}
            Event::Poll => self.poll(),
            Event::Restart => self.follower = follower(&self.path("")),
        }
    }

    /// Reads all new lines, beginning at the stored positions.
    fn poll(&mut self) {
        for grown in self.follower.poll().expect("the folder is there") {
            let position = self.positions.entry(grown.fingerprint()).or_default();
            let Some(mut lines) = grown.lines(*position).expect("the file can be read") else { continue };
            while let Some(line) = lines.next().expect("the file can be read") {
                assert_eq!(line.range.start, *position);
                *position = line.range.end;
                let text = String::from_utf8(line.text.to_vec()).expect("text");
                *self.read.entry(text).or_default() += 1;
            }
        }
    }
}

fn follower(path: &Path) -> Follower {
    Follower::new(path)
}

fn run(program: &str, arguments: &[&Path]) {
    let status = Command::new(program).args(arguments).status().expect(program);
    assert!(status.success(), "{program} {arguments:?}");
}

/// Checks that all written lines have been read exactly once after a final poll.
fn check(events: &[Event]) {
    let mut site = Site::new();
    for event in events {
        site.happen(*event);
    }
    site.poll();
    let expected = (1..=site.written).map(|number| (format!("line {number}\n"), 1));
    assert_eq!(site.read, expected.collect(), "{events:?}");
}

#[test]
fn reading_continues_after_renaming_copying_and_compressing_a_log() {
    use Event::{Append, Compress, Halves, Poll, Restart, RotateByCopy, RotateByRename};
    check(&[Append(3), Poll, Append(2), Poll, Halves, Append(1)]);
    check(&[Append(3), Poll, Append(2), RotateByRename, Append(4), Poll]);
    check(&[Append(3), Poll, Append(2), RotateByCopy, Append(1), Poll, Append(3)]);
    // The log is already as long as before the rotation, or longer, when it is polled.
    check(&[Append(3), Poll, Append(2), RotateByCopy, Append(9), Poll]);
    check(&[Append(3), Poll, Append(2), RotateByRename, Compress, Append(2), Restart, Poll]);
    check(&[Append(2), RotateByRename, Append(2), RotateByCopy, Compress, Append(2), RotateByRename, Poll]);
}

#[test]
fn text_after_a_truncation_is_not_mistaken_for_earlier_text() {
    let mut site = Site::new();
    let text = |name: &str| (0..30_000).map(|number| format!("{name} {number}\n")).collect::<String>();
    site.append(&text("old"));
    let [part] = &site.follower.poll().expect("the folder is there")[..] else { unreachable!("one file") };
    let mut lines = part.lines(0).expect("it can be read").expect("it is there");
    assert!(lines.next().expect("it can be read").is_some());
    run("truncate", &[Path::new("--size=0"), &site.path("")]);
    site.append(&text("new"));
    let mut read = 1;
    while let Some(line) = lines.next().expect("it can be read") {
        assert!(line.text.starts_with(b"old"), "{read}");
        read += 1;
    }
    assert!(read < 30_000, "{read}");
    let position = lines.position();
    assert!(part.lines(position).expect("it can be read").is_none());
}

#[test]
fn the_last_line_of_a_compressed_log_needs_no_newline() {
    let mut site = Site::new();
    site.append("line 1\nline 2");
    site.poll();
    run("mv", &[&site.path(""), &site.path(".1")]);
    site.poll();
    assert_eq!(site.read.keys().collect::<Vec<_>>(), ["line 1\n"]);
    site.happen(Event::Compress);
    site.poll();
    assert_eq!(site.read.keys().collect::<Vec<_>>(), ["line 1\n", "line 2"]);
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..5_u8).prop_map(Event::Append),
        1 => Just(Event::Halves),
        1 => Just(Event::RotateByRename),
        1 => Just(Event::RotateByCopy),
        1 => Just(Event::Compress),
        2 => Just(Event::Poll),
        1 => Just(Event::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_lines_are_read_once_after_any_sequence_of_events(events in prop::collection::vec(event(), 1..16)) {
        check(&events);
    }
}
