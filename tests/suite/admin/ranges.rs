//! The default ranges for any retention.

use std::num::NonZeroU32;

use axum::Router;
use counter_admin::Access;
use counter_core::time::Retention;
use counter_core::{Counters, MemoryStore, Precisions, Timestamp};
use http::StatusCode;
use serde_json::{Value, json};

use super::conforms::description;
use super::site::{Site, fetch, send, site_at_noon};
use crate::support::precision;

/// Creates a site with this retention and some counters.
async fn site(retained: &[(u32, u32)], counters: &[&str]) -> Router {
    Router::new().nest("/admin/stats", site_router(retained, counters).await)
}

async fn site_router(retained: &[(u32, u32)], counters: &[&str]) -> Router {
    let retention = |&(width, samples): &(u32, u32)| Retention {
        precision: precision(width),
        samples: NonZeroU32::new(samples).expect("not 0"),
    };
    let retained = Precisions::new(retained.iter().map(retention)).expect("a set");
    let mut site = Counters::builder(MemoryStore::new()).precisions(retained).build().expect("a grid");
    let recorder = site.recorder();
    for counter in counters {
        recorder.record(recorder.counter(counter), None);
    }
    site.flush().await.expect("memory takes all");
    counter_admin::router(site.stats(), Access::open())
}

#[tokio::test]
async fn a_request_without_a_range_succeeds_for_any_retention() {
    let router = site(&[(60, 20_160), (86_400, 4_294_967_295)], &["hits", "/a"]).await;
    for question in [
        "series?counter=hits&precision=60",
        "series?counter=hits&precision=60&fill=zero",
        "series?counter=hits&counter=%2Fa&precision=60&fill=zero",
        "total?counter=hits&precision=60",
        "export?precision=60",
        "top?precision=60",
        "series?counter=hits&precision=86400",
        "top?precision=86400",
        "uniques?counter=hits&precision=86400",
        "forecast?counter=hits&precision=60",
    ] {
        let response = fetch(&router, question).await;
        let short = question.starts_with("forecast") && response.status == StatusCode::UNPROCESSABLE_ENTITY;
        assert!(response.status == StatusCode::OK || short, "{question}: {}", response.body);
    }
    // The response contains the latest range, and states the range.
    let latest = precision(60).bucket(Timestamp::now());
    let series = fetch(&router, "series?counter=hits&precision=60&fill=zero").await.json();
    let samples = series["samples"].as_array().expect("a list");
    assert_eq!(samples.len(), 10_000);
    assert_eq!(samples.iter().filter_map(|sample| sample["count"].as_u64()).sum::<u64>(), 1);
    assert!(samples[9999]["start"].as_u64() >= Some(latest.start.as_unix()));
    assert_eq!(series["from"], samples[0]["start"]);
    let total = fetch(&router, "total?counter=hits&precision=60").await.json();
    assert_eq!(total["to"].as_u64().map(|to| to >= latest.end().as_unix()), Some(true));
    assert_eq!(total["to"].as_u64().zip(total["from"].as_u64()).map(|(to, from)| to - from), Some(600_000));
    // An explicit range that is too long is still rejected.
    let all = fetch(&router, "series?counter=hits&precision=60&from=0").await;
    assert_eq!(all.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn no_answer_covers_buckets_that_are_no_longer_kept() {
    let (described, site) = (description().await, Site::open(MemoryStore::new()));
    let mut asked = 0;
    for (path, methods) in described["paths"].as_object().expect("paths") {
        let parameters: Vec<_> = methods["get"]["parameters"].as_array().into_iter().flatten().collect();
        let has = |name| parameters.iter().any(|parameter| parameter["name"] == name);
        if !has("precision") || !has("from") {
            continue;
        }
        let required = parameters.iter().filter(|parameter| parameter["required"] == true);
        let value = |parameter: &&&Value| match parameter["name"].as_str().expect("a name") {
            "precision" => String::new(),
            "counter" => "counter=/&".to_owned(),
            name => format!("{name}={}&", parameter["example"].as_str().unwrap_or("a")),
        };
        let query: String = required.map(|parameter| value(&parameter)).collect();
        let path = format!("/admin/stats{path}?{query}precision=86400&from=0&to=86400");
        let reply = send(&site.router, &path, None).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{path}: {}", reply.body);
        let problem = reply.json();
        assert_eq!((&problem["parameter"], &problem["value"]), (&json!("from"), &json!("0")), "{path}");
        asked += 1;
    }
    assert!(asked >= 12, "{asked}");
}

#[tokio::test]
async fn a_range_can_start_at_the_oldest_bucket() {
    let mut site = site_at_noon();
    let now = Timestamp::now();
    site.record("hits", now, 1).await;
    let days = site.counters.stats().grid().counts.of_width(86_400).expect("days are retained");
    let oldest = days.oldest(now);
    let total =
        async |from| fetch(&site.router, &format!("total?counter=hits&precision=86400&from={from}")).await;
    let all = total(oldest).await;
    assert_eq!((all.status, &all.json()["total"]), (StatusCode::OK, &json!(1)));
    let problem = total(oldest.minus(1)).await.json();
    assert_eq!(problem["detail"], "data before this time is no longer kept");
    assert_eq!(problem["allowed"], format!("Unix seconds, {oldest} or later"));
}

#[tokio::test]
async fn the_range_is_omitted_if_it_covers_the_whole_retention() {
    let router = site(&[(60, 10_000)], &["hits"]).await;
    let series = fetch(&router, "series?counter=hits&precision=60&fill=zero").await.json();
    assert_eq!((series["samples"].as_array().map(Vec::len), series.get("from")), (Some(10_000), None));
}

#[tokio::test]
async fn the_default_range_of_many_counters_fits_into_a_response() {
    let names: Vec<_> = (0..100).map(|number| format!("/{number}")).collect();
    let router = site(&[(60, 4000)], &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let query = names.iter().map(|name| format!("counter={name}&")).collect::<String>();
    let series = fetch(&router, &format!("series?{query}precision=60&fill=zero")).await;
    assert_eq!(series.status, StatusCode::OK, "{}", series.body);
    assert_eq!(series.json()["series"][99]["samples"].as_array().map(Vec::len), Some(3000));
}

#[tokio::test]
async fn a_thousand_counters_can_be_ranked_over_a_year_of_days() {
    let names: Vec<_> = (0..1000).map(|number| format!("/{number}")).collect();
    let router = site(&[(86_400, 400)], &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let response = fetch(&router, "top?precision=86400&limit=1000").await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.body);
    let top = response.json();
    assert_eq!(top["top"].as_array().map(Vec::len), Some(1000));
    let (from, to) = (top["from"].as_u64().expect("a time"), top["to"].as_u64().expect("a time"));
    assert_eq!(to - from, 400 * 86_400);
}

#[tokio::test]
async fn a_day_of_seconds_can_be_viewed_at_any_time() {
    let counters = ["hits", "/a", "/b", "/c", "/d", "/e", "/f"];
    let now = Timestamp::now();
    for retention in
        [&[(1, 86_400)][..], &[(1, 86_400), (60, 120)], &[(1, 86_400), (60, 120), (86_400, 10_000)]]
    {
        let router = site(retention, &counters).await;
        let six: String = counters[..6].iter().map(|counter| format!("counter={counter}&")).collect();
        for chosen in ["", "counter=hits&counter=%2Fa&counter=%2Fb&counter=%2Fc&", &six] {
            for ago in [0, 1000, 80_000, 86_390] {
                for page in ["", "/parts", "/counter", "/counter/parts"] {
                    let (from, to) = (now.minus(ago + 500), now.minus(ago));
                    let path = format!(
                        "/admin/stats{page}?{chosen}period=custom&from={from}&to={to}&by=second&forecast=1"
                    );
                    let response = send(&router, &path, None).await;
                    assert_eq!(response.status, StatusCode::OK, "{path} of {retention:?}: {}", response.body);
                    // The oldest seconds are past retention.
                    if ago < 86_390 {
                        let label = "per second, 500 values";
                        assert!(response.body.contains(label), "{path} of {retention:?}: {}", response.body);
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn the_default_precision_is_a_minute_or_the_finest() {
    for (retained, width) in [(&[(1, 120), (60, 120)][..], 60), (&[(5, 120), (3600, 120)], 5)] {
        let router = site(retained, &["hits"]).await;
        assert_eq!(fetch(&router, "series?counter=hits").await.json()["precision"], width);
        let line = send(&router, "/admin/stats/sparkline.svg?counter=hits", None).await;
        let same =
            send(&router, &format!("/admin/stats/sparkline.svg?counter=hits&precision={width}"), None).await;
        assert_eq!((line.status, line.body), (StatusCode::OK, same.body));
    }
    // The retention is longer than the number of points in a sparkline.
    let router = site(&[(60, 20_160)], &["hits"]).await;
    let line = send(&router, "/admin/stats/sparkline.svg?counter=hits", None).await;
    assert_eq!(line.status, StatusCode::OK, "{}", line.body);
}

#[tokio::test]
async fn the_overview_is_the_same_with_a_trailing_slash() {
    let routes = site_router(&[(60, 120)], &["hits"]).await;
    let router = Router::new().nest_service("/admin/stats", routes);
    let (without, with) =
        (send(&router, "/admin/stats", None).await, send(&router, "/admin/stats/", None).await);
    assert_eq!((without.status, with.status), (StatusCode::OK, StatusCode::OK));
    for page in [&without.body, &with.body] {
        assert!(page.contains("<h1>Visits</h1>") && page.contains("href=\"/admin/stats/assets/"), "{page}");
    }
    for path in ["/api/total?counter=hits&precision=60", "/counter?counter=hits", "/metrics"] {
        assert_eq!(
            send(&router, &format!("/admin/stats{path}"), None).await.status,
            StatusCode::OK,
            "{path}"
        );
    }
    assert_eq!(send(&router, "/admin/stats/x/", None).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_counter_without_hits_today_is_shown_for_the_last_week() {
    let mut site = site_at_noon();
    let today = Timestamp::now();
    for (counter, at) in [("/today", today), ("/before", today.minus(86_400)), ("hits", today)] {
        site.record(counter, at, 1).await;
    }
    for (page, period) in [
        ("", "Today"),
        ("/counter?counter=%2Ftoday", "Today"),
        ("/counter?counter=%2Fbefore", "7 days"),
        ("/counter?counter=%2Fbefore&period=today", "Today"),
        ("?period=", "Today"),
    ] {
        let response = send(&site.router, &format!("/admin/stats{page}"), None).await.body;
        let button = format!("<summary class=\"button\">{period}</summary>");
        assert!(response.contains(&button), "{page}: {response}");
    }
    // There are only two hours.
    let router = self::site(&[(60, 120)], &["hits"]).await;
    let page = send(&router, "/admin/stats?period=7d", None).await;
    assert!(page.body.contains("Older data of this period is past retention"), "{}", page.body);
}

#[tokio::test]
async fn intervals_divide_a_day_and_are_retained() {
    let router =
        site(&[(60, 20_160), (420, 20_000), (18_000, 500), (3600, 9600), (86_400, 400)], &["hits"]).await;
    for (period, intervals) in [
        ("5min", &["minute"][..]),
        ("1h", &["minute"]),
        ("12h", &["minute", "hour"]),
        ("yesterday", &["hour"]),
        ("4mo", &["day", "week", "month"]),
    ] {
        let page = send(&router, &format!("/admin/stats?period={period}"), None).await.body;
        let by = page
            .split_once("aria-label=\"Interval\"")
            .expect("links")
            .1
            .split_once("</nav>")
            .expect("its end")
            .0;
        let shown: Vec<_> =
            by.split("id=\"by-").skip(1).filter_map(|link| Some(link.split_once('"')?.0)).collect();
        assert_eq!(shown, intervals, "{period}");
    }
}

#[tokio::test]
async fn a_custom_period_can_be_a_part_of_today() {
    let router = site(&[(60, 120), (86_400, 120)], &["hits"]).await;
    let minute = precision(60).bucket(Timestamp::now()).end();
    for path in ["", "/parts"] {
        let path = format!("/admin/stats{path}?period=custom&from={}&to={minute}", minute.minus(600));
        let page = send(&router, &path, None).await.body;
        assert!(page.contains("hits\u{2069} per minute, 10 values"), "{page}");
    }
}
