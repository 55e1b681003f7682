//! Tests for pairs of a page and a label value: the values of a page, and the pages of a value.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use counter_core::archive::{Archive, Side};
use counter_core::source::{Commit, Source};
use counter_core::time::Kind;
use counter_core::visits::store::{ArchiveStore, Page, Value};
use counter_core::visits::{Agent, LabelRanking, LabelValues, PageHit};
use counter_core::{
    AnyStore, Counter, CounterName, Counters, MemoryStore, Recorder, Stats, Store, Timestamp,
};

use crate::random::Random;
use crate::stores;
use crate::support::{fewest, listed, name, precision};

stores::on! {
    [memory redis redis_in_shards redis_without_scripts sqlite sqlite_in_memory postgres mariadb]
    {
        pairs_add_up_across_instances_to_the_hits_of_pages_and_values
        hits_of_pairs_without_a_place_are_the_rest_of_the_page
        labels_with_pairs_are_listed_once
        two_readers_of_a_log_count_each_pair_once
        a_restored_dump_has_the_same_pairs
        pairs_of_old_days_are_archived_audited_and_repaired
        forgetting_a_page_or_a_value_removes_its_pairs
    }
}

const PAGES: [&str; 6] = ["/", "/a", "/a =", "/a = b", "/articles/{id}", "(other)"];
/// An empty value stands for a request without a referrer.
const VALUES: [&str; 6] = ["", "news.example", "blog.example", "a:b@c", "x", "=x ="];
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

    /// Counts a request of a page.
    fn count(&mut self, page: &str, value: &str) {
        *self.seen.entry((page.to_owned(), value.to_owned())).or_default() += 1;
        self.record(page, value);
    }

    fn record(&self, page: &str, value: &str) {
        let noted = self.values.note(Some(value).filter(|value| !value.is_empty()), ONE);
        let hit = self.hits.hit();
        let page = Some(self.recorder.counter(page));
        self.recorder.page_hit(PageHit { page, labels: &[noted], ..PageHit::new(hit, Agent::Human) });
    }

    async fn flush(&mut self) {
        self.counters.flush().await.expect("the store is available");
    }

    /// The counters of a request at an instant.
    fn counters(&self, page: &str, value: &str, at: Timestamp) -> Vec<Counter> {
        let noted = self.values.note_at(Some(value).filter(|value| !value.is_empty()), at, ONE);
        let page = self.recorder.counter(page);
        let counters = [self.hits, page, self.values.counter(noted)].into_iter();
        counters.chain(self.values.pair(noted, page, at, ONE)).collect()
    }

    /// Counts random requests on past days that are over.
    async fn count_past_days(&mut self, now: Timestamp) {
        let mut random = Random::storm("of past days");
        for _ in 0..1000 {
            let at = now.minus(86_400 * random.among(2..30));
            for counter in self.counters(random.one_of(&PAGES), random.one_of(&VALUES), at) {
                self.recorder.record_at(counter, None, at, ONE);
            }
        }
        self.flush().await;
    }
}

/// Returns the values of all pages, and the pages of all values, in the last month.
async fn answers(stats: &Stats, now: Timestamp) -> Vec<LabelRanking> {
    let (day, month, mut answers) = (precision(86_400), now.minus(32 * 86_400)..now, Vec::new());
    for page in PAGES {
        answers.push(stats.label_of_page("referrer", &name(page), day, month.clone(), usize::MAX).await);
    }
    for value in VALUES {
        let value = if value.is_empty() { "(none)" } else { value };
        answers.push(stats.pages_of_value("referrer", value, day, month.clone(), usize::MAX).await);
    }
    answers.into_iter().map(|answer| answer.expect("readable")).collect()
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
    for n in 0..3000 {
        let instance = &mut instances[usize::try_from(random.among(0..3)).expect("small")];
        instance.count(random.one_of(&PAGES), random.one_of(&VALUES));
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
    for page in PAGES {
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
            let view = PageHit::new(recorder.counter("hits").hit(), Agent::Human);
            recorder.page_hit(PageHit { page, labels: &[noted], ..view });
        }
    }
    counters.flush().await.expect("the store is available");
    // Pairs may outlive the values.
    let grid = counters.stats().grid().clone();
    store.forget(&name("label:a-b:x"), &grid, Timestamp::now()).await.expect("the store is available");
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
        let hits: Vec<_> = instance.counters(page, value, at).into_iter().map(Counter::hit).collect();
        let is_full = source.record(position..position + 1, at, &hits);
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

async fn a_restored_dump_has_the_same_pairs(store: impl Store + Clone) {
    let (mut site, now) = (Instance::over(store), Timestamp::now());
    site.count_past_days(now).await;
    let expected = answers(&site.counters.stats(), now).await;
    assert!(expected.iter().all(|answer| !answer.values.is_empty() && answer.other == 0), "{expected:?}");
    let (mut lines, mut dump) = (Vec::new(), site.counters.stats().dump());
    while let Some(line) = dump.next().await.expect("readable") {
        lines.push(line);
    }
    let (((), memory), (_server, redis)) = (stores::memory().await, stores::redis_in_shards().await);
    for target in [AnyStore::from(memory), AnyStore::from(redis)] {
        let counters = Counters::builder(target).build().expect("the defaults are fine");
        let mut restore = counters.restore();
        for line in &lines {
            restore.line(line.as_bytes()).await.expect("a good line");
        }
        restore.finish().await.expect("the dump is complete");
        assert_eq!(answers(&counters.stats(), now).await, expected);
    }
}

async fn pairs_of_old_days_are_archived_audited_and_repaired(near: impl Store + Clone) {
    let ((_folder, far), now) = (stores::sqlite().await, Timestamp::now());
    let archive = Archive::new(near.clone(), far.clone());
    let mut site = Instance::over(archive.clone());
    site.count_past_days(now).await;
    let (stats, near_stats) = (site.counters.stats(), Instance::over(near.clone()).counters.stats());
    let (grid, expected) = (stats.grid().clone(), answers(&stats, now).await);
    archive.copier(&grid).copy_once(Timestamp::now()).await.expect("both stores are available");
    let audit = async |right| {
        let audit =
            archive.auditor(&grid).audit(Timestamp::now(), right).await.expect("both stores are available");
        let mut names: Vec<_> = audit.differences.iter().map(|one| one.counter.to_string()).collect();
        names.dedup();
        (audit.differing > 0, names)
    };
    assert_eq!(audit(None).await, (false, vec![]));

    let (day, pair) = (precision(86_400), name("label:referrer@:/a = x"));
    let days = grid.counts.iter().find(|retention| retention.precision == day).expect("days");
    let mut page = Page::new(Kind::Counts, Timestamp::now(), days);
    page.counters = vec![pair.clone()];
    page.values.insert(day.bucket(now.minus(5 * 86_400)).start, vec![(0, Value::Count(900))]);
    far.put(&page).await.expect("the store is available");
    assert_eq!(audit(None).await, (true, vec![pair.to_string()]));
    audit(Some(Side::Near)).await;
    assert_eq!(audit(None).await, (false, vec![]));

    near.forget(&pair, &grid, Timestamp::now()).await.expect("the store is available");
    assert_ne!(answers(&near_stats, now).await, expected);
    assert_eq!(audit(None).await, (true, vec![pair.to_string()]));
    audit(Some(Side::Far)).await;
    assert_eq!(audit(None).await, (false, vec![]));
    assert_eq!(answers(&near_stats, now).await, expected);

    // Simulates days past retention.
    for (counter, _) in near.known(listed(&[day], "", 1000)).await.expect("readable").counters {
        near.forget(&counter, &grid, Timestamp::now()).await.expect("the store is available");
    }
    assert!(answers(&near_stats, now).await.iter().all(|answer| answer.values.is_empty()));
    assert_eq!(answers(&stats, now).await, expected);
    stats.forget(&name("/a")).await.expect("both stores are available");
    assert_eq!(answers(&stats, now).await[1], LabelRanking::default());
}

async fn forgetting_a_page_or_a_value_removes_its_pairs(store: impl Store + Clone) {
    let (mut site, now) = (Instance::over(store.clone()), Timestamp::now());
    site.count_past_days(now).await;
    let stats = site.counters.stats();
    let before = answers(&stats, now).await;
    let [page, value] = ["/a", "label:referrer:x"].map(name);
    for counter in [&page, &value] {
        stats.forget(counter).await.expect("the store is available");
    }
    let after = answers(&stats, now).await;
    for (n, (before, after)) in before.iter().zip(&after).enumerate() {
        let is_gone =
            |n: usize, value: &str| (n < PAGES.len() && value == "x") || (n >= PAGES.len() && value == "/a");
        // The page, and the value.
        if n == 1 || n == PAGES.len() + 4 {
            assert_eq!(*after, LabelRanking::default());
            continue;
        }
        let (gone, left): (Vec<_>, Vec<_>) =
            before.values.iter().cloned().partition(|(value, _)| is_gone(n, value));
        let rest = gone.iter().map(|(_, count)| count).sum();
        assert!(rest > 0);
        assert_eq!((after.total, &after.values, after.other), (before.total, &left, rest), "{n}");
    }
    let known =
        store.known(listed(&[precision(86_400)], "label:referrer@:", 1000)).await.expect("readable").counters;
    let is_gone =
        |name: &CounterName| name.pair().is_some_and(|(_, page, value)| page == "/a" || value == "x");
    assert!(known.iter().all(|(name, _)| !is_gone(name)), "{known:?}");
    // Later hits count again.
    site.count("/a", "x");
    site.flush().await;
    let top = of_page(&stats, "/a", Timestamp::now()).await;
    assert_eq!((top.values, top.other), (vec![("x".to_owned(), 1)], 0));
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
