//! Tests for days that start at the local midnight of a site.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use counter_admin::Access;
use counter_core::stores::{Shard, WriterId};
use counter_core::time::{Grid, Retention};
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::{
    Adds, ApplyOutcome, Batch, Cell, Fence, FenceKind, Incarnation, Value, Write,
};
use counter_core::{Counters, MemoryStore, Precision, Precisions, Stats, Store, Timestamp, VisitorId};
use http_body_util::BodyExt;
use tests::{RedisServer, until};
use tower::ServiceExt;

use crate::stores;
use crate::support::{always, listed, name, precision, samples_of, store, unix};

stores::on! {
    [memory redis redis_without_scripts sqlite postgres mariadb]
    {
        hits_count_in_buckets_aligned_to_local_time
        daily_visitors_are_counted_by_local_day
        sites_with_different_offsets_share_a_store
        cleaning_removes_expired_days_at_local_midnight
        a_cleaner_keeps_samples_retained_by_a_site_with_another_offset
        a_width_keeps_its_retention_when_the_offset_changes
        a_counter_is_forgotten_at_every_offset_of_the_grid
    }
}

/// UTC offset of India: hours start at half past, and days at 18:30 UTC.
const INDIA_OFFSET: i32 = 19_800;

/// Start of a day in India, in the distant past.
const MIDNIGHT_IN_INDIA: u64 = 1_585_852_200;

const DAY: u64 = 86_400;

fn visitor(number: u64) -> VisitorId {
    VisitorKey::new([5; 16]).visitor(&[&number.to_le_bytes()])
}

fn day(stats: &Stats) -> Precision {
    stats.grid().counts.of_width(86_400).expect("days are kept").precision
}

async fn hits_count_in_buckets_aligned_to_local_time(store: impl Store + Clone) {
    let monday = unix(1_585_526_400);
    let retained = [3600, 18_000, 86_400].map(precision).into_iter();
    let retained = Precisions::new(retained.chain([precision(604_800).starting_at(monday)])).expect("a set");
    let builder = Counters::builder(store).precisions(retained).utc_offset(INDIA_OFFSET);
    let mut counters = builder.build().expect("good settings");
    let (recorder, stats, now) = (counters.recorder(), counters.stats(), Timestamp::now());
    let hits = recorder.counter("hits");
    // These span less than the 120 hours retained in the finest precision.
    let instants: Vec<_> = (0..500).map(|n| now.minus(n * 7919 % 420_000)).collect();
    for at in &instants {
        recorder.record_at(hits, None, *at, NonZeroU32::MIN);
    }
    counters.flush().await.expect("the store is available");
    for retained in stats.grid().counts.iter().map(|retention| retention.precision) {
        let mut expected = BTreeMap::new();
        for at in &instants {
            let shifted =
                at.as_unix() + 19_800 - if retained.as_seconds() == 604_800 { monday.as_unix() } else { 0 };
            let start = at.as_unix() - shifted % u64::from(retained.as_seconds());
            *expected.entry(start).or_insert(0) += 1;
        }
        let range = now.minus(100 * DAY)..now.plus(1);
        let all = stats.series(&name("hits"), retained, range).await.expect("readable");
        let samples: BTreeMap<_, _> = all.samples.iter().map(|s| (s.start.as_unix(), s.count)).collect();
        assert_eq!(samples, expected, "{retained}");
        for (start, count) in expected {
            let one = stats.total(&name("hits"), retained, unix(start)..unix(start + 1)).await;
            assert_eq!(one.expect("readable"), count, "{retained}: {start}");
        }
    }
}

async fn daily_visitors_are_counted_by_local_day(store: impl Store + Clone) {
    let mut counters = Counters::builder(store).utc_offset(INDIA_OFFSET).build().expect("good settings");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let midnight = day(&stats).bucket(Timestamp::now()).start;
    assert_eq!(midnight.as_unix() % DAY, DAY - 19_800);
    let hits = recorder.counter("hits");
    for number in 0..30 {
        recorder.record_at(hits, visitor(number), midnight.minus(1 + 600 * number), NonZeroU32::MIN);
    }
    for number in 20..25 {
        recorder.record_at(hits, visitor(number), midnight, NonZeroU32::MIN);
    }
    counters.flush().await.expect("the store is available");
    for (start, visitors, count) in [(midnight.minus(DAY), 30, 30), (midnight, 5, 5)] {
        let (range, hits) = (start..start.plus(1), [name("hits")]);
        let uniques = stats.uniques(&hits, day(&stats), range.clone()).await.expect("readable");
        assert_eq!(uniques.visitors, visitors);
        assert_eq!(stats.total(&hits[0], day(&stats), range).await.expect("readable"), count);
        // A local day consists of 24 local hours.
        let hour = stats.grid().visitors.of_width(3600).expect("hours are kept").precision;
        let uniques = stats.uniques(&hits, hour, start..start.plus(DAY)).await.expect("readable");
        assert_eq!(uniques.visitors, visitors);
    }
}

async fn sites_with_different_offsets_share_a_store(store: impl Store + Clone) {
    let site = |offset| Counters::builder(store.clone()).utc_offset(offset).build().expect("good settings");
    let mut sites = [0, INDIA_OFFSET, -18_000].map(site);
    let now = Timestamp::now();
    for (count, counters) in (1..).zip(&mut sites) {
        let recorder = counters.recorder();
        for number in 0..count {
            recorder.record_at(recorder.counter("hits"), visitor(number), now, NonZeroU32::MIN);
        }
        counters.flush().await.expect("the store is available");
    }
    for (count, counters) in (1..).zip(&sites) {
        let stats = counters.stats();
        let range = now.minus(DAY)..now.plus(1);
        assert_eq!(stats.total(&name("hits"), day(&stats), range.clone()).await.expect("readable"), count);
        let uniques = stats.uniques(&[name("hits")], day(&stats), range.clone()).await;
        assert_eq!(uniques.expect("readable").visitors, count);
        // Buckets that start at the same time are shared, and so is the lifetime.
        assert_eq!(stats.total(&name("hits"), precision(60), range).await.expect("readable"), 6);
        assert_eq!(stats.lifetimes(&[name("hits")]).await.expect("readable"), [6]);
        let known = stats.list_counters(None, 10).await.expect("readable").counters;
        let retained: Vec<_> = stats.grid().counts.iter().map(|retention| retention.precision).collect();
        assert_eq!(known, [(name("hits"), retained)]);
    }
}

/// Records a visit at noon (06:30 UTC) on 130 consecutive days in India.
async fn visit_every_noon(store: &impl Store, counts: Precisions) {
    let finest = counts.of_width(86_400).expect("days are kept").precision;
    let noon = |day| unix(MIDNIGHT_IN_INDIA + DAY * day + DAY / 2);
    let cells =
        (0..130).map(|day| Cell { counter: name("a"), start: noon(day), finest, value: Value::Count(1) });
    let batch = Batch {
        shard: Shard::default(),
        fence: Fence {
            writer: WriterId::random(),
            kind: FenceKind::Process { incarnation: Incarnation::default() },
            sequence: 1,
            after: 0,
        },
        cells: cells.collect(),
        grid: Arc::new(Grid { counts, ..Grid::default() }),
        adds: Adds::Hits,
        witness: None,
    };
    let verdict = store.apply(&batch).await.expect("the store is available");
    assert!(matches!(verdict, ApplyOutcome::Applied(_)), "{verdict:?}");
}

/// Returns the numbers of these days that are still stored.
async fn days_left(store: &impl Store, precision: Precision) -> BTreeSet<u64> {
    let samples = samples_of(store, &[name("a")], precision, always()).await.concat();
    let number = |start: Timestamp| (start.as_unix() + DAY / 2 - MIDNIGHT_IN_INDIA) / DAY;
    samples.iter().map(|sample| number(sample.start)).collect()
}

async fn clean(store: &impl Store, now: u64, retained: &Precisions) -> u64 {
    let mut samples = 0;
    loop {
        let some = store.clean(Shard::default(), unix(now), retained).await.expect("the store is available");
        samples += some.samples;
        if !some.more {
            return samples;
        }
    }
}

async fn cleaning_removes_expired_days_at_local_midnight(store: impl Store + Clone) {
    let retained = Precisions::default().utc_offset(INDIA_OFFSET);
    let days = retained.of_width(86_400).expect("days are kept").precision;
    visit_every_noon(&store, retained.clone()).await;
    let midnight = MIDNIGHT_IN_INDIA + 129 * DAY;
    for (now, removed) in
        [(midnight - 1, 9), (midnight, 1), (midnight, 0), (midnight + DAY - 1, 0), (midnight + DAY, 1)]
    {
        assert_eq!(clean(&store, now, &retained).await, removed, "{now}");
    }
    assert_eq!(days_left(&store, days).await, (11..130).collect());
    assert_eq!(clean(&store, midnight + 119 * DAY, &retained).await, 118);
    assert_eq!(days_left(&store, days).await, BTreeSet::from([129]));
    assert_eq!(clean(&store, midnight + 120 * DAY, &retained).await, 1);
    assert!(store.known(listed(&[days], "", 10)).await.expect("readable").counters.is_empty());
}

async fn a_cleaner_keeps_samples_retained_by_a_site_with_another_offset(store: impl Store + Clone) {
    let (utc, india) = (Precisions::default(), Precisions::default().utc_offset(INDIA_OFFSET));
    let days = [&utc, &india].map(|retention| retention.of_width(86_400).expect("days are kept").precision);
    for retained in [&utc, &india] {
        visit_every_noon(&store, retained.clone()).await;
    }
    // In UTC, it is still the evening before.
    let midnight = MIDNIGHT_IN_INDIA + 129 * DAY;
    assert_eq!(clean(&store, midnight, &utc).await, 9 + 10);
    assert_eq!(days_left(&store, days[0]).await, (9..130).collect());
    assert_eq!(days_left(&store, days[1]).await, (10..130).collect());
    assert_eq!(clean(&store, midnight, &india).await, 0);
    assert_eq!(clean(&store, midnight + 19_799, &india).await, 0);
    assert_eq!(clean(&store, midnight + 19_800, &india).await, 1);
    assert_eq!(days_left(&store, days[0]).await, (10..130).collect());
}

async fn a_width_keeps_its_retention_when_the_offset_changes(store: impl Store + Clone) {
    let month = Retention { precision: precision(86_400), samples: NonZeroU32::new(30).expect("not 0") };
    let before = Precisions::new([month]).expect("a set");
    visit_every_noon(&store, before.clone()).await;
    let after = before.utc_offset(INDIA_OFFSET);
    assert_eq!(clean(&store, MIDNIGHT_IN_INDIA + 129 * DAY + DAY / 2, &after).await, 100);
    assert_eq!(days_left(&store, month.precision).await, (100..130).collect());
}

async fn a_counter_is_forgotten_at_every_offset_of_the_grid(store: impl Store + Clone) {
    let mut counters = Counters::builder(store).utc_offset(INDIA_OFFSET).build().expect("good settings");
    let (recorder, stats, now) = (counters.recorder(), counters.stats(), Timestamp::now());
    recorder.record_at(recorder.counter("hits"), visitor(1), now, NonZeroU32::MIN);
    counters.flush().await.expect("the store is available");
    let (hits, range) = ([name("hits")], now.minus(DAY)..now.plus(1));
    let uniques = async || stats.uniques(&hits, day(&stats), range.clone()).await.expect("readable").visitors;
    assert_eq!(uniques().await, 1);
    stats.forget(&hits[0]).await.expect("the store is available");
    assert_eq!(uniques().await, 0);
    assert_eq!(stats.total(&hits[0], day(&stats), range.clone()).await.expect("readable"), 0);
    assert!(stats.list_counters(None, 10).await.expect("readable").counters.is_empty());
}

#[tokio::test]
async fn keys_contain_the_offset_and_without_one_match_the_book() {
    let server = RedisServer::start();
    let mut counters =
        Counters::builder(store(&server.url()).await).utc_offset(3600).build().expect("good settings");
    let recorder = counters.recorder();
    let now = Timestamp::now();
    let _salt = recorder.salt().expect("a day is one epoch");
    recorder.record_at(recorder.counter("hits"), visitor(1), now, NonZeroU32::MIN);
    counters.flush().await.expect("the store is available");
    let start = day(&counters.stats()).bucket(now).start;
    assert_eq!(server.strings(&["HKEYS", "access:count:86400@82800:hits"]), [start.to_string()]);
    assert_eq!(server.int(&["EXISTS", &format!("access:unique:86400@82800:hits:{start}")]), 1);
    assert_eq!(server.int(&["EXISTS", &format!("access:salt:86400@82800:{start}")]), 1);
    let widths = ["1", "5", "60", "300", "3600", "18000@14400", "86400@82800"];
    let members: BTreeSet<_> = widths.map(|width| format!("{width}:hits")).into();
    for index in ["access:known:", "access:due"] {
        let retained: BTreeSet<_> = server.strings(&["ZRANGE", index, "0", "-1"]).into_iter().collect();
        assert_eq!(retained, members, "{index}");
    }
}

#[tokio::test]
async fn data_of_another_program_is_cleaned_by_its_offset() {
    let server = RedisServer::start();
    server.int(&["ZADD", "access:known:", "0", "86400@66600:a"]);
    for day in 0..130 {
        let start = (MIDNIGHT_IN_INDIA + DAY * day).to_string();
        server.int(&["HSET", "access:count:86400@66600:a", &start, "1"]);
    }
    let counters = Counters::builder(store(&server.url()).await).build().expect("good settings");
    let (_, mut cleaner) = counters.into_parts();
    let midnight = MIDNIGHT_IN_INDIA + 129 * DAY;
    assert_eq!(cleaner.clean_once(unix(midnight - 1)).await.expect("cleans").samples, 9);
    assert_eq!(cleaner.clean_once(unix(midnight)).await.expect("cleans").samples, 1);
    assert_eq!(server.int(&["HLEN", "access:count:86400@66600:a"]), 120);
}

#[tokio::test]
async fn visitors_are_not_recognised_after_local_midnight() {
    // We choose the offset so that midnight is a few seconds away, and try again with more time if it passes
    // before we are ready.
    for left in [2, 4, 8, 16, 32] {
        if check_midnight(Timestamp::now().plus(left)).await {
            return;
        }
    }
    panic!("this took longer than half a minute");
}

/// Returns `false` if midnight passed before the first visit, because then the test can't prove anything.
async fn check_midnight(midnight: Timestamp) -> bool {
    let store = MemoryStore::new();
    let behind = i32::try_from(midnight.as_unix() % DAY).expect("less than a day");
    let mut counters = Counters::builder(store.clone()).utc_offset(-behind).build().expect("good settings");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let (today, expiry) = (stats.salt_epoch().bucket(Timestamp::now()), midnight.plus(DAY));
    if today.end() != midnight {
        return false;
    }
    for (epoch, salt) in [(today, [1; 16]), (stats.salt_epoch().bucket(midnight), [2; 16])] {
        store.salt(epoch, salt, expiry).await.expect("memory accepts everything");
    }
    let salt = recorder.salt().expect("a day is one epoch");
    counters.flush().await.expect("memory accepts everything");
    let visit = |who: &[&[u8]]| {
        for who in who {
            recorder.record(recorder.counter("hits"), salt.visitor(&[who]));
        }
    };
    visit(&[b"ann", b"ann"]);
    if Timestamp::now() >= midnight {
        return false;
    }
    until("midnight", tests::LIMIT, async || Timestamp::now() >= midnight).await;
    visit(&[b"ann", b"bob", b"ann"]);
    counters.flush().await.expect("memory accepts everything");
    let uniques = async |from, to| {
        stats.uniques(&[name("hits")], day(&stats), from..to).await.expect("readable").visitors
    };
    assert_eq!(uniques(today.start, midnight).await, 1);
    assert_eq!(uniques(midnight, midnight.plus(1)).await, 2);
    assert_eq!(uniques(today.start, midnight.plus(1)).await, 3, "ann is somebody else on each day");
    true
}

#[tokio::test]
async fn the_admin_pages_find_precisions_by_width_and_show_local_days() {
    let mut counters =
        Counters::builder(MemoryStore::new()).utc_offset(INDIA_OFFSET).build().expect("good settings");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let router = Router::new().nest("/admin", counter_admin::router(stats.clone(), Access::open()));
    let midnight = day(&stats).bucket(Timestamp::now()).start;
    let record = |at, count| {
        let weight = NonZeroU32::new(count).expect("not 0");
        recorder.record_at(recorder.counter("hits"), None, at, weight);
    };
    record(midnight.minus(1), 4321);
    record(midnight, 1234);
    counters.flush().await.expect("memory accepts everything");
    let yesterday = midnight.minus(DAY);
    let samples = format!(
        "\"samples\":[{{\"start\":{yesterday},\"count\":4321}},{{\"start\":{midnight},\"count\":1234}}]"
    );
    for precision in ["86400", "86400@66600", "86400%4066600"] {
        let answer = get(&router, &format!("/api/series?counter=hits&precision={precision}")).await;
        assert!(answer.contains(&samples) && answer.contains("\"precision\":86400,"), "{answer}");
    }
    let answer = get(&router, "/api/series?counter=hits&precision=86400@82800").await;
    assert!(answer.contains("300, 3600@1800, 18000@16200, 86400@66600"), "{answer}");
    for (period, total) in [("today", "1,234"), ("yesterday", "4,321"), ("7d", "5,555")] {
        let page = get(&router, &format!("?counter=hits&period={period}")).await;
        assert!(page.contains(&format!("<strong id=\"total\">{total}</strong>")), "{period}: {page}");
    }
    let page = get(&router, "").await;
    assert!(page.contains("days start at 18:30 UTC"), "{page}");
    assert!(!page.contains("Days and intervals are in UTC"), "{page}");
    let page = get(&router, "/counter?counter=hits&period=7d").await;
    let days = page.split_once("id=\"twin\"").expect("a table").1;
    assert!(days.contains("T18:30:00Z\"") && days.contains(">4,321<"), "{page}");
    assert!(days.contains(">1,234 so far<"), "{page}");
}

async fn get(router: &Router, path: &str) -> String {
    let request = Request::get(format!("/admin{path}")).body(Body::empty()).expect("a path");
    let answer = router.clone().oneshot(request).await.expect("a router answers");
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8(body.into()).expect("text")
}
