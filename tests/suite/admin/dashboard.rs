//! The dashboard pages: contents, permissions and size.

use std::num::NonZeroU32;

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
use tests::{RedisServer, noon_offset};
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
    for part in ["1,234", "/a b&#38;c", "2.8 %", "97.2 %", "<h1>Visits</h1>"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let own = site.page("/counter?counter=%2Fa+b%26c").await;
    for part in ["<h1><bdi>/a b&amp;c</bdi></h1>", ">234<", "19.0 %"] {
        assert!(own.contains(part), "{part} in {own}");
    }
}

#[tokio::test]
async fn labels_have_separate_panels_and_values_are_not_pages() {
    let mut site = Site::new();
    assert!(!site.page("").await.contains("id=\"label-"));
    let (recorder, now) = (site.counters.recorder(), Timestamp::now());
    site.record("/", now, 4000);
    let count = |label: &str, values: &[(Option<&str>, u32)]| {
        let of_label = recorder.label_values(label).expect("a name");
        for (value, weight) in values {
            let weight = NonZeroU32::new(*weight).expect("not 0");
            let noted = of_label.note(*value, weight);
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
    let (before, rest) = page.split_once("<tbody id=\"rows\"").expect("a table");
    let (rows, after) = rest.split_once("</tbody>").expect("its end");
    let labels = [before, after].concat();
    for part in [
        ">Referrers<",
        ">plan<",
        "odd &#60;script",
        ">3,000</span>\n<span class=\"share\">75.0 %<",
        "200 direct; 100 with other values.",
        "counter?counter=label%3Areferrer%3Anews.example",
    ] {
        assert!(labels.contains(part), "{part} in {labels}");
    }
    assert!(!rows.contains("news.example") && !rows.contains("label:"), "{rows}");
    let own = site.page("/counter?counter=label%3Areferrer%3Anews.example").await;
    assert!(own.contains("<h1><bdi>referrer: news.example</bdi></h1>") && own.contains(">3,000<"), "{own}");
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
    let list = |start: &str, end: &str, row: &str| {
        let (_, list) = page.split_once(start).expect("a list");
        let (list, _) = list.split_once(end).expect("its end");
        let names = list.split(row).skip(1).map(|row| row.split_once("<span>").expect("a name").1);
        names.map(|name| name.split_once("</span>").expect("its end").0.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list("<tbody id=\"rows\"", "</tbody>", "<a data-go "), ["/", "(other)"]);
    let panel = |id: &str| list(&format!("<ol id=\"{id}\""), "</ol>", "<a data-go ");
    assert_eq!(panel("agents"), ["bot"]);
    assert_eq!(panel("statuses"), ["2xx", "4xx"]);
    assert_eq!(panel("methods"), ["GET"]);
    assert_eq!(panel("grpc"), ["not_found"]);
    // The shares of a panel add up to 100 %.
    for part in [">80.0 %<", ">20.0 %<", "counter?counter=status%3A2xx"] {
        assert!(page.contains(part), "{part} in {page}");
    }
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
    assert!(page.contains("40.0 % of human requests to this process are unidentified"), "{page}");
    assert!(
        page.contains("Counting normally") && !page.contains("people now"),
        "nobody is not known: {page}"
    );
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
        format!("?counter={script}&zone={script}"),
        format!("/list?counter={script}&q={script}&sort={script}"),
        format!("/list?label={script}"),
        format!("?period={script}"),
        format!("?period=custom&from={script}&to={script}"),
        format!("?counter=hits&counter={script}&period=1min&by=second"),
        format!("/counter?counter={script}"),
        format!("/counter?counter={script}{script}"),
        format!("/parts?counter={script}"),
        "/list?q=%22%3E%3Cimg+src%3Dx+onerror%3Dalert(1)%3E".to_owned(),
    ] {
        let response = site.get(&path).await;
        let page = &response.body;
        let scripts: Vec<_> = page.split("<script").skip(1).collect();
        assert!(
            scripts.iter().all(|script| script.starts_with(" src=\"/admin/stats/assets/")),
            "{path}: {page}"
        );
        assert!(!page.contains("<img") && !page.contains("href=\"javascript:"), "{path}: {page}");
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
        assert!(page.contains(&format!(">{shown}</")), "{path}: {page}");
        // Form values are submitted, so they must be unchanged.
        let visible: String =
            page.split("value=\"").map(|rest| rest.split_once('"').map_or(rest, |it| it.1)).collect();
        assert!(!visible.contains(name), "{path}: {visible}");
    }
}

#[tokio::test]
async fn an_invalid_number_or_time_in_a_url_is_a_bad_request() {
    let site = Site::new();
    for path in ["", "/counter", "/parts", "/counter/parts", "/list"] {
        for wrong in [
            "period=x",
            "period=0d",
            "period=custom&from=0&to=-1",
            "period=custom&from=0&to=2026-13-01",
            "period=custom&from=0&to=99999999999999999999",
            "period=custom&from=7&to=7",
            "period=custom&from=2026-11-20",
            "by=x",
            "compare=yesterday",
        ] {
            let response = site.get(&format!("{path}?counter=hits&{wrong}")).await;
            assert_eq!(response.status, StatusCode::BAD_REQUEST, "{path}?{wrong}: {}", response.body);
            assert!(response.body.contains("must be"), "{path}?{wrong}: {}", response.body);
        }
        let response = site.get(&format!("{path}?counter=hits&period=&from=&to=&by=&compare=&page=")).await;
        assert_ne!(response.status, StatusCode::BAD_REQUEST, "{path}: {}", response.body);
    }
    for wrong in ["page=0", "label=a:b"] {
        assert_eq!(site.get(&format!("/list?{wrong}")).await.status, StatusCode::BAD_REQUEST, "{wrong}");
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
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
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
    let page = site.page("?period=24h&show=people&counter=%2F&zone=local").await;
    for part in ["People per hour", "data-local"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let page = site.page("/list?period=24h&q=art&sort=name").await;
    for part in ["value=\"art\"", "1–1 of 1", "aria-sort=\"ascending\""] {
        assert!(page.contains(part), "{part} in {page}");
    }
    for query in [
        "precision=7",
        "precision=",
        "page=99999999999",
        "counter=%00",
        "period=custom&from=9999-12-29&to=9999-12-30",
        "period=custom&from=1970-01-01&to=1970-01-01&compare=year",
        "period=12mo&by=7",
        "%",
        "&&",
        "sort=x",
        "period=3660d&by=day",
        "page=18446744073709551615",
    ] {
        assert_eq!(site.get(&format!("?{query}")).await.status, StatusCode::OK, "{query}");
        assert_eq!(site.get(&format!("/counter?{query}")).await.status, StatusCode::OK, "{query}");
        assert_eq!(site.get(&format!("/list?{query}")).await.status, StatusCode::OK, "{query}");
    }
}

#[tokio::test]
async fn a_counter_is_unknown_before_the_first_hit_and_zero_afterwards() {
    let mut site = Site::new();
    let today = site.today();
    site.record("hits", today.minus(10 * 86_400), 7);
    site.record("hits", today.minus(8 * 86_400), 9);
    site.flush().await;
    let page = site.page("?period=20d&compare=none").await;
    let (_, table) = page.split_once("id=\"twin\"").expect("a table");
    let cells = table.split("<td>").skip(1).map(|cell| cell.split_once("</td>").expect("its end").0);
    let cells: Vec<_> = cells.take(20).collect();
    for (days_ago, text) in [(11, "–"), (10, "7"), (9, "0"), (8, "9"), (2, "0"), (0, "0 so far")] {
        assert_eq!(cells[days_ago], text, "{days_ago} days ago");
    }
}

#[tokio::test]
async fn finer_precisions_know_a_counter_that_started_on_an_earlier_day() {
    let mut site = Site::new();
    site.record("hits", Timestamp::now().minus(3 * 86_400), 7);
    site.flush().await;
    let page = site.page("?period=30min&compare=none").await;
    assert!(page.contains("<td>0</td>") && !page.contains("<td>–</td>"), "it counted long before: {page}");
}

#[tokio::test]
async fn unchanged_parts_are_not_sent_again() {
    let mut site = Site::new();
    // In this site, it is noon, so the day will not end before the test does.
    let parts = "/parts?period=7d";
    site.record("hits", site.today().minus(86_400), 7);
    site.flush().await;
    let page = site.page("?period=7d").await;
    assert_eq!(
        page.matches(" data-part ").count() + page.matches(" data-part>").count(),
        tags(&page).len(),
        "{page}"
    );
    for path in [parts, "?period=7d"] {
        // The page has texts for browsers without scripts.
        let page = site.page("?period=7d").await;
        let known = format!("{} {}", tags(&page).join(" "), tags(&site.page(parts).await).join(" "));
        let same = site.send(path, &[("x-known-parts", &known)]).await;
        assert_eq!((same.status, same.body.as_str()), (StatusCode::NO_CONTENT, ""), "{path}");
        site.record("hits", site.today().minus(86_400), 1);
        site.flush().await;
        let changed = site.send(path, &[("x-known-parts", &known)]).await;
        assert_eq!(
            (changed.status, &changed.headers[header::CACHE_CONTROL]),
            (StatusCode::OK, &"no-store".parse().expect("text"))
        );
        assert!(changed.body.contains("id=\"sum-0\""), "{path}: {}", changed.body);
        // The status and the axis are the same.
        assert!(!changed.body.contains("id=\"status\""), "{path}: {}", changed.body);
        assert!(
            changed.body.contains("<g id=\"times\" data-part data-same></g>"),
            "{path}: {}",
            changed.body
        );
    }
    assert!(!site.page("").await.contains("/api/live"));
}

#[tokio::test]
async fn only_the_changed_rows_of_an_open_list_are_sent() {
    let mut site = Site::new();
    site.record("/", site.today().minus(86_400), 7);
    site.flush().await;
    let path = "/list?period=7d";
    let page = site.page(path).await;
    assert!(page.contains(&format!("data-parts=\"/admin/stats{path}\"")), "{page}");
    let known = tags(&page).join(" ");
    assert_eq!(site.send(path, &[("x-known-parts", &known)]).await.status, StatusCode::NO_CONTENT);
    site.record("/", site.today().minus(86_400), 2);
    site.flush().await;
    let changed = site.send(path, &[("x-known-parts", &known)]).await.body;
    assert!(changed.contains("id=\"rows\"") && changed.contains("<td class=\"number\">9</td>"), "{changed}");
    assert!(!changed.contains("id=\"table-pages\""), "{changed}");
}

#[tokio::test]
async fn a_hit_changes_a_small_part_of_a_page() {
    let mut site = Site::new();
    let now = Timestamp::now();
    for minute in 0..120 {
        site.record("hits", now.minus(60 * minute), 1000);
    }
    site.flush().await;
    for period in ["1h", "today", "30d"] {
        let page = site.page(&format!("/parts?period={period}")).await;
        site.record("hits", Timestamp::now(), 1);
        site.flush().await;
        let known = tags(&page).join(" ");
        let changed = site.send(&format!("/parts?period={period}"), &[("x-known-parts", &known)]).await;
        let size = known.len() + changed.body.len();
        assert!(
            size < 7000 && 3 * size < 2 * page.len(),
            "{size} of {} bytes, {period}: {}",
            page.len(),
            changed.body
        );
    }
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
        assert!(response.body.contains("id=\"status\"") && !response.body.contains("os error"), "{path}");
    }
}

fn tags(page: &str) -> Vec<&str> {
    page.split("data-tag=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

pub(super) fn linked(page: &str, prefix: &str) -> String {
    let (_, path) = page.split_once(&format!("{prefix}/admin/stats/assets")).expect("a link");
    format!("/assets{}", path.split_once('"').expect("its end").0)
}

pub(super) struct Site {
    pub(super) counters: Counters,
    pub(super) router: Router,
}

pub(super) struct ResponseText {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Site {
    /// Creates a site where it is noon, so that no day ends while a test runs.
    pub(super) fn new() -> Self {
        let counters = Counters::builder(MemoryStore::new()).utc_offset(noon_offset()).build();
        let counters = counters.expect("the offset is one of whole hours");
        let router = routed(counters.stats());
        Self { counters, router }
    }

    /// Returns the start of the current day.
    pub(super) fn today(&self) -> Timestamp {
        let days = self.counters.stats().grid().counts.of_width(86_400).expect("days are kept");
        days.precision.bucket(Timestamp::now()).start
    }

    pub(super) fn record(&mut self, counter: &str, at: Timestamp, count: u32) {
        let recorder = self.counters.recorder();
        recorder.record_at(recorder.counter(counter), None, at, NonZeroU32::new(count).expect("not 0"));
    }

    pub(super) async fn flush(&mut self) {
        self.counters.flush().await.expect("memory takes all");
    }

    pub(super) async fn get(&self, path: &str) -> ResponseText {
        self.send(path, &[]).await
    }

    async fn send(&self, path: &str, headers: &[(&str, &str)]) -> ResponseText {
        send(&self.router, path, headers).await
    }

    pub(super) async fn page(&self, path: &str) -> String {
        let response = self.get(path).await;
        assert_eq!(response.status, StatusCode::OK, "{path}: {}", response.body);
        response.body
    }
}

pub(super) fn routed(stats: counter_core::Stats) -> Router {
    Router::new().nest("/admin/stats", counter_admin::router(stats, Access::open()))
}

pub(super) async fn send(router: &Router, path: &str, headers: &[(&str, &str)]) -> ResponseText {
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
