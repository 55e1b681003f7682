//! Arbitrary bytes as access log lines in any format.
//!
//! The first line of an input is a pattern or the name of a format, followed by log lines.
//!
//! Parsing and deciding must not depend on other lines, unless the format has directives.
#![no_main]

use std::cell::RefCell;

use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore};
use counter_layer::{AccessCounterLayer, Facet, Forwarded, Identity, Rule, Rules};
use counter_log::{Format, Lines, LogCounter, Parser};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static COUNTER: RefCell<LogCounter> = RefCell::new(counter());
}

fuzz_target!(|input: &[u8]| COUNTER.with_borrow_mut(|counter| read(counter, input)));

fn read(counter: &mut LogCounter, input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (first, log) = input.split_at(end);
    _ = Format::detect(log);
    let Ok(first) = str::from_utf8(first) else { return };
    let format: Format = match first.parse() {
        Ok(format) => format,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut parser = Parser::new(format.clone());
    let mut lines = Lines::new(log, 0).finished();
    let mut position = 0;
    while let Some(line) = lines.next().expect("it is in memory") {
        assert_eq!(line.range.start, position);
        position = line.range.end;
        let read = parser.parse(line.text).map(|line| line.map(|line| describe(counter, &line)));
        if !format.has_directives() {
            let separately = Parser::new(format.clone())
                .parse(line.text)
                .map(|line| line.map(|line| describe(counter, &line)));
            assert_eq!(read, separately);
        }
    }
    assert_eq!(position, log.len() as u64);
}

/// Formats the fields of a line, and the decision.
fn describe(counter: &mut LogCounter, line: &counter_log::Line<'_>) -> String {
    let headers: Vec<_> = line.headers().collect();
    let decision = counter.decide(line, VisitorKey::new([7; 16]));
    format!("{line:?} {:?} {:?} {:?} {headers:?} {decision:?}", line.method, line.target, line.peer)
}

fn counter() -> LogCounter {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let rules = Rules::builder().rule(Rule::counter("a").pattern("/a/{id}")).default_counter("pages").build();
    let identity = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    let layer = AccessCounterLayer::new(counters.recorder())
        .rules(rules.expect("a rule"))
        .facets([Facet::Status, Facet::Method, Facet::Agent])
        .identity(identity)
        .expect("days are fine");
    LogCounter::new(&layer).behind(Forwarded::X_FORWARDED_FOR, [10, 0, 0, 1].into())
}
