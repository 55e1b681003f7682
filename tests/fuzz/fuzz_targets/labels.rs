//! Labels for requests with arbitrary bytes in the query and headers.
//!
//! The lines of an input are a query, a referrer, a user agent and languages.
//!
//! A label must have exactly one value. The value must be short and must not reveal more than intended, i.e.
//! no address, no user and no path.
#![no_main]

use std::cell::RefCell;
use std::collections::HashSet;
use std::net::IpAddr;

use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore, Recorder};
use counter_layer::{AccessCounterLayer, Label};
use counter_log::{Decision, LogCounter, Parser};
use libfuzzer_sys::fuzz_target;

/// Log format with any header that can be used by a label. The query is part of the request line.
const LOG: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" "%{Accept-Language}i""#;

/// Labels to check, including one that can contain any text.
const LABELS: [&str; 6] = ["referrer", "campaign", "device", "browser", "language", "text"];

struct Site {
    recorder: Recorder,
    counter: LogCounter,
    parser: Parser,
    /// Values of the label `referrer` that were the source in a query. A host is not parsed if it equals a value.
    sources: HashSet<String>,
}

thread_local! {
    static SITE: RefCell<Site> = RefCell::new(site());
}

fuzz_target!(|input: &[u8]| SITE.with_borrow_mut(|site| check_input(site, input)));

fn check_input(site: &mut Site, input: &[u8]) {
    let mut parts = input.splitn(4, |byte| *byte == b'\n').chain([&b""[..]; 3]);
    let [query, referrer, agent, languages] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    let line = [
        b"192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /?",
        &escaped(query)[..],
        b" HTTP/1.1\" 200 7 \"",
        &escaped(referrer)[..],
        b"\" \"",
        &escaped(agent)[..],
        b"\" \"",
        &escaped(languages)[..],
        b"\"",
    ]
    .concat();
    let Some(first) = values(site, &line) else { return };
    // In a log, `-` means that there is none.
    let referrer = referrer.strip_prefix(b"-").filter(|rest| rest.is_empty()).unwrap_or(referrer);
    for (label, value) in LABELS.iter().zip(&first) {
        if *label == "referrer" && referrer.is_empty() {
            site.sources.insert(value.clone());
        }
        check(label, value, referrer, languages, &site.sources);
    }
    // A value keeps its slot across requests, but a value that doesn't have a slot might get one later.
    let again = values(site, &line).expect("as before");
    for (value, again) in first.iter().zip(&again) {
        assert!(value == again || value == "(other)", "{value:?}, and then {again:?}");
    }
}

/// Returns the label values, or `None` if the line isn't a request or isn't counted.
fn values(site: &mut Site, line: &[u8]) -> Option<Vec<String>> {
    let line = site.parser.parse(line).ok()??;
    let Decision::Counted { hits, .. } = site.counter.decide(&line, VisitorKey::new([7; 16])) else {
        return None;
    };
    let names: Vec<_> = hits.iter().filter_map(|hit| site.recorder.name(hit.counter())).collect();
    let values = LABELS.map(|label| {
        let mut values = names.iter().filter_map(|name| name.label()).filter(|(other, _)| *other == label);
        let (_, value) = values.next().expect("each label has a value");
        assert_eq!(values.next(), None, "a single value");
        value.to_owned()
    });
    Some(values.into())
}

fn check(label: &str, value: &str, referrer: &[u8], languages: &[u8], sources: &HashSet<String>) {
    assert!(!value.is_empty() && value.len() <= 200 && !value.chars().any(char::is_control), "{value:?}");
    if value.starts_with('(') && value.ends_with(')') {
        return assert!(["(none)", "(other)"].contains(&value), "{label}: {value:?}");
    }
    let is_of = |allowed: fn(&u8) -> bool| value.bytes().all(|byte| allowed(&byte));
    match label {
        // The source in the query.
        "referrer" if referrer.is_empty() => check_text(value),
        "referrer" => {
            let is_name = |byte: &u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.')
            };
            assert!(is_of(is_name) || sources.contains(value), "{value:?}");
            assert!(value.parse::<IpAddr>().is_err(), "{value:?}");
            let lower = referrer.to_ascii_lowercase();
            assert!(lower.windows(value.len()).any(|part| part == value.as_bytes()), "{value:?}");
            assert!(value != "own.example" && !value.ends_with(".own.example"), "{value:?}");
        }
        "campaign" => check_text(value),
        "language" => assert!((2..=3).contains(&value.len()) && is_of(u8::is_ascii_lowercase), "{value:?}"),
        "text" => assert_eq!(value.as_bytes(), languages.trim_ascii()),
        _ => assert!(is_of(|byte| byte.is_ascii_lowercase() || *byte == b'-'), "{label}: {value:?}"),
    }
}

/// Checks text from the query.
fn check_text(value: &str) {
    assert!(value.chars().count() <= 100 && value.trim() == value, "{value:?}");
    assert!(value.parse::<IpAddr>().is_err(), "{value:?}");
}

/// Escapes bytes like Apache does. It doesn't drop any bytes.
fn escaped(bytes: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b'"' | b'\\' => vec![b'\\', *byte],
        b' '..=b'~' => vec![*byte],
        _ => format!("\\x{byte:02x}").into_bytes(),
    };
    bytes.iter().flat_map(escape).collect()
}

fn site() -> Site {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let text =
        Label::from_fn("text", |head| head.headers.get("accept-language")?.to_str().ok().map(Into::into));
    let labels = [
        Label::referrer().internal_host("own.example".parse().expect("a host")),
        Label::campaign(),
        Label::device(),
        Label::browser(),
        Label::language(),
        text,
    ];
    let layer = AccessCounterLayer::new(counters.recorder()).labels(labels).expect("few of them");
    Site {
        recorder: counters.recorder(),
        counter: LogCounter::new(&layer),
        parser: Parser::new(LOG.parse().expect("a pattern")),
        sources: HashSet::new(),
    }
}
