//! The login page for the admin token.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use counter_admin::Access;
use counter_core::{Counters, MemoryStore};
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::site::{encode, site_without_redis};

const TOKEN: &str = "a+token/with.signs=";

/// `Accept` header of a browser that loads a page.
const PAGE: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

fn guarded(access: Access) -> Router {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    Router::new().nest_service("/admin/stats", counter_admin::router(counters.stats(), access))
}

fn bearer() -> Access {
    Access::bearer(TOKEN).expect("a token")
}

struct ResponseText {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl ResponseText {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    fn is_page(&self) -> bool {
        self.header(header::CONTENT_TYPE) == "text/html; charset=utf-8"
    }
}

async fn send(router: &Router, request: Request<Body>) -> ResponseText {
    let (head, body) = router.clone().oneshot(request).await.expect("a router answers").into_parts();
    let body = body.collect().await.expect("a body in memory").to_bytes();
    let body = String::from_utf8(body.into()).expect("text");
    ResponseText { status: head.status, headers: head.headers, body }
}

/// Opens an admin page like a browser.
async fn open(router: &Router, path: &str) -> ResponseText {
    let request = Request::get(format!("/admin/stats{path}")).header(header::ACCEPT, PAGE);
    send(router, request.body(Body::empty()).expect("a request")).await
}

/// Submits the login form.
async fn submit(router: &Router, peer: &str, form: &str, headers: &[(&str, &str)]) -> ResponseText {
    let mut request = Request::post("/admin/stats/login")
        .header(header::HOST, "stats.example")
        .header(header::ACCEPT, PAGE)
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .extension(SocketAddr::new(peer.parse().expect("an address"), 1000));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(router, request.body(Body::from(form.to_owned())).expect("a request")).await
}

fn form(token: &str, to: &str) -> String {
    format!("token={}&to={}", encode(token), encode(to))
}

const SAME_ORIGIN: [(&str, &str); 1] = [("origin", "http://stats.example")];

#[tokio::test]
async fn the_login_page_leads_to_the_requested_page() {
    let router = guarded(bearer());
    for (path, to) in [
        ("", ""),
        ("/", "/"),
        ("/counter?counter=%2Fa%22b&precision=60", "/counter?counter=%2Fa%22b&#38;precision=60"),
        ("/?token=wrong&q=a", "/?q=a"),
        ("/api/ledger", "/api/ledger"),
        ("/nothing/<script>", "/nothing/&lt;script&gt;"),
    ] {
        let asked = open(&router, &path.replace('<', "%3C").replace('>', "%3E")).await;
        let to = to.replace("&lt;", "%3C").replace("&gt;", "%3E");
        assert_eq!((asked.status, asked.is_page()), (StatusCode::UNAUTHORIZED, true), "{path}");
        assert_eq!(asked.header(header::CACHE_CONTROL), "no-store");
        assert!(asked.headers.contains_key(header::CONTENT_SECURITY_POLICY));
        for part in [
            "<html lang=\"en\">",
            "<h1>Sign in</h1>",
            "<form method=\"post\" action=\"/admin/stats/login\">",
            "<label for=\"token\">",
            &format!("name=\"to\" value=\"{to}\""),
        ] {
            assert!(asked.body.contains(part), "{path}: {part} in {}", asked.body);
        }
    }
    let response =
        submit(&router, "192.0.2.1", &form(TOKEN, "/counter?counter=%2Fa&precision=60"), &SAME_ORIGIN).await;
    assert_eq!(response.status, StatusCode::SEE_OTHER, "{}", response.body);
    assert_eq!(response.header(header::LOCATION), "/admin/stats/counter?counter=%2Fa&precision=60");
    let cookie = response.header(header::SET_COOKIE);
    assert!(cookie.ends_with("; Path=/admin/stats; HttpOnly; SameSite=Lax"), "{cookie}");
    let (pair, _) = cookie.split_once(';').expect("attributes");
    let request = Request::get("/admin/stats/").header(header::COOKIE, pair).body(Body::empty());
    assert_eq!(send(&router, request.expect("a request")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn pages_without_access_have_the_style_and_the_icon_of_the_dashboard() {
    let router = guarded(bearer());
    for (path, status) in [("", StatusCode::UNAUTHORIZED), ("/shared?counter=hits", StatusCode::FORBIDDEN)] {
        let page = open(&router, path).await;
        assert_eq!(page.status, status);
        assert!(!page.body.contains("<script"), "{}", page.body);
        for (rel, kind) in [("stylesheet", "text/css; charset=utf-8"), ("icon", "image/svg+xml")] {
            let link = page.body.split_once(&format!("<link rel=\"{rel}\" href=\"")).expect(rel).1;
            let (address, _) = link.split_once('"').expect("an address");
            let request = Request::get(address).body(Body::empty()).expect("a request");
            let file = send(&router, request).await;
            assert_eq!((file.status, file.header(header::CONTENT_TYPE)), (StatusCode::OK, kind), "{address}");
            assert!(file.header(header::CACHE_CONTROL).ends_with("immutable"), "{address}");
        }
    }
    for (method, path) in
        [("POST", "/assets/0/style.css"), ("GET", "/assets/0/main.rs"), ("GET", "/assets/style.css")]
    {
        let request = Request::builder().method(method).uri(format!("/admin/stats{path}"));
        let response = send(&router, request.body(Body::empty()).expect("a request")).await;
        assert_eq!(response.status, StatusCode::UNAUTHORIZED, "{method} {path}");
    }
}

#[tokio::test]
async fn errors_are_pages_for_browsers_and_json_for_programs() {
    let router = guarded(bearer());
    for (method, path, status, title) in [
        ("GET", "/nothing", StatusCode::NOT_FOUND, "Page not found"),
        ("GET", "/counter/nothing?q=a", StatusCode::NOT_FOUND, "Page not found"),
        ("GET", "/api/series?counter=a&precision=7", StatusCode::BAD_REQUEST, "Bad request"),
        ("POST", "/api/ledger", StatusCode::FORBIDDEN, "Forbidden"),
        ("GET", "/shared", StatusCode::FORBIDDEN, "Invalid link"),
    ] {
        for is_browser in [true, false] {
            let request = Request::builder()
                .method(method)
                .uri(format!("/admin/stats{path}"))
                .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
                .header(header::ACCEPT, if is_browser { PAGE } else { "*/*" });
            let response = send(&router, request.body(Body::empty()).expect("a request")).await;
            assert_eq!(
                (response.status, response.is_page()),
                (status, is_browser),
                "{path}: {}",
                response.body
            );
            assert!(response.headers.contains_key(header::CONTENT_SECURITY_POLICY));
            if is_browser {
                let parts = [
                    &format!("<h1>{title}</h1>"),
                    "<a href=\"/admin/stats\">Go to the dashboard</a>",
                    "style.css",
                ];
                for part in parts {
                    assert!(response.body.contains(part), "{path}: {part} in {}", response.body);
                }
            } else {
                assert_eq!(response.header(header::CONTENT_TYPE), "application/problem+json");
                assert!(response.body.contains(&format!("\"status\":{}", status.as_u16())));
            }
        }
    }
}

#[tokio::test]
async fn the_api_index_is_a_page_for_browsers() {
    let router = guarded(bearer().or(Access::open()));
    let index = open(&router, "/api").await;
    assert_eq!(
        (index.status, index.header(header::LOCATION)),
        (StatusCode::SEE_OTHER, "/admin/stats/api/explore")
    );
    let page = open(&router, "/api/explore").await;
    assert!(page.is_page() && page.body.contains("<a href=\"/admin/stats\">Visits</a>"), "{}", page.body);
}

#[tokio::test]
async fn a_page_during_an_outage_does_not_show_the_store_error() {
    let (_redis, site) = site_without_redis().await;
    for path in ["", "/counter?counter=hits", "/api/series?counter=hits&precision=60"] {
        let page = open(&site.router, path).await;
        assert_eq!((page.status, page.is_page()), (StatusCode::SERVICE_UNAVAILABLE, true), "{path}");
        let text = "<p>The store is unavailable or too slow. Hits are still counted and kept until it accepts them. See \
                    the log for the reason.</p>";
        assert!(page.body.contains(text), "{path}: {}", page.body);
    }
}

#[tokio::test]
async fn programs_get_a_json_error_instead_of_the_login_page() {
    let router = guarded(bearer());
    for accept in [None, Some("*/*"), Some("application/json")] {
        let mut request = Request::get("/admin/stats/api/ledger");
        if let Some(accept) = accept {
            request = request.header(header::ACCEPT, accept);
        }
        let response = send(&router, request.body(Body::empty()).expect("a request")).await;
        assert_eq!(response.status, StatusCode::UNAUTHORIZED);
        assert_eq!(response.header(header::CONTENT_TYPE), "application/problem+json");
        assert_eq!(response.header(header::WWW_AUTHENTICATE), "Bearer");
    }
}

#[tokio::test]
async fn the_login_form_does_not_redirect_to_other_sites() {
    let router = guarded(bearer());
    let at_the_root = counter_admin::router(
        Counters::builder(MemoryStore::new()).build().expect("the defaults are fine").stats(),
        bearer(),
    );
    for to in [
        "https://other.example/",
        "other.example",
        "/\\other.example",
        "\\\\other.example",
        "/a\r\nb: c",
        "/../../account/delete",
        "/counter/%2e%2E/%2e./..",
    ] {
        let response = submit(&router, "192.0.2.1", &form(TOKEN, to), &SAME_ORIGIN).await;
        assert_eq!(response.header(header::LOCATION), "/admin/stats", "{to}");
    }
    // Browsers resolve a path with a token in the same way.
    let path = format!("/admin/stats/../../account?token={}", encode(TOKEN));
    let request = Request::get(path).body(Body::empty()).expect("a request");
    let response = send(&router, request).await;
    assert!(!response.header(header::LOCATION).contains(".."), "{}", response.header(header::LOCATION));
    let request = Request::post("/login").body(Body::from(form(TOKEN, "//other.example/")));
    let response = send(&at_the_root, request.expect("a request")).await;
    assert_eq!(
        (response.status, response.header(header::LOCATION)),
        (StatusCode::SEE_OTHER, "/other.example/")
    );
    let request = Request::get(format!("//other.example/?token={}", encode(TOKEN))).body(Body::empty());
    let response = send(&at_the_root, request.expect("a request")).await;
    assert_eq!(
        (response.status, response.header(header::LOCATION)),
        (StatusCode::SEE_OTHER, "/other.example/")
    );
}

#[tokio::test(start_paused = true)]
async fn wrong_tokens_are_failed_logins_and_soon_rate_limited() {
    let access = bearer();
    let router = guarded(access.clone());
    for number in 0..10 {
        let response =
            submit(&router, "192.0.2.1", &form(&format!("wrong-{number}"), "/"), &SAME_ORIGIN).await;
        assert_eq!((response.status, response.is_page()), (StatusCode::UNAUTHORIZED, true));
        assert!(response.body.contains("This token is not valid.") && response.body.contains("<form"));
        assert!(!response.body.contains("wrong-") && !response.headers.contains_key(header::SET_COOKIE));
    }
    let response = submit(&router, "192.0.2.1", &form(TOKEN, "/"), &SAME_ORIGIN).await;
    assert_eq!((response.status, response.is_page()), (StatusCode::TOO_MANY_REQUESTS, true));
    assert_eq!(response.header(header::RETRY_AFTER), "10");
    assert!(response.body.contains("Try again in 10 s."), "{}", response.body);
    assert_eq!(access.failed_logins(), 11);
    // Other clients can still log in.
    let response = submit(&router, "192.0.2.2", &form(&format!(" {TOKEN}\n"), "/"), &SAME_ORIGIN).await;
    assert_eq!(response.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_log_in() {
    let access = bearer();
    let router = guarded(access.clone());
    for other in [
        ("origin", "http://other.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let response = submit(&router, "192.0.2.1", &form(TOKEN, "/"), &[other]).await;
        assert_eq!(response.status, StatusCode::FORBIDDEN, "{other:?}");
        assert!(!response.headers.contains_key(header::SET_COOKIE));
    }
    assert_eq!(access.failed_logins(), 0);
}

#[tokio::test]
async fn a_login_form_that_is_too_long_or_invalid_is_rejected() {
    let router = guarded(bearer());
    let response = submit(&router, "192.0.2.1", &form(&"a".repeat(20_000), "/"), &SAME_ORIGIN).await;
    assert_eq!(response.status, StatusCode::PAYLOAD_TOO_LARGE);
    for body in ["", "token", "&&==", "token=%ff%00"] {
        let response = submit(&router, "192.0.2.1", body, &SAME_ORIGIN).await;
        assert_eq!(response.status, StatusCode::UNAUTHORIZED, "{body}");
    }
    let get = open(&router, "/login").await;
    assert_eq!(get.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn without_a_token_there_is_no_login_form() {
    let basic = guarded(Access::basic("ann", "secret").expect("fine"));
    let response = open(&basic, "").await;
    assert_eq!((response.status, response.is_page()), (StatusCode::UNAUTHORIZED, true));
    assert!(response.header(header::WWW_AUTHENTICATE).starts_with("Basic "));
    assert!(!response.body.contains("<form") && response.body.contains("a name and a password"));
    let closure = guarded(Access::from_fn(|_| false));
    let response = open(&closure, "").await;
    assert_eq!((response.status, response.is_page()), (StatusCode::FORBIDDEN, true));
    assert!(!response.body.contains("<form") && response.body.contains("<h1>No access</h1>"));
    for router in [basic, closure] {
        let response = submit(&router, "192.0.2.1", &form(TOKEN, "/"), &SAME_ORIGIN).await;
        assert!([StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&response.status));
        assert!(!response.headers.contains_key(header::SET_COOKIE));
    }
}
