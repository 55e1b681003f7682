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

use super::site::{Answer, Site, encode, request, send};

const TOKEN: &str = "a-token.of~its/own==";
const LEDGER: &str = "/admin/stats/api/ledger";

#[tokio::test(start_paused = true)]
async fn without_the_token_nobody_gets_in() {
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
    for shown in wrong {
        for path in ["", "/api/ledger", "/api/nothing", "/api/ledger?token=", "/api/ledger?token=wrong"] {
            let answer = send(&router, &format!("/admin/stats{path}"), shown).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path} with {shown:?}");
            assert_eq!(answer.headers[header::WWW_AUTHENTICATE], "Bearer");
            assert!(!answer.headers.contains_key(header::SET_COOKIE), "{path} with {shown:?}");
            assert!(answer.json()["detail"].is_string());
        }
    }
}

#[tokio::test]
async fn whoever_shows_the_token_gets_in() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    for scheme in ["Bearer", "bearer"] {
        for path in ["", "/api/ledger"] {
            let shown = format!("{scheme} {TOKEN}");
            let answer = send(&router, &format!("/admin/stats{path}"), Some(("authorization", &shown))).await;
            assert_eq!(answer.status, StatusCode::OK, "{path}");
        }
    }
}

#[tokio::test]
async fn a_link_with_the_token_is_exchanged_for_a_cookie_and_the_link_without() {
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
        let answer = send(&router, &format!("/admin/stats{path}"), None).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{path}");
        assert_eq!(answer.headers[header::LOCATION], format!("/admin/stats{to}"));
        let cookie = answer.headers[header::SET_COOKIE].to_str().expect("text");
        let (pair, attributes) = cookie.split_once("; ").expect("a cookie with attributes");
        assert_eq!(attributes, "Path=/admin/stats; HttpOnly; SameSite=Lax");
        assert!(!cookie.contains(TOKEN) && !answer.body.contains(TOKEN), "{cookie}");
        let opened = send(&router, "/admin/stats/api/ledger", Some(("cookie", pair))).await;
        assert_eq!(opened.status, StatusCode::OK);
        let among_others = format!("theme=dark; {pair}; lang=en");
        let opened = send(&router, "/admin/stats", Some(("cookie", &among_others))).await;
        assert_eq!(opened.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn the_cookie_is_for_tls_alone_when_the_owner_says_so_or_the_request_came_by_it() {
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
    for (access, address, shown, secure) in table {
        let answer = send(&guarded(access), &format!("{address}?token={}", encode(TOKEN)), shown).await;
        let cookie = answer.headers[header::SET_COOKIE].to_str().expect("text");
        let (_, attributes) = cookie.split_once("; ").expect("a cookie with attributes");
        let expected = if secure { "; Secure" } else { "" };
        assert_eq!(
            attributes,
            format!("Path=/admin/stats; HttpOnly; SameSite=Lax{expected}"),
            "{address} with {shown:?}"
        );
    }
}

#[tokio::test]
async fn the_cookie_is_for_tls_if_a_trusted_proxy_says_so() {
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
        let answer =
            router.clone().oneshot(link.body(Body::empty()).expect("a request")).await.expect("an answer");
        let cookie = answer.headers()[header::SET_COOKIE].to_str().expect("text");
        assert_eq!(cookie.ends_with("; Secure"), secure, "{peer} {protos:?}: {cookie}");
    }
}

#[test]
fn a_short_token_is_refused_and_a_random_one_is_offered() {
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
async fn a_link_with_the_token_works_a_second_time_and_is_redirected_again() {
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
async fn the_token_is_in_no_answer_even_when_it_is_shown_twice() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    let shown = format!("Bearer {TOKEN}");
    for question in ["", "/api/counters", "/api/total", "/api/ledger", "/api/nothing"] {
        let path = format!("/admin/stats{question}?token={}", encode(TOKEN));
        let answer = send(&router, &path, Some(("authorization", &shown))).await;
        assert!(!answer.body.contains(TOKEN), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_closure_lets_in_whom_it_likes() {
    let router = guarded(Access::from_fn(|parts| parts.headers.contains_key("x-staff")));
    let answer = send(&router, "/admin/stats/api/ledger", Some(("x-staff", "yes"))).await;
    assert_eq!(answer.status, StatusCode::OK);
    let answer = send(&router, "/admin/stats/api/ledger", None).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(answer.json()["detail"].is_string());
}

#[tokio::test]
async fn open_is_open() {
    let answer = send(&guarded(Access::open()), "/admin/stats/api/ledger", None).await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_name_and_its_password_get_in_and_nothing_near_them() {
    let router = guarded(Access::basic("Aladdin", "open sesame").expect("a name and a password"));
    for (shown, status) in [
        ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", 200),
        ("basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", 200),
        ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=", 401),
        ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZR==", 401),
        ("Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==", 401),
        ("Basic Aladdin:open sesame", 401),
        ("Basic", 401),
    ] {
        let answer = send(&router, LEDGER, Some(("authorization", shown))).await;
        assert_eq!(answer.status, status, "{shown}");
        if status == 401 {
            let challenge = "Basic realm=\"statistics\", charset=\"UTF-8\"";
            assert_eq!(answer.headers[header::WWW_AUTHENTICATE], challenge);
        }
    }
}

#[test]
fn what_is_no_name_and_no_password_is_refused() {
    for (user, password) in [("", "x"), ("x", ""), ("a:b", "x"), ("a\n", "x"), ("a", "x\0")] {
        let error: AccessError = Access::basic(user, password).expect_err("refused");
        assert!(!error.to_string().contains(password) || password.is_empty() || password == "x", "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_of_several_ways_leads_as_far_as_it_was_said() {
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
    for (shown, read, forget) in table {
        assert_eq!(send(&site.router, LEDGER, shown).await.status, read, "{shown:?}");
        let answer =
            request(&site.router, Method::DELETE, "/admin/stats/api/counters?counter=a", shown).await;
        assert_eq!(answer.status, forget, "{shown:?}: {}", answer.body);
        let challenges: Vec<_> = answer.headers.get_all(header::WWW_AUTHENTICATE).iter().collect();
        match forget {
            401 => assert_eq!(challenges.len(), 2, "{challenges:?}"),
            403 => assert_eq!(challenges, ["Bearer error=\"insufficient_scope\", scope=\"forget\""]),
            _ => assert_eq!(challenges.len(), 0),
        }
    }
}

#[tokio::test]
async fn nobody_forgets_unless_it_was_said() {
    for access in [Access::open(), Access::from_fn(|_| true), Access::bearer(TOKEN).expect("a token")] {
        let router = guarded(access);
        let shown = format!("Bearer {TOKEN}");
        for method in [Method::DELETE, Method::POST, Method::PUT] {
            let path = "/admin/stats/api/counters?counter=a";
            let answer = request(&router, method, path, Some(("authorization", &shown))).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.body);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_logins_are_counted_and_answered_at_once() {
    let access = Access::bearer(TOKEN).expect("a token");
    let router = guarded(access.clone());
    let shown = format!("Bearer {TOKEN}");
    let wrong = [
        (LEDGER, Some(("authorization", "Bearer wrong"))),
        (LEDGER, Some(("authorization", "Basic eA=="))),
        (LEDGER, Some(("authorization", "Bearer"))),
        ("/admin/stats?token=wrong", None),
    ];
    let begin = Instant::now();
    for (path, wrong) in wrong {
        assert_eq!(send(&router, path, wrong).await.status, StatusCode::UNAUTHORIZED);
        assert_eq!(send(&router, LEDGER, Some(("authorization", &shown))).await.status, StatusCode::OK);
    }
    assert_eq!((begin.elapsed(), access.failed_logins()), (Duration::ZERO, 4));
}

#[tokio::test(start_paused = true)]
async fn who_shows_nothing_has_made_no_attempt() {
    let access = Access::bearer(TOKEN).expect("a token");
    let router = guarded(access.clone());
    let begin = Instant::now();
    assert_eq!(send(&router, LEDGER, Some(("cookie", "theme=dark"))).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!((begin.elapsed(), access.failed_logins()), (Duration::ZERO, 0));
}

#[tokio::test(start_paused = true)]
async fn every_answer_tells_browsers_what_they_may_not_do() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    let shown = format!("Bearer {TOKEN}");
    let shown = Some(("authorization", &*shown));
    let link = format!("?token={}", encode(TOKEN));
    let paths = ["", "/api/ledger", "/api/nothing", "/api/total", &link];
    for (path, shown) in paths.iter().flat_map(|path| [(path, shown), (path, None)]) {
        let answer = send(&router, &format!("/admin/stats{path}"), shown).await;
        let said = |name: &str| answer.headers.get(name).map(|value| value.to_str().expect("text"));
        let policy = said("content-security-policy").unwrap_or_default();
        let rules: Vec<_> = policy.split("; ").collect();
        for rule in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(rules.contains(&rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(said("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(said("cache-control"), Some("no-store"), "{path}");
        assert_eq!(answer.headers.get_all("cache-control").iter().count(), 1, "{path}");
    }
}

#[tokio::test]
async fn no_secret_is_in_what_debug_shows() {
    let all = Access::bearer(TOKEN).expect("a token").may_forget();
    let all = all.or(Access::basic("user", "secret").expect("a name and a password").may_record());
    assert_eq!(format!("{all:?}"), "Access::bearer(..).may_forget() or Access::basic(..).may_record()");
}

#[tokio::test]
async fn a_token_in_the_address_is_not_said_again_whatever_the_method() {
    let access = Access::bearer(TOKEN).expect("a token").may_forget();
    let router = guarded(access);
    let shown = format!("Bearer {TOKEN}");
    for method in [Method::DELETE, Method::HEAD, Method::POST] {
        let path = format!("/admin/stats/api/counters?token={}", encode(TOKEN));
        let Answer { body, .. } = request(&router, method, &path, Some(("authorization", &shown))).await;
        assert!(!body.contains(TOKEN), "{body}");
    }
}

fn guarded(access: Access) -> Router {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), access))
}
