use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::servers::Servers;
use crate::random::Random;
use crate::support::{always, bins_of, listed, name, precision, query, samples_of, sketch_of};
use counter_core::sketch::Sketch;
use counter_core::time::{Kind, Retention};
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Agent, Bin, Distribution, Measured, PageHit, Skip};
use counter_core::{CounterName, Counters, Precision, Precisions, Recorder, Store, Timestamp, VisitorId};
use tests::history::Promise;

/// This should be enough to have pages in each of the 16 shards.
const PAGES: usize = 40;

/// Number of counters, following the pages, that only get hits in the past, so that cleaners will remove
/// these counters completely.
const PAST_COUNTERS: usize = 4;

/// Number of label values, following these counters; this must be fewer than the places of the label.
const LABEL_VALUES: usize = 8;

/// Values of a label that also counts pairs, following these values. The first is for requests without a value.
const PAIRED_VALUES: [&str; 3] = ["(none)", "a.example", "b.example"];

/// The first value without pairs, the first value with pairs, and the first pair. A page has a pair with each value.
const VALUES: usize = PAGES + PAST_COUNTERS;
const PAIRED: usize = VALUES + LABEL_VALUES;
const PAIRS: usize = PAIRED + PAIRED_VALUES.len();

/// The first address, following the pairs. A page has one.
const ADDRESSES: usize = PAIRS + PAGES * PAIRED_VALUES.len();

/// Counters for hits that clients wait for, following the addresses.
pub(crate) const CONFIRMED: usize = 3;
const FIRST_CONFIRMED: usize = ADDRESSES + PAGES;

const COUNTERS: usize = FIRST_CONFIRMED + CONFIRMED;

/// Counter for requests, timed by the recorder clock.
const HITS_COUNTER: &str = "hits";

/// Precision that is copied into an archive, and retained until then.
pub(crate) const ARCHIVED: u32 = 1;

/// Seconds to retain. On a busy machine, a batch can be delayed by minutes. By then, the seconds of its hits must not
/// have left retention, because the archive would lack them.
const SECONDS: NonZeroU32 = NonZeroU32::new(400).expect("not 0");

/// Precisions for visitors.
const HOUR: u32 = 3600;
const DAY: u32 = 86_400;

/// The recorded hits, i.e. the exact expected counts.
#[derive(Debug, Default)]
pub(crate) struct Record {
    counts: BTreeMap<(usize, Timestamp), u64>,
    /// Views of pages.
    views: BTreeMap<(usize, Timestamp), u64>,
    /// Visitors by hour.
    visitors: BTreeMap<(usize, Timestamp), BTreeSet<u32>>,
    bins: BTreeMap<(usize, Timestamp), BTreeMap<Bin, u64>>,
    /// Seconds that may be past retention when the hit is recorded.
    edges: BTreeSet<(usize, Timestamp)>,
    pub(crate) requests: u64,
    pub(crate) skipped: u64,
    /// Sum of the weights.
    pub(crate) hits: u64,
}

/// Returns the precisions of the instances.
pub(crate) fn precisions() -> Precisions {
    let default = Precisions::default();
    let retained = default.iter().map(|retention| match retention.precision.as_seconds() {
        ARCHIVED => Retention { samples: SECONDS, ..retention },
        _ => retention,
    });
    Precisions::new(retained).expect("a set")
}

/// Returns all counters.
pub(crate) fn all_counters() -> Vec<CounterName> {
    (0..COUNTERS).map(title).chain([name(HITS_COUNTER)]).collect()
}

impl Record {
    /// Records a random event.
    pub(crate) fn write(&mut self, recorder: &Recorder, random: &mut Random) {
        let now = Timestamp::now();
        let page = usize::try_from(random.among(0..PAGES as u64)).expect("small");
        match random.among(0..200) {
            0..100 => {
                let visitor = u32::try_from(random.among(0..3000)).expect("small");
                self.hit(recorder, page, now, Some(visitor), weight(random.among(1..4)));
            }
            100..132 => self.hit(recorder, page, now, None, weight(1)),
            132..140 => {
                let visitor = u32::try_from(random.among(0..3000)).expect("small");
                self.view(recorder, page, random.one_of(&[0, 1, 2]), now, visitor);
            }
            140..170 => {
                // The second, five seconds or minute of this hit is about to leave retention.
                let widths = [1, 5, 5, 60].map(precision);
                let retention = precisions().retention(random.one_of(&widths)).expect("by default");
                let at = retention.oldest(now).plus(random.among(0..8));
                let counter = if random.among(0..2) == 0 { page } else { PAGES + page % PAST_COUNTERS };
                self.edges.insert((counter, at));
                self.hit(recorder, counter, at, None, weight(1));
            }
            170..180 => {
                let value = VALUES + page % LABEL_VALUES;
                let age = random.one_of(&[0, 0, 100, 4000, 100_000]);
                self.record_label_hit(recorder, value, now.minus(age), weight(random.among(1..4)));
            }
            180..186 => {
                let (value, age) = (random.one_of(&[0, 1, 2]), random.one_of(&[0, 0, 100, 4000, 100_000]));
                let at = now.minus(age);
                if age > 0 {
                    self.edges.extend([(page, at), (pair(page, value), at)]);
                }
                self.hit_pair(recorder, page, value, at, weight(random.among(1..4)));
            }
            186..190 => {
                recorder.request(&[recorder.counter(HITS_COUNTER).hit()], Agent::Human);
                (self.requests, self.hits) = (self.requests + 1, self.hits + 1);
            }
            190..199 => {
                recorder.skip(random.one_of(&[Skip::Excluded, Skip::Unmatched]));
                self.skipped += 1;
            }
            _ => {
                // Too many visitors to be sent as individual registers.
                let first = u32::try_from(random.among(0..100_000)).expect("small");
                for visitor in first..first + 700 {
                    self.hit(recorder, page, now, Some(visitor), weight(1));
                }
            }
        }
    }

    /// Records a hit for each page, and thus in each shard.
    pub(crate) fn write_everywhere(&mut self, recorder: &Recorder) {
        for page in 0..PAGES {
            self.hit(recorder, page, Timestamp::now(), None, weight(1));
        }
    }

    /// Records a hit that a client waits for.
    pub(crate) fn write_confirmed(&mut self, recorder: &Recorder, counter: usize, weight: NonZeroU32) {
        let now = Timestamp::now();
        recorder.record_at(recorder.counter(&confirmed(counter)), None, now, weight);
        *self.counts.entry((FIRST_CONFIRMED + counter, now)).or_default() += u64::from(weight.get());
        self.hits += u64::from(weight.get());
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (place, count) in other.counts {
            *self.counts.entry(place).or_default() += count;
        }
        for (place, views) in other.views {
            *self.views.entry(place).or_default() += views;
        }
        for (place, visitors) in other.visitors {
            self.visitors.entry(place).or_default().extend(visitors);
        }
        for (place, bins) in other.bins {
            let all = self.bins.entry(place).or_default();
            bins.into_iter().for_each(|(bin, count)| *all.entry(bin).or_default() += count);
        }
        self.edges.extend(other.edges);
        self.requests += other.requests;
        self.skipped += other.skipped;
        self.hits += other.hits;
    }

    /// Compares the samples and visitor buckets to a store that was cleaned at `now`; `began` is the time of
    /// the first request. Older samples may exist in the precision that is held for an archive.
    pub(crate) async fn compare(
        &self,
        store: &(impl Store + Clone),
        servers: &impl Servers,
        began: Timestamp,
        now: Timestamp,
    ) {
        let mut known = BTreeSet::new();
        for retention in precisions().iter() {
            let width = retention.precision;
            let is_held = |start| width == precision(ARCHIVED) && start < retention.oldest(now);
            for counter in 0..COUNTERS {
                let mut expected = BTreeMap::<_, u64>::new();
                for ((_, at), count) in
                    self.counts.range((counter, Timestamp::MIN)..=(counter, Timestamp::MAX))
                {
                    let start = width.bucket(*at).start;
                    if start >= retention.oldest(now) {
                        *expected.entry(start).or_default() += count;
                    }
                }
                let samples = samples_of(store, &[title(counter)], width, always()).await;
                let samples = samples.concat().into_iter().filter(|sample| !is_held(sample.start));
                let samples: BTreeMap<_, _> = samples.map(|sample| (sample.start, sample.count)).collect();
                assert_eq!(samples, expected, "{} by {width} s at {now}", title(counter));
                if !expected.is_empty() {
                    known.insert((title(counter), width));
                }
            }
            let samples = samples_of(store, &[name(HITS_COUNTER)], width, always()).await;
            if retention.oldest(now) <= began {
                let sum = samples.concat().iter().map(|sample| sample.count).sum::<u64>();
                assert_eq!(sum, self.requests, "requests by {width} s");
            }
            if !samples.is_empty() {
                known.insert((name(HITS_COUNTER), width));
            }
            if width >= precision(HOUR) {
                self.compare_views(store, width, &mut known).await;
            }
        }
        let may_lack = servers.promise() == Promise::Eventual || !store.info().sites.is_empty();
        self.compare_people(store, began, may_lack).await;
        let widths: Vec<_> = precisions().iter().map(|retention| retention.precision).collect();
        let found = store.known(listed(&widths, "", 10_000)).await.expect("readable").counters.into_iter();
        let found = found.filter(|known_by| known_by.1 != precision(ARCHIVED) || known.contains(known_by));
        assert_eq!(found.collect::<BTreeSet<_>>(), known);
        for width in [HOUR, DAY].map(precision) {
            self.compare_visitors(store, servers, width).await;
        }
        self.compare_pairs(store, now).await;
        for retention in Distribution::precisions().iter() {
            // Bins may be missing close to the end of retention.
            let oldest = if retention.precision == precision(60) { began } else { Timestamp::MIN };
            self.compare_bins(store, retention.precision, oldest, now).await;
        }
    }

    async fn compare_views(
        &self,
        store: &impl Store,
        width: Precision,
        known: &mut BTreeSet<(CounterName, Precision)>,
    ) {
        let mut all = BTreeMap::<_, BTreeMap<_, u64>>::new();
        for ((page, at), views) in &self.views {
            for viewed in [title(*page), name(HITS_COUNTER)] {
                let buckets = all.entry(viewed.views().expect("a short name")).or_default();
                *buckets.entry(width.bucket(*at).start).or_default() += views;
            }
        }
        assert!(all.len() > 1, "there are views");
        for (counter, expected) in all {
            let samples = samples_of(store, std::slice::from_ref(&counter), width, always()).await.concat();
            let samples: BTreeMap<_, _> =
                samples.into_iter().map(|sample| (sample.start, sample.count)).collect();
            assert_eq!(samples, expected, "{counter} by {width} s");
            known.insert((counter, width));
        }
    }

    /// Compares the people who are here now, unless some have left, or servers may lack a batch.
    async fn compare_people(&self, store: &(impl Store + Clone), began: Timestamp, may_lack: bool) {
        let found = Counters::builder(store.clone()).build().expect("good settings").stats().now().await;
        let people = found.expect("readable").people;
        if people.is_upper_bound {
            return;
        }
        let found = people.visitors;
        let visitors = self.visitors.values().flatten().collect::<BTreeSet<_>>();
        let mut people = Sketch::new();
        for visitor in visitors {
            people.insert(self::visitor(*visitor));
        }
        let expected = people.estimate();
        assert!(found <= expected, "{found} of {expected} people");
        if Timestamp::now().minus(300) < began && !may_lack {
            assert_eq!(found, expected, "people");
        }
    }

    async fn compare_bins(&self, store: &impl Store, width: Precision, oldest: Timestamp, now: Timestamp) {
        let mut expected = BTreeMap::<_, BTreeMap<Bin, u64>>::new();
        for ((counter, at), bins) in &self.bins {
            let all = expected.entry((*counter, width.bucket(*at).start)).or_default();
            bins.iter().for_each(|(bin, count)| *all.entry(*bin).or_default() += count);
        }
        let first = width.bucket(oldest).start;
        expected.retain(|(_, start), _| *start >= first);
        let counters: Vec<_> = (0..PAGES + PAST_COUNTERS).map(title).collect();
        let range = now.minus(200_000).max(first)..now.plus(1);
        let found = store
            .values(Kind::Distributions, query(&counters, width, range))
            .await
            .expect("readable")
            .counters;
        let mut all = BTreeMap::new();
        for (counter, reading) in found.into_iter().enumerate() {
            assert_eq!(reading.unreadable, None);
            for (start, bins) in bins_of(&reading) {
                all.insert((counter, start), bins.into_iter().collect::<BTreeMap<_, _>>());
            }
        }
        assert!(all.len() >= PAGES && all == expected, "bins by {width} s\n{all:?}\n{expected:?}");
    }

    /// Compares the seconds since `began` to a store where they are retained forever.
    pub(crate) async fn compare_seconds(&self, store: &impl Store, began: Timestamp) {
        let since = began..Timestamp::MAX;
        let requests =
            samples_of(store, &[name(HITS_COUNTER)], precision(ARCHIVED), since.clone()).await.concat();
        assert_eq!(requests.iter().map(|sample| sample.count).sum::<u64>(), self.requests);
        for counter in (0..PAGES).chain(PAIRS..COUNTERS) {
            let is_sure = |at: Timestamp| !self.edges.contains(&(counter, at));
            let recorded = self.counts.range((counter, began)..=(counter, Timestamp::MAX));
            let recorded = recorded.filter(|((_, at), _)| is_sure(*at));
            let expected: Vec<_> = recorded.map(|((_, at), count)| (*at, *count)).collect();
            let found =
                samples_of(store, &[title(counter)], precision(ARCHIVED), since.clone()).await.concat();
            let found = found.into_iter().filter(|sample| is_sure(sample.start));
            let found: Vec<_> = found.map(|sample| (sample.start, sample.count)).collect();
            assert_eq!(found, expected, "{} by the second", title(counter));
        }
    }

    async fn compare_visitors(&self, store: &impl Store, servers: &impl Servers, width: Precision) {
        let mut buckets = BTreeMap::<_, BTreeSet<u32>>::new();
        // The people of a value are only counted by the day.
        let kept =
            self.visitors.iter().filter(|((counter, _), _)| *counter < PAGES || width > precision(HOUR));
        for ((page, hour), visitors) in kept {
            buckets.entry((*page, width.bucket(*hour))).or_default().extend(visitors);
        }
        assert!(buckets.len() >= PAGES);
        for ((page, bucket), visitors) in buckets {
            let page = title(page);
            let ids: Vec<_> = visitors.iter().map(|n| visitor(*n)).collect();
            let reference = servers.reference(&page, bucket, &ids).await;
            let sketch = sketch_of(store, &page, bucket).await;
            assert_eq!(sketch, reference, "every register is that of the visitors");
        }
    }

    /// Compares the values of each page, and the hits that its pairs do not cover.
    async fn compare_pairs(&self, store: &(impl Store + Clone), now: Timestamp) {
        let stats =
            Counters::builder(store.clone()).precisions(precisions()).build().expect("good settings").stats();
        let range = now.minus(200_000)..now.plus(1);
        let total = |counter| {
            let counts = self.counts.range((counter, Timestamp::MIN)..=(counter, Timestamp::MAX));
            counts.map(|(_, count)| count).sum::<u64>()
        };
        for page in 0..PAGES {
            let top = stats.label_of_page("from", &title(page), precision(HOUR), range.clone(), 10).await;
            let top = top.expect("readable");
            let pairs = [0, 1, 2].map(|value| total(pair(page, value)));
            let [none, a, b] = pairs;
            let value =
                |name: &str| top.values.iter().find(|(value, _)| value == name).map_or(0, |found| found.1);
            assert_eq!([top.none, value("a.example"), value("b.example")], [none, a, b], "{}", title(page));
            let rest = total(page) - pairs.iter().sum::<u64>();
            assert_eq!((top.total, top.other, top.missed), (total(page), rest, 0), "{}", title(page));
        }
    }

    /// Records a request with a pair at an instant, like a log.
    fn hit_pair(
        &mut self,
        recorder: &Recorder,
        page: usize,
        value: usize,
        at: Timestamp,
        weight: NonZeroU32,
    ) {
        let values = recorder.label_values("from").expect("a name").by_page();
        let (noted, on_page) =
            (values.note_at(paired_value(value), at, weight), recorder.counter(&title(page)));
        let pair = values.pair(noted, on_page, at, weight).expect("there are enough places");
        for counter in [on_page, values.counter(noted), pair] {
            recorder.record_at(counter, None, at, weight);
        }
        self.count_pair(page, value, at, weight);
    }

    /// Records a request with a pair now.
    fn view(&mut self, recorder: &Recorder, page: usize, value: usize, at: Timestamp, visitor: u32) {
        let values = recorder.label_values("from").expect("a name").by_page();
        let addresses = recorder.label_values("address").expect("a name").people();
        let address = title(ADDRESSES + page);
        let (_, address) = address.label().expect("a value of a label");
        recorder.page_hit(PageHit {
            page: Some(recorder.counter(&title(page))),
            labels: &[
                values.note(paired_value(value), NonZeroU32::MIN),
                addresses.note(Some(address), NonZeroU32::MIN),
            ],
            is_view: true,
            until: at.plus(1),
            ..PageHit::new(recorder.counter(HITS_COUNTER).hit().visitor(self::visitor(visitor)), Agent::Human)
        });
        *self.views.entry((page, at)).or_default() += 1;
        *self.counts.entry((ADDRESSES + page, at)).or_default() += 1;
        // The address, and the views of the page and of the site.
        self.hits += 3;
        let hour = precision(HOUR).bucket(at).start;
        for counter in [page, ADDRESSES + page] {
            self.visitors.entry((counter, hour)).or_default().insert(visitor);
        }
        (self.requests, self.hits) = (self.requests + 1, self.hits + 1);
        self.count_pair(page, value, at, NonZeroU32::MIN);
    }

    fn count_pair(&mut self, page: usize, value: usize, at: Timestamp, weight: NonZeroU32) {
        for counter in [page, PAIRED + value, pair(page, value)] {
            *self.counts.entry((counter, at)).or_default() += u64::from(weight.get());
            self.hits += u64::from(weight.get());
        }
    }

    fn record_label_hit(&mut self, recorder: &Recorder, counter: usize, at: Timestamp, weight: NonZeroU32) {
        let title = title(counter);
        let (label, value) = title.label().expect("a value of a label");
        let values = recorder.label_values(label).expect("a name");
        let identified = values.note(Some(value), weight);
        recorder.record_at(values.counter(identified), None, at, weight);
        *self.counts.entry((counter, at)).or_default() += u64::from(weight.get());
        self.hits += u64::from(weight.get());
    }

    fn hit(
        &mut self,
        recorder: &Recorder,
        counter: usize,
        at: Timestamp,
        visitor: Option<u32>,
        weight: NonZeroU32,
    ) {
        recorder.record_at(recorder.counter(&title(counter)), visitor.map(self::visitor), at, weight);
        *self.counts.entry((counter, at)).or_default() += u64::from(weight.get());
        // This varies, but it can be computed from the recorded hits.
        let size = (self.hits + counter as u64) % 12;
        let bins = [Bin::size(size), Bin::status(if size.is_multiple_of(5) { 404 } else { 200 })];
        let hits = [recorder.counter(&title(counter)).hit()];
        recorder.measure_at(Measured { hits: &hits, bins: &bins }, at);
        let all = self.bins.entry((counter, at)).or_default();
        bins.iter().for_each(|bin| *all.entry(*bin).or_default() += 1);
        self.hits += u64::from(weight.get());
        if let Some(visitor) = visitor {
            let hour = precision(HOUR).bucket(at).start;
            self.visitors.entry((counter, hour)).or_default().insert(visitor);
        }
    }
}

fn title(counter: usize) -> CounterName {
    match counter {
        ..VALUES => name(&format!("/page/{counter}")),
        VALUES..PAIRED => name(&format!("label:site:{}.example", counter - VALUES)),
        PAIRED..PAIRS => name(&format!("label:from:{}", PAIRED_VALUES[counter - PAIRED])),
        ADDRESSES..FIRST_CONFIRMED => name(&format!("label:address:/page/{}/of/it", counter - ADDRESSES)),
        FIRST_CONFIRMED.. => name(&format!("/confirmed/{}", counter - FIRST_CONFIRMED)),
        PAIRS..ADDRESSES => {
            let (page, value) =
                ((counter - PAIRS) / PAIRED_VALUES.len(), (counter - PAIRS) % PAIRED_VALUES.len());
            CounterName::of_pair("from", &title(page), PAIRED_VALUES[value]).expect("a short name")
        }
    }
}

/// Returns the name of a counter for hits that clients wait for.
pub(crate) fn confirmed(counter: usize) -> CounterName {
    title(FIRST_CONFIRMED + counter)
}

fn pair(page: usize, value: usize) -> usize {
    PAIRS + page * PAIRED_VALUES.len() + value
}

fn paired_value(value: usize) -> Option<&'static str> {
    (value > 0).then(|| PAIRED_VALUES[value])
}

fn visitor(n: u32) -> VisitorId {
    VisitorKey::new([9; 16]).visitor(&[&n.to_le_bytes()])
}

pub(crate) fn weight(weight: u64) -> NonZeroU32 {
    u32::try_from(weight).ok().and_then(NonZeroU32::new).expect("small, and not 0")
}
