//! A dashboard and an API over several sites.

use std::num::NonZeroU32;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use counter_admin::Access;
use counter_core::fleet::Fleet;
use counter_core::visits::{Bin, Measured};
use counter_core::{MemoryStore, Timestamp};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tests::{FaultProxy, RedisServer, until};
use tower::ServiceExt;

use super::site::{LIMIT, Site, card, check, fetch, request, send, text, visitor};
use crate::support::store;

/// Returns routers for a fleet, and for each of its sites. `eu` has a hit in 3, and `us` has others.
async fn routers() -> (Router, [Router; 2]) {
    let stores = [MemoryStore::new(), MemoryStore::new()];
    let [mut eu, mut us] = stores.clone().map(Site::open);
    let at = Timestamp::now().minus(100_000);
    for (site, hits) in [(&mut eu, 3), (&mut us, 4)] {
        site.record("hits", at, hits).await;
        site.record("/", at, hits).await;
        site.recorder().record_at(
            site.recorder().counter("/"),
            visitor("one"),
            at,
            std::num::NonZeroU32::MIN,
        );
        site.counters.flush().await.expect("in memory");
    }
    us.record("/us", at, 2).await;
    let [one, two] = stores;
    let fleet = Fleet::reader(MemoryStore::new(), "eu", one).site("us", two).expect("two names");
    let fleet = Site::with(fleet, Access::open().may_note());
    (fleet.router, [eu.router, us.router])
}

/// Returns the OpenAPI description of a router.
async fn described(router: &Router) -> Value {
    fetch(router, "openapi.json").await.json()
}

#[tokio::test]
async fn counts_of_all_sites_add_up_and_a_site_can_be_selected() {
    let (fleet, _) = routers().await;
    let lifetime = |counter, total: u64| json!({"lifetimes": [{"counter": counter, "total": total}]});
    for (site, hits) in [("", 7), ("&site=", 7), ("&site=eu", 3), ("&site=us", 4)] {
        check(&fleet, &format!("lifetimes?counter=hits{site}"), lifetime("hits", hits)).await;
    }
    let sites = json!([{"name": "eu", "is_readable": true}, {"name": "us", "is_readable": true}]);
    assert_eq!(fetch(&fleet, "").await.status, StatusCode::NOT_FOUND);
    let index = send(&fleet, "/admin/stats/api", None).await.json();
    assert_eq!(index["sites"], sites);
    let uniques = fetch(&fleet, "uniques?counter=/&precision=86400").await.json();
    assert_eq!((&uniques["uniques"], &uniques["is_upper_bound"]), (&json!(1), &json!(true)));
    let uniques = fetch(&fleet, "uniques?counter=/&precision=86400&site=us").await.json();
    assert_eq!((&uniques["uniques"], &uniques["is_upper_bound"]), (&json!(1), &json!(false)));
}

#[tokio::test]
async fn every_route_can_read_a_single_site() {
    let (fleet, sites) = routers().await;
    let description = described(&fleet).await;
    let mut read = 0;
    for (path, methods) in description["paths"].as_object().expect("paths") {
        let Some(parameters) = methods["get"]["parameters"].as_array() else { continue };
        assert!(parameters.iter().any(|parameter| parameter["name"] == "site"), "{path}");
        // Live responses do not end, and the descriptions differ in this parameter.
        if ["/api/live", "/api/openapi.json"].contains(&&**path) {
            continue;
        }
        // Without a precision, the range might end between the two requests.
        let required = parameters
            .iter()
            .filter(|parameter| parameter["required"] == true || parameter["name"] == "precision");
        let value = |parameter: &Value| match parameter["name"].as_str().expect("a name") {
            "counter" => "counter=/".to_owned(),
            "precision" => "precision=86400".to_owned(),
            name => format!("{name}={}", parameter["example"].as_str().unwrap_or("a")),
        };
        let query = required.map(value).collect::<Vec<_>>().join("&");
        for (name, router) in ["eu", "us"].iter().zip(&sites) {
            let expected = send(router, &format!("/admin/stats{path}?{query}"), None).await;
            let found = send(&fleet, &format!("/admin/stats{path}?{query}&site={name}"), None).await;
            assert_eq!(found.status, expected.status, "{path}?{query}: {}", found.body);
            // The page, the process and the list of sites are those of the fleet.
            if !["/", "/api", "/metrics", "/api/health", "/api/ledger"].contains(&&**path)
                && found.status != 404
            {
                assert_eq!(found.body, expected.body, "{path}?{query}");
                read += 1;
            }
        }
    }
    assert!(read > 30, "{read}");
    for file in ["list.csv", "chart.csv", "chart.svg"] {
        let expected = send(&sites[1], &format!("/admin/stats/{file}?period=7d"), None).await.body;
        let found = send(&fleet, &format!("/admin/stats/{file}?period=7d&site=us"), None).await.body;
        assert_eq!(found, expected);
        assert_ne!(send(&fleet, &format!("/admin/stats/{file}?period=7d"), None).await.body, expected);
    }
}

#[tokio::test]
async fn wrong_sites_are_rejected() {
    let (fleet, [single, _]) = routers().await;
    let wrong = "unknown site";
    for (query, detail, value) in [
        ("site=asia", wrong, "asia"),
        ("site=eu%20", wrong, "eu "),
        ("site=eu&site=us", "duplicate parameter", "us"),
    ] {
        let reply = fetch(&fleet, &format!("lifetimes?counter=hits&{query}")).await;
        let problem = reply.json();
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
        assert_eq!((&problem["detail"], &problem["value"]), (&json!(detail), &json!(value)));
        assert_eq!((&problem["parameter"], &problem["allowed"]), (&json!("site"), &json!("eu, us")));
    }
    let path = "/admin/stats/api/notes?text=a&site=eu";
    let reply = request(&fleet, Method::POST, path, None).await;
    assert_eq!((reply.status, &reply.json()["parameter"]), (StatusCode::BAD_REQUEST, &json!("site")));
    // Without a fleet, this is not a parameter. It must not be ignored.
    let reply = fetch(&single, "lifetimes?counter=hits&site=eu").await;
    assert_eq!((reply.status, &reply.json()["parameter"]), (StatusCode::BAD_REQUEST, &json!("site")));
}

#[tokio::test]
async fn links_of_a_page_keep_the_site() {
    let (fleet, [single, _]) = routers().await;
    let page = send(&fleet, "/admin/stats?period=7d&site=us", None).await.body;
    assert_eq!(text(&page, "site-menu", "</summary>"), "us");
    assert!(card(&page, "total").contains("4"), "{}", card(&page, "total"));
    let links = page.split("href=\"/admin/stats").skip(1).map(|rest| rest.split('"').next().expect("an end"));
    let views = links.filter(|link| link.contains("period="));
    let (with, without): (Vec<_>, Vec<_>) = views.partition(|link| link.contains("site=us"));
    // Only the menu of sites leads to the other sites.
    assert!(with.len() > 20, "{with:?}");
    assert_eq!(without, ["?period=7d", "?period=7d&#38;site=eu"], "{without:?}");
    let forms = page.matches("<form method=\"get\"").count();
    assert_eq!(page.matches("<input type=\"hidden\" name=\"site\" value=\"us\">").count(), forms);

    let page = send(&fleet, "/admin/stats?period=7d", None).await.body;
    assert_eq!(text(&page, "site-menu", "</summary>"), "All sites");
    assert!(card(&page, "total").contains("7"), "{}", card(&page, "total"));
    let page = send(&single, "/admin/stats?period=7d&site=us", None).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST, "a link to a site must not show another");
}

/// Returns the texts of the sites on the first page.
fn sites(page: &str) -> Vec<String> {
    let (_, list) = page.split_once("id=\"sites\"").unwrap_or_else(|| panic!("no sites in {page}"));
    let (list, _) = list.split_once("</ul>").expect("the end of the list");
    let site = |item: &str| {
        let texts = item.split('<').filter_map(|part| Some(part.split_once('>')?.1));
        texts.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
    };
    list.split("<li>").skip(1).map(site).collect()
}

#[tokio::test]
async fn the_first_page_shows_the_sites_side_by_side() {
    let (fleet, [eu, _]) = routers().await;
    let page = send(&fleet, "/admin/stats?period=7d", None).await.body;
    assert_eq!(sites(&page), ["eu 3 Hits Hits", "us 4 Hits Hits"]);
    assert!(page.contains("href=\"/admin/stats?period=7d&#38;site=us\""), "{page}");
    // Another site may not have the counters of the chart.
    let page = send(&fleet, "/admin/stats?counter=%2Fus&period=7d", None).await.body;
    assert!(page.contains("href=\"/admin/stats?period=7d&#38;site=eu\""), "{page}");
    for router in [&eu, &fleet] {
        let page = send(router, "/admin/stats?period=7d&site=", None).await.body;
        assert_eq!(page.contains("id=\"sites\""), std::ptr::eq(router, &fleet), "{page}");
    }
    let of_site = send(&fleet, "/admin/stats?period=7d&site=us", None).await.body;
    assert!(!of_site.contains("id=\"sites\""), "{of_site}");
}

#[tokio::test]
async fn a_site_that_does_not_fit_has_no_numbers() {
    let shop = MemoryStore::new();
    Site::open(shop.clone()).record("hits", Timestamp::now(), 3).await;
    let fleet =
        Fleet::reader(MemoryStore::new(), "shop", shop.clone()).site("copy", shop).expect("two names");
    let router = Site::open(fleet).router;
    let page = send(&router, "/admin/stats?period=7d", None).await.body;
    assert_eq!(sites(&page), ["shop 3 Hits Hits", "copy – Cannot be read"]);
    // Its page does not make it a part of the sum.
    let of_site = send(&router, "/admin/stats?period=7d&site=copy", None).await;
    assert_eq!(of_site.status, StatusCode::SERVICE_UNAVAILABLE, "{}", of_site.body);
    assert!(
        of_site.body.contains("Site copy cannot be read: the store of copy is that of shop"),
        "{}",
        of_site.body
    );
    let page = send(&router, "/admin/stats?period=7d", None).await.body;
    assert_eq!(card(&page, "total"), "Hits 3");
}

#[tokio::test]
async fn a_page_names_a_site_that_is_away() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let (us, mut direct) = (store(&proxy.url()).await, Site::open(store(&server.url()).await));
    let (eu, now) = (MemoryStore::new(), Timestamp::now());
    for (counter, hits) in [("hits", 3), ("agent:human", 3), ("agent:bot", 1)] {
        Site::open(eu.clone()).record(counter, now, hits).await;
    }
    direct.record("hits", now, 4).await;
    let fleet =
        Fleet::reader(MemoryStore::new(), "eu", eu).site("us", us).expect("two names").timeout(LIMIT / 20);
    let router = Site::open(fleet).router;
    let page = "/admin/stats?period=30d";
    let bots = format!("{page}&counter=agent:bot&show=share");
    let shares = async || {
        let (page, chart) = (send(&router, page, None).await.body, send(&router, &bots, None).await.body);
        (card(&page, "bots"), text(&chart, "sum-0", "</span>"), chart.contains("25.0 %"))
    };
    assert_eq!(shares().await, ("Bots 25.0 %".to_owned(), "25.0 %".to_owned(), true));
    until("both are read", LIMIT, async || {
        card(&send(&router, page, None).await.body, "total").contains('7')
    })
    .await;

    proxy.black_hole(true);
    let body = send(&router, page, None).await.body;
    let warning = text(&body, "unread", "</div>");
    assert!(warning.contains("too low: site us (the"), "{warning}");
    assert_eq!(text(&body, "status", "</div>"), "", "one warning is enough");
    assert_eq!(sites(&body), ["eu 3 Hits Hits", "us – Cannot be read"]);
    assert!(card(&body, "total").contains('3'), "{}", card(&body, "total"));
    assert_eq!(card(&body, "people"), "People –");
    // Other requests may be those of bots.
    assert_eq!(shares().await, ("Bots –".to_owned(), "–".to_owned(), false));
    let today = now.as_unix() / 86_400 * 86_400;
    let closed = format!("series?counter=hits&precision=86400&from={}&to={today}", today - 2 * 86_400);
    let reply = fetch(&router, &closed).await;
    assert_eq!(reply.headers["cache-control"], "private, no-cache", "a partial response is not kept");
    let reply = fetch(&router, "series?counter=hits&precision=86400").await.json();
    assert_eq!(
        (&reply["unreadable"]["key"], &reply["unreadable"]["is_part"]),
        (&json!("site us"), &json!(true))
    );
    assert_eq!(
        fetch(&router, "total?counter=hits&precision=86400").await.status,
        StatusCode::SERVICE_UNAVAILABLE
    );
    assert_eq!(fetch(&router, "total?counter=hits&precision=86400&site=eu").await.json()["total"], 3);
    let index = send(&router, "/admin/stats/api", None).await.json();
    assert_eq!(index["sites"][1], json!({"name": "us", "is_readable": false}));

    proxy.black_hole(false);
    until("both are read", LIMIT, async || {
        card(&send(&router, page, None).await.body, "total").contains('7')
    })
    .await;
}

/// Returns the paths of all GET requests that read counts, with parameters.
fn questions(description: &Value) -> Vec<String> {
    let mut questions = Vec::new();
    for (path, methods) in description["paths"].as_object().expect("paths") {
        let Some(parameters) = methods["get"]["parameters"].as_array() else { continue };
        // These describe this process, its alerts or the API.
        if ["/metrics", "/api/health", "/api/ledger", "/api/openapi.json"].contains(&&**path) {
            continue;
        }
        let value = |parameter: &Value| match parameter["name"].as_str().expect("a name") {
            "counter" => Some("counter=/".to_owned()),
            "precision" => Some("precision=86400".to_owned()),
            "label" => Some("label=plan".to_owned()),
            "value" => Some("value=b".to_owned()),
            name if parameter["required"] == true => {
                Some(format!("{name}={}", parameter["example"].as_str().unwrap_or("a")))
            }
            _ => None,
        };
        let given: Vec<_> = parameters.iter().filter_map(value).collect();
        questions.push(format!("{path}?{}", given.join("&")));
        let formats = parameters.iter().filter(|parameter| parameter["name"] == "format");
        for format in formats.flat_map(|format| format["schema"]["enum"].as_array().into_iter().flatten()) {
            let format = format.as_str().expect("a name");
            questions.push(format!("{path}?{}&format={format}", given.join("&")));
            let all: Vec<_> =
                given.iter().filter(|one| !one.starts_with("counter=")).map(|one| &**one).collect();
            questions.push(format!("{path}?{}&format={format}", all.join("&")));
        }
    }
    questions.push("/api/labels?label=plan&precision=86400&people=true".to_owned());
    for file in ["", "/list.csv", "/chart.csv", "/chart.svg"] {
        for view in ["", "&counter=/", "&counter=/us", "&counter=label:plan:b", "&compare=previous"] {
            questions.push(format!("{file}?period=30d{view}"));
        }
    }
    for label in ["plan", "plan:b"] {
        questions.push(format!("?period=30d&label={label}"));
    }
    for page in [
        "/list?",
        "/parts?",
        "/counter?counter=/&",
        "/counter/parts?counter=/&",
        "/counter?counter=label:plan:b&",
    ] {
        questions.push(format!("{page}period=30d"));
    }
    for list in ["label=plan", "label=plan&counter=/", "counter=label:plan:b"] {
        questions.push(format!("/list?period=30d&{list}"));
    }
    let of_site: Vec<_> = questions.iter().map(|question| format!("{question}&site=us")).collect();
    questions.into_iter().chain(of_site).collect()
}

#[tokio::test]
async fn every_answer_names_a_site_that_is_away_or_is_complete() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let us = store(&proxy.url()).await;
    let (eu, at) = (MemoryStore::new(), Timestamp::now());
    for (mut site, hits, pages) in [
        (Site::open(eu.clone()), 3, &["hits", "/"][..]),
        (Site::open(store(&server.url()).await), 4, &["hits", "/", "/us"]),
    ] {
        let recorder = site.recorder();
        for page in pages {
            let hit = [recorder.counter(page).hit()];
            for _ in 0..hits {
                let bins = [Bin::time(Duration::from_millis(20)), Bin::status(200)];
                recorder.measure_at(Measured { hits: &hit, bins: &bins }, at);
            }
            recorder.record_at(recorder.counter(page), visitor(page), at, NonZeroU32::MIN);
            site.record(page, at, hits).await;
            for value in ["a", "b"] {
                site.record(&format!("label:plan:{value}"), at, hits).await;
                site.record(&format!("label:plan@:{page} = {value}"), at, hits).await;
            }
        }
    }
    let fleet =
        Fleet::reader(MemoryStore::new(), "eu", eu).site("us", us).expect("two names").timeout(LIMIT / 20);
    let router = Site::with(fleet, Access::open().may_note()).router;
    let description = described(&router).await;
    let goal = request(&router, Method::POST, "/admin/stats/api/goals?counter=/&name=Home", None).await;
    assert_eq!(goal.status, StatusCode::OK, "{}", goal.body);
    let ask = async |question: &str| {
        let path = format!("/admin/stats{question}");
        if question.starts_with("/api/live") {
            let request = Request::builder().uri(path).body(Body::empty()).expect("a path");
            let mut body = router.clone().oneshot(request).await.expect("a router answers").into_body();
            let frame = body.frame().await.expect("an event").expect("no error").into_data().expect("text");
            return (StatusCode::OK, String::from_utf8(frame.to_vec()).expect("text"));
        }
        let reply = send(&router, &path, None).await;
        (reply.status, reply.body)
    };
    let mut complete = Vec::new();
    for question in questions(&description) {
        let (status, body) = ask(&question).await;
        assert!(
            status.is_success()
                || status == StatusCode::NOT_FOUND
                || status == StatusCode::UNPROCESSABLE_ENTITY,
            "{question}: {status} {body}"
        );
        complete.push((question, status, body));
    }

    proxy.refuse(true);
    until("the site is away", LIMIT, async || {
        ask("/api/total?counter=/&precision=86400").await.0 != StatusCode::OK
    })
    .await;
    let names_site = |body: &str| {
        body.to_lowercase().contains("site us cannot be read")
            || body.contains(r#""key":"site us""#)
            || body.contains("site us (")
            || body.contains(r#"{"name":"us","is_readable":false}"#)
    };
    let mut wrong = Vec::new();
    for (question, status, before) in &complete {
        let (now, body) = ask(question).await;
        if now.is_success() && !names_site(&body) && *before != body {
            wrong.push(format!("{question} ({status}): {body}"));
        } else if now == StatusCode::SERVICE_UNAVAILABLE && !names_site(&body) {
            wrong.push(format!("{question} does not name the site: {body}"));
        } else if !now.is_success() && now != StatusCode::SERVICE_UNAVAILABLE && now != *status {
            wrong.push(format!("{question}: {status} became {now} {body}"));
        }
    }
    for question in ["/counter?counter=/&period=30d", "/api/labels?label=plan&counter=/&precision=86400"] {
        let (status, body) = ask(question).await;
        assert_eq!(status, StatusCode::OK, "{question}: what the other site has can be shown: {body}");
    }
    for path in ["/api/health", "/api/health?site=us", "/metrics"] {
        let body = ask(path).await.1;
        if !body.contains("site_unreadable") && !body.contains("access_counter_hints 1") {
            wrong.push(format!("{path} has no hint: {body}"));
        }
    }
    let wrong: Vec<_> = wrong.iter().map(|line| line.chars().take(300).collect::<String>()).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), complete.len(), wrong.join("\n"));
}

#[tokio::test]
async fn a_file_is_an_error_if_the_list_of_counters_cannot_be_read() {
    let server = RedisServer::start();
    let mut site = Site::open(store(&server.url()).await);
    site.record("hits", Timestamp::now(), 3).await;
    server.command(&["DEL", "access:known:"]);
    server.command(&["SET", "access:known:", "text"]);
    for file in ["list.csv?period=7d", "api/export?precision=86400"] {
        let reply = send(&site.router, &format!("/admin/stats/{file}"), None).await;
        assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{file}: {}", reply.body);
    }
    // A named counter can still be read.
    let named = send(&site.router, "/admin/stats/api/export?precision=86400&counter=hits", None).await;
    assert_eq!(named.status, StatusCode::OK, "{}", named.body);
}
