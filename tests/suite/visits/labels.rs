//! Tests for label values: frequent values should count under their names, regardless of the number of
//! values.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use counter_core::source::{Commit, Source};
use counter_core::visits::{LabelError, LabelRanking, LabelValues};
use counter_core::{BuildError, Counter, Counters, MemoryStore, Recorder, Store, Timestamp};

use crate::random::Random;
use crate::stores;
use crate::support::{fewest, name, precision};

stores::on! {
    [memory redis redis_in_shards redis_without_scripts sqlite sqlite_in_memory postgres mariadb]
    {
        label_values_add_up_across_instances_and_to_the_total_hits
        labels_are_listed_separately_from_other_counters
        two_readers_of_a_log_with_different_values_count_each_record_once
    }
}

const ONE: NonZeroU32 = NonZeroU32::MIN;

/// Places per label.
const PLACES: u64 = 2000;

/// Returns the instant used for all hits of a test: the middle of an hour of yesterday.
fn yesterday() -> Timestamp {
    precision(3600).bucket(Timestamp::now().minus(86_400)).start.plus(1800)
}

/// An instance of a site that counts request referrers.
struct Instance {
    counters: Counters,
    recorder: Recorder,
    values: LabelValues,
    hits: Counter,
    /// Recorded hits by hour and value.
    seen: BTreeMap<(Timestamp, String), u64>,
}

impl Instance {
    fn over(store: impl Store) -> Self {
        let counters = Counters::builder(store).build().expect("the defaults are fine");
        let recorder = counters.recorder();
        let values = recorder.label_values("referrer").expect("a name");
        let hits = recorder.counter("hits");
        Self { counters, recorder, values, hits, seen: BTreeMap::new() }
    }

    /// Counts a request and returns the counter used for the value.
    fn count(&self, value: Option<&str>, at: Timestamp) -> Counter {
        let identified = self.values.note_at(value, at, ONE);
        let counter = self.values.counter(identified);
        self.recorder.record_at(self.hits, None, at, ONE);
        self.recorder.record_at(counter, None, at, ONE);
        counter
    }

    fn count_and_track(&mut self, value: &str, at: Timestamp) {
        *self.seen.entry((precision(3600).bucket(at).start, value.to_owned())).or_default() += 1;
        self.count(Some(value), at);
    }

    async fn flush(&mut self) {
        self.counters.flush().await.expect("the store is available");
    }

    async fn top(&self, width: u32, at: Timestamp) -> LabelRanking {
        let start = precision(width).bucket(at).start;
        let range = start..start.plus(u64::from(width));
        let stats = self.counters.stats();
        let top =
            stats.label("referrer", precision(width), range.clone(), usize::MAX).await.expect("readable");
        assert_eq!(top.unreadable, []);
        assert_eq!(
            stats.total(&name("hits"), precision(width), range).await.expect("readable"),
            top.total,
            "a label adds up to the hits"
        );
        top
    }
}

/// Checks that the actual hits of all values are between the reported count and the count plus the reported
/// number of missed hits.
fn check(top: &LabelRanking, actual_hits: &BTreeMap<&str, u64>) {
    let counted: BTreeMap<_, _> = top.values.iter().map(|(value, count)| (&**value, *count)).collect();
    assert!(counted.keys().all(|value| actual_hits.contains_key(value)));
    for (value, had) in actual_hits {
        let count = counted.get(value).copied().unwrap_or_default();
        assert!(
            (count..=count + top.missed).contains(had),
            "{value}: {had}, {count} and up to {}",
            top.missed
        );
    }
}

/// Returns the recorded hits of all instances, in an hour or in total.
fn actual_hits(instances: &[Instance], hour: Option<Timestamp>) -> BTreeMap<&str, u64> {
    let mut actual_hits = BTreeMap::new();
    let seen = instances.iter().flat_map(|instance| &instance.seen);
    for ((_, value), count) in seen.filter(|((of, _), _)| hour.is_none_or(|hour| hour == *of)) {
        *actual_hits.entry(&**value).or_default() += count;
    }
    actual_hits
}

/// Returns a random real value. The frequencies fall with the rank like on real sites.
fn real(random: &mut Random) -> String {
    let mut at = random.among(0..6283);
    let found = (1..=300).find(|rank| {
        let is_it = at < 1000 / rank;
        at = at.saturating_sub(1000 / rank);
        is_it
    });
    format!("site-{}.example", found.unwrap_or(1))
}

#[test]
fn with_fewer_places_a_value_needs_a_larger_share_of_hits() {
    for places in [10, 100] {
        let counters = Counters::builder(MemoryStore::new()).label_places(places).build();
        let recorder = counters.expect("a good number").recorder();
        let values = recorder.label_values("plan").expect("a name");
        let note = |value: &str| values.counter(values.note(Some(value), ONE));
        let counted_as = |value: &str| recorder.name(note(value));
        let all = 10_000;
        (0..places).for_each(|n| recorder.record(note(&format!("first {n}")), None));
        (places..all).for_each(|_| recorder.record(note("first 0"), None));
        let late = name("label:plan:late");
        let before = (1..).take_while(|_| counted_as("late").as_ref() != Some(&late)).count();
        // The hits of this value are also part of the total.
        assert_eq!(before + 1, all.div_ceil(places - 1));
    }
    for places in [0, 2001] {
        let rejected = Counters::builder(MemoryStore::new()).label_places(places).build();
        assert_eq!(rejected.err(), Some(BuildError::LabelPlaces(places)));
    }
}

#[tokio::test]
async fn a_scan_of_a_million_random_values_uses_no_memory_or_real_places() {
    const MADE_UP: u64 = 1_000_000;
    let (mut random, at) = (Random::storm("of made-up values"), yesterday());
    let mut site = Instance::over(MemoryStore::new());
    // The scan comes before the real values and takes all places.
    let mut made_up = 0;
    let mut scan = |site: &Instance, random: &mut Random| {
        made_up += 1;
        site.count(Some(&format!("{}-{}.example", made_up, random.next())), at);
    };
    (0..2 * PLACES).for_each(|_| scan(&site, &mut random));
    // The scan also repeats some values, but this should not make a value frequent.
    let mut real_ones = BTreeMap::<_, u64>::new();
    let mut both = |count: u64| {
        for _ in 0..count {
            scan(&site, &mut random);
            let value = real(&mut random);
            site.count(Some(&value), at);
            *real_ones.entry(value).or_default() += 1;
        }
    };
    both(MADE_UP / 10);
    let before = allocation_counter::measure(|| both(1000)).bytes_current;
    let taken = allocation_counter::measure(|| both(MADE_UP - MADE_UP / 10));
    assert!(taken.bytes_current < 512 << 10, "{taken:?} after {before}");
    assert!(taken.bytes_max < 2 << 20, "{taken:?}");
    site.flush().await;
    let top = site.top(3600, at).await;
    let all = 2 * MADE_UP + 2 * PLACES + 1000 * 2;
    assert_eq!(top.total, all);
    // All values above 0.1 % must be listed, and the top hundred must match.
    let mut ranked: Vec<_> = real_ones.iter().map(|(value, count)| (*count, value.as_str())).collect();
    ranked.sort_unstable_by(|one, other| other.cmp(one));
    let listed: BTreeSet<_> = top.values.iter().map(|(value, _)| value.as_str()).collect();
    let frequent: Vec<_> = ranked.iter().filter(|(count, _)| 1000 * count > all).collect();
    assert!(frequent.len() > 60 && frequent.iter().all(|(_, value)| listed.contains(value)));
    let hundred = |values: &mut dyn Iterator<Item = &str>| {
        values.take(100).map(ToOwned::to_owned).collect::<BTreeSet<_>>()
    };
    let (expected, found) = (
        hundred(&mut ranked.iter().map(|(_, value)| *value)),
        hundred(&mut top.values.iter().map(|(value, _)| &**value)),
    );
    // Neighbours can be swapped if they differ by less than the reported number of missed hits.
    let least = ranked[99].0;
    for value in expected.difference(&found) {
        assert!(
            real_ones[value] <= least + top.missed,
            "{value} of {} is not among {found:?}",
            real_ones[value]
        );
    }
    let actual_hits: BTreeMap<_, _> = real_ones.iter().map(|(value, count)| (&**value, *count)).collect();
    for (value, had) in actual_hits {
        let count = top.values.iter().find(|(name, _)| name == value).map_or(0, |(_, count)| *count);
        assert!((count..=count + top.missed).contains(&had), "{value}: {had}, {count}, {}", top.missed);
    }
    eprintln!("missed at most {} of {all}; growth {taken:?}", top.missed);
    assert!(top.missed < all / 1000, "{}", top.missed);
}

#[tokio::test]
async fn a_three_week_scan_of_a_small_site_leaves_few_names_and_exact_values() {
    const HOURS: u64 = 21 * 24;
    let (mut site, now) = (Instance::over(MemoryStore::new()), Timestamp::now());
    let first = precision(3600).bucket(now).start.minus(3600 * HOURS);
    let mut real = BTreeMap::<_, u64>::new();
    for hour in 0..HOURS {
        for n in 0..950 {
            let at = first.plus(3600 * hour + 3 * n);
            let is_real = n % 19 < 2;
            let value = if is_real { format!("real-{}", n % 7) } else { format!("made-up-{hour}-{n}") };
            site.count(Some(&value), at);
            if is_real {
                *real.entry(value).or_default() += 1;
            }
        }
        if hour % 24 == 23 {
            site.flush().await;
        }
    }
    let (stats, day) = (site.counters.stats(), precision(86_400));
    let top = stats.label("referrer", day, first.minus(86_400)..now, 7).await.expect("readable");
    assert_eq!((top.total, top.is_partial), (950 * HOURS, false));
    let top: BTreeMap<_, _> = top.values.into_iter().collect();
    assert_eq!(top, real);
    let all = stats.label("referrer", day, first.minus(86_400)..now, usize::MAX).await.expect("readable");
    assert!(all.values.len() as u64 <= PLACES, "{}", all.values.len());
}

#[tokio::test]
async fn a_counter_without_a_value_does_not_hide_later_labels() {
    let store = MemoryStore::new();
    let mut site = Instance::over(store.clone());
    for n in 0..1500 {
        site.recorder.record_at(site.recorder.counter(&format!("label:a{n}")), None, yesterday(), ONE);
    }
    site.count(Some("a.example"), yesterday());
    site.flush().await;
    let unaware = Counters::builder(store).build().expect("the defaults are fine");
    assert_eq!(unaware.stats().labels().await.expect("readable"), ["referrer"]);
}

#[tokio::test]
async fn a_label_with_too_many_values_for_one_read_returns_its_top_values() {
    let store = MemoryStore::new();
    let mut counters = Counters::builder(store).max_counters(102_000).build().expect("a good number");
    let (recorder, at) = (counters.recorder(), yesterday());
    let hits = |value: &str, hits| {
        let counter = recorder.counter(&format!("label:campaign:{value}"));
        recorder.record_at(counter, None, at, hits);
    };
    (0..101_000).for_each(|n| hits(&format!("{n:06}"), ONE));
    // These values sort last.
    for (value, count) in [("x", 7), ("y", 9), ("z", 8)] {
        hits(value, count.try_into().expect("not 0"));
    }
    counters.flush().await.expect("memory accepts everything");
    let hour = precision(3600).bucket(at).start;
    let top = counters.stats().label("campaign", precision(3600), hour..hour.plus(3600), 3).await;
    let top = top.expect("readable");
    assert_eq!(top.values, [("y", 9), ("z", 8), ("x", 7)].map(|(value, count)| (value.to_owned(), count)));
    assert_eq!((top.is_partial, top.total), (true, 100_000 - 3 + 24));
}

#[tokio::test]
async fn missed_label_hits_are_bounded_per_hour_across_three_instances() {
    let mut random = Random::storm("of values");
    let store = MemoryStore::new();
    let mut instances: Vec<_> = (0..3).map(|_| Instance::over(store.clone())).collect();
    let first = yesterday();
    for hour in 0..4_u64 {
        for _ in 0..60_000 {
            let instance = usize::try_from(random.among(0..3)).expect("one of three");
            // Some hits are late by an hour.
            let late = if random.among(0..10) == 0 { 3600 } else { 0 };
            let at = first.plus(3600 * hour).minus(late);
            // The frequent values change by hour and by instance.
            let value = match random.among(0..4) {
                0 => format!("made-up-{}", random.next() % 1_000_000),
                1 => format!("of-{instance}-{}", random.among(0..3000)),
                _ => {
                    let rank = random.among(0..3000) * random.among(0..3000) / 3000;
                    format!("of-hour-{}", rank + 500 * hour)
                }
            };
            instances[instance].count_and_track(&value, at);
        }
        for instance in &mut instances {
            if random.among(0..2) == 0 {
                instance.flush().await;
            }
        }
    }
    for instance in &mut instances {
        instance.flush().await;
    }
    let mut missed = 0;
    for hour in (0..5).map(|hour| first.plus(3600 * hour).minus(3600)) {
        let top = instances[0].top(3600, hour).await;
        check(&top, &actual_hits(&instances, Some(precision(3600).bucket(hour).start)));
        assert!(top.missed <= top.other && top.values.len() < 3 * 4000);
        missed += top.missed;
    }
    assert!(missed > 0);
}

async fn label_values_add_up_across_instances_and_to_the_total_hits(store: impl Store + Clone) {
    let mut instances: Vec<_> = (0..3).map(|_| Instance::over(store.clone())).collect();
    let at = yesterday();
    for instance in &mut instances {
        for n in 0..40 {
            instance.count_and_track(&format!("{}.example", n % 7), at);
            instance.count(None, at);
            instance.count(Some("(odd)"), at);
        }
        instance.flush().await;
    }
    let top = instances[1].top(86_400, at).await;
    check(&top, &actual_hits(&instances, None));
    assert_eq!((top.total, top.none, top.other, top.missed), (360, 120, 120, 0));
    assert_eq!(top.values[..2], [("0.example".to_owned(), 18), ("1.example".to_owned(), 18)]);
    assert_eq!(top.values.len(), 7);
    let [hits, value] = ["hits", "label:referrer:0.example"].map(name);
    let lifetimes = instances[0].counters.stats().lifetimes(&[hits, value]).await.expect("readable");
    assert_eq!(lifetimes, [360, 18]);
    for instance in &instances {
        let hits = instance.recorder.ledger().hits;
        assert_eq!((hits.recorded, hits.applied, hits.pending, hits.overflow), (240, 240, 0, 0));
    }
}

async fn labels_are_listed_separately_from_other_counters(store: impl Store + Clone) {
    let mut counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let (recorder, at) = (counters.recorder(), yesterday());
    for page in ["hits", "/", "label", "labels", "z"] {
        recorder.record_at(recorder.counter(page), None, at, ONE);
    }
    for label in ["device", "a", "a-b", "referrer"] {
        let values = recorder.label_values(label).expect("a name");
        for n in 0..1200 {
            let identified = values.note_at(Some(&format!("value:{n}")), at, ONE);
            recorder.record_at(values.counter(identified), None, at, ONE);
        }
    }
    counters.flush().await.expect("the store is available");
    let stats = counters.stats();
    assert_eq!(stats.labels().await.expect("readable"), ["a", "a-b", "device", "referrer"]);
    let mut known = Vec::new();
    let mut after = None;
    loop {
        let page = stats.list_counters(after.as_ref(), 2).await.expect("readable");
        known.extend(page.counters.into_iter().map(|(name, _)| name.to_string()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(known, ["/", "hits", "label", "labels", "z"]);
    let day = precision(86_400);
    let range = at.minus(86_400)..at.plus(1);
    let top = stats.top(day, range.clone(), 100, |_| true).await.expect("fewer than 10,000");
    assert_eq!(top.counters.len(), 5);
    let a = stats.label("a", day, range.clone(), 3).await.expect("readable");
    assert_eq!((a.total, a.values.len(), &*a.values[0].0), (1200, 3, "value:0"));
    let nothing = stats.label("nothing", day, range.clone(), 3).await.expect("readable");
    assert_eq!((nothing.total, nothing.values.len()), (0, 0));
    // The totals should not depend on the labels that a reader knows or expects.
    let unaware = Counters::builder(store).build().expect("the defaults are fine").stats();
    for (stats, expected) in [
        (&stats, &[][..]),
        (&stats, &["referrer", "zone"]),
        (&unaware, &[]),
        (&unaware, &["a"]),
        (&unaware, &["0", "a-", "b", "device"]),
        (&unaware, &["a", "a-b", "device", "referrer"]),
    ] {
        let all = stats.label_rankings(expected, day, range.clone(), 3).await.expect("readable");
        let names: Vec<_> = all.iter().map(|(label, _)| label.as_str()).collect();
        assert_eq!(names, ["a", "a-b", "device", "referrer"], "{expected:?}");
        assert!(all.iter().all(|(_, ranking)| ranking.as_ref().is_ok_and(|of| *of == a)), "{expected:?}");
    }
    assert_eq!(unaware.labels().await.expect("readable"), ["a", "a-b", "device", "referrer"]);
}

/// Reads a log from the store position to `end`, in chunks.
async fn read(instance: &Instance, source: &mut Source, log: &[String], chunk: u64, end: u64) -> Commit {
    let at = yesterday();
    while source.position() < end {
        let position = source.position();
        let value = &log[usize::try_from(position).expect("short")];
        let identified = instance.values.note_at(Some(value), at, ONE);
        let hits = [instance.hits.hit(), instance.values.counter(identified).hit()];
        let is_full = source.record(position..position + 1, at, &hits);
        if (is_full || position % chunk == chunk - 1)
            && source.commit().await.expect("there") == Commit::Moved
        {
            return Commit::Moved;
        }
    }
    source.commit().await.expect("there")
}

async fn two_readers_of_a_log_with_different_values_count_each_record_once(store: impl Store + Clone) {
    let mut random = Random::storm("of readers");
    let value = |random: &mut Random| match random.among(0..3) {
        0 => format!("{}", random.next()),
        _ => format!("{}", random.among(0..50)),
    };
    let log: Vec<_> = (0..9000).map(|_| value(&mut random)).collect();
    let mut readers: Vec<_> = (0..2).map(|_| Instance::over(store.clone())).collect();
    // The second reader has already seen other values, so that it names different values.
    let taken: Vec<_> = (0..2 * PLACES).map(|n| format!("taken-{n}")).collect();
    taken.iter().for_each(|value| _ = readers[1].count(Some(value), yesterday()));
    let mut sources = Vec::new();
    for reader in &readers {
        sources.push(reader.counters.sources().open("a log".parse().expect("a name")).await.expect("there"));
    }
    let mut ends = [0_u64; 2];
    while ends.iter().max() < Some(&9000) {
        let which = usize::try_from(random.among(0..2)).expect("one of two");
        let (reader, source) = (&readers[which], &mut sources[which]);
        let end = (source.position() + random.among(1..900)).min(9000);
        while read(reader, source, &log, 200 + 77 * which as u64, end).await == Commit::Moved {}
        ends[which] = end;
    }
    for (reader, source) in readers.iter().zip(&mut sources) {
        while read(reader, source, &log, 500, 9000).await == Commit::Moved {}
        assert!(source.ledger().hits.balance());
    }
    // Missed hits are reported once, either with these hits or with the log.
    readers[1].flush().await;
    let top = readers[0].top(3600, yesterday()).await;
    assert_eq!(top.total, 9000 + taken.len() as u64);
    let mut actual_hits = BTreeMap::<_, u64>::new();
    log.iter().chain(&taken).for_each(|value| *actual_hits.entry(&**value).or_default() += 1);
    check(&top, &actual_hits);
}

#[test]
fn a_value_with_a_place_counts_without_allocating() {
    let site = Instance::over(MemoryStore::new());
    let values: Vec<_> = (0..50).map(|n| format!("{n}.example")).collect();
    let at = Timestamp::now();
    let round = || values.iter().for_each(|value| _ = site.count(Some(value), at));
    round();
    assert_eq!(fewest(|| allocation_counter::measure(round).count_total), 0);
    assert_eq!(site.recorder.name(site.count(Some("7.example"), at)), Some(name("label:referrer:7.example")));
}

#[tokio::test]
async fn a_hit_is_reported_as_missed_if_its_value_lost_its_place() {
    let (mut site, at) = (Instance::over(MemoryStore::new()), yesterday());
    let identified = site.values.note_at(Some("slow.example"), at, ONE);
    // The other values are more frequent in this hour and in the next hour, so the place will be needed for
    // such a value.
    for n in 0..PLACES - 1 {
        (0..2).for_each(|_| _ = site.count(Some(&format!("{n}.example")), at));
    }
    (0..100).for_each(|_| _ = site.count(Some("new.example"), at));
    let counter = site.values.counter(identified);
    assert_eq!(site.recorder.name(counter), Some(name("label:referrer:(other)")));
    site.recorder.record_at(counter, None, at, ONE);
    site.recorder.record_at(site.hits, None, at, ONE);
    site.flush().await;
    let top = site.top(3600, at).await;
    assert!(top.missed >= 1 && top.values.iter().all(|(value, _)| value != "slow.example"), "{}", top.missed);
    assert!(top.values.iter().any(|(value, count)| value == "new.example" && *count > 90));
}

#[tokio::test]
async fn invalid_values_and_label_names_have_no_counters() {
    let (mut site, at) = (Instance::over(MemoryStore::new()), yesterday());
    let long = "x".repeat(300);
    for odd in ["", "(none)", "(missed)", "a\nb", "\u{85}", &long] {
        site.count(Some(odd), at);
    }
    site.flush().await;
    let top = site.top(3600, at).await;
    assert_eq!((top.total, top.other, top.missed, top.values), (6, 6, 0, Vec::new()));
    let labels = |name: &str| site.recorder.label_values(name).map(drop);
    for odd in ["", "Referrer", "a:b", "a b", &"x".repeat(33)] {
        assert_eq!(labels(odd), Err(LabelError::Name(odd.to_owned())));
    }
    for n in 0..15 {
        assert_eq!(labels(&format!("label-{n}")), Ok(()));
    }
    assert_eq!(labels("referrer"), Ok(()));
    assert_eq!(labels("one-more"), Err(LabelError::TooMany("one-more".to_owned())));
}
