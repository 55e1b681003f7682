//! Share links: clients that have no access can see this view, but nothing else.

use std::num::NonZeroU32;

use axum::Router;
use axum::body::Body;
use counter_admin::Access;
use counter_core::{Counters, MemoryStore, Timestamp};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use tests::noon_offset;
use tower::ServiceExt;

/// The admin router of a site with a token, and a session.
struct Site {
    router: Router,
    session: String,
}

struct ResponseText {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Site {
    async fn new(token: &str) -> Self {
        Self::with(token, MemoryStore::new()).await
    }

    async fn over(store: MemoryStore) -> Self {
        Self::with("a-token-for-tests", store).await
    }

    async fn with(token: &str, store: MemoryStore) -> Self {
        let counters = Counters::builder(store).utc_offset(noon_offset()).build();
        let mut counters = counters.expect("whole hours");
        let recorder = counters.recorder();
        for (name, count) in [("hits", 1000), ("/", 77), ("/secret", 923)] {
            let count = NonZeroU32::new(count).expect("not 0");
            recorder.record_at(recorder.counter(name), None, Timestamp::now(), count);
        }
        counters.flush().await.expect("memory takes all");
        let access = Access::bearer(token).expect("a token").may_forget();
        let router = Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), access));
        let mut site = Self { router, session: String::new() };
        let login = site.fetch(Method::GET, &format!("/admin/stats?token={token}"), &[]).await;
        let cookie = login.headers[header::SET_COOKIE].to_str().expect("text");
        site.session = cookie.split(';').next().expect("a cookie").to_owned();
        site
    }

    async fn fetch(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> ResponseText {
        let mut request = Request::builder().method(method).uri(path).header("accept", "text/html");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("a path");
        let (head, body) = self.router.clone().oneshot(request).await.expect("an answer").into_parts();
        let body = body.collect().await.expect("a body in memory").to_bytes();
        ResponseText {
            status: head.status,
            headers: head.headers,
            body: String::from_utf8(body.into()).expect("text"),
        }
    }

    async fn get(&self, path: &str) -> ResponseText {
        self.fetch(Method::GET, path, &[]).await
    }

    async fn in_session(&self, path: &str) -> ResponseText {
        self.fetch(Method::GET, path, &[("cookie", &self.session)]).await
    }

    /// Returns the link to a view from the share page.
    async fn link(&self, view: &str) -> String {
        let page = self.in_session(&format!("/admin/stats{view}")).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.body);
        attribute(&page.body, "id=\"shared\" href")
    }
}

fn attribute(page: &str, name: &str) -> String {
    let (_, from) = page.split_once(&format!("{name}=\"")).unwrap_or_else(|| panic!("{name} in {page}"));
    from.split_once('"').expect("its end").0.replace("&#38;", "&")
}

#[tokio::test]
async fn a_share_link_shows_only_the_view() {
    let site = Site::new("a-token-for-tests").await;
    for (view, title) in [
        ("/counter/share?counter=%2F&precision=3600&span=24&days=3", "<h1><bdi>/</bdi></h1>"),
        ("/share?counter=%2F&precision=60&uniques=1&ago=3600&q=secret&sort=uniques", "<h1><bdi>/</bdi></h1>"),
    ] {
        let link = site.link(view).await;
        assert!(!link.contains("secret") && link.contains("&until="), "{link}");
        let page = site.get(&link).await;
        assert_eq!(page.status, StatusCode::OK, "{link}: {}", page.body);
        for part in [title, "id=\"plot\"", "id=\"twin\"", "<td>77 so far</td>", "noindex"] {
            assert!(page.body.contains(part), "{part} in {}", page.body);
        }
        for part in ["<a ", "<form", "<script", "923", "secret", "1,000", "id=\"status\"", "token"] {
            assert!(!page.body.contains(part), "{part} in {}", page.body);
        }
        assert_eq!(page.headers[header::CACHE_CONTROL], "no-store");
        assert!(
            page.headers.contains_key(header::CONTENT_SECURITY_POLICY)
                && !page.headers.contains_key(header::SET_COOKIE)
        );
        let style = site.get(&attribute(&page.body, "rel=\"stylesheet\" href")).await;
        assert_eq!(
            (style.status, &style.headers[header::CONTENT_TYPE]),
            (StatusCode::OK, &"text/css; charset=utf-8".parse().expect("a type"))
        );
        assert_eq!(site.fetch(Method::HEAD, &link, &[]).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_modified_expired_or_foreign_share_link_is_rejected() {
    let (site, other) = (Site::new("a-token-for-tests").await, Site::new("another-token-for-tests").await);
    let link = site.link("/counter/share?counter=%2F&precision=3600").await;
    let (path, query) = link.split_once('?').expect("a query");
    let changed = [
        link.replace("counter=%2F", "counter=%2Fsecret"),
        link.replace("&until=", "&counter=%2Fsecret&until="),
        link.replace("&until=", "&until=9"),
        link.replace("span=", "span=1"),
        format!("{link}&counter=%2Fsecret"),
        format!("{path}?counter=%2Fsecret&{query}"),
        format!("/admin/stats/shared?{query}"),
        link[..link.len() - 1].to_owned(),
        path.to_owned(),
        format!("{path}?counter=%2F&until=1&signature={}", "0".repeat(64)),
    ];
    for changed in &changed {
        // The link is rejected even with a valid session.
        for response in [site.get(changed).await, site.in_session(changed).await] {
            assert_eq!(response.status, StatusCode::FORBIDDEN, "{changed}: {}", response.body);
            assert!(
                response.body.contains("This link has expired") && !response.body.contains("77 so far"),
                "{}",
                response.body
            );
        }
    }
    assert_eq!(other.get(&link).await.status, StatusCode::FORBIDDEN);
    assert_eq!(site.get(&link).await.status, StatusCode::OK, "it is whole");
    let program =
        site.router.clone().oneshot(Request::get(&changed[0]).body(Body::empty()).expect("a path")).await;
    assert_eq!(program.expect("an answer").headers()[header::CONTENT_TYPE], "application/problem+json");
}

#[tokio::test]
async fn a_share_link_does_not_open_other_routes() {
    let site = Site::new("a-token-for-tests").await;
    let link = site.link("/counter/share?counter=%2F&precision=3600").await;
    let (_, query) = link.split_once('?').expect("a query");
    for path in [
        "",
        "/parts",
        "/counter",
        "/counter/parts",
        "/counter/share",
        "/share",
        "/api",
        "/api/series",
        "/api/ledger",
        "/api/live",
        "/api/counters",
        "/metrics",
        "/badge.svg",
        "/counter/shared/",
        "/counter/shared/parts",
        "/counter//shared",
    ] {
        let response = site.get(&format!("/admin/stats{path}?{query}")).await;
        let is_refused = matches!(response.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        assert!(is_refused, "{path}: {} {}", response.status, response.body);
    }
    for method in [Method::POST, Method::DELETE, Method::PUT, Method::OPTIONS] {
        assert_eq!(site.fetch(method.clone(), &link, &[]).await.status, StatusCode::FORBIDDEN, "{method}");
    }
}

#[tokio::test]
async fn creating_a_share_link_needs_a_token_or_a_session() {
    let site = Site::new("a-token-for-tests").await;
    for path in ["/admin/stats/share", "/admin/stats/counter/share?counter=%2F"] {
        assert_eq!(site.get(path).await.status, StatusCode::UNAUTHORIZED);
        let by_token = site.fetch(Method::GET, path, &[("authorization", "Bearer a-token-for-tests")]).await;
        assert_eq!(by_token.status, StatusCode::OK, "{}", by_token.body);
        assert_eq!(site.get(&attribute(&by_token.body, "id=\"shared\" href")).await.status, StatusCode::OK);
    }
    let page = site.in_session("/admin/stats").await.body;
    assert_eq!(attribute(&page, "method=\"get\" action"), "/admin/stats/share");
    for (requested, days) in [("", 7), ("days=", 7), ("days=1", 1), ("days=366", 366)] {
        let before = Timestamp::now().as_unix();
        let link = site.link(&format!("/share?{requested}")).await;
        let until = link.split("&until=").nth(1).and_then(|rest| rest.split('&').next()).expect("an end");
        let until: u64 = until.parse().expect("a number");
        assert!(
            (before..=Timestamp::now().as_unix()).contains(&(until - days * 86_400)),
            "{requested}: {link}"
        );
    }
    for wrong in ["days=0", "days=367", "days=x", "span=x", "to=-1"] {
        let response = site.in_session(&format!("/admin/stats/share?{wrong}")).await;
        assert_eq!(response.status, StatusCode::BAD_REQUEST, "{wrong}: {}", response.body);
    }
    // Links cannot be signed if no token is configured.
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let open = Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), Access::open()));
    let open = Site { router: open, session: String::new() };
    assert!(!open.get("/admin/stats").await.body.contains("Share this view"));
    assert_eq!(open.get("/admin/stats/share").await.status, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn revoked_share_links_are_rejected_on_all_instances_but_new_ones_work() {
    let store = MemoryStore::new();
    let [one, other] = [Site::over(store.clone()).await, Site::over(store).await];
    let link = one.link("/counter/share?counter=%2F&precision=3600").await;
    assert_eq!(
        (one.get(&link).await.status, other.get(&link).await.status),
        (StatusCode::OK, StatusCode::OK)
    );
    let revoked = other.fetch(Method::POST, "/admin/stats/links/revoke", &[("cookie", &other.session)]).await;
    assert_eq!(revoked.status, StatusCode::OK, "{}", revoked.body);
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let next = other.link("/counter/share?counter=%2F&precision=3600").await;
    for site in [&one, &other] {
        assert_eq!(site.get(&link).await.status, StatusCode::FORBIDDEN);
        assert_eq!(site.get(&next).await.status, StatusCode::OK);
        assert_eq!(site.in_session("/admin/stats").await.status, StatusCode::OK, "sessions go on");
    }
}

#[tokio::test]
async fn a_share_link_is_signed_with_the_token_of_the_session() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let (first, second) = ("a-token-for-tests", "another-token-for-tests");
    let access = |token| Access::bearer(token).expect("a token");
    let both = counter_admin::router(counters.stats(), access(first).or(access(second)));
    let both = Site { router: Router::new().nest("/admin/stats", both), session: String::new() };
    let credentials = format!("Bearer {second}");
    let page = both.fetch(Method::GET, "/admin/stats/share", &[("authorization", &credentials)]).await;
    let link = attribute(&page.body, "id=\"shared\" href");
    for (token, status) in [(first, StatusCode::FORBIDDEN), (second, StatusCode::OK)] {
        let router =
            Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), access(token)));
        assert_eq!(Site { router, session: String::new() }.get(&link).await.status, status, "{token}");
    }
}
