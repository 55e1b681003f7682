//! Archive audits via the API, and the permission to run audits.

use std::future::ready;

use axum::Router;
use axum::body::Body;
use counter_admin::Access;
use counter_core::archive::Archive;
use counter_core::{Counters, MemoryStore, Store, Timestamp};
use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use tests::{LIMIT, RedisServer, until};

use super::site::{Answer, Site, answer, ask, send};
use crate::support::{name, precision, store};

const TOKEN: &str = "a-long-random-token";
const AUDIT: &str = "/admin/stats/api/audit";

/// Creates a site over an archive. Both stores have three hits from two days ago.
async fn site(near: impl Store, far: MemoryStore, access: Access) -> Site {
    let archive = Archive::new(near, far);
    let mut site = Site::archived(archive.clone(), access);
    site.record("/", before(), 3).await;
    let stats = site.counters.stats();
    archive.copier(stats.grid()).copy_once(Timestamp::now()).await.expect("both are there");
    site
}

/// A time on a day that ended long enough ago to be copied to the archive.
fn before() -> Timestamp {
    Timestamp::now().minus(2 * 86_400)
}

fn anyone() -> Access {
    Access::open().may_repair()
}

async fn post(router: &Router, question: &str) -> Answer {
    let request = Request::post(format!("{AUDIT}{question}")).body(Body::empty()).expect("an address");
    answer(router, request).await
}

async fn audit(router: &Router, question: &str) -> Value {
    let audit = post(router, question).await;
    assert_eq!(audit.status, StatusCode::OK, "{}", audit.body);
    audit.json()
}

/// Deletes the counter from a store, like an outage would.
async fn lose(site: &Site, near: &impl Store) {
    near.forget(&name("/"), site.counters.stats().grid(), Timestamp::now()).await.expect("it is there");
}

#[tokio::test]
async fn what_the_near_store_lost_is_told_with_both_values_and_returns_when_the_far_one_is_right() {
    let (near, began) = (MemoryStore::new(), before());
    let site = site(near.clone(), MemoryStore::new(), anyone()).await;
    assert_eq!(ask(&site.router, "audit").await.json(), json!({"last": null}));
    let health = async || ask(&site.router, "health").await.json();
    assert_eq!(health().await["archive"], json!({"waiting_buckets": 0, "unreadable": 0, "differing": null}));
    let found = audit(&site.router, "").await;
    // An hour and a day.
    let counts = ["compared", "late", "differing", "unreadable"].map(|name| found[name].as_u64());
    assert_eq!((counts, &found["differences"]), ([2, 0, 0, 0].map(Some), &json!([])), "{found}");

    lose(&site, &near).await;
    let found = audit(&site.router, "").await;
    let day = |at| {
        let start = precision(86_400).bucket(at).start.as_unix();
        json!({"kind": "counts", "counter": "/", "precision": 86_400, "start": start, "near": 0, "far": 3})
    };
    assert_eq!(found["differing"], 2);
    let differences = found["differences"].as_array().expect("a list");
    assert_eq!(differences.len(), 2);
    // A new day can have started since then.
    assert!([began, before()].into_iter().any(|at| differences.contains(&day(at))), "{found}");
    assert_eq!(ask(&site.router, "audit").await.json(), json!({"last": found}));
    let told = health().await;
    assert_eq!(
        (&told["archive"]["differing"], &told["hints"][0]["name"]),
        (&json!(2), &json!("archive_differs"))
    );
    let metrics = send(&site.router, "/admin/stats/metrics", None).await.body;
    assert!(metrics.contains("\naccess_counter_archive_differing_values 2\n"), "{metrics}");
    let page = send(&site.router, "/admin/stats", None).await.body;
    assert!(page.contains("The near store has less of some buckets than the archive"), "{page}");

    let repaired = audit(&site.router, "?right=far").await;
    assert_eq!((&repaired["repaired_from"], &repaired["differing"]), (&json!("far"), &json!(2)));
    let told = health().await;
    assert_eq!((&told["archive"]["differing"], &told["hints"]), (&json!(0), &json!([])));
    let found = audit(&site.router, "").await;
    assert_eq!((&found["differing"], &found["repaired_from"]), (&json!(0), &json!(null)));
    let counters = Counters::builder(near).build().expect("the defaults are fine");
    assert_eq!(counters.stats().lifetimes(&[name("/")]).await.expect("memory"), [3]);
}

#[tokio::test]
async fn what_the_near_store_has_is_put_into_the_far_one_when_that_is_right() {
    let near = MemoryStore::new();
    let site = site(near.clone(), MemoryStore::new(), anyone()).await;
    lose(&site, &near).await;
    let repaired = audit(&site.router, "?right=near").await;
    assert_eq!((&repaired["repaired_from"], &repaired["differing"]), (&json!("near"), &json!(2)));
    assert_eq!(audit(&site.router, "?right=").await["differing"], 0);
    let range = before().minus(86_400)..Timestamp::now();
    let series = site.counters.stats().series(&name("/"), precision(86_400), range).await;
    assert_eq!(series.expect("memory").total(), 0);
}

#[tokio::test]
async fn of_two_at_once_one_is_refused_and_one_that_is_given_up_keeps_nobody_waiting() {
    let redis = RedisServer::start();
    let site = site(store(&redis.url()).await, MemoryStore::new(), anyone()).await;
    let (one, other) = tokio::join!(post(&site.router, ""), post(&site.router, "?right=far"));
    let refused = if one.status == StatusCode::OK { other } else { one };
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.body);
    assert_eq!(refused.headers[header::CONTENT_TYPE], "application/problem+json");
    assert!(refused.body.contains("under way"), "{}", refused.body);
    // This drops the request while the audit waits for Redis.
    tokio::select! {
        biased;
        told = post(&site.router, "") => panic!("{}", told.body),
        () = ready(()) => {}
    }
    assert_eq!(post(&site.router, "").await.status, StatusCode::OK);
}

#[tokio::test]
async fn without_one_of_the_stores_there_is_a_reason_and_the_last_audit_stays() {
    let mut redis = RedisServer::start();
    let site = site(store(&redis.url()).await, MemoryStore::new(), anyone()).await;
    let found = audit(&site.router, "").await;
    redis.command(&["SAVE"]);
    redis.stop();
    let told = post(&site.router, "?right=far").await;
    assert_eq!(told.status, StatusCode::SERVICE_UNAVAILABLE, "{}", told.body);
    assert!(told.json()["health"].is_object() && told.json()["detail"] != "", "{}", told.body);
    assert_eq!(ask(&site.router, "audit").await.json(), json!({"last": found}));
    redis.restart();
    until("it audits again", LIMIT, async || post(&site.router, "").await.status == StatusCode::OK).await;
}

#[tokio::test]
async fn a_side_that_is_none_repairs_nothing() {
    let near = MemoryStore::new();
    let site = site(near.clone(), MemoryStore::new(), anyone()).await;
    lose(&site, &near).await;
    for (question, wrong) in
        [("?right=both", "right"), ("?right=far&right=near", "right"), ("?left=far", "left")]
    {
        let told = post(&site.router, question).await;
        assert_eq!((told.status, &told.json()["parameter"]), (StatusCode::BAD_REQUEST, &json!(wrong)));
    }
    assert_eq!(audit(&site.router, "").await["differing"], 2);
}

#[tokio::test]
async fn nobody_audits_unless_it_was_said_and_the_lack_of_the_right_names_the_scope() {
    let shown = format!("Bearer {TOKEN}");
    let owner = || Access::bearer(TOKEN).expect("a token");
    for (access, with, without) in [
        (owner(), 403, 401),
        (owner().may_forget().may_record(), 403, 401),
        (owner().may_repair(), 200, 401),
        (Access::open(), 403, 403),
        (Access::open().may_repair(), 200, 200),
        (Access::open().or(owner().may_repair()), 200, 403),
    ] {
        let near = MemoryStore::new();
        let site = site(near.clone(), MemoryStore::new(), access.clone()).await;
        lose(&site, &near).await;
        let mut repaired = false;
        for (shown, status) in [(None, without), (Some(&shown), with)] {
            let mut request = Request::post(format!("{AUDIT}?right=far"));
            if let Some(shown) = shown {
                request = request.header(header::AUTHORIZATION, shown);
            }
            let told = answer(&site.router, request.body(Body::empty()).expect("an address")).await;
            assert_eq!(told.status, status, "{access:?}: {}", told.body);
            if shown.is_some() && status == 403 && without == 401 {
                let scope = "Bearer error=\"insufficient_scope\", scope=\"repair\"";
                assert_eq!(told.headers[header::WWW_AUTHENTICATE], scope, "{access:?}");
            }
            repaired |= status == 200;
        }
        let counters = Counters::builder(near).build().expect("the defaults are fine");
        let lifetime = counters.stats().lifetimes(&[name("/")]).await.expect("memory")[0];
        assert_eq!(lifetime, if repaired { 3 } else { 0 }, "{access:?}");
    }
    // The permission to repair does not include other permissions.
    let site = site(MemoryStore::new(), MemoryStore::new(), owner().may_repair()).await;
    for (method, path) in
        [(Method::DELETE, "counters?counter=%2F"), (Method::POST, "hits?producer=a&number=1")]
    {
        let path = format!("/admin/stats/api/{path}");
        let told = super::site::request(&site.router, method, &path, Some(("authorization", &shown))).await;
        assert_eq!(told.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn a_page_of_another_origin_audits_nothing_with_the_session_of_its_visitor() {
    let access = Access::bearer(TOKEN).expect("a token").may_repair();
    let site = site(MemoryStore::new(), MemoryStore::new(), access).await;
    let login = send(&site.router, &format!("/admin/stats?token={TOKEN}"), None).await;
    let cookie = login.headers[header::SET_COOKIE].to_str().expect("text");
    let cookie = cookie.split(';').next().expect("a session").to_owned();
    for (name, value, status) in [
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("origin", "https://other.example", 403),
        ("sec-fetch-site", "same-origin", 200),
    ] {
        let request = Request::post(AUDIT).header(header::COOKIE, &cookie).header(name, value);
        let told = answer(&site.router, request.body(Body::empty()).expect("an address")).await;
        assert_eq!(told.status, status, "{name}: {value}");
        let read =
            Request::get(AUDIT).header(header::COOKIE, &cookie).body(Body::empty()).expect("an address");
        assert_eq!(answer(&site.router, read).await.json()["last"].is_object(), status == 200);
    }
}

#[tokio::test]
async fn there_is_no_such_path_unless_it_was_said() {
    let archive = Archive::new(MemoryStore::new(), MemoryStore::new());
    let counters = Counters::builder(archive).build().expect("the defaults are fine");
    let router = Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), anyone()));
    assert_eq!(post(&router, "").await.status, StatusCode::NOT_FOUND);
    assert!(!ask(&router, "openapi.json").await.body.contains("/api/audit"));
}
