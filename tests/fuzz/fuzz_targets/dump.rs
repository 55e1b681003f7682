//! Arbitrary bytes as lines of a dump, following a valid header: a line must be either accepted, or rejected,
//! in which case it must not change anything.
#![no_main]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use counter_core::dump::RestoreError;
use counter_core::unique::dump::{UniqueDump, UniqueRestore};
use counter_core::visits::Distribution;
use counter_core::{Counters, MemoryStore};
use libfuzzer_sys::fuzz_target;

const VISITS_HEADER: &[u8] = br#"{"line":1,"entry":{"dump":{"format":"access-counter","version":1,"id":"00112233445566778899aabbccddeeff","time":0,"counts":[],"visitors":[]}}}"#;

const UNIQUE_HEADER: &[u8] =
    br#"{"unique":1,"entry":{"dump":{"format":"access-counter","version":1,"time":0}}}"#;

fuzz_target!(|input: &[u8]| {
    let counters = Counters::builder(MemoryStore::new()).distributions(Distribution::precisions());
    let counters = counters.build().expect("the defaults are fine");
    for first in [&b""[..], VISITS_HEADER] {
        let mut restore = counters.restore();
        assert!(now_or_panic(restore.line(first)).is_ok());
        for line in input.split(|byte| *byte == b'\n') {
            let (lines, before) = (restore.lines(), restore.restored().clone());
            match now_or_panic(restore.line(line)) {
                Ok(()) => assert!(restore.lines() <= lines + 1),
                Err(RestoreError::Malformed { line, expected }) => {
                    assert!(line == lines + 1 && !expected.is_empty());
                    assert_eq!((restore.lines(), restore.restored()), (lines, &before));
                }
                Err(error) => panic!("{error}"),
            }
        }
        let (Ok(_) | Err(RestoreError::Truncated { .. })) = now_or_panic(restore.finish()) else {
            panic!("memory takes all");
        };
    }
    unique(input);
});

/// Lines of a unique counter dump. Accepted lines must survive being dumped and restored.
fn unique(input: &[u8]) {
    let store = MemoryStore::new();
    let mut restore = UniqueRestore::new(store.clone());
    for line in [UNIQUE_HEADER].into_iter().chain(input.split(|byte| *byte == b'\n')) {
        let (lines, before) = (restore.lines(), restore.restored());
        match now_or_panic(restore.line(line)) {
            Ok(()) => assert!(restore.lines() <= lines + 1),
            Err(RestoreError::Malformed { line, expected }) => {
                assert!(line == lines + 1 && !expected.is_empty());
                assert_eq!((restore.lines(), restore.restored()), (lines, before));
            }
            Err(error) => panic!("{error}"),
        }
    }
    let dumped = dump(&store);
    let again = MemoryStore::new();
    let mut restore = UniqueRestore::new(again.clone());
    for line in &dumped {
        now_or_panic(restore.line(line.as_bytes())).expect("a line of ours");
    }
    let restored = restore.finish().expect("all of them");
    assert_eq!((restored.added, restored.rejected), (restored.items, 0));
    assert_eq!(dump(&again).len(), dumped.len());
}

fn dump(store: &MemoryStore) -> Vec<String> {
    let mut dump = UniqueDump::new(store.clone());
    std::iter::from_fn(|| now_or_panic(dump.next()).expect("memory is there")).collect()
}

/// Polls a future that must be ready, because the memory store never waits.
fn now_or_panic<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("memory does not wait"),
    }
}
