//! Tests for views: the hits of people who saw a page.

use counter_core::archive::Archive;
use counter_core::source::Commit;
use counter_core::visits::{Agent, Coverage, PageHit};
use counter_core::{Counter, Counters, ErrorKind, Recorder, Stats, Store, Timestamp};

use super::dump::check_restored;
use crate::stores;
use crate::support::{name, precision};

stores::on! {
    [memory redis redis_in_shards redis_without_scripts sqlite postgres mariadb]
    {
        views_are_kept_by_the_hour_and_ranked_by_page
        a_log_adds_the_same_views
        a_restored_dump_has_the_same_views
        views_of_old_days_are_archived
        forgetting_a_page_removes_its_views
    }
}

/// The longest name of a page that can have views.
fn long() -> String {
    format!("/{}", "a".repeat(194))
}

/// Pages with the number of hits and views, including a page whose name is too long for views.
fn pages() -> [(String, u32, u32); 5] {
    [("/a".into(), 5, 3), ("/b".into(), 4, 4), ("/c".into(), 2, 0), (long(), 3, 2), (long() + "a", 1, 1)]
}

fn request(recorder: &Recorder, page: &str, is_view: bool) {
    let hit = recorder.counter("hits").hit();
    recorder.page_hit(PageHit {
        page: Some(recorder.counter(page)),
        is_view,
        ..PageHit::new(hit, Agent::Human)
    });
}

async fn visited(store: impl Store) -> Counters {
    let mut counters = Counters::builder(store).build().expect("the defaults are fine");
    for (page, hits, views) in pages() {
        (0..hits).for_each(|number| request(&counters.recorder(), &page, number < views));
    }
    counters.flush().await.expect("the store is available");
    counters
}

/// The views of all pages and of the site, by the hour and by the day.
async fn views(stats: &Stats) -> Vec<(Vec<(String, u64)>, u64)> {
    let (now, mut views) = (Timestamp::now(), Vec::new());
    for width in [3600, 86_400] {
        let range = now.minus(86_400)..now.plus(86_400);
        let top = stats.top_views(precision(width), range.clone(), 10, |page| page != "hits").await;
        let top = top.expect("readable").counters.into_iter().map(|(page, views)| (page.to_string(), views));
        let site = stats.total(&name("view:hits"), precision(width), range).await.expect("readable");
        views.push((top.collect(), site));
    }
    views
}

fn expected() -> Vec<(Vec<(String, u64)>, u64)> {
    let top = [("/b".into(), 4), ("/a".into(), 3), (long(), 2), ("(other)".into(), 1)];
    vec![(top.to_vec(), 10); 2]
}

async fn views_are_kept_by_the_hour_and_ranked_by_page(store: impl Store + Clone) {
    let mut counters = visited(store).await;
    let stats = counters.stats();
    assert_eq!(views(&stats).await, expected());

    let names = ["hits", "view:hits", "/a", "view:/a", "view:/c"].map(name);
    assert_eq!(stats.lifetimes(&names).await.expect("readable"), [15, 10, 5, 3, 0]);
    let now = Timestamp::now();
    let hour = now.minus(3600)..now;
    let error =
        stats.series(&names[3], precision(60), hour.clone()).await.expect_err("not kept by the minute");
    assert!(matches!(error.kind(), ErrorKind::UnknownPrecision { .. }), "{error}");
    assert!(error.to_string().contains("3600, 18000, 86400"), "{error}");
    let ranked = stats.top_views(precision(60), hour, 1, |_| true).await;
    assert!(matches!(ranked.expect_err("not kept by the minute").kind(), ErrorKind::UnknownPrecision { .. }));

    // A view waits for the store since its second, although its bucket is an hour.
    let before = Timestamp::now();
    request(&counters.recorder(), "/a", true);
    let held = stats.held_since(Timestamp::now()).expect("a hit that is not sent");
    assert!(held >= before, "{held} {before}");
    counters.flush().await.expect("the store is available");
    assert_eq!(counters.recorder().counter("view:/a"), counters.recorder().counter("(other)"));

    // They are neither pages nor counters that are listed.
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = stats.list_counters(after.as_ref(), 2).await.expect("readable");
        listed.extend(page.counters.into_iter().map(|(name, _)| name.to_string()));
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    let mut pages = pages().map(|(page, ..)| page).to_vec();
    pages.push("hits".into());
    pages.sort_unstable();
    assert_eq!(listed, pages);
    let ledger = counters.recorder().ledger();
    assert_eq!((ledger.hits.recorded, ledger.hits.applied, ledger.requests.recorded), (54, 54, 16));
}

async fn a_log_adds_the_same_views(store: impl Store + Clone) {
    let counters = Counters::builder(store).build().expect("the defaults are fine");
    let recorder = counters.recorder();
    let name = "access.log".parse().expect("a name");
    let mut source = counters.sources().open(name).await.expect("the store is available");
    for (page, hits, views) in pages() {
        for number in 0..hits {
            let mut hits = vec![recorder.counter("hits"), recorder.counter(&page)];
            if number < views {
                hits.extend([recorder.views(hits[0]), recorder.views(hits[1])]);
            }
            let (position, hits) =
                (source.position(), hits.into_iter().map(Counter::hit).collect::<Vec<_>>());
            source.record(position..position + 1, Timestamp::now(), &hits);
        }
    }
    assert_eq!(source.commit().await.expect("the store is available"), Commit::Done);
    assert_eq!(views(&counters.stats()).await, expected());
}

async fn a_restored_dump_has_the_same_views(store: impl Store + Clone) {
    let counters = visited(store).await;
    check_restored(&counters.stats(), async |restored| assert_eq!(views(restored).await, expected())).await;
}

async fn views_of_old_days_are_archived(near: impl Store + Clone) {
    let (_folder, far) = stores::sqlite().await;
    let archive = Archive::new(near.clone(), far);
    let mut counters = Counters::builder(archive.clone()).build().expect("the defaults are fine");
    let (recorder, stats, now) = (counters.recorder(), counters.stats(), Timestamp::now());
    let at = now.minus(5 * 86_400);
    recorder.record_at(recorder.views(recorder.counter("/a")), None, at, 7.try_into().expect("not 0"));
    counters.flush().await.expect("the store is available");
    let views = name("view:/a");
    let days = async || {
        let days = stats.total(&views, precision(86_400), at.minus(86_400)..now).await;
        days.expect("both stores are available")
    };
    assert_eq!(days().await, 7);
    archive.copier(stats.grid()).copy_once(now).await.expect("both stores are available");
    near.forget(&views, stats.grid(), now).await.expect("the store is available");
    assert_eq!(days().await, 7);
}

#[tokio::test]
async fn views_that_began_in_the_middle_of_a_period_do_not_cover_it() {
    let mut counters =
        Counters::builder(counter_core::MemoryStore::new()).build().expect("the defaults are fine");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let now = precision(3600).bucket(Timestamp::now()).start;
    let (page, count) = (recorder.counter("/a"), 1.try_into().expect("not 0"));
    for hours in 1..72 {
        recorder.record_at(page, None, now.minus(hours * 3600), count);
        if hours <= 4 {
            recorder.record_at(recorder.views(page), None, now.minus(hours * 3600), count);
        }
    }
    counters.flush().await.expect("memory takes all");
    let period = now.minus(6 * 3600)..now.minus(3 * 3600);
    let coverage = async |counter| {
        let coverage = stats.coverage(&[name(counter)], period.clone(), now).await.expect("readable");
        coverage[0] == Coverage::Complete
    };
    assert!(coverage("/a").await);
    assert!(!coverage("view:/a").await);
}

async fn forgetting_a_page_removes_its_views(store: impl Store + Clone) {
    let counters = visited(store).await;
    let stats = counters.stats();
    stats.forget(&name("/b")).await.expect("the store is available");
    let top = &views(&stats).await[0].0;
    assert_eq!(top.iter().map(|(page, _)| page.as_str()).collect::<Vec<_>>(), ["/a", &long(), "(other)"]);
    assert_eq!(stats.lifetimes(&[name("view:/b")]).await.expect("readable"), [0]);
}
