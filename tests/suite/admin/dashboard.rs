//! The dashboard pages: contents, permissions and size.

use std::num::NonZeroU32;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use counter_admin::Access;
use counter_core::source::Commit;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Agent, Hint, Skip};
use counter_core::{Counters, MemoryStore, Timestamp};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use tests::{FaultProxy, RedisServer, noon_offset};
use tower::ServiceExt;

use crate::support::store;

const SCRIPT: &str = "<script>alert(1)</script>";

#[tokio::test]
async fn the_page_shows_the_counts() {
    let mut site = Site::new();
    let now = Timestamp::now();
    for (counter, count) in
        [("hits", 1234), ("/", 1000), ("/a b&c", 234), ("status:2xx", 1200), ("status:5xx", 34)]
    {
        site.record(counter, now, count);
    }
    site.flush().await;
    let page = site.page("").await;
    for part in ["1,234", "Top pages today", "/a b&#38;c", "81 %", "2.7 %", "<h1>Visits</h1>"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let own = site.page("/counter?counter=%2Fa+b%26c").await;
    for part in ["<h1><bdi>/a b&amp;c</bdi></h1>", ">234<", "18 %"] {
        assert!(own.contains(part), "{part} in {own}");
    }
}

#[tokio::test]
async fn labels_have_separate_panels_and_values_are_not_pages() {
    let mut site = Site::new();
    assert!(!site.page("").await.contains("class=\"labels\""));
    let (recorder, now) = (site.counters.recorder(), Timestamp::now());
    site.record("/", now, 4000);
    let count = |label: &str, values: &[(Option<&str>, u32)]| {
        let of_label = recorder.label_values(label).expect("a name");
        for (value, weight) in values {
            let weight = NonZeroU32::new(*weight).expect("not 0");
            let noted = of_label.note(*value, now, weight);
            recorder.record_at(of_label.counter(noted), None, now, weight);
        }
    };
    let script = format!("odd {SCRIPT}");
    count(
        "referrer",
        &[(Some("news.example"), 3000), (Some(&script), 700), (None, 200), (Some("(odd)"), 100)],
    );
    count("plan", &[(Some("free"), 4000)]);
    site.flush().await;
    let page = site.page("").await;
    let (pages, labels) = page.split_once("<div class=\"labels\">").expect("panels");
    for part in [
        ">Referrers today<",
        ">plan today<",
        "odd &lt;script",
        ">3,000, 75 %<",
        "200 without a value; 100 with other values.",
        "counter?counter=label%3Areferrer%3Anews.example",
    ] {
        assert!(labels.contains(part), "{part} in {labels}");
    }
    assert!(!pages.contains("news.example") && !pages.contains("label:"), "{pages}");
    let own = site.page("/counter?counter=label%3Areferrer%3Anews.example").await;
    assert!(
        own.contains("<h1><bdi>label:referrer:news.example</bdi></h1>") && own.contains(">3,000<"),
        "{own}"
    );
}

#[tokio::test]
async fn sources_have_a_table_if_they_exist() {
    let site = Site::new();
    assert!(!site.page("").await.contains("sources-title"));
    let sources = site.counters.sources();
    let hit = [site.counters.recorder().counter("a").hit()];
    let mut first = sources.open(format!("log {SCRIPT}").parse().expect("a name")).await.expect("memory");
    first.set_end(5000);
    for position in 0..1234 {
        first.record(position..position + 1, Timestamp::now().minus(600), &hit);
    }
    first.malformed(1234..1235);
    assert_eq!(first.commit().await.expect("memory takes all"), Commit::Done);
    let page = site.page("").await;
    let (_, table) = page.split_once("<tbody id=\"sources\"").expect("a table");
    let (rows, _) = table.split_once("</tbody>").expect("the end of a table");
    for cell in [">1,235<", ">1,234<", ">3,765, 10 min<", "log &lt;script"] {
        assert!(rows.contains(cell), "{cell} in {rows}");
    }
    for number in 0..30 {
        let mut source =
            sources.open(format!("log {number}").parse().expect("a name")).await.expect("memory");
        source.skip(0..1, Skip::Excluded);
        assert_eq!(source.commit().await.expect("memory takes all"), Commit::Done);
    }
    let page = site.page("").await;
    assert!(page.contains("6 more in api/sources"), "{page}");
}

#[tokio::test]
async fn pages_requests_and_facets_have_separate_tables() {
    let mut site = Site::new();
    for (counter, count) in [
        ("hits", 10),
        ("/", 9),
        ("(other)", 1),
        ("status:2xx", 8),
        ("status:4xx", 2),
        ("agent:bot", 2),
        ("method:GET", 10),
        ("grpc:not_found", 1),
    ] {
        site.record(counter, Timestamp::now(), count);
    }
    site.flush().await;
    let page = site.page("").await;
    let names = |id: &str| {
        let (_, table) = page.split_once(&format!("<tbody id=\"{id}\"")).expect("a table");
        let (rows, _) = table.split_once("</tbody>").expect("the end of a table");
        let names = rows.split("<a data-go href=\"").skip(1);
        names.map(|rest| rest.split(['>', '<']).nth(3).expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("rows"), ["/", "(other)"]);
    assert_eq!(names("requests"), ["hits"]);
    assert_eq!(names("agents"), ["agent:bot"]);
    assert_eq!(names("statuses"), ["status:2xx", "status:4xx"]);
    assert_eq!(names("methods"), ["method:GET"]);
    assert_eq!(names("grpc"), ["grpc:not_found"]);
    let (_, top) = page.split_once("id=\"top\"").expect("a list");
    let (top, _) = top.split_once("</ol>").expect("its end");
    assert!(top.contains("\"><bdi>/</bdi></a>") && !top.contains(':'), "{top}");
    assert!(page.contains("1–2 of 2") && page.contains("80 %"), "{page}");
}

#[tokio::test]
async fn the_page_shows_hints_and_the_share_of_requests_without_a_visitor() {
    let site = Site::new();
    let recorder = site.counters.recorder();
    let hit = recorder.counter("hits").hit();
    for n in 0..10_u8 {
        let visitor = (n < 6).then(|| VisitorKey::new([7; 16]).visitor(&[&[n]]));
        recorder.request(&[hit.visitor(visitor)], Agent::Human);
    }
    recorder.request(&[hit], Agent::Bot);
    let page = site.page("").await;
    assert!(page.contains("40 % of human requests to this process are unidentified"), "{page}");
    assert!(page.contains("Counting normally"), "{page}");
    recorder.raise_hint(Hint::new("one_address", "All came from one address.", "Trust the proxy."));
    let page = site.page("").await;
    assert!(page.contains("All came from one address. See the log for a fix."), "{page}");
    assert!(!page.contains("Trust the proxy."), "{page}");
    assert!(page.contains("role=\"alert\"") && !page.contains("Counting normally"), "{page}");
}

#[tokio::test]
async fn counter_names_are_always_escaped() {
    let mut site = Site::new();
    for name in [SCRIPT, "\"><img src=x onerror=alert(1)>", "' onfocus='alert(1)", "javascript:alert(1)"] {
        site.record(name, Timestamp::now(), 5);
    }
    site.flush().await;
    let script = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    for path in [
        String::new(),
        format!("?counter={script}&q={script}&sort={script}&zone={script}"),
        format!("?to={script}"),
        format!("?counter=hits&counter={script}&period=1min&by=second"),
        format!("/counter?counter={script}"),
        format!("/counter?counter={script}{script}"),
        format!("/parts?counter={script}"),
        "?q=%22%3E%3Cimg+src%3Dx+onerror%3Dalert(1)%3E".to_owned(),
    ] {
        let response = site.get(&path).await;
        let page = &response.body;
        let scripts: Vec<_> = page.split("<script").skip(1).collect();
        assert!(
            scripts.iter().all(|script| script.starts_with(" src=\"/admin/stats/assets/")),
            "{path}: {page}"
        );
        assert!(!page.contains("<img") && !page.contains("\"javascript:"), "{path}: {page}");
        assert!(!page.contains("' onfocus") && !page.contains("\" onfocus"), "{path}: {page}");
    }
}

#[tokio::test]
async fn a_name_does_not_change_the_direction_of_surrounding_text() {
    let mut site = Site::new();
    // A right-to-left override, and an end of an isolate before the start of an isolate.
    let (name, shown) = ("/\u{202e}gpj.exe\u{2069}\u{2067}/", "/\u{fffd}gpj.exe\u{fffd}\u{fffd}/");
    site.record(name, Timestamp::now(), 5);
    site.flush().await;
    let encoded = super::site::encode(name);
    for path in [String::new(), format!("/counter?counter={encoded}"), format!("/parts?counter={encoded}")] {
        let page = site.page(&path).await;
        assert!(page.contains(&format!("<bdi>{shown}</bdi>")), "{path}: {page}");
        // Form values are submitted, so they must be unchanged.
        let visible: String =
            page.split("value=\"").map(|rest| rest.split_once('"').map_or(rest, |it| it.1)).collect();
        assert!(!visible.contains(name), "{path}: {visible}");
    }
}

#[tokio::test]
async fn an_invalid_number_or_time_in_a_url_is_a_bad_request() {
    let site = Site::new();
    for path in ["", "/counter", "/parts", "/counter/parts"] {
        for wrong in [
            "span=x",
            "span=0",
            "to=-1",
            "to=2026-13-01",
            "to=99999999999999999999",
            "ago=x",
            "against=yesterday",
            "against=18446744073709551615",
            "page=0",
        ] {
            let response = site.get(&format!("{path}?counter=hits&{wrong}")).await;
            assert_eq!(response.status, StatusCode::BAD_REQUEST, "{path}?{wrong}: {}", response.body);
            assert!(response.body.contains("must be"), "{path}?{wrong}: {}", response.body);
        }
        let response = site.get(&format!("{path}?counter=hits&span=&to=&ago=&against=&page=")).await;
        assert_ne!(response.status, StatusCode::BAD_REQUEST, "{path}: {}", response.body);
    }
}

#[tokio::test]
async fn the_pages_have_no_inline_code_and_a_strict_policy() {
    let mut site = Site::new();
    site.record("hits", Timestamp::now(), 5);
    site.flush().await;
    for path in ["", "/counter?counter=hits", "/parts", "/counter?counter=nothing"] {
        let response = site.get(path).await;
        let policy = response.headers[header::CONTENT_SECURITY_POLICY].to_str().expect("text");
        assert_eq!(
            policy,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        );
        assert_eq!(response.headers[header::CACHE_CONTROL], "no-store", "{path}");
        for inline in [" style=", "<style", " onclick=", " onload="] {
            assert!(!response.body.contains(inline), "{inline} in {path}");
        }
    }
}

#[tokio::test]
async fn style_and_script_urls_contain_a_hash_and_are_immutable() {
    let site = Site::new();
    let page = site.page("").await;
    for (prefix, kind) in
        [("href=\"", "text/css; charset=utf-8"), ("src=\"", "text/javascript; charset=utf-8")]
    {
        let path = linked(&page, prefix);
        let response = site.get(&path).await;
        assert_eq!(
            (response.status, &response.headers[header::CONTENT_TYPE]),
            (StatusCode::OK, &kind.parse().expect("a type"))
        );
        assert_eq!(response.headers[header::CACHE_CONTROL], "private, max-age=31536000, immutable");
        let tag = response.headers[header::ETAG].to_str().expect("text");
        let again = site.send(&path, &[("if-none-match", tag)]).await;
        assert_eq!((again.status, again.body.as_str()), (StatusCode::NOT_MODIFIED, ""));
        let (_, name) = path.rsplit_once('/').expect("a path");
        let old = site.get(&format!("/assets/0123/{name}")).await;
        assert_eq!(
            (old.status, &old.headers[header::CACHE_CONTROL]),
            (StatusCode::OK, &"no-cache".parse().expect("a value"))
        );
    }
    assert_eq!(site.get("/assets/0123/other.css").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn valid_url_parameters_are_applied_and_unknown_values_are_ignored() {
    let mut site = Site::new();
    for counter in ["hits", "/", "/articles"] {
        site.record(counter, Timestamp::now(), 5);
    }
    site.flush().await;
    let page = site.page("?period=24h&uniques=1&counter=%2F&q=art&sort=name&zone=utc").await;
    for part in [
        "Hits per hour",
        "visitors of /",
        "data-zone=\"utc\"",
        "value=\"art\"",
        "1–1 of 1",
        "aria-sort=\"ascending\"",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    for query in [
        "precision=7",
        "precision=",
        "page=99999999999",
        "counter=%00",
        "ago=18446744073709551615",
        "against=9999-12-30&to=1970-01-01",
        "%",
        "&&",
        "sort=x",
        "span=4294967295",
        "page=18446744073709551615",
    ] {
        assert_eq!(site.get(&format!("?{query}")).await.status, StatusCode::OK, "{query}");
        assert_eq!(site.get(&format!("/counter?{query}")).await.status, StatusCode::OK, "{query}");
    }
}

#[tokio::test]
async fn a_counter_is_unknown_before_the_first_hit_and_zero_afterwards() {
    let mut site = Site::new();
    let today = site.today();
    site.record("hits", today.minus(10 * 86_400), 7);
    site.record("hits", today.minus(8 * 86_400), 9);
    site.flush().await;
    let page = site.page("?period=20d").await;
    let (_, table) = page.split_once("id=\"twin\"").expect("a table");
    let cells = table.split("<td>").skip(1).map(|cell| cell.split_once("</td>").expect("its end").0);
    let cells: Vec<_> = cells.take(20).collect();
    for (days_ago, text) in [(11, "unknown"), (10, "7"), (9, "0"), (8, "9"), (2, "0"), (0, "0 so far")] {
        assert_eq!(cells[days_ago], text, "{days_ago} days ago");
    }
}

#[tokio::test]
async fn finer_precisions_know_a_counter_that_started_on_an_earlier_day() {
    let mut site = Site::new();
    site.record("hits", Timestamp::now().minus(3 * 86_400), 7);
    site.flush().await;
    assert!(!site.page("?period=30min").await.contains("unknown"), "it counted long before");
}

#[tokio::test]
async fn a_time_can_be_compared_with_any_other_of_equal_length() {
    let mut site = Site::new();
    let today = site.today();
    let recorder = site.counters.recorder();
    let (hits, key) = (recorder.counter("hits"), VisitorKey::new([7; 16]));
    // A hit ten days ago, two hits eleven days ago, and so on. All of them have different visitors.
    for ago in 10..=100_u64 {
        for person in 0..ago - 9 {
            let visitor = key.visitor(&[&ago.to_le_bytes(), &person.to_le_bytes()]);
            recorder.record_at(hits, Some(visitor), today.minus(86_400 * ago), NonZeroU32::MIN);
        }
    }
    site.record("/", today.minus(86_400 * 15), 1);
    site.flush().await;
    let cell = |page: &str, days_ago: usize| {
        let (_, table) = page.split_once("id=\"twin\"").expect("a table");
        let row = table.split("<tr>").nth(days_ago + 1).expect("a row");
        let cells =
            row.split("<td>").skip(1).map(|cell| cell.split_once("</td>").expect("its end").0.to_owned());
        cells.collect::<Vec<_>>()
    };
    // The seven days until ten days ago, and the same days 28 days earlier.
    let to = today.minus(86_400 * 9);
    for other in [format!("ago={}", 28 * 86_400), format!("against={}", to.minus(28 * 86_400))] {
        let path = format!("?period=7d&to={to}&{other}&counter=hits&counter=%2F&uniques=1");
        for path in [path.clone(), format!("/parts{path}")] {
            let page = site.page(&path).await;
            assert_eq!(cell(&page, 0), ["1", "0", "1", "29"], "{path}");
            assert_eq!(cell(&page, 6)[0..4], ["7", "unknown", "7", "35"], "{path}");
            assert!(page.contains("<bdi>hits (comparison)</bdi></th>"), "{page}");
            let (_, sums) = page.split_once("id=\"sums\"").expect("sums");
            assert!(sums.contains(" vs. <time"), "{sums}");
            assert!(sums.contains("28 <span class=\"down\">−87 %</span> from 224<"), "{sums}");
            // The second counter is unknown in the earlier time.
            assert!(sums.contains("1 from unknown<"), "{sums}");
        }
        let page = site.page(&path).await;
        assert!(page.contains(" Comparison period: 22"), "{page}");
        assert!(page.contains("<details id=\"compare-details\" class=\"compare\" open>"), "{page}");
        let chosen = page.contains("aria-current=\"true\">4 weeks earlier</a>");
        assert_eq!(chosen, other.starts_with("ago"), "{page}");
    }
    let usual = site.page("?period=7d").await;
    assert!(
        !usual.contains("(comparison)</bdi></th>")
            && usual.contains("aria-current=\"true\">No comparison</a>"),
        "{usual}"
    );
}

#[tokio::test]
async fn unchanged_parts_are_not_sent_again() {
    let mut site = Site::new();
    // In this site, it is noon, so the day will not end before the test does.
    let parts = "/parts?period=7d";
    site.record("hits", site.today().minus(86_400), 7);
    site.flush().await;
    let first = site.get(parts).await;
    assert!(first.body.contains("id=\"plot\""), "{}", first.body);
    let tag = first.headers[header::ETAG].to_str().expect("text");
    let again = site.send(parts, &[("if-none-match", tag)]).await;
    assert_eq!((again.status, again.body.as_str()), (StatusCode::NOT_MODIFIED, ""));
    site.record("hits", site.today().minus(86_400), 1);
    site.flush().await;
    let changed = site.send(parts, &[("if-none-match", tag)]).await;
    assert_eq!(changed.status, StatusCode::OK);
    assert_ne!(changed.headers[header::ETAG], first.headers[header::ETAG]);
    assert!(!site.page("").await.contains("/api/live"));
}

#[tokio::test]
async fn the_dashboard_reports_an_unavailable_store() {
    let mut redis = RedisServer::start();
    let counters = Counters::builder(store(&redis.url()).await).build().expect("the defaults are fine");
    let site = Site {
        router: routed(counters.stats()),
        counters: Counters::builder(MemoryStore::new()).build().expect("fine"),
    };
    redis.stop();
    for path in ["", "/counter?counter=hits", "/parts"] {
        let response = site.get(path).await;
        assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert!(response.body.contains("Data unavailable") && response.body.contains("id=\"status\""));
    }
}

#[tokio::test]
async fn two_thousand_counters_are_paginated_and_the_page_is_small() {
    let mut site = Site::full();
    site.flush().await;
    let mut shown = 0;
    for leaf in 1..=80 {
        let page = site.page(&format!("?sort=name&page={leaf}")).await;
        shown += page.matches("class=\"spark\"").count();
    }
    assert_eq!(shown, 1999, "all but `hits`");
    let page = site.page("").await;
    let (style, script) =
        (site.page(&linked(&page, "href=\"")).await, site.page(&linked(&page, "src=\"")).await);
    let lines: String = (1..6).map(|number| format!("&counter=%2Fpage%2F{number}")).collect();
    for state in [
        String::new(),
        format!("?period=2min&by=second&counter=hits{lines}"),
        "?period=120h&uniques=1&zone=utc&sort=name&page=2".to_owned(),
    ] {
        let page = site.page(&state).await;
        let weight = page.len() + style.len() + script.len();
        eprintln!(
            "{weight} bytes: page {}, style {}, script {}; {state}",
            page.len(),
            style.len(),
            script.len()
        );
        assert!(weight < 100_000, "{weight} bytes of {state}");
    }
}

#[tokio::test]
async fn pages_with_two_thousand_counters_need_few_round_trips() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.address()).await;
    let mut counters = Counters::builder(store(&proxy.url()).await).build().expect("the defaults are fine");
    fill(&counters.recorder());
    counters.flush().await.expect("Redis takes all");
    let router = routed(counters.stats());
    for (path, max) in [
        ("", 4),
        ("?sort=uniques", 5),
        ("?sort=change", 5),
        ("?precision=3600&uniques=1&forecast=1", 4),
        ("/counter?counter=hits&uniques=1", 2),
        ("/counter?counter=hits&uniques=1&precision=3600&ago=86400", 2),
        ("/parts", 1),
    ] {
        // The pause must be longer than the pause between two commands of the same page. If the machine is
        // busy, it might not be, so we retry with longer pauses. A command that waits for a reply does not
        // count as a pause.
        let mut fewest = u64::MAX;
        for pause in [200, 800, 3000] {
            proxy.reply_when_idle(Duration::from_millis(pause));
            let before = proxy.round_trips();
            assert_eq!(send(&router, path, &[]).await.status, StatusCode::OK);
            fewest = fewest.min(proxy.round_trips() - before);
            if fewest <= max {
                break;
            }
        }
        assert!(fewest <= max, "{fewest} for {path:?}");
    }
}

#[tokio::test]
async fn all_counters_can_be_sorted_by_visitors() {
    let mut site = Site::new();
    let (now, key) = (Timestamp::now(), VisitorKey::new([7; 16]));
    let recorder = site.counters.recorder();
    for number in 0..1990_u32 {
        // The counters with the most visitors have the fewest hits.
        let people = match number {
            777 => 40,
            1234 => 30,
            5 => 20,
            _ => 1,
        };
        let counter = recorder.counter(&format!("/page/{number}"));
        for person in 0..people {
            recorder.record_at(counter, Some(key.visitor(&[&[person]])), now, NonZeroU32::MIN);
        }
        recorder.record_at(counter, None, now, NonZeroU32::new(100 - u32::from(people)).expect("not 0"));
    }
    site.flush().await;
    let page = site.page("?sort=uniques").await;
    let (_, rows) = page.split_once("id=\"rows\"").expect("a table");
    let names = rows.split("class=\"name\"").skip(1).map(|row| {
        let (_, name) = row.split_once("<bdi>").expect("a name");
        name.split_once("</bdi>").expect("its end").0
    });
    assert_eq!(names.take(3).collect::<Vec<_>>(), ["/page/777", "/page/1234", "/page/5"]);
    assert!(!page.contains("Search to narrow"), "the order is what was asked for");
}

#[tokio::test]
async fn the_chart_shows_a_forecast_and_anomalies_on_request() {
    let mut site = Site::new();
    let today = site.today();
    for ago in 1..=100 {
        site.record("hits", today.minus(86_400 * ago), if ago == 30 { 900 } else { 20 });
    }
    site.flush().await;
    let with_forecast = site.page("?precision=86400&forecast=1").await;
    for part in [
        "Forecast from 100 complete values",
        "MASE",
        "One past value, marked ◇, was unusual.",
        "<td>900, unusual</td>",
        "<th scope=\"col\" class=\"number expected\"><bdi>hits (forecast)</bdi></th>",
        "class=\"mark\"",
        "class=\"band\"",
        "hits (forecast) for the next 14",
        "aria-current=\"true\">Forecast</a>",
    ] {
        assert!(with_forecast.contains(part), "{part} in {with_forecast}");
    }
    assert_eq!(
        with_forecast.matches("<td>still to come</td><td>20 (20 to 20)</td>").count(),
        14,
        "{with_forecast}"
    );
    assert_eq!(
        site.page("/parts?precision=86400&forecast=1").await.matches("id=\"outlook\" data-part").count(),
        1
    );
    // A past time is displayed without a forecast, but with marked anomalies.
    let past = format!("?precision=86400&forecast=1&span=30&to={}", today.minus(20 * 86_400));
    let past = site.page(&past).await;
    assert!(past.contains("900, unusual") && !past.contains("still to come"), "{past}");
    let usual = site.page("?precision=86400").await;
    for part in ["expected", "unusual", "class=\"band\"", "id=\"outlook\""] {
        assert!(!usual.contains(part), "{part} in {usual}");
    }
}

#[tokio::test]
async fn a_short_history_is_reported_instead_of_a_forecast() {
    let mut site = Site::new();
    site.record("hits", site.today().minus(5 * 86_400), 7);
    site.flush().await;
    let page = site.page("?precision=86400&forecast=1").await;
    let reason = "No forecast yet: a forecast needs 20 finished buckets, but there are only 5.";
    assert!(page.contains(reason) && !page.contains("still to come"), "{page}");
    assert_eq!(site.get("?forecast=1&counter=nobody").await.status, StatusCode::OK);
}

fn linked(page: &str, prefix: &str) -> String {
    let (_, path) = page.split_once(&format!("{prefix}/admin/stats/assets")).expect("a link");
    format!("/assets{}", path.split_once('"').expect("its end").0)
}

struct Site {
    counters: Counters,
    router: Router,
}

struct ResponseText {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Site {
    /// Creates a site where it is noon, so that no day ends while a test runs.
    fn new() -> Self {
        let counters = Counters::builder(MemoryStore::new()).utc_offset(noon_offset()).build();
        let counters = counters.expect("the offset is one of whole hours");
        let router = routed(counters.stats());
        Self { counters, router }
    }

    /// Creates a site with the maximum number of counters. All of them have a hit in each of the latest
    /// minutes.
    fn full() -> Self {
        let site = Self::new();
        fill(&site.counters.recorder());
        site
    }

    /// Returns the start of the current day.
    fn today(&self) -> Timestamp {
        let days = self.counters.stats().grid().counts.of_width(86_400).expect("days are kept");
        days.precision.bucket(Timestamp::now()).start
    }

    fn record(&mut self, counter: &str, at: Timestamp, count: u32) {
        let recorder = self.counters.recorder();
        recorder.record_at(recorder.counter(counter), None, at, NonZeroU32::new(count).expect("not 0"));
    }

    async fn flush(&mut self) {
        self.counters.flush().await.expect("memory takes all");
    }

    async fn get(&self, path: &str) -> ResponseText {
        self.send(path, &[]).await
    }

    async fn send(&self, path: &str, headers: &[(&str, &str)]) -> ResponseText {
        send(&self.router, path, headers).await
    }

    async fn page(&self, path: &str) -> String {
        let response = self.get(path).await;
        assert_eq!(response.status, StatusCode::OK, "{path}: {}", response.body);
        response.body
    }
}

fn fill(recorder: &counter_core::Recorder) {
    let now = Timestamp::now();
    let key = VisitorKey::new([7; 16]);
    let names =
        (0..2000).map(|number| if number == 0 { "hits".to_owned() } else { format!("/page/{number}") });
    for (number, name) in names.enumerate() {
        let counter = recorder.counter(&name);
        for minute in 0..20 {
            let visitor = key.visitor(&[format!("{}", number + minute).as_bytes()]);
            recorder.record_at(counter, Some(visitor), now.minus(60 * minute as u64), NonZeroU32::MIN);
        }
    }
}

fn routed(stats: counter_core::Stats) -> Router {
    Router::new().nest("/admin/stats", counter_admin::router(stats, Access::open()))
}

async fn send(router: &Router, path: &str, headers: &[(&str, &str)]) -> ResponseText {
    let mut request = Request::get(format!("/admin/stats{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).expect("a path");
    let (head, body) = router.clone().oneshot(request).await.expect("a router answers").into_parts();
    let body = body.collect().await.expect("a body in memory").to_bytes();
    let body = String::from_utf8(body.into()).expect("text");
    ResponseText { status: head.status, headers: head.headers, body }
}
