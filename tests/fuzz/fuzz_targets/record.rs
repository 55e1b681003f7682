//! Arbitrary bytes as records from other programs: these must be either rejected, or parsed and decided.
#![no_main]

use std::cell::RefCell;

use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore, Recorder};
use counter_layer::{AccessCounterLayer, Facet, Rule, Rules};
use counter_log::record::Record;
use counter_log::{Decision, LogCounter};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static COUNTER: RefCell<(Recorder, LogCounter)> = RefCell::new(counter());
}

fuzz_target!(|input: &[u8]| COUNTER.with_borrow_mut(|(recorder, counter)| {
    for line in input.split(|byte| *byte == b'\n') {
        read(recorder, counter, line);
    }
}));

fn read(recorder: &Recorder, counter: &mut LogCounter, line: &[u8]) {
    let key = VisitorKey::new([7; 16]);
    match serde_json::from_slice::<Record<'_>>(line) {
        Ok(Record::Counter(record)) => {
            let hit = record.hit(recorder, Some(key));
            assert_eq!(hit, record.hit(recorder, Some(key)), "a record counts the same each time");
        }
        Ok(Record::Request(record)) => {
            let first = format!("{:?}", record.decide(counter, key));
            assert_eq!(
                first,
                format!("{:?}", record.decide(counter, key)),
                "a record counts the same each time"
            );
            if let Decision::Counted { hits, .. } = record.decide(counter, key) {
                assert!(!hits.is_empty());
            }
            let debug_output = format!("{record:?}");
            assert!(
                !debug_output.contains("user_agent") && !debug_output.contains("address"),
                "{debug_output}"
            );
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn counter() -> (Recorder, LogCounter) {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let rules = Rules::builder().rule(Rule::counter("a").pattern("/a/{id}")).default_counter("pages").build();
    let layer = AccessCounterLayer::new(counters.recorder()).rules(rules.expect("a rule")).facets([
        Facet::Status,
        Facet::Method,
        Facet::Agent,
    ]);
    (counters.recorder(), LogCounter::new(&layer))
}
