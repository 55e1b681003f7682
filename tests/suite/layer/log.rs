//! Access logs: a logged request must be counted like the request itself.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::process::Command;

use counter_core::visitor::VisitorKey;
use counter_core::visits::{Agent, Bin, Distribution, Measure, Requests};
use counter_core::{Builder, Counters, MemoryStore, Timestamp};
use counter_layer::{AccessCounterLayer, Facet, Forwarded, Identity, Ignore, Label, Outcome, Rule, Rules};
use counter_log::{Decision, Follower, Format, Import, Lines, LogCounter, LogFile, Parser};
use http::header::{ACCEPT_LANGUAGE, CONTENT_RANGE, RANGE};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;
use tests::{RedisServer, noon_offset};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{BOT, BROWSER, clf, fewest, name, store};

const KEY: VisitorKey = VisitorKey::new([7; 16]);

/// The combined log format, with four additional headers.
const LOG_FORMAT: &str = r#"log_format x escape=json '{"at":"$time_iso8601","request":"$request","status":$status,"agent":"$http_user_agent"}';"#;
const PATTERN: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" "%{X-Forwarded-For}i" "%{Sec-Purpose}i" "%{Accept-Language}i" "%{Range}i""#;

/// A request with the response status.
#[derive(Clone, Debug)]
struct Exchange {
    method: Method,
    target: String,
    headers: Vec<(&'static str, Vec<u8>)>,
    peer: IpAddr,
    status: u16,
}

impl Exchange {
    fn request(&self) -> Request<()> {
        let mut request = Request::builder().method(&self.method).uri(&self.target);
        for (name, value) in &self.headers {
            request = request.header(*name, HeaderValue::from_bytes(value).expect("a value"));
        }
        let mut request = request.body(()).expect("a request");
        request.extensions_mut().insert(SocketAddr::new(self.peer, 4711));
        request
    }

    /// Returns the request in Apache's log format.
    fn line(&self, at: Timestamp) -> Vec<u8> {
        let Self { method, target, peer, status, .. } = self;
        let time = clf(at);
        let mut line = format!("{peer} - - [{time}] \"").into_bytes();
        escape(format!("{method} {target} HTTP/1.1").as_bytes(), &mut line);
        line.extend(format!("\" {status} 7").into_bytes());
        for name in ["referer", "user-agent", "x-forwarded-for", "sec-purpose", "accept-language", "range"] {
            let value =
                self.headers.iter().find(|(other, _)| *other == name).map_or(&b"-"[..], |(_, value)| value);
            line.extend_from_slice(b" \"");
            escape(value, &mut line);
            line.push(b'"');
        }
        line
    }
}

/// Escapes a header like Apache.
pub(super) fn escape(text: &[u8], line: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', *byte]),
            0x20..0x7f => line.push(*byte),
            b'\t' => line.extend(b"\\t"),
            _ => line.extend(format!("\\x{byte:02x}").into_bytes()),
        }
    }
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let method = prop::sample::select(vec!["GET", "GET", "GET", "HEAD", "POST", "PURGE", "OPTIONS"]);
    let target = prop_oneof![
        r"/(articles|static|api|signup)?(/[a-z0-9]{1,3}|/%2[0-9a-f]|/\.\.|;x=1|//){0,3}/?(\?[a-z=&\\]{0,5})?",
        r"/articles/[0-9]{1,2}",
        r"https://www\.example\.org/articles/[0-9]",
        r"/articles/[0-9]\?(utm_source=[a-z]{1,2}|utm_campaign=[a-z%@]{0,3})",
    ];
    let agent = prop_oneof![
        Just(Some(BROWSER.as_bytes().to_vec())),
        Just(Some(BOT.as_bytes().to_vec())),
        prop::sample::select(vec!["GPTBot/1.2", "curl/8.5.0", "Wget", "Mozilla/5.0 Gecko Feedly/1.0"])
            .prop_map(|text| Some(text.as_bytes().to_vec())),
        Just(None),
        r#"(Mozilla|Gecko|["\\x\-] ?|bot|[ -~]|\t| é){0,12}"#
            .prop_map(|text| Some(text.trim().as_bytes().to_vec())),
    ];
    let address = r"(192\.0\.2|10\.0\.0)\.[0-9]|2001:db8::[0-9]";
    let forwarded = prop::option::of(prop::collection::vec(address, 1..4).prop_map(|list| list.join(", ")));
    let purpose = prop::option::weighted(0.1, Just("prefetch;prerender"));
    let referer = prop::option::of(r#"https://[a-z]{1,5}\.example/["\\a-z]{0,5}"#);
    let language = prop::option::of(r"(de|en|fr|xx|[a-z]{1,9})(-CH)?(,[a-z;=.0-9]{0,9})?");
    let status = prop::sample::select(vec![101_u16, 200, 200, 204, 206, 301, 304, 404, 500, 503]);
    let range =
        prop::option::of(prop::sample::select(vec!["bytes=0-", "bytes=0-8", "bytes=1-8", "bytes=-8"]));
    let all = (method, target, agent, forwarded, purpose, referer, language, status, address, range);
    all.prop_map(|(method, target, agent, forwarded, purpose, referer, language, status, peer, range)| {
        let headers = [
            ("user-agent", agent),
            ("x-forwarded-for", forwarded.map(Into::into)),
            ("sec-purpose", purpose.map(Into::into)),
            ("referer", referer.map(Into::into)),
            ("accept-language", language.map(Into::into)),
            ("range", range.map(Into::into)),
        ];
        // A value is logged as missing if it is empty after trimming, or a single `-`.
        let is_there = |value: &Vec<u8>| !value.is_empty() && value != b"-";
        let headers = headers.into_iter().filter_map(|(name, value)| Some((name, value.filter(is_there)?)));
        Exchange {
            method: method.parse().expect("a method"),
            target,
            headers: headers.collect(),
            peer: peer.parse().expect("an address"),
            status,
        }
    })
}

fn exchanges(count: usize) -> Vec<Exchange> {
    let exchanges = prop::collection::vec(exchange(), count);
    exchanges.new_tree(&mut TestRunner::default()).expect("a strategy").current()
}

pub(super) fn forwarded() -> counter_layer::ForwardedAddress {
    Identity::forwarded(Forwarded::X_FORWARDED_FOR)
}

/// All built-in labels, and a label from a closure.
pub(super) fn labels() -> [Label; 8] {
    [
        Label::referrer().internal_host("a.example".parse().expect("a host")).by_page(),
        Label::campaign(),
        Label::device(),
        Label::browser(),
        Label::bot().by_page(),
        Label::language(),
        // Some of the languages also are country codes.
        Label::country(ACCEPT_LANGUAGE, forwarded().trusted_hops(1)),
        Label::from_fn("section", |head| head.uri.path().split('/').nth(1).map(Into::into)),
    ]
}

fn address() -> Label {
    let address = Label::address().except_paths(["/api/*"]).expect("a pattern");
    address.except_if(|head| head.uri.query().is_some_and(|query| query.contains("utm_campaign")))
}

/// Returns layers with typical settings. Visitors are identified with the key, if there is a key, or with the
/// daily salt.
fn layers(counters: &Counters, key: Option<VisitorKey>) -> Vec<AccessCounterLayer> {
    let identify = |layer: AccessCounterLayer, identity: Identity| {
        let identity = if let Some(key) = key { identity.key(key) } else { identity };
        layer.identity(identity).expect("addresses identify visitors within a day")
    };
    let layer = || identify(AccessCounterLayer::new(counters.recorder()).views(), Identity::default());
    let rules = || {
        let weight = NonZeroU32::new(3).expect("not 0");
        Rules::builder()
            .rule(Rule::counter("articles").pattern("/articles/{id}").pattern("*.html"))
            .rule(Rule::counter("signups").pattern("/signup").method(Method::POST))
            .rule(Rule::counter("api").pattern("/api/*").weight(weight).without_visitors())
            .exclude("/static/*")
            .exclude_prefetch()
    };
    let feeds = counters.recorder().counter("feeds");
    vec![
        layer(),
        layer().facets([Facet::Agent, Facet::Method, Facet::Status]).labels(labels()).expect("labels"),
        identify(layer().rules(rules().build().expect("rules")), forwarded().trusted_hops(2).into()),
        identify(
            layer()
                .rules(rules().default_counter("pages").build().expect("rules"))
                .facets([Facet::Status])
                .count_if(|outcome| outcome != Outcome::Responded(StatusCode::NOT_FOUND)),
            forwarded().trusted_networks(["10.0.0.0/8".parse().expect("a network")]).into(),
        )
        .distributions([Measure::Status])
        .labels(labels().into_iter().chain([Label::source().people(), address(), Label::campaign().people()]))
        .expect("labels"),
        identify(
            layer()
                .bots_are_visitors()
                .count_on_request()
                .distributions([Measure::Status])
                .facets([Facet::Status, Facet::Method])
                .fallback(move |head| head.uri.query().is_some().then_some(feeds)),
            Identity::from_fn(|head| head.headers.get("referer").cloned()).into(),
        ),
        layer().ignore([
            Ignore::networks(forwarded().trusted_hops(1), ["192.0.2.0/30".parse().expect("a network")]),
            Ignore::header(HeaderName::from_static("sec-purpose")),
        ]),
        layer()
            .classify_agent(|head| if head.method == Method::HEAD { Agent::Bot } else { Agent::Human })
            .labels([Label::not_found(), Label::broken_link().by_page(), Label::source(), address()])
            .expect("labels"),
        // Missing pages count even if no rule matches.
        layer().rules(rules().build().expect("rules")).labels([Label::not_found()]).expect("labels"),
    ]
}

/// Stored counts (total, visitors, statuses) by counter, and the ledger.
type Counts = (BTreeMap<String, (u64, u64, Vec<(Bin, u64)>)>, Requests);

fn measured(builder: Builder) -> Counters {
    builder.distributions(Distribution::precisions()).build().expect("the defaults are fine")
}

async fn counts(counters: &mut Counters, at: Timestamp) -> Counts {
    counters.flush().await.expect("memory takes all");
    let stats = counters.stats();
    let known = stats.list_counters(None, 1000).await.expect("memory answers").counters;
    let mut counts = BTreeMap::new();
    let days = stats.grid().counts.of_width(86_400).expect("days are kept").precision;
    let range = at.minus(2 * 86_400)..at.plus(2 * 86_400);
    for counter in known.iter().map(|(counter, _)| counter.to_string()) {
        let one = [name(&counter)];
        let series = stats.series(&one[0], days, range.clone()).await.expect("days are kept");
        let total = series.samples.iter().map(|sample| sample.count).sum();
        let uniques = stats.uniques(&one, days, range.clone()).await.expect("days are kept");
        // Some counters don't have distributions.
        let statuses = stats.distribution(&one, days, range.clone(), Measure::Status).await;
        let statuses = statuses.map_or_else(|_| Vec::new(), |statuses| statuses.merged().bins().collect());
        counts.insert(counter, (total, uniques.visitors, statuses));
    }
    let views = stats.top_views(days, range.clone(), 1000, |_| true).await.expect("memory answers");
    for (counter, count) in views.counters {
        counts.insert(format!("view:{counter}"), (count, 0, Vec::new()));
    }
    for label in stats.labels().await.expect("memory answers") {
        let all = stats.label(&label, days, range.clone(), 1000).await.expect("days are kept");
        let counter = if ["address", "source"].contains(&&*label) { "view:hits" } else { "hits" };
        assert!(all.total == counts[counter].0 || ["not_found", "broken_link"].contains(&&*label), "{label}");
        assert_eq!(all.missed, 0, "{label}");
        let reserved = [("(none)".to_owned(), all.none), ("(other)".to_owned(), all.other)];
        for (value, count) in all.values.into_iter().chain(reserved) {
            let counter = format!("label:{label}:{value}");
            let people = stats.uniques(&[name(&counter)], days, range.clone()).await.expect("days are kept");
            assert!(people.visitors == 0 || label == "source" || label == "campaign", "{counter}");
            counts.insert(counter, (count, people.visitors, Vec::new()));
        }
    }
    for (counter, _) in &known {
        let labels = stats.labels_of_page(&[], counter, days, range.clone(), 1000).await;
        for (label, top) in labels.expect("memory answers") {
            for (value, count) in top.expect("days are kept").values {
                counts.insert(format!("label:{label}@:{counter} = {value}"), (count, 0, Vec::new()));
            }
        }
    }
    (counts, counters.recorder().ledger().requests)
}

async fn serve(layer: &AccessCounterLayer, exchange: &Exchange) {
    let status = StatusCode::from_u16(exchange.status).expect("a status");
    let answer = move |request: Request<()>| async move {
        let mut response = Response::new(());
        *response.status_mut() = status;
        if status == StatusCode::PARTIAL_CONTENT
            && let Some(range) = request.headers().get(RANGE)
        {
            let first = if range.as_bytes().starts_with(b"bytes=0-") { "bytes 0-8/9" } else { "bytes 1-8/9" };
            response.headers_mut().insert(CONTENT_RANGE, HeaderValue::from_static(first));
        }
        Ok::<_, Infallible>(response)
    };
    layer.layer(service_fn(answer)).oneshot(exchange.request()).await.expect("infallible");
}

/// Records a line like a source.
fn record(counters: &Counters, counter: &mut LogCounter, parser: &mut Parser, line: &[u8]) {
    let shown = || String::from_utf8_lossy(line);
    let line = parser.parse(line).unwrap_or_else(|reason| panic!("{reason}: {}", shown()));
    let line = line.expect("not empty");
    match counter.decide(&line, KEY) {
        Decision::Counted { hits, agent, measured } => {
            counters.recorder().request(hits, agent);
            counters.recorder().measure_at(measured, Timestamp::now());
        }
        Decision::Skipped(skip) => counters.recorder().skip(skip),
        Decision::Malformed(reason) => panic!("{reason}: {}", shown()),
    }
}

#[tokio::test]
async fn a_request_counts_the_same_through_the_layer_and_from_the_log() {
    let exchanges = exchanges(300);
    let new = || measured(Counters::builder(MemoryStore::new()));
    for number in 0..layers(&new(), None).len() {
        let (mut served, mut read) = (new(), new());
        let service = layers(&served, Some(KEY)).swap_remove(number);
        let mut counter = LogCounter::new(&layers(&read, None).swap_remove(number));
        let mut parser = Parser::new(Format::pattern(PATTERN).expect("a pattern"));
        let at = Timestamp::now();
        for exchange in &exchanges {
            serve(&service, exchange).await;
            record(&read, &mut counter, &mut parser, &exchange.line(at));
        }
        let (served, read) = (counts(&mut served, at).await, counts(&mut read, at).await);
        assert_eq!(served, read, "layer {number}");
        assert_eq!(read.1.observed, 300);
        assert!(read.0["hits"].1 > 1, "{read:?}");
        assert_eq!(read.0["hits"].2.is_empty(), number != 3, "{read:?}");
        assert_eq!(read.1.ignored.own > 10, number == 5, "{read:?}");
        // Requests that are counted on arrival are not known to show a page.
        let is_viewed = |count: &(u64, u64, _)| (1..read.0["hits"].0).contains(&count.0);
        assert_eq!(read.0.get("view:hits").is_some_and(is_viewed), number != 4, "{read:?}");
        let labels = |start: &str| read.0.keys().filter(|name| name.starts_with(start)).count();
        let at_least = [0, 40, 0, 40, 0, 0, 15, 2][number];
        assert!(labels("label:") >= at_least && (at_least > 0 || labels("label:") == 0), "{read:?}");
        assert_eq!(labels("label:referrer@:") > 2, number == 3, "{read:?}");
        assert_eq!(labels("label:not_found:/") > 5, number >= 6, "{read:?}");
        assert_eq!(labels("label:address@:") > 2, number == 3, "{read:?}");
        assert_eq!(labels("label:source:") > 2, [3, 6].contains(&number), "{read:?}");
        assert!(labels("label:address:/api") == 0 && labels("label:address@:/api") == 0, "{read:?}");
    }
}

/// Imports all that is new in a log.
async fn import(import: &mut Import, follower: &mut Follower) {
    for part in follower.poll().expect("the folder is there") {
        let name = format!("web-1:{}", part.fingerprint()).parse().expect("a name");
        import.count(name, |position| part.lines(position)).await.expect("the store is there");
    }
}

#[tokio::test]
async fn a_log_counts_once_with_several_importers_and_rotations() {
    let server = RedisServer::start();
    let mut served = measured(Counters::builder(MemoryStore::new()));
    let service = layers(&served, Some(KEY)).swap_remove(3);
    let at = Timestamp::now();
    let exchanges = exchanges(300);
    for exchange in &exchanges {
        serve(&service, exchange).await;
    }
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("access.log");
    let mut readers = Vec::new();
    for _ in 0..2 {
        let counters = measured(Counters::builder(store(&server.url()).await));
        let counter = LogCounter::new(&layers(&counters, Some(KEY)).swap_remove(3));
        let format = Format::pattern(PATTERN).expect("a pattern");
        readers.push((Import::new(counters.sources(), format, counter), Follower::new(&path), counters));
    }
    for (number, part) in exchanges.chunks(60).enumerate() {
        let mut log = OpenOptions::new().create(true).append(true).open(&path).expect("the log");
        for exchange in part {
            log.write_all(&[&exchange.line(at)[..], b"\n"].concat()).expect("room on the disk");
        }
        log.write_all(b"no request\n").expect("room on the disk");
        let (one, follower, _) = &mut readers[number % 2];
        import(one, follower).await;
        if number == 2 {
            let status = Command::new("gzip").arg(&path).status().expect("gzip");
            assert!(status.success());
        }
    }
    let mut malformed = 0;
    for (one, follower, _) in &mut readers {
        import(one, follower).await;
        // A new follower scans all parts, as after a restart.
        import(one, &mut Follower::new(&path)).await;
        malformed += one.report().malformed();
    }
    assert!(malformed >= 5, "{malformed}");
    let (served, _) = counts(&mut served, at).await;
    let (read, _) = counts(&mut readers[0].2, at).await;
    assert_eq!(served, read);
}

#[tokio::test]
async fn a_log_has_the_same_visitors_as_the_service() {
    let counters = Counters::builder(MemoryStore::new()).utc_offset(noon_offset());
    let mut counters = counters.build().expect("the defaults are fine");
    let layer = layers(&counters, None).swap_remove(2);
    // This flush agrees on the daily salt.
    counters.flush().await.expect("memory takes all");
    let (at, exchanges) = (Timestamp::now(), exchanges(200));
    for exchange in &exchanges {
        serve(&layer, exchange).await;
    }
    let before = counts(&mut counters, at).await.0;
    let log: Vec<u8> =
        exchanges.iter().flat_map(|exchange| [&exchange.line(at)[..], b"\n"].concat()).collect();
    let format = Format::pattern(PATTERN).expect("a pattern");
    let mut import = Import::new(counters.sources(), format, LogCounter::new(&layer));
    let open =
        |position: u64| Ok(Some(Lines::new(&log[usize::try_from(position).expect("short")..], position)));
    import.count("access.log".parse().expect("a name"), open).await.expect("memory takes all");
    let after = counts(&mut counters, at).await.0;
    let doubled = |(name, (count, visitors, statuses))| (name, (2 * count, visitors, statuses));
    assert_eq!(before.into_iter().map(doubled).collect::<BTreeMap<_, _>>(), after);
}

#[test]
fn counting_a_line_does_not_allocate() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let mut counter = LogCounter::new(&layers(&counters, None).swap_remove(2));
    let mut parser = Parser::new(Format::pattern(PATTERN).expect("a pattern"));
    let lines: Vec<_> = exchanges(300).iter().map(|exchange| exchange.line(Timestamp::now())).collect();
    // The rules allocate if they need to normalize a path, so we skip these.
    let target = |line: &[u8]| line.split(|byte| *byte == b' ').nth(6).unwrap_or_default().to_vec();
    let is_odd = |two: &[u8]| matches!(two, b"//" | b"/." | b"%2" | b";x");
    let is_plain = |line: &&Vec<u8>| !target(line).windows(2).any(is_odd);
    let lines: Vec<_> = lines.iter().filter(is_plain).collect();
    assert!(lines.len() > 100, "{}", lines.len());
    let mut read = |line: &[u8]| record(&counters, &mut counter, &mut parser, line);
    lines.iter().for_each(|line| read(line));
    let allocating =
        lines.iter().filter(|line| fewest(|| allocation_counter::measure(|| read(line)).count_total) > 0);
    let allocating: Vec<_> = allocating.map(|line| String::from_utf8_lossy(line)).collect();
    assert!(allocating.is_empty(), "{allocating:#?}");
}

/// Memory bound for reading any log: buffers for a few lines of 64 KiB.
const MAX_MEMORY: u64 = 1024 * 1024;

/// Reads a log like an import, and returns the number of bytes.
fn read_all(log: impl Read, format: &Format, counter: &mut LogCounter) -> u64 {
    let (mut lines, mut parser) = (Lines::new(log, 0).finished(), Parser::new(format.clone()));
    while let Some(line) = lines.next().expect("it can be read") {
        if let Ok(Some(line)) = parser.parse(line.text) {
            counter.decide(&line, KEY);
        }
    }
    lines.position()
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let any = prop_oneof![
        4 => exchange().prop_map(|exchange| exchange.line(Timestamp::now())),
        4 => prop::collection::vec(any::<u8>(), 0..200),
        2 => r#"[ "\\\[\]{}:,#a-z0-9%/\t-]{0,80}"#.prop_map(String::into_bytes),
        1 => (any::<u8>(), 0..300_000_usize).prop_map(|(byte, count)| vec![byte; count]),
        1 => Just(br#"{"request":{"headers":{"#.to_vec()),
        1 => (0..40_000_usize).prop_map(|depth| br#"{"a":["#.repeat(depth)),
        4 => Just(b"\n".to_vec()),
    ];
    prop::collection::vec(any, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_in_any_format_neither_panic_nor_exceed_the_memory_bound(
        log in bytes(),
        format in prop::sample::select(vec!["common", "combined", "vhost_combined", "main", "w3c", "caddy", "nginx", PATTERN, LOG_FORMAT]),
    ) {
        let format: Format = format.parse().expect("a format");
        let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
        let mut counter = LogCounter::new(&layers(&counters, None).swap_remove(2));
        let mut read = 0;
        let taken = allocation_counter::measure(|| read = read_all(&log[..], &format, &mut counter));
        prop_assert_eq!(read, log.len() as u64);
        prop_assert!(taken.bytes_max < MAX_MEMORY, "{:?}", taken);
        _ = Format::detect(&log);
    }
}

#[test]
fn a_compressed_log_is_not_loaded_into_memory_as_a_whole() {
    const SIZE: u64 = 16 * MAX_MEMORY;
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("access.log");
    File::create(&path).and_then(|file| file.set_len(SIZE)).expect("room on the disk");
    assert!(Command::new("gzip").arg("-1").arg(&path).status().expect("gzip").success());
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let mut counter = LogCounter::new(&layers(&counters, None).swap_remove(2));
    let mut read = 0;
    let taken = allocation_counter::measure(|| {
        let found = Follower::new(&path).poll().expect("the folder is there");
        assert_eq!(found.len(), 1);
        let log = LogFile::open(found[0].path()).expect("it can be read");
        read = read_all(log, &Format::combined(), &mut counter);
    });
    assert_eq!(read, SIZE);
    assert!(taken.bytes_max < MAX_MEMORY, "{taken:?}");
}
