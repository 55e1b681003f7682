//! The file exports of the admin router.

use axum::Router;
use axum::body::Body;
use counter_core::Timestamp;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tests::RedisServer;
use tokio::task::block_in_place;
use tower::ServiceExt;

use super::site::{Site, encode, fetch, send, site, site_without_redis};
use crate::support::{precision, store};

/// Names that can break other CSV writers.
const NAMES: [&str; 5] = ["=1+1", "a,b", "plain", "say \"no\"", "zwölf\u{2028}'"];

async fn open(router: &Router, question: &str) -> Response<Body> {
    let request = Request::get(format!("/admin/stats/api/export?{question}"));
    let request = request.body(Body::empty()).expect("a path");
    router.clone().oneshot(request).await.expect("a router answers")
}

/// Parses CSV according to RFC 4180.
fn table(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut characters) = (false, text.chars().peekable());
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted => {
                assert_eq!(characters.next(), Some('\n'));
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(row.is_empty() && field.is_empty() && !quoted, "the last line has an end: {text}");
    rows
}

async fn export(mut site: Site) {
    let start = precision(60).bucket(Timestamp::now()).start.minus(600);
    for (name, count) in NAMES.iter().zip(1..) {
        site.record(name, start, count).await;
        site.record(name, start.plus(60), 10 * count).await;
    }
    site.record("old", start.minus(7 * 3600), 1).await;
    let lines = |names: &[&str]| -> Vec<(String, u64, u64)> {
        let number =
            |name: &str| 1 + NAMES.iter().position(|known| *known == name).expect("one of them") as u64;
        let both = |name: &str| {
            let (name, count) = (name.to_owned(), number(name));
            [(name.clone(), start.as_unix(), count), (name, start.plus(60).as_unix(), 10 * count)]
        };
        names.iter().copied().flat_map(both).collect()
    };
    let two = format!("&counter={}&counter={}", encode(NAMES[3]), encode(NAMES[0]));
    for (query, names) in [(String::new(), &NAMES[..]), (two, &[NAMES[3], NAMES[0]])] {
        let csv = fetch(&site.router, &format!("export?precision=60{query}")).await;
        assert_eq!(csv.status, StatusCode::OK, "{}", csv.body);
        assert_eq!(csv.headers[header::CONTENT_TYPE], "text/csv; charset=utf-8; header=present");
        assert_eq!(csv.headers[header::CONTENT_DISPOSITION], "attachment; filename=\"counters-60.csv\"");
        let mut rows = table(&csv.body).into_iter();
        assert_eq!(rows.next().expect("a head"), ["counter", "precision", "start", "count"]);
        let expected = lines(names);
        let rows: Vec<_> = rows.collect();
        let wanted: Vec<_> = expected
            .iter()
            // The apostrophe prevents spreadsheets from parsing the name as a formula. Readers of the file
            // should remove it.
            .map(|(name, start, count)| (name.replace("=1+1", "'=1+1"), start, count))
            .map(|(name, start, count)| vec![name, "60".into(), start.to_string(), count.to_string()])
            .collect();
        assert_eq!(rows, wanted);

        let ndjson = fetch(&site.router, &format!("export?precision=60&format=ndjson{query}")).await;
        assert_eq!(ndjson.headers[header::CONTENT_TYPE], "application/x-ndjson");
        let rows: Vec<Value> =
            ndjson.body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let line = |(name, start, count): &(String, u64, u64)| json!({"counter": name, "precision": 60, "start": start, "count": count});
        assert_eq!(rows, expected.iter().map(line).collect::<Vec<_>>());
    }
    let range = format!("export?precision=60&counter=plain&from={}&to={}", start.plus(60), start.plus(120));
    let csv = fetch(&site.router, &range).await;
    assert_eq!(table(&csv.body)[1..], [["plain", "60", &start.plus(60).to_string(), "30"]]);
}

#[tokio::test]
async fn a_file_has_all_samples_of_all_or_the_given_counters() {
    export(site()).await;
}

#[tokio::test]
async fn a_file_has_all_samples_of_redis() {
    let redis = RedisServer::start();
    export(Site::open(store(&redis.url()).await)).await;
}

#[tokio::test]
async fn without_counters_a_file_has_no_lines() {
    let site = site();
    assert_eq!(fetch(&site.router, "export?precision=60").await.body, "counter,precision,start,count\r\n");
    assert_eq!(fetch(&site.router, "export?precision=60&format=ndjson").await.body, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_streamed_and_aborted_if_a_read_fails() {
    let mut redis = RedisServer::start();
    let mut site = Site::open(store(&redis.url()).await);
    let recorder = site.recorder();
    for number in 0..250 {
        recorder.record(recorder.counter(&format!("counter {number:03}")), None);
    }
    site.counters.flush().await.expect("Redis takes all");

    let mut body = open(&site.router, "precision=86400").await.into_body();
    let mut pages = Vec::new();
    while let Some(frame) = body.frame().await {
        let page = frame.expect("Redis is there").into_data().expect("no trailers");
        pages.push(page.iter().filter(|byte| **byte == b'\n').count());
    }
    assert_eq!(pages, [101, 100, 50], "a page of lines at a time, and the head");

    let mut body = open(&site.router, "precision=86400").await.into_body();
    block_in_place(|| redis.stop());
    body.frame().await.expect("what was read already").expect("it came before the end of Redis");
    body.frame().await.expect("more").expect_err("an incomplete file must not look complete");
}

#[tokio::test]
async fn export_errors_are_reported_before_the_first_line() {
    let (_redis, site) = site_without_redis().await;
    assert_eq!(fetch(&site.router, "export?precision=60").await.status, StatusCode::SERVICE_UNAVAILABLE);
    let site = super::site::site();
    for (question, status, parameter) in [
        ("export", 400, "precision"),
        ("export?precision=60&format=xlsx", 400, "format"),
        ("export?precision=1&from=0&to=10001", 400, "from"),
        ("export?precision=60&counter=nobody", 404, "counter"),
    ] {
        let response = fetch(&site.router, question).await;
        assert_eq!(response.status, status, "{question}: {}", response.body);
        assert_eq!(response.headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.json()["parameter"], parameter, "{question}");
    }
}

#[tokio::test]
async fn names_are_escaped_in_files_of_a_chart() {
    let mut site = site();
    let start = precision(3600).bucket(Timestamp::now()).start.minus(3 * 3600);
    for name in [NAMES[3], "<script>"] {
        for (hour, count) in [(0, 1), (1, 20), (2, 300)] {
            site.record(name, start.plus(3600 * hour).minus(3600), count).await;
        }
    }
    let (from, to) = (start, start.plus(7200));
    let counters = format!("counter={}&counter=%3Cscript%3E", encode(NAMES[3]));
    let view = format!("{counters}&period=custom&from={from}&to={to}&by=hour");
    let file = send(&site.router, &format!("/admin/stats/chart.csv?{view}"), None).await;
    let name = file.headers[header::CONTENT_DISPOSITION].to_str().expect("text");
    assert!(name.starts_with("attachment; filename=\"say-no-20") && name.contains("-to-20"), "{name}");
    let rows = table(&file.body);
    assert_eq!(rows[0], ["start", NAMES[3], "<script>", "say \"no\" (previous)"]);
    let time = |at: Timestamp| jiff::Timestamp::from_second(at.as_unix() as i64).expect("a time").to_string();
    // Before the first hit, the counter is unknown.
    assert_eq!(
        rows[1..],
        [
            [&time(start), "20", "20", ""].map(str::to_owned),
            [&time(start.plus(3600)), "300", "300", "1"].map(str::to_owned),
        ]
    );
    let image = send(&site.router, &format!("/admin/stats/chart.svg?{view}"), None).await;
    assert_eq!(image.headers[header::CONTENT_TYPE], "image/svg+xml");
    assert!(image.body.starts_with("<svg ") && image.body.contains("&#60;script&#62;"), "{}", image.body);
    assert!(!image.body.contains("<script") && image.body.contains("stroke-dasharray"), "{}", image.body);
}
