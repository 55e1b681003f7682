//! The badge and the sparkline of a counter.

use axum::Router;
use counter_admin::Access;
use counter_core::Timestamp;
use http::{StatusCode, header};

use super::site::{ResponseText, encode, send, site};
use crate::support::precision;

async fn picture(router: &Router, path: &str) -> ResponseText {
    let response = send(router, path, None).await;
    assert_eq!(response.status, StatusCode::OK, "{path}: {}", response.body);
    assert_eq!(response.headers[header::CONTENT_TYPE], "image/svg+xml");
    assert!(response.body.starts_with("<svg ") && response.body.ends_with("</svg>"), "{}", response.body);
    for forbidden in ["<script", "style=", "<style", "href", "onload"] {
        assert!(!response.body.contains(forbidden), "{forbidden} in {}", response.body);
    }
    response
}

#[tokio::test]
async fn a_badge_shows_the_lifetime_total_or_the_total_of_a_range() {
    let mut site = site();
    let hour = precision(3600).bucket(Timestamp::now()).start;
    site.record("/articles/{id}", hour.minus(7200), 1200).await;
    site.record("/articles/{id}", hour, 34).await;
    let path = "/admin/stats/badge.svg?counter=%2Farticles%2F%7Bid%7D";
    for (asked, title) in [
        (String::new(), "/articles/{id}: 1,234"),
        ("&label=visits".to_owned(), "visits: 1,234"),
        (format!("&precision=3600&from={hour}&label=now"), "now: 34"),
    ] {
        let badge = picture(&site.router, &format!("{path}{asked}")).await;
        assert!(badge.body.contains(&format!("<title>{title}</title>")), "{}", badge.body);
        assert_eq!(badge.headers[header::CACHE_CONTROL], "private, max-age=60");
    }
}

#[tokio::test]
async fn a_sparkline_has_a_point_per_bucket() {
    let mut site = site();
    let start = precision(60).bucket(Timestamp::now()).start.minus(600);
    site.record("hits", start, 5).await;
    site.record("hits", start.plus(120), 10).await;
    let path = "/admin/stats/sparkline.svg?counter=hits&precision=60";
    let line = picture(&site.router, &format!("{path}&from={start}&to={}", start.plus(180))).await;
    assert!(line.body.contains("points=\"0.0,16.0 80.0,31.0 160.0,1.0\""), "{}", line.body);
    assert!(line.body.contains("<title>hits: 15, at most 10</title>"), "{}", line.body);
    let whole = picture(&site.router, path).await;
    let points = whole.body.split("points=\"").nth(1).and_then(|rest| rest.split('"').next());
    assert_eq!(points.expect("points").split(' ').count(), 120);
    let long = format!("{path}&from={}&to={start}", start.minus(60 * 1001));
    assert_eq!(send(&site.router, &long, None).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_script_as_counter_name_is_escaped_in_pictures() {
    let mut site = site();
    for name in ["<script>alert(1)</script>", "\"/><script>\"", "]]>&amp;<!--", "' onload='x"] {
        site.record(name, Timestamp::now(), 1).await;
        let name = encode(name);
        for path in [
            format!("badge.svg?counter={name}"),
            format!("badge.svg?counter={name}&label={name}"),
            format!("sparkline.svg?counter={name}&precision=60"),
        ] {
            let response = send(&site.router, &format!("/admin/stats/{path}"), None).await;
            assert_eq!(response.status, StatusCode::OK, "{path}: {}", response.body);
            let tags = [
                "<svg ",
                "<title>",
                "</title>",
                "<rect ",
                "<g ",
                "<text ",
                "</text>",
                "</g>",
                "<polyline ",
                "</svg>",
            ];
            let rest = tags.iter().fold(response.body.clone(), |rest, tag| rest.replace(tag, ""));
            assert!(!rest.contains('<'), "{rest}");
            assert!(
                !response.body.contains("onload='") && !response.body.contains("]]>"),
                "{}",
                response.body
            );
        }
    }
}

#[tokio::test]
async fn other_sites_can_embed_pictures_of_allowed_counters_only() {
    let mut site = site();
    for counter in ["/open", "/shut"] {
        site.record(counter, Timestamp::now(), 1).await;
    }
    let stats = site.counters.stats();
    let pictures = counter_admin::pictures(stats, Access::open(), |name| name.starts_with("/open"));
    let router = Router::new().nest("/visits", pictures);
    for picture_of in ["badge.svg?", "sparkline.svg?precision=60&"] {
        let embedded = picture(&router, &format!("/visits/{picture_of}counter=%2Fopen")).await;
        assert_eq!(embedded.headers["cross-origin-resource-policy"], "cross-origin");
        let own = picture(&site.router, &format!("/admin/stats/{picture_of}counter=%2Fopen")).await;
        assert_eq!(own.headers["cross-origin-resource-policy"], "same-origin");
        let shut = send(&router, &format!("/visits/{picture_of}counter=%2Fshut"), None).await;
        let absent = send(&router, &format!("/visits/{picture_of}counter=%2Fabsent"), None).await;
        assert_eq!((shut.status, absent.status), (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND));
        assert_eq!(shut.body.replace("shut", ""), absent.body.replace("absent", ""));
    }
    let ledger = send(&router, "/visits/api/ledger", None).await;
    assert_eq!(ledger.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_badge_label_has_a_maximum_length() {
    let mut site = site();
    site.record("hits", Timestamp::now(), 1).await;
    for (label, status) in [("x".repeat(100), 200), ("x".repeat(101), 400), (String::new(), 200)] {
        let path = format!("/admin/stats/badge.svg?counter=hits&label={label}");
        assert_eq!(send(&site.router, &path, None).await.status, status, "{label}");
    }
}
