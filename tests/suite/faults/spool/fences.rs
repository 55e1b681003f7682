//! Recovered batches must count once if a store loses replies or fences.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use counter_core::stores::{Answer, WriterId};
use counter_core::visits::{ApplyOutcome, Batch, StoredFence, Witness, Write};
use counter_core::{Error, ErrorKind, MemoryStore};

use super::{LIMIT, folder, over, record, run_until, spool, sums, total, write_and_end};
use crate::through::{Hand, Through};

/// A store that accepts a limited number of batches with hits.
#[derive(Clone, Debug, Default)]
struct Few {
    left: Arc<AtomicU64>,
    /// Replies that replace the actual replies to the next applied batches with hits.
    instead: Arc<Mutex<Vec<Result<ApplyOutcome, Error>>>>,
    /// Whether a fence is lost as soon as it is created.
    forgets: Arc<AtomicBool>,
    /// Whether the store reports that it evicts keys and does not list any writer.
    evicts: bool,
    is_away: Arc<AtomicBool>,
}

impl Few {
    fn takes(&self, batches: u64) {
        self.left.store(batches, Ordering::Relaxed);
    }
}

impl Hand for Few {
    fn pass(&self) -> Result<(), Error> {
        match self.is_away.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Unavailable)),
            false => Ok(()),
        }
    }

    fn apply<'a>(&'a self, store: &'a MemoryStore, batch: &'a Batch) -> Answer<'a, ApplyOutcome> {
        Box::pin(async move {
            if self.forgets.load(Ordering::Relaxed) {
                return Ok(match batch.fence.after {
                    0 => ApplyOutcome::Applied(Vec::new()),
                    _ => ApplyOutcome::SequenceGap { found: StoredFence::default() },
                });
            }
            let left = self.left.load(Ordering::Relaxed);
            if batch.hits() > 0 {
                self.takes(left.checked_sub(1).ok_or_else(|| Error::new(ErrorKind::Unavailable))?);
            }
            let outcome = store.apply(batch).await;
            let mut instead = self.instead.lock().expect("no panic");
            if batch.hits() > 0 && !instead.is_empty() { instead.remove(0) } else { outcome }
        })
    }

    fn witness(&self, _: WriterId) -> Option<Witness> {
        self.evicts.then(|| Witness { evicts: true, ..Witness::default() })
    }
}

/// Ends a process with a batch of 5 hits in the spool. A previous batch is already stored.
async fn leave_a_batch(store: &Through<Few>, folder: &Path) {
    let mut counters = over(store, folder);
    store.hand.takes(1);
    record(&counters, 1);
    counters.flush().await.expect("the store takes one");
    record(&counters, 5);
    counters.flush().await.expect_err("the store takes no other");
}

#[tokio::test]
async fn a_recovered_batch_whose_answer_was_lost_is_settled_when_it_is_found() {
    let (store, folder) = (Through::new(Few::default()), folder());
    leave_a_batch(&store, folder.path()).await;
    store.hand.takes(10);
    let lost = [
        Err(Error::new(ErrorKind::Unavailable)),
        Ok(ApplyOutcome::SequenceGap { found: StoredFence { sequence: 2, ..StoredFence::default() } }),
    ];
    store.hand.instead.lock().expect("no panic").extend(lost);
    let mut next = over(&store, folder.path());
    for _ in 0..2 {
        next.flush().await.expect("nothing of its own is to be sent");
    }
    assert!(store.hand.instead.lock().expect("no panic").is_empty());
    let hits = next.stats().ledger().hits;
    assert_eq!((sums(hits), hits.pending, total(&next.stats()).await), ((5, 5, 5), 0, 6));
    next.run(async {}).await.expect("nothing is left");
}

#[tokio::test]
async fn a_store_that_loses_fences_at_once_holds_up_no_flush() {
    let (store, folder) = (Through::new(Few::default()), folder());
    leave_a_batch(&store, folder.path()).await;
    store.hand.takes(10);
    store.hand.forgets.store(true, Ordering::Relaxed);
    let mut next = over(&store, folder.path());
    let flushed = tokio::time::timeout(LIMIT, next.flush()).await.expect("it ends");
    flushed.expect("nothing of its own is to be sent");
    store.hand.forgets.store(false, Ordering::Relaxed);
    next.flush().await.expect("the store is well");
    assert_eq!(next.stats().ledger().hits.pending, 0);
}

#[tokio::test]
async fn nothing_is_in_doubt_of_a_process_that_never_sent_a_count_though_the_store_evicts() {
    let (store, folder) = (Through::new(Few { evicts: true, ..Few::default() }), folder());
    store.hand.is_away.store(true, Ordering::Relaxed);
    let counters = over(&store, folder.path());
    record(&counters, 5);
    write_and_end(counters).await;
    store.hand.is_away.store(false, Ordering::Relaxed);
    store.hand.takes(10);
    let mut next = over(&store, folder.path());
    next.flush().await.expect("the store is there");
    let hits = next.stats().ledger().hits;
    assert_eq!((sums(hits), hits.dropped.in_doubt, total(&next.stats()).await), ((5, 5, 5), 0, 5));
}

#[tokio::test]
async fn hits_are_sent_after_a_lost_fence_although_the_disk_fails() {
    let (store, folder) = (Through::new(Few::default()), folder());
    let path = folder.path().join("spool");
    let mut counters = over(&store, &path);
    store.hand.takes(10);
    record(&counters, 1);
    counters.flush().await.expect("the store is there");
    std::fs::rename(&path, folder.path().join("elsewhere")).expect("on one disk");
    record(&counters, 1);
    run_until(&mut counters, "the disk fails", async |stats| spool(stats).failing_for.is_some()).await;
    record(&counters, 1);
    store.hand.forgets.store(true, Ordering::Relaxed);
    counters.flush().await.expect_err("the store keeps no fences");
    store.hand.forgets.store(false, Ordering::Relaxed);
    counters.flush().await.expect("the store is well");
    assert_eq!(total(&counters.stats()).await, 3);
    std::fs::rename(folder.path().join("elsewhere"), &path).expect("on one disk");
    counters.run(async {}).await.expect("nothing is left");
}
