//! Requests that aren't visits: those of bots, and prefetches of browsers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use counter_core::visitor::VisitorKey;
use counter_core::visits::Agent;
use counter_core::{Counters, MemoryStore, Timestamp};
use counter_layer::{AccessCounterLayer, Facet, Identity, Label, Rule, Rules};
use http::header::{SET_COOKIE, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode};
use proptest::prelude::*;
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{BOT, BROWSER, allocations, counted, fewest, name, precision};

#[tokio::test]
async fn bot_requests_count_but_bots_are_not_visitors() {
    let mut counters = counters();
    let layer = layer(&counters).rules(rules()).facets([Facet::Agent]);
    for agent in [BOT, "curl/8.5.0", "", BROWSER] {
        visit(&layer, "/articles/7", &[("user-agent", agent)]).await;
    }
    visit(&layer, "/articles/7", &[]).await;
    let expected = [("agent:bot", 4), ("agent:human", 1), ("articles", 5), ("hits", 5)];
    let expected: BTreeMap<_, _> = expected.map(|(counter, count)| (counter.to_owned(), count)).into();
    assert_eq!(counted(&mut counters).await, expected);
    assert_eq!([visitors(&counters, "hits").await, visitors(&counters, "articles").await], [1, 1]);
    let requests = counters.recorder().ledger().requests;
    assert_eq!((requests.observed, requests.recorded, requests.bots), (5, 5, 4));
}

#[tokio::test]
async fn bots_are_counted_by_name() {
    let mut counters = counters();
    let layer = layer(&counters).labels([Label::bot()]).expect("a label");
    for agent in [BOT, BOT, "Wget/1.21.4", "SomeSpider/1.0", "", BROWSER] {
        visit(&layer, "/", &[("user-agent", agent)]).await;
    }
    // A closure wins over the name.
    let people = layer.classify_agent(|_| Agent::Human);
    visit(&people, "/", &[("user-agent", BOT)]).await;
    counters.flush().await.expect("memory takes all");
    let names = ["(none)", "(other)", "Googlebot", "Wget"].map(|value| name(&format!("label:bot:{value}")));
    assert_eq!(counters.stats().lifetimes(&names).await.expect("memory can be read"), [2, 2, 2, 1]);
}

#[test]
fn naming_bots_does_not_allocate() {
    for agent in [BOT, "python-requests/2.32.3 (+https://example.com/bot)", "SomeSpider/1.0", BROWSER] {
        let counters = counters();
        let layer = layer(&counters).labels([Label::bot()]).expect("a label");
        let mut service = layer.layer(service_fn(|_| ok()));
        let mut visits = |n: u32| {
            let requests = (0..n).map(|_| request("/", &[("user-agent", agent)])).collect::<Vec<_>>();
            allocations(&mut service, requests)
        };
        visits(10);
        assert_eq!(fewest(|| visits(1000)), 0, "{agent}");
    }
}

#[tokio::test]
async fn a_bot_with_a_cookie_is_not_a_visitor() {
    let mut counters = counters();
    let identity = Identity::issued_cookie("visitor");
    let layer = layer(&counters).identity(identity).expect("a name of a cookie");
    let cookie = visit(&layer, "/", &[("user-agent", BROWSER)]).await.expect("a new visitor");
    let cookie = cookie.split(';').next().expect("a pair");
    let mut other = cookie.to_owned();
    other.replace_range(cookie.len() - 4.., "0000");
    assert_eq!(visit(&layer, "/", &[("user-agent", BOT), ("cookie", &other)]).await, None);
    assert_eq!(counted(&mut counters).await["hits"], 2);
    assert_eq!(visitors(&counters, "hits").await, 1);
}

#[tokio::test]
async fn bots_are_visitors_if_configured() {
    let mut counters = counters();
    let by_address = layer(&counters).bots_are_visitors();
    for agent in [BOT, BOT, BROWSER] {
        visit(&by_address, "/", &[("user-agent", agent)]).await;
    }
    assert_eq!(counted(&mut counters).await["hits"], 3);
    assert_eq!(visitors(&counters, "hits").await, 2);
    assert_eq!(counters.recorder().ledger().requests.bots, 2);

    let identity = Identity::issued_cookie("visitor");
    let by_cookie = by_address.identity(identity).expect("a name of a cookie");
    assert!(visit(&by_cookie, "/", &[("user-agent", BOT)]).await.is_some());
}

#[tokio::test]
async fn a_closure_classifies_agents_once_per_request_that_passes_the_rules() {
    let mut counters = counters();
    let calls = Arc::new(AtomicU64::new(0));
    let call_counter = Arc::clone(&calls);
    let layer = layer(&counters).rules(rules()).facets([Facet::Agent]).classify_agent(move |head| {
        call_counter.fetch_add(1, Ordering::SeqCst);
        if head.headers.contains_key("x-bot") { Agent::Bot } else { Agent::Human }
    });
    for path in ["/articles/7", "/healthz", "/nowhere"] {
        visit(&layer, path, &[("user-agent", BOT)]).await;
        visit(&layer, path, &[("user-agent", BROWSER), ("x-bot", "1")]).await;
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    let counted = counted(&mut counters).await;
    assert_eq!((counted["agent:bot"], counted["agent:human"]), (1, 1));
    assert_eq!(visitors(&counters, "hits").await, 1);
    assert_eq!(counters.recorder().ledger().requests.bots, 1);
}

#[tokio::test]
async fn a_prefetch_counts_like_any_request_unless_it_is_excluded() {
    let prefetch = [("user-agent", BROWSER), ("sec-purpose", "prefetch;prerender")];
    let (mut with, mut without) = (counters(), counters());
    let excluding = Rules::builder().exclude("/healthz").rule(articles()).exclude_prefetch();
    let excluding = layer(&with).rules(excluding.build().expect("one rule"));
    let plain = layer(&without).rules(rules());
    for layer in [&excluding, &plain] {
        for path in ["/articles/7", "/articles/8", "/healthz", "/nowhere"] {
            visit(layer, path, &prefetch).await;
        }
        visit(layer, "/articles/7", &[("user-agent", BROWSER)]).await;
    }
    for (counters, counts, visits) in [(&mut with, 2, 1), (&mut without, 0, 3)] {
        let requests = counters.recorder().ledger().requests;
        assert_eq!((requests.ignored.prefetch, requests.recorded), (counts, visits));
        assert_eq!((requests.excluded, requests.unmatched, requests.ignored.outcome), (1, 1, 0));
        assert_eq!(counted(counters).await["articles"], visits);
    }
}

#[test]
fn classifying_bots_and_prefetches_does_not_allocate() {
    let long = format!("{BROWSER}{}", "x".repeat(10_000));
    for agent in [BROWSER, BOT, &long, ""] {
        let counters = counters();
        let rules =
            Rules::builder().exclude_prefetch().default_counter("pages").build().expect("no patterns");
        let mut service = layer(&counters).rules(rules).layer(service_fn(|_| ok()));
        let mut visits = |n: u32| {
            let requests: Vec<_> = (0..n)
                .map(|n| {
                    let purpose = if n % 2 == 0 { "prefetch" } else { "a look" };
                    request("/", &[("user-agent", agent), ("sec-purpose", purpose)])
                })
                .collect();
            allocations(&mut service, requests)
        };
        visits(10);
        assert_eq!(fewest(|| visits(1000)), 0, "{agent}");
    }
}

/// Made up to resemble real clients, but not copied from a list.
const PEOPLE: [(&str, &[&str]); 9] = [
    (
        "desktops",
        &[
            BROWSER,
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36 Edg/138.0.0.0",
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
            "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36",
            "Mozilla/5.0 (Windows NT 6.1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/50.0.2661.94 Safari/537.36 ABROWSER",
            "Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko",
            "Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 5.1; Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1); .NET CLR 2.0.50727)",
            "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; Embedded Web Browser from: http://bsalsa.com/)",
            "Opera/9.80 (Windows NT 6.1; WOW64) Presto/2.12.388 Version/12.18",
            "Mozilla/5.0 (compatible; Konqueror/4.14; Linux) KHTML/4.14.2 (like Gecko)",
            "Mozilla/4.78 [en] (Win98; U)",
        ],
    ),
    (
        "texts",
        &[
            "Links (2.29; Linux 6.1.0-13-amd64 x86_64; GNU C 12.2; text)",
            "ELinks/0.17.1.1 (textmode; Linux; 80x24-2)",
            "Lynx/2.9.0 libwww-FM/2.14 SSL-MM/1.4.1 OpenSSL/3.2.1",
            "w3m/0.5.3+git20230121",
        ],
    ),
    (
        "phones",
        &[
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1 Fern",
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36",
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36 (Ecosia android@138.0.0.0)",
            "Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0",
            "Mozilla/5.0 (Windows Phone 10.0; Android 6.0.1; Microsoft; Lumia 950) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/52.0.2743.116 Mobile Safari/537.36 Edge/15.15063",
            // Device names that contain a word used by bots, even in parentheses.
            "Mozilla/5.0 (Linux; Android 9; CUBOT_X19 Build/PPR1.180610.011; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/119.0.0.0 Mobile Safari/537.36",
            "Mozilla/5.0 (Linux; U; Android 4.2.2; de-de; Spider (Feed) 7 Probe Build/JDQ39) AppleWebKit/534.30 (KHTML, like Gecko) Version/4.0 Mobile Safari/534.30",
        ],
    ),
    (
        "feature phones",
        &[
            "Nokia2700c-2/2.0 (09.97) Profile/MIDP-2.1 Configuration/CLDC-1.1",
            "SAMSUNG-GT-S5230/S5230XEIE1 SHP/VPP/R5 Jasmine/0.8 Profile/MIDP-2.1",
            "SonyEricssonK800i/R1KG Browser/NetFront/3.3 Profile/MIDP-2.0",
            "BlackBerry8520/5.0.0.681 VendorID/102",
            "KDDI-SN3A UP.Browser/6.2.0.13.2 (GUI) MMP/2.0",
            "DoCoMo/2.0 N905i(c100;TB;W24H16)",
            "LG-KG270 Obigo/WAP2.0 MMP/2.0",
            "PHONE61_HW (MRE/3.1.00(1280);MAUI/_V01;LCD/240320;WAP Browser/MAUI (HTTP PGDL;HTTPS);TOUCH/0)",
            "UCWEB/2.0 (MIDP-2.0; U; Adr 9; en-US; Bot_7) U2/1.0.0 UCBrowser/10.9.0.946 U2/1.0.0 Mobile",
            "Opera/9.80 (J2ME/MIDP; Opera Mini/7.1.32052/29.3709; U; en) Presto/2.8.119 Version/11.10",
            "Mozilla/5.0 (Mobile; Nokia_8110_4G; rv:48.0) Gecko/48.0 Firefox/48.0 KAIOS/2.5",
        ],
    ),
    (
        "televisions",
        &[
            "Mozilla/5.0 (SMART-TV; LINUX; Tizen 6.0) AppleWebKit/537.36 (KHTML, like Gecko) 76.0.3809.146/6.0 TV Safari/537.36",
            "Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/94.0.4606.128 Safari/537.36 SmartTV",
            "HbbTV/1.5.1 (+DRM;Panasonic;SmartTV2021;3.200;4001-0003;)",
            "Roku/DVP-12.5 (12.5.0.4178)",
            "Mozilla/5.0 (Linux; Android 9; AFTKA) AppleWebKit/537.36 (KHTML, like Gecko) Silk/98.6.10 Safari/537.36",
        ],
    ),
    (
        "consoles",
        &[
            "Mozilla/5.0 (PlayStation; PlayStation 5/6.00) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/15.4 Safari/605.1.15",
            "Mozilla/5.0 (Nintendo Switch; WifiWebAuthApplet) AppleWebKit/609.4 (KHTML, like Gecko) NF/6.0.2.20.5 NintendoBrowser/5.1.0.22443",
            "Mozilla/5.0 (PLAYSTATION 3; 3.55)",
            "Opera/9.50 (Nintendo DSi; Opera/507; U; en-US)",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox One) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/44.0.2403.157 Safari/537.36 Edge/44.18363.8131",
        ],
    ),
    (
        "readers and watches",
        &[
            "Mozilla/5.0 (X11; U; Linux armv7l like Android; en-us) AppleWebKit/531.2+ (KHTML, like Gecko) Version/5.0 Safari/533.2+ Kindle/3.0+",
            "atc/1.0 watchOS/10.4 model/Watch6,1 hwp/t8301 build/21T216 (6; dt:234)",
        ],
    ),
    (
        "views in apps",
        &[
            "Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/UQ1A.240105.004; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/138.0.0.0 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/470.0.0.0;]",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram 380.0.0.0 (iPhone15,2; iOS 18_5; en_GB; scale=3.00)",
            "Mozilla/5.0 (Linux; Android 12; M2 Build/SKQ1; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/120.0.0.0 Mobile Safari/537.36 com.example.mobile/3.1",
        ],
    ),
    (
        "apps",
        &[
            "Dalvik/2.1.0 (Linux; U; Android 14; Pixel 8 Build/UQ1A.240105.004)",
            "Paper/1234 CFNetwork/1494.0.7 Darwin/23.4.0",
            "Paper/5.1.4 (iPhone; iOS 17.4; Scale/3.00)",
            "Example.com/24.12.6 (Android/14/Pixel 8)",
        ],
    ),
];

/// Made up in the same way.
const BOTS: [(&str, &[&str]); 9] = [
    (
        "search engines",
        &[
            BOT,
            "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; BINGBOT/2.0) Chrome/116.0.1938.76 Safari/537.36",
            "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
            "SomeSPIDER 1.0",
        ],
    ),
    (
        "feeders of models",
        &[
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Claude-User/1.0; +Claude-User@anthropic.com)",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36; Surfer/1.0; +surfer.example",
        ],
    ),
    (
        "previews of links",
        &[
            "facebookexternalhit/1.1",
            "WhatsApp/2.23.20.0",
            "WhatsApp/2.23.20.0 A",
            "Slack-ImgProxy 0.19",
            "Some Link Preview (iPhone)",
        ],
    ),
    (
        "watchers",
        &[
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.7204.168 Safari/537.36 DatadogSynthetics",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36 (Wakeful)",
            "Mozilla/5.0 (Linux; Android 11; G Power (2022)) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/109.0.0.0 Mobile Safari/537.36 WakefulObservatory/1.0",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0; Uptime) Gecko/20100101 Firefox/140.0",
            "kube-probe/1.30",
        ],
    ),
    (
        "browsers without a window",
        &[
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/138.0.0.0 Safari/537.36",
            "Mozilla/5.0 (Unknown; Linux x86_64) AppleWebKit/538.1 (KHTML, like Gecko) PhantomJS/2.1.1 Safari/538.1",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/534.34 (KHTML, like Gecko) wkhtmltopdf Safari/534.34",
        ],
    ),
    (
        "libraries",
        &[
            "curl/8.5.0",
            "Wget/1.21.4 (linux-gnu)",
            "python-requests/2.32.3",
            "Go-http-client/2.0",
            "okhttp/4.12.0",
            "Java/21.0.2",
            "axios/1.7.2",
        ],
    ),
    (
        "those that point to themselves",
        &[
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36 Gatherer/2.0 (gatherer.example.com)",
            "Mozilla/5.0 (Windows NT 6.1; WOW64) gatherer.example.org/policy AppleWebKit/537.36 (KHTML, like Gecko) Chrome/48.0.2564.116 Safari/537.36",
            "Mozilla/5.0 (Linux; Android 9; Phone; https://gatherer.example) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/90.0.4430.91 Mobile Safari/537.36",
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 (me at home, me@gatherer.example)",
        ],
    ),
    (
        "those that name themselves where no browser does",
        &[
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko; Gatherer) Chrome/138.0.0.0 Safari/537.36",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36 (compatible; Gatherer)",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1 (compatible; Gatherer)",
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36 Gatherer",
        ],
    ),
    (
        "those that say nothing",
        &["", "Mozilla/5.0", "Mozilla/5.0 (compatible)", "Gatherer", "com.example.gatherer"],
    ),
];

#[test]
fn people_and_bots_of_all_kinds_are_classified_correctly() {
    let classify = classifier();
    for (classes, expected) in [(&PEOPLE, Agent::Human), (&BOTS, Agent::Bot)] {
        for (class, user_agents) in classes {
            for user_agent in *user_agents {
                for user_agent in
                    [(*user_agent).to_owned(), user_agent.to_uppercase(), user_agent.to_lowercase()]
                {
                    assert_eq!(classify(user_agent.as_bytes()), expected, "{class}: {user_agent}");
                }
            }
        }
    }
}

#[test]
fn only_the_first_kibibyte_of_a_user_agent_is_scanned() {
    let classify = classifier();
    let (near, far) = ("x".repeat(1024 - "gecko".len()), "x".repeat(1024));
    assert_eq!(classify(format!("{near}gecko").as_bytes()), Agent::Human);
    assert_eq!(classify(format!("{BROWSER}{far}bot").as_bytes()), Agent::Human);
    assert_eq!(classify(format!("{near}xgecko").as_bytes()), Agent::Bot);
    assert_eq!(classify(format!("{far}gecko").as_bytes()), Agent::Bot);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn the_ledger_balances_for_any_mix_of_agents_paths_and_prefetches(
        visits in prop::collection::vec((0_usize..3, 0_usize..4, any::<bool>()), 0..40),
    ) {
        let mut counters = counters();
        let rules = Rules::builder().exclude("/healthz").rule(articles()).exclude_prefetch();
        let layer = layer(&counters).rules(rules.build().expect("two patterns"));
        let layer = layer.count_if(|outcome| outcome.is_success());
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        // Recorded, bots, excluded, unmatched, ignored because of a prefetch, ignored because of the outcome.
        let mut expected = [0_u64; 6];
        for (agent, path, prefetch) in &visits {
            let headers = [("user-agent", [BROWSER, BOT, ""][*agent]), ("sec-purpose", "prefetch")];
            let path = ["/articles/7", "/healthz", "/nowhere", "/articles/missing"][*path];
            runtime.block_on(visit(&layer, path, if *prefetch { &headers } else { &headers[..1] }));
            let category = match path {
                "/healthz" => 2,
                "/nowhere" => 3,
                _ if *prefetch => 4,
                "/articles/missing" => 5,
                _ => 0,
            };
            expected[category] += 1;
            expected[1] += u64::from(category == 0 && *agent > 0);
        }
        let check = |counters: &Counters| {
            let ledger = counters.recorder().ledger();
            prop_assert!(ledger.requests.balance() && ledger.hits.balance(), "{:?}", ledger);
            let requests = ledger.requests;
            prop_assert_eq!(requests.observed, visits.len() as u64);
            let ignored = requests.ignored;
            let made = [requests.recorded, requests.bots, requests.excluded, requests.unmatched];
            let seen = [&made[..], &[ignored.prefetch, ignored.outcome]].concat();
            prop_assert_eq!(&seen, &expected);
            Ok(())
        };
        check(&counters)?;
        runtime.block_on(counters.flush()).expect("memory takes all");
        check(&counters)?;
    }
}

proptest! {
    // Combines fragments that affect the classification with any bytes that a header can contain.
    #[test]
    fn classification_ignores_case_and_text_after_the_scanned_part(
        pieces in prop::collection::vec(
            prop_oneof![
                prop::sample::select(vec![
                    "Mozilla/5.0 (", "; Android 9; ", "; Adr ", ")", "(", ".com", "/1", "Safari/537.36", " TV", "Gecko",
                    "; +", "compatible;", "bot", " Mobile", " ", "MSIE 6.0", "iPhone", "KHTML, like Gecko; ",
                ]).prop_map(|piece| piece.as_bytes().to_vec()),
                prop::collection::vec(prop_oneof![0x20_u8..0x7f, 0x80_u8..=0xff], 0..40),
            ],
            0..60,
        ),
        rest in prop::collection::vec(0x20_u8..0x7f, 0..400),
    ) {
        let classify = classifier();
        let user_agent = pieces.concat();
        let agent = classify(&user_agent);
        prop_assert_eq!(classify(&user_agent.to_ascii_uppercase()), agent);
        prop_assert_eq!(classify(&user_agent.to_ascii_lowercase()), agent);
        if user_agent.len() >= 1024 {
            prop_assert_eq!(classify(&[user_agent, rest].concat()), agent);
        }
    }
}

type Answer = Result<Response<()>, Infallible>;

fn ok() -> Ready<Answer> {
    ready(Ok(Response::new(())))
}

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

fn layer(counters: &Counters) -> AccessCounterLayer {
    // With this key, the visitors in these tests don't share a sketch register.
    let identity = Identity::default().key(VisitorKey::new([7; 16]));
    AccessCounterLayer::new(counters.recorder()).identity(identity).expect("an address under a key")
}

fn articles() -> Rule {
    Rule::counter("articles").pattern("/articles/*")
}

fn rules() -> Rules {
    Rules::builder().exclude("/healthz").rule(articles()).build().expect("two patterns")
}

fn request(path: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::get(path).extension(SocketAddr::from(([192, 0, 2, 1], 1000)));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request")
}

/// Returns a closure that classifies a user agent. It is derived from the ledger of the layer.
fn classifier() -> impl Fn(&[u8]) -> Agent {
    let counters = counters();
    let layer = layer(&counters);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    move |user_agent| {
        let bots = || counters.recorder().ledger().requests.bots;
        let (before, mut request) = (bots(), request("/", &[]));
        let user_agent = HeaderValue::from_bytes(user_agent).expect("no control characters");
        request.headers_mut().insert(USER_AGENT, user_agent);
        runtime.block_on(layer.layer(service_fn(|_| ok())).oneshot(request)).expect("it answers");
        if bots() > before { Agent::Bot } else { Agent::Human }
    }
}

/// Returns the cookie set by the response.
async fn visit(layer: &AccessCounterLayer, path: &str, headers: &[(&str, &str)]) -> Option<String> {
    let service = layer.layer(service_fn(|request: Request<()>| {
        let mut response = Response::new(());
        if request.uri().path().ends_with("/missing") {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        ready(Answer::Ok(response))
    }));
    let response = service.oneshot(request(path, headers)).await.expect("it answers");
    response.headers().get(SET_COOKIE).map(|cookie| cookie.to_str().expect("ASCII").to_owned())
}

/// Returns the visitors that the store knows as of the latest flush.
async fn visitors(counters: &Counters, counter: &str) -> u64 {
    let range = Timestamp::now().minus(2 * 86_400)..Timestamp::now().plus(1);
    let uniques = counters.stats().uniques(&[name(counter)], precision(86_400), range).await;
    uniques.expect("memory can be read").visitors
}
