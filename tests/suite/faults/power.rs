//! Power cuts: no acknowledged hit is lost, and no hit is doubled.
//!
//! A program counts on a recorded disk: `tests/src/bin/power`. For each cut, the disk is built as it may be after a power cut at
//! any operation (see [`tests::powercut`]), and opened by the production code.
//!
//! Set `COUNTER_STORM_CUTS` to change the number of cuts per kind (20 by default). A failing test keeps the recording. To repeat
//! a single cut, set `COUNTER_STORM_RECORDING`, `COUNTER_STORM_SEED` and `COUNTER_STORM_CUT` as printed.

mod sql;
mod spool;
mod archive;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use counter_core::unstable::sqlx;
use counter_core::{CounterName, Precision, SqlStore, Store};
use sqlx::Connection;
use sqlx::sqlite::SqliteConnection;
use tempfile::TempDir;
use tests::powercut::{Cut, Journal, Names, Recording};
use tests::{LIMIT, Process};

use crate::random::Random;
use crate::support::{always, name, samples_of};

const PAGES: [&str; 3] = ["a", "b", "c"];
const PAIRS: [&str; 3] =
    ["label:site@:a = a.example", "label:site@:b = a.example", "label:site@:c = a.example"];

/// Number of cuts until the programs run again. Hits must not leave retention in the meantime.
const CUTS_PER_RUN: u64 = 200;

/// The disks of the recorded files.
#[derive(Clone, Copy)]
struct Disks {
    /// Disks that fail together: each function returns whether a file is on one of them.
    fails: &'static [fn(&str) -> bool],
    /// Returns whether a file must be restored with the same number.
    is_numbered: fn(&str) -> bool,
}

/// A recorded run of programs.
struct Run {
    journal: Journal,
    seed: u64,
}

/// Prints how to repeat a cut if a check panics.
struct Repeatable<'a>(&'a mut Run, u64);

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is a whole number")))
}

impl Run {
    /// Records programs of these kinds, one after another on the same disk.
    async fn record(kinds: &[&str]) -> Self {
        let seed = Random::storm_seed();
        if let Some(kept) = env::var_os("COUNTER_STORM_RECORDING") {
            let journal = Journal::reopen(PathBuf::from(kept));
            return Self { journal, seed };
        }
        // A program fails if the machine is too slow for its intervals.
        for _ in 0..5 {
            let recording = Recording::start();
            let mut is_complete = true;
            for (kind, seed) in kinds.iter().zip(seed..) {
                let mut program = Command::new(env!("CARGO_BIN_EXE_power"));
                program.arg(kind).arg(recording.folder()).arg(seed.to_string());
                let mut program = Process::start(recording.record(&mut program));
                if !program.wait(LIMIT).await.success() {
                    eprintln!("{program}");
                    is_complete = false;
                }
            }
            if is_complete {
                return Self { journal: recording.finish(), seed };
            }
        }
        panic!("the program has failed again and again");
    }

    /// Cuts the power at a random operation.
    fn cut<'a>(&self, index: u64, disks: Disks, folder: &'a Path) -> Cut<'a> {
        let mut random = Random::new(self.seed.wrapping_add(index));
        let length = self.journal.len();
        let anywhere = usize::try_from(random.among(0..length as u64 + 1)).expect("an index");
        let turn = random.one_of(&self.journal.turns()).min(length);
        // Hits can also be lost long after they were acknowledged, so the power often fails at the end.
        let at = if index.is_multiple_of(10) { length } else { random.one_of(&[anywhere, turn]) };
        let cut = Cut {
            at,
            seed: random.next(),
            names: random.one_of(&[Names::Journaled, Names::Independent]),
            fails: random.one_of(disks.fails),
            is_numbered: disks.is_numbered,
            folder,
        };
        self.journal.cut(cut);
        cut
    }
}

/// Records programs, cuts the power, and checks each disk.
async fn storm(kinds: &[&str], disks: Disks, check: impl AsyncFn(&Journal, &Cut<'_>)) {
    let only = number("COUNTER_STORM_CUT");
    let cuts = only.map_or(0..number("COUNTER_STORM_CUTS").unwrap_or(20), |cut| cut..cut + 1);
    let (mut recorded, total) = (None, cuts.end - cuts.start);
    for index in cuts {
        if index.is_multiple_of(CUTS_PER_RUN) {
            recorded = None;
        }
        let run = match &mut recorded {
            Some(run) => run,
            None => recorded.insert(Run::record(kinds).await),
        };
        let folder = TempDir::new().expect("the folder for temporary files is writable");
        let run = Repeatable(run, index);
        let cut = run.0.cut(index, disks, folder.path());
        check(&run.0.journal, &cut).await;
    }
    eprintln!("{}: {total} cuts", kinds.join(", "));
}

impl Drop for Repeatable<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(Run { journal, seed }, index) = self;
            let folder = journal.keep().display();
            eprintln!(
                "a power cut: COUNTER_STORM_RECORDING={folder} COUNTER_STORM_SEED={seed} COUNTER_STORM_CUT={index}"
            );
        }
    }
}

/// Returns the last number with this mark before the cut, or 0.
fn marked(journal: &Journal, cut: &Cut<'_>, what: &str) -> u64 {
    numbers(journal, what).filter(|(at, _)| *at < cut.at).map(|(_, number)| number).last().unwrap_or(0)
}

/// Returns all numbers with this mark, with the index of the operation.
fn numbers<'a>(journal: &'a Journal, what: &'a str) -> impl Iterator<Item = (usize, u64)> + 'a {
    journal.marks().filter_map(move |(at, line)| {
        let (kind, number) = line.split_once(' ')?;
        (kind == what).then(|| (at, number.parse().expect("a number")))
    })
}

async fn open(path: &Path) -> SqlStore {
    SqlStore::builder().create_tables().connect(&address(path)).await.expect("the database can be opened")
}

fn address(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

/// Checks the structure of a database.
async fn check_integrity(path: &Path) {
    let mut file = SqliteConnection::connect(&address(path)).await.expect("the file exists");
    let found: String =
        sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut file).await.expect("readable");
    assert_eq!(found, "ok");
}

fn names(texts: &[&str]) -> Vec<CounterName> {
    texts.iter().map(|text| name(text)).collect()
}

/// Returns the sum of all samples in a precision.
async fn sum(store: &impl Store, counters: &[CounterName], precision: Precision) -> u64 {
    let samples = samples_of(store, counters, precision, always()).await.concat();
    samples.iter().map(|sample| sample.count).sum()
}
