//! The visitor cookie that is issued by the layer.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use counter_core::{Counters, MemoryStore, Timestamp};
use counter_layer::{AccessCounterLayer, Identity, IssuedCookie, Rules};
use http::header::{COOKIE, SET_COOKIE, USER_AGENT};
use http::{Request, Response};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{BOT, BROWSER, name, precision};

struct Site {
    counters: Counters,
    layer: AccessCounterLayer,
}

fn site(cookie: IssuedCookie) -> Site {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let layer = AccessCounterLayer::new(counters.recorder()).identity(cookie).expect("a name of a cookie");
    Site { counters, layer }
}

impl Site {
    /// Returns the cookie set by the response.
    async fn visit(&self, agent: &str, cookie: &str) -> Option<String> {
        let inner = service_fn(|_: Request<()>| {
            ready(Ok::<_, Infallible>(
                Response::builder().header(SET_COOKIE, "theirs=1").body(()).expect("a response"),
            ))
        });
        let request = Request::get("/page").header(USER_AGENT, agent).header(COOKIE, cookie);
        let request = request.body(()).expect("a request");
        let response = self.layer.layer(inner).oneshot(request).await.expect("it answers");
        let set: Vec<_> = response.headers().get_all(SET_COOKIE).iter().collect();
        assert_eq!(set[0], "theirs=1");
        assert!(set.len() <= 2, "{set:?}");
        set.get(1).map(|value| value.to_str().expect("ASCII").to_owned())
    }

    async fn visitors(&mut self) -> u64 {
        self.counters.flush().await.expect("memory takes all");
        let now = Timestamp::now();
        let range = now.minus(2 * 86_400)..now.plus(1);
        let uniques = self.counters.stats().uniques(&[name("hits")], precision(86_400), range).await;
        uniques.expect("memory can be read").visitors
    }
}

fn id(cookie: &str) -> &str {
    cookie.split(';').next().expect("a pair")
}

#[tokio::test]
async fn a_visitor_gets_a_cookie_once_and_is_recognized_by_it() {
    let mut site = site(Identity::issued_cookie("visitor"));
    let cookie = site.visit(BROWSER, "theme=dark").await.expect("a new visitor");
    let (pair, attributes) = cookie.split_once("; ").expect("attributes");
    let value = pair.strip_prefix("visitor=").expect("its name");
    assert!(value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit()), "{value}");
    assert_eq!(attributes, "Max-Age=31536000; Path=/; HttpOnly; SameSite=Lax; Secure");
    for _ in 0..5 {
        assert_eq!(site.visit(BROWSER, &format!("theme=dark; {pair}")).await, None);
    }
    assert_eq!(site.visitors().await, 1);
}

#[tokio::test]
async fn new_visitors_get_different_cookies() {
    let mut site = site(Identity::issued_cookie("visitor").insecure().max_age(Duration::from_secs(60)));
    let mut ids = BTreeSet::new();
    for _ in 0..20 {
        let cookie = site.visit(BROWSER, "").await.expect("a new visitor");
        assert!(cookie.ends_with("; Max-Age=60; Path=/; HttpOnly; SameSite=Lax"), "{cookie}");
        ids.insert(id(&cookie).to_owned());
    }
    assert_eq!(ids.len(), 20);
    // Ids are random: in about 1 % of runs, two of the twenty will share a sketch register.
    assert!((18..=20).contains(&site.visitors().await));
}

#[tokio::test]
async fn an_invalid_cookie_is_replaced() {
    let site = site(Identity::issued_cookie("visitor"));
    for forged in ["visitor=1", "visitor=", "visitor=ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ", "visitors=0"] {
        assert!(site.visit(BROWSER, forged).await.is_some(), "{forged}");
    }
}

#[tokio::test]
async fn a_bot_is_not_a_visitor_and_gets_no_cookie() {
    let mut site = site(Identity::issued_cookie("visitor"));
    for _ in 0..5 {
        assert_eq!(site.visit(BOT, "").await, None);
    }
    assert_eq!(site.visitors().await, 0);
    assert_eq!(site.counters.recorder().ledger().requests.recorded, 5);
}

#[tokio::test]
async fn an_excluded_request_gets_no_cookie() {
    let mut site = site(Identity::issued_cookie("visitor"));
    let nothing = Rules::builder().exclude("/page").build().expect("one pattern");
    site.layer = site.layer.rules(nothing);
    assert_eq!(site.visit(BROWSER, "").await, None);
}

#[test]
fn an_invalid_cookie_name_is_rejected() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let layer = AccessCounterLayer::new(counters.recorder());
    let error = layer.identity(Identity::issued_cookie("a b")).expect_err("not a token");
    assert_eq!(error.to_string(), "\"a b\" is not a valid cookie name");
}
