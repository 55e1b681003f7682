//! Samples that only an archive still has, in the API and on the pages.

use std::future::ready;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use counter_admin::Access;
use counter_core::time::{Grid, Retention};
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore, Precision, Precisions, Recorder, Store, Timestamp};
use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::json;
use tests::noon_offset;
use tokio::net::TcpListener;
use tower::ServiceExt;

use super::site::{card, check, fetch, send, text};
use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::support::precision;

const DAY: u64 = 86_400;

/// The retention of an archive, and the reads that need it, with the start of the range.
#[derive(Clone, Debug)]
struct Far {
    grid: Arc<Grid>,
    reads: Arc<Mutex<Vec<(Precision, Timestamp)>>>,
}

impl Hooks for Far {
    fn reach(&self) -> Option<&Grid> {
        Some(&self.grid)
    }

    fn read(&self, precision: Precision, range: &Range<Timestamp>) -> impl Future<Output = ()> + Send {
        let is_archived = self.grid.counts.retention(precision).is_some();
        if is_archived && range.start < keep(precision.as_seconds(), 120).oldest(Timestamp::now()) {
            self.reads.lock().expect("no panic").push((precision, range.start));
        }
        ready(())
    }
}

impl Far {
    fn new() -> Self {
        Self { grid: Arc::new(years()), reads: Arc::default() }
    }

    /// Returns the reads from the archive since the previous call.
    fn reads(&self) -> Vec<(Precision, Timestamp)> {
        std::mem::take(&mut self.reads.lock().expect("no panic"))
    }
}

/// A site where it is noon. It retains 120 samples per precision, and the archive retains ten years of days
/// and two years of hours.
struct Site {
    router: Router,
    far: Far,
}

/// The days of the site.
fn day() -> Precision {
    precision(86_400).utc_offset(noon_offset())
}

fn keep(width: u32, samples: u32) -> Retention {
    let precision = precision(width).utc_offset(noon_offset());
    Retention { precision, samples: NonZeroU32::new(samples).expect("not 0") }
}

fn years() -> Grid {
    let all = [keep(3600, 17_568), keep(86_400, 3660)];
    let [counts, visitors] = [all; 2].map(|retention| Precisions::new(retention).expect("a set"));
    Grid { counts, visitors, distributions: None }
}

impl Site {
    /// Creates a site and stores everything that `fill` records, even if it is older than the retention.
    async fn filled(fill: impl FnOnce(&Recorder)) -> Self {
        let (store, far) = (MemoryStore::new(), Far::new());
        let Grid { counts, visitors, .. } = years();
        let archived = Counters::builder(store.clone()).precisions(counts).visitor_precisions(visitors);
        let mut archived = archived.build().expect("a grid");
        fill(&archived.recorder());
        archived.flush().await.expect("memory takes all");
        let store = InterceptedStore { inner: store, hooks: far.clone() };
        Self { router: router(store), far }
    }

    async fn page(&self, path: &str) -> String {
        page(&self.router, path).await
    }
}

fn router(store: impl Store + Clone) -> Router {
    let counters = Counters::builder(store).utc_offset(noon_offset()).build();
    let stats = counters.expect("the offset is one of whole hours").stats();
    Router::new().nest("/admin/stats", counter_admin::router(stats, Access::open()))
}

async fn page(router: &Router, path: &str) -> String {
    let response = send(router, &format!("/admin/stats{path}"), None).await;
    assert_eq!(response.status, StatusCode::OK, "{path}: {}", response.body);
    response.body
}

fn record(recorder: &Recorder, at: Timestamp, count: u32) {
    recorder.record_at(recorder.counter("hits"), None, at, NonZeroU32::new(count).expect("not 0"));
}

/// Serves the dashboard of a site with two years of visits and returns the link. There are more visits on
/// working days, with monthly growth, and an article that was published half a year ago.
pub(super) async fn serve_years() -> String {
    let retained = Precisions::new([keep(60, 120), keep(3600, 17_568), keep(86_400, 3660)]).expect("a set");
    let visitors = Precisions::new([keep(86_400, 3660)]).expect("a set");
    let counters = Counters::builder(MemoryStore::new()).precisions(retained).visitor_precisions(visitors);
    let mut counters = counters.build().expect("a grid");
    let recorder = counters.recorder();
    let (hits, article) = (recorder.counter("hits"), recorder.counter("/"));
    let key = VisitorKey::new([7; 16]);
    for ago in 0..800_u64 {
        let at = days_ago(ago);
        let week = [30, 34, 36, 35, 31, 14, 11][(at.as_unix() / DAY % 7) as usize];
        let count = |part: u64| NonZeroU32::new(u32::try_from(part).expect("some")).expect("not 0");
        recorder.record_at(hits, None, at, count(week * (1000 - ago)));
        if ago < 180 {
            recorder.record_at(article, None, at, count(1 + week * (180 - ago)));
        }
        for person in 0..week {
            let visitor = key.visitor(&[&(ago + person).to_le_bytes()]);
            recorder.record_at(hits, Some(visitor), at, NonZeroU32::MIN);
        }
    }
    counters.flush().await.expect("memory takes all");
    let access = Access::bearer("a-token-for-tests").expect("a token");
    let router = Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), access));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/admin/stats?token=a-token-for-tests")
}

/// Returns the start of a day in the site.
fn days_ago(days: u64) -> Timestamp {
    day().bucket(Timestamp::now()).start.minus(days * DAY)
}

/// Returns the HTML that starts with the element with this id.
fn html<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, from) = page.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("#{id} in {page}"));
    from.split_once("</div>\n").map_or(from, |(text, _)| text)
}

/// Returns the text of an element that has no such element inside, except at its end.
fn shown(page: &str, id: &str) -> String {
    let end = if id == "total" { "</strong>" } else { "</span>" };
    text(page, id, end)
}

/// Returns the target of a link.
fn link(page: &str, id: &str) -> String {
    let from = html(page, id).split_once("href=\"/admin/stats").expect("a link").1;
    from.split_once('"').expect("its end").0.replace("&#38;", "&")
}

#[tokio::test]
async fn links_lead_to_periods_and_all_years_before() {
    let site = Site::filled(|recorder| {
        record(recorder, days_ago(3), 1111);
        record(recorder, days_ago(400), 2222);
        record(recorder, days_ago(800), 3333);
        record(recorder, days_ago(3600), 4444);
    })
    .await;
    let first = site.page("").await;
    for (choice, address) in [
        ("period-last-5-min", "?period=5min"),
        ("period-last-hour", "?period=1h"),
        ("period-today", "?period=today"),
        ("period-yesterday", "?period=yesterday"),
        ("period-7-days", "?period=7d"),
        ("period-30-days", "?period=30d"),
        ("period-12-months", "?period=12mo"),
    ] {
        assert_eq!(link(&first, choice), address);
        let view = site.page(address).await;
        let chip = html(&view, choice).split_once("</a>").expect("its end").0;
        assert!(chip.contains("aria-current=\"true\""), "{choice}: {chip}");
    }
    let mut address = "?period=12mo&by=day".to_owned();
    let mut totals = Vec::new();
    // Ten years, except for the days before the last whole year.
    for year in 0..10 {
        let page = site.page(&address).await;
        let days = page.matches("<tr><th scope=\"row\"><time").count();
        assert!((365..=366).contains(&days), "year {year}: {days}");
        totals.push(["1,111", "2,222", "3,333", "4,444"].map(|total| shown(&page, "sum-0").contains(total)));
        let is_oldest = !page.contains("id=\"earlier\"");
        assert_eq!(is_oldest, year == 9, "year {year}");
        if !is_oldest {
            address = link(&page, "earlier");
        }
    }
    for (year, total) in [(0, 0), (1, 1), (2, 2), (9, 3)] {
        let expected = std::array::from_fn(|place| place == total);
        assert_eq!(totals[year], expected, "year {year}");
    }
    // Dates in a different year include the year.
    let then = site.page(&format!("?period=custom&from={}&to={}", days_ago(820), days_ago(790))).await;
    let table = html(&then, "twin");
    assert!(table.contains("data-f=\"fy\"") || table.contains("data-f=\"dy\""), "{table}");
    assert!(table.contains("<td>3,333</td>"), "{table}");
}

#[tokio::test]
async fn hours_of_an_old_day_are_read_from_the_archive_and_otherwise_unknown() {
    // The store keeps hours for five days, and most hits come in the second half of the day.
    let day = days_ago(10);
    let fill = |recorder: &Recorder| {
        record(recorder, day.plus(3600), 5);
        record(recorder, day.plus(20 * 3600), 700);
    };
    let mut counters =
        Counters::builder(MemoryStore::new()).utc_offset(noon_offset()).build().expect("a grid");
    fill(&counters.recorder());
    counters.flush().await.expect("memory takes all");
    let near = Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), Access::open()));
    let query = format!("?counter=hits&period=custom&from={day}&to={}&show=hits", day.plus(3 * 3600));
    for (router, total, is_known) in [(&Site::filled(fill).await.router, "5", true), (&near, "–", false)] {
        let of_counter = page(router, &format!("/counter{query}")).await;
        assert_eq!(text(&of_counter, "card-total", "</strong>"), format!("Hits {total}"));
        let file = page(router, &format!("/chart.csv{query}")).await;
        let counts: Vec<_> =
            file.lines().skip(1).map(|line| line.split(',').nth(1).expect("a count")).collect();
        assert!(counts.iter().any(|count| !count.is_empty()) == is_known, "{file}");
    }
}

#[tokio::test]
async fn all_time_starts_with_the_first_hit_of_a_counter() {
    let site = Site::filled(|recorder| {
        record(recorder, days_ago(3), 1111);
        // These days are never whole weeks, which would be shown instead of months.
        record(recorder, days_ago(1001), 2222);
        let article = recorder.counter("/articles");
        recorder.record_at(article, None, days_ago(40), NonZeroU32::MIN);
    })
    .await;
    let page = site.page("?period=all").await;
    assert!(page.contains("Hits per month") && !page.contains("past retention"), "{page}");
    assert!(page.contains(">All time</summary>") && !page.contains("id=\"earlier\""), "{page}");
    assert_eq!(
        (shown(&page, "sum-0"), link(&page, "period-all-time")),
        ("3,333".to_owned(), "?period=all".to_owned())
    );
    for (by, buckets) in [("week", 143..=145), ("month", 33..=35)] {
        let page = site.page(&format!("?period=all&by={by}")).await;
        let found = page.matches("<tr><th scope=\"row\"><time").count();
        assert!(buckets.contains(&found) && shown(&page, "sum-0") == "3,333", "{by}: {found}");
    }
    let page = site.page("/counter?period=all&counter=%2Farticles").await;
    assert_eq!(page.matches("<tr><th scope=\"row\"><time").count(), 41);
    assert_eq!(shown(&page, "sum-0"), "1");
    // The live parts have the same period.
    assert_eq!(shown(&site.page("/parts?period=all").await, "sum-0"), "3,333");
    // Without hits, it is today.
    let empty = Site::filled(|_| {}).await.page("?period=all").await;
    assert!(empty.contains("Hits per hour"), "{empty}");
}

#[tokio::test]
async fn the_retained_part_of_a_longer_period_is_shown() {
    let site = Site::filled(|recorder| {
        record(recorder, days_ago(3), 1111);
        record(recorder, days_ago(3600), 4444);
    })
    .await;
    let page = site.page(&format!("?period=custom&from=0&to={}", days_ago(0).plus(DAY))).await;
    assert!(page.contains("Hits per month") && page.contains("Older data of this period is past"), "{page}");
    assert_eq!((shown(&page, "sum-0"), shown(&page, "total")), ("5,555".to_owned(), "5,555".to_owned()));
}

#[tokio::test]
async fn a_year_is_compared_with_the_previous_year_until_the_same_time() {
    let site = Site::filled(|recorder| {
        for ago in 0..365 {
            record(recorder, days_ago(ago), 10);
            record(recorder, days_ago(ago + 365), 5);
        }
        // It is noon, so this is not yet part of the comparison.
        record(recorder, days_ago(365).plus(18 * 3600), 700);
    })
    .await;
    let page = site.page("?period=365d").await;
    assert_eq!(shown(&page, "sum-0"), "3,650 +100 %");
    assert_eq!(card(&page, "total"), "Hits 3,650 +100 % 0 in the last minute");
    let period = html(&page, "sums");
    assert!(period.contains("to now vs. ") && period.contains("same elapsed part"), "{period}");
    let before = site.page(&link(&page, "earlier")).await;
    // The year before that is unknown.
    assert_eq!(shown(&before, "sum-0"), "2,525");
    let period = html(&before, "sums");
    assert!(!period.contains("to now") && !period.contains("elapsed"), "{period}");
    // The live parts also have the comparison.
    assert_eq!(shown(&site.page("/parts?period=365d").await, "sum-0"), "3,650 +100 %");
    // The same weekdays of last year start a day later, and end with the first half of a day in this year.
    for (compare, sum) in [("year", "3,650 +44 %"), ("none", "3,650")] {
        let page = site.page(&format!("?period=365d&compare={compare}")).await;
        assert_eq!(shown(&page, "sum-0"), sum, "{compare}");
        assert_eq!(page.contains("<bdi>hits (last year)</bdi>"), compare == "year", "{page}");
    }
}

#[tokio::test]
async fn visitors_of_a_year_have_a_separate_line_and_number() {
    let site = Site::filled(|recorder| {
        let key = VisitorKey::new([7; 16]);
        let hits = recorder.counter("hits");
        for ago in [2_u64, 30, 300, 500, 729] {
            for person in 0..=ago {
                let visitor = key.visitor(&[&person.to_le_bytes()]);
                recorder.record_at(hits, Some(visitor), days_ago(ago), NonZeroU32::MIN);
            }
        }
    })
    .await;
    let page = site.page("?period=365d&show=people").await;
    assert!(card(&page, "people").starts_with("People 301 −"), "{page}");
    let words = html(&page, "card-people");
    assert!(words.contains("title=\"± 0.8 %. ") && words.contains("is counted once per day"), "{words}");
    assert!(page.contains("<bdi>people</bdi>"), "{page}");
    let before = site.page(&link(&page, "earlier")).await;
    let visitors: u64 = card(&before, "people").replace("People ", "").parse().expect("no change");
    assert!(visitors.abs_diff(730) < 22, "{visitors}");
    // A day is one epoch, so there is nothing to explain.
    let words = site.page("?period=today").await;
    assert!(!html(&words, "card-people").contains("is counted once per day"), "{words}");
}

#[tokio::test]
async fn visitors_before_the_retention_are_reported_as_missing() {
    let retained = Precisions::new([keep(86_400, 3660)]).expect("a set");
    let visitors = Precisions::new([keep(86_400, 100)]).expect("a set");
    let site = Counters::builder(MemoryStore::new()).precisions(retained).visitor_precisions(visitors);
    let mut site = site.build().expect("a grid");
    record(&site.recorder(), days_ago(200), 5);
    record(&site.recorder(), days_ago(1), 7);
    site.flush().await.expect("memory takes all");
    let router = Router::new().nest("/admin/stats", counter_admin::router(site.stats(), Access::open()));
    let view = page(&router, "?period=365d&by=day&compare=none&show=people").await;
    assert_eq!(card(&view, "people"), "People – Not kept for this period");
    // The latest 100 days are known.
    let days = html(&view, "twin").split_once("</table>").expect("its end").0;
    assert_eq!((days.matches("<td>").count(), days.matches("<td>–</td>").count()), (365, 265), "{days}");
    let view = page(&router, "?period=30d&show=people").await;
    assert_eq!(card(&view, "people"), "People 0");
    let (from, to) = (days_ago(300), days_ago(200));
    let view = page(&router, &format!("?period=custom&from={from}&to={to}&show=people")).await;
    assert_eq!(card(&view, "people"), "People – Not kept for this period");
}

#[tokio::test]
async fn too_many_visitor_buckets_for_a_read_are_not_an_error() {
    let counts = vec![keep(60, 2880), keep(3600, 120), keep(86_400, 120)];
    let [counts, minutes] =
        [counts, vec![keep(60, 2880)]].map(|retention| Precisions::new(retention).expect("a set"));
    let site = Counters::builder(MemoryStore::new()).precisions(counts).visitor_precisions(minutes);
    let mut site = site.build().expect("a grid");
    let recorder = site.recorder();
    for number in 0..30 {
        let counter = recorder.counter(&format!("/{number}"));
        let visitor = VisitorKey::new([7; 16]).visitor(&[b"somebody"]);
        for at in [Timestamp::now(), days_ago(1)] {
            recorder.record_at(counter, Some(visitor), at, NonZeroU32::MIN);
        }
    }
    site.flush().await.expect("memory takes all");
    let router = Router::new().nest("/admin/stats", counter_admin::router(site.stats(), Access::open()));
    for path in [
        "",
        "?period=750min&by=minute&show=people",
        "/counter?counter=%2F1&show=people",
        "/parts?period=today",
    ] {
        page(&router, path).await;
    }
    for (path, note) in [
        ("?period=yesterday", "People of this period are shown for 6 pages only."),
        (
            "/list?period=yesterday&sort=people",
            "Not sorted by people, which is possible for at most 6 pages.",
        ),
    ] {
        let view = page(&router, path).await;
        assert!(view.contains(note), "{view}");
    }
}

#[tokio::test]
async fn current_ranges_do_not_read_from_the_archive() {
    let site = Site::filled(|recorder| {
        record(recorder, days_ago(0), 3);
        record(recorder, days_ago(900), 9);
    })
    .await;
    for path in [
        "",
        "/parts",
        "?period=yesterday",
        "?period=7d",
        "/parts?period=30d",
        "?period=60d",
        "/parts?period=24h",
        "/counter?counter=hits",
    ] {
        site.page(path).await;
        assert_eq!(site.far.reads(), [], "{path:?}");
    }
    for question in [
        "series?counter=hits&precision=86400",
        "total?counter=hits&precision=86400",
        "top?precision=86400&kind=all",
    ] {
        assert_eq!(fetch(&site.router, question).await.status, StatusCode::OK);
        assert_eq!(site.far.reads(), [], "{question}");
    }
    // The archive is read only if the requested range needs it.
    site.page("/parts?period=365d").await;
    assert!(site.far.reads().contains(&(day(), days_ago(364))));
}

#[tokio::test]
async fn live_events_do_not_read_from_the_archive() {
    let site = Site::filled(|recorder| {
        record(recorder, days_ago(0), 3);
        record(recorder, days_ago(900), 9);
    })
    .await;
    let request = Request::get("/admin/stats/api/live?counter=hits&precision=86400").body(Body::empty());
    let mut live =
        site.router.clone().oneshot(request.expect("a path")).await.expect("an answer").into_body();
    let mut events = String::new();
    while !events.contains("\"count\":") {
        let event = live.frame().await.expect("an event").expect("memory reads");
        events += &String::from_utf8(event.into_data().expect("a text").into()).expect("a text");
    }
    assert!(events.contains("\"count\":3") && !events.contains("\"count\":9"), "{events}");
    assert_eq!(site.far.reads(), []);
}

#[tokio::test]
async fn the_api_reads_from_the_archive_on_request_and_reports_the_reach() {
    let long_ago = days_ago(3000);
    let site = Site::filled(|recorder| {
        let visitor = VisitorKey::new([7; 16]).visitor(&[b"somebody"]);
        recorder.record_at(
            recorder.counter("hits"),
            Some(visitor),
            long_ago,
            NonZeroU32::new(9).expect("not 0"),
        );
        record(recorder, days_ago(0), 3);
    })
    .await;
    let router = &site.router;
    let (hours, days) = (keep(3600, 120).precision, day());
    let retention_json = |precision: Precision, samples: u32, reach: u32| json!({"precision": precision.as_seconds(), "offset": precision.offset(), "samples": samples, "reach": reach});
    let index = send(router, "/admin/stats/api", None).await.json();
    assert_eq!(index["counts"][4], retention_json(hours, 120, 17_568));
    assert_eq!(index["counts"][6], retention_json(days, 120, 3660));
    assert_eq!(index["counts"][0], retention_json(precision(1), 120, 120));
    assert_eq!(
        index["visitors"],
        json!([retention_json(hours, 120, 17_568), retention_json(days, 120, 3660)])
    );

    // If the start is not given, the range is the same as with no archive, and will be part of the response.
    let series = fetch(router, "series?counter=hits&precision=86400").await.json();
    assert_eq!(series["samples"], json!([{"start": days_ago(0).as_unix(), "count": 3}]));
    assert_eq!(series["from"], json!(days_ago(119).as_unix()));
    let all = fetch(router, &format!("series?counter=hits&precision=86400&from={long_ago}")).await.json();
    assert_eq!(all["samples"].as_array().map(Vec::len), Some(2));
    // It is enough if the end is in the archive.
    let to = long_ago.plus(10 * DAY);
    let then = fetch(router, &format!("series?counter=hits&precision=86400&to={to}")).await.json();
    assert_eq!(then["samples"], json!([{"start": long_ago.as_unix(), "count": 9}]));
    let total = fetch(router, &format!("total?counter=hits&precision=86400&from={long_ago}")).await.json();
    assert_eq!(total["total"], 12);
    let top = format!("top?precision=86400&kind=all&from={long_ago}&to={to}");
    assert_eq!(fetch(router, &top).await.json()["top"], json!([{"counter": "hits", "count": 9}]));
    let uniques = format!("uniques?counter=hits&precision=86400&from={long_ago}&to={to}");
    assert_eq!(fetch(router, &uniques).await.json()["uniques"], 1);
    let export = fetch(router, &format!("export?precision=86400&from={long_ago}")).await;
    assert_eq!(export.body.lines().count(), 3, "{}", export.body);
    // The limits stay the same.
    let too_much = format!("series?counter=hits&precision=3600&from={long_ago}");
    assert_eq!(fetch(router, &too_much).await.status, StatusCode::BAD_REQUEST);
    let badge = format!("/admin/stats/badge.svg?counter=hits&precision=86400&from={long_ago}");
    assert!(send(router, &badge, None).await.body.contains(">12<"));
}

#[tokio::test]
async fn a_range_that_ends_in_the_future_starts_at_the_default() {
    let site = Site::filled(|recorder| record(recorder, days_ago(0), 3)).await;
    let (to, from) = (days_ago(0).plus(10 * DAY), days_ago(119));
    check(
        &site.router,
        &format!("total?counter=hits&precision=86400&to={to}"),
        json!({"counter": "hits", "precision": 86_400, "from": from.as_unix(), "to": to.as_unix(), "total": 3}),
    )
    .await;
}
