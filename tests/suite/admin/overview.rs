//! The first page: people and views first, and panels by question.

use std::num::NonZeroU32;

use counter_admin::Access;
use counter_core::time::Retention;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Agent, PageHit};
use counter_core::{Counters, MemoryStore, Precision, Precisions, Timestamp};
use tests::noon_offset;

use super::site::{Site, card, send, site_at_noon, text};
use crate::support::precision;

/// Counts views by people, two requests that are not views, and a request of a bot, on the page `/`.
async fn count(site: &mut Site) {
    let recorder = site.recorder();
    let label = |name: &str| recorder.label_values(name).expect("a name");
    let (sources, devices) = (label("source").people(), label("device"));
    let record = |person: Option<u8>, source: Option<&str>, device: &str, is_view: bool| {
        let hit = recorder.counter("hits").hit();
        let visitor = person.map(|person| VisitorKey::new([7; 16]).visitor(&[&[person]]));
        let hit = visitor.map_or(hit, |visitor| hit.visitor(visitor));
        let agent = if person.is_some() { Agent::Human } else { Agent::Bot };
        let of_view = [sources.note(source, NonZeroU32::MIN), devices.note(Some(device), NonZeroU32::MIN)];
        recorder.page_hit(PageHit {
            page: Some(recorder.counter("/")),
            labels: if is_view { &of_view } else { &of_view[1..] },
            is_view,
            ..PageHit::new(hit, agent)
        });
    };
    record(Some(1), Some("news.example"), "desktop", true);
    for person in [1, 2, 2] {
        record(Some(person), Some("Google"), "mobile", true);
    }
    record(Some(3), None, "mobile", true);
    record(Some(3), None, "mobile", false);
    record(Some(4), None, "mobile", false);
    record(None, None, "bot", false);
    site.counters.flush().await.expect("memory takes all");
}

async fn page(site: &Site, query: &str) -> String {
    send(&site.router, &format!("/admin/stats{query}"), None).await.body
}

#[tokio::test]
async fn the_first_page_shows_people_and_views() {
    let mut site = site_at_noon();
    count(&mut site).await;
    let first = page(&site, "?period=today&compare=none").await;
    assert_eq!((card(&first, "people"), card(&first, "views")), ("People 4".into(), "Views 5".into()));
    // Hits are about the service.
    let (_, service) = first.split_once("id=\"service\"").expect("a section");
    assert_eq!(text(service, "card-total", "</strong>"), "Hits 8");
    assert_eq!(text(&first, "chart-title", "</h2>"), "People per hour");
    assert_eq!(text(&first, "sum-0", "</span>"), "4");
    let rows = text(&first, "rows", "</tbody>");
    assert_eq!(rows, "/ 4 5 – 5 +");
    // People first: two came from the search engine in three views.
    assert_eq!(
        text(&first, "tab-label-source", "</ol>"),
        "People Views Google search 2 3 news.example 1 1 Direct 1 1"
    );
    assert_eq!(text(&first, "tab-label-device", "</ol>"), "Hits Share Mobile 6 85.7 % Desktop 1 14.3 %");
    let unrecorded = text(&first, "unrecorded", "</div>");
    assert!(unrecorded.starts_with("Not recorded: campaigns, addresses,"), "{unrecorded}");
    assert!(!unrecorded.contains("sources") && !unrecorded.contains("devices"), "{unrecorded}");
}

#[tokio::test]
async fn a_chart_has_one_unit_and_the_chosen_card() {
    let mut site = site_at_noon();
    count(&mut site).await;
    for (metric, title, total, card) in [
        ("", "People per hour", "4", "people"),
        ("&show=people", "People per hour", "4", "people"),
        ("&show=views", "Views per hour", "5", "views"),
        ("&show=hits", "Hits per hour", "8", "total"),
        ("&forecast=1", "Hits per hour", "8", "total"),
    ] {
        for path in ["?counter=hits", "/counter?counter=%2F"] {
            let page = page(&site, &format!("{path}&period=today&compare=none{metric}")).await;
            assert_eq!(text(&page, "chart-title", "</h2>"), title, "{path}{metric}");
            assert_eq!(text(&page, "sum-0", "</span>"), total, "{path}{metric}");
            let cards =
                page.split("<li id=\"card-").skip(1).map(|card| card.split_once("</a>").expect("its end").0);
            let chosen = cards.filter(|card| card.contains("aria-current=\"true\""));
            let chosen: Vec<_> = chosen.map(|card| card.split_once('"').expect("an id").0).collect();
            assert_eq!(chosen, [card], "{path}{metric}");
        }
    }
    // A period that has just begun has the same unit as later.
    let hour = precision(3600).bucket(Timestamp::now()).start;
    let page_of_hour =
        page(&site, &format!("?period=custom&from={hour}&to={}&by=hour", hour.plus(3 * 3600))).await;
    assert_eq!(text(&page_of_hour, "chart-title", "</h2>"), "People per hour");
    assert!(!page_of_hour.contains("<title> –"), "a title names the period: {page_of_hour}");
    // Views are not kept by the minute, and people are not either.
    for metric in ["people", "views"] {
        let page = page(&site, &format!("?period=1h&show={metric}")).await;
        assert_eq!(text(&page, "chart-title", "</h2>"), "Hits per minute", "{metric}");
    }
}

#[tokio::test]
async fn the_service_comes_first_for_those_who_operate_it() {
    let mut site = site_at_noon();
    count(&mut site).await;
    for (query, is_first) in [("?period=7d", false), ("?period=7d&view=service", true)] {
        let page = page(&site, query).await;
        let place = |id: &str| page.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("{id} in {page}"));
        assert_eq!(place("service") < place("rows"), is_first, "{query}");
        assert_eq!(page.contains("<details id=\"service\" class=\"panel\" open>"), is_first, "{query}");
        assert_eq!(page.matches("id=\"service\"").count(), 1, "{query}");
        let toggled =
            if is_first { "/admin/stats?period=7d" } else { "/admin/stats?period=7d&#38;view=service" };
        assert!(page.contains(&format!("<a id=\"view\" href=\"{toggled}\"")), "{query}: {page}");
        let unit = if is_first { "Hits per day" } else { "People per day" };
        assert_eq!(text(&page, "chart-title", "</h2>"), unit, "{query}");
        // Other pages lead back to it.
        let counters = "/admin/stats/counter?counter=%2F&#38;period=7d";
        let of_page = if is_first { format!("{counters}&#38;view=service") } else { counters.to_owned() };
        assert!(page.contains(&format!("href=\"{of_page}\"")), "{query}: {page}");
    }
}

#[tokio::test]
async fn a_source_has_people_and_a_device_has_only_hits() {
    let mut site = site_at_noon();
    count(&mut site).await;
    let of =
        async |counter: &str| page(&site, &format!("/counter?counter=label%3A{counter}&period=7d")).await;
    let google = of("source%3AGoogle").await;
    assert_eq!(card(&google, "people"), "People 2");
    assert_eq!(text(&google, "chart-title", "</h2>"), "People per day");
    // A source is counted for views only.
    let cards = ["total", "part", "lifetime"].map(|id| card(&google, id));
    assert_eq!(cards, ["Views 3", "Share of all views 60.0 %", "Views, all time 3"]);
    assert_eq!(text(&of("source%3AGoogle&show=hits").await, "chart-title", "</h2>"), "Views per day");
    for (counter, metric) in
        [("status%3A2xx", "people"), ("label%3Adevice%3Amobile", "people"), ("status%3A2xx", "views")]
    {
        let page = page(&site, &format!("/counter?counter={counter}&period=7d&show={metric}")).await;
        assert_eq!(text(&page, "chart-title", "</h2>"), "Hits per day", "{counter} has no {metric}");
    }
    let mobile = of("device%3Amobile").await;
    assert!(!mobile.contains("id=\"card-people\""), "{mobile}");
    assert_eq!(text(&mobile, "chart-title", "</h2>"), "Hits per day");
    assert!(mobile.contains("<h1><bdi>device: Mobile</bdi></h1>"), "{mobile}");
}

#[tokio::test]
async fn a_source_has_no_share_of_views_if_the_site_does_not_count_them() {
    let mut site = site_at_noon();
    let recorder = site.recorder();
    let sources = recorder.label_values("source").expect("a name");
    let noted = sources.counter(sources.note(Some("Google"), NonZeroU32::MIN));
    recorder.record_at(noted, None, Timestamp::now(), NonZeroU32::MIN);
    site.record("hits", Timestamp::now(), 10).await;
    let google = page(&site, "/counter?counter=label%3Asource%3AGoogle&period=7d").await;
    assert_eq!(card(&google, "total"), "Views 1");
    assert!(!google.contains("id=\"card-part\""), "{google}");
}

#[tokio::test]
async fn people_of_sources_are_dated_if_they_are_counted_since_a_day_in_the_period() {
    let mut site = site_at_noon();
    count(&mut site).await;
    let recorder = site.recorder();
    let (sources, before) =
        (recorder.label_values("source").expect("a name"), Timestamp::now().minus(3 * 86_400));
    let noted = sources.counter(sources.note_at(Some("Google"), before, NonZeroU32::MIN));
    recorder.record_at(noted, None, before, NonZeroU32::MIN);
    site.counters.flush().await.expect("memory takes all");
    let first = page(&site, "?period=7d").await;
    let (_, panel) = first.split_once("id=\"label-source\"").expect("a panel");
    let (panel, _) = panel.split_once("</section>").expect("its end");
    assert!(panel.contains("people are counted since 20"), "{panel}");
    let google = page(&site, "/counter?counter=label%3Asource%3AGoogle&period=7d&compare=none").await;
    assert!(card(&google, "people").starts_with("People 2 Since 20"), "{google}");
    assert!(text(&google, "sums", "</div>").contains("Counted since "), "{google}");
    // The days before have no people in the chart, which is not 0.
    let (_, rows) = google.split_once("<tbody").expect("a table");
    assert_eq!(rows.matches("<td>–</td>").count(), 6, "{google}");
}

#[tokio::test]
async fn missing_pages_name_the_hosts_that_link_to_them() {
    let mut site = site_at_noon();
    let recorder = site.recorder();
    let values = [
        ("not_found", "/old", 9),
        ("not_found", "/new", 1),
        ("broken_link", "/old a.example", 4),
        ("broken_link", "/old b.example", 3),
    ];
    for (label, value, hits) in values {
        let (values, hits) =
            (recorder.label_values(label).expect("a name"), NonZeroU32::new(hits).expect("not 0"));
        let noted = values.counter(values.note(Some(value), hits));
        recorder.record_at(noted, None, Timestamp::now(), hits);
    }
    site.record("hits", Timestamp::now(), 10).await;
    let page = page(&site, "?period=today").await;
    let shown = text(&page, "label-not_found", "</ol>");
    assert_eq!(shown, "/old from a.example 4, b.example 3 9 90.0 % /new 1 10.0 %");
    assert!(text(&page, "label-broken_link", "</ol>").starts_with("/old from a.example 4 57.1 %"), "{page}");
}

#[tokio::test]
async fn views_are_hits_in_a_period_in_which_they_began() {
    let mut site = site_at_noon();
    let before = Timestamp::now().minus(9 * 86_400);
    site.record("hits", before, 100).await;
    count(&mut site).await;
    // Today is known in full, but not the last days.
    let today = page(&site, "?period=today&compare=none").await;
    assert_eq!(card(&today, "people"), "People 4");
    // The hits began before this period, and in the other one.
    let week = page(&site, "?period=7d&compare=none").await;
    assert!(!week.contains("id=\"card-views\"") && card(&week, "total").starts_with("Hits 8"), "{week}");
    let month = page(&site, "?period=30d&compare=none").await;
    assert!(!month.contains("id=\"card-views\"") && card(&month, "total").starts_with("Hits 108"), "{month}");
    assert_eq!(text(&month, "rows", "</tbody>"), "/ 4 8 – 8 +", "hits of the page");
}

#[tokio::test]
async fn the_unit_of_an_open_page_and_of_a_shared_view_does_not_change() {
    let mut site = site_at_noon();
    site.record("hits", Timestamp::now(), 8).await;
    let parts = |page: &str| {
        let (_, rest) = page.split_once("data-parts=\"").expect("an attribute");
        rest.split_once('"').expect("its end").0.replace("&#38;", "&")
    };
    let hits = parts(&page(&site, "").await);
    assert!(hits.ends_with("show=hits"), "{hits}");
    count(&mut site).await;
    let people = parts(&page(&site, "").await);
    assert!(people.ends_with("show=people"), "{people}");
    let sent = async |path: &str| send(&site.router, path, None).await.body;
    let (hits, people) = (sent(&hits).await, sent(&people).await);
    assert_eq!(text(&hits, "chart-title", "</h2>"), "Hits per hour");
    // People are only read with the whole page.
    assert!(!people.contains("id=\"plot\"") && people.contains("id=\"now\""), "{people}");
}

#[tokio::test]
async fn people_are_the_default_only_if_they_are_kept_for_the_whole_chart() {
    let days = |samples| {
        let days = Retention { precision: Precision::DAY, samples: NonZeroU32::new(samples).expect("not 0") };
        Precisions::new([days]).expect("a set")
    };
    let counters = Counters::builder(MemoryStore::new()).precisions(days(60)).visitor_precisions(days(10));
    let counters = counters.utc_offset(noon_offset()).build().expect("the offset is one of whole hours");
    let mut site = Site::of(counters, Access::open());
    let recorder = site.recorder();
    for ago in 0..30 {
        let visitor = VisitorKey::new([7; 16]).visitor(&[&[7]]);
        recorder.record_at(
            recorder.counter("hits"),
            visitor,
            Timestamp::now().minus(86_400 * ago),
            NonZeroU32::MIN,
        );
    }
    site.counters.flush().await.expect("memory takes all");
    for (query, title) in [
        ("period=7d", "People per day"),
        ("period=30d", "Hits per day"),
        ("period=30d&show=people", "People per day"),
    ] {
        let page = page(&site, &format!("?{query}")).await;
        assert_eq!(text(&page, "chart-title", "</h2>"), title, "{query}");
    }
}

#[tokio::test]
async fn people_of_sources_are_compared_if_they_were_counted_in_the_whole_compared_period() {
    // The first day with people, and whether there is a change. Hits are counted since a month.
    for (first, is_compared) in [(14, true), (9, false)] {
        let mut site = site_at_noon();
        let recorder = site.recorder();
        let sources = recorder.label_values("source").expect("a name").people();
        for ago in 0..30 {
            let at = Timestamp::now().minus(86_400 * ago);
            let counter = sources.counter(sources.note_at(Some("Google"), at, NonZeroU32::MIN));
            let visitor = VisitorKey::new([7; 16]).visitor(&[&ago.to_le_bytes()]);
            recorder.record_at(counter, (ago <= first).then_some(visitor), at, NonZeroU32::MIN);
            recorder.record_at(recorder.counter("hits"), None, at, NonZeroU32::MIN);
        }
        site.counters.flush().await.expect("memory takes all");
        let page = page(&site, "?period=7d").await;
        let shown = text(&page, "label-source", "</ol>");
        assert!(shown.starts_with("Google search 7 7"), "{shown}");
        assert_eq!(shown.contains('%'), is_compared, "{first}: {shown}");
    }
}

#[tokio::test]
async fn the_chart_of_errors_and_bots_shows_the_share_of_their_card() {
    let mut site = site_at_noon();
    let days_ago = |days: u64| Timestamp::now().minus(days * 86_400);
    for (at, counts) in [
        (days_ago(3), [("status:2xx", 99), ("status:5xx", 1), ("agent:human", 80), ("agent:bot", 20)]),
        (
            days_ago(1),
            [("status:2xx", 1990), ("status:failed", 10), ("agent:human", 1500), ("agent:bot", 500)],
        ),
        (
            days_ago(1).minus(3600),
            [("status:5xx", 2), ("status:4xx", 398), ("agent:human", 400), ("hits", 400)],
        ),
    ] {
        for (counter, count) in counts {
            site.record(counter, at, count).await;
        }
    }
    let page = send(&site.router, "/admin/stats?period=yesterday", None).await.body;
    assert_eq!(card(&page, "errors"), "Errors 0.5 % 4xx: 16.6 %");
    assert_eq!(card(&page, "bots"), "Bots 20.8 %");
    let (_, errors) = page.split_once("id=\"card-errors\"").expect("a card");
    let link = errors.split_once("href=\"").expect("a link").1.split_once('"').expect("its end").0;
    let link = link.replace("&amp;", "&").replace("&#38;", "&");
    assert!(link.contains("show=share"), "{link}");
    let chart = send(&site.router, &link, None).await.body;
    assert_eq!(text(&chart, "chart-title", "</h2>"), "Share of hits per hour");
    let legend = text(&chart, "chart-lines", "</ul>");
    for line in ["status:5xx 0.1 %", "status:failed 0.4 %", "status:4xx 16.6 %"] {
        assert!(legend.contains(line), "{line} in {legend}");
    }
    assert!(chart.contains("<td>0.5 %</td><td>0.0 %</td><td>99.5 %</td>"), "{chart}");
    assert!(chart.contains(">100 %</text>") && !chart.contains("show=share&#38;forecast"), "{chart}");
    // An hour without hits has no share.
    let file = link.replacen("/admin/stats", "/admin/stats/chart.csv", 1);
    let file = send(&site.router, &file, None).await.body;
    let rows: Vec<_> = file.lines().map(|line| line.split_once(',').expect("fields").1).collect();
    let names = ["status:5xx", "status:failed", "status:4xx"].map(|name| format!("\"{name} in % of hits\""));
    assert!(rows[0].starts_with(&names.join(",")), "{file}");
    for row in ["0.50,0.00,99.50,", "0.00,0.50,0.00,", ",,,"] {
        assert!(rows.contains(&row), "{row} in {file}");
    }
    // Pages have no share of the hits of the site, so their hits are shown.
    let other = send(&site.router, "/admin/stats?period=yesterday&show=share&counter=hits", None).await.body;
    assert_eq!(text(&other, "chart-title", "</h2>"), "Hits per hour");
}

#[tokio::test]
async fn the_current_day_has_an_expected_total_that_earlier_days_suggest() {
    let mut site = site_at_noon();
    let (recorder, now) = (site.recorder(), Timestamp::now());
    let record = |days: u64, at: Timestamp, people: std::ops::Range<u64>| {
        for person in people {
            let visitor = VisitorKey::new([7; 16]).visitor(&[&days.to_le_bytes(), &person.to_le_bytes()]);
            recorder.record_at(recorder.counter("hits"), Some(visitor), at, NonZeroU32::MIN);
        }
    };
    record(0, now.minus(3 * 3600), 0..90);
    let earlier = |days: u64| {
        let noon = now.minus(days * 86_400);
        record(days, noon.minus(3 * 3600), 0..60);
        record(days, noon.plus(3 * 3600), 60..100);
    };
    earlier(1);
    site.counters.flush().await.expect("memory takes all");
    let one = page(&site, "?period=7d&show=hits").await;
    assert!(!one.contains("expected today"), "a single day suggests nothing");
    // The hours of the fifth one are not all kept.
    (2..=5).for_each(earlier);
    site.counters.flush().await.expect("memory takes all");
    for (query, is_in_chart) in [("?period=7d&show=hits", true), ("?period=today&by=hour&show=hits", false)] {
        let page = page(&site, query).await;
        let sums = text(&page, "sums", "</div>");
        assert!(sums.contains("≈ 150 expected today, judging by 4 earlier days."), "{query}: {sums}");
        assert_eq!(page.contains("90 so far, ≈ 150 expected"), is_in_chart, "{query}");
        assert_eq!(page.contains("class=\"dot hollow\""), is_in_chart, "{query}");
    }
    let people = page(&site, "?period=7d").await;
    let sums = text(&people, "sums", "</div>");
    let (expected, _) = sums.split_once(" expected today").expect("people");
    let (_, expected) = expected.rsplit_once("≈ ").expect("a number");
    let expected: u64 = expected.parse().expect("a number");
    assert!(expected.abs_diff(150) <= 5, "{expected}");
    assert!(!page(&site, "?period=yesterday&show=hits").await.contains(" expected "));
}
