//! Access to the admin router, and security headers.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use counter_admin::{Access, AccessError};
use counter_core::{Counters, MemoryStore, Timestamp};
use counter_layer::{Forwarded, Identity};
use http::{Method, Request, StatusCode, header};
use tokio::time::Instant;
use tower::ServiceExt;

use super::site::{ResponseText, Site, encode, request, send};

const TOKEN: &str = "a-token.of~its/own==";
const LEDGER: &str = "/admin/stats/api/ledger";

#[tokio::test(start_paused = true)]
async fn access_is_denied_without_the_token() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    let wrong = [
        None,
        Some(("authorization", "Bearer a-token.of~its/own=")),
        Some(("authorization", "Bearer a-token.of~its/own==x")),
        Some(("authorization", "Bearer")),
        Some(("authorization", "Basic a-token.of~its/own==")),
        Some(("authorization", TOKEN)),
        Some(("cookie", "counter_session=a-token.of~its/own==")),
        Some(("cookie", "counter_session=")),
    ];
    for credentials in wrong {
        for path in [
            "",
            "/counter?counter=hits",
            "/list.csv",
            "/chart.csv",
            "/chart.svg",
            "/share",
            "/api/ledger",
            "/api/nothing",
            "/api/ledger?token=",
            "/api/ledger?token=wrong",
        ] {
            let response = send(&router, &format!("/admin/stats{path}"), credentials).await;
            assert_eq!(response.status, StatusCode::UNAUTHORIZED, "{path} with {credentials:?}");
            assert_eq!(response.headers[header::WWW_AUTHENTICATE], "Bearer");
            assert!(!response.headers.contains_key(header::SET_COOKIE), "{path} with {credentials:?}");
            assert!(response.json()["detail"].is_string());
        }
    }
}

#[tokio::test]
async fn access_is_granted_with_the_token() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    for scheme in ["Bearer", "bearer"] {
        for path in ["", "/api/ledger"] {
            let credentials = format!("{scheme} {TOKEN}");
            let response =
                send(&router, &format!("/admin/stats{path}"), Some(("authorization", &credentials))).await;
            assert_eq!(response.status, StatusCode::OK, "{path}");
        }
    }
}

#[tokio::test]
async fn a_link_with_the_token_sets_a_cookie_and_redirects_without_the_token() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    let token = encode(TOKEN);
    let table = [
        (format!("?token={token}"), ""),
        (format!("/api/ledger?token={token}"), "/api/ledger"),
        (
            format!("/api/total?counter=%2Fa%26b&token={token}&precision=60"),
            "/api/total?counter=%2Fa%26b&precision=60",
        ),
    ];
    for (path, to) in table {
        let response = send(&router, &format!("/admin/stats{path}"), None).await;
        assert_eq!(response.status, StatusCode::SEE_OTHER, "{path}");
        assert_eq!(response.headers[header::LOCATION], format!("/admin/stats{to}"));
        let cookie = response.headers[header::SET_COOKIE].to_str().expect("text");
        let (pair, attributes) = cookie.split_once("; ").expect("a cookie with attributes");
        assert_eq!(attributes, "Path=/admin/stats; HttpOnly; SameSite=Lax");
        assert!(!cookie.contains(TOKEN) && !response.body.contains(TOKEN), "{cookie}");
        let opened = send(&router, "/admin/stats/api/ledger", Some(("cookie", pair))).await;
        assert_eq!(opened.status, StatusCode::OK);
        let among_others = format!("theme=dark; {pair}; lang=en");
        let opened = send(&router, "/admin/stats", Some(("cookie", &among_others))).await;
        assert_eq!(opened.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn the_cookie_is_secure_if_configured_or_if_the_request_uses_tls() {
    let access = || Access::bearer(TOKEN).expect("a token");
    let (asked, by_other) = (access().secure_cookie(), access().or(Access::open().secure_cookie()));
    let (https, http) = ("https://stats.example/admin/stats", "http://stats.example/admin/stats");
    let table = [
        (access(), "/admin/stats", None, false),
        (access(), http, None, false),
        (access(), https, None, true),
        (access(), "/admin/stats", Some(("x-forwarded-proto", "https")), false),
        (access(), https, Some(("x-forwarded-proto", "http")), true),
        (asked.clone(), "/admin/stats", None, true),
        (asked.clone(), http, None, true),
        (asked, "/admin/stats", Some(("x-forwarded-proto", "http")), true),
        (by_other, "/admin/stats", None, true),
    ];
    for (access, address, credentials, secure) in table {
        let response =
            send(&guarded(access), &format!("{address}?token={}", encode(TOKEN)), credentials).await;
        let cookie = response.headers[header::SET_COOKIE].to_str().expect("text");
        let (_, attributes) = cookie.split_once("; ").expect("a cookie with attributes");
        let expected = if secure { "; Secure" } else { "" };
        assert_eq!(
            attributes,
            format!("Path=/admin/stats; HttpOnly; SameSite=Lax{expected}"),
            "{address} with {credentials:?}"
        );
    }
}

#[tokio::test]
async fn the_cookie_is_secure_if_a_trusted_proxy_reports_https() {
    let proxies = || {
        Identity::forwarded(Forwarded::X_FORWARDED_FOR)
            .trusted_networks(["10.0.0.0/8".parse().expect("a network")])
    };
    let router = guarded(Access::bearer(TOKEN).expect("a token").clients(proxies()));
    for (peer, protos, secure) in [
        ("10.0.0.1", &["https"] as &[_], true),
        ("10.0.0.1", &["HTTPS"], true),
        ("10.0.0.1", &["http, https"], true),
        ("10.0.0.1", &["http", "https"], true),
        ("10.0.0.1", &["https, http"], false),
        ("10.0.0.1", &["https", "http"], false),
        ("10.0.0.1", &["http"], false),
        ("10.0.0.1", &[], false),
        ("192.0.2.1", &["https"], false),
    ] {
        let mut link = Request::get(format!("/admin/stats?token={}", encode(TOKEN)));
        for proto in protos {
            link = link.header("x-forwarded-proto", *proto);
        }
        let link = link.extension(SocketAddr::new(peer.parse().expect("an address"), 1000));
        let response =
            router.clone().oneshot(link.body(Body::empty()).expect("a request")).await.expect("an answer");
        let cookie = response.headers()[header::SET_COOKIE].to_str().expect("text");
        assert_eq!(cookie.ends_with("; Secure"), secure, "{peer} {protos:?}: {cookie}");
    }
}

#[test]
fn a_short_token_is_rejected_and_a_random_one_is_suggested() {
    for short in ["", "4711", "letmein", "fifteen-letters"] {
        let Err(AccessError::ShortToken { suggestion }) = Access::bearer(short) else { panic!("{short}") };
        assert!(
            suggestion.len() == 32 && suggestion.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{suggestion}"
        );
        let error = Access::bearer(short).expect_err("it is short");
        let words = error.to_string();
        assert!(
            words.contains("at least 16 characters, because") && !words.ends_with(&suggestion),
            "{words}"
        );
        Access::bearer(suggestion).expect("it can be used");
    }
    for wrong in ["a token of many words", "a-token-with-ümlauts"] {
        assert_eq!(Access::bearer(wrong).expect_err("it has other letters"), AccessError::TokenCharacters);
    }
}

#[tokio::test]
async fn a_link_with_the_token_can_be_opened_again() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    for path in ["/admin/stats", "/admin/stats/api/ledger", "/admin/stats/api/counters"] {
        let link = format!("{path}?token={}", encode(TOKEN));
        let first = send(&router, &link, None).await;
        let cookie = first.headers[header::SET_COOKIE].to_str().expect("text");
        let (pair, _) = cookie.split_once(';').expect("a cookie with attributes");
        let second = send(&router, &link, Some(("cookie", pair))).await;
        assert_eq!(second.status, StatusCode::SEE_OTHER, "{path}: {}", second.body);
        assert_eq!(second.headers[header::LOCATION], path);
    }
}

#[tokio::test]
async fn responses_never_contain_the_token_even_if_it_is_sent_twice() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    let credentials = format!("Bearer {TOKEN}");
    for question in ["", "/api/counters", "/api/total", "/api/ledger", "/api/nothing"] {
        let path = format!("/admin/stats{question}?token={}", encode(TOKEN));
        let response = send(&router, &path, Some(("authorization", &credentials))).await;
        assert!(!response.body.contains(TOKEN), "{path}: {}", response.body);
    }
}

#[tokio::test]
async fn a_closure_can_grant_access() {
    let router = guarded(Access::from_fn(|parts| parts.headers.contains_key("x-staff")));
    let response = send(&router, "/admin/stats/api/ledger", Some(("x-staff", "yes"))).await;
    assert_eq!(response.status, StatusCode::OK);
    let response = send(&router, "/admin/stats/api/ledger", None).await;
    assert_eq!(response.status, StatusCode::FORBIDDEN);
    assert!(response.json()["detail"].is_string());
}

#[tokio::test]
async fn open_access_needs_no_credentials() {
    let response = send(&guarded(Access::open()), "/admin/stats/api/ledger", None).await;
    assert_eq!(response.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn basic_access_needs_the_exact_name_and_password() {
    let router = guarded(Access::basic("Aladdin", "open sesame").expect("a name and a password"));
    for (credentials, status) in [
        ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", 200),
        ("basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", 200),
        ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=", 401),
        ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZR==", 401),
        ("Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==", 401),
        ("Basic Aladdin:open sesame", 401),
        ("Basic", 401),
    ] {
        let response = send(&router, LEDGER, Some(("authorization", credentials))).await;
        assert_eq!(response.status, status, "{credentials}");
        if status == 401 {
            let challenge = "Basic realm=\"statistics\", charset=\"UTF-8\"";
            assert_eq!(response.headers[header::WWW_AUTHENTICATE], challenge);
        }
    }
}

#[test]
fn an_invalid_name_or_password_is_rejected() {
    for (user, password) in [("", "x"), ("x", ""), ("a:b", "x"), ("a\n", "x"), ("a", "x\0")] {
        let error: AccessError = Access::basic(user, password).expect_err("refused");
        assert!(!error.to_string().contains(password) || password.is_empty() || password == "x", "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn combined_access_methods_have_separate_permissions() {
    let reader = Access::basic("reader", "secret").expect("a name and a password");
    let owner = Access::bearer(TOKEN).expect("a token").may_forget();
    let closure = Access::from_fn(|parts| parts.headers.contains_key("x-staff"));
    let mut site = Site::with(MemoryStore::new(), reader.or(owner).or(closure));
    site.record("a", Timestamp::now(), 1).await;
    let bearer = format!("Bearer {TOKEN}");
    let table = [
        (Some(("authorization", "Basic cmVhZGVyOnNlY3JldA==")), 200, 403),
        (Some(("x-staff", "yes")), 200, 403),
        (Some(("authorization", &*bearer)), 200, 204),
        (None, 401, 401),
        (Some(("authorization", "Bearer wrong")), 401, 401),
    ];
    for (credentials, read, forget) in table {
        assert_eq!(send(&site.router, LEDGER, credentials).await.status, read, "{credentials:?}");
        let response =
            request(&site.router, Method::DELETE, "/admin/stats/api/counters?counter=a", credentials).await;
        assert_eq!(response.status, forget, "{credentials:?}: {}", response.body);
        let challenges: Vec<_> = response.headers.get_all(header::WWW_AUTHENTICATE).iter().collect();
        match forget {
            401 => assert_eq!(challenges.len(), 2, "{challenges:?}"),
            403 => assert_eq!(challenges, ["Bearer error=\"insufficient_scope\", scope=\"forget\""]),
            _ => assert_eq!(challenges.len(), 0),
        }
    }
}

#[tokio::test]
async fn forgetting_needs_the_permission() {
    for access in [Access::open(), Access::from_fn(|_| true), Access::bearer(TOKEN).expect("a token")] {
        let router = guarded(access);
        let credentials = format!("Bearer {TOKEN}");
        for method in [Method::DELETE, Method::POST, Method::PUT] {
            let path = "/admin/stats/api/counters?counter=a";
            let response = request(&router, method, path, Some(("authorization", &credentials))).await;
            assert_eq!(response.status, StatusCode::FORBIDDEN, "{}", response.body);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_logins_are_counted_and_answered_immediately() {
    let access = Access::bearer(TOKEN).expect("a token");
    let router = guarded(access.clone());
    let credentials = format!("Bearer {TOKEN}");
    let wrong = [
        (LEDGER, Some(("authorization", "Bearer wrong"))),
        (LEDGER, Some(("authorization", "Basic eA=="))),
        (LEDGER, Some(("authorization", "Bearer"))),
        ("/admin/stats?token=wrong", None),
    ];
    let start_time = Instant::now();
    for (path, wrong) in wrong {
        assert_eq!(send(&router, path, wrong).await.status, StatusCode::UNAUTHORIZED);
        assert_eq!(send(&router, LEDGER, Some(("authorization", &credentials))).await.status, StatusCode::OK);
    }
    assert_eq!((start_time.elapsed(), access.failed_logins()), (Duration::ZERO, 4));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_credentials_is_not_a_failed_login() {
    let access = Access::bearer(TOKEN).expect("a token");
    let router = guarded(access.clone());
    let start_time = Instant::now();
    assert_eq!(send(&router, LEDGER, Some(("cookie", "theme=dark"))).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!((start_time.elapsed(), access.failed_logins()), (Duration::ZERO, 0));
}

#[tokio::test(start_paused = true)]
async fn all_responses_have_security_headers() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    let credentials = format!("Bearer {TOKEN}");
    let credentials = Some(("authorization", &*credentials));
    let link = format!("?token={}", encode(TOKEN));
    let paths = ["", "/api/ledger", "/api/nothing", "/api/total", &link];
    for (path, credentials) in paths.iter().flat_map(|path| [(path, credentials), (path, None)]) {
        let response = send(&router, &format!("/admin/stats{path}"), credentials).await;
        let header_value = |name: &str| response.headers.get(name).map(|value| value.to_str().expect("text"));
        let policy = header_value("content-security-policy").unwrap_or_default();
        let rules: Vec<_> = policy.split("; ").collect();
        for rule in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(rules.contains(&rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(header_value("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(header_value("cache-control"), Some("no-store"), "{path}");
        assert_eq!(response.headers.get_all("cache-control").iter().count(), 1, "{path}");
    }
}

#[tokio::test]
async fn debug_output_does_not_contain_secrets() {
    let all = Access::bearer(TOKEN).expect("a token").may_forget();
    let all = all.or(Access::basic("user", "secret").expect("a name and a password").may_record());
    assert_eq!(format!("{all:?}"), "Access::bearer(..).may_forget() or Access::basic(..).may_record()");
}

#[tokio::test]
async fn a_token_in_the_url_is_not_repeated_for_any_method() {
    let access = Access::bearer(TOKEN).expect("a token").may_forget();
    let router = guarded(access);
    let credentials = format!("Bearer {TOKEN}");
    for method in [Method::DELETE, Method::HEAD, Method::POST] {
        let path = format!("/admin/stats/api/counters?token={}", encode(TOKEN));
        let ResponseText { body, .. } =
            request(&router, method, &path, Some(("authorization", &credentials))).await;
        assert!(!body.contains(TOKEN), "{body}");
    }
}

fn guarded(access: Access) -> Router {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), access))
}
