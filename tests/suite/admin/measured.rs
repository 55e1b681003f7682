//! The counter page with and without distributions.

use std::num::NonZeroU32;
use std::time::Duration;

use counter_admin::Access;
use counter_core::time::Retention;
use counter_core::visits::{Bin, Distribution, Measured};
use counter_core::{Counters, MemoryStore, Precisions, Timestamp};
use http::StatusCode;
use tests::{FaultProxy, RedisServer, noon_offset};

use super::site::{Site, card, send, site, text};
use crate::support::{precision, store};

/// Records requests of `/` with these times, statuses and counts, and flushes.
async fn measure(site: &mut Site, at: Timestamp, requests: &[(u64, u16, u32)]) {
    let recorder = site.recorder();
    let hits = [recorder.counter("/").hit()];
    for (ms, status, times) in requests {
        for _ in 0..*times {
            let bins = [Bin::time(Duration::from_millis(*ms)), Bin::size(ms * 1000), Bin::status(*status)];
            recorder.measure_at(Measured { hits: &hits, bins: &bins }, at);
        }
    }
    site.record("/", at, requests.iter().map(|(.., times)| times).sum()).await;
}

async fn page(site: &Site, path: &str) -> String {
    let response = send(&site.router, &format!("/admin/stats{path}"), None).await;
    assert_eq!(response.status, StatusCode::OK, "{path}: {}", response.body);
    response.body
}

/// Returns the start of an hour that ended two hours ago, or a little earlier.
fn hour() -> Timestamp {
    precision(3600).bucket(Timestamp::now()).start.minus(3 * 3600)
}

/// Returns the path of a counter page for these hours.
fn hours(from: Timestamp, to: Timestamp) -> String {
    format!("/counter?counter=%2F&period=custom&from={from}&to={to}&by=hour")
}

fn keep(width: u32, samples: u32) -> Retention {
    Retention { precision: precision(width), samples: NonZeroU32::new(samples).expect("not 0") }
}

#[tokio::test]
async fn percentiles_statuses_and_sizes_are_shown_with_error_and_change() {
    let (mut site, start) = (site(), hour());
    site.record("/", start.minus(3 * 3600), 1).await;
    // In the latest two hours, half of the requests take twice as long, and 404 increases to a quarter.
    measure(&mut site, start, &[(20, 200, 90), (100, 404, 10)]).await;
    measure(&mut site, start.plus(7200), &[(20, 200, 30), (40, 200, 45), (100, 404, 25)]).await;
    let page = page(&site, &hours(start.plus(3600), start.plus(10_800))).await;
    let table = text(&page, "measured", "</tbody>");
    for part in [
        "per hour, vs. the compared period. Percentiles are accurate to ± 5 %.",
        "Time to response headers 38.8 ms +100 % 101 ms +419 % 101 ms about the same 100",
        "Response size 40.7 kB +100 %",
    ] {
        assert!(table.contains(part), "{part} in {table}");
    }
    assert_eq!(text(&page, "statuses", "</tbody>"), "200 OK 75 75.0 % 90.0 % 404 Not Found 25 25.0 % 10.0 %");
    assert_eq!(card(&page, "p90"), "Slow (p90) 101 ms +419 %");
    let twin = text(&page, "bands-twin", "</tbody>");
    assert!(twin.contains("38.8 ms 101 ms 101 ms 100"), "{twin}");
    assert!(page.contains("class=\"bands\"") && page.contains("class=\"high\" d=\"M"), "{page}");
}

#[tokio::test]
async fn the_chart_shows_percentiles_by_interval_if_they_are_chosen() {
    let (mut site, start) = (site(), hour());
    site.record("/", start.minus(3 * 3600), 1).await;
    measure(&mut site, start, &[(20, 200, 90), (100, 404, 10)]).await;
    measure(&mut site, start.plus(7200), &[(20, 200, 30), (40, 200, 70)]).await;
    let (from, to) = (start.plus(3600), start.plus(10_800));
    let chosen = page(&site, &format!("{}&show=p90", hours(from, to))).await;
    assert_eq!(text(&chosen, "chart-title", "</h2>"), "Response time (p90) per hour");
    let legend = text(&chosen, "chart-lines", "</ul>");
    assert!(legend.contains("/ 38.8 ms +100 %"), "{legend}");
    // Both periods begin with an hour without requests.
    let twin = text(&chosen, "twin", "</tbody>");
    assert!(twin.contains("38.8 ms 19.4 ms") && twin.ends_with("– –"), "{twin}");
    assert!(chosen.contains(">40 ms</text>") && chosen.contains(">0</text>"), "{chosen}");
    let path = hours(from, to).replacen("/counter", "/chart.csv", 1);
    let file = page(&site, &format!("{path}&show=p90")).await;
    let rows: Vec<_> = file.lines().map(|line| line.split_once(',').expect("fields").1).collect();
    assert_eq!(rows, ["\"p90 of / in ms\",\"p90 of / (previous) in ms\"", ",", "38.772,19.386"], "{file}");
    // If times are not measured, or not for these intervals, then the chart shows hits.
    site.record("status:2xx", start.plus(7200), 9).await;
    let mut other = self::site();
    other.record("/", start.plus(7200), 9).await;
    let with_facet = format!("{}&counter=status%3A2xx", hours(from, to));
    for (site, path) in [
        (&site, "/counter?counter=%2F&period=5min&by=5".to_owned()),
        (&site, with_facet),
        (&other, hours(from, to)),
    ] {
        let page = page(site, &format!("{path}&show=p90&compare=none")).await;
        assert!(text(&page, "chart-title", "</h2>").starts_with("Hits per"), "{path}: {page}");
    }
}

#[tokio::test]
async fn a_percentile_of_the_chart_is_that_of_the_whole_interval_or_not_known() {
    let retained = Precisions::new([keep(86_400, 30)]).expect("a set");
    let counters = Counters::builder(MemoryStore::new()).distributions(retained);
    let mut site = Site::of(counters.build().expect("a grid"), Access::open());
    let monday = precision(7 * 86_400).bucket(Timestamp::now()).start.plus(4 * 86_400);
    let monday = if monday > Timestamp::now() { monday.minus(7 * 86_400) } else { monday };
    // The percentiles of the days are 19.4 ms and 101 ms, and that of their union is 38.8 ms.
    let last = monday.minus(7 * 86_400);
    measure(&mut site, last, &[(20, 200, 170)]).await;
    measure(&mut site, last.plus(86_400), &[(40, 200, 15), (100, 200, 15)]).await;
    let week = page(&site, "/counter?counter=%2F&period=30d&by=week&show=p90&compare=none").await;
    assert_eq!(text(&week, "chart-title", "</h2>"), "Response time (p90) per week");
    assert!(text(&week, "twin", "</tbody>").contains("38.8 ms"), "{week}");

    // It is noon, and the hours until yesterday at 6:00 are retained.
    let retained = Precisions::new([keep(3600, 31)]).expect("a set");
    let counters = Counters::builder(MemoryStore::new()).distributions(retained);
    let counters = counters.utc_offset(noon_offset()).build().expect("the offset is one of whole hours");
    let mut site = Site::of(counters, Access::open());
    let now = hour().plus(3 * 3600);
    for (age, ms) in [(1, 20), (29, 100)] {
        measure(&mut site, now.minus(age * 3600), &[(ms, 200, 9)]).await;
    }
    let days = page(&site, "/counter?counter=%2F&period=7d&by=day&show=p90&compare=none").await;
    let twin = text(&days, "twin", "</tbody>");
    assert!(twin.contains("19.4 ms") && !twin.contains("101 ms"), "{twin}");
}

#[tokio::test]
async fn a_new_counter_is_not_compared_with_an_earlier_time() {
    let mut site = site();
    let start = hour();
    measure(&mut site, start, &[(20, 200, 9)]).await;
    let page = page(&site, &hours(start.minus(3600), start.plus(3600))).await;
    let table = text(&page, "measured", "</tbody>");
    assert!(!table.contains("vs.") && !table.contains("about the same"), "{table}");
    assert_eq!(text(&page, "statuses", "</tbody>"), "200 OK 9 100.0 %");
    assert_eq!(card(&page, "p90"), "Slow (p90) 19.4 ms");
}

#[tokio::test]
async fn a_chart_uses_percentiles_of_the_nearest_retained_precision() {
    let mut site = site();
    let now = Timestamp::now();
    measure(&mut site, now, &[(20, 200, 9)]).await;
    for (chart, width) in [
        ("period=2min&by=second", "minute"),
        ("period=5min&by=5", "minute"),
        ("period=1h&by=minute", "minute"),
        ("period=10h&by=300", "hour"),
        ("period=24h&by=hour", "hour"),
        ("period=7d&by=day", "day"),
        ("period=30d&by=week", "day"),
    ] {
        let page = page(&site, &format!("/counter?counter=%2F&{chart}")).await;
        let table = text(&page, "measured", "</tbody>");
        assert!(table.contains(&format!("per {width}")), "{chart}: {table}");
        assert!(table.contains("19.4 ms 19.4 ms 19.4 ms 9"), "{chart}: {table}");
        assert_eq!(card(&page, "p90"), "Slow (p90) 19.4 ms", "{chart}");
    }
}

#[tokio::test]
async fn a_long_range_uses_percentiles_of_a_longer_retained_precision() {
    let retained = Precisions::new([keep(3600, 800), keep(86_400, 120)]).expect("a set");
    let counters =
        Counters::builder(MemoryStore::new()).precisions(retained).distributions(Distribution::precisions());
    let mut site = Site::of(counters.build().expect("a grid"), Access::open());
    let day = precision(86_400).bucket(Timestamp::now()).start.minus(20 * 86_400);
    measure(&mut site, day, &[(20, 200, 9)]).await;
    let page = page(&site, "/counter?counter=%2F&period=720h&by=hour").await;
    assert!(page.contains("Hits per hour"), "{page}");
    let table = text(&page, "measured", "</tbody>");
    assert!(table.contains("per day") && table.contains("19.4 ms 9"), "{table}");
}

#[tokio::test]
async fn without_measurements_the_page_has_no_distributions() {
    let retained = site();
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let mut without_distributions = Site::of(counters, Access::open());
    measure(&mut without_distributions, Timestamp::now(), &[(20, 200, 9)]).await;
    let mut without_measurements = retained;
    without_measurements.record("/", Timestamp::now(), 9).await;
    for (site, p90) in
        [(without_distributions, None), (without_measurements, Some("Slow (p90) – Not recorded"))]
    {
        let page = page(&site, "/counter?counter=%2F").await;
        for word in ["Response times and sizes", "id=\"statuses\"", "Percentiles"] {
            assert!(!page.contains(word), "{word} in {page}");
        }
        assert_eq!(page.contains("card-p90").then(|| card(&page, "p90")).as_deref(), p90);
    }
}

#[tokio::test]
async fn an_unreadable_bucket_is_reported_and_the_rest_is_shown() {
    let server = RedisServer::start();
    let mut site = Site::open(store(&server.url()).await);
    let start = hour();
    measure(&mut site, start, &[(20, 200, 9)]).await;
    measure(&mut site, start.plus(3600), &[(20, 404, 9)]).await;
    let key = format!("access:bins:3600:/:{start}");
    server.command(&["SET", &key, "a text"]);
    let page = page(&site, &hours(start.minus(7200), start.plus(7200))).await;
    assert!(text(&page, "unread", "</div>").contains(&key), "{page}");
    assert_eq!(text(&page, "statuses", "</tbody>"), "404 Not Found 9 100.0 %");
}

#[tokio::test]
async fn a_full_counter_page_needs_two_round_trips() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.address()).await;
    let counters = Counters::builder(store(&proxy.url()).await).distributions(Distribution::precisions());
    let mut site = Site::of(counters.build().expect("the defaults are fine"), Access::open());
    measure(&mut site, hour(), &[(20, 200, 9)]).await;
    // If the page were newer than the site, a third round trip would find out whether it is new.
    site.record("hits", hour(), 9).await;
    for path in [
        "/counter?counter=%2F&period=120h&by=hour&show=people",
        "/counter?counter=%2F&period=24h&show=people&forecast=1",
    ] {
        let call = async || {
            let response = send(&site.router, &format!("/admin/stats{path}"), None).await;
            response.status == StatusCode::OK && response.body.contains("Response times and sizes")
        };
        let fewest = proxy.fewest_round_trips(2, call).await;
        assert!(fewest <= 2, "{fewest} for {path}");
    }
}

#[tokio::test]
async fn a_counter_page_reads_each_distribution_once() {
    let server = RedisServer::start();
    let mut site = Site::open(store(&server.url()).await);
    measure(&mut site, hour(), &[(20, 200, 9)]).await;
    let before = server.calls("hgetall");
    page(&site, "/counter?counter=%2F&period=24h&by=hour").await;
    // The hours of the period and of the previous period, and keys of counts.
    let reads = server.calls("hgetall") - before;
    assert!((48..66).contains(&reads), "{reads}");
}

#[tokio::test]
async fn percentiles_and_statuses_are_compared_with_the_same_period_last_year() {
    let [counts, distributions] = [vec![keep(3600, 9600), keep(86_400, 400)], vec![keep(86_400, 400)]]
        .map(|retention| Precisions::new(retention).expect("a set"));
    let counters = Counters::builder(MemoryStore::new()).precisions(counts).distributions(distributions);
    let mut site = Site::of(counters.build().expect("a grid"), Access::open());
    let day = precision(86_400).bucket(Timestamp::now()).start.minus(86_400);
    measure(&mut site, day.minus(364 * 86_400), &[(20, 200, 50), (20, 404, 50)]).await;
    measure(&mut site, day, &[(40, 200, 90), (40, 404, 10)]).await;
    let path = format!("/counter?counter=%2F&period=custom&from={day}&to={}", day.plus(86_400));
    let last_year = page(&site, &format!("{path}&compare=year")).await;
    let table = text(&last_year, "measured", "</tbody>");
    for part in ["vs. the compared period.", "headers 38.8 ms +100 % 38.8 ms +100 % 38.8 ms +100 % 100"] {
        assert!(table.contains(part), "{part} in {table}");
    }
    let statuses = "200 OK 90 90.0 % 50.0 % 404 Not Found 10 10.0 % 50.0 %";
    assert_eq!(text(&last_year, "statuses", "</tbody>"), statuses);
    assert_eq!(card(&last_year, "p90"), "Slow (p90) 38.8 ms +100 %");
    assert!(last_year.contains("<bdi>/ (last year)</bdi>"), "{last_year}");
    for compare in ["previous", "none"] {
        let page = page(&site, &format!("{path}&compare={compare}")).await;
        assert!(!text(&page, "measured", "</tbody>").contains('+'), "{compare}: {page}");
        assert_eq!(card(&page, "p90"), "Slow (p90) 38.8 ms", "{compare}");
    }
}

#[tokio::test]
async fn percentiles_of_a_running_period_are_compared_up_to_the_same_time() {
    let counters = Counters::builder(MemoryStore::new()).distributions(Distribution::precisions());
    let counters = counters.utc_offset(noon_offset()).build().expect("the offset is one of whole hours");
    let mut site = Site::of(counters, Access::open());
    let noon = hour().plus(3 * 3600);
    site.record("/", noon.minus(2 * 86_400), 1).await;
    measure(&mut site, noon.minus(3600), &[(40, 200, 9)]).await;
    measure(&mut site, noon.minus(86_400 + 3600), &[(20, 200, 9)]).await;
    measure(&mut site, noon.minus(86_400 - 7200), &[(4000, 503, 9)]).await;
    let page = page(&site, "/counter?counter=%2F&period=today").await;
    let table = text(&page, "measured", "</tbody>");
    assert!(table.contains("headers 38.8 ms +100 % 38.8 ms +100 % 38.8 ms +100 % 9"), "{table}");
    assert_eq!(text(&page, "statuses", "</tbody>"), "200 OK 9 100.0 % 100.0 %");
    assert_eq!(card(&page, "p90"), "Slow (p90) 38.8 ms +100 %");
}
