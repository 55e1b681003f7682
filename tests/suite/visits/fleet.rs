//! Tests for a fleet: several stores, read as one.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use counter_core::fleet::{Fleet, Site};
use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Agent, Bin, Coverage, Hint, LabelValues, Measure, PageHit};
use counter_core::{
    CounterName, Counters, Error, ErrorKind, MemoryStore, Precisions, Recorder, RedisStore, Stats, Store,
    Timestamp,
};
use tests::{FaultProxy, LIMIT, RedisServer};

use crate::log::Log;
use crate::random::Random;
use crate::stores;
use crate::support::{name, precision, store};

stores::on! {
    [memory redis redis_in_shards sqlite postgres mariadb]
    {
        the_answers_of_a_fleet_are_those_of_a_single_store
    }
}

const ONE: NonZeroU32 = NonZeroU32::MIN;

/// A process that counts into a store.
struct Instance {
    counters: Counters,
    recorder: Recorder,
    labels: LabelValues,
}

impl Instance {
    fn over(store: impl Store) -> Self {
        let hours = Precisions::new([precision(3600)]).expect("a set");
        let counters = Counters::builder(store).distributions(hours).build().expect("a grid");
        let recorder = counters.recorder();
        let labels = recorder.label_values("referrer").expect("a name").by_page();
        Self { counters, recorder, labels }
    }

    /// Counts a view of a page by a visitor.
    fn view(&self, page: &str, visitor: u32, referrer: Option<&str>) {
        let visitor = VisitorKey::new([7; 16]).visitor(&[&visitor.to_le_bytes()]);
        let (hit, page) = (self.recorder.counter("hits").hit(), self.recorder.counter(page));
        self.recorder.page_hit(PageHit {
            page: Some(page),
            labels: &[self.labels.note(referrer, ONE)],
            bins: &[Bin::status(200)],
            ..PageHit::new(hit.visitor(visitor), Agent::Human)
        });
        self.recorder.record_at(page, None, Timestamp::now().minus(86_400), ONE);
    }

    async fn flush(&mut self) {
        self.counters.flush().await.expect("the store is available");
    }
}

/// Returns all kinds of answers.
async fn answers(stats: &Stats, now: Timestamp) -> Vec<String> {
    let (hour, range) = (precision(3600), now.minus(2 * 86_400)..now.plus(3600));
    let names = ["hits", "/", "/1", "/2", "/never"].map(name);
    let page = &names[1];
    let mut answers = vec![
        format!("{:?}", stats.lifetimes(&names).await),
        format!("{:?}", stats.uniques(&names, hour, range.clone()).await),
        format!("{:?}", stats.now().await.map(|now| now.people)),
        format!("{:?}", stats.uniques_by_counter(&names, hour, range.clone()).await),
        format!("{:?}", stats.uniques_by_range(&names, hour, &[range.clone(), now..now.plus(1)]).await),
        format!("{:?}", stats.distribution(&names, hour, range.clone(), Measure::Status).await),
        format!("{:?}", stats.top(hour, range.clone(), 3, |name| name.starts_with('/')).await),
        format!("{:?}", stats.label("referrer", hour, range.clone(), 10).await),
        format!("{:?}", stats.label_of_page("referrer", page, hour, range.clone(), 10).await),
        format!("{:?}", stats.pages_of_value("referrer", "a.example", hour, range.clone(), 10).await),
        format!("{:?}", stats.list_counters(None, 100).await),
        format!("{:?}", stats.contains_counters(&names).await),
    ];
    for width in [60, 3600, 86_400] {
        let range = now.minus(2 * u64::from(width))..now.plus(3600);
        answers.push(format!("{:?}", stats.series_many(&names, precision(width), range).await));
    }
    answers
}

async fn the_answers_of_a_fleet_are_those_of_a_single_store(home: impl Store) {
    let (((), memory), (_folder, sql)) = (stores::memory().await, stores::sqlite().await);
    let fleet = Fleet::new("eu", home).site("us", memory.clone()).expect("a new name");
    let fleet = fleet.site("asia", sql.clone()).expect("a new name").shared_visitors();
    let mut random = Random::storm("of a fleet");
    let mut sites = [Instance::over(fleet.clone()), Instance::over(memory), Instance::over(sql)];
    let mut single = Instance::over(MemoryStore::new());
    for _ in 0..2000 {
        let page = random.one_of(&["/", "/1", "/2"]);
        let visitor = u32::try_from(random.among(0..500)).expect("small");
        let referrer = random.one_of(&[None, Some("a.example"), Some("b.example")]);
        let site = usize::try_from(random.among(0..3)).expect("small");
        sites[site].view(page, visitor, referrer);
        single.view(page, visitor, referrer);
    }
    for instance in sites.iter_mut().chain([&mut single]) {
        instance.flush().await;
    }
    let now = Timestamp::now();
    let expected = answers(&single.counters.stats(), now).await;
    assert!(expected.iter().all(|answer| answer.starts_with("Ok")), "{expected:#?}");
    assert_eq!(answers(&sites[0].counters.stats(), now).await, expected);
    let stats = sites[0].counters.stats();
    assert_eq!(stats.health().hints, []);

    // Each site can be read separately.
    assert_eq!(stats.sites().iter().map(Site::name).collect::<Vec<_>>(), ["eu", "us", "asia"]);
    assert!(stats.of_site("africa").is_none());
    let mut sum = 0;
    for (name, instance) in ["eu", "us", "asia"].iter().zip(&sites) {
        let (site, own) = (stats.of_site(name).expect("a site"), &instance.counters.stats());
        if *name != "eu" {
            assert_eq!(answers(&site, now).await, answers(own, now).await, "{name}");
        }
        let hits = site.lifetimes(&[crate::support::name("hits")]).await.expect("readable")[0];
        assert!((1..2000).contains(&hits), "{name}: {hits}");
        sum += hits;
    }
    assert_eq!(sum, 2000);

    // A dump of all sites would not be complete, and says so.
    let mut dump = stats.dump();
    while dump.next().await.expect("readable").is_some() {}
    assert!(dump.dumped().unreadable > 0, "{:?}", dump.dumped());

    // All sites forget a page and its pairs.
    let page = name("/1");
    stats.forget(&page).await.expect("available");
    single.counters.stats().forget(&page).await.expect("available");
    assert_eq!(answers(&stats, now).await, answers(&single.counters.stats(), now).await);
    assert_eq!(stats.lifetimes(&[page]).await.expect("readable"), [0]);
}

#[tokio::test]
async fn a_site_that_is_away_is_named_and_never_counts_as_zero() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let (us, timeout) = (store(&proxy.url()).await, Duration::from_secs(1));
    let fleet = Fleet::new("eu", MemoryStore::new()).site("us", us.clone()).expect("a new name");
    let fleet = fleet.timeout(timeout);
    let (mut home, mut other) = (Instance::over(fleet), Instance::over(us));
    (0..3).for_each(|visitor| home.view("/", visitor, None));
    (3..7).for_each(|visitor| other.view("/", visitor, Some("a.example")));
    home.flush().await;
    other.flush().await;
    let (stats, now) = (home.counters.stats(), Timestamp::now());
    let (hour, range) = (precision(3600), now.minus(3600)..now.plus(3600));
    let hits = name("hits");
    assert_eq!(stats.total(&hits, hour, range.clone()).await.expect("readable"), 7);

    proxy.black_hole(true);
    let started = Instant::now();
    let series = stats.series(&hits, hour, range.clone()).await.expect("partial");
    assert!(started.elapsed() < 4 * timeout, "{:?}", started.elapsed());
    let unreadable = series.unreadable.clone().expect("a site is away");
    assert_eq!((series.samples[0].count, unreadable.key.as_str()), (3, "site us"));
    assert_eq!(series.total(), Err(unreadable));
    assert!(series.is_unknown(series.samples[0].start), "alerts must not use a part");
    for error in [
        stats.total(&hits, hour, range.clone()).await.map(drop),
        stats.lifetimes(std::slice::from_ref(&hits)).await.map(drop),
        stats.uniques(std::slice::from_ref(&hits), hour, range.clone()).await.map(drop),
    ] {
        let error = error.expect_err("it would be too low");
        assert!(format!("{error:?}").contains("site us"), "{error:?}");
    }
    let top = stats.top(hour, range.clone(), 9, |_| true).await.expect("partial");
    assert!(top.unreadable.iter().any(|one| one.key == "site us"), "{top:?}");
    let page = stats.list_counters(None, 100).await.expect("partial");
    assert!(page.unreadable.iter().any(|one| one.key == "site us"), "{page:?}");
    assert_eq!(stats.health().hints, [Hint::SITE_UNREADABLE]);
    let failed =
        || stats.sites().iter().filter(|site| site.failure().is_some()).map(Site::name).collect::<Vec<_>>();
    assert_eq!(failed(), ["us"]);
    assert!(started.elapsed() < 4 * timeout, "all reads wait once: {:?}", started.elapsed());

    // Counting is unaffected, and the site is read again as soon as it answers.
    home.view("/", 9, None);
    home.flush().await;
    proxy.black_hole(false);
    tests::until("the site can be read", Duration::from_secs(20), async || {
        stats.total(&hits, hour, range.clone()).await.is_ok_and(|total| total == 8)
    })
    .await;
    assert_eq!(stats.health().hints, []);
    let uniques = stats.uniques(&[hits], hour, range).await.expect("readable");
    assert_eq!((uniques.visitors, uniques.is_upper_bound), (8, true));
}

#[tokio::test]
async fn without_any_site_a_read_fails() {
    let mut server = RedisServer::start();
    let only = store(&server.url()).await;
    let stats = Instance::over(Fleet::new("eu", only)).counters.stats();
    server.kill();
    let now = Timestamp::now();
    let names: [CounterName; 1] = [name("hits")];
    assert!(stats.lifetimes(&names).await.is_err());
    assert!(stats.series(&names[0], precision(3600), now.minus(3600)..now).await.is_err());
}

#[tokio::test]
async fn a_store_under_two_names_counts_once_and_is_named() {
    let (eu, hits) = (MemoryStore::new(), [name("hits")]);
    let mut home = Instance::over(eu.clone());
    let fleet = Fleet::reader(MemoryStore::new(), "eu", eu.clone()).site("copy", eu).expect("two names");
    let timeout = Duration::from_secs(1);
    let stats = Instance::over(fleet.timeout(timeout)).counters.stats();
    assert_eq!(stats.lifetimes(&hits).await.expect("an empty store has no id"), [0]);
    home.view("/", 1, None);
    home.flush().await;
    let (hour, now) = (precision(3600), Timestamp::now());
    for _ in 0..2 {
        let series = stats.series(&hits[0], hour, now.minus(3600)..now.plus(3600)).await.expect("partial");
        let unreadable = series.unreadable.as_ref().expect("a site does not fit");
        assert_eq!((series.samples[0].count, &*unreadable.key), (1, "site copy"));
        assert_eq!(unreadable.reason, "the store of copy is that of eu");
    }
    let checks = stats.check_sites().await;
    assert!(checks[0].is_ok() && checks[1].is_err(), "{checks:?}");
    // Nor can it be read on its own, also if it has not been tried for some time.
    tokio::time::sleep(timeout).await;
    let alone = stats.of_site("copy").expect("a site").lifetimes(&hits).await.expect_err("it is eu");
    assert_eq!(*alone.kind(), ErrorKind::Incomplete { missing: "site copy".to_owned() });
    assert_eq!(stats.of_site("eu").expect("a site").lifetimes(&hits).await.expect("the first one"), [1]);
}

#[tokio::test]
async fn a_site_that_was_away_at_the_start_is_checked_when_it_appears() {
    let (log, _guard) = Log::capture();
    let (server, hits) = (RedisServer::start(), [name("hits")]);
    let proxy = FaultProxy::start(server.address()).await;
    proxy.refuse(true);
    let us = RedisStore::connect(&proxy.url(), Namespace::default()).await.expect("an address");
    let eu = MemoryStore::new();
    let fleet = Fleet::new("eu", eu).site("us", us).expect("two names").timeout(Duration::from_secs(1));
    let mut home = Instance::over(fleet);
    home.view("/", 1, None);
    home.flush().await;
    let stats = home.counters.stats();
    assert!(stats.check_sites().await[1].is_err());

    // In the meantime, a process with other days counts there.
    let days = Precisions::default().utc_offset(19_800);
    let mut india = Counters::builder(store(&server.url()).await).precisions(days).build().expect("a grid");
    india.recorder().record(india.recorder().counter("hits"), None);
    india.flush().await.expect("the server accepts batches");
    proxy.refuse(false);
    tests::until("the site is checked", LIMIT, async || {
        matches!(stats.check_sites().await[1].as_ref().map_err(Error::kind), Err(ErrorKind::Rejected))
    })
    .await;
    let reason = stats.sites()[1].failure().expect("it does not fit");
    assert!(reason.starts_with("its buckets differ from those of the other sites; "), "{reason}");
    // The log has the new reason, with the buckets.
    let text = log.text();
    let line = text.lines().find(|line| line.contains("the stored grid differs"));
    let line = line.unwrap_or_else(|| panic!("no warning in {text}"));
    assert!(line.contains("site=\"us\"") && line.contains("3600@1800"), "{line}");
    assert!(stats.lifetimes(&hits).await.is_err());

    // As soon as it fits, it is read.
    let fitting = Counters::builder(store(&server.url()).await).build().expect("a grid");
    fitting.change_grid().await.expect("the server accepts it");
    tests::until("the site is read", LIMIT, async || {
        stats.lifetimes(&hits).await.is_ok_and(|lifetimes| lifetimes == [2])
    })
    .await;
}

#[tokio::test]
async fn a_period_is_covered_if_all_sites_counted_before_it() {
    let (eu, us) = (MemoryStore::new(), MemoryStore::new());
    let fleet =
        Fleet::reader(MemoryStore::new(), "eu", eu.clone()).site("us", us.clone()).expect("two names");
    let stats = Instance::over(fleet).counters.stats();
    let now = Timestamp::now();
    let (hits, days_ago) = ([name("hits")], |days: u64| now.minus(days * 86_400));
    let record = async |store: &MemoryStore, days: u64| {
        let mut counters = Counters::builder(store.clone()).build().expect("a grid");
        counters.recorder().record_at(counters.recorder().counter("hits"), None, days_ago(days), ONE);
        counters.flush().await.expect("in memory");
    };
    let week = days_ago(14)..days_ago(7);
    let coverage = async |stats: &Stats| stats.coverage(&hits, week.clone(), now).await.expect("readable")[0];
    assert_eq!(coverage(&stats).await, Coverage::Complete, "there is nothing to compare");
    record(&eu, 10).await;
    let day = |days| precision(86_400).bucket(days_ago(days)).start;
    assert_eq!(coverage(&stats).await, Coverage::Since(day(10)));
    record(&eu, 20).await;
    assert_eq!(coverage(&stats).await, Coverage::Complete);
    // A site that was added later would make the sum grow.
    record(&us, 3).await;
    assert_eq!(coverage(&stats).await, Coverage::Since(day(3)));
    assert_eq!(coverage(&stats.of_site("eu").expect("a site")).await, Coverage::Complete);
    record(&us, 15).await;
    assert_eq!(coverage(&stats).await, Coverage::Complete);
    let early = stats.coverage(&hits, days_ago(90 * 365)..days_ago(89 * 365), now).await.expect("no read");
    assert_eq!(early, [Coverage::Unknown], "it is past retention");
}

#[tokio::test]
async fn a_period_is_not_covered_if_counting_may_have_begun_late_on_its_first_day() {
    let instance = Instance::over(MemoryStore::new());
    let (mut counters, now) = (instance.counters, Timestamp::now());
    let midnight = precision(86_400).bucket(now).start;
    let days_ago = |days: u64| midnight.minus(days * 86_400);
    // In the evening of the first day, then every day.
    for at in [days_ago(35).plus(20 * 3600)].into_iter().chain((1..35).map(days_ago)) {
        counters.recorder().record_at(counters.recorder().counter("hits"), None, at, ONE);
    }
    counters.flush().await.expect("in memory");
    let (stats, hits) = (counters.stats(), [name("hits")]);
    for (first, last, expected) in [
        (35, 28, Coverage::Since(days_ago(35))),
        (34, 27, Coverage::Complete),
        (21, 14, Coverage::Complete),
        // A twentieth of 30 days is more than a day.
        (35, 5, Coverage::Complete),
        (36, 1, Coverage::Since(days_ago(35))),
    ] {
        let period = days_ago(first)..days_ago(last);
        let coverage = stats.coverage(&hits, period, now).await.expect("readable");
        assert_eq!(coverage, [expected], "{first} to {last} days ago");
    }
    // A quiet hour does not mean that counting began after it.
    let hour = precision(3600).bucket(now).start.minus(3600);
    counters.recorder().record_at(counters.recorder().counter("hits"), None, hour.plus(1800), ONE);
    counters.flush().await.expect("in memory");
    let coverage = stats.coverage(&hits, hour..hour.plus(3600), now).await.expect("readable");
    assert_eq!(coverage, [Coverage::Complete]);
}
