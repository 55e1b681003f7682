//! Share links: clients that have no access can see this view, but nothing else.

use std::num::NonZeroU32;

use axum::Router;
use axum::body::Body;
use counter_admin::Access;
use counter_core::fleet::Fleet;
use counter_core::{Counters, MemoryStore, Store, Timestamp};
use counter_layer::{Forwarded, Identity};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use tests::{FaultProxy, RedisServer, noon_offset, until};
use tower::ServiceExt;

use super::site::LIMIT;
use crate::support::store;

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

    async fn with(token: &str, store: impl Store) -> Self {
        let access = Access::bearer(token).expect("a token").may_forget();
        Self::of(token, store, access).await
    }

    async fn of(token: &str, store: impl Store, access: Access) -> Self {
        let counters = Counters::builder(store).utc_offset(noon_offset()).build();
        let mut counters = counters.expect("whole hours");
        let recorder = counters.recorder();
        for (name, count) in [("hits", 1000), ("/", 77), ("/secret", 923)] {
            let count = NonZeroU32::new(count).expect("not 0");
            recorder.record_at(recorder.counter(name), None, Timestamp::now(), count);
        }
        counters.flush().await.expect("memory takes all");
        let router = Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), access));
        let mut site = Self { router, session: String::new() };
        let login = site.fetch(Method::GET, &format!("/admin/stats?token={token}"), &[]).await;
        let cookie = login.headers[header::SET_COOKIE].to_str().expect("text");
        site.session = cookie.split(';').next().expect("a cookie").to_owned();
        site
    }

    async fn fetch(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> ResponseText {
        self.send(method, path, headers, "").await
    }

    async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], form: &str) -> ResponseText {
        let mut request = Request::builder().method(method).uri(path).header("accept", "text/html");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(form.to_owned())).expect("a path");
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

    /// Submits a form in the session.
    async fn submit(&self, path: &str, form: &str) -> ResponseText {
        let headers = [("cookie", self.session.as_str())];
        self.send(Method::POST, &format!("/admin/stats{path}"), &headers, form).await
    }

    /// Creates a link to a view with the form of the share page. Returns the page that shows the link.
    async fn share(&self, view: &str, headers: &[(&str, &str)]) -> ResponseText {
        let (path, query) = view.split_once('?').unwrap_or((view, ""));
        let created = self.send(Method::POST, &format!("/admin/stats{path}"), headers, query).await;
        assert_eq!(created.status, StatusCode::SEE_OTHER, "{}", created.body);
        let page = created.headers[header::LOCATION].to_str().expect("text");
        self.fetch(Method::GET, page, headers).await
    }

    /// Creates a link to a view, and returns it without the origin.
    async fn link(&self, view: &str) -> String {
        let page = self.share(view, &[("cookie", &self.session)]).await;
        attribute(&page.body, "id=\"shared\" value")
    }
}

/// Returns the id of a link.
fn id_of(link: &str) -> &str {
    let (_, id) = link.split_once("&link=").expect("an id");
    &id[..16]
}

fn attribute(page: &str, name: &str) -> String {
    let (_, from) = page.split_once(&format!("{name}=\"")).unwrap_or_else(|| panic!("{name} in {page}"));
    from.split_once('"').expect("its end").0.replace("&#38;", "&")
}

#[tokio::test]
async fn a_share_link_shows_only_the_view() {
    let site = Site::new("a-token-for-tests").await;
    for (view, title) in [
        ("/counter/share?counter=%2F&period=24h&days=3", "<h1><bdi>/</bdi></h1>"),
        ("/share?counter=%2F&period=1h&show=people&q=secret&sort=people", "<h1><bdi>/</bdi></h1>"),
    ] {
        let link = site.link(view).await;
        assert!(!link.contains("secret") && !link.contains("token"), "{link}");
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
async fn a_link_to_a_whole_page_shows_its_panels_without_other_pages() {
    let site = Site::new("a-token-for-tests").await;
    for (view, title, shown, hidden) in [
        ("/share?period=7d&share=page", "<h1>Visits</h1>", &["1,000", "/secret", "id=\"rows\""][..], &[][..]),
        (
            "/counter/share?counter=%2F&share=page&period=7d",
            "<h1><bdi>/</bdi></h1>",
            &["id=\"card-total\"", "<strong id=\"total\">77</strong>"],
            &["923", "secret", "id=\"rows\""],
        ),
        (
            "/share?period=7d&share=chart",
            "<h1><bdi>hits</bdi></h1>",
            &["1,000"],
            &["/secret", "id=\"rows\"", "id=\"card-"],
        ),
    ] {
        let link = site.link(view).await;
        let page = site.get(&link).await;
        assert_eq!(page.status, StatusCode::OK, "{link}: {}", page.body);
        for part in [&[title, "id=\"plot\"", "7 days"], shown].concat() {
            assert!(page.body.contains(part), "{view}: {part} in {}", page.body);
        }
        for part in [
            &[
                "<a ",
                "href=\"\"",
                "<form",
                "<script",
                "id=\"status\"",
                "id=\"facets\"",
                "token",
                "All time",
                "all time",
                "Share of all",
                "<option",
            ],
            hidden,
        ]
        .concat()
        {
            assert!(!page.body.contains(part), "{view}: {part} in {}", page.body);
        }
        let changed = link.replace("&share=page", "").replace("&share=chart", "");
        if changed != link {
            assert_eq!(
                site.get(&changed).await.status,
                StatusCode::FORBIDDEN,
                "the signature covers the part"
            );
        }
    }
}

#[tokio::test]
async fn a_shared_page_says_that_data_is_missing_but_not_on_which_server() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let us = store(&proxy.url()).await;
    let fleet = Fleet::reader(MemoryStore::new(), "eu", MemoryStore::new()).site("us", us);
    let fleet = fleet.expect("two names").timeout(LIMIT / 20);
    let access = Access::bearer("a-token-for-tests").expect("a token");
    let site = Site::of("a-token-for-tests", fleet, access).await;
    let links = [site.link("/share?period=7d&share=page").await, site.link("/share?period=7d").await];
    let warning = "Some data cannot be read, so values are unknown, left out or too low.<";
    for link in &links {
        assert!(!site.get(link).await.body.contains(warning), "{link}");
    }
    proxy.refuse(true);
    for link in &links {
        until("the warning is shown", LIMIT, async || site.get(link).await.body.contains(warning)).await;
        let page = site.get(link).await.body;
        assert!(!page.contains("site us") && !page.contains("respond in time"), "{page}");
    }
}

#[tokio::test]
async fn a_modified_expired_or_foreign_share_link_is_rejected() {
    let (site, other) = (Site::new("a-token-for-tests").await, Site::new("another-token-for-tests").await);
    let link = site.link("/counter/share?counter=%2F&period=24h").await;
    let (path, query) = link.split_once('?').expect("a query");
    let changed = [
        link.replace("counter=%2F", "counter=%2Fsecret"),
        link.replace("&until=", "&counter=%2Fsecret&until="),
        link.replace("&until=", "&until=9"),
        link.replace("period=", "period=1"),
        link.replace(id_of(&link), "0123456789abcdef"),
        format!("{link}&counter=%2Fsecret"),
        format!("{path}?counter=%2Fsecret&{query}"),
        format!("/admin/stats/shared?{query}"),
        link[..link.len() - 1].to_owned(),
        path.to_owned(),
        format!("{path}?counter=%2F&link=0123456789abcdef&until=1&signature={}", "0".repeat(64)),
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
    let link = site.link("/counter/share?counter=%2F&period=24h").await;
    let (_, query) = link.split_once('?').expect("a query");
    for path in [
        "",
        "/parts",
        "/counter",
        "/counter/parts",
        "/list.csv",
        "/chart.csv",
        "/chart.svg",
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
        for method in [Method::GET, Method::POST] {
            assert_eq!(site.fetch(method, path, &[]).await.status, StatusCode::UNAUTHORIZED);
        }
        let view = path.strip_prefix("/admin/stats").expect("a prefix");
        let by_token = site.share(view, &[("authorization", "Bearer a-token-for-tests")]).await;
        assert_eq!(site.get(&attribute(&by_token.body, "id=\"shared\" value")).await.status, StatusCode::OK);
    }
    assert!(site.in_session("/admin/stats").await.body.contains("\"/admin/stats/share"));
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
    for wrong in ["days=0", "days=367", "days=x"] {
        let shown = site.in_session(&format!("/admin/stats/share?{wrong}")).await;
        for response in [shown, site.submit("/share", wrong).await] {
            assert_eq!(response.status, StatusCode::BAD_REQUEST, "{wrong}: {}", response.body);
        }
    }
    // Links cannot be signed if no token is configured.
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let open = Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), Access::open()));
    let open = Site { router: open, session: String::new() };
    assert!(!open.get("/admin/stats").await.body.contains("/admin/stats/share"));
    for path in ["/admin/stats/share", "/admin/stats/share/revoke"] {
        assert_eq!(open.fetch(Method::POST, path, &[]).await.status, StatusCode::FORBIDDEN);
    }
    let response = open.get("/admin/stats/share").await;
    assert_eq!(response.status, StatusCode::FORBIDDEN);
    assert!(response.body.contains("<h1>Admin token required</h1>"), "{}", response.body);
}

#[tokio::test]
async fn a_share_form_repeats_the_view_and_does_not_create_a_link() {
    let site = Site::new("a-token-for-tests").await;
    let page = site.in_session("/admin/stats/counter/share?counter=%2F&zone=local&days=3").await.body;
    for part in [
        "<form method=\"post\" action=\"/admin/stats/counter/share\"",
        "<input type=\"hidden\" name=\"counter\" value=\"/\">",
        "<input type=\"hidden\" name=\"zone\" value=\"local\">",
        "name=\"days\" value=\"3\"",
        "No active links",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(!page.contains("id=\"shared\""), "{page}");
}

#[tokio::test]
async fn a_share_page_lists_active_links() {
    let site = Site::new("a-token-for-tests").await;
    let [first, second] =
        [site.link("/share?days=1").await, site.link("/counter/share?counter=%2F&counter=hits").await];
    // The page of any view lists all links, newest first.
    let page = site.in_session("/admin/stats/share?counter=%2Fsecret").await.body;
    let list = page.split_once("id=\"links\"").expect("a list").1;
    let listed: Vec<_> = list.split("<li>").skip(1).collect();
    assert_eq!(listed.len(), 2, "{page}");
    for (row, link, shown) in [
        (listed[0], &second, "<bdi>/</bdi>, <bdi>Hits</bdi>, Today, per hour"),
        (listed[1], &first, "<bdi>Hits</bdi>, Today, per hour"),
    ] {
        assert_eq!(&attribute(row, "<a href"), link);
        let action = "action=\"/admin/stats/share/revoke\"";
        for part in [shown, action, &format!("value=\"{}\"", id_of(link)), "Created ", "valid until "] {
            assert!(row.contains(part), "{part} in {row}");
        }
    }
    assert!(page.contains("action=\"/admin/stats/links/revoke\""), "{page}");
    // A reload does not create another link.
    let shown = site.share("/share", &[("cookie", &site.session)]).await.body;
    let again = site.in_session(&format!("/admin/stats/share?created={}", id_of(&first))).await.body;
    assert_eq!(attribute(&again, "id=\"shared\" value"), first);
    let listed = |page: &str| page.split_once("id=\"links\"").expect("a list").1.matches("<li>").count();
    assert_eq!((listed(&shown), listed(&again)), (3, 3));
}

#[tokio::test]
async fn a_share_link_contains_the_origin_that_the_client_used() {
    let trusting = |access: Access| {
        access.clients(Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1)).forwarded_prefix()
    };
    let proxied = [
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-prefix", "/visits"),
        ("x-forwarded-host", "other.example"),
    ];
    let bearer = || Access::bearer("a-token-for-tests").expect("a token");
    for (access, host, expected) in [
        (bearer(), "stats.example:8080", "http://stats.example:8080/admin/stats/shared?"),
        (bearer().secure_cookie(), "stats.example", "https://stats.example/admin/stats/shared?"),
        (trusting(bearer()), "stats.example", "https://stats.example/visits/admin/stats/shared?"),
        (bearer(), "user@stats.example", "/admin/stats/shared?"),
    ] {
        let site = Site::of("a-token-for-tests", MemoryStore::new(), access.clone()).await;
        let headers =
            [&proxied[..], &[("host", host), ("authorization", "Bearer a-token-for-tests")]].concat();
        // The test does not have a proxy that removes the prefix from the redirect.
        let created = site.send(Method::POST, "/admin/stats/share", &headers, "").await;
        let page = created.headers[header::LOCATION].to_str().expect("text");
        let page = page.strip_prefix("/visits").unwrap_or(page);
        let page = site.fetch(Method::GET, page, &headers).await;
        let url = attribute(&page.body, "id=\"shared\" value");
        assert!(url.starts_with(expected), "{access:?}: {url}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_share_link_can_be_revoked_on_all_instances() {
    let store = MemoryStore::new();
    let [one, other] = [Site::over(store.clone()).await, Site::over(store.clone()).await];
    let [revoked, kept] = [one.link("/share").await, one.link("/share").await];
    assert_eq!(other.get(&revoked).await.status, StatusCode::OK);
    let form = format!("link={}&to=%2Fshare%3Fcounter%3Da", id_of(&revoked));
    let response = other.submit("/share/revoke", &form).await;
    assert_eq!(response.status, StatusCode::SEE_OTHER, "{}", response.body);
    assert_eq!(response.headers[header::LOCATION], "/admin/stats/share?counter=a");
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    for site in [&one, &other, &Site::over(store).await] {
        assert_eq!(site.get(&revoked).await.status, StatusCode::FORBIDDEN);
        assert_eq!(site.get(&kept).await.status, StatusCode::OK);
        let page = site.in_session("/admin/stats/share").await.body;
        assert!(!page.contains(id_of(&revoked)) && page.contains(id_of(&kept)), "{page}");
    }
}

#[tokio::test]
async fn revoking_a_share_link_needs_a_session_of_the_same_origin() {
    let site = Site::new("a-token-for-tests").await;
    let link = site.link("/share").await;
    let form = format!("link={}", id_of(&link));
    for path in ["/admin/stats/share/revoke", "/admin/stats/share"] {
        let foreign =
            [("cookie", &*site.session), ("host", "stats.example"), ("origin", "http://other.example")];
        let response = site.send(Method::POST, path, &foreign, &form).await;
        assert_eq!(response.status, StatusCode::FORBIDDEN, "{}", response.body);
        assert_eq!(site.send(Method::POST, path, &[], &form).await.status, StatusCode::UNAUTHORIZED);
    }
    for wrong in ["", "link=", "link=1", "link=x"] {
        assert_eq!(site.submit("/share/revoke", wrong).await.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    let unlisted = site.submit("/share/revoke", "link=00000000000000ab").await;
    assert_eq!(unlisted.status, StatusCode::NOT_FOUND, "{}", unlisted.body);
    assert!(unlisted.body.contains("The link is not listed, so it was not revoked."), "{}", unlisted.body);
    assert_eq!(site.get(&link).await.status, StatusCode::OK);
    let elsewhere = site.submit("/share/revoke", &format!("{form}&to=https%3A%2F%2Fother.example")).await;
    assert_eq!(elsewhere.headers[header::LOCATION], "/admin/stats/share");
    assert_eq!(site.get(&link).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn further_share_links_are_rejected_instead_of_forgetting_active_links() {
    let site = Site::new("a-token-for-tests").await;
    let first = site.link("/share").await;
    for _ in 1..100 {
        assert_eq!(site.submit("/share", "").await.status, StatusCode::SEE_OTHER);
    }
    let response = site.submit("/share", "").await;
    assert_eq!(response.status, StatusCode::CONFLICT, "{}", response.body);
    assert!(response.body.contains("There are already 100 active links."), "{}", response.body);
    site.submit("/share/revoke", &format!("link={}", id_of(&first))).await;
    assert_eq!(site.submit("/share", "").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn share_links_stay_valid_or_revoked_during_an_outage() {
    let mut redis = RedisServer::start();
    let site = Site::with("a-token-for-tests", store(&redis.url()).await).await;
    let [revoked, kept] = [site.link("/share").await, site.link("/share").await];
    site.submit("/share/revoke", &format!("link={}", id_of(&revoked))).await;
    redis.stop();
    assert_eq!(site.get(&revoked).await.status, StatusCode::FORBIDDEN);
    // The link is accepted, but the data can't be read.
    let page = site.get(&kept).await;
    assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE, "{}", page.body);
    assert!(page.body.contains("The data of this view cannot be read."), "{}", page.body);
    for (path, form) in [("/share", String::new()), ("/share/revoke", format!("link={}", id_of(&kept)))] {
        let response = site.submit(path, &form).await;
        assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE, "{}", response.body);
        assert!(response.body.contains("The store cannot be written"), "{}", response.body);
    }
    redis.restart();
    until("the store is back", LIMIT, async || site.get(&kept).await.status == StatusCode::OK).await;
    assert_eq!(site.get(&revoked).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn revoked_share_links_are_rejected_on_all_instances_but_new_ones_work() {
    let store = MemoryStore::new();
    let [one, other] = [Site::over(store.clone()).await, Site::over(store).await];
    let link = one.link("/counter/share?counter=%2F&period=24h").await;
    assert_eq!(
        (one.get(&link).await.status, other.get(&link).await.status),
        (StatusCode::OK, StatusCode::OK)
    );
    let revoked = other.fetch(Method::POST, "/admin/stats/links/revoke", &[("cookie", &other.session)]).await;
    assert_eq!(revoked.status, StatusCode::OK, "{}", revoked.body);
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let next = other.link("/counter/share?counter=%2F&period=24h").await;
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
    let page = both.share("/share", &[("authorization", &credentials)]).await;
    let link = attribute(&page.body, "id=\"shared\" value");
    for (token, status) in [(first, StatusCode::FORBIDDEN), (second, StatusCode::OK)] {
        let router =
            Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), access(token)));
        assert_eq!(Site { router, session: String::new() }.get(&link).await.status, status, "{token}");
    }
}
