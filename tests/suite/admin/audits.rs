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

use super::site::{ResponseText, Site, fetch, response, send};
use crate::support::{name, precision, store};

const TOKEN: &str = "a-long-random-token";
const AUDIT: &str = "/admin/stats/api/audit";

/// Creates a site over an archive. Both stores have three hits from two days ago.
async fn site(near: impl Store, far: MemoryStore, access: Access) -> Site {
    let archive = Archive::new(near, far);
    let mut site = Site::archived(archive.clone(), access);
    site.record("/", archived_time(), 3).await;
    let stats = site.counters.stats();
    archive.copier(stats.grid()).copy_once(Timestamp::now()).await.expect("both are there");
    site
}

/// A time on a day that ended long enough ago to be copied to the archive.
fn archived_time() -> Timestamp {
    Timestamp::now().minus(2 * 86_400)
}

fn open_access() -> Access {
    Access::open().may_repair()
}

async fn post(router: &Router, question: &str) -> ResponseText {
    let request = Request::post(format!("{AUDIT}{question}")).body(Body::empty()).expect("an address");
    response(router, request).await
}

async fn audit(router: &Router, question: &str) -> Value {
    let audit = post(router, question).await;
    assert_eq!(audit.status, StatusCode::OK, "{}", audit.body);
    audit.json()
}

/// Deletes the counter from a store, like an outage would.
async fn delete_counter(site: &Site, near: &impl Store) {
    near.forget(&name("/"), site.counters.stats().grid(), Timestamp::now()).await.expect("it is there");
}

#[tokio::test]
async fn lost_buckets_are_reported_with_both_values_and_repaired_from_the_far_store() {
    let (near, recorded_at) = (MemoryStore::new(), archived_time());
    let site = site(near.clone(), MemoryStore::new(), open_access()).await;
    assert_eq!(fetch(&site.router, "audit").await.json(), json!({"last": null}));
    let health = async || fetch(&site.router, "health").await.json();
    assert_eq!(health().await["archive"], json!({"waiting_buckets": 0, "unreadable": 0, "differing": null}));
    let found = audit(&site.router, "").await;
    // An hour and a day.
    let counts = ["compared", "late", "differing", "unreadable"].map(|name| found[name].as_u64());
    assert_eq!((counts, &found["differences"]), ([2, 0, 0, 0].map(Some), &json!([])), "{found}");

    delete_counter(&site, &near).await;
    let found = audit(&site.router, "").await;
    let day = |at| {
        let start = precision(86_400).bucket(at).start.as_unix();
        json!({"kind": "counts", "counter": "/", "precision": 86_400, "start": start, "near": 0, "far": 3})
    };
    assert_eq!(found["differing"], 2);
    let differences = found["differences"].as_array().expect("a list");
    assert_eq!(differences.len(), 2);
    // A new day can have started since then.
    assert!([recorded_at, archived_time()].into_iter().any(|at| differences.contains(&day(at))), "{found}");
    assert_eq!(fetch(&site.router, "audit").await.json(), json!({"last": found}));
    let reply = health().await;
    assert_eq!(
        (&reply["archive"]["differing"], &reply["hints"][0]["name"]),
        (&json!(2), &json!("archive_differs"))
    );
    let metrics = send(&site.router, "/admin/stats/metrics", None).await.body;
    assert!(metrics.contains("\naccess_counter_archive_differing_values 2\n"), "{metrics}");
    let page = send(&site.router, "/admin/stats", None).await.body;
    assert!(page.contains("The near store has lower counts in some buckets than the archive"), "{page}");

    let repaired = audit(&site.router, "?right=far").await;
    assert_eq!((&repaired["repaired_from"], &repaired["differing"]), (&json!("far"), &json!(2)));
    let reply = health().await;
    assert_eq!((&reply["archive"]["differing"], &reply["hints"]), (&json!(0), &json!([])));
    let found = audit(&site.router, "").await;
    assert_eq!((&found["differing"], &found["repaired_from"]), (&json!(0), &json!(null)));
    let counters = Counters::builder(near).build().expect("the defaults are fine");
    assert_eq!(counters.stats().lifetimes(&[name("/")]).await.expect("memory"), [3]);
}

#[tokio::test]
async fn the_far_store_can_be_repaired_from_the_near_store() {
    let near = MemoryStore::new();
    let site = site(near.clone(), MemoryStore::new(), open_access()).await;
    delete_counter(&site, &near).await;
    let repaired = audit(&site.router, "?right=near").await;
    assert_eq!((&repaired["repaired_from"], &repaired["differing"]), (&json!("near"), &json!(2)));
    assert_eq!(audit(&site.router, "?right=").await["differing"], 0);
    let range = archived_time().minus(86_400)..Timestamp::now();
    let series = site.counters.stats().series(&name("/"), precision(86_400), range).await;
    assert_eq!(series.expect("memory").total(), Ok(0));
}

#[tokio::test]
async fn a_concurrent_audit_is_rejected_and_a_dropped_audit_blocks_nothing() {
    let redis = RedisServer::start();
    let site = site(store(&redis.url()).await, MemoryStore::new(), open_access()).await;
    let (one, other) = tokio::join!(post(&site.router, ""), post(&site.router, "?right=far"));
    let rejected = if one.status == StatusCode::OK { other } else { one };
    assert_eq!(rejected.status, StatusCode::CONFLICT, "{}", rejected.body);
    assert_eq!(rejected.headers[header::CONTENT_TYPE], "application/problem+json");
    assert!(rejected.body.contains("running"), "{}", rejected.body);
    // This drops the request while the audit waits for Redis.
    tokio::select! {
        biased;
        reply = post(&site.router, "") => panic!("{}", reply.body),
        () = ready(()) => {}
    }
    assert_eq!(post(&site.router, "").await.status, StatusCode::OK);
}

#[tokio::test]
async fn without_a_store_an_audit_fails_with_a_reason_and_the_last_one_stays() {
    let mut redis = RedisServer::start();
    let site = site(store(&redis.url()).await, MemoryStore::new(), open_access()).await;
    let found = audit(&site.router, "").await;
    redis.command(&["SAVE"]);
    redis.stop();
    let reply = post(&site.router, "?right=far").await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{}", reply.body);
    assert!(reply.json()["health"].is_object() && reply.json()["detail"] != "", "{}", reply.body);
    assert_eq!(fetch(&site.router, "audit").await.json(), json!({"last": found}));
    redis.restart();
    until("it audits again", LIMIT, async || post(&site.router, "").await.status == StatusCode::OK).await;
}

#[tokio::test]
async fn an_invalid_side_repairs_nothing() {
    let near = MemoryStore::new();
    let site = site(near.clone(), MemoryStore::new(), open_access()).await;
    delete_counter(&site, &near).await;
    for (question, wrong) in
        [("?right=both", "right"), ("?right=far&right=near", "right"), ("?left=far", "left")]
    {
        let reply = post(&site.router, question).await;
        assert_eq!((reply.status, &reply.json()["parameter"]), (StatusCode::BAD_REQUEST, &json!(wrong)));
    }
    assert_eq!(audit(&site.router, "").await["differing"], 2);
}

#[tokio::test]
async fn auditing_needs_the_permission_and_the_error_names_the_scope() {
    let credentials = format!("Bearer {TOKEN}");
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
        delete_counter(&site, &near).await;
        let mut repaired = false;
        for (credentials, status) in [(None, without), (Some(&credentials), with)] {
            let mut request = Request::post(format!("{AUDIT}?right=far"));
            if let Some(credentials) = credentials {
                request = request.header(header::AUTHORIZATION, credentials);
            }
            let reply = response(&site.router, request.body(Body::empty()).expect("an address")).await;
            assert_eq!(reply.status, status, "{access:?}: {}", reply.body);
            if credentials.is_some() && status == 403 && without == 401 {
                let scope = "Bearer error=\"insufficient_scope\", scope=\"repair\"";
                assert_eq!(reply.headers[header::WWW_AUTHENTICATE], scope, "{access:?}");
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
        let reply =
            super::site::request(&site.router, method, &path, Some(("authorization", &credentials))).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_audit_with_the_session_of_a_visitor() {
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
        let reply = response(&site.router, request.body(Body::empty()).expect("an address")).await;
        assert_eq!(reply.status, status, "{name}: {value}");
        let read =
            Request::get(AUDIT).header(header::COOKIE, &cookie).body(Body::empty()).expect("an address");
        assert_eq!(response(&site.router, read).await.json()["last"].is_object(), status == 200);
    }
}

#[tokio::test]
async fn the_routes_are_disabled_by_default() {
    let archive = Archive::new(MemoryStore::new(), MemoryStore::new());
    let counters = Counters::builder(archive).build().expect("the defaults are fine");
    let router = Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), open_access()));
    assert_eq!(post(&router, "").await.status, StatusCode::NOT_FOUND);
    assert!(!fetch(&router, "openapi.json").await.body.contains("/api/audit"));
}
