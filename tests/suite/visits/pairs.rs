//! Tests for pairs of a page and a label value: the values of a page, and the pages of a value.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use counter_core::source::{Commit, Source};
use counter_core::visits::{Agent, Hit, LabelRanking, LabelValues, PageView};
use counter_core::{Counter, Counters, MemoryStore, Recorder, Stats, Store, Timestamp};

use crate::random::Random;
use crate::stores;
use crate::support::{fewest, name, precision};

stores::on! {
    [memory redis redis_in_shards redis_without_scripts sqlite sqlite_in_memory postgres mariadb]
    {
        pairs_add_up_across_instances_to_the_hits_of_pages_and_values
        hits_of_pairs_without_a_place_are_the_rest_of_the_page
        labels_with_pairs_are_listed_once
        two_readers_of_a_log_count_each_pair_once
    }
}

const ONE: NonZeroU32 = NonZeroU32::MIN;

/// Hits by page and value.
type Seen = BTreeMap<(String, String), u64>;

/// An instance of a site that counts the referrers of pages.
struct Instance {
    counters: Counters,
    recorder: Recorder,
    values: LabelValues,
    hits: Counter,
    seen: Seen,
}

impl Instance {
    fn over(store: impl Store) -> Self {
        Self::with_pairs(store, 10_000)
    }

    fn with_pairs(store: impl Store, pairs: usize) -> Self {
        let counters = Counters::builder(store).label_pairs(pairs).build().expect("a good number");
        let recorder = counters.recorder();
        let values = recorder.label_values("referrer").expect("a name").by_page();
        let hits = recorder.counter("hits");
        Self { counters, recorder, values, hits, seen: BTreeMap::new() }
    }

    /// Counts a request of a page, where an empty value stands for a request without a referrer.
    fn count(&mut self, page: &str, value: &str) {
        *self.seen.entry((page.to_owned(), value.to_owned())).or_default() += 1;
        self.record(page, value);
    }

    fn record(&self, page: &str, value: &str) {
        let noted = self.values.note(Some(value).filter(|value| !value.is_empty()), ONE);
        let hit = self.hits.hit();
        let page = Some(self.recorder.counter(page));
        self.recorder.page_view(PageView { page, labels: &[noted], ..PageView::new(hit, Agent::Human) });
    }

    async fn flush(&mut self) {
        self.counters.flush().await.expect("the store is available");
    }

    /// The hits of a request at an instant, to be recorded by a source.
    fn hits(&self, page: &str, value: &str, at: Timestamp) -> Vec<Hit> {
        let noted = self.values.note_at(Some(value), at, ONE);
        let page = self.recorder.counter(page);
        let counters = [self.hits, page, self.values.counter(noted)].into_iter();
        counters.chain(self.values.pair(noted, page, at, ONE)).map(Counter::hit).collect()
    }
}

async fn of_page(stats: &Stats, page: &str, at: Timestamp) -> LabelRanking {
    let range = at.minus(86_400)..at.plus(3600);
    let page = name(page);
    let top = stats.label_of_page("referrer", &page, precision(3600), range.clone(), usize::MAX).await;
    let top = top.expect("readable");
    assert_eq!(top.total, stats.total(&page, precision(3600), range).await.expect("readable"));
    let known: u64 = top.values.iter().map(|(_, count)| count).sum();
    assert_eq!(known + top.none + top.other, top.total, "the values of a page add up to its hits");
    assert_eq!(top.unreadable, []);
    top
}

/// Returns the names and hits from `seen` in the order of a ranking.
fn ranked<'a>(seen: impl Iterator<Item = (&'a str, u64)>) -> Vec<(String, u64)> {
    let mut by_name = BTreeMap::<_, u64>::new();
    seen.for_each(|(name, count)| *by_name.entry(name.to_owned()).or_default() += count);
    let mut ranked: Vec<_> = by_name.into_iter().collect();
    ranked.sort_by(|(_, a), (_, b)| b.cmp(a));
    ranked
}

async fn pairs_add_up_across_instances_to_the_hits_of_pages_and_values(store: impl Store + Clone) {
    let mut random = Random::storm("of pairs");
    let mut instances: Vec<_> = (0..3).map(|_| Instance::over(store.clone())).collect();
    let pages = ["/", "/a", "/a = b", "/articles/{id}", "(other)"];
    for n in 0..3000 {
        let instance = &mut instances[usize::try_from(random.among(0..3)).expect("small")];
        let page = pages[usize::try_from(random.among(0..5)).expect("small")];
        let value = ["", "news.example", "blog.example", "a:b@c", "x"]
            [usize::try_from(random.among(0..5)).expect("small")];
        instance.count(page, value);
        if n % 500 == 0 {
            instance.flush().await;
        }
    }
    let mut seen = Seen::new();
    for instance in &mut instances {
        instance.flush().await;
        std::mem::take(&mut instance.seen)
            .into_iter()
            .for_each(|(key, count)| *seen.entry(key).or_default() += count);
        assert_eq!(instance.recorder.ledger().hits.pending, 0);
    }
    let (stats, now) = (instances[0].counters.stats(), Timestamp::now());
    for page in pages {
        let top = of_page(&stats, page, now).await;
        let of_page = seen.iter().filter(|((of, value), _)| of == page && !value.is_empty());
        assert_eq!(top.values, ranked(of_page.map(|((_, value), count)| (&**value, *count))), "{page}");
        assert_eq!(
            (top.none, top.other, top.missed),
            (seen[&(page.to_owned(), String::new())], 0, 0),
            "{page}"
        );
    }
    let range = now.minus(86_400)..now.plus(3600);
    for value in ["news.example", "a:b@c", "(none)"] {
        let of = if value == "(none)" { "" } else { value };
        let pages = stats.pages_of_value("referrer", value, precision(3600), range.clone(), usize::MAX).await;
        let pages = pages.expect("readable");
        let of_value = seen.iter().filter(|((_, value), _)| value == of);
        let expected = ranked(of_value.map(|((page, _), count)| (&**page, *count)));
        assert_eq!(pages.total, expected.iter().map(|(_, count)| count).sum::<u64>());
        assert_eq!((pages.values, pages.other), (expected, 0), "{value}");
    }
}

async fn hits_of_pairs_without_a_place_are_the_rest_of_the_page(store: impl Store + Clone) {
    let mut random = Random::storm("of a scan");
    let mut site = Instance::with_pairs(store, 40);
    for n in 0..6000_u64 {
        // A third is a scan of pages with made-up referrers.
        let (page, value) = match random.among(0..3) {
            0 => (random.among(0..30), format!("made-up-{n}")),
            _ => (random.among(0..3), format!("real-{}", random.among(0..3))),
        };
        site.count(&format!("/page/{page}"), &value);
    }
    // Neither a value with the separator, nor a pair with a long name can have a counter.
    site.count("/page/0", "a = b");
    let long = format!("/{}", "long".repeat(45));
    site.count(&long, "real-0");
    site.flush().await;
    let (stats, now) = (site.counters.stats(), Timestamp::now());
    for page in (0..30).map(|n| format!("/page/{n}")) {
        let top = of_page(&stats, &page, now).await;
        let counted: BTreeMap<_, _> = top.values.iter().map(|(value, count)| (&**value, *count)).collect();
        for ((_, value), had) in site.seen.iter().filter(|((of, _), _)| *of == page) {
            let count = counted.get(&**value).copied().unwrap_or_default();
            let bound = count..=count + top.missed;
            assert!(bound.contains(had), "{page}, {value}: {had} hits, but {bound:?}");
            // Every real pair has a larger share than all made-up pairs.
            assert!(!value.starts_with("real") || count * 10 >= had * 9, "{page}, {value}: {count} of {had}");
        }
    }
    let top = of_page(&stats, &long, now).await;
    assert_eq!((top.values.len(), top.other, top.total), (0, 1, 1));
}

async fn labels_with_pairs_are_listed_once(store: impl Store + Clone) {
    let mut counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let recorder = counters.recorder();
    for label in ["a", "a-b", "device", "referrer", "z"] {
        let values = recorder.label_values(label).expect("a name");
        let values = if label == "z" { values } else { values.by_page() };
        for page in ["/", "/b"] {
            let (noted, page) = (values.note(Some("x"), ONE), Some(recorder.counter(page)));
            let view = PageView::new(recorder.counter("hits").hit(), Agent::Human);
            recorder.page_view(PageView { page, labels: &[noted], ..view });
        }
    }
    counters.flush().await.expect("the store is available");
    // Pairs may outlive the values.
    counters.stats().forget(&name("label:a-b:x")).await.expect("the store is available");
    let unaware = Counters::builder(store).build().expect("the defaults are fine").stats();
    let (hour, now) = (precision(3600), Timestamp::now());
    let range = now.minus(86_400)..now.plus(3600);
    for expected in [&[][..], &["device"], &["a", "b", "zone"]] {
        let labels = unaware.label_rankings(expected, hour, range.clone(), 3).await.expect("readable");
        let labels: Vec<_> = labels.iter().map(|(label, _)| label.as_str()).collect();
        assert_eq!(labels, ["a", "device", "referrer", "z"], "{expected:?}");
        let of_page =
            unaware.labels_of_page(expected, &name("/b"), hour, range.clone(), 3).await.expect("readable");
        let of_page: Vec<_> =
            of_page.iter().map(|(label, ranking)| (label.as_str(), ranking.is_ok())).collect();
        assert_eq!(of_page, [("a", true), ("device", true), ("referrer", true)], "{expected:?}");
    }
    let of_page = unaware.labels_of_page(&[], &name("/c"), hour, range, 3).await;
    assert!(of_page.is_ok_and(|labels| labels.is_empty()));
    let page = unaware.list_counters(None, 100).await.expect("readable");
    let listed: Vec<_> = page.counters.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(listed, ["/", "/b", "hits"]);
}

/// Reads a log from the store position to `end`, in chunks.
async fn read(
    instance: &Instance,
    source: &mut Source,
    log: &[(String, String)],
    chunk: u64,
    end: u64,
) -> Commit {
    let at = Timestamp::now().minus(7200);
    while source.position() < end {
        let position = source.position();
        let (page, value) = &log[usize::try_from(position).expect("short")];
        let is_full = source.record(position..position + 1, at, &instance.hits(page, value, at));
        if (is_full || position % chunk == chunk - 1)
            && source.commit().await.expect("there") == Commit::Moved
        {
            return Commit::Moved;
        }
    }
    source.commit().await.expect("there")
}

async fn two_readers_of_a_log_count_each_pair_once(store: impl Store + Clone) {
    let mut random = Random::storm("of readers");
    let mut some = |of: &str, count: u64| format!("{of}{}", random.among(0..count));
    let log: Vec<_> = (0..3000).map(|_| (some("/", 5), some("site-", 4))).collect();
    let readers: Vec<_> = (0..2).map(|_| Instance::over(store.clone())).collect();
    let mut sources = Vec::new();
    for reader in &readers {
        sources.push(reader.counters.sources().open("a log".parse().expect("a name")).await.expect("there"));
    }
    let mut ends = [0_u64; 2];
    while ends.iter().max() < Some(&3000) {
        let which = usize::try_from(random.among(0..2)).expect("one of two");
        let (reader, source) = (&readers[which], &mut sources[which]);
        let end = (source.position() + random.among(1..400)).min(3000);
        while read(reader, source, &log, 100 + 77 * which as u64, end).await == Commit::Moved {}
        ends[which] = end;
    }
    for (reader, source) in readers.iter().zip(&mut sources) {
        while read(reader, source, &log, 500, 3000).await == Commit::Moved {}
        assert!(source.ledger().hits.balance());
    }
    let stats = readers[0].counters.stats();
    for page in (0..5).map(|n| format!("/{n}")) {
        let top = of_page(&stats, &page, Timestamp::now()).await;
        let of_page = log.iter().filter(|(of, _)| *of == page).map(|(_, value)| (&**value, 1));
        assert_eq!((top.values, top.other), (ranked(of_page), 0), "{page}");
    }
}

#[tokio::test]
async fn pages_with_the_same_hits_are_sorted_by_name() {
    let mut site = Instance::over(MemoryStore::new());
    for page in ["/a = b", "/a", "/"] {
        site.count(page, "x");
    }
    site.flush().await;
    let range = Timestamp::now().minus(86_400)..Timestamp::now().plus(3600);
    for (limit, expected) in [(3, &["/", "/a", "/a = b"][..]), (2, &["/", "/a"])] {
        let stats = site.counters.stats();
        let pages = stats.pages_of_value("referrer", "x", precision(3600), range.clone(), limit).await;
        let pages = pages.expect("readable").values;
        assert_eq!(pages.iter().map(|(page, _)| &**page).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_pair_with_a_place_counts_without_allocating() {
    let site = Instance::over(MemoryStore::new());
    let pages: Vec<_> = (0..50).map(|n| format!("/{n}")).collect();
    let round = || pages.iter().for_each(|page| site.record(page, "news.example"));
    round();
    assert_eq!(fewest(|| allocation_counter::measure(round).count_total), 0);
}
