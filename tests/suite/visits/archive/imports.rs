//! Logs with records of the past: the store counts what it keeps, and the archive the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use counter_core::archive::Archive;
use counter_core::sketch::Sketch;
use counter_core::source::{Commit, Source};
use counter_core::time::Kind;
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::ArchiveStore;
use counter_core::visits::{Bin, Distribution, Measured};
use counter_core::{Counters, MemoryStore, Store, Timestamp, VisitorId};
use tokio::time::timeout;

use super::copies::archives;
use super::{lifetime, samples, sketch};
use crate::random::Random;
use crate::stores;
use crate::support::{bins_of, name, precision, query};

archives! {
    old_records_count_once_in_the_store_or_in_the_archive:
    memory_and_memory memory memory,
    redis_and_sqlite redis sqlite,
    redis_in_shards_and_sqlite redis_in_shards sqlite,
    redis_without_scripts_and_postgres redis_without_scripts postgres,
    sqlite_and_mariadb sqlite mariadb,
}

const HOUR: u64 = 3600;
const DAY: u64 = 86_400;

/// The retention of the archive in hours.
const ARCHIVED_HOURS: u64 = 2 * 366 * 24;

/// The number of days for which the archive surely keeps hourly visitors.
const VISITOR_DAYS: u64 = 90;

const PAGES: [&str; 3] = ["/", "/about", "/news"];
const RECORDS: u64 = 600;

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: &'static str,
    at: Timestamp,
    visitor: u64,
}

/// The expected values.
#[derive(Debug, Default)]
struct Expected {
    counts: BTreeMap<(&'static str, u32, u64), u64>,
    /// By page, width and start.
    visitors: BTreeMap<(&'static str, u32, u64), BTreeSet<u64>>,
    lifetimes: BTreeMap<&'static str, u64>,
    measured: BTreeMap<&'static str, u64>,
}

impl Expected {
    fn add(&mut self, Entry { page, at, visitor }: Entry) {
        for width in [HOUR, DAY] {
            let bucket = (page, u32::try_from(width).expect("small"), at.as_unix() / width * width);
            *self.counts.entry(bucket).or_default() += 1;
            self.visitors.entry(bucket).or_default().insert(visitor);
        }
        *self.lifetimes.entry(page).or_default() += 1;
    }
}

fn visitor(number: u64) -> VisitorId {
    VisitorKey::new([7; 16]).visitor(&[&number.to_le_bytes()])
}

fn entry(random: &mut Random, now: Timestamp) -> Entry {
    // Recent records, those close to the end of a retention, and those of three years.
    let ends = [120 * HOUR, 120 * DAY];
    let age = match random.among(0..4) {
        0 => random.among(0..4 * DAY),
        1 => random.one_of(&ends) - 2 * HOUR + random.among(0..4 * HOUR),
        _ => random.among(0..3 * 365 * DAY),
    };
    Entry { page: random.one_of(&PAGES), at: now.minus(age), visitor: random.among(0..50) }
}

/// Reads some records, and stops at any point.
async fn read(source: &mut Source, log: &[Entry], counters: &Counters, random: &mut Random, is_last: bool) {
    let recorder = counters.recorder();
    let end = if is_last { RECORDS } else { RECORDS.min(source.position() + random.among(1..200)) };
    while source.position() < end {
        let position = source.position();
        let Entry { page, at, visitor } = log[usize::try_from(position).expect("small")];
        let hit = recorder.counter(page).hit().visitor(self::visitor(visitor));
        let measured = Measured { hits: &[hit], bins: &[Bin::status(200)] };
        source.record_measured(position..position + 1, at, &[hit], measured);
        if random.among(0..20) == 0 {
            // A commit may be interrupted between the two stores.
            let _ = timeout(Duration::from_micros(random.among(0..3000)), source.commit()).await;
        }
    }
    if is_last {
        while source.close().await.expect("available") == Commit::Moved {
            Box::pin(read(source, log, counters, random, false)).await;
        }
    } else if random.among(0..2) == 0 {
        let _ = timeout(Duration::from_micros(random.among(0..5000)), source.close()).await;
    }
}

async fn old_records_count_once_in_the_store_or_in_the_archive(
    near: impl Store + Clone,
    far: impl Store + ArchiveStore + Clone,
) {
    let (mut random, now) = (Random::storm("of imports"), Timestamp::now());
    let log: Vec<_> = (0..RECORDS).map(|_| entry(&mut random, now)).collect();
    let archive = Archive::new(near.clone(), far.clone());
    let start = || {
        let counters = Counters::builder(archive.clone()).distributions(Distribution::precisions());
        counters.build().expect("good settings")
    };
    let mut expected = Expected::default();
    for entry in &log {
        expected.add(*entry);
        *expected.measured.entry(entry.page).or_default() += 1;
    }
    let mut site = start();
    let mut archived = 0;
    for run in 0.. {
        // The site counts, and its counts are copied.
        for _ in 0..random.among(0..5) {
            let entry = Entry { at: now.minus(random.among(0..4 * DAY)), ..entry(&mut random, now) };
            let recorder = site.recorder();
            let counter = recorder.counter(entry.page);
            recorder.record_at(counter, Some(visitor(entry.visitor)), entry.at, NonZeroU32::MIN);
            expected.add(entry);
        }
        site.flush().await.expect("available");
        // Without lateness, because hits are never late here.
        let copier = archive.copier(site.stats().grid()).without_lease();
        copier.lateness(Duration::ZERO).copy_once(Timestamp::now()).await.expect("available");

        // The first runs do not know the archive.
        let (counters, is_last) = (start(), run == 12);
        let sources = match run >= 4 && random.among(0..4) > 0 || is_last {
            true => counters.sources().archive(&archive),
            false => counters.sources().history(),
        };
        let mut source = sources.open("log".parse().expect("a name")).await.expect("available");
        read(&mut source, &log, &counters, &mut random, is_last).await;
        let hits = source.hits();
        assert!(hits.balance(), "{hits:?}");
        archived += hits.archived;
        if is_last {
            break;
        }
    }
    // Hits that were archived by an interrupted run may be counted by the next run.
    assert!(archived > 0, "{archived}");
    compare(&archive, &expected, now).await;

    // Another run does not find anything.
    let counters = start();
    let sources = counters.sources().archive(&archive);
    let mut source = sources.open("log".parse().expect("a name")).await.expect("available");
    assert_eq!(source.position(), RECORDS);
    assert_eq!(source.close().await.expect("available"), Commit::Done);
    let audit = archive.auditor(site.stats().grid()).audit(Timestamp::now(), None).await.expect("available");
    assert_eq!(audit.differing, 0, "{audit:?}");
    compare(&archive, &expected, now).await;
}

async fn compare(archive: &(impl Store + Clone), expected: &Expected, now: Timestamp) {
    for page in PAGES {
        for width in [3600, 86_400] {
            let oldest = if width == 3600 { now.as_unix() - (ARCHIVED_HOURS - 2) * HOUR } else { 0 };
            let counts = expected
                .counts
                .iter()
                .filter(|((of, by, start), _)| (*of, *by) == (page, width) && *start >= oldest);
            let counts: Vec<_> = counts.map(|((.., start), count)| (*start, *count)).collect();
            let found: Vec<_> = samples(archive, page, width).await;
            let found: Vec<_> = found.into_iter().filter(|(start, _)| *start >= oldest).collect();
            assert_eq!(found, counts, "{page} by {width} s");
        }
        assert_eq!(lifetime(archive, page).await, expected.lifetimes[page], "{page}");
        let years = now.minus(4 * 366 * DAY)..now.plus(DAY);
        let bins = archive
            .values(Kind::Distributions, query(&[name(page)], precision(86_400), years))
            .await
            .expect("available")
            .counters;
        let sum: u64 = bins_of(&bins[0]).iter().flat_map(|(_, bins)| bins).map(|(_, count)| count).sum();
        assert_eq!(sum, expected.measured[page], "{page}");
    }
    let is_kept = |width, start| width != 3600 || start >= now.as_unix() - VISITOR_DAYS * DAY;
    for ((page, width, start), visitors) in &expected.visitors {
        if is_kept(*width, *start) {
            let mut expected = Sketch::new();
            visitors.iter().for_each(|number| _ = expected.insert(visitor(*number)));
            assert_eq!(
                sketch(archive, page, *width, *start).await,
                expected,
                "{page} at {start} by {width} s"
            );
        }
    }
}

#[tokio::test]
async fn each_bucket_is_counted_in_exactly_one_store() {
    let (near, far) = (MemoryStore::new(), MemoryStore::new());
    let archive = Archive::new(near.clone(), far.clone());
    let counters = Counters::builder(archive.clone()).build().expect("the defaults are fine");
    let copier = archive.copier(counters.stats().grid());
    copier.lateness(Duration::ZERO).copy_once(Timestamp::now()).await.expect("in memory");
    let mut source =
        counters.sources().archive(&archive).open("log".parse().expect("a name")).await.expect("in memory");
    let (recorder, now) = (counters.recorder(), Timestamp::now());
    // A record per hour, until the store has neither hours nor days.
    let ages = 0..125 * 24;
    for age in ages.clone() {
        let at = now.minus((ages.end - 1 - age) * HOUR);
        source.record(age..age + 1, at, &[recorder.counter("/").hit()]);
    }
    assert_eq!(source.close().await.expect("in memory"), Commit::Done);
    for (width, kept) in [(3600, 120), (86_400, 120)] {
        let (near, far) = (samples(&near, "/", width).await, samples(&far, "/", width).await);
        assert!(
            near.len().abs_diff(kept) <= 1 && !far.is_empty(),
            "{} and {} of {width} s",
            near.len(),
            far.len()
        );
        // They meet without a gap and without a bucket in common.
        let next = far.last().expect("not empty").0 + u64::from(width);
        assert_eq!(near[0].0, next, "{width} s");
        assert_eq!(far.iter().chain(&near).map(|(_, count)| count).sum::<u64>(), ages.end, "{width} s");
    }
}

#[tokio::test]
async fn without_final_copies_an_archive_does_not_add_anything() {
    let archive = Archive::new(MemoryStore::new(), MemoryStore::new());
    let counters = Counters::builder(archive.clone()).build().expect("the defaults are fine");
    let source = counters.sources().archive(&archive).open("log".parse().expect("a name")).await;
    let (mut source, old) = (source.expect("in memory"), Timestamp::now().minus(200 * DAY));
    source.record(0..1, old, &[counters.recorder().counter("/").hit()]);
    tokio::time::pause();
    let error = format!("{:?}", source.close().await.expect_err("no copier has run"));
    // The store has counted it.
    assert_eq!(source.hits().expired, 1);
    assert!(error.contains("no copier has copied the final values yet"), "{error}");
}

#[tokio::test]
async fn records_counted_without_a_history_are_not_archived() {
    let archive = Archive::new(MemoryStore::new(), MemoryStore::new());
    let counters = Counters::builder(archive.clone()).build().expect("the defaults are fine");
    let (recorder, old) = (counters.recorder(), Timestamp::now().minus(200 * DAY));
    let copier = archive.copier(counters.stats().grid());
    copier.lateness(Duration::ZERO).copy_once(Timestamp::now()).await.expect("in memory");
    for sources in [counters.sources(), counters.sources().archive(&archive)] {
        let mut source = sources.open("log".parse().expect("a name")).await.expect("in memory");
        for position in source.position()..source.position() + 2 {
            source.record(position..position + 1, old, &[recorder.counter("/").hit()]);
        }
        assert_eq!(source.close().await.expect("in memory"), Commit::Done);
    }
    assert_eq!(lifetime(&archive, "/").await, 4);
    assert_eq!(samples(&archive, "/", 86_400).await.iter().map(|(_, count)| count).sum::<u64>(), 2);
}
