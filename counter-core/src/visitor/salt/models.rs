//! Models of the key cache and of the register cache. loom runs each with all results that the memory model allows, and
//! with all interleavings up to a number of preemptions: see `tests/tools/models`.

use std::ops::Range;
use std::sync::Arc;

use loom::model::Builder;
use loom::thread::spawn;

use super::current::Current;
use super::{STABLE_EPOCH, Salts};
use crate::time::Timestamp;
use crate::visitor::id::{PreparedKey, VisitorKey};

const FIRST: VisitorKey = VisitorKey::new([1; 16]);
const SECOND: VisitorKey = VisitorKey::new([2; 16]);

/// Runs a model with at most this number of preemptions.
fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

/// Replaces the first key by the second during a read.
fn replace(from: Range<u64>, to: Range<u64>, read: impl Fn(&Current) + Copy + Sync + Send + 'static) {
    model(3, move || {
        let current = Arc::new(Current::default());
        current.set(from.clone(), FIRST);
        // loom finds more if the other thread reads: it does not run the other thread at each step of a thread that has
        // already written.
        let thread = {
            let current = Arc::clone(&current);
            spawn(move || read(&current))
        };
        current.set(to.clone(), SECOND);
        thread.join().expect("no panic");
        assert!(current.get(Timestamp::from_unix(to.start)).is_some_and(|(key, _)| key == SECOND));
    });
}

#[test]
fn a_key_is_either_the_old_key_or_the_new_key() {
    replace(0..9, 0..9, |current| {
        let found = current.get(Timestamp::MIN);
        assert!(found.is_none_or(|(key, _)| [FIRST, SECOND].contains(&key)));
    });
}

#[test]
fn a_prepared_key_is_either_the_old_key_or_the_new_key() {
    replace(0..9, 0..9, |current| {
        let found = current.prepared(Timestamp::MIN);
        assert!(found.is_none_or(|(key, _)| [FIRST, SECOND].map(PreparedKey::of).contains(&key)));
    });
}

#[test]
fn a_key_is_only_returned_in_its_epoch() {
    for (second, key) in [(0, FIRST), (1, SECOND)] {
        replace(0..1, 1..2, move |current| {
            let found = current.get(Timestamp::from_unix(second));
            assert!(found.is_none_or(|found| found == (key, Timestamp::from_unix(second + 1))));
        });
    }
}

/// A process uses its own key until the store responds.
#[test]
fn no_register_stays_cached_after_its_key_was_replaced() {
    const VISITOR: [u8; 24] = [7; 24];
    model(2, || {
        let salts = Arc::new(Salts::new(STABLE_EPOCH, None));
        let (replaced, _) = salts.prepared_key(Timestamp::MIN);
        // Allocates the cache, because loom does not know that a `OnceLock` synchronizes threads.
        _ = salts.register(&[0; 24], Timestamp::MIN);
        let thread = {
            let salts = Arc::clone(&salts);
            spawn(move || _ = salts.register(&VISITOR, Timestamp::MIN))
        };
        salts.adopt(STABLE_EPOCH.bucket(Timestamp::MIN), [2; 16]);
        thread.join().expect("no panic");
        assert_eq!(salts.recent.find(replaced, &VISITOR), None);
    });
}
